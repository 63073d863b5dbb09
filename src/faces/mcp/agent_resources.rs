//! Threads and runs by an address, `attache://thread/ID` and `attache://run/ID`: what `read_thread` and `explain_run` (for agents that may
//! read no more than they asked, `read_run`) say of them.

use super::agent_access::AgentAccess;
use super::agent_args::{ExplainRunArgs, ReadRunArgs, ReadThreadArgs};
use super::agent_reader::{AgentReader, json};
use crate::config::AgentTool;
use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ReadResourceResult, ResourceContents, ResourceTemplate,
};

static SCHEME: &str = "attache://";
static JSON_TYPE: &str = "application/json";

/// Kind of a resource.
#[derive(Debug, Clone, Copy)]
enum ResourceKind {
    Thread,
    Run,
}

impl ResourceKind {
    /// Returns the tool that says the same; `None`: the agent has none of them.
    fn tool(self, access: &AgentAccess) -> Option<AgentTool> {
        let tools: &[AgentTool] = match self {
            Self::Thread => &[AgentTool::ReadThread],
            Self::Run => &[AgentTool::ExplainRun, AgentTool::ReadRun],
        };
        let offered = tools.iter().find(|tool| access.tools.contains(tool));
        offered.copied()
    }
}

/// Lists the forms of addresses that an agent may read.
pub fn templates(access: &AgentAccess) -> ListResourceTemplatesResult {
    let forms = [
        (
            ResourceKind::Thread,
            "thread",
            "The newest letters and runs of a thread.",
        ),
        (
            ResourceKind::Run,
            "run",
            "What happened in a run, as far as it may be read.",
        ),
    ];
    let offered = forms
        .into_iter()
        .filter(|(kind, ..)| kind.tool(access).is_some());
    let templates = offered.map(|(_, name, text)| {
        let form = format!("{SCHEME}{name}/{{id}}{{?cursor}}");
        ResourceTemplate::new(form, name)
            .with_description(text)
            .with_mime_type(JSON_TYPE)
    });
    ListResourceTemplatesResult::with_all_items(templates.collect())
}

/// Reads a resource. Errors: there is none of that address, or none for this agent.
pub async fn read(reader: &AgentReader, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let missing = |why: String| ErrorData::resource_not_found(why, None);
    let forms =
        "there are `attache://thread/ID` and `attache://run/ID`, as far as their tools are offered";
    let none = || missing(forms.to_owned());
    let path = uri.strip_prefix(SCHEME).ok_or_else(none)?;
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let cursor = query.strip_prefix("cursor=").map(str::to_owned);
    let (kind, id) = path.split_once('/').ok_or_else(none)?;
    let kind = match kind {
        "thread" => ResourceKind::Thread,
        "run" => ResourceKind::Run,
        _ => return Err(none()),
    };
    let id = id.to_owned();
    let text = match kind.tool(&reader.access) {
        Some(AgentTool::ReadThread) => {
            let limit = None;
            let args = ReadThreadArgs { id, limit, cursor };
            let thread = reader.read_thread(&args).await;
            thread.and_then(|thread| json(&thread))
        }
        Some(AgentTool::ExplainRun) => {
            let full = false;
            let args = ExplainRunArgs { id, full, cursor };
            reader.explain_run(&args).await
        }
        Some(AgentTool::ReadRun) => reader.read_run(&ReadRunArgs { id, cursor }).await,
        _ => return Err(none()),
    };
    let contents = ResourceContents::text(text.map_err(missing)?, uri).with_mime_type(JSON_TYPE);
    Ok(ReadResourceResult::new(vec![contents]))
}
