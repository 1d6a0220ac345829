//! Accepts connections, and ends them without losing an answer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower::util::{MapFuture, MapRequest};

use super::Limits;
use super::metrics::Metrics;
use super::sending::{Patient, Progress};
use crate::iceberg::request::with_spaces;
use crate::security::Tls;

/// The longest time of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a connection over HTTP/2 that is about to end waits for requests that its client had sent.
const LINGER: Duration = Duration::from_secs(2);

/// The most bytes of an answer that are given to a connection at once. Over HTTP/2 so much of each answer may wait in
/// it.
const PIECE_1: usize = 256 << 10;
const PIECE_2: usize = 16 << 10;

/// What to do if an address cannot be listened on.
pub(crate) fn next_step(cause: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match cause.kind() {
        ErrorKind::AddrInUse => "; another process listens there: stop it, or name another port (0: any that is free)",
        ErrorKind::AddrNotAvailable => {
            "; no network interface of this machine has the address (0.0.0.0: all that it has)"
        }
        ErrorKind::PermissionDenied => "; name a port of 1024 or above",
        _ => "",
    }
}

/// How connections are served.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) router: Router,
    pub(crate) tls: Option<Tls>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
}

/// Accepts connections until `stop` says so. Returns when the last connection has ended, each after the answers to the
/// requests that it had sent.
pub(crate) async fn accept(listener: TcpListener, serving: Serving, mut stop: watch::Receiver<bool>) {
    let free = Arc::new(Semaphore::new(serving.limits.most_connections));
    let (alive, mut all_ended) = mpsc::channel::<()>(1);
    loop {
        let next = async {
            let permit = Arc::clone(&free).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                pause(&error).await;
                continue;
            }
        };
        let (serving, stop, alive) = (serving.clone(), stop.clone(), alive.clone());
        tokio::spawn(async move {
            let (_permit, _alive) = (permit, alive);
            serving.metrics.connections.fetch_add(1, Ordering::Relaxed);
            let metrics = Arc::clone(&serving.metrics);
            connection(stream, serving, stop).await;
            metrics.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
    drop((listener, alive));
    // Nothing is ever sent: this ends when the last connection has.
    let _ = all_ended.recv().await;
}

/// Waits if the system has no connection to give, so that a server without file descriptors does not spin.
async fn pause(error: &io::Error) {
    let of_the_client = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset];
    if !of_the_client.contains(&error.kind()) {
        tracing::warn!(why = %error, "a connection was not accepted");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn connection(stream: TcpStream, serving: Serving, stop: watch::Receiver<bool>) {
    // Without it, small answers may wait for the client's acknowledgement.
    let _ = stream.set_nodelay(true);
    let stream = Patient::new(stream, serving.limits.idle_timeout);
    let Some(tls) = &serving.tls else { return http1(stream, &serving, stop).await };
    let accepting = TlsAcceptor::from(tls.config()).accept(stream);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, accepting).await else {
        tracing::debug!("a TLS handshake failed");
        return;
    };
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => http2(stream, &serving, stop).await,
        _ => http1(stream, &serving, stop).await,
    }
}

async fn http1<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: I,
    serving: &Serving,
    mut stop: watch::Receiver<bool>,
) {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(serving.limits.idle_timeout);
    builder.max_buf_size(serving.limits.most_header_bytes.max(8192));
    let progress = Progress::new();
    let router = MapRequest::new(serving.router.clone(), with_spaces);
    let service = MapFuture::new(router, move |answer| progress.answering(answer, PIECE_1));
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stopped(&mut stop) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    note(ended);
}

async fn http2<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: I,
    serving: &Serving,
    mut stop: watch::Receiver<bool>,
) {
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).keep_alive_interval(Duration::from_secs(20));
    builder.keep_alive_timeout(Duration::from_secs(20)).max_concurrent_streams(256);
    builder.max_header_list_size(u32::try_from(serving.limits.most_header_bytes).unwrap_or(u32::MAX));
    let progress = Progress::new();
    let (of_answers, router) = (Arc::clone(&progress), MapRequest::new(serving.router.clone(), with_spaces));
    let service = MapFuture::new(router, move |answer| of_answers.answering(answer, PIECE_2));
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(connection);
    let longest = serving.limits.idle_timeout;
    tokio::select! {
        biased;
        ended = connection.as_mut() => return note(ended),
        () = stopped(&mut stop) => {}
        () = progress.stalled(longest, (Instant::now(), longest)) => {}
    }
    // The client is told to send no more requests; those that are on their way are answered.
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        ended = connection.as_mut() => note(ended),
        () = progress.stalled(longest, (Instant::now(), LINGER.min(longest))) => {
            tracing::debug!("a client neither asks nor reads");
        }
    }
}

fn note(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(why = %error, "a connection broke");
    }
}

/// Done when connections are to end.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // What it borrows must not be held across other waits.
    let _ = stop.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use axum::routing::get;
    use tokio::io::{AsyncWriteExt as _, DuplexStream};
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    use super::*;

    const IDLE: Duration = Duration::from_secs(5);

    /// The client's side of a connection to a server whose answers take `works`, what ends the server, and its side.
    fn connect(works: Duration) -> (DuplexStream, watch::Sender<bool>, JoinHandle<()>) {
        let router = Router::new().route("/", get(async move || sleep(works).await));
        let limits = Limits { idle_timeout: IDLE, ..Limits::default() };
        let serving = Serving { router, tls: None, limits, metrics: Arc::default() };
        let (client, server) = tokio::io::duplex(1 << 16);
        let (end, stop) = watch::channel(false);
        (client, end, tokio::spawn(async move { http2(server, &serving, stop).await }))
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_loses_the_connection() {
        let (_client, _end, served) = connect(Duration::ZERO);
        let begun = Instant::now();
        served.await.unwrap();
        assert!(begun.elapsed() <= IDLE * 2, "{:?}", begun.elapsed());
    }

    /// It answers no pings either.
    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_does_not_hold_up_the_end_of_the_server() {
        let (mut client, end, served) = connect(Duration::ZERO);
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        client.write_all(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..]].concat()).await.unwrap();
        sleep(IDLE / 2).await;
        end.send(true).unwrap();
        let begun = Instant::now();
        served.await.unwrap();
        assert!(begun.elapsed() <= LINGER, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_nothing_more_loses_the_connection_and_no_answer() {
        let works = IDLE * 10;
        let (client, _end, served) = connect(works);
        let (requests, connection) = h2::client::handshake(client).await.unwrap();
        let connection = tokio::spawn(connection);
        let begun = Instant::now();
        for asked in 1..=2 {
            let mut ready = requests.clone().ready().await.unwrap();
            let (answer, _) = ready.send_request(Request::get("http://a/").body(()).unwrap(), true).unwrap();
            assert_eq!(answer.await.unwrap().status(), 200);
            assert!(begun.elapsed() >= works * asked, "{:?}", begun.elapsed());
            sleep(IDLE / 2).await;
        }
        let answered = Instant::now();
        served.await.unwrap();
        // It may have been about to write when the server ended.
        drop(connection.await.unwrap());
        assert!(answered.elapsed() <= IDLE + LINGER, "{:?}", answered.elapsed());
        drop(requests);
    }
}
