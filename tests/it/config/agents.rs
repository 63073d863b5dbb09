//! Tiers of agents: refused where nothing keeps the agent in its workspace, unless the owner accepts that.

use super::Workspace;
use attache::config::{Config, ConfigErrors, Tier, load_with};

fn load(block: &str) -> Result<Config, ConfigErrors> {
    let workspace = Workspace::new();
    let inference = format!(
        r#"{{"provider": "scripted", "model": "m", "providers": {{"scripted": {{"script": "s.json"}}, {block}}}}}"#
    );
    workspace.write("configs/inference.json", &inference);
    load_with(
        workspace.folder.path(),
        &attache::cli::name_catalog(),
        &|name| workspace.environment.get(name).cloned(),
    )
}

#[test]
#[ignore = "second tier"]
fn a_tier_that_nothing_holds_is_refused_unless_accepted() {
    const SERVER: &str = r#""base_url": "http://127.0.0.1:4096", "#;
    // Agent, settings -> highest tier that is held, and the one that correspondents get of it.
    let cases = [
        ("claude", "", Tier::Write, Tier::Write),
        ("codex", "", Tier::Write, Tier::None),
        ("opencode", "", Tier::Write, Tier::Write),
        ("opencode", SERVER, Tier::ReadOnly, Tier::ReadOnly),
        ("pi", "", Tier::ReadOnly, Tier::ReadOnly),
    ];
    for (agent, settings, held, of_others) in cases {
        for tier in [Tier::None, Tier::ReadOnly, Tier::Write, Tier::Full] {
            let word = tier.as_str();
            let block = format!(r#""{agent}": {{{settings}"tier": "{word}"}}"#);
            match load(&block) {
                Ok(config) => {
                    assert!(tier <= held, "{block}");
                    let settings = &config.inference.providers[agent].agent;
                    assert_eq!(settings.tier, tier);
                    assert_eq!(settings.tier_for_others, tier.min(of_others), "{block}");
                }
                Err(errors) => {
                    assert!(tier > held, "{block}: {errors}");
                    let problem = errors.problems[0].to_string();
                    let place = format!("providers.{agent}.tier: at the tier `{word}`");
                    assert!(problem.contains(&place), "{problem}");
                    assert!(problem.contains("accept_unsandboxed"), "{problem}");
                }
            }
            let block =
                format!(r#""{agent}": {{{settings}"tier": "{word}", "accept_unsandboxed": true}}"#);
            let config = load(&block).unwrap_or_else(|errors| panic!("{errors}"));
            let settings = &config.inference.providers[agent].agent;
            assert_eq!((settings.tier, settings.tier_for_others), (tier, tier));
        }
    }
}

#[test]
fn a_model_has_no_tier_to_accept() {
    let errors = load(r#""openai": {"accept_unsandboxed": true}"#).expect_err("no agent");
    let problem = errors.problems[0].to_string();
    assert!(problem.contains("`openai` does not read it"), "{problem}");
}
