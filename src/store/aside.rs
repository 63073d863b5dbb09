//! Letters that engine after engine died of while they were taken: told, and not taken any more.

use super::mailboxes::NOTE_REFUSED;
use super::notices::{NewNotice, quoted, raise};
use super::{Result, Store};
use crate::domain::{MailboxUid, NoticeId, NoticeKind, NoticeSubject};

/// A letter that is not taken any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetAside {
    /// It stays in its mailbox, untouched.
    InMailbox(MailboxUid),
    /// The caller moves it to `rejected/` of its folder.
    File { folder: String, name: String },
}

impl SetAside {
    /// Why it is not taken, for whoever looks for it.
    pub const REASON: &'static str = "three engines in a row died while they took it";
}

impl Store {
    /// Notes that a letter is not taken any more, and tells the owner. The same letter again is no news.
    pub async fn set_aside_letter(&self, letter: SetAside) -> Result<()> {
        let clock = self.clock().clone();
        let now = clock.now();
        self.write(move |conn| {
            Box::pin(async move {
                if let SetAside::InMailbox(place) = &letter {
                    let note = sqlx::query(NOTE_REFUSED).bind(&place.mailbox).bind(place.uid_validity);
                    let note = note.bind(place.uid).bind(SetAside::REASON).bind(true).bind(now.to_string());
                    note.execute(&mut *conn).await?;
                }
                raise(conn, &news(&letter, NoticeId::new(clock.new_id())), now).await?;
                Ok(())
            })
        })
        .await
    }
}

fn news(letter: &SetAside, id: NoticeId) -> NewNotice {
    let (subject, subject_id, occurrence, what, hint) = match letter {
        SetAside::InMailbox(MailboxUid { mailbox, uid_validity, uid }) => (
            NoticeSubject::Mailbox,
            mailbox.clone(),
            format!("{uid_validity}.{uid}"),
            format!("the letter with UID {uid} of the mailbox {}", quoted(mailbox)),
            "it lies there untouched, and is not fetched again; read it with another program".to_owned(),
        ),
        SetAside::File { folder, name } => (
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
        kind: NoticeKind::LetterSetAside,
        detail: subject_id.clone(),
        subject,
        subject_id,
        occurrence,
        summary: format!("{}: {what} was set aside", SetAside::REASON),
        hint: format!("{hint}; a letter that ends the engine is a bug of ours, please tell us"),
    }
}
