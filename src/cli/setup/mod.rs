//! `attache setup [DIR]`: asks for whose the workspace is, ways in and out, and the model; checks each at
//! its server; writes the workspace.
//!
//! - `flags`, `asker`, `terminal`: answers by flag, by line, as they were; `parse`: what counts as one
//! - `existing`: what a workspace says already
//! - `people`, `way_in`, `way_out`, `model`: the parts, each with its questions and its check
//! - `rented`: servers of some providers of mailboxes
//! - `draft`: the workspace as it will be; `json_edit`, `secrets_file`: texts with one value changed
//! - `report`: what was found, what changes, what comes next
//!
//! Absent on purpose: settings beyond the first letter. They are edited in the files.

mod flags;
mod terminal;
mod asker;
mod parse;
mod existing;
mod json_edit;
pub(super) mod secrets_file;
mod draft;
mod people;
mod rented;
mod way_in;
mod way_out;
mod model;
mod report;

use super::process::exit::judge;
use super::{CommandContext, Exit, Failure, screen};
use crate::config::{Config, ConfigErrors, Problem};
use crate::gateway::dns_records;
use crate::gateway::identity::dns::DnsResolver;
use asker::{Asker, Refused, StepBack};
use clap::ArgMatches;
use draft::WorkspaceDraft;
pub use flags::arguments;
use flags::{DOMAIN, IN, MODEL, OUT, OWNER, PROVIDER};
use report::{SetupCheck, SetupReport};
use std::path::PathBuf;

/// A part of the answers, which is asked for and checked as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetupPart {
    People,
    WayIn,
    WayOut,
    Model,
}

impl SetupPart {
    const ALL: [Self; 4] = [Self::People, Self::WayIn, Self::WayOut, Self::Model];

    fn title(self) -> &'static str {
        match self {
            Self::People => "persona",
            Self::WayIn => "way in",
            Self::WayOut => "way out",
            Self::Model => "model",
        }
    }

    /// Reports whether its answers caused a problem.
    fn owns(self, problem: &Problem) -> bool {
        let starts = |roots: &[&str]| roots.iter().any(|root| problem.path.starts_with(root));
        match (self, problem.file.as_str()) {
            (Self::People, draft::GATEWAY) => starts(&["mail_domain", "owners"]),
            (Self::People, file) => file.starts_with("personas/"),
            (Self::WayIn, draft::GATEWAY) => {
                starts(&["listeners", "mailboxes", "folders", "host_name"])
            }
            (Self::WayIn, file) => file == draft::SECURITY,
            (Self::WayOut, draft::GATEWAY) => starts(&["outbound"]),
            (Self::WayOut, _) => false,
            (Self::Model, file) => file == draft::INFERENCE,
        }
    }

    async fn ask(self, asker: &mut Asker<'_>, draft: &mut WorkspaceDraft) -> anyhow::Result<()> {
        match self {
            Self::People => people::ask(asker, draft).await,
            Self::WayIn => way_in::ask(asker, draft).await,
            Self::WayOut => way_out::ask(asker, draft).await,
            Self::Model => model::ask(asker, draft).await,
        }
    }

    async fn check(self, draft: &WorkspaceDraft, config: &Config) -> anyhow::Result<Vec<String>> {
        match self {
            Self::People => Ok(people_said(config)),
            Self::WayIn => way_in::check(draft, config).await,
            Self::WayOut => way_out::check(config).await,
            Self::Model => model::check(config).await,
        }
    }
}

fn people_said(config: &Config) -> Vec<String> {
    let addresses = config
        .personas
        .iter()
        .map(|persona| persona.address.to_string());
    vec![format!(
        "{} answers",
        addresses.collect::<Vec<_>>().join(", ")
    )]
}

