//! A contact who has a persona write to somebody new, and the owner who is asked.

use crate::app::{Workspace, letter};
use crate::hijack::world::ALL;
use crate::identity::world::{STRANGER, World};
use attache::domain::{Address, ApprovalState, Email, Via};
use attache::gateway::intake_contract::{Accepted, Refusal};
use attache::store::{ApprovalVerdict, ApprovalView, DecisionOutcome, ListPage, NewDecision};
use serde_json::{Value, json};

pub const OWNER: &str = "Olga <olga@home.test>";
pub const CONTACT: &str = "Carol <carol@partner.test>";

pub struct Scene {
    pub world: World,
}

/// Writes to somebody new, and says last what became of it.
pub fn asks() -> Value {
    json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "send_email", "args":
            { "to": ["eve@new.test"], "subject": "The plan", "body": "We meet on Tuesday." } }] },
        { "say": "It is done, or it is not: {{result}}" },
    ] })
}

impl Scene {
    pub async fn start() -> Self {
        Self::with(&asks(), |_| {}).await
    }

    pub async fn with(script: &Value, prepare: impl FnOnce(&Workspace)) -> Self {
        let workspace = Workspace::new(script).talkative();
        prepare(&workspace);
        Self {
            world: World::in_workspace(workspace, json!({})).await,
        }
    }

    /// A signed letter; gives its text.
    pub fn signed(&self, from: &str, to: &str, id: &str, more: &str, body: &str) -> String {
        let date = self.world.now().to_utc().to_rfc2822();
        let eml = format!(
            "From: {from}\r\nTo: {to}\r\nSubject: Tuesday\r\nMessage-ID: <{id}@x.test>\r\nDate: {date}\r\n{more}\r\n{body}\r\n"
        );
        let domain = match from {
            OWNER => "home.test",
            from if from.ends_with("@partner.test>") => "partner.test",
            _ => "evil.test",
        };
        self.world.signed_with(domain, &eml, &ALL, |signer| signer)
    }

    pub async fn deliver(&self, eml: &str, to: &str) -> Result<Accepted, Refusal> {
        self.submit(eml, to, None).await
    }

    /// Hands a letter in, by the login of this address.
    pub async fn submit(
        &self,
        eml: &str,
        to: &str,
        login: Option<&str>,
    ) -> Result<Accepted, Refusal> {
        let mut letter = letter(eml);
        letter.envelope.arrival.submitted_by = login.and_then(|login| Address::parse(login).ok());
        letter.envelope.peer = STRANGER.parse().ok();
        letter.envelope.via = Via::Smtp;
        letter.envelope.helo = "client.test".to_owned();
        letter.envelope.mail_from = Address::parse("sender@evil.test").ok();
        letter.envelope.rcpt_to = vec![Address::parse(to).expect("an address")];
        self.world.app.engine.intake().accept(letter).await
    }

    /// A letter to Ada; drains, and gives the run.
    pub async fn writes(&self, from: &str, id: &str, more: &str) -> String {
        let eml = self.signed(from, "ada@engine.test", id, more, "Tell Eve about Tuesday.");
        let accepted = self.deliver(&eml, "ada@engine.test").await.expect("taken");
        self.world.app.drain().await;
        let message = accepted.copies[0].message.to_string();
        let sql = "SELECT id FROM runs WHERE trigger_message_id = $1";
        let row = self.world.app.row(sql, &message).await;
        row[0].clone().expect("a run")
    }

    /// The questions that are open.
    pub async fn open(&self) -> Vec<ApprovalView> {
        let store = &self.world.app.engine.store;
        let open = store
            .approvals(Some(ApprovalState::Open), None, ListPage::first(100))
            .await;
        open.expect("questions")
    }

    pub async fn only_question(&self) -> ApprovalView {
        let mut open = self.open().await;
        assert_eq!(open.len(), 1, "{open:#?}");
        open.remove(0)
    }

    pub async fn approval(&self, id: &str) -> ApprovalView {
        self.world
            .app
            .engine
            .store
            .approval(id)
            .await
            .expect("a question")
    }

    /// Approves the only question, and drains.
    pub async fn approves(&self) -> String {
        let question = self.only_question().await.id;
        self.decide(&question, ApprovalVerdict::Approve, "").await;
        self.world.app.drain().await;
        question
    }

    pub async fn decide(&self, id: &str, verdict: ApprovalVerdict, words: &str) -> DecisionOutcome {
        let outcome = self
            .world
            .app
            .engine
            .store
            .decide_approval(id, decision(verdict, words))
            .await;
        outcome.expect("decided")
    }

    /// The mails that went to somebody new.
    pub fn to_eve(&self) -> Vec<Email> {
        let sent = self.world.app.sent().into_iter();
        let is_hers = |mail: &Email| mail.to.iter().any(|to| to.spec == "eve@new.test");
        sent.filter(is_hers).collect()
    }

    /// The mails in which the owner was asked, reminded or told.
    pub fn to_owner(&self) -> Vec<Email> {
        let told = self.world.app.notices().into_iter();
        told.filter(|mail| mail.from[0].name == "Ada via Attaché")
            .collect()
    }

    /// Where the owner answers the question that was asked last.
    pub fn reply_address(&self) -> String {
        let asked = self.to_owner();
        let tagged = asked
            .iter()
            .rev()
            .find(|mail| mail.from[0].spec.contains("+a."));
        tagged.expect("a question by mail").from[0].spec.clone()
    }

    /// The owner's signed answer to that address.
    pub async fn owner_replies(&self, id: &str, body: &str) {
        let to = self.reply_address();
        let eml = self.signed(OWNER, &to, id, "", body);
        self.deliver(&eml, &to).await.expect("taken");
        self.world.app.drain().await;
    }
}

pub fn decision(verdict: ApprovalVerdict, words: &str) -> NewDecision {
    NewDecision {
        verdict,
        by: "olga@home.test".to_owned(),
        via: "test",
        words: words.to_owned(),
        evidence_json: "{}".to_owned(),
        sha256: None,
    }
}
