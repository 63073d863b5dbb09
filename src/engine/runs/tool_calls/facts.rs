//! Facts of a call, as the policy's rules read them.

use super::context::ToolCallContext;
use super::run_facts::{of_run, of_tool};
use crate::domain::{Address, Readers};
use crate::mutants::is_off;
use crate::policy::CallFacts;
use crate::runs::label::RunLabel;
use crate::tools::{MailDraft, MailPolicy, RecipientPlace, RegisteredTool};
use crate::web::WebTarget;
use serde_json::{Map, Value};

/// Returns the facts of a call of a tool, without a mail.
pub fn of_call(
    ctx: &ToolCallContext<'_>,
    tool: &RegisteredTool,
    args: &Map<String, Value>,
) -> CallFacts {
    let facts = of_tool(so_far(ctx), tool);
    let capabilities = tool.declaration().capabilities;
    if capabilities.web {
        return of_url(facts, ctx, args);
    }
    if capabilities.web_search {
        let host = ctx.deps.config.web.search.as_ref();
        let host = host.map_or("none", |search| search.host.as_str());
        let may_read = ctx.label.readers.is_everyone() || is_off("G10");
        return facts
            .with("audience", audience(may_read))
            .with("host", host);
    }
    if let Some(server) = ctx.deps.config.server_of(tool.name()) {
        // Whoever is behind the server reads the arguments.
        let owners = &ctx.deps.config.gateway.owners;
        let may_read = is_off("G11") || ctx.label.readers.include(&server.audience, owners);
        return facts.with("audience", audience(may_read));
    }
    if capabilities.programs && tool.effects().sends_out {
        // Whoever its program sends to reads what the model writes.
        return facts.with("audience", audience(ctx.label.readers.is_everyone()));
    }
    let path = args.get("path").and_then(Value::as_str);
    match path.filter(|_| capabilities.files) {
        Some(path) => facts.with("path", path),
        None => facts,
    }
}

/// Adds the facts of a URL: whoever runs its server, and the name servers on the way, read it.
fn of_url(facts: CallFacts, ctx: &ToolCallContext<'_>, args: &Map<String, Value>) -> CallFacts {
    let may_read = ctx.label.readers.is_everyone() || is_off("G10");
    let facts = facts.with("audience", audience(may_read));
    let url = args.get("url").and_then(Value::as_str).unwrap_or_default();
    // A URL that is none is refused before anybody is asked.
    match WebTarget::parse(url, ctx.deps.config.web.private_targets()) {
        Ok(target) => facts.with("host", target.host),
        Err(_) => facts.with("host", "none"),
    }
}

fn audience(may_read: bool) -> &'static str {
    match may_read {
        true => "may_read",
        false => "may_not_read",
    }
}

/// Returns the facts of the run at this moment.
pub fn so_far(ctx: &ToolCallContext<'_>) -> CallFacts {
    let facts = of_run(ctx.run, ctx.persona, &ctx.label, ctx.deps.clock.now());
    facts
        .with("floor", ctx.label.floor.as_str())
        .with("private", !ctx.label.readers.is_everyone())
        .with("calls", ctx.calls)
        .with("mails", ctx.mails_sent)
}

/// Adds the facts of a mail.
pub fn of_mail(
    facts: CallFacts,
    label: &RunLabel,
    draft: &MailDraft,
    mail: &MailPolicy,
) -> CallFacts {
    let everybody = || draft.to.iter().chain(&draft.cc).chain(&draft.bcc);
    let place = everybody()
        .map(|address| RecipientPlace::of(address, mail))
        .max();
    let names: Vec<&str> = draft
        .attachments
        .iter()
        .map(|attachment| attachment.filename.as_str())
        .collect();
    let attached: usize = draft.attachments.iter().map(|a| a.bytes.len()).sum();
    let may_read = everybody().all(|address| permits(&label.readers, address, mail));
    let facts = facts
        .with("recipients", place.map_or("none", RecipientPlace::as_str))
        .with(
            "recipient",
            everybody().map(Address::key).collect::<Vec<_>>(),
        )
        .with("audience", audience(may_read))
        .with("bytes", draft.subject.len() + draft.body.len() + attached);
    match names.is_empty() {
        true => facts,
        false => facts
            .with("attachments", names.len())
            .with("attachment", names),
    }
}

/// Reports whether a recipient may read what the run has read: owners always may.
fn permits(readers: &Readers, address: &Address, mail: &MailPolicy) -> bool {
    let is_owner = mail.owners.iter().any(|owner| owner.key() == address.key());
    is_owner || readers.permit(address)
}

/// Returns the first recipient outside of what the run may write to, if there is one.
pub fn outsider<'d>(draft: &'d MailDraft, mail: &MailPolicy) -> Option<&'d Address> {
    let mut everybody = draft.to.iter().chain(&draft.cc).chain(&draft.bcc);
    everybody.find(|address| RecipientPlace::of(address, mail) == RecipientPlace::Outside)
}

/// Returns the first recipient who may not read what the run has read, if there is one.
pub fn no_reader<'d>(
    draft: &'d MailDraft,
    mail: &MailPolicy,
    label: &RunLabel,
) -> Option<&'d Address> {
    let mut everybody = draft.to.iter().chain(&draft.cc).chain(&draft.bcc);
    everybody.find(|address| !permits(&label.readers, address, mail))
}