/// Asks, checks and writes.
pub async fn setup(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let named = args.get_one::<PathBuf>("dir");
    let folder = named.map_or_else(|| context.workspace.clone(), PathBuf::clone);
    let folder = std::path::absolute(&folder)
        .map_err(|source| Failure::new(Exit::Usage, "no such workspace path").because(source))?;
    let mut asker = Asker::new(args, existing::answers(&folder))?;
    asker.require(&[OWNER, DOMAIN, IN, OUT, PROVIDER, MODEL])?;
    let mut draft = WorkspaceDraft::new(folder);
    let is_offline = args.get_flag("offline");
    let mut report = SetupReport::default();
    let mut waiting = Vec::new();
    if asker.is_typed() {
        waiting = typed(context, &mut asker, &mut draft, is_offline, &mut report).await?;
    } else {
        // No server is asked before all answers can be ones.
        for part in SetupPart::ALL {
            given(part, &mut asker, &mut draft).await?;
            waiting.push(part);
        }
    }
    for part in waiting {
        let check = checked_late(part, &mut asker, &mut draft, is_offline).await?;
        report.add(context, check)?;
    }
    let config = loaded(&draft)?;
    if is_offline {
        report.add(context, SetupCheck::skipped("DNS"))?;
    } else {
        let resolver = DnsResolver::new(&config.security.authentication.resolver)?;
        report.records = dns_records::check(&resolver, &dns_records::wanted(&config)).await;
    }
    report.tell_records(context)?;
    report.changes(context, &draft)?;
    if report.overwrites() && !asker.agrees("change these files?").await? {
        let failure = Failure::new(
            Exit::CannotCreate,
            "files that exist would change; nothing was written",
        );
        return Err(match asker.is_typed() {
            true => failure.into(),
            false => failure
                .hint("see the differences above, and add --yes")
                .into(),
        });
    }
    draft.write()?;
    report.tell_end(context, &draft, &config)?;
    Ok(Exit::Ok)
}

/// Asks part after part, back and forth; returns the parts whose check has to wait.
async fn typed(
    context: &CommandContext,
    asker: &mut Asker<'_>,
    draft: &mut WorkspaceDraft,
    is_offline: bool,
    report: &mut SetupReport,
) -> anyhow::Result<Vec<SetupPart>> {
    let mut waiting = Vec::new();
    // The workspace before each part that was answered, and how many questions it took.
    let mut before: Vec<(WorkspaceDraft, usize)> = Vec::new();
    while let Some(part) = SetupPart::ALL.get(before.len()).copied() {
        let unchanged = draft.clone();
        match answered(part, asker, draft, is_offline).await? {
            PartEnd::Checked(check) => report.add(context, check)?,
            PartEnd::Waits => waiting.push(part),
            PartEnd::Back => {
                if let Some((earlier, questions)) = before.pop() {
                    *draft = earlier;
                    asker.repeat(questions.saturating_sub(1));
                }
                let again = SetupPart::ALL.get(before.len()).copied();
                waiting.retain(|part| Some(*part) != again);
                report.forget(again.map_or("", SetupPart::title));
                continue;
            }
        }
        before.push((unchanged, asker.answered()));
    }
    Ok(waiting)
}

/// Takes the answers of a part from the flags. Errors: they can be none.
async fn given(
    part: SetupPart,
    asker: &mut Asker<'_>,
    draft: &mut WorkspaceDraft,
) -> anyhow::Result<()> {
    part.ask(asker, draft).await?;
    match draft.load() {
        Ok(_) => Ok(()),
        Err(errors) => match own_problems(part, errors) {
            Some(errors) => Err(unwritten(draft, errors).into()),
            None => Ok(()),
        },
    }
}

/// Reads the workspace as it will be. Errors: every problem.
fn loaded(draft: &WorkspaceDraft) -> Result<Config, ConfigErrors> {
    draft.load().map_err(|errors| unwritten(draft, errors))
}

/// Makes problems of files that are not written yet ones of the answers.
fn unwritten(draft: &WorkspaceDraft, errors: ConfigErrors) -> ConfigErrors {
    let of_answers = |problem: Problem| match draft.folder.join(&problem.file).exists() {
        true => problem,
        false => Problem {
            file: "the answers".to_owned(),
            line: None,
            column: None,
            ..problem
        },
    };
    ConfigErrors {
        problems: errors.problems.into_iter().map(of_answers).collect(),
    }
}

