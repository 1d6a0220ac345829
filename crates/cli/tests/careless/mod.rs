//! A server with the part of S3 that the probe uses. It keeps objects in memory and ignores all conditions, as some
//! servers do.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Its objects, by path.
pub(crate) type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// Starts it for the rest of the test. Returns its port.
pub(crate) fn start() -> (u16, Objects) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let objects = Objects::default();
    let shared = Arc::clone(&objects);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let objects = Arc::clone(&shared);
            std::thread::spawn(move || serve(client, &objects));
        }
    });
    (port, objects)
}

/// One request on each connection.
fn serve(client: TcpStream, objects: &Objects) {
    let mut reader = BufReader::new(&client);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut words = head.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // The client may be gone already.
    let _ = (&client).write_all(&act(&mut objects.lock().unwrap(), method, target, body));
}

fn act(objects: &mut BTreeMap<String, Vec<u8>>, method: &str, target: &str, body: Vec<u8>) -> Vec<u8> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match method {
        "PUT" => {
            objects.insert(path.to_owned(), body);
            answer("200 OK", b"")
        }
        "DELETE" => {
            objects.remove(path);
            answer("204 No Content", b"")
        }
        "GET" if query.contains("list-type=2") => answer("200 OK", listing(objects).as_bytes()),
        _ => match objects.get(path) {
            Some(body) if method == "GET" => answer("200 OK", body),
            _ => answer("404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>"),
        },
    }
}

/// Lists everything, because the test puts nothing else there.
fn listing(objects: &BTreeMap<String, Vec<u8>>) -> String {
    let entry = |(path, body): (&String, &Vec<u8>)| {
        let key = path.splitn(3, '/').nth(2).unwrap_or_default();
        let size = body.len();
        format!(
            "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>\"1\"</ETag>\
             <Size>{size}</Size></Contents>"
        )
    };
    let entries: String = objects.iter().map(entry).collect();
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>")
}

fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\netag: \"1\"\r\nlast-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         content-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}
