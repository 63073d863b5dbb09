//! Quarantine of letters during whose intake several engines in a row died: the owner is notified,
//! and the letter is not processed any more.

use crate::domain::{MailboxUid, NoticeId, NoticeKind, NoticeSubject};
use crate::store::db::Scope;
use crate::store::mailboxes::cursors::NOTE_REFUSED;
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::notices::wording::quoted;
use crate::store::{Result, Store};

/// Place of a quarantined letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quarantined {
    /// The letter stays in its mailbox, untouched.
    InMailbox(MailboxUid),
    /// The caller moves the file to `rejected/` of its folder.
    File { folder: String, name: String },
}

impl Quarantined {
    /// Reason of the quarantine, for display.
    pub const REASON: &'static str = "three engines in a row died while they took it";
}

impl Store {
    /// Records that a letter is quarantined, and notifies the owner. A second call for the same
    /// letter changes nothing.
    pub async fn quarantine_letter(&self, letter: Quarantined) -> Result<()> {
        let clock = self.clock().clone();
        let now = clock.now();
        transact!(self, Scope::Engine, |conn| {
            if let Quarantined::InMailbox(place) = &letter {
                conn.exec(
                    NOTE_REFUSED,
                    (
                        &place.mailbox,
                        place.uid_validity,
                        place.uid,
                        Quarantined::REASON,
                        true,
                        now,
                    ),
                )
                .await?;
            }
            emit(conn, &notice(&letter, NoticeId::new(clock.new_id())), now).await?;
            Ok(())
        })
        .await
    }
}

fn notice(letter: &Quarantined, id: NoticeId) -> NewNotice {
    let (subject, subject_id, occurrence, what, hint) = match letter {
        Quarantined::InMailbox(MailboxUid {
            mailbox,
            uid_validity,
            uid,
        }) => (
            NoticeSubject::Mailbox,
            mailbox.clone(),
            format!("{uid_validity}.{uid}"),
            format!(
                "the letter with UID {uid} of the mailbox {}",
                quoted(mailbox)
            ),
            "it lies there untouched, and is not fetched again; read it with another program"
                .to_owned(),
        ),
        Quarantined::File { folder, name } => (
            NoticeSubject::Folder,
            folder.clone(),
            name.clone(),
            format!("the letter file {} of {}", quoted(name), quoted(folder)),
            "it lies in `rejected/` there; moved back, it is tried again".to_owned(),
        ),
    };
    NewNotice {
        id,
        persona: None,
        kind: NoticeKind::LetterQuarantined,
        detail: subject_id.clone(),
        subject,
        subject_id,
        occurrence,
        summary: format!("{}: {what} was quarantined", Quarantined::REASON),
        hint: format!("{hint}; a letter that ends the engine is a bug of ours, please tell us"),
    }
}
