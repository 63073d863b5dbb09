//! What a run may spend, and what a call has cost.

use super::work::Work;
use crate::domain::{CostSource, Usage};

/// What a call cost: as its provider says.
pub fn priced(_work: &Work<'_>, usage: Usage) -> (Usage, CostSource) {
    let source = if usage.cost_micros.is_some() { CostSource::Provider } else { CostSource::None };
    (usage, source)
}
