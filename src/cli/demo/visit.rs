//! The events of the demo: two letters over SMTP, an engine that answers them, and the rows and
//! files that they leave.

use super::client::{self, Spoken, SubmittedLetter};
use crate::clock::{Clock, SystemClock};
use crate::domain::{Email, RunId, RunState, Trigger};
use crate::gateway::ingress::folder::with_crlf;
use crate::mime::{self, ParseLimits};
use crate::replay::{RunRecord, load_run};
use crate::store::{RunFilter, Store};
use anyhow::{Context, bail};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first letter, from the sample workspace.
const LETTER: &str = include_str!("../../../configs/demo/letter.eml");
pub const GUEST: &str = "anna.berger@traveller.example";
pub const SAMPLE: &str = "concierge@guesthouse.example";
/// Message-IDs of the guest's two letters.
pub const FIRST_ID: &str = "20261118182405.4f1c@traveller.example";
pub const SECOND_ID: &str = "20261118183111.5d20@traveller.example";
/// The question that only the second letter asks.
pub const SECOND_QUESTION: &str = "By when do we have to tell you";

/// Timeout of one answer; it takes about ten milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
const GLANCE: Duration = Duration::from_millis(5);
/// Number of the newest runs searched for the run that a letter triggered.
const RUNS_MAX: u32 = 20;

/// One letter and everything that followed from it.
pub struct DemoExchange {
    pub spoken: Vec<Spoken>,
    pub run: RunRecord,
    /// The answer's file in the outbox, and its parsed content.
    pub file: PathBuf,
    pub answer: Email,
}

/// Sends both letters, one after the other, and waits for their answers.
pub async fn both(
    store: &Store,
    workspace: &Path,
    server: SocketAddr,
) -> anyhow::Result<[DemoExchange; 2]> {
    let first = exchange(store, workspace, server, (FIRST_ID, LETTER))
        .await
        .context("the first letter")?;
    let letter = second_letter(&first.answer);
    let second = exchange(store, workspace, server, (SECOND_ID, &letter))
        .await
        .context("the second letter")?;
    Ok([first, second])
}

async fn exchange(
    store: &Store,
    workspace: &Path,
    server: SocketAddr,
    (id, letter): (&str, &str),
) -> anyhow::Result<DemoExchange> {
    let bytes = with_crlf(letter.as_bytes().to_vec());
    let spoken = client::send(
        server,
        &SubmittedLetter {
            from: GUEST,
            to: SAMPLE,
            bytes: &bytes,
        },
    )
    .await?;
    let run = tokio::time::timeout(ANSWER_TIMEOUT, answered(store, id));
    let run = run
        .await
        .with_context(|| format!("no answer within {ANSWER_TIMEOUT:?}"))??;
    let delivery = run.mails.iter().find_map(|mail| mail.delivery.as_ref());
    let delivery = delivery.context("the run wrote no mail")?;
    let file = workspace
        .join("data/outbox")
        .join(format!("{}.eml", delivery.id));
    let bytes = std::fs::read(&file)
        .with_context(|| format!("the answer is not at `{}`", file.display()))?;
    let answer =
        mime::parse(&bytes, &ParseLimits::default()).context("the answer is no readable mail")?;
    Ok(DemoExchange {
        spoken,
        run,
        file,
        answer,
    })
}

/// Waits until the letter's run has ended and its mails have left.
async fn answered(store: &Store, letter: &str) -> anyhow::Result<RunRecord> {
    loop {
        if let Some(run) = run_of(store, letter).await? {
            let record = load_run(store, &run).await?;
            let mut deliveries = record
                .mails
                .iter()
                .filter_map(|mail| mail.delivery.as_ref());
            if deliveries.all(|delivery| matches!(delivery.state.as_str(), "done" | "failed")) {
                return Ok(record);
            }
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// Finds the run that a letter triggered, once it has ended.
async fn run_of(store: &Store, letter: &str) -> anyhow::Result<Option<RunId>> {
    let runs = store
        .list_runs(&RunFilter {
            limit: RUNS_MAX,
            ..RunFilter::default()
        })
        .await?;
    for run in runs.iter().filter(|run| run.trigger == Trigger::Email) {
        let message = store
            .persona(&run.persona)
            .message(&run.trigger_message)
            .await?;
        if message.rfc_message_id != letter {
            continue;
        }
        return match run.state {
            RunState::WaitingRetry => bail!(
                "the run failed and waits for a retry: {:?}",
                run.error_message
            ),
            state => Ok(state.is_terminal().then(|| run.id.clone())),
        };
    }
    Ok(None)
}

/// The guest's reply to the answer, which quotes it as mail programs do.
fn second_letter(answer: &Email) -> String {
    let now = SystemClock::new().now().to_utc().to_rfc2822();
    let id = answer.message_id.as_deref().unwrap_or_default();
    let references = answer.references.iter().chain(answer.message_id.iter());
    let references = references
        .map(|id| format!("<{id}>"))
        .collect::<Vec<_>>()
        .join("\n ");
    let ascii = |line: &str| {
        line.chars()
            .map(|c| if c.is_ascii() { c } else { '?' })
            .collect::<String>()
    };
    let quoted: String = answer
        .text
        .lines()
        .map(|line| format!("> {}\n", ascii(line)))
        .collect();
    format!(
        "From: Anna Berger <{GUEST}>\n\
         To: {SAMPLE}\n\
         Subject: Re: Arriving late on Friday\n\
         Date: {now}\n\
         Message-ID: <{SECOND_ID}>\n\
         In-Reply-To: <{id}>\n\
         References: {references}\n\
         MIME-Version: 1.0\n\
         Content-Type: text/plain; charset=us-ascii\n\
         \n\
         Dear Lena,\n\
         \n\
         that is good to hear. {SECOND_QUESTION} that we are late?\n\
         \n\
         Anna\n\
         \n\
         On Wed, 18 Nov 2026 at 19:26, Lena, Lindenhof Guest House <{SAMPLE}> wrote:\n\
         {quoted}"
    )
}
