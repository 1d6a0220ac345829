//! Do connections leave a server the file descriptors that it needs for its store?

#![cfg(all(unix, feature = "serve"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/serving.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod serving;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serving::Server;

/// The answer to a request on a connection that stays.
fn asked(on: &mut BufReader<TcpStream>, method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    let header = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n");
    write!(on.get_mut(), "{header}Content-Length: {length}\r\n\r\n{body}").unwrap();
    let (mut answer, mut length) = (String::new(), 0);
    while !answer.ends_with("\r\n\r\n") {
        let begin = answer.len();
        on.read_line(&mut answer).unwrap();
        let line = answer[begin..].to_lowercase();
        length = line.strip_prefix("content-length:").map_or(length, |length| length.trim().parse().unwrap());
    }
    let mut body = vec![0; length];
    on.read_exact(&mut body).unwrap();
    answer + &String::from_utf8(body).unwrap()
}

fn connections(on: &mut BufReader<TcpStream>) -> u32 {
    let metrics = asked(on, "GET", "/metrics", "");
    metrics.lines().find_map(|line| line.strip_prefix("glidepath_connections ")).unwrap().parse().unwrap()
}

#[test]
fn idle_connections_do_not_take_the_descriptors_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().display());
    let mut limited = Command::new("sh");
    let program = assert_cmd::cargo::cargo_bin!("glidepath");
    limited.args(["-c", "ulimit -n 200; exec \"$0\" \"$@\""]).arg(program);
    let server = Server::start_by(limited, [&store, &format!("{store}/tables"), "error"], Stdio::inherit());
    let address = server.url.trim_start_matches("http://");
    let mut first = BufReader::new(TcpStream::connect(address).unwrap());
    let idle: Vec<TcpStream> = (0..180).map(|_| TcpStream::connect(address).unwrap()).collect();
    // Until no more are accepted.
    let (mut now, mut same) = (0, 0);
    while same < 50 {
        let next = connections(&mut first);
        same = if next == now && next >= 100 { same + 1 } else { 0 };
        now = next;
    }
    for number in 0..20 {
        let space = format!("{{\"namespace\":[\"n{number}\"]}}");
        let answer = asked(&mut first, "POST", "/v1/namespaces", &space);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    drop(idle);
}
