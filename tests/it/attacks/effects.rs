//! Effects, as cases name them, and what is seen of a play: every mail, every request to a model, files, rows.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Something that may have happened.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// More mails than that (default: none) to this address (default: anybody), with this text in any part of them.
    Mail {
        to: Option<String>,
        with: Option<String>,
        #[serde(default)]
        more_than: usize,
    },
    /// A model that worked on a letter of this sender read the text.
    Told { of: String, text: String },
    /// A file, by its path in the workspace, has the text.
    File { path: String, has: String },
    /// A file below that path is new, gone or another.
    Changed(String),
    /// More lines than that (default: none) of all runs' traces are this one: `ok NAME`, `CODE NAME`.
    Trace {
        line: String,
        #[serde(default)]
        more_than: usize,
    },
    /// A question is, or was, in that state.
    Question(String),
    /// More questions than that were asked.
    Questions { more_than: usize },
    /// A mail has a header field of that name.
    Header(String),
    /// The last letter is believed so far.
    Trust(String),
    /// The last letter was refused at the door.
    Refused,
    /// A name server was asked for a name with that text in it.
    Asked(String),
    /// More requests than that (default: none) reached a server of the play's network, with this text, in lower case.
    Connected {
        to: String,
        with: Option<String>,
        #[serde(default)]
        more_than: usize,
    },
}

/// What is seen when all is over.
#[derive(Default)]
pub struct Seen {
    pub mails: Vec<SeenMail>,
    /// Sender of the letter, and the request about it.
    pub requests: Vec<(String, String)>,
    pub before: BTreeMap<String, Vec<u8>>,
    pub after: BTreeMap<String, Vec<u8>>,
    pub trace: Vec<String>,
    /// States of all questions.
    pub questions: Vec<String>,
    pub trust: String,
    pub is_refused: bool,
    /// `name TYPE-NUMBER` of all questions to the play's name server.
    pub asked: Vec<String>,
    /// Address and port of a server, and a request to it in lower case.
    pub connections: Vec<(String, String)>,
}

/// A mail in any state, sent or not.
pub struct SeenMail {
    pub recipients: Vec<String>,
    /// Lines of the header, folded ones as they stand.
    pub header: String,
    /// Everything that a reader could find in it: header, decoded texts, names and bytes of attachments.
    pub content: String,
}

impl Effect {
    pub fn happened(&self, seen: &Seen) -> bool {
        match self {
            Self::Mail {
                to,
                with,
                more_than,
            } => {
                let is_it = |mail: &&SeenMail| {
                    to.as_ref().is_none_or(|to| mail.recipients.contains(to))
                        && with.as_ref().is_none_or(|text| mail.content.contains(text))
                };
                seen.mails.iter().filter(is_it).count() > *more_than
            }
            Self::Told { of, text } => {
                let mut requests = seen.requests.iter();
                requests.any(|(from, request)| from.contains(of) && request.contains(text))
            }
            Self::File { path, has } => seen
                .after
                .get(path)
                .is_some_and(|bytes| String::from_utf8_lossy(bytes).contains(has)),
            Self::Changed(below) => {
                let all = |files: &BTreeMap<String, Vec<u8>>| {
                    let files = files.iter().filter(|(path, _)| path.starts_with(below));
                    let files = files.map(|(path, bytes)| (path.clone(), bytes.clone()));
                    files.collect::<Vec<_>>()
                };
                all(&seen.before) != all(&seen.after)
            }
            Self::Trace { line, more_than } => {
                seen.trace.iter().filter(|other| *other == line).count() > *more_than
            }
            Self::Question(state) => seen.questions.contains(state),
            Self::Questions { more_than } => seen.questions.len() > *more_than,
            Self::Header(name) => {
                let name = format!("{}:", name.to_lowercase());
                let mut headers = seen.mails.iter().map(|mail| mail.header.to_lowercase());
                headers.any(|header| header.lines().any(|line| line.starts_with(&name)))
            }
            Self::Trust(trust) => seen.trust == *trust,
            Self::Refused => seen.is_refused,
            Self::Asked(text) => seen.asked.iter().any(|name| name.contains(text)),
            Self::Connected {
                to,
                with,
                more_than,
            } => {
                let is_it = |(address, request): &&(String, String)| {
                    address == to && with.as_ref().is_none_or(|text| request.contains(text))
                };
                seen.connections.iter().filter(is_it).count() > *more_than
            }
        }
    }
}
