//! A bucket of an S3 service: PUT, GET, DELETE and ListObjectsV2 of one bucket, path style, with a fault at any request.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

pub const BUCKET: &str = "mail";

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// 403, as for a wrong key.
    Refuses,
    /// Nothing is said.
    Hangs,
    /// 500, which may pass.
    Fails,
    /// The connection ends in the middle of the answer's body.
    Cuts,
    /// The object is kept, and the connection ends before the answer.
    Swallows,
}

#[derive(Default)]
pub struct Bucket {
    pub objects: BTreeMap<String, Vec<u8>>,
    /// Of the next requests, one each.
    pub faults: VecDeque<Fault>,
    /// Of every request after those.
    pub always: Option<Fault>,
    /// Method and key of every request.
    pub asked: Vec<String>,
}

/// A bucket that listens on loopback.
pub struct Server {
    pub endpoint: String,
    bucket: Arc<Mutex<Bucket>>,
}

struct Request {
    method: String,
    /// Without the bucket; decoded.
    key: String,
    query: BTreeMap<String, String>,
    is_signed: bool,
    body: Vec<u8>,
}

impl Server {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let bucket = Arc::new(Mutex::new(Bucket::default()));
        let served = bucket.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, served.clone()));
            }
        });
        Self {
            endpoint: format!("http://{address}"),
            bucket,
        }
    }

    pub fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().expect("a bucket")
    }
}

async fn serve(stream: TcpStream, bucket: Arc<Mutex<Bucket>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let request = read(&mut stream).await?;
        let (fault, status, body) = {
            let mut bucket = bucket.lock().expect("a bucket");
            bucket
                .asked
                .push(format!("{} {}", request.method, request.key));
            let fault = bucket.faults.pop_front().or(bucket.always);
            let (status, body) = match fault {
                Some(Fault::Refuses) => (403, error("AccessDenied")),
                Some(Fault::Fails) => (500, error("InternalError")),
                Some(Fault::Hangs) => (0, Vec::new()),
                _ if !request.is_signed => (403, error("MissingSecurityHeader")),
                _ => answer(&mut bucket, &request),
            };
            (fault, status, body)
        };
        if fault == Some(Fault::Hangs) {
            std::future::pending::<()>().await;
        }
        if fault == Some(Fault::Swallows) {
            return None;
        }
        let head = format!(
            "HTTP/1.1 {status} it\r\ncontent-length: {}\r\netag: \"1\"\r\nlast-modified: Fri, 20 Nov 2026 09:00:00 GMT\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.ok()?;
        let end = match fault {
            Some(Fault::Cuts) => body.len() / 2,
            _ => body.len(),
        };
        stream.write_all(&body[..end]).await.ok()?;
        stream.flush().await.ok()?;
        if fault == Some(Fault::Cuts) {
            return None;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut is_signed) = (0, false);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => {
                is_signed = value
                    .trim()
                    .starts_with("AWS4-HMAC-SHA256 Credential=key-id/");
            }
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let of_bucket = path.strip_prefix(&format!("/{BUCKET}"))?;
    let key = reqwest::Url::parse(&format!("http://x/?{}", of_bucket.trim_start_matches('/')));
    let key = key
        .ok()?
        .query_pairs()
        .next()
        .map(|(key, _)| key.into_owned());
    let query = reqwest::Url::parse(&format!("http://x/?{query}")).ok()?;
    Some(Request {
        method,
        key: key.unwrap_or_default(),
        query: query.query_pairs().into_owned().collect(),
        is_signed,
        body,
    })
}

fn answer(bucket: &mut Bucket, request: &Request) -> (u16, Vec<u8>) {
    match request.method.as_str() {
        "PUT" => {
            let (key, body) = (request.key.clone(), request.body.clone());
            bucket.objects.insert(key, body);
            (200, Vec::new())
        }
        "DELETE" => {
            bucket.objects.remove(&request.key);
            (204, Vec::new())
        }
        "GET" if request.key.is_empty() => (200, list(bucket, &request.query)),
        "GET" => match bucket.objects.get(&request.key) {
            Some(body) => (200, body.clone()),
            None => (404, error("NoSuchKey")),
        },
        _ => (405, error("MethodNotAllowed")),
    }
}

fn list(bucket: &Bucket, query: &BTreeMap<String, String>) -> Vec<u8> {
    let of = |name: &str| query.get(name).cloned().unwrap_or_default();
    let (prefix, after) = (of("prefix"), of("start-after"));
    let keys = bucket.objects.iter();
    let listed: String = keys
        .filter(|(key, _)| key.starts_with(&prefix) && **key > after)
        .take(1000)
        .map(|(key, body)| {
            format!(
                "<Contents><Key>{key}</Key><LastModified>2026-11-20T09:00:00.000Z</LastModified><ETag>\"1\"</ETag>\
                 <Size>{}</Size></Contents>",
                body.len()
            )
        })
        .collect();
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>")
        .into_bytes()
}

fn error(code: &str) -> Vec<u8> {
    format!("<Error><Code>{code}</Code><Message>no</Message></Error>").into_bytes()
}