/// End of a part that was asked.
enum PartEnd {
    Checked(SetupCheck),
    /// Its answers cannot be checked before other parts are mended.
    Waits,
    /// The part before is to be asked again.
    Back,
}

/// Asks for a part until its answers are good.
async fn answered(
    part: SetupPart,
    asker: &mut Asker<'_>,
    draft: &mut WorkspaceDraft,
    is_offline: bool,
) -> anyhow::Result<PartEnd> {
    loop {
        let mut attempt = draft.clone();
        asker.begin();
        if let Err(error) = part.ask(asker, &mut attempt).await {
            match asker.step_back() {
                Some(StepBack::Before) => return Ok(PartEnd::Back),
                Some(StepBack::Within) => {}
                None => drop(refused(asker, error, false).await?),
            }
            continue;
        }
        let checked = match attempt.load() {
            Ok(config) => checked(part, &attempt, &config, is_offline).await,
            Err(errors) => match own_problems(part, errors) {
                Some(errors) => {
                    let errors = unwritten(&attempt, errors);
                    refused(asker, errors.into(), false).await?;
                    continue;
                }
                None => {
                    *draft = attempt;
                    return Ok(PartEnd::Waits);
                }
            },
        };
        match checked {
            Ok(check) => {
                *draft = attempt;
                return Ok(PartEnd::Checked(check));
            }
            Err(error) => {
                if refused(asker, error, true).await? == Refused::Keep {
                    *draft = attempt;
                    return Ok(PartEnd::Checked(SetupCheck::unchecked(part.title())));
                }
            }
        }
    }
}

/// Checks a part whose check had to wait for the parts behind it.
async fn checked_late(
    part: SetupPart,
    asker: &mut Asker<'_>,
    draft: &mut WorkspaceDraft,
    is_offline: bool,
) -> anyhow::Result<SetupCheck> {
    let config = loaded(draft)?;
    let error = match checked(part, draft, &config, is_offline).await {
        Ok(check) => return Ok(check),
        Err(error) => error,
    };
    if refused(asker, error, true).await? == Refused::Keep {
        return Ok(SetupCheck::unchecked(part.title()));
    }
    loop {
        match answered(part, asker, draft, is_offline).await? {
            PartEnd::Checked(check) => return Ok(check),
            PartEnd::Waits => return Ok(SetupCheck::unchecked(part.title())),
            // The parts before it are good.
            PartEnd::Back => {}
        }
    }
}

async fn checked(
    part: SetupPart,
    draft: &WorkspaceDraft,
    config: &Config,
    is_offline: bool,
) -> anyhow::Result<SetupCheck> {
    if is_offline && part != SetupPart::People {
        return Ok(SetupCheck::skipped(part.title()));
    }
    let said = part.check(draft, config).await?;
    Ok(SetupCheck::good(part.title(), said))
}

/// The problems that the answers of a part caused.
fn own_problems(part: SetupPart, errors: ConfigErrors) -> Option<ConfigErrors> {
    let problems = errors.problems.into_iter();
    ConfigErrors::from_problems(problems.filter(|problem| part.owns(problem)).collect())
}

/// Tells why answers are refused, and asks for the next step; an error without a terminal, or when it is to
/// stop.
async fn refused(
    asker: &mut Asker<'_>,
    error: anyhow::Error,
    can_keep: bool,
) -> anyhow::Result<Refused> {
    if !asker.is_typed() || asker.is_left() {
        return Err(error);
    }
    let (_, hint) = judge(&error);
    screen::complain(&error, hint.as_deref());
    match asker.after_refusal(can_keep).await? {
        Refused::Stop => Err(Failure::new(Exit::Failed, "stopped; nothing was written").into()),
        next => Ok(next),
    }
}
