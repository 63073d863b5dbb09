//! `attache drafts`: mails that a persona wrote for its owner to send.

mod editor;

use super::args::{LimitArg, persona_of, user};
use super::screen::{self, Columns};
use super::{CommandContext, Exit, Failure, refuse};
use crate::domain::{ApprovalState, Timestamp};
use crate::runs::approvals::edit::{NewText, edit};
use crate::store::{
    ApprovalVerdict, ApprovalView, DecisionOutcome, DraftRecord, NewDecision, SEND_LATER_MAX, Store,
};
use serde_json::json;

/// Read, edit, send or discard mails that a persona wrote for you to send
#[derive(clap::Subcommand)]
pub enum DraftsCommand {
    /// List drafts that wait, the newest first
    List {
        /// Only this persona's
        #[arg(long, value_name = "ID")]
        persona: Option<String>,
        /// Also drafts that were sent, discarded or not sent in time
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        page: LimitArg,
    },
    /// Show a draft: whom it would go to, its text, and what it was before edits
    Show {
        /// Its id, or the last or first characters of it
        id: String,
    },
    /// Edit subject and text of a draft in the program that VISUAL or EDITOR names
    Edit {
        /// Its id, or the last or first characters of it
        id: String,
        /// Take the new text from this file, or from standard input for `-`, in place of an editor; a first line `Subject: …` is
        /// its subject
        #[arg(long, value_name = "FILE")]
        file: Option<String>,
        /// Send it as edited
        #[arg(long)]
        send: bool,
    },
    /// Send a draft, exactly as shown
    Send {
        /// Its id, or the last or first characters of it
        id: String,
        /// Send only if this is the digest of the draft, as `show` prints it
        #[arg(long, value_name = "SHA256")]
        hash: Option<String>,
        /// Send it then, such as 2026-12-24T09:00:00+01:00, at most 30 days ahead; `attache outbox cancel` calls it back
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
    /// Discard a draft
    Discard {
        /// Its id, or the last or first characters of it
        id: String,
        /// Reason, for the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

impl DraftsCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::List { persona, all, page } => list(context, persona, all, page.limit).await,
            Self::Show { id } => show(context, &id).await,
            Self::Edit { id, file, send } => edit_draft(context, &id, file, send).await,
            Self::Send { id, hash, at } => send(context, &id, hash, at).await,
            Self::Discard { id, reason } => {
                let store = context.store_of_engine().await?;
                let record = found(&store, &id).await?;
                let words = reason.unwrap_or_default();
                decided(
                    context,
                    &store,
                    &record,
                    ApprovalVerdict::Reject,
                    words,
                    None,
                )
                .await
            }
        }
    }
}

async fn list(
    context: &CommandContext,
    persona: Option<String>,
    all: bool,
    limit: u32,
) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let persona = persona_of(context, &store, persona).await?;
    let state = (!all).then_some(ApprovalState::Open);
    let found = store.drafts(state, persona.as_ref(), limit).await?;
    let columns = Columns::of(&["ID", "PERSONA", "STATE", "WRITTEN", "ENDS", "TO", "SUBJECT"])
        .main("SUBJECT")
        .optional(&["WRITTEN", "ENDS"]);
    context.list(&found, columns, "no draft waits", cells)
}

fn cells(view: &ApprovalView) -> Vec<String> {
    let head = || view.view.lines().take_while(|line| !line.is_empty());
    let of = |field: &str| {
        head()
            .find_map(|line| line.strip_prefix(field))
            .unwrap_or_default()
    };
    vec![
        view.id.clone(),
        view.persona.to_string(),
        state_of(view).to_owned(),
        view.requested_at.to_string(),
        view.expires_at.to_string(),
        of("To: ")
            .split("  (")
            .next()
            .unwrap_or_default()
            .to_owned(),
        of("Subject: ").to_owned(),
    ]
}

