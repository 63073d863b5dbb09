//! `attache ingest FILE…|-`: letters from files, through the same intake as every other letter.
//! Works beside a running engine.

use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::config::{Config, Persona};
use crate::domain::mail::filed;
use crate::domain::{Address, Letter, Via};
use crate::gateway::ingress::folder::{envelope_for_file, letters_of_mbox, with_crlf};
use crate::gateway::intake::Intake;
use crate::gateway::intake_contract::{Accepted, CopyOutcome, LetterIntake, Refusal};
use indicatif::ProgressBar;
use serde::Serialize;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Notify;

/// Take letters from files, as if they had come by mail
#[derive(clap::Args)]
pub struct Ingest {
    /// Files with one letter each, or `-` for standard input
    #[arg(value_name = "FILE", required = true, action = clap::ArgAction::Set)]
    files: Vec<String>,
    /// Deliver to this persona instead of whom the letter names; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    to: Vec<String>,
    /// Envelope sender instead of the letter's own; `<>` is none
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
}

/// Argument for standard input.
const STDIN: &str = "-";
/// Maximum number of addresses that a hint names.
const NAMED_MAX: usize = 8;
/// Number of files above which a terminal gets a progress bar.
const FILES_WITHOUT_BAR: usize = 5;

/// Outcome of one file.
#[derive(Serialize)]
struct IngestReport {
    file: String,
    /// `accepted`, `refused`, or `deferred`: a retry may succeed.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// `true`: there is no such file.
    #[serde(skip)]
    is_missing: bool,
    copies: Vec<CopyReport>,
}

/// Outcome of one persona's copy.
#[derive(Serialize)]
struct CopyReport {
    persona: String,
    message: String,
    /// `run`, `filed` or `duplicate`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// Rule that prevented a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// Step after which a filed letter is answered all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Ingest {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        // As below: an unmounted disk is no reason for a mail server to return the letter.
        context
            .require_workspace()
            .map_err(|failure| failure.with(Exit::TryAgain))?;
        // A mail server that calls us for each letter must keep it and retry: that is `EX_TEMPFAIL`.
        let config = context.config().map_err(|errors| {
            Failure::new(
                Exit::TryAgain,
                "the configuration is wrong, so no letter can be taken",
            )
            .hint("mend it, check it with `attache config check`, and give the letter again")
            .because(errors)
        })?;
        let config = Arc::new(config);
        let store = context.store_of_engine().await.map_err(|error| {
            Failure::new(
                Exit::TryAgain,
                "the database cannot be used, so no letter can be taken",
            )
            .because(error)
        })?;
        // No worker in this process waits for runs; a serving engine reads its table every second.
        let intake = Intake::new(store, config.clone(), Arc::new(Notify::new()));
        let intake = intake.map_err(|error| {
            Failure::new(
                Exit::TryAgain,
                "senders cannot be verified, so no letter can be taken",
            )
            .because(error)
        })?;
        let overrides = Overrides::read(&self, &intake, &config)?;
        let files = &self.files;
        if files.iter().filter(|file| *file == STDIN).count() > 1 {
            return Err(Failure::new(Exit::Usage, "standard input can be read once only").into());
        }
        let bar = match files.len() > FILES_WITHOUT_BAR && !context.json() {
            true => ProgressBar::new(files.len() as u64),
            false => ProgressBar::hidden(),
        };
        let (mut reports, mut result) = (Vec::new(), Ok(()));
        for file in files {
            let report = take(file, &intake, &config, &overrides).await;
            // Every letter is taken, also when the output of the first cannot be written.
            if !context.json() && result.is_ok() {
                result = bar.suspend(|| context.screen.line(report.sentence()));
                let remedies = report.copies.iter().filter_map(|copy| copy.remedy.as_ref());
                bar.suspend(|| remedies.for_each(|remedy| screen::hint(remedy)));
            }
            bar.inc(1);
            reports.push(report);
        }
        bar.finish_and_clear();
        if context.json() {
            context.screen.json(&reports)?;
        }
        result?;
        let any = |outcome| reports.iter().any(|report| report.outcome == outcome);
        // A mail server that pipes letters into this command retries those that end with 75, and
        // returns the rest.
        Ok(match (any("refused"), any("deferred")) {
            (true, _) if reports.iter().any(|report| report.is_missing) => Exit::NoInput,
            (true, _) => Exit::BadData,
            (false, true) => Exit::TryAgain,
            (false, false) => Exit::Ok,
        })
    }
}

/// Envelope fields given on the command line.
struct Overrides {
    rcpt_to: Vec<Address>,
    /// `Some(None)` is the null sender.
    mail_from: Option<Option<Address>>,
}

impl Overrides {
    fn read(typed: &Ingest, intake: &dyn LetterIntake, config: &Config) -> anyhow::Result<Self> {
        let address = |text: &String| Address::parse(text).map_err(Failure::usage);
        let rcpt_to: Vec<Address> = typed.to.iter().map(address).collect::<Result<_, _>>()?;
        let is_persona = |to: &&Address| intake.recipient(to).is_ours();
        if let Some(nobody) = rcpt_to.iter().find(|to| !is_persona(to)) {
            return refuse(
                Exit::NoInput,
                format!("no persona has the address `{nobody}`"),
                there(config),
            );
        }
        let mail_from = match &typed.from {
            None => None,
            Some(null) if null == "<>" => Some(None),
            Some(typed) => Some(Some(address(typed)?)),
        };
        Ok(Self { rcpt_to, mail_from })
    }
}

