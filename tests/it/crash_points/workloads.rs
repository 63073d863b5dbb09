//! Three workloads: a letter with tools, a burst with trouble, a schedule beside a mailbox.

use super::model::{Answer, Script};
use crate::app::{dated_now, proven_note as note};
use serde_json::json;

pub struct Workload {
    pub name: &'static str,
    pub script: Script,
    /// Handed in by SMTP, in this order.
    pub letters: fn() -> Vec<String>,
    /// In the mailbox from the beginning.
    pub mailbox: fn() -> Vec<String>,
    /// Rows of slots that come due; the second one's responsibility has failed as often as is allowed, and is paused.
    pub slots: i64,
    /// Deferred by the mail server until an operator says that it shall be tried now.
    pub deferred: Option<&'static str>,
    /// The subject of the letter whose run an operator cancels.
    pub cancelled: Option<&'static str>,
    /// How many runs end, and how many mails are done.
    pub runs: i64,
    pub mails: i64,
    /// The points that it comes to.
    pub points: &'static [&'static str],
}

/// More than one read of the server, so that a part of it is there before the rest.
fn long(body: &str) -> String {
    format!(
        "{body}\n\n{}",
        "We shall be four, and one of us does not eat eggs.\n".repeat(400)
    )
}

fn letter(id: &str, subject: &str, more: &str, body: &str) -> String {
    dated_now(&note(&format!("{id}@guest.example"), more, body))
        .replace("Subject: Breakfast", &format!("Subject: {subject}"))
}

fn none() -> Vec<String> {
    Vec::new()
}

fn mail(to: &[&str], subject: &str) -> (&'static str, serde_json::Value) {
    (
        "send_email",
        json!({ "to": to, "subject": subject, "body": "From seven to ten." }),
    )
}

pub static ONE_LETTER: Workload = Workload {
    name: "one letter",
    script: |_, turn| match turn {
        0 => Answer::Calls(vec![
            ("read_file", json!({ "path": "knowledge/house.md" })),
            ("list_files", json!({})),
        ]),
        1 => Answer::Calls(vec![
            (
                "update_memory",
                json!({ "append": "Bob asks about breakfast." }),
            ),
            mail(&["carl@guest.example"], "Four for breakfast"),
        ]),
        _ => Answer::Says("From seven to ten, and Carl knows."),
    },
    letters: || vec![letter("breakfast", "Breakfast", "", &long("Q=breakfast"))],
    mailbox: none,
    slots: 0,
    deferred: None,
    cancelled: None,
    runs: 1,
    mails: 2,
    points: &[
        "I0", "I1", "I2", "I3", "I4", "I5", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9",
        "R10", "O1", "O2", "O3", "O4", "O5", "O6", "W1", "W2",
    ],
};

pub static BURST: Workload = Workload {
    name: "a burst",
    script: |word, turn| match (word, turn) {
        ("one", 0) => Answer::Calls(vec![(
            "update_memory",
            json!({ "append": "Two want breakfast." }),
        )]),
        ("one", 1) => Answer::Calls(vec![mail(
            &["carl@guest.example", "dora@guest.example"],
            "Eggs",
        )]),
        ("two", 0) => Answer::FailsOnce(Box::new(Answer::Says("Until ten."))),
        // Not the list of files: it would tell whether `one` has noted something yet.
        ("four", 0) => Answer::Calls(vec![("read_file", json!({ "path": "knowledge/house.md" }))]),
        ("five", _) => Answer::Hangs,
        _ => Answer::Says("From seven."),
    },
    letters: || {
        vec![
            letter("q1", "Breakfast", "", "Q=one"),
            letter(
                "q2",
                "Re: Breakfast",
                "In-Reply-To: <q1@guest.example>\n",
                "Q=two",
            ),
            letter("q3", "Parking", "", "Q=three"),
            letter(
                "q4",
                "Re: Parking",
                "In-Reply-To: <q3@guest.example>\n",
                "Q=four",
            ),
            letter("q5", "A long story", "", "Q=five"),
        ]
    },
    mailbox: none,
    slots: 0,
    deferred: Some("RCPT TO:<dora@guest.example>"),
    cancelled: Some("A long story"),
    runs: 5,
    mails: 5,
    points: &[
        "I0", "I2", "I3", "I4", "I5", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10",
        "R11", "O1", "O2", "O3", "O4", "O5", "O6", "O7", "W1", "W2",
    ],
};

pub static SCHEDULE_AND_MAILBOX: Workload = Workload {
    name: "a schedule and a mailbox",
    script: |word, turn| match (word, turn) {
        ("brief", 0) => Answer::Calls(vec![mail(&["bob@guest.example"], "Good morning")]),
        ("found", 0) => Answer::Calls(vec![("list_files", json!({}))]),
        ("found", _) => Answer::Says("From seven to ten."),
        _ => Answer::Says("Sent."),
    },
    letters: none,
    mailbox: || {
        vec![
            letter("found", "Breakfast", "", "Q=found"),
            letter("other", "Parking", "", "Q=other"),
        ]
    },
    slots: 2,
    deferred: None,
    cancelled: None,
    runs: 3,
    mails: 3,
    points: &[
        "I2", "I3", "I4", "IM1", "IM2", "IM3", "SC1", "SC2", "SC3", "SC4", "SC5", "SC6", "R1",
        "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "O1", "O2", "O3", "O4", "O5", "O6",
        "W1", "W2",
    ],
};

pub static ALL: [&Workload; 3] = [&ONE_LETTER, &BURST, &SCHEDULE_AND_MAILBOX];
