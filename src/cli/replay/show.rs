//! `attache replay show RUN|THREAD|last`: the record of a run, or the selected part of it, as a
//! timeline, as one page of HTML, or as the bytes of the provider calls.

use crate::cli::args::instant;
use crate::cli::args::lookup::{LAST, Named, filed_text, named};
use crate::cli::screen::{self, Screen, Unwritten};
use crate::cli::{CommandContext, Exit, Failure, refuse};
use crate::replay::select::Selection;
use crate::replay::timeline::{self, Line, Span, Tone};
use crate::replay::{RunRecord, ThreadRecord, TurnRecord, html, load_thread};
use crate::store::Store;
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Show everything that happened in a run or a thread, in order
#[derive(clap::Args)]
pub struct ReplayShow {
    /// An id, its last or first characters, or `last` for the newest run
    #[arg(value_name = "RUN|THREAD|last")]
    id: String,
    /// Show long texts and values whole
    #[arg(long)]
    full: bool,
    /// Only this turn and its calls
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// Only calls of this tool; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    tool: Vec<String>,
    /// Only what failed, was withheld, or has no result
    #[arg(long)]
    errors: bool,
    /// Only what began since then: `30m`, `24h`, 2026-11-20 (midnight UTC), or 2026-11-20T09:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only what began before then, written in the same way
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only what the resolvers contributed, with its share of the budget
    #[arg(long, conflicts_with_all = ["turn", "tool", "errors", "since", "until"])]
    context: bool,
    /// Only what was sent to the provider, or the normalised answer, in a turn (--turn)
    #[arg(
        long,
        value_name = "WHAT",
        value_parser = ["request", "response"],
        conflicts_with_all = ["context", "errors", "tool", "since", "until", "html"]
    )]
    raw: Option<String>,
    /// The try of that turn, from 1 [default: its last]
    #[arg(long = "try", value_name = "N", requires = "raw")]
    of_try: Option<u32>,
    /// Print it byte by byte, not made readable
    #[arg(long, requires = "raw")]
    exact: bool,
    /// Write one page that opens anywhere, without scripts and without network; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "context")]
    html: Option<PathBuf>,
}

