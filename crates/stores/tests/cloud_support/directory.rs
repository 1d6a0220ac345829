//! A server that behaves like a directory bucket of S3 Express One Zone, according to Amazon's documentation: it
//! requires sessions, and lists without order, in small pages, and only by folders. Objects are those of [`tiny`]. It
//! does not recompute signatures; it checks who signed, for which service, and what is signed.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use percent_encoding::percent_decode_str;
use tokio::net::TcpListener;

use super::tiny::{self, Bucket, Request, act, answer_with, refuse};

/// The bucket.
pub const NAME: &str = "lake--use1-az4--x-s3";
/// The access key id that may request a session, with any secret.
pub const KEY_ID: &str = "BASE";
/// The token that belongs to it.
pub const BASE_TOKEN: &str = "base-token";
pub const REGION: &str = "us-east-1";

/// How strict it is.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The number of requests for which a session is valid.
    pub uses: u64,
    /// The lifetime of sessions in its answers, in seconds, under an hour. The server does not enforce it.
    pub lasts: u64,
    /// Keys in a page of a listing.
    pub page: usize,
    /// The maximum number of appends to one object.
    pub most_parts: u64,
    /// Whether no session is given to anyone.
    pub closed: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { uses: u64::MAX, lasts: 300, page: 1000, most_parts: 10_000, closed: false }
    }
}

/// The state of the server, and what it saw.
pub struct Directory {
    pub rules: Rules,
    bucket: Bucket,
    /// By token: the access key, and the number of requests left.
    sessions: HashMap<String, (String, u64)>,
    given: u64,
    ended: u64,
    /// Client requests that break Amazon's rules.
    pub mistakes: Vec<String>,
}

/// A server.
#[derive(Clone)]
pub struct Server {
    pub port: u16,
    directory: Arc<Mutex<Directory>>,
}

impl Server {
    pub async fn start(rules: Rules) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (bucket, sessions, mistakes) = (Bucket::new(rules.most_parts), HashMap::new(), Vec::new());
        let directory = Arc::new(Mutex::new(Directory { rules, bucket, sessions, given: 0, ended: 0, mistakes }));
        let server = Self { port, directory };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let serving = serving.clone();
                tokio::spawn(tiny::serve(client, move |request| serving.look().answer(&request)));
            }
        });
        server
    }

    pub fn look(&self) -> MutexGuard<'_, Directory> {
        self.directory.lock().unwrap()
    }

    /// The number of sessions given, and of requests refused because their session had ended.
    pub fn sessions(&self) -> (u64, u64) {
        let directory = self.look();
        (directory.given, directory.ended)
    }

    /// The store, reached through this port.
    pub fn url(port: u16) -> url::Url {
        url::Url::parse(&format!("s3://{NAME}/below?endpoint=http://127.0.0.1:{port}")).unwrap()
    }
}

/// Who signed a request, and what is signed.
struct Signed {
    key: String,
    region: String,
    service: String,
    covers: Vec<String>,
}

fn signed(request: &Request) -> Option<Signed> {
    let header = request.header("authorization")?;
    let part = |name: &str| {
        let (_, rest) = header.split_once(&format!("{name}="))?;
        rest.split([',', ' ']).next().map(str::to_owned)
    };
    let scope = part("Credential")?;
    let [key, _, region, service, "aws4_request"] = scope.split('/').collect::<Vec<_>>()[..] else { return None };
    let covers = part("SignedHeaders")?.split(';').map(str::to_owned).collect();
    Some(Signed { key: key.to_owned(), region: region.to_owned(), service: service.to_owned(), covers })
}

impl Directory {
    fn answer(&mut self, request: &Request) -> Vec<u8> {
        let with_body = request.method != "HEAD";
        let mistakes = self.mistakes.len();
        let signed = self.check(request);
        let (Some(signed), true) = (signed, self.mistakes.len() == mistakes) else {
            return refuse("403 Forbidden", "AccessDenied", with_body);
        };
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        if query == "session" {
            return self.create_session();
        }
        let token = request.header("x-amz-s3session-token").unwrap_or_default();
        match self.sessions.get_mut(&token) {
            Some((key, uses)) if *key == signed.key && *uses > 0 => *uses -= 1,
            Some((key, _)) if *key == signed.key => {
                self.ended += 1;
                // Amazon does not document the status. Both must work.
                return match self.ended % 2 {
                    0 => refuse("400 Bad Request", "ExpiredToken", with_body),
                    _ => refuse("403 Forbidden", "AccessDenied", with_body),
                };
            }
            _ => {
                self.mistakes.push(format!("{} {}: no such session", request.method, request.target));
                return refuse("403 Forbidden", "InvalidToken", with_body);
            }
        }
        if query.contains("list-type=2") {
            return self.list(query);
        }
        let name = percent_decode_str(path).decode_utf8().unwrap().into_owned();
        let name = name.strip_prefix(&format!("/{NAME}/")).unwrap().to_owned();
        act(&mut self.bucket, request, &name, true)
    }

