//! Texts of the answers to commands, as Markdown. Pure.
//!
//! An answer is for an owner. It quotes nothing of any letter: whoever forged one must not speak through it.

use super::status::{PersonaStatus, RUNS_COUNTED_MAX};
use crate::config::dollars;
use crate::domain::{ApprovalState, CommandRefusal, MailCommand};
use crate::store::{CommandOutcome, OpenCommand};
use crate::text::plural;

/// What is said of a letter whose words may be another's reading of what its owner signed.
const UNSIGNED_CONTENT: &str = "your mail server's signature does not cover `Content-Type` and `Content-Transfer-Encoding`, and this letter would \
    say something else under others. Send it as plain text without special characters or as HTML with a text version, have \
    your server sign these fields, submit the letter with a login, or use the command line";

/// Returns the text of an answer; `status` is there for `/status`.
pub fn answer(
    command: &OpenCommand,
    outcome: &CommandOutcome,
    status: Option<&PersonaStatus>,
) -> String {
    let persona = command.persona.as_str();
    match outcome {
        CommandOutcome::Noted => match (command.command, status) {
            (MailCommand::Status, Some(status)) => status_text(persona, status),
            (MailCommand::Unknown, _) => format!(
                "The first line of this letter is no command that I know, so nothing was done.\n\n{}",
                help(persona)
            ),
            _ => help(persona),
        },
        CommandOutcome::Refused { why } => refused(command, *why),
        CommandOutcome::Cancelled {
            ended: 0,
            stopping: 0,
        } => "No run of this thread was open, so there was nothing to cancel.\n".to_owned(),
        CommandOutcome::Cancelled { ended, stopping } => {
            let at_work = match stopping {
                0 => String::new(),
                _ => format!(" {} at work, told to stop.", plural(*stopping, "run")),
            };
            format!(
                "{} of this thread that waited: cancelled.{at_work} `attache runs retry` queues a cancelled run again.\n",
                plural(*ended, "run")
            )
        }
        CommandOutcome::Paused { is_new } => paused(persona, *is_new),
        CommandOutcome::Resumed {
            was_halted,
            all_halted,
        } => resumed(persona, *was_halted, *all_halted),
        CommandOutcome::Reset => format!(
            "From here on {persona} does not see what was written in this thread before. Nothing was deleted: \
             `attache threads show` has it all, and a search of the mail still finds it.\n"
        ),
        CommandOutcome::Decided { state } => format!("{}.\n", decided(*state)),
        CommandOutcome::DecidedBefore { state } => format!(
            "That question was closed before: {}. Nothing was changed.\n",
            decided(*state).to_lowercase()
        ),
        CommandOutcome::NoApproval => format!(
            "No open question of {persona} has that number, so nothing was decided. The number is the end of the id that \
             `attache approvals list` shows, six characters or more.\n"
        ),
        CommandOutcome::NotByMail => {
            "That question is not decided by mail (`not_by_mail` in `configs/policy.json`). `attache approvals list` shows it.\n"
                .to_owned()
        }
        CommandOutcome::NotFitting => {
            "That question asks for words, and not for yes or no. Nothing was decided.\n".to_owned()
        }
    }
}

fn decided(state: ApprovalState) -> &'static str {
    match state {
        ApprovalState::Approved => "Approved",
        ApprovalState::Rejected => "Rejected",
        ApprovalState::Expired => "It had ended before, and counts as rejected",
        ApprovalState::Open => "It is still open",
        ApprovalState::Edited => "Rejected, with an instruction",
        ApprovalState::Answered => "Answered",
        ApprovalState::Superseded | ApprovalState::Cancelled => "It is no longer asked",
    }
}

fn paused(persona: &str, is_new: bool) -> String {
    let first = match is_new {
        true => {
            format!("{persona} is halted. Its runs and its mail wait; letters to it are taken.")
        }
        false => format!("{persona} was halted before, and stays so."),
    };
    format!("{first}\n\n`/resume`, or `attache resume --persona {persona}`, lets it go on.\n")
}

fn resumed(persona: &str, was_halted: bool, all_halted: bool) -> String {
    let first = match was_halted {
        true => format!("The halt of {persona} is lifted."),
        false => format!("{persona} itself was not halted."),
    };
    match all_halted {
        true => format!(
            "{first} Every persona is halted, though, and no mail lifts that: `attache resume` on the machine does.\n"
        ),
        false => format!("{first} Its runs and its mail go on.\n"),
    }
}

fn refused(command: &OpenCommand, why: CommandRefusal) -> String {
    let why = match why {
        CommandRefusal::TooOld => {
            "the letter came too long after it was signed, and an old letter can be sent again by anybody who has it. \
             Please send a new one"
        }
        CommandRefusal::FromFuture => {
            "the letter was signed later than it arrived: the clock of its server or of this machine is wrong"
        }
        CommandRefusal::Repeatable => {
            "your mail server's signature does not cover a Message-ID, without which a copy of the letter could not be told \
             from a new one. Use the command line, or submit the letter with a login"
        }
        CommandRefusal::MoreInLine => {
            "more stands in its line. The command stands alone in the first line of a letter"
        }
        CommandRefusal::UnsignedContent => UNSIGNED_CONTENT,
        CommandRefusal::Overtaken => "a later decision was carried out before this letter came",
    };
    format!("`/{}` was not carried out: {why}.\n", command.command)
}

fn status_text(persona: &str, status: &PersonaStatus) -> String {
    let mut lines: Vec<String> = Vec::new();
    for halt in &status.halts {
        let who = match &halt.persona {
            Some(_) => persona,
            None => "every persona",
        };
        lines.push(format!("{who} is halted since {}", halt.halted_at));
    }
    if lines.is_empty() {
        lines.push("not halted".to_owned());
    }
    let open = status.queued + status.running + status.waiting + status.asking;
    let most = match open >= RUNS_COUNTED_MAX as usize {
        true => " (only the newest are counted)",
        false => "",
    };
    lines.push(format!(
        "runs: {} queued, {} at work, {} waiting for a retry or for money, {} waiting for a decision of yours{most}",
        status.queued, status.running, status.waiting, status.asking
    ));
    lines.push(format!(
        "spent today: {} dollars, {}",
        dollars(status.spent_micros),
        plural(status.spent_tokens, "token")
    ));
    if status.failing.is_empty() {
        lines.push("no server is known to fail".to_owned());
    }
    lines.extend(status.failing.iter().cloned());
    let lines: String = lines.iter().map(|line| format!("- {line}\n")).collect();
    format!("{persona}:\n\n{lines}")
}

fn help(persona: &str) -> String {
    let lines = MailCommand::TYPED.map(|command| match command {
        MailCommand::Status => {
            "`/status`: what is halted, queued, at work, spent today, and which servers fail"
        }
        MailCommand::Cancel => "`/cancel`: end the open runs of this thread",
        MailCommand::Pause => "`/pause`: halt this persona at once",
        MailCommand::Resume => "`/resume`: lift that halt",
        MailCommand::Reset => {
            "`/reset`: what was written in this thread so far is not shown to the model any more"
        }
        MailCommand::Approve => "`/approve NUMBER`: say yes to a question",
        MailCommand::Reject => "`/reject NUMBER WHY`: say no to it",
        MailCommand::Help | MailCommand::Unknown => "`/help`: this list",
    });
    let lines: String = lines.iter().map(|line| format!("- {line}\n")).collect();
    format!(
        "Commands for {persona}, alone in the first line of a letter:\n\n{lines}\nThey count only from an owner whose mail \
         is proven. The rest of such a letter is not read.\n"
    )
}