impl ReplayShow {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        let selection = self.selection()?;
        match named(&store, &self.id).await? {
            Named::Run(record) => {
                self.show_run(context, &selection, &record)?;
                if self.id == LAST && !context.json() {
                    remark_on_later_letter(&store, &record).await?;
                }
            }
            Named::Thread(thread) => {
                let record = load_thread(&store, &thread, MESSAGES_MAX, RUNS_MAX).await?;
                self.show_thread(context, &selection, &record)?;
            }
        }
        Ok(Exit::Ok)
    }

    fn selection(&self) -> Result<Selection, Failure> {
        let since = self.since.as_deref().map(instant).transpose()?;
        let until = self.until.as_deref().map(instant).transpose()?;
        if since
            .zip(until)
            .is_some_and(|(since, until)| since >= until)
        {
            return refuse(
                Exit::Usage,
                "nothing is after --since and before --until",
                "--since is the earlier one",
            );
        }
        Ok(Selection {
            turn: self.turn,
            tools: self.tool.clone(),
            errors: self.errors,
            since,
            until,
        })
    }

    fn show_run(
        &self,
        context: &CommandContext,
        selection: &Selection,
        record: &RunRecord,
    ) -> anyhow::Result<()> {
        let full = self.full;
        let gone = match (record.redacted_at(), record.pruned_at()) {
            (Some(at), _) => Some(format!(
                "requests and answers of this run are redacted: its owner erased what it was told, on {at}"
            )),
            (None, at) => at.map(|at| {
                format!("requests and answers of this run were pruned on {at} (`attache gc`)")
            }),
        };
        if let Some(gone) = gone.filter(|_| self.raw.is_none()) {
            screen::remark(&gone);
        }
        if let Some(what) = &self.raw {
            let turn = turn_of(record, selection.turn, self.of_try)?;
            return show_raw(&context.screen, turn, what, self.exact);
        }
        if let Some(turn) = selection
            .turn
            .filter(|turn| !record.turns.iter().any(|of| of.turn_index == *turn))
        {
            return Err(no_turn(record, &format!("the run has no turn {turn}")).into());
        }
        if self.context {
            return match context.json() {
                true => context.screen.json(&record.context),
                false => Ok(print(&context.screen, &timeline::context(record))?),
            };
        }
        let part = selection.of_run(record);
        if let Some(file) = &self.html {
            return write_page(context, file, &html::run(&part, full));
        }
        let lines = match selection.is_everything() {
            _ if context.json() => return context.screen.json(&part),
            true => timeline::run(record, full),
            false => timeline::part(record, &part, full),
        };
        Ok(print(&context.screen, &lines)?)
    }

    fn show_thread(
        &self,
        context: &CommandContext,
        selection: &Selection,
        record: &ThreadRecord,
    ) -> anyhow::Result<()> {
        let full = self.full;
        if self.raw.is_some() || self.context || selection.turn.is_some() {
            let message = "`--raw`, `--context` and `--turn` are about a run, and this is a thread";
            let runs: Vec<&str> = record.runs.iter().map(|run| run.run.id.as_str()).collect();
            return refuse(
                Exit::Usage,
                message,
                format!("its runs: {}", runs.join(", ")),
            );
        }
        let part = if selection.is_everything() {
            record.clone()
        } else {
            selection.of_thread(record)
        };
        if let Some(file) = &self.html {
            return write_page(context, file, &html::thread(&part, full));
        }
        match context.json() {
            true => context.screen.json(&part),
            false => Ok(print(&context.screen, &timeline::thread(&part, full))?),
        }
    }
}

/// Maximum number of the newest messages and runs of a thread's timeline.
const MESSAGES_MAX: u32 = 200;
const RUNS_MAX: u32 = 50;

/// Prints a remark about a letter without a run that arrived after the last run.
async fn remark_on_later_letter(store: &Store, record: &RunRecord) -> anyhow::Result<()> {
    // Ids begin with the time.
    let later = store
        .newest_filed()
        .await?
        .filter(|letter| letter.id.as_str() > record.run.id.as_str());
    if let Some(letter) = later {
        let (said, remedy) = filed_text(&letter);
        screen::remark(&format!("after this run {said}"));
        screen::hint(&remedy);
    }
    Ok(())
}

/// Finds a provider call of a turn: its last attempt unless another is named.
fn turn_of(
    record: &RunRecord,
    turn: Option<u32>,
    of_try: Option<u32>,
) -> Result<&TurnRecord, Failure> {
    let first = record.turns.first().map(|turn| turn.turn_index);
    let is_only = record
        .turns
        .iter()
        .all(|turn| Some(turn.turn_index) == first);
    let Some(wanted) = turn.or(first.filter(|_| is_only)) else {
        return Err(
            no_turn(record, "`--raw` is about one turn: say which, with --turn").with(Exit::Usage),
        );
    };
    let tries = || record.turns.iter().filter(|turn| turn.turn_index == wanted);
    let found = match of_try {
        None => tries().next_back(),
        Some(number) => tries().find(|turn| turn.attempt == number),
    };
    found.ok_or_else(|| match of_try.filter(|_| tries().next().is_some()) {
        Some(number) => no_turn(record, &format!("turn {wanted} has no try {number}")),
        None => no_turn(record, &format!("the run has no turn {wanted}")),
    })
}

fn no_turn(record: &RunRecord, message: &str) -> Failure {
    let of =
        |turn: &TurnRecord| format!("{} (try {}, {})", turn.turn_index, turn.attempt, turn.state);
    let turns: Vec<String> = record.turns.iter().map(of).collect();
    let there = if turns.is_empty() {
        "none yet".to_owned()
    } else {
        turns.join(", ")
    };
    Failure::new(Exit::NoInput, message).hint(format!("its turns: {there}"))
}

