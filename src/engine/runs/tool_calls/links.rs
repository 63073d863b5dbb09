//! Links of letters: a page that a letter of a stranger leads to is fetched only if the owner says so, and one that the sender names
//! is what the run is for.
//!
//! Whoever wrote the letter learns from the request that it was read, and some pages do something when they are asked for:
//! unsubscribe, confirm, accept. So the domain of a link counts, whatever its path: a token may stand anywhere in a URL.

use super::context::ToolCallContext;
use crate::domain::Trust;
use crate::mime::{named_hosts, own_words};
use crate::policy::CallFacts;
use crate::runs::error::RunError;
use crate::store::{JournalEntry, LinkedLetter, Step, StepKind};
use crate::tools::{RegisteredTool, ResultWords};
use crate::web::WebTarget;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Value of the fact for a page of `List-Unsubscribe`.
const UNSUBSCRIBE: &str = "unsubscribe";
/// Value of the fact for a link in what somebody below `contact` wrote.
const OF_STRANGER: &str = "of_stranger";

/// Value of the fact for a host that the sender's own words name.
const OF_SENDER: &str = "of_sender";
/// Value of the fact for a host of which the run has read a page.
const OF_PAGE: &str = "of_page";

/// Adds where the URL of a call is from: a letter that the run has read, the sender's own words, a page that it has read.
pub async fn with_link(
    ctx: &ToolCallContext<'_>,
    tool: &RegisteredTool,
    args: &Map<String, Value>,
    facts: CallFacts,
) -> Result<CallFacts, RunError> {
    if !tool.declaration().capabilities.web {
        return Ok(facts);
    }
    let url = args.get("url").and_then(Value::as_str).unwrap_or_default();
    let opened = ctx.deps.config.web.private_targets();
    let Ok(target) = WebTarget::parse(url, opened) else {
        return Ok(facts);
    };
    let (letters, steps) = ctx.deps.env.read_so_far(ctx.run).await?;
    let pages = letters.iter().flat_map(|letter| &letter.unsubscribe);
    let mut pages = pages.filter_map(|page| WebTarget::parse(page, opened).ok());
    if pages.any(|page| is_page(&target, &page)) {
        return Ok(facts.with("link", UNSUBSCRIBE));
    }
    let pending = ctx.pending.iter().filter_map(|entry| match entry {
        JournalEntry::Step(step) => Some(step),
        _ => None,
    });
    let steps: Vec<&Step> = steps.iter().chain(pending).collect();
    let mut hosts = hosts_of_strangers(&letters);
    hosts.extend(steps.iter().flat_map(|step| hosts_of_result(ctx, step)));
    let is_read = || {
        let mut pages = steps.iter().filter_map(|step| page_of_result(ctx, step));
        pages.any(|page| (page.host, page.port) == (target.host.clone(), target.port))
    };
    Ok(match () {
        () if hosts.iter().any(|host| is_domain(&target.host, host)) => {
            facts.with("link", OF_STRANGER)
        }
        () if is_named_by_sender(ctx, &target) => facts.with("link", OF_SENDER),
        () if is_read() => facts.with("link", OF_PAGE),
        () => facts,
    })
}

/// Reports whether the sender's own words, without what they quote, name exactly that host; `www.` before it makes no difference.
/// A name below it could hold anything.
fn is_named_by_sender(ctx: &ToolCallContext<'_>, target: &WebTarget) -> bool {
    fn bare(host: &str) -> &str {
        host.strip_prefix("www.").unwrap_or(host)
    }
    let message = &ctx.subject.message;
    let own = own_words(message.fresh_text.as_ref().unwrap_or(&message.text_body));
    let named = named_hosts(&own, None).into_iter();
    let mut named = named.filter_map(|host| WebTarget::parse(&format!("http://{host}/"), &[]).ok());
    named.any(|named| bare(&named.host) == bare(&target.host))
}

/// Returns the page that a result holds.
fn page_of_result(ctx: &ToolCallContext<'_>, step: &Step) -> Option<WebTarget> {
    let tool = ctx.deps.tools.find(&step.tool_name)?;
    if step.kind != StepKind::Result || !tool.declaration().capabilities.web {
        return None;
    }
    let payload: Value = serde_json::from_str(&step.payload_json).ok()?;
    let url = payload["result"]["url"].as_str()?;
    WebTarget::parse(url, ctx.deps.config.web.private_targets()).ok()
}

fn hosts_of_strangers(letters: &[LinkedLetter]) -> BTreeSet<String> {
    let strange = letters
        .iter()
        .filter(|letter| letter.trust < Trust::Contact);
    strange
        .flat_map(|letter| named_hosts(&letter.text, letter.html.as_deref()))
        .collect()
}

/// Returns the hosts in a result that holds letters or documents of somebody below `contact`.
fn hosts_of_result(ctx: &ToolCallContext<'_>, step: &Step) -> BTreeSet<String> {
    let words = ctx.deps.tools.result_words(&step.tool_name);
    if step.kind != StepKind::Result || words != Some(ResultWords::Letters) {
        return BTreeSet::new();
    }
    let payload: Value = serde_json::from_str(&step.payload_json).unwrap_or_default();
    let lowest = payload["label"]["lowest"].as_str().map(Trust::parse_stored);
    if lowest.is_none_or(|lowest| lowest >= Trust::Contact) {
        return BTreeSet::new();
    }
    let mut texts = Vec::new();
    collect_texts(&payload["result"], &mut texts);
    let hosts = texts.iter().flat_map(|text| named_hosts(text, None));
    hosts.collect()
}

fn collect_texts<'v>(value: &'v Value, into: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => into.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, into)),
        Value::Object(members) => members
            .values()
            .for_each(|member| collect_texts(member, into)),
        _ => {}
    }
}

/// Reports whether a URL asks for that page, whatever stands behind its path: a server may not look at it.
fn is_page(target: &WebTarget, page: &WebTarget) -> bool {
    target.host == page.host && target.url.path().starts_with(page.url.path())
}

/// Reports whether a host belongs to the domain of a named one: the last two labels are equal. Of names below a public suffix
/// such as `co.uk` that is too wide, and the owner is asked once more than needed.
fn is_domain(host: &str, named: &str) -> bool {
    let Ok(named) = WebTarget::parse(&format!("http://{named}/"), &[]) else {
        return false;
    };
    let is_address = |host: &str| host.parse::<IpAddr>().is_ok();
    if is_address(host) || is_address(&named.host) {
        return host == named.host;
    }
    host.rsplit('.').take(2).eq(named.host.rsplit('.').take(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_the_same_domain_is_the_same_however_it_is_written() {
        for (host, named) in [
            ("evil.test", "click.evil.test"),
            ("other.evil.test", "evil.test"),
            ("xn--bcher-kva.test", "bücher.test"),
            ("127.0.0.1", "2130706433"),
        ] {
            assert!(is_domain(host, named), "{host} {named}");
        }
        for (host, named) in [("evil.test", "live.test"), ("127.0.0.1", "10.0.0.1")] {
            assert!(!is_domain(host, named), "{host} {named}");
        }
    }
}
