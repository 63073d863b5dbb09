//! `GET /api/v1/events`: the feed as Server-Sent Events (HTML Standard, section 9.2).
//!
//! An event is a kind and ids; whoever wants to know more asks for it, so that no event tells what its reader may not see.
//! `id` is the event's number in the database: a reader that was cut off gets what it missed by `Last-Event-ID`, after a
//! restart of the engine, too. Nothing is buffered for a slow reader: the next page is read when the last one was taken. The right
//! to see it is asked for before each piece of events, a second after a commit, and every few seconds: a stream outlives no key and
//! no session.

use super::lists;
use super::pulse::{Follower, PIECE_MAX, PulseBeat, written};
use crate::domain::{RunId, ThreadId};
use crate::http::call::Call;
use crate::http::checks::CallRight;
use crate::http::connections::{ConnectionMark, StreamPlace};
use crate::http::failure::PageError;
use crate::http::reply;
use crate::http::route::RouteAccess;
use crate::store::{FeedFilter, FeedPage};
use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::sleep;

/// Pause after a look at the database that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// A stream of events, as far as it has come.
struct FeedStream {
    call: Call,
    right: CallRight,
    filter: FeedFilter,
    /// Number of the last event that was sent or passed over.
    seen: i64,
    follower: Follower,
    /// The connection, which takes no place from the pages.
    _place: Option<StreamPlace>,
    /// What the pulse had counted at its last beat.
    rights: u64,
    words: u64,
    is_first: bool,
    /// `true`: there may be more that was committed already.
    has_more: bool,
}

/// Follows the feed, of everything or of one persona, thread or run.
pub(in crate::http) async fn events(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let filter = FeedFilter {
        persona: lists::persona(&call)?,
        thread: match call.query("thread") {
            "" => None,
            typed => Some(ThreadId::new(typed)),
        },
        run: match call.query("run") {
            "" => None,
            typed => Some(RunId::new(typed)),
        },
    };
    let header = call.headers.get("last-event-id");
    let seen = match (header.and_then(|id| id.to_str().ok()), call.query("after")) {
        (Some(id), _) => number(id)?,
        (None, "") => store.feed_newest().await?,
        (None, after) => number(after)?,
    };
    let Some(follower) = call.context.pulse.follow() else {
        return Err(PageError::Busy);
    };
    let PulseBeat { rights, words, .. } = *follower.beats.borrow();
    let events = FeedStream {
        right: CallRight::of(&call, RouteAccess::Read),
        _place: call.connection.as_ref().map(ConnectionMark::streams),
        call,
        filter,
        seen,
        follower,
        rights,
        words,
        is_first: true,
        has_more: true,
    };
    let pieces = stream::unfold(events, |mut events| async move {
        let piece = events.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), events))
    });
    Ok(reply::events(Body::from_stream(pieces)))
}

fn number(typed: &str) -> Result<i64, PageError> {
    typed
        .parse::<i64>()
        .ok()
        .filter(|number| *number >= 0)
        .ok_or_else(|| PageError::Refused("the id of an event is a number".to_owned()))
}

impl FeedStream {
    /// Waits for the next piece; `None`: the stream ends, and its reader may come again.
    async fn next(&mut self) -> Option<String> {
        if std::mem::take(&mut self.is_first) {
            return Some("retry: 3000\n\n".to_owned());
        }
        loop {
            if self.has_more {
                match self.look().await {
                    Ok(piece) if piece.is_empty() => {}
                    // It was committed after the last look at the right, perhaps after its end.
                    Ok(piece) => {
                        let is_good = self.right.is_good().await;
                        return is_good.then_some(piece);
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a stream of events could not look at the feed");
                        sleep(PAUSE).await;
                    }
                }
                continue;
            }
            let changed = tokio::select! {
                biased;
                () = self.follower.closing.cancelled() => return None,
                changed = self.follower.beats.changed() => changed,
            };
            changed.ok()?;
            if let Some(piece) = self.heard().await? {
                return Some(piece);
            }
        }
    }

    /// Takes what the pulse gives to all; `Some(None)`: nothing of it is to be said, `None`: the stream ends.
    async fn heard(&mut self) -> Option<Option<String>> {
        let beat = self.follower.beats.borrow_and_update().clone();
        let piece = match beat.events.behind(self.seen, &self.filter) {
            Some((piece, through)) => {
                self.seen = through;
                piece
            }
            None => {
                self.has_more = true;
                String::new()
            }
        };
        let is_word_due = std::mem::replace(&mut self.words, beat.words) != beat.words;
        let is_look_due = std::mem::replace(&mut self.rights, beat.rights) != beat.rights;
        // The right to see it is looked at however much happens.
        if (is_look_due || is_word_due || !piece.is_empty()) && !self.is_good(&beat).await {
            return None;
        }
        Some(match (piece.is_empty(), is_word_due) {
            (false, _) => Some(piece),
            (true, true) => Some(": keep-alive\n\n".to_owned()),
            (true, false) => None,
        })
    }

    /// Reports whether the caller may still see this, with one look for all streams of a caller.
    async fn is_good(&self, beat: &PulseBeat) -> bool {
        let caller = self.right.credentials();
        let good = || beat.good.lock().unwrap_or_else(PoisonError::into_inner);
        if good().contains(&caller) {
            return true;
        }
        let is_good = self.right.is_good().await;
        if is_good {
            good().insert(caller);
        }
        is_good
    }

    async fn look(&mut self) -> Result<String, crate::store::StoreError> {
        let store = &self.call.context.store;
        let page = store.feed_after(self.seen, &self.filter, PIECE_MAX).await?;
        self.has_more = page.has_more();
        self.seen = page.through;
        Ok(piece(&page))
    }
}

/// Writes a page of the feed as events.
fn piece(page: &FeedPage) -> String {
    let mut piece = String::new();
    if page.has_gap {
        // What lies between is pruned, or of a database that is no more: everything is to be read anew.
        let _infallible = write!(piece, "event: gap\ndata: {{}}\n\n");
    }
    page.events
        .iter()
        .for_each(|event| piece.push_str(&written(event)));
    piece
}
