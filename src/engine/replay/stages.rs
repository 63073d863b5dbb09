//! What happened in a run and in a thread, in the order in which people read it. Every writer goes through these lists.

use super::{
    CallRecord, MailRecord, MessageRecord, OutputRecord, RunRecord, ThreadRecord, TurnRecord,
};

/// One thing that happened in a run after its context was assembled.
pub enum RunStage<'r> {
    Turn(&'r TurnRecord),
    Call(&'r CallRecord),
    Mail(&'r MailRecord),
    Output(&'r OutputRecord),
}

impl RunRecord {
    /// Returns each turn with the calls that it asked for, then the other calls, the mails, and the output.
    pub fn stages(&self) -> Vec<RunStage<'_>> {
        let asks = |turn: &TurnRecord, call: &CallRecord| {
            turn.state == "answered" && call.turn_index == Some(turn.turn_index)
        };
        let mut stages = Vec::new();
        for turn in &self.turns {
            stages.push(RunStage::Turn(turn));
            let asked = self.calls.iter().filter(|call| asks(turn, call));
            stages.extend(asked.map(RunStage::Call));
        }
        let is_asked = |call: &&CallRecord| self.turns.iter().any(|turn| asks(turn, call));
        let others = self.calls.iter().filter(|call| !is_asked(call));
        stages.extend(others.map(RunStage::Call));
        stages.extend(self.mails.iter().map(RunStage::Mail));
        stages.extend(self.output.iter().map(RunStage::Output));
        stages
    }

    /// Returns the number of calls with a result that is a failure.
    pub fn failed_calls(&self) -> usize {
        let failed = |call: &&CallRecord| call.result.is_some() && !call.succeeded();
        self.calls.iter().filter(failed).count()
    }
}

/// One thing that happened in a thread.
pub enum ThreadStage<'r> {
    Message(&'r MessageRecord),
    Run(&'r RunRecord),
    /// A run whose trigger is not in the record of the thread.
    LooseRun(&'r RunRecord),
}

impl ThreadRecord {
    /// Returns its messages in order, each followed by the runs that it triggered, then the other runs. A message of one of
    /// these runs is shown with the run.
    pub fn stages(&self) -> Vec<ThreadStage<'_>> {
        let is_of_run = |message: &&MessageRecord| {
            let mut runs = self.runs.iter();
            runs.any(|run| Some(&run.run.id) == message.run.as_ref())
        };
        let mut stages = Vec::new();
        for message in self.messages.iter().filter(|one| !is_of_run(one)) {
            stages.push(ThreadStage::Message(message));
            let triggered = self.runs.iter().filter(|run| run.trigger.id == message.id);
            stages.extend(triggered.map(ThreadStage::Run));
        }
        let has_trigger =
            |run: &&RunRecord| self.messages.iter().any(|one| one.id == run.trigger.id);
        let loose = self.runs.iter().filter(|run| !has_trigger(run));
        stages.extend(loose.map(ThreadStage::LooseRun));
        stages
    }
}