    /// Records what is wrong with the signing of a request.
    fn check(&mut self, request: &Request) -> Option<Signed> {
        let mut wrong = |why: &str| self.mistakes.push(format!("{} {}: {why}", request.method, request.target));
        let Some(signed) = signed(request) else {
            wrong("it is not signed");
            return None;
        };
        let session = !request.target.ends_with("?session");
        let [own, other] = match session {
            true => ["x-amz-s3session-token", "x-amz-security-token"],
            false => ["x-amz-security-token", "x-amz-s3session-token"],
        };
        if !request.target.starts_with(&format!("/{NAME}")) {
            wrong("it is about another bucket");
        }
        if signed.service != "s3express" || signed.region != REGION {
            wrong(&format!("it is signed for {} in {}", signed.service, signed.region));
        }
        if request.header(own).is_none() || request.header(other).is_some() {
            wrong("its token is in the wrong header");
        }
        if !session && (signed.key != KEY_ID || request.header(own).as_deref() != Some(BASE_TOKEN)) {
            wrong("an unknown client asks for a session");
        }
        for header in ["host", "x-amz-date", "x-amz-content-sha256", own] {
            if !signed.covers.iter().any(|covered| covered == header) {
                wrong(&format!("{header} is not signed"));
            }
        }
        let hash = request.header("x-amz-content-sha256").unwrap_or_default();
        if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            wrong(&format!("{hash:?} is not a hash of the content"));
        }
        Some(signed)
    }

    /// The times are those of the server's own clock, which is wrong.
    fn create_session(&mut self) -> Vec<u8> {
        if self.rules.closed {
            return refuse("403 Forbidden", "AccessDenied", true);
        }
        self.given += 1;
        let (key, token) = (format!("SESSION{}", self.given), format!("session-token-{}", self.given));
        self.sessions.insert(token.clone(), (key.clone(), self.rules.uses));
        let end = format!("2001-02-03T04:{:02}:{:02}Z", self.rules.lasts / 60, self.rules.lasts % 60);
        let body = format!(
            "<?xml version=\"1.0\"?>\n<CreateSessionResult><Credentials><SessionToken>{token}</SessionToken>\
             <SecretAccessKey>hidden</SecretAccessKey><AccessKeyId>{key}</AccessKeyId><Expiration>{end}</Expiration>\
             </Credentials></CreateSessionResult>"
        );
        answer_with("200 OK", None, "date: Sat, 03 Feb 2001 04:00:00 GMT\r\n", body.as_bytes(), true)
    }

    fn list(&mut self, query: &str) -> Vec<u8> {
        let given: HashMap<String, String> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let prefix = given.get("prefix").map_or("", String::as_str);
        let delimiter = given.get("delimiter").map_or("/", String::as_str);
        if given.contains_key("start-after") || !prefix.is_empty() && !prefix.ends_with('/') || delimiter != "/" {
            self.mistakes.push(format!("a listing by {query}"));
            return refuse("400 Bad Request", "InvalidRequest", true);
        }
        // An order unrelated to names, which stays the same while objects are added and removed.
        let place = |name: &str| {
            let mut hasher = DefaultHasher::new();
            name.hash(&mut hasher);
            hasher.finish()
        };
        let after: Option<u64> = given.get("continuation-token").map(|token| token.parse().unwrap());
        let fits = |name: &&String| name.starts_with(prefix) && after.is_none_or(|after| place(name) > after);
        #[expect(clippy::disallowed_methods, reason = "sorted below")]
        let mut names: Vec<&String> = self.bucket.objects.keys().filter(fits).collect();
        names.sort_by_key(|name| place(name));
        let asked: usize = given.get("max-keys").map_or(1000, |most| most.parse().unwrap());
        let shown = &names[..names.len().min(asked.min(self.rules.page))];
        let mut body = String::from("<?xml version=\"1.0\"?>\n<ListBucketResult>");
        for name in shown {
            let stored = &self.bucket.objects[*name];
            let (key, size, tag) = (name.replace('&', "&amp;").replace('<', "&lt;"), stored.content.len(), stored.tag);
            write!(
                body,
                "<Contents><Key>{key}</Key><LastModified>2001-02-03T04:00:00.000Z</LastModified><ETag>\"{tag}\"</ETag>\
                 <Size>{size}</Size></Contents>"
            )
            .unwrap();
        }
        if let Some(last) = shown.last().filter(|_| shown.len() < names.len()) {
            write!(body, "<NextContinuationToken>{}</NextContinuationToken>", place(last)).unwrap();
        }
        body.push_str("</ListBucketResult>");
        answer_with("200 OK", None, "", body.as_bytes(), true)
    }
}
