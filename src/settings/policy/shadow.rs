//! Rules that can never decide, because an earlier one matches whenever they do.

use super::condition::covers_patterns;
use super::rule::PolicyRule;

/// Returns the first of the earlier rules that matches whenever `rule` does. Rules that end, by time or by use, shadow
/// none. A rule that is shadowed by several together is not found.
pub fn shadow_of<'r>(earlier: &'r [PolicyRule], rule: &PolicyRule) -> Option<&'r PolicyRule> {
    earlier.iter().find(|before| shadows(before, rule))
}

fn shadows(before: &PolicyRule, rule: &PolicyRule) -> bool {
    let is_lasting = before.until.is_none() && before.uses_max.is_none();
    let is_for_it = before.persona.is_none() || before.persona == rule.persona;
    let has_its_tools = before.tools.is_empty()
        || (!rule.tools.is_empty() && covers_patterns(&before.tools, &rule.tools));
    is_lasting
        && is_for_it
        && has_its_tools
        && before.conditions.iter().all(|mine| {
            rule.conditions
                .iter()
                .any(|theirs| theirs.fact == mine.fact && mine.test.covers(&theirs.test))
        })
}
