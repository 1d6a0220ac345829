//! `glidepath serve` as a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

/// A server. It ends with the test.
pub(crate) struct Server {
    pub(crate) process: Child,
    pub(crate) url: String,
}

impl Server {
    /// A server on a store, whose lines of this level and above go there.
    pub(crate) fn start(store: &str, warehouse: &str, level: &str, to: Stdio) -> Self {
        let program = Command::new(assert_cmd::cargo::cargo_bin!("glidepath"));
        Self::start_by(program, [store, warehouse, level], to)
    }

    /// The same, by a command to which the arguments are added.
    pub(crate) fn start_by(mut command: Command, [store, warehouse, level]: [&str; 3], to: Stdio) -> Self {
        command.args(["serve", store, "--warehouse", warehouse, "--listen", "127.0.0.1:0", "--log-level", level]);
        let mut process = command.stdout(Stdio::piped()).stderr(to).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self { process, url }
    }

    /// The answer to a request.
    pub(crate) fn asked(&self, method: &str, path: &str, body: &str) -> String {
        let address = self.url.trim_start_matches("http://");
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}
