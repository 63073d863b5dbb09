//! `attache web sessions`: browsers that are logged in.

use super::super::screen::Columns;
use super::super::{CommandContext, Exit, Failure};
use crate::store::WebSession;
use serde::Serialize;

/// Most sessions that are listed.
const SHOWN_MAX: u32 = 200;

/// List browsers that are logged in, and log them out
#[derive(clap::Subcommand)]
pub enum SessionsCommand {
    /// List the sessions that are good
    List,
    /// End a session, or all of them, at once
    Revoke {
        /// Its id, or the last characters of it
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// Every session
        #[arg(long)]
        all: bool,
    },
}

/// Number of sessions that were ended.
#[derive(Serialize)]
struct EndedSessions {
    ended: u64,
}

impl SessionsCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        let now = store.clock().now();
        let mut sessions = store.web_sessions(SHOWN_MAX).await?;
        sessions.retain(|session| session.is_good(session.used_at, now));
        let ended = match self {
            Self::List => return list(context, &sessions),
            Self::Revoke { id: None, .. } => store.end_web_sessions().await?,
            Self::Revoke {
                id: Some(typed), ..
            } => {
                let found: Vec<&WebSession> = sessions
                    .iter()
                    .filter(|session| session.id.ends_with(&typed))
                    .collect();
                let [session] = found.as_slice() else {
                    let message = format!("`{typed}` is not the end of one session's id");
                    return Err(Failure::new(Exit::NoInput, message)
                        .hint("`attache web sessions list` shows them")
                        .into());
                };
                u64::from(store.end_web_session(&session.id, "cli").await?)
            }
        };
        match context.json() {
            true => context.screen.json(&EndedSessions { ended })?,
            false => context
                .screen
                .line(format!("{} ended", crate::text::plural(ended, "session")))?,
        }
        Ok(Exit::Ok)
    }
}

fn list(context: &CommandContext, sessions: &[WebSession]) -> anyhow::Result<Exit> {
    let row = |session: &WebSession| {
        vec![
            session.id.clone(),
            session.listener.clone(),
            session.asked_by.clone(),
            session.created_at.to_string(),
            session.used_at.to_string(),
            session.expires_at.to_string(),
            session.browser.clone(),
        ]
    };
    let columns = Columns::of(&["ID", "AT", "BY", "SINCE", "USED", "ENDS", "BROWSER"])
        .main("BROWSER")
        .optional(&["USED", "AT"]);
    context
        .screen
        .list(sessions, columns, "no browser is logged in", row)?;
    Ok(Exit::Ok)
}
