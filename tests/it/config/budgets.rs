//! A day without a bound is said.

use super::Workspace;

#[test]
fn no_bound_on_a_day_or_a_month_is_a_warning_where_calls_are_paid() {
    // The provider, the budget of the engine and that of the only persona, and whether it is said.
    let cases = [
        ("openai", "{}", "{}", true),
        (
            "openai",
            r#"{"tokens_max": 1000, "cost_usd_max": 1, "mails_max": 1}"#,
            "{}",
            true,
        ),
        ("openai", r#"{"thread_day_tokens_max": 1000}"#, "{}", true),
        ("openai", r#"{"persona_day_mails_max": 10}"#, "{}", true),
        ("openai", r#"{"day_tokens_max": 1000}"#, "{}", false),
        ("openai", r#"{"day_usd_max": 1}"#, "{}", false),
        ("openai", r#"{"month_tokens_max": 1000}"#, "{}", false),
        ("openai", r#"{"month_usd_max": 1}"#, "{}", false),
        ("openai", r#"{"persona_day_tokens_max": 1000}"#, "{}", false),
        ("openai", r#"{"persona_month_usd_max": 1}"#, "{}", false),
        ("openai", "{}", r#"{"day_tokens_max": 1000}"#, false),
        ("openai", "{}", r#"{"month_usd_max": 1}"#, false),
        ("openai", "{}", r#"{"tokens_max": 1000}"#, true),
        ("scripted", "{}", "{}", false),
    ];
    for (provider, budget, of_persona, is_said) in cases {
        let workspace = Workspace::new().with_env("OPENAI_API_KEY", "k-1");
        workspace.write(
            "configs/inference.json",
            &format!(
                r#"{{"provider": "{provider}", "model": "m", "budget": {budget}, "providers": {{"scripted": {{"script": "s.json"}}}}}}"#
            ),
        );
        workspace.write(
            "personas/ada/persona.json",
            &format!(r#"{{"name": "Ada", "address": "ada", "budget": {of_persona}}}"#),
        );
        let warnings = workspace.loaded().warnings;
        let said = warnings
            .iter()
            .any(|warning| warning.message.contains("nothing bounds what a day"));
        assert_eq!(
            said, is_said,
            "{provider} {budget} {of_persona}: {warnings:?}"
        );
    }
}
