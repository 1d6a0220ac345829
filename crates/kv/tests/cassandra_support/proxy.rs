//! A proxy before one node that loses one request, or its answer, with or without their connection. The driver finds a
//! node under the address at which it reached it, so all its connections go through here.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not reach the node, and its connection is closed.
    LostRequest,
    /// It reaches the node, which answers; then its connection is closed.
    LostAnswer,
    /// The same, and the connection stays open.
    Silence,
}

#[derive(Debug)]
struct Strike {
    fault: Fault,
    /// Bytes that the request has in it.
    marker: Vec<u8>,
}

pub struct Proxy {
    pub address: SocketAddr,
    next: Arc<Mutex<Option<Strike>>>,
    /// How many answers were lost.
    lost: watch::Receiver<usize>,
}

/// Bytes of a frame before its body: version, flags, stream (2), kind, length (4).
const HEADER: usize = 9;

async fn frame(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HEADER];
    from.read_exact(&mut bytes).await.ok()?;
    let length = u32::from_be_bytes(bytes[5..].try_into().unwrap());
    bytes.resize(HEADER + usize::try_from(length).unwrap(), 0);
    from.read_exact(&mut bytes[HEADER..]).await.ok()?;
    Some(bytes)
}

fn stream_of(frame: &[u8]) -> [u8; 2] {
    [frame[2], frame[3]]
}

impl Proxy {
    pub async fn start(node: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (count, lost) = watch::channel(0);
        let proxy = Self { address: listener.local_addr().unwrap(), next: Arc::default(), lost };
        let (node, next) = (node.to_owned(), proxy.next.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&node).await.unwrap();
                tokio::spawn(pass(client, server, next.clone(), count.clone()));
            }
        });
        proxy
    }

    /// Strikes the next request that has these bytes in it.
    pub fn strike(&self, fault: Fault, marker: &str) {
        *self.next.lock().unwrap() = Some(Strike { fault, marker: marker.as_bytes().to_vec() });
    }

    /// Waits until so many answers were lost: what they answer has then happened.
    pub async fn await_lost(&self, answers: usize) {
        self.lost.clone().wait_for(|lost| *lost >= answers).await.unwrap();
    }

    /// Whether the fault that was ordered has happened.
    pub fn struck(&self) -> bool {
        self.next.lock().unwrap().is_none()
    }
}

/// Frames of both directions, until one of them is struck or an end is closed.
async fn pass(client: TcpStream, server: TcpStream, next: Arc<Mutex<Option<Strike>>>, lost: watch::Sender<usize>) {
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let unanswered: Arc<Unanswered> = Arc::default();
    let answers = answers(from_server, to_client, unanswered.clone(), lost);
    let requests = async {
        while let Some(request) = frame(&mut from_client).await {
            match struck(&next, &request) {
                Some(Fault::LostRequest) => return,
                Some(fault) => *unanswered.lock().unwrap() = Some((stream_of(&request), fault)),
                None => {}
            }
            if to_server.write_all(&request).await.is_err() {
                return;
            }
        }
    };
    // The first to end drops the other, and with it the connections.
    tokio::select! { () = requests => {}, () = answers => {} }
}

/// The request that must not be answered, by its stream.
type Unanswered = Mutex<Option<([u8; 2], Fault)>>;

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    unanswered: Arc<Unanswered>,
    lost: watch::Sender<usize>,
) {
    while let Some(answer) = frame(&mut from).await {
        let struck = unanswered.lock().unwrap().take_if(|(stream, _)| *stream == stream_of(&answer));
        match struck {
            Some((_, fault)) => {
                lost.send_modify(|lost| *lost += 1);
                if fault == Fault::LostAnswer {
                    return;
                }
            }
            None => {
                if to.write_all(&answer).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn struck(next: &Mutex<Option<Strike>>, request: &[u8]) -> Option<Fault> {
    let mut next = next.lock().unwrap();
    let marker = &next.as_ref()?.marker;
    request.windows(marker.len()).any(|bytes| bytes == marker).then(|| next.take())?.map(|strike| strike.fault)
}
