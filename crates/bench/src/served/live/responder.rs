//! A server that does nothing: it answers every request at once with the same text. What the clients cost is measured
//! against it.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A responder on loopback, in a thread of its own. It ends with the program.
#[derive(Debug)]
pub struct Responder {
    address: SocketAddr,
}

impl Responder {
    /// Starts it.
    ///
    /// # Errors
    /// If the system has no port or no thread.
    pub fn start() -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("responder".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                while let Ok((stream, _)) = listener.accept().await {
                    let _ = stream.set_nodelay(true);
                    tokio::spawn(answer_all(stream));
                }
            });
        })?;
        Ok(Self { address })
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// What a table of two kilobytes looks like.
fn answers() -> (Vec<u8>, Vec<u8>) {
    let padding = "x".repeat(1800);
    let body = format!(
        r#"{{"defaults":{{}},"overrides":{{}},"metadata-location":"file:///none","metadata":{{"table-uuid":"00000000-0000-0000-0000-000000000000","location":"file:///none","properties":{{"padding":"{padding}"}}}}}}"#
    );
    let head = |status: &str, length: usize| {
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\netag: \"one\"\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let whole = format!("{}{body}", head("200 OK", body.len())).into_bytes();
    (whole, "HTTP/1.1 304 Not Modified\r\netag: \"one\"\r\n\r\n".to_owned().into_bytes())
}

async fn answer_all(mut stream: TcpStream) {
    let (whole, unchanged) = answers();
    let (mut buffer, mut filled) = (vec![0_u8; 64 << 10], 0);
    loop {
        let Ok(read) = stream.read(&mut buffer[filled..]).await else { return };
        filled += read;
        if read == 0 {
            return;
        }
        let Some(end) = buffer[..filled].windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
        let length = head.split("content-length:").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
        let length: usize = length.unwrap_or(0);
        if filled < end + 4 + length {
            continue;
        }
        let answer = if head.contains("if-none-match:") { &unchanged } else { &whole };
        if stream.write_all(answer).await.is_err() {
            return;
        }
        filled = 0;
    }
}
