//! Options of the agent that the next call goes to, and the ids of its sessions.

use crate::providers::AgentOptions;
use crate::store::SessionKey;

/// State of the agent that the next call goes to.
#[derive(Default)]
pub struct AgentState {
    /// Options; `None` where the engine owns the loop.
    pub options: Option<AgentOptions>,
    /// Key under which the session of the next call is kept; `None` as `options`.
    pub key: Option<SessionKey>,
    /// `true`: a session was lost and replaced already; the next loss is an error.
    pub renewed: bool,
}

/// Reports whether a session id of an agent is safe in an argument: `^[A-Za-z0-9_-]{1,128}$`, and
/// no option.
pub fn is_session_id(id: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=128).contains(&id.len()) && !id.starts_with('-') && id.chars().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_could_be_an_option_or_a_path_is_no_session() {
        for good in ["ses_01ABC", "0199-aa", "a", &"x".repeat(128)] {
            assert!(is_session_id(good), "{good}");
        }
        for bad in [
            "",
            "-p",
            "--resume",
            "../x",
            "a b",
            "a/b",
            "ü",
            "a\n",
            &"x".repeat(129),
        ] {
            assert!(!is_session_id(bad), "{bad}");
        }
    }
}
