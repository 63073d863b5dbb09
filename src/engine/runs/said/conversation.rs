//! The conversation of one run with its model, and what its journal holds of earlier attempts.

use crate::providers::{Block, FinishReason, Message, Request, Response, Role};
use crate::runs::stubs::with_stubs;
use crate::store::{ApprovalOfRun, MessageFile, Step, StepKind, SummaryInputs};
use std::collections::BTreeSet;

/// Note to a model whose call its own vendor could not parse.
const UNREADABLE_CALL: &str = "[engine] Your last tool call could not be read, and nothing was executed. Write it \
    again, with arguments that are one JSON object, or answer in words.";

/// Conversation of a run so far.
pub struct RunConversation {
    /// First request; later ones are this one with more messages.
    pub first: Request,
    /// Conversation after the first request.
    pub said: Vec<Message>,
    /// Calls whose results are left out of requests, because the input was too long.
    pub stubbed: BTreeSet<String>,
    /// Last answer of an earlier attempt, whose calls may be open.
    pub resumed: Option<Response>,
    /// What the input is made of, where it is to be summarised.
    pub to_summarise: Option<SummaryInputs>,
    /// Steps of earlier attempts.
    pub known_steps: Vec<Step>,
    /// Questions to the owner of earlier attempts.
    pub approvals: Vec<ApprovalOfRun>,
    /// `true`: the model was told once that its last text is no letter.
    pub is_corrected: bool,
}

impl RunConversation {
    /// Returns a conversation in which nothing has been said.
    pub fn new(first: Request) -> Self {
        Self {
            first,
            said: Vec::new(),
            stubbed: BTreeSet::new(),
            resumed: None,
            to_summarise: None,
            known_steps: Vec::new(),
            approvals: Vec::new(),
            is_corrected: false,
        }
    }

    /// Appends an answer that is not the last, with the results of its calls.
    pub fn append(&mut self, response: Response, results: Vec<Block>) {
        let is_unreadable = response.stop == FinishReason::MalformedCall && results.is_empty();
        self.said.push(Message {
            role: Role::Assistant,
            blocks: response.blocks,
        });
        self.said.push(Message {
            role: Role::User,
            blocks: results,
        });
        self.said
            .extend(is_unreadable.then(|| Message::user(UNREADABLE_CALL)));
    }

    /// Returns what was said since the first request.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.said.iter().flat_map(|message| &message.blocks)
    }

    /// Returns the conversation since the first request, as the model sees it.
    pub fn for_model(&self) -> Vec<Message> {
        with_stubs(&self.said, &self.stubbed)
    }

    /// Returns the step of an earlier attempt that belongs to this call.
    pub fn known_step(&self, kind: StepKind, call_id: &str) -> Option<&Step> {
        let is_it = |step: &&Step| step.kind == kind && step.tool_call_id == call_id;
        self.known_steps.iter().find(is_it)
    }

    /// Gives the files of a request that was read from the journal their bytes again.
    pub fn attach_files(&mut self, found: &[MessageFile]) {
        let blocks = self
            .first
            .messages
            .iter_mut()
            .flat_map(|message| &mut message.blocks);
        for block in blocks {
            let (digest, bytes) = match block {
                Block::Image(image) => (&image.file.digest, &mut image.bytes),
                Block::Pdf(pdf) => (&pdf.file.digest, &mut pdf.bytes),
                _ => continue,
            };
            let of = found.iter().find(|found| found.sha256 == *digest);
            *bytes = of.map(|found| found.bytes.clone().into());
        }
    }
}
