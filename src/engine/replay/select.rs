//! Selection of a part of a run: one turn, one tool, the failures, a time span. Pure.

use super::{CallRecord, MailRecord, RunRecord, ThreadRecord, TurnRecord};
use crate::domain::Timestamp;
use std::collections::BTreeSet;

/// Criteria; all that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    pub turn: Option<u32>,
    /// Names of tools whose calls, and the turns that made them, are selected; empty: every tool.
    pub tools: Vec<String>,
    /// `true`: only what failed, was withheld, or has no result.
    pub errors: bool,
    /// Only what began at or after this instant.
    pub since: Option<Timestamp>,
    /// Only what began before this instant.
    pub until: Option<Timestamp>,
}

impl Selection {
    /// Reports whether it selects everything.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the run with its selected turns, calls and mails; the rest of the record stays.
    pub fn of_run(&self, record: &RunRecord) -> RunRecord {
        let calls: Vec<CallRecord> = record
            .calls
            .iter()
            .filter(|call| self.has_call(call))
            .cloned()
            .collect();
        let asking: BTreeSet<u32> = calls.iter().filter_map(|call| call.turn_index).collect();
        let turns = record
            .turns
            .iter()
            .filter(|turn| self.has_turn(turn, &asking))
            .cloned()
            .collect();
        let mails = record
            .mails
            .iter()
            .filter(|mail| self.has_mail(mail))
            .cloned()
            .collect();
        let is_narrow = self.turn.is_some() || !self.tools.is_empty() || self.errors;
        let output = record
            .output
            .clone()
            .filter(|output| !is_narrow && self.has_time(&output.created_at));
        RunRecord {
            turns,
            calls,
            mails,
            output,
            ..record.clone()
        }
    }

    /// Returns the thread with its selected messages and runs; runs without a selected part are
    /// left out.
    pub fn of_thread(&self, record: &ThreadRecord) -> ThreadRecord {
        let is_something = |run: &RunRecord| {
            let has_part = !(run.turns.is_empty() && run.calls.is_empty() && run.mails.is_empty());
            has_part || (self.errors && run.run.error.is_some())
        };
        let runs = record
            .runs
            .iter()
            .map(|run| self.of_run(run))
            .filter(is_something)
            .collect();
        let is_narrow = self.turn.is_some() || !self.tools.is_empty() || self.errors;
        let is_left = |disposition: &str| {
            disposition.starts_with("withheld") || disposition.starts_with("filed")
        };
        let messages = record.messages.iter().filter(|message| {
            self.has_time(&message.received_at)
                && (!is_narrow || (self.errors && is_left(&message.disposition)))
        });
        ThreadRecord {
            messages: messages.cloned().collect(),
            runs,
            ..record.clone()
        }
    }

    fn has_call(&self, call: &CallRecord) -> bool {
        let is_named = self.tools.is_empty() || self.tools.contains(&call.tool);
        let is_of_turn = self.turn.is_none_or(|turn| call.turn_index == Some(turn));
        is_named
            && is_of_turn
            && (!self.errors || !call.succeeded())
            && self.has_time(&call.called_at)
    }

    fn has_turn(&self, turn: &TurnRecord, asking: &BTreeSet<u32>) -> bool {
        if self.turn.is_some_and(|wanted| wanted != turn.turn_index)
            || !self.has_time(&turn.started_at)
        {
            return false;
        }
        let asked = asking.contains(&turn.turn_index) && turn.state == "answered";
        match (self.errors, self.tools.is_empty()) {
            (false, true) => true,
            (true, true) => asked || turn.state != "answered",
            (_, false) => asked,
        }
    }

    fn has_mail(&self, mail: &MailRecord) -> bool {
        let went_wrong = mail.delivery.as_ref().is_none_or(|delivery| {
            let failed =
                |state: &str| matches!(state, "failed" | "deferred" | "cancelled" | "held");
            failed(&delivery.state)
                || delivery
                    .recipients
                    .iter()
                    .any(|recipient| failed(&recipient.state))
        });
        let is_of_all = self.turn.is_none() && self.tools.is_empty();
        is_of_all && (!self.errors || went_wrong) && self.has_time(&mail.message.received_at)
    }

    fn has_time(&self, at: &str) -> bool {
        let Some(at) = Timestamp::parse(at) else {
            return true;
        };
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }
}
