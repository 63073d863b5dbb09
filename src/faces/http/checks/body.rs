//! Bodies of bytes: bounded in size, by the rate at which they come, and in memory.
//!
//! While a body comes, little of it is held in memory: whoever sends slowly, or stops, costs a file without a name. A large body
//! is in memory from when it is whole until its handler has answered, and few are at a time.

use super::COME_AGAIN;
use crate::http::context::WebContext;
use crate::http::failure::PageError;
use axum::body::{Body, Bytes, HttpBody};
use futures_util::StreamExt;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

/// Bytes that are held in memory while a body comes.
const IN_MEMORY_MAX: usize = 1024 * 1024;
/// Time in which the least rate must be kept; shorter pauses are no matter.
const LOOK: Duration = Duration::from_secs(10);
/// Time for the whole: its most bytes at 64 KiB a second, and this besides.
const BODY_MAX: Duration = Duration::from_secs(20);
const BODY_BYTES_PER_SECOND: usize = 64 * 1024;
/// Time that a large body waits for room in memory.
const ROOM_WAIT: Duration = Duration::from_secs(30);

/// Bytes that must come in each span.
#[derive(Clone, Copy)]
struct BodyPace {
    look: Duration,
    bytes_min: usize,
}

/// Reads a body of at most `most` bytes. A large one comes with its room in memory.
pub(super) async fn read(
    context: &WebContext,
    body: Body,
    most: usize,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), PageError> {
    let seconds = u64::try_from(most / BODY_BYTES_PER_SECOND).unwrap_or(u64::MAX);
    let time = BODY_MAX.saturating_add(Duration::from_secs(seconds));
    let rate = context.config.limits.letter_bytes_per_second_min;
    let pace = BodyPace {
        look: LOOK,
        bytes_min: rate.saturating_mul(10),
    };
    let data = context.config.workspace.join("data");
    let received = timeout(time, receive(body, most, pace, &data)).await;
    let mut received = received.map_err(|_elapsed| PageError::TooSlow)??;
    if received.file.is_none() {
        return Ok((received.head.into(), None));
    }
    let room = timeout(ROOM_WAIT, context.large_bodies.clone().acquire_owned()).await;
    let Ok(Ok(room)) = room else {
        return Err(PageError::NoRoom(COME_AGAIN));
    };
    let whole = tokio::task::spawn_blocking(move || received.whole()).await;
    let whole = whole.map_err(|error| PageError::Internal(error.into()))?;
    let whole = whole.map_err(|error| PageError::Internal(error.into()))?;
    Ok((whole.into(), Some(room)))
}

/// A body that has come: its beginning, and the rest in a file.
#[derive(Default)]
struct ReceivedBody {
    head: Vec<u8>,
    file: Option<std::fs::File>,
    bytes: usize,
}

impl ReceivedBody {
    fn add(mut self, bytes: &[u8], folder: &Path) -> std::io::Result<Self> {
        self.bytes += bytes.len();
        if self.file.is_none() && self.bytes <= IN_MEMORY_MAX {
            self.head.extend_from_slice(bytes);
            return Ok(self);
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => unnamed(folder)?,
        };
        file.write_all(bytes)?;
        self.file = Some(file);
        Ok(self)
    }

    fn whole(&mut self) -> std::io::Result<Vec<u8>> {
        let mut whole = std::mem::take(&mut self.head);
        if let Some(mut file) = self.file.take() {
            whole.reserve_exact(self.bytes.saturating_sub(whole.len()));
            file.rewind()?;
            file.read_to_end(&mut whole)?;
        }
        Ok(whole)
    }
}

