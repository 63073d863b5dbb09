//! An attack as its file says it.

use super::effects::Effect;
use super::network::NetworkPlan;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The file beside the cases that is none.
const HELD: &str = "held";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attack {
    /// What the enemy wants, in a sentence.
    #[serde(rename = "what")]
    _what: String,
    /// Guards that alone stop it: without any of them a forbidden effect happens.
    #[cfg_attr(
        not(debug_assertions),
        expect(dead_code, reason = "of the mutation run")
    )]
    #[serde(default)]
    pub guards: Vec<String>,
    /// Programs without which the case cannot be played.
    #[serde(default)]
    pub needs: Vec<String>,
    pub attack: Play,
    pub forbidden: Vec<Effect>,
    pub required: Vec<Effect>,
    pub twin: Twin,
    #[serde(skip)]
    whole: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Twin {
    /// Members of `attack` that are others.
    pub change: Map<String, Value>,
    pub effects: Vec<Effect>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Play {
    /// Text by path in the workspace.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Where a link leads, by its path; a path that begins with `=` is a hard link's, with `|` a FIFO's.
    #[serde(default)]
    pub links: BTreeMap<String, String>,
    /// `file#pointer` -> value.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// Names and servers; such a play is for the namespace.
    pub network: Option<NetworkPlan>,
    /// A server of tools.
    pub mcp: Option<PlayedServer>,
    /// Of the scripted provider.
    pub script: Value,
    pub steps: Vec<Step>,
}

/// The MCP server `met`, a program on this machine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlayedServer {
    /// Members of its declaration that are others.
    pub declared: Value,
    /// Tools as they were approved.
    pub pinned: Vec<Value>,
    /// Tools as they are; default: as approved.
    pub now: Option<Vec<Value>>,
    /// What a call gives.
    pub answer: Option<Value>,
}

/// What happens, in order.
#[derive(Deserialize, Clone)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    Letter(Letter),
    /// The last letter is handed over once more.
    Again,
    Write {
        path: String,
        text: String,
    },
    /// Time passes, and the engine does nothing.
    Hours(u64),
    /// The owner logs in at this MCP server, as far as that goes without a browser.
    Login(String),
    /// A decision on the first question, at the store's door.
    Decide {
        verdict: String,
        sha256: Option<String>,
    },
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub struct Letter {
    pub from: String,
    /// Domain whose key signs it; empty: none. Default: that of `from`.
    pub signed: Option<String>,
    /// Default: Ada. `question`: where the owner answers the question asked last.
    pub to: Option<String>,
    /// What `To` says, where that is another address.
    pub header_to: Option<String>,
    pub id: String,
    /// Header lines.
    #[serde(default)]
    pub more: Vec<String>,
    pub body: String,
}

impl Attack {
    /// Reports whether the programs are there; says SKIPPED otherwise.
    pub fn can_be_played(&self, id: &str) -> bool {
        let needs: Vec<&str> = self.needs.iter().map(String::as_str).collect();
        let can = crate::shell::is_there(&needs);
        if !can {
            println!("SKIPPED: {id}");
        }
        can
    }

    pub fn has_network(&self) -> bool {
        self.attack.network.is_some()
    }

    pub fn twin_play(&self) -> Play {
        let mut play = self.whole["attack"].clone();
        for (member, value) in &self.twin.change {
            play[member] = value.clone();
        }
        serde_json::from_value(play).expect("a twin")
    }
}

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/attacks")
}

/// Every attack with its id.
pub fn attacks() -> Vec<(String, Attack)> {
    let files = crate::corpora::files(&folder(), "json");
    let mut attacks = Vec::new();
    for path in files {
        let id = path.file_stem().expect("a name").to_string_lossy();
        if id == HELD {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a case");
        let whole: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{id}: {e}"));
        let read = serde_json::from_value(whole.clone());
        let mut attack: Attack = read.unwrap_or_else(|e| panic!("{id}: {e}"));
        attack.whole = whole;
        assert!(
            !attack.forbidden.is_empty() && !attack.twin.effects.is_empty(),
            "{id} says nothing"
        );
        attacks.push((id.into_owned(), attack));
    }
    attacks
}
