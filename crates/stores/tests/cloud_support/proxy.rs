//! A proxy with the faults of networks: it loses answers, resets connections, delays and repeats requests.

use std::collections::VecDeque;
use std::sync::{Arc, LockResult, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault: the request passes. Used to reach a later request of an operation.
    Pass,
    /// The proxy answers instead of the server: status, and the code in an XML body.
    Answer(u16, &'static str),
    /// It takes effect, and the connection closes without an answer.
    LoseAnswer,
    /// It takes effect, and the connection closes half-way through the answer.
    CutAnswer,
    /// The connection closes before the whole request was read; it is not passed on.
    ResetRequest,
    /// It takes effect at once, but the sender stops waiting before the answer arrives.
    SlowAnswer,
    /// It is held back until the test releases it, after its sender has stopped waiting.
    Zombie,
    /// It is delivered twice; the sender gets the first answer.
    Twice,
}

/// Faults for the next requests, one each; after them, everything passes. Clones share one plan.
#[derive(Clone)]
pub struct Plan {
    faults: Arc<Mutex<VecDeque<Fault>>>,
    /// A permit for each zombie that is released.
    released: Arc<Semaphore>,
    /// A permit for each zombie that the server has answered.
    arrived: Arc<Semaphore>,
}

impl Plan {
    fn new() -> Self {
        let none = || Arc::new(Semaphore::new(0));
        Self { faults: Arc::default(), released: none(), arrived: none() }
    }

    /// The faults that have not occurred yet.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, VecDeque<Fault>>> {
        self.faults.lock()
    }

    /// Releases a zombie, and waits until the server has answered it.
    pub async fn deliver_zombie(&self) {
        self.released.add_permits(1);
        self.arrived.acquire().await.unwrap().forget();
    }
}

/// Starts a proxy to a port of this machine, and returns its own port. With `own_host`, the server gets its own name as
/// the host: fake-gcs-server needs that, but a signature that covers the host forbids it.
pub async fn start(upstream: u16, own_host: bool) -> (u16, Plan) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let plan = Plan::new();
    let faults = plan.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, upstream, own_host, faults.clone()));
        }
    });
    (port, plan)
}

/// One request per connection, which keeps the tests independent.
async fn serve(mut client: TcpStream, upstream: u16, own_host: bool, plan: Plan) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let fault = plan.lock().unwrap().pop_front();
    if fault == Some(Fault::ResetRequest) {
        // Closing with data unread sends a reset.
        return Ok(());
    }
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length =
        text.lines().find_map(|line| line.strip_prefix("content-length:")).map_or(0, |n| n.trim().parse().unwrap());
    let mut body = vec![0; length];
    client.read_exact(&mut body).await?;
    // The server closes the connection after its answer, which is then known to be complete.
    head.truncate(head.len() - 2);
    if own_host {
        let lines = String::from_utf8_lossy(&head).into_owned();
        let lines = lines.split_inclusive("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("host:"));
        head = lines.collect::<String>().into_bytes();
        head.extend_from_slice(format!("host: 127.0.0.1:{upstream}\r\n").as_bytes());
    }
    head.extend_from_slice(b"connection: close\r\n\r\n");
    head.extend_from_slice(&body);
    if fault == Some(Fault::Zombie) {
        plan.released.acquire().await.unwrap().forget();
    }
    let answer = match fault {
        Some(Fault::Answer(status, code)) => {
            let body = if code.is_empty() { String::new() } else { format!("<Error><Code>{code}</Code></Error>") };
            format!("HTTP/1.1 {status} Fault\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
                .into_bytes()
        }
        _ => pass(upstream, &head).await?,
    };
    if fault == Some(Fault::Zombie) {
        plan.arrived.add_permits(1);
    }
    match fault {
        Some(Fault::LoseAnswer) => return Ok(()),
        Some(Fault::CutAnswer) => return client.write_all(&answer[..answer.len() - 3]).await,
        // However this wait ends, the client has closed the connection.
        Some(Fault::SlowAnswer) => drop(client.read_u8().await),
        Some(Fault::Twice) => drop(pass(upstream, &head).await?),
        _ => {}
    }
    client.write_all(&answer).await?;
    client.shutdown().await
}

async fn pass(upstream: u16, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(("127.0.0.1", upstream)).await?;
    server.write_all(request).await?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await?;
    Ok(answer)
}