/// State of a draft in its owner's words.
fn state_of(view: &ApprovalView) -> &'static str {
    match view.state {
        ApprovalState::Open => "waits",
        ApprovalState::Approved => "sent",
        ApprovalState::Rejected | ApprovalState::Edited => "discarded",
        ApprovalState::Expired => "not sent in time",
        ApprovalState::Answered | ApprovalState::Superseded | ApprovalState::Cancelled => "closed",
    }
}

async fn show(context: &CommandContext, id: &str) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let record = found(&store, id).await?;
    let view = &record.view;
    if context.json() {
        let content = &record.mail.content;
        context.screen.json(&json!({
            "draft": view, "subject": content.subject, "text": content.text_body, "versions": record.versions,
        }))?;
        return Ok(Exit::Ok);
    }
    let decided = view.decided_at.map(|at| at.to_string());
    context.screen.fields(&[
        ("draft", view.id.clone()),
        ("state", state_of(view).to_owned()),
        ("persona", view.persona.to_string()),
        ("run", view.run.to_string()),
        ("written", view.requested_at.to_string()),
        ("ends", view.expires_at.to_string()),
        ("edits", view.edits.to_string()),
        ("decided", decided.unwrap_or_else(|| "-".to_owned())),
        ("by", view.decided_by.clone().unwrap_or_default()),
        ("words", view.words.clone().unwrap_or_default()),
        ("sha256", view.sha256.clone()),
    ])?;
    context.screen.line("")?;
    for line in view.view.lines() {
        context.screen.line(line)?;
    }
    for version in &record.versions {
        context.screen.line("")?;
        context.screen.line(format!(
            "--- before the edit of {} by {} ---",
            version.replaced_at,
            crate::text::visible(&version.replaced_by)
        ))?;
        context.screen.line(format!(
            "Subject: {}",
            crate::text::visible(&version.subject)
        ))?;
        context.screen.line("")?;
        for line in version.text.lines() {
            context.screen.line(crate::text::visible(line))?;
        }
    }
    Ok(Exit::Ok)
}

async fn edit_draft(
    context: &CommandContext,
    id: &str,
    file: Option<String>,
    send: bool,
) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let store = context.store_of_engine().await?;
    let record = found(&store, id).await?;
    if record.view.state != ApprovalState::Open {
        let message = format!(
            "`{}` is no draft that waits: {}",
            record.view.id,
            state_of(&record.view)
        );
        return Err(Failure::new(Exit::Failed, message).into());
    }
    let (subject, old) = (&record.mail.content.subject, &record.mail.content.text_body);
    let file = match file {
        Some(path) => editor::read(&path)?,
        None => {
            let folder = context.workspace.join("data");
            editor::edited(&folder, &record.view.id, &editor::written(subject, old))?
        }
    };
    let (new_subject, new_text) = editor::parsed(&file);
    let new_subject = new_subject.as_ref().unwrap_or(subject);
    let is_changed = new_subject != subject || new_text != old.trim();
    if is_changed {
        let trigger = store.run_summary(&record.view.run).await?.trigger;
        let new = NewText {
            subject: new_subject,
            text: &new_text,
            at: None,
        };
        let edit = edit(&config, &store, &record, trigger, &new, user(), "cli");
        let edit = edit
            .map_err(|error| Failure::new(Exit::Usage, format!("nothing was changed: {error}")))?;
        store.edit_draft(&record.view.id, edit).await?;
    }
    let record = store.draft(&record.view.id).await?;
    if send {
        let hash = Some(record.view.sha256.clone());
        return decided(
            context,
            &store,
            &record,
            ApprovalVerdict::Approve,
            String::new(),
            hash,
        )
        .await;
    }
    context.report(
        &json!({
            "id": record.view.id, "edited": is_changed, "sha256": record.view.sha256,
        }),
        |screen| {
            let what = match is_changed {
                true => "edited; it still waits",
                false => "not changed",
            };
            screen.line(format!("{}: {what}", record.view.id))?;
            Ok(())
        },
    )
}

