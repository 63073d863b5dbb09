//! The tools as the run loop calls them: arguments checked, then the call, on a real folder and a real database.

mod by_need;
mod files;
mod forwarding;
mod letters;
mod patterns;
mod memory;
mod proposals;
mod registry;
pub mod search;
mod sending;
mod workspace_files;

use crate::app::database;
use attache::clock::{Clock, ManualClock};
use attache::config::Limits;
use attache::domain::{Address, MessageId, PersonaId, RunId, ThreadId, Timestamp, Trust};
use attache::extract::{ExtractLimits, Extractor};
use attache::shell::CommandSandbox;
use attache::store::files::workspace::WorkspaceQuota;
use attache::store::{PersonaStore, Store};
use attache::tools::{
    Answered, KeptWorkspace, MailPolicy, Reader, RecipientPlace, SkillReader, ToolCall, ToolEnv,
    ToolError, ToolLimits, ToolOutcome, ToolResources, WriteOrigin, builtin, recipient_not_allowed,
};
use attache::web::AnyRedirect;
use cap_std::fs_utf8::Dir;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

pub fn address(text: &str) -> Address {
    Address::parse(text).expect("a test address")
}

/// A workspace with one persona, and what a call needs.
pub struct RunDeps {
    workspace: tempfile::TempDir,
    pub store: Store,
    pub persona: PersonaStore,
    folder: Dir,
    pub mail: MailPolicy,
    pub limits: ToolLimits,
    pub clock: Arc<ManualClock>,
    pub origin: WriteOrigin,
    pub reader: Reader,
    /// Message that the run answers.
    pub trigger: MessageId,
    pub thread: ThreadId,
    persona_folder: PathBuf,
    /// `None`: there is no sandbox.
    pub commands: Option<CommandSandbox>,
    documents: Extractor,
}

impl RunDeps {
    /// A run of `ada` that answers Carol, in a thread of Carol and Dan.
    pub async fn new() -> Self {
        let workspace = database::folder().await;
        let clock = Arc::new(ManualClock::at(
            Timestamp::parse("2026-11-20T08:00:00Z").expect("an instant"),
        ));
        let store = Store::open(workspace.path(), clock.clone())
            .await
            .expect("a database");
        let folder = workspace.path().join("personas/ada");
        std::fs::create_dir_all(folder.join("knowledge")).expect("a persona's folder");
        let opened = Dir::open_ambient_dir(utf8(&folder), cap_std::ambient_authority());
        let persona = store.persona(&PersonaId::parse("ada").expect("an id"));
        let mail = MailPolicy {
            outbound_configured: true,
            persona_address: address("ada@engine.test"),
            participants: vec![address("carol@partner.test"), address("dan@partner.test")],
            owners: vec![address("owner@home.test")],
            allow: vec!["desk@hotel.example".into(), "*@kitchen.example".into()],
            mails_per_run_max: 3,
            mails_sent: 0,
            answers: Some(answered("carol@partner.test")),
            closed: None,
        };
        let origin = WriteOrigin {
            from: "carol@partner.test".into(),
            trust: "contact".into(),
            sender: Trust::Contact,
            lowest: Trust::Contact,
            at: Timestamp::parse("2026-11-20T07:59:00Z").expect("an instant"),
            readers: attache::domain::Readers::Everyone,
            audience: attache::domain::MemoryAudience {
                people: ["carol@partner.test".to_owned()].into(),
            },
        };
        let limits = ToolLimits {
            result_bytes_max: 4096,
            file_bytes_max: 16 * 1024,
            memory_bytes_max: 512,
            attachments_bytes_max: 20 * 1024,
            duration_max: std::time::Duration::from_secs(60),
        };
        Self {
            workspace,
            store,
            persona,
            folder: opened.expect("the folder"),
            mail,
            limits,
            clock,
            origin,
            reader: Reader::Correspondent,
            trigger: MessageId::new("no letter"),
            thread: ThreadId::new("no thread"),
            persona_folder: folder,
            commands: None,
            documents: Extractor::new(
                env!("CARGO_BIN_EXE_attache").into(),
                ExtractLimits::default(),
            ),
        }
    }

    /// Path of something in the persona's folder, for arranging and looking, not for the tools.
    pub fn path(&self, name: &str) -> PathBuf {
        self.workspace.path().join("personas/ada").join(name)
    }

