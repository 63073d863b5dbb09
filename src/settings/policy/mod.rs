//! Policy of tool calls: rules of the owner, tried in order, and the table that applies without one. Pure.
//!
//! A rule reads facts that the engine computed, never text that a model wrote about itself. The first rule that matches
//! decides; it may narrow the table everywhere, and widen it only where the table says so (`defaults`).
//!
//! Absent on purpose: the files (`config::policy`), the facts of a call (`runs::tool_calls`), and approvals.

mod facts;
mod condition;
mod decision;
mod rule;
mod shadow;
mod likeness;
mod defaults;

pub use condition::{RuleCondition, read_condition};
pub use decision::{PolicyDecision, PolicyEffect};
pub use defaults::{NEW_RECIPIENT, TAINTED_CHANGE, TAINTED_OUT, TableDecision, by_table};
pub use facts::{CallFacts, FACTS, FactKind, KnownFact};
pub use likeness::{LikeConditions, conditions_like};
pub use rule::{PolicyCall, PolicyRule, decide, is_offered};
pub use shadow::shadow_of;