/// Makes a file without a name, which goes with its process.
fn unnamed(folder: &Path) -> std::io::Result<std::fs::File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("body-{}-{number}.part", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

async fn receive(
    body: Body,
    most: usize,
    pace: BodyPace,
    folder: &Path,
) -> Result<ReceivedBody, PageError> {
    if body.size_hint().lower() > most as u64 {
        return Err(PageError::TooLarge(most));
    }
    let (mut stream, mut received) = (body.into_data_stream(), ReceivedBody::default());
    loop {
        let (end, before) = (sleep(pace.look), received.bytes);
        tokio::pin!(end);
        loop {
            let chunk = tokio::select! {
                chunk = stream.next() => chunk,
                () = &mut end => break,
            };
            let chunk = match chunk {
                None => return Ok(received),
                Some(Ok(chunk)) => chunk,
                Some(Err(_)) => {
                    let message = "the body was cut off before its end".to_owned();
                    return Err(PageError::Refused(message));
                }
            };
            if received.bytes + chunk.len() > most {
                return Err(PageError::TooLarge(most));
            }
            let folder = folder.to_owned();
            received = match received.bytes + chunk.len() <= IN_MEMORY_MAX {
                true => received.add(&chunk, &folder),
                false => {
                    let adding = tokio::task::spawn_blocking(move || received.add(&chunk, &folder));
                    adding
                        .await
                        .map_err(|error| PageError::Internal(error.into()))?
                }
            }
            .map_err(|error| PageError::Internal(error.into()))?;
        }
        if received.bytes - before < pace.bytes_min {
            return Err(PageError::TooSlow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::io;

    const MOST: usize = 4 * IN_MEMORY_MAX;

    /// A body of pieces, each after a pause, that ends or says no more.
    fn body(pieces: Vec<usize>, pause_ms: u64, ends: bool) -> Body {
        let pieces = stream::iter(pieces).then(move |length| async move {
            sleep(Duration::from_millis(pause_ms)).await;
            Ok::<_, io::Error>(Bytes::from(vec![b'x'; length]))
        });
        match ends {
            true => Body::from_stream(pieces),
            false => Body::from_stream(pieces.chain(stream::pending())),
        }
    }

    #[tokio::test]
    async fn a_body_is_read_whole_or_refused_by_its_size_its_rate_or_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let pace = BodyPace {
            look: Duration::from_millis(40),
            bytes_min: 100,
        };
        let mib = IN_MEMORY_MAX;
        #[rustfmt::skip]
        let cases: Vec<(Body, Result<usize, u16>, &str)> = vec![
            (Body::empty(), Ok(0), "nothing"),
            (Body::from("a letter"), Ok(8), "short"),
            (body(vec![10, 20, 30], 1, true), Ok(60), "in pieces"),
            (body(vec![mib], 0, true), Ok(mib), "as much as memory holds"),
            (body(vec![mib, 1], 0, true), Ok(mib + 1), "a byte more"),
            (body(vec![mib; 4], 0, true), Ok(MOST), "as much as may be"),
            (body(vec![mib, mib, mib, mib, 1], 0, true), Err(413), "more than may be"),
            (Body::from(vec![0; MOST + 1]), Err(413), "announced as more"),
            (body(vec![], 0, false), Err(408), "silence"),
            (body(vec![2 * mib], 0, false), Err(408), "silence after much"),
            (body(vec![1; 200], 4, true), Err(408), "a byte now and then"),
            (body(vec![60; 40], 4, true), Ok(2400), "slow, and fast enough"),
            (body(vec![10], 5, true), Ok(10), "little, and soon at its end"),
            (Body::from_stream(stream::iter([Ok(Bytes::from("x")), Err(io::Error::other("gone"))])), Err(400), "cut off"),
        ];
        for (body, wanted, what) in cases {
            let received = receive(body, MOST, pace, folder.path()).await;
            let got = received.map(|mut received| {
                let whole = received.whole().expect("read back");
                assert!(received.head.len() <= mib, "{what}");
                whole.len()
            });
            assert_eq!(
                got.map_err(|error| error.status().as_u16()),
                wanted,
                "{what}"
            );
        }
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 0, "no file has a name");
    }
}
