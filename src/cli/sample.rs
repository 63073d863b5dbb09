//! The workspace of `attache demo`, embedded in the binary: the repository's own `configs/` and
//! `personas/`.
//!
//! `tests/it/cli.rs` compares this list with the folders, so that no sample file is missing.

/// Path below the workspace, and content.
pub static FILES: &[(&str, &str)] = &[
    ("configs/context.json", include_str!("../../configs/context.json")),
    ("configs/demo-script.json", include_str!("../../configs/demo-script.json")),
    ("configs/demo/letter.eml", include_str!("../../configs/demo/letter.eml")),
    ("configs/gateway.json", include_str!("../../configs/gateway.json")),
    ("configs/inference.json", include_str!("../../configs/inference.json")),
    ("configs/prices.json", include_str!("../../configs/prices.json")),
    ("configs/prompts/security.md", include_str!("../../configs/prompts/security.md")),
    ("configs/prompts/system.md", include_str!("../../configs/prompts/system.md")),
    ("configs/schema/context.json", include_str!("../../configs/schema/context.json")),
    ("configs/schema/gateway.json", include_str!("../../configs/schema/gateway.json")),
    ("configs/schema/inference.json", include_str!("../../configs/schema/inference.json")),
    ("configs/schema/persona.json", include_str!("../../configs/schema/persona.json")),
    ("configs/schema/prices.json", include_str!("../../configs/schema/prices.json")),
    ("configs/schema/security.json", include_str!("../../configs/schema/security.json")),
    ("configs/security.json", include_str!("../../configs/security.json")),
    ("personas/concierge/PERSONA.md", include_str!("../../personas/concierge/PERSONA.md")),
    ("personas/concierge/active.md", include_str!("../../personas/concierge/active.md")),
    (
        "personas/concierge/knowledge/breakfast.md",
        include_str!("../../personas/concierge/knowledge/breakfast.md"),
    ),
    (
        "personas/concierge/knowledge/house-rules.md",
        include_str!("../../personas/concierge/knowledge/house-rules.md"),
    ),
    (
        "personas/concierge/knowledge/opening-hours.md",
        include_str!("../../personas/concierge/knowledge/opening-hours.md"),
    ),
    (
        "personas/concierge/knowledge/parking.md",
        include_str!("../../personas/concierge/knowledge/parking.md"),
    ),
    ("personas/concierge/knowledge/rooms.md", include_str!("../../personas/concierge/knowledge/rooms.md")),
    ("personas/concierge/persona.json", include_str!("../../personas/concierge/persona.json")),
    (
        "personas/concierge/responsibilities/evening-notes.md",
        include_str!("../../personas/concierge/responsibilities/evening-notes.md"),
    ),
    ("personas/digest/PERSONA.md", include_str!("../../personas/digest/PERSONA.md")),
    ("personas/digest/active.md", include_str!("../../personas/digest/active.md")),
    (
        "personas/digest/knowledge/what-matters.md",
        include_str!("../../personas/digest/knowledge/what-matters.md"),
    ),
    ("personas/digest/persona.json", include_str!("../../personas/digest/persona.json")),
    (
        "personas/digest/responsibilities/weekday-digest.md",
        include_str!("../../personas/digest/responsibilities/weekday-digest.md"),
    ),
    (".gitignore", GITIGNORE),
];

/// Keeps secrets and the database out of a repository.
const GITIGNORE: &str = "/.secrets\n/data/\n";