/// A hint with the addresses of the personas.
fn there(config: &Config) -> String {
    let addresses: Vec<&Address> = config
        .personas
        .iter()
        .flat_map(Persona::addresses)
        .collect();
    let named = addresses
        .iter()
        .take(NAMED_MAX)
        .map(|address| format!("`{address}`"));
    let named = named.collect::<Vec<_>>().join(", ");
    match addresses.len().saturating_sub(NAMED_MAX) {
        0 if named.is_empty() => {
            "no persona lives here; `attache persona create` makes one".to_owned()
        }
        0 => format!("there are: {named}"),
        more => format!("there are {named} and {more} more; `attache persona list` shows them"),
    }
}

async fn take(file: &str, intake: &Intake, config: &Config, overrides: &Overrides) -> IngestReport {
    let refused = |why: String| IngestReport {
        file: file.to_owned(),
        outcome: "refused",
        why: Some(why),
        is_missing: file != STDIN && !Path::new(file).exists(),
        copies: Vec::new(),
    };
    let bytes = match read(file, config.limits.letter_bytes_max) {
        Ok(bytes) => with_crlf(bytes),
        Err(why) => return refused(why),
    };
    let letters = letters_of_mbox(&bytes);
    if letters > 1 {
        return refused(format!(
            "is an mbox of {letters} letters; give each a file of its own, or take them as history with `attache import`"
        ));
    }
    let fallback = overrides.rcpt_to.first();
    let Some(mut envelope) = envelope_for_file(&bytes, intake, fallback, Via::File) else {
        return refused(format!(
            "{}; --to ADDRESS names one",
            Refusal::NobodyAddressed
        ));
    };
    if !overrides.rcpt_to.is_empty() {
        envelope.rcpt_to.clone_from(&overrides.rcpt_to);
        envelope.arrival.names_recipients = true;
    }
    if let Some(mail_from) = &overrides.mail_from {
        envelope.mail_from.clone_from(mail_from);
    }
    // Never confirmed: the same file given twice is the same letter, also without a Message-ID.
    match intake.accept(Letter { envelope, bytes }).await {
        Ok(accepted) => IngestReport {
            file: file.to_owned(),
            outcome: "accepted",
            why: None,
            is_missing: false,
            copies: copies(accepted),
        },
        Err(refusal) => {
            let outcome = match refusal {
                Refusal::NotStored(_)
                | Refusal::Unverifiable
                | Refusal::OutOfService
                | Refusal::TooMuch => "deferred",
                _ => "refused",
            };
            let error = anyhow::Error::new(refusal);
            let why = error
                .chain()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(": ");
            IngestReport {
                outcome,
                ..refused(why)
            }
        }
    }
}

/// Reads at most `bytes_max + 1` bytes; by the excess byte the intake sees that the letter is too
/// large.
fn read(file: &str, bytes_max: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    let done = if file == STDIN {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        if Path::new(file).is_dir() {
            return Err("is a folder; name its files".to_owned());
        }
        std::fs::File::open(file).and_then(|open| open.take(limit).read_to_end(&mut bytes))
    };
    done.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.is_empty() {
        Err("is empty".to_owned())
    } else {
        Ok(bytes)
    }
}

fn copies(accepted: Accepted) -> Vec<CopyReport> {
    let sender = accepted.sender;
    let report = |copy: crate::gateway::intake_contract::Copy| {
        let (outcome, run, rule) = match copy.outcome {
            CopyOutcome::Run(run) => ("run", Some(run.to_string()), None),
            CopyOutcome::Filed(rule) => ("filed", None, Some(rule)),
            CopyOutcome::Duplicate => ("duplicate", None, None),
            CopyOutcome::Held => ("held", None, None),
        };
        let remedy = rule
            .as_ref()
            .map(|rule| filed::remedy(rule, copy.message.as_str(), sender.as_ref()));
        CopyReport {
            remedy,
            persona: copy.persona.to_string(),
            message: copy.message.to_string(),
            outcome,
            run,
            rule,
        }
    };
    accepted.copies.into_iter().map(report).collect()
}

impl IngestReport {
    fn sentence(&self) -> String {
        let copy = |copy: &CopyReport| match (&copy.run, &copy.rule) {
            (Some(run), _) => format!("{}: run {run}", copy.persona),
            (None, Some(rule)) => {
                format!(
                    "{}: filed without a run ({rule}): {}",
                    copy.persona,
                    filed::why(rule)
                )
            }
            (None, None) if copy.outcome == "held" => {
                format!(
                    "{}: held until a name server says who sent it, as message {}",
                    copy.persona, copy.message
                )
            }
            (None, None) => format!(
                "{}: here already, as message {}",
                copy.persona, copy.message
            ),
        };
        let what = match &self.why {
            Some(why) => why.clone(),
            None => self.copies.iter().map(copy).collect::<Vec<_>>().join(", "),
        };
        format!("{}\t{}\t{what}", self.outcome, self.file)
    }
}
