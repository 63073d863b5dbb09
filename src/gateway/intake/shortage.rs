//! Shortages for which letters and connections are refused: counted at each refusal, logged at once
//! and then once a minute, sent to the owner once an hour. Refused clients retry, so no letter is
//! lost, but no other record would show it.

use super::Intake;
use crate::domain::{NoticeId, NoticeKind, NoticeSubject, Timestamp};
use crate::gateway::intake_contract::Shortage;
use crate::store::NewNotice;
use std::collections::BTreeMap;
use std::mem::take;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Minimum time between two notices about one shortage.
const NOTIFY_EVERY: Duration = Duration::from_secs(60 * 60);

/// Refusals that are not logged yet.
#[derive(Default)]
pub(super) struct Shortages {
    refused: Mutex<BTreeMap<Shortage, u64>>,
    /// Instant of the last notice by shortage.
    notified: Mutex<BTreeMap<Shortage, Timestamp>>,
    noted: Notify,
}

impl Shortages {
    pub(super) fn note(&self, what: Shortage) {
        self.put_back(what, 1);
    }

    fn put_back(&self, what: Shortage, refused: u64) {
        *locked(&self.refused).entry(what).or_insert(0) += refused;
        self.noted.notify_one();
    }

    /// Resolves when a shortage was noted.
    pub(super) async fn noted(&self) {
        self.noted.notified().await;
    }
}

fn locked<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Intake {
    /// Logs the refusals since the last call, and emits a notice for each shortage without one
    /// within the last hour.
    pub async fn tell_shortages(&self) {
        let now = self.clock.now();
        let noted = take(&mut *locked(&self.shortages.refused));
        for (what, refused) in noted {
            let (says, hint) = self.words(what);
            let counted = if what == Shortage::NameServers {
                "so far"
            } else {
                "refused so far"
            };
            tracing::warn!(refused, "{says}");
            let notified = locked(&self.shortages.notified).get(&what).copied();
            if notified.is_some_and(|notified| now.since(notified) < NOTIFY_EVERY) {
                continue;
            }
            let fact = NewNotice {
                id: NoticeId::new(self.clock.new_id()),
                persona: None,
                kind: NoticeKind::LettersRefused,
                detail: word(what).to_owned(),
                subject: NoticeSubject::Ingress,
                subject_id: word(what).to_owned(),
                occurrence: now.to_string(),
                summary: format!("{says}; {counted}: {refused}"),
                hint: format!(
                    "{hint}; whoever was refused was asked to come again, so no letter is lost"
                ),
            };
            match self.store.emit_notice(fact).await {
                Ok(_) => drop(locked(&self.shortages.notified).insert(what, now)),
                // A full disk has no room for a notice either: it is told when there is.
                Err(error) => {
                    tracing::warn!(%error, "the owner cannot be told yet that letters are refused");
                    self.shortages.put_back(what, refused);
                }
            }
        }
    }

    /// Message and hint for a shortage.
    fn words(&self, what: Shortage) -> (String, &'static str) {
        let limits = &self.config.limits;
        match what {
            Shortage::Disk => (
                match self.has_space() {
                    false => format!(
                        "letters are refused: the disk below `data` has less than {} bytes free",
                        limits.free_disk_bytes_min
                    ),
                    true => "letters are refused: the disk below `data` has no room for a write, or had none".to_owned(),
                },
                "make room there, with `attache gc` for example, or lower `limits.free_disk_bytes_min` in \
                 configs/gateway.json",
            ),
            Shortage::OpenRuns => (
                format!("letters are refused: {} runs are open already", limits.open_runs_max),
                "`attache runs list` shows what they wait for; `limits.open_runs_max` in configs/gateway.json is their \
                 number",
            ),
            Shortage::LetterMemory => (
                "letters are refused: the unfinished letters of others hold all the memory there is for them"
                    .to_owned(),
                "it passes by itself: letters that hardly come on are cut off; if it comes back, somebody attacks, and a \
                 firewall is the place to stop it",
            ),
            Shortage::Connections => (
                format!(
                    "connections are turned away: hardly a place is left of {}, or of the file descriptors",
                    limits.connections_max
                ),
                "silent connections are cut off after seconds while it lasts; raise `limits.connections_max` in \
                 configs/gateway.json and the limit of open files, or stop an attacker by a firewall",
            ),
            Shortage::NameServers => (
                "letters wait: no name server says who sent them".to_owned(),
                "see whether the name servers of this machine answer, or name others as `authentication.resolver.servers` \
                 in configs/security.json; those that came from a mailbox or a file are held (`attache doctor` counts \
                 them) and verified again by themselves",
            ),
            Shortage::Unanswered => (
                "letters that nobody answers are refused for an hour: a network sends too many".to_owned(),
                "the log names the network: stop it by a firewall, or add its senders to `access.allow` in configs/security.json \
                 if they are to be answered",
            ),
        }
    }
}

/// Name of a shortage in a cause and in a subject line.
fn word(what: Shortage) -> &'static str {
    match what {
        Shortage::Disk => "disk space",
        Shortage::OpenRuns => "free runs",
        Shortage::LetterMemory => "memory",
        Shortage::Connections => "connections",
        Shortage::NameServers => "an answer of name servers",
        Shortage::Unanswered => "room for unanswered mail",
    }
}