fn show_raw(screen: &Screen, turn: &TurnRecord, what: &str, exact: bool) -> anyhow::Result<()> {
    if let Some(at) = &turn.redacted_at {
        return refuse(
            Exit::NoInput,
            format!(
                "the {what} of turn {} is redacted: its owner erased what the run was told, on {at}",
                turn.turn_index
            ),
            "digests and numbers of the turn are there still, without --raw",
        );
    }
    if let Some(at) = &turn.pruned_at {
        return refuse(
            Exit::NoInput,
            format!(
                "the {what} of turn {} was pruned on {at} (`attache gc`)",
                turn.turn_index
            ),
            "a backup from before has it still",
        );
    }
    let (value, text) = match what {
        "request" => (Some(&turn.request), Some(turn.request_sent())),
        _ => (turn.response.as_ref(), turn.response_kept()),
    };
    match (value, text) {
        (Some(_), Some(text)) if exact => Ok(screen.bytes(text.as_bytes())?),
        // A body that is no JSON is printed as it is.
        (Some(Value::String(_)), Some(text)) => Ok(screen.line(text)?),
        (Some(value), _) => screen.json(value),
        (None, _) => {
            let why = turn
                .error
                .as_ref()
                .map(|error| format!(": {}: {}", error.class, error.message));
            let message = format!(
                "turn {} has no answer{}",
                turn.turn_index,
                why.unwrap_or_default()
            );
            Err(Failure::new(Exit::NoInput, message).into())
        }
    }
}

fn write_page(context: &CommandContext, file: &Path, page: &str) -> anyhow::Result<()> {
    if file == Path::new("-") {
        if context.json() {
            return refuse(
                Exit::Usage,
                "a page on standard output is no JSON value",
                "leave --json out, or name a file",
            );
        }
        return Ok(context.screen.bytes(page.as_bytes())?);
    }
    write_new(file, page.as_bytes())?;
    match context.json() {
        true => context.screen.json(&WrittenPage {
            file,
            size_bytes: page.len(),
        }),
        false => Ok(context.screen.line(format!(
            "{} bytes written to {}",
            page.len(),
            file.display()
        ))?),
    }
}

/// Writes a file for its owner alone, because it holds mail; never overwrites a file.
pub(super) fn write_new(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let written = options
        .open(file)
        .and_then(|mut out| out.write_all(bytes).and_then(|()| out.sync_all()));
    written.map_err(|source| {
        let message = format!("cannot write `{}`", file.display());
        let hint = match source.kind() {
            std::io::ErrorKind::NotFound => "make its folder first",
            _ => "name a file that does not exist yet, in a folder in which you may write",
        };
        Failure::new(Exit::CannotCreate, message)
            .hint(hint)
            .because(source)
            .into()
    })
}

/// Prints lines; colours only on a terminal.
pub fn print(screen: &Screen, lines: &[Line]) -> Result<(), Unwritten> {
    for line in lines {
        // Text of letters and models is never faint, so its times stay unchanged.
        let text = |span: &Span| match span.tone {
            Tone::Faint => screen.moments(&span.text),
            _ => span.text.clone(),
        };
        let texts: Vec<String> = line.spans.iter().map(text).collect();
        let pieces = line
            .spans
            .iter()
            .zip(&texts)
            .map(|(span, text)| (style(span.tone), text.as_str()));
        screen.styled(&pieces.collect::<Vec<_>>())?;
    }
    Ok(())
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Title => Style::new().bold(),
        Tone::Good => AnsiColor::Green.on_default(),
        Tone::Bad => AnsiColor::Red.on_default(),
        Tone::Faint => Style::new().dimmed(),
    }
}

/// A page that was written.
#[derive(Serialize)]
struct WrittenPage<'a> {
    file: &'a Path,
    size_bytes: usize,
}