async fn send(
    context: &CommandContext,
    id: &str,
    mut hash: Option<String>,
    at: Option<String>,
) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    let mut record = found(&store, id).await?;
    if let Some(typed) = at
        && hash.as_ref().is_none_or(|hash| *hash == record.view.sha256)
    {
        record = dated(context, &store, &record, &typed).await?;
        hash = Some(record.view.sha256.clone());
    }
    decided(
        context,
        &store,
        &record,
        ApprovalVerdict::Approve,
        String::new(),
        hash,
    )
    .await
}

/// Gives a draft the instant at which it is to leave. Its bytes have another date then, so it is an edit.
async fn dated(
    context: &CommandContext,
    store: &Store,
    record: &DraftRecord,
    typed: &str,
) -> anyhow::Result<DraftRecord> {
    let now = store.clock().now();
    let at = Timestamp::parse(typed.trim());
    let at = at.filter(|at| *at > now && *at <= now.plus(SEND_LATER_MAX));
    let at = at.ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            format!("`{typed}` is no instant within the next 30 days"),
        )
        .hint("write it with its offset, such as `2026-12-24T09:00:00+01:00`")
    })?;
    let trigger = store.run_summary(&record.view.run).await?.trigger;
    let new = NewText {
        subject: &record.mail.content.subject,
        text: &record.mail.content.text_body,
        at: Some(at),
    };
    let config = context.config()?;
    let edit = edit(&config, store, record, trigger, &new, user(), "cli");
    let edit =
        edit.map_err(|error| Failure::new(Exit::Usage, format!("nothing was changed: {error}")))?;
    store.edit_draft(&record.view.id, edit).await?;
    Ok(store.draft(&record.view.id).await?)
}

async fn decided(
    context: &CommandContext,
    store: &Store,
    record: &DraftRecord,
    verdict: ApprovalVerdict,
    words: String,
    sha256: Option<String>,
) -> anyhow::Result<Exit> {
    let id = &record.view.id;
    let decision = NewDecision {
        verdict,
        by: user(),
        via: "cli",
        words,
        evidence_json: "{}".to_owned(),
        sha256,
    };
    match store.decide_approval(id, decision).await? {
        DecisionOutcome::Decided(state) => {
            let view = store.approval(id).await?;
            match context.json() {
                true => context.screen.json(&json!({ "id": id, "state": state }))?,
                false => context.screen.line(format!("{id}: {}", state_of(&view)))?,
            }
            if state == ApprovalState::Expired {
                screen::remark("its time was over before you decided, so it was not sent");
            }
            Ok(Exit::Ok)
        }
        DecisionOutcome::Already { .. } => {
            let view = store.approval(id).await?;
            let at = view
                .decided_at
                .map(|at| format!(", since {at}"))
                .unwrap_or_default();
            let message = format!("`{id}` does not wait any more: {}{at}", state_of(&view));
            Err(Failure::new(Exit::Failed, message).into())
        }
        DecisionOutcome::OtherBytes | DecisionOutcome::NotFitting => refuse(
            Exit::Failed,
            format!("`{id}` is another draft than this digest's"),
            "`attache drafts show` prints it as it is now, with its sha256",
        ),
    }
}

/// Finds a draft by its id or the end of it. Errors: none, or several.
async fn found(store: &Store, typed: &str) -> anyhow::Result<DraftRecord> {
    if let Ok(record) = store.draft(typed).await {
        return Ok(record);
    }
    let mut records = Vec::new();
    for id in store.approvals_ending(typed).await? {
        records.extend(store.draft(&id).await.ok());
    }
    match records.len() {
        1 => Ok(records.remove(0)),
        0 => refuse(
            Exit::NoInput,
            format!("no draft `{typed}`"),
            "`attache drafts list --all` lists all of them",
        ),
        _ => refuse(
            Exit::NoInput,
            format!("several drafts end with `{typed}`"),
            "type more of the id",
        ),
    }
}
