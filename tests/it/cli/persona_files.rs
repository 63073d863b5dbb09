//! Earlier versions of a persona's files from the command line.

use super::*;
use attache::clock::SystemClock;
use attache::domain::PersonaId;
use attache::store::Store;
use attache::store::files::persona_file_versions::{FileEditor, NewFileText};

/// Replaces a file as a page does.
async fn replaced(workspace: &Workspace, name: &str, text: &str) {
    let folder = workspace.path("personas/concierge");
    let clock = Arc::new(SystemClock::new());
    let store = Store::open_shared(&workspace.path("."), clock).await;
    let persona = PersonaId::parse("concierge").expect("an id");
    let store = store.expect("the database").persona(&persona);
    let now = store.file_history(&folder, name).await.expect("a file");
    let new = NewFileText {
        name: name.to_owned(),
        text: text.to_owned(),
        base_sha256: now.file.sha256,
        is_exact: false,
    };
    let by = FileEditor {
        user: "uid 7".to_owned(),
        session: Some("s1".to_owned()),
    };
    store.replace_file(&folder, new, &by).await.expect("saved");
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_a_page_replaced_is_listed_compared_and_brought_back() {
    let workspace = Workspace::new();
    let file = workspace.path("personas/concierge/PERSONA.md");
    let before = std::fs::read_to_string(&file).expect("a file");
    let none = workspace.run(&["persona", "versions", "concierge"]);
    assert_eq!(
        (none.code, none.stdout.as_str()),
        (0, ""),
        "{}",
        none.stderr
    );
    replaced(&workspace, "PERSONA.md", "Be brief.\n").await;
    let listed = workspace.json(&["persona", "versions", "concierge", "PERSONA.md"]);
    let version = &listed[0];
    assert_eq!(version["replaced_by"], "uid 7");
    assert_eq!(version["session"], "s1");
    std::fs::write(&file, "By vi.\n").expect("written");
    let listed = workspace.run(&["persona", "versions", "concierge", "PERSONA.md"]);
    assert!(listed.stdout.contains("uid 7"), "{}", listed.stdout);
    assert!(
        listed.stderr.contains("changed on the machine"),
        "{}",
        listed.stderr
    );
    let restore = ["persona", "restore", "concierge", "PERSONA.md"];
    let shown = workspace.run(&[&restore[..], &["--dry-run"]].concat());
    assert!(shown.stdout.contains("- By vi.\n"), "{}", shown.stdout);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "By vi.\n");
    let back = workspace.run(&restore);
    assert_eq!(back.code, 0, "{}", back.stderr);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), before);
    // What it replaced is the newest version now.
    let number = version["version"].to_string();
    let listed = workspace.json(&["persona", "versions", "concierge"]);
    assert_eq!(listed[0]["changed_outside"], true);
    assert!(listed[0]["session"].is_null());
    assert_eq!(listed[1]["version"].to_string(), number);
    let back = workspace.run(&restore);
    assert_eq!(back.code, 0, "{}", back.stderr);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "By vi.\n");
    let back = workspace.run(&[&restore[..], &["--version", &number]].concat());
    assert_eq!(back.code, 0, "{}", back.stderr);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), before);
}

#[tokio::test]
async fn settings_broken_duties_and_numbers_that_are_none_are_refused() {
    let workspace = Workspace::new();
    let restore = |name: &str| workspace.run(&["persona", "restore", "concierge", name]);
    let settings = restore("persona.json");
    assert_eq!(settings.code, 2, "{}", settings.stderr);
    assert!(
        settings.stderr.contains("no file that is edited here"),
        "{}",
        settings.stderr
    );
    let none = restore("active.md");
    assert_eq!(none.code, 66, "{}", none.stderr);
    assert!(
        none.stderr.contains("attache persona versions concierge"),
        "{}",
        none.stderr
    );
    let duty = "responsibilities/week.md";
    let path = workspace.path("personas/concierge").join(duty);
    std::fs::write(&path, "---\nname: Week\nschedule: never\n---\nHi").expect("written");
    let good = "---\nname: Week\nschedule: \"0 9 * * 1\"\n---\nHi\n";
    replaced(&workspace, duty, good).await;
    let broken = restore(duty);
    assert_ne!(broken.code, 0);
    assert!(broken.stderr.contains("line 3"), "{}", broken.stderr);
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), good);
}