    /// Path of something outside the persona's folder.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.workspace.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, content).expect("a file");
    }

    pub fn resources(&self) -> ToolResources<'_> {
        ToolResources {
            folder: &self.folder,
            mail: &self.mail,
            store: &self.persona,
            trigger: &self.trigger,
            thread: &self.thread,
            documents: &self.documents,
            web: None,
            redirects: &AnyRedirect,
            web_search: None,
            zone: chrono_tz::UTC,
            programs: None,
            commands: self.commands.as_ref(),
            skills: SkillReader {
                skills: &[],
                shared: None,
                persona: &self.folder,
            },
            mcp: None,
            question_vectors: None,
            memory: None,
            workspace: Some(KeptWorkspace {
                folder: &self.persona_folder,
                quota: WorkspaceQuota::from(&Limits::default()),
            }),
        }
    }

    /// Calls a tool as the run loop does: schema first.
    pub async fn call(&self, tool: &str, args: Value) -> Result<ToolOutcome, ToolError> {
        let args = args.as_object().expect("an object").clone();
        let tools = builtin();
        let tool = tools.find(tool).expect("a tool");
        tool.check_args(&args)
            .unwrap_or_else(|fault| panic!("{}: {fault}", tool.name()));
        let run = RunId::new("run-1");
        let call = ToolCall {
            run: &run,
            args: &args,
            env: ToolEnv::new(tool.declaration().capabilities, self.resources()),
            limits: &self.limits,
            clock: self.clock.as_ref() as &dyn Clock,
            origin: &self.origin,
            reader: self.reader,
        };
        let outcome = tool.call(call).await?;
        // As the table does for a run that may ask nobody.
        let draft = outcome.mail.iter();
        let mut named = draft.flat_map(|draft| draft.to.iter().chain(&draft.cc).chain(&draft.bcc));
        let is_outside =
            |to: &&Address| RecipientPlace::of(to, &self.mail) == RecipientPlace::Outside;
        match named.find(is_outside) {
            Some(address) => Err(recipient_not_allowed(address, &self.mail)),
            None => Ok(outcome),
        }
    }

    pub async fn result(&self, tool: &str, args: Value) -> Value {
        self.call(tool, args)
            .await
            .expect("the call succeeds")
            .result
    }

    /// Code and words of the failure that the model may mend.
    pub async fn failure(&self, tool: &str, args: Value) -> (&'static str, String) {
        match self.call(tool, args.clone()).await {
            Err(ToolError::Mendable { code, message }) => (code, message),
            other => panic!("{tool} {args}: {other:?}"),
        }
    }
}

pub fn answered(sender: &str) -> Answered {
    Answered {
        sender: Some(address(sender)),
        sender_trust: if sender.eq_ignore_ascii_case("owner@home.test") {
            Trust::Owner
        } else {
            Trust::Contact
        },
        reply_to: None,
        subject: "Late supper".into(),
        rfc_message_id: Some("one@partner.test".into()),
        references: Vec::new(),
        received_at: Timestamp::parse("2026-11-20T07:59:00Z").expect("an instant"),
    }
}

/// What each line ends with that a call of the dependencies leaves in the memory.
pub const MARK: &str = "<!-- from carol@partner.test (contact), 2026-11-20, run run-1 -->";

fn utf8(path: &std::path::Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

#[test]
fn every_tool_has_a_legal_name_words_and_a_closed_schema() {
    let mut names = std::collections::BTreeSet::new();
    for tool in builtin().iter() {
        let name = tool.name();
        assert!(names.insert(name), "{name} twice");
        assert!(
            name.starts_with(|c: char| c.is_ascii_lowercase()) && name.len() <= 64,
            "{name}"
        );
        assert!(
            name.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
            "{name}"
        );
        assert!(
            (40..600).contains(&tool.description().len()),
            "{name}: words"
        );
        let schema = tool.input_schema();
        jsonschema::meta::validate(schema).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(schema["type"], "object", "{name}");
        assert_eq!(schema["additionalProperties"], false, "{name}");
        for (field, about) in schema["properties"].as_object().expect("properties") {
            // A name that says it needs no more words.
            let words = about.get("description").map(|words| words.as_str());
            assert!(
                words.is_none_or(|words| words.is_some_and(|words| words.len() > 7)),
                "{name}.{field}: words"
            );
        }
        let unknown = json!({"surely_not": 1});
        assert!(
            tool.check_args(unknown.as_object().expect("an object"))
                .is_err(),
            "{name}: closed"
        );
    }
    assert!(builtin().find("send_email").is_some());
    assert!(builtin().find("nope").is_none());
}

#[test]
fn the_spellings_that_models_use_pass_the_schema() {
    let good = [
        (
            "send_email",
            json!({"to": "carol@partner.test", "body": "x"}),
        ),
        (
            "send_email",
            json!({"to": "carol@partner.test, dan@partner.test", "body": "x", "cc": null}),
        ),
        (
            "send_email",
            json!({"to": ["carol@partner.test"], "body": "x", "attachments": "a.md", "reply": true}),
        ),
        ("search_email", json!({"query": "supper", "limit": 5.0})),
        (
            "search_email",
            json!({"limit": 1000, "since": "2026-11-20"}),
        ),
        (
            "read_file",
            json!({"path": "a.md", "offset": 0, "max_bytes": 10}),
        ),
        ("list_files", json!({})),
        ("update_memory", json!({"append": "x"})),
        (
            "schedule_create",
            json!({"name": "A", "prompt": "Go.", "timezone": "UTC", "every": "1h"}),
        ),
    ];
    for (tool, args) in good {
        let object = args.as_object().expect("an object");
        assert_eq!(
            builtin().find(tool).expect("a tool").check_args(object),
            Ok(()),
            "{tool} {args}"
        );
    }
    let bad = [
        (
            "search_email",
            json!({"query": "x", "limit": "five"}),
            "field `limit` must be integer, not string",
        ),
        (
            "search_email",
            json!({"querry": "x"}),
            "there is no field `querry`; did you mean `query`",
        ),
        ("read_file", json!({"offset": 1}), "field `path` is missing"),
        (
            "read_file",
            json!({"path": ["a"]}),
            "field `path` must be string, not this array",
        ),
    ];
    for (tool, args, wanted) in bad {
        let object = args.as_object().expect("an object");
        let fault = builtin()
            .find(tool)
            .expect("a tool")
            .check_args(object)
            .expect_err("a fault");
        assert!(
            fault.starts_with(wanted) && fault.contains("; required: "),
            "{tool} {args}: {fault}"
        );
    }
}
