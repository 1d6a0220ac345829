//! A proxy that does what networks do: loses answers, resets, dawdles, repeats.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None: it passes. For an operation whose later request is to be struck.
    Pass,
    /// It is answered so without being passed on: status, and the code in an XML body.
    Answer(u16, &'static str),
    /// It takes effect, and the connection closes without an answer.
    LoseAnswer,
    /// It takes effect, and the connection closes half-way through the answer.
    CutAnswer,
    /// The connection closes before all of it was read; it is not passed on.
    ResetRequest,
    /// It takes effect at once, and the answer comes too late.
    SlowAnswer,
    /// It is passed on too late, long after its sender gave up.
    Zombie,
    /// It is delivered twice; the first answer is given.
    Twice,
}

/// How late is late.
pub const LATE: Duration = Duration::from_millis(1500);

/// Faults for the next requests, one each; then everything passes.
pub type Plan = Arc<Mutex<VecDeque<Fault>>>;

/// Starts a proxy to a port of this machine, and returns its own port. With `own_host` the server is told that it was
/// asked by its own name: fake-gcs-server wants that, and a signature that covers the name forbids it.
pub async fn start(upstream: u16, own_host: bool) -> (u16, Plan) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let plan = Plan::default();
    let faults = Arc::clone(&plan);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, upstream, own_host, Arc::clone(&faults)));
        }
    });
    (port, plan)
}

/// One request per connection, which keeps what is tested apart.
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
    // The server closes after its answer, which is then known to be whole.
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
        tokio::time::sleep(LATE).await;
    }
    let answer = match fault {
        Some(Fault::Answer(status, code)) => {
            let body = if code.is_empty() { String::new() } else { format!("<Error><Code>{code}</Code></Error>") };
            format!("HTTP/1.1 {status} Fault\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
                .into_bytes()
        }
        _ => pass(upstream, &head).await?,
    };
    match fault {
        Some(Fault::LoseAnswer) => return Ok(()),
        Some(Fault::CutAnswer) => return client.write_all(&answer[..answer.len() - 3]).await,
        Some(Fault::SlowAnswer) => tokio::time::sleep(LATE).await,
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
