//! Files of a persona on a page: of two editors one wins and the other gets the difference, whoever the other is.

use super::site::{Login, Page, Site};
use reqwest::Method;
use serde_json::json;

const FILE: &str = "/personas/ada/file?name=PERSONA.md";

/// The digest on which a page's form rests.
fn base(page: &Page) -> String {
    let (_, rest) = page
        .body
        .split_once("name=\"base_sha256\" value=\"")
        .expect("a form");
    rest.split('"').next().expect("a value").to_owned()
}

async fn save(site: &Site, login: &Login, name: &str, text: &str, base: &str) -> Page {
    let form = [("name", name), ("text", text), ("base_sha256", base)];
    site.post(login, "/personas/ada/file", &form).await
}

fn on_disk(site: &Site, name: &str) -> String {
    let path = site.scene.world.app.workspace.path();
    std::fs::read_to_string(path.join("personas/ada").join(name)).expect("a file")
}

#[tokio::test]
async fn of_two_pages_one_wins_and_the_other_gets_the_difference() {
    let site = Site::start().await;
    let login = site.login().await;
    let shown = site.get(&login, FILE).await;
    let base = base(&shown);
    let first = save(
        &site,
        &login,
        "PERSONA.md",
        "You are Ada.\r\nBe brief.\r\n",
        &base,
    )
    .await;
    assert_eq!(first.status, 303, "{}", first.body);
    assert_eq!(on_disk(&site, "PERSONA.md"), "You are Ada.\nBe brief.\n");
    let second = save(
        &site,
        &login,
        "PERSONA.md",
        "You are Ada.\r\nBe long.\r\n",
        &base,
    )
    .await;
    assert_eq!(second.status, 409);
    assert!(
        second.body.contains("<del>- Be brief.</del>"),
        "{}",
        second.body
    );
    assert!(
        second.body.contains("<ins>+ Be long.</ins>"),
        "{}",
        second.body
    );
    assert!(
        second.body.contains("Be long.\n</textarea>"),
        "the text is kept"
    );
    assert_eq!(on_disk(&site, "PERSONA.md"), "You are Ada.\nBe brief.\n");
    // Its page rests on the file as it is now: sent again, it wins.
    let third = save(
        &site,
        &login,
        "PERSONA.md",
        "You are Ada.\r\nBe long.\r\n",
        &self::base(&second),
    )
    .await;
    assert_eq!(third.status, 303);
    assert_eq!(on_disk(&site, "PERSONA.md"), "You are Ada.\nBe long.\n");
    let sql = "SELECT CAST(count(*) AS TEXT) FROM audit_log WHERE subject_kind = $1";
    let noted = site.scene.world.app.row(sql, "persona_file").await;
    assert_eq!(noted[0].as_deref(), Some("2"));
}

#[tokio::test]
async fn an_editor_on_the_machine_is_not_overwritten() {
    let site = Site::start().await;
    let login = site.login().await;
    let base = base(&site.get(&login, FILE).await);
    let path = site.scene.world.app.workspace.path();
    std::fs::write(path.join("personas/ada/PERSONA.md"), "By vi.\n").expect("written");
    let late = save(&site, &login, "PERSONA.md", "By a page.", &base).await;
    assert_eq!(late.status, 409);
    assert!(late.body.contains("<del>- By vi.</del>"), "{}", late.body);
    assert_eq!(on_disk(&site, "PERSONA.md"), "By vi.\n");
}

#[tokio::test]
async fn fifty_pages_at_once_have_one_winner() {
    let site = Site::start().await;
    let login = site.login().await;
    let base = base(&site.get(&login, FILE).await);
    let texts: Vec<String> = (0..50).map(|n| format!("Text {n}\n")).collect();
    let saves = texts
        .iter()
        .map(|text| save(&site, &login, "PERSONA.md", text, &base));
    let answers = futures_util::future::join_all(saves).await;
    let won = answers.iter().filter(|answer| answer.status == 303).count();
    let late = answers.iter().filter(|answer| answer.status == 409).count();
    assert_eq!((won, late), (1, 49));
}

#[tokio::test]
async fn a_new_file_is_made_once_and_a_broken_duty_is_not_saved() {
    let site = Site::start().await;
    let login = site.login().await;
    let name = "knowledge/prices.md";
    let made = save(&site, &login, name, "A bed is 40 EUR.", "").await;
    assert_eq!(made.status, 303, "{}", made.body);
    let again = save(&site, &login, name, "A bed is 50 EUR.", "").await;
    assert_eq!(again.status, 409);
    assert_eq!(on_disk(&site, name), "A bed is 40 EUR.");
    let broken = save(
        &site,
        &login,
        "responsibilities/week.md",
        "---\nname: Week\nschedule: never\n---\nHi",
        "",
    )
    .await;
    assert_eq!(broken.status, 400);
    assert!(broken.body.contains("Line 3"), "{}", broken.body);
    assert!(broken.body.contains("schedule: never"), "the text is kept");
    let page = site.get(&login, "/personas/ada").await;
    assert!(page.body.contains("knowledge/prices.md"), "{}", page.body);
    assert!(!page.body.contains("week.md"), "{}", page.body);
}

#[tokio::test]
async fn no_name_leads_out_of_the_folder_or_to_what_says_what_a_persona_may() {
    let site = Site::start().await;
    let login = site.login().await;
    let path = site.scene.world.app.workspace.path();
    let own = path.join("personas/ada/knowledge");
    std::fs::create_dir_all(&own).expect("a folder");
    std::os::unix::fs::symlink(path.join("configs"), own.join("out")).expect("a link");
    std::os::unix::fs::symlink("/etc/hostname", own.join("host.md")).expect("a link");
    // Relative ones, which the folder's capability follows.
    std::os::unix::fs::symlink("..", own.join("up")).expect("a link");
    std::os::unix::fs::symlink("../workspace", own.join("work")).expect("a link");
    std::fs::create_dir_all(own.join("../workspace")).expect("a folder");
    std::os::unix::fs::symlink("house.md", own.join("alias.md")).expect("a link");
    for name in [
        "knowledge/up/notes.md",
        "knowledge/up/workspace/x.md",
        "knowledge/work/x.md",
        "knowledge/alias.md",
        "persona.json",
        "../bob/PERSONA.md",
        "knowledge/../persona.json",
        "knowledge/../../ada/persona.json",
        "/etc/passwd",
        "knowledge/.hidden.md",
        "knowledge/x.sh",
        "knowledge//x.md",
        "knowledge/host.md",
        "knowledge/out/gateway.md",
        "",
    ] {
        let saved = save(&site, &login, name, "x", "").await;
        assert!(
            matches!(saved.status, 400 | 409 | 500),
            "{name}: {}",
            saved.status
        );
        let query: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
        let read = site
            .get(&login, &format!("/personas/ada/file?name={query}"))
            .await;
        assert!(!read.body.contains("root:"), "{name}");
    }
    assert!(!path.join("configs/gateway.md").exists());
}

#[tokio::test]
async fn a_program_of_the_owner_gets_the_digest_that_it_needs() {
    let site = Site::start().await;
    let login = site.login().await;
    let path = "/api/v1/personas/ada/file";
    let read = site
        .get(&login, &format!("{path}?name=PERSONA.md"))
        .await
        .json();
    let origin = site.origin();
    let headers = [
        ("cookie", login.cookie.as_str()),
        ("origin", origin.as_str()),
        ("x-form-token", login.form_token.as_str()),
    ];
    let body = json!({ "name": "PERSONA.md", "text": "New.", "base_sha256": read["sha256"] });
    let saved = site.json(Method::POST, path, &headers, &body).await;
    assert_eq!(saved.status, 200, "{}", saved.body);
    let late = site.json(Method::POST, path, &headers, &body).await;
    assert_eq!(late.status, 409);
    let now = saved.json()["sha256"]
        .as_str()
        .expect("a digest")
        .to_owned();
    assert!(late.body.contains(&now), "{}", late.body);
}

#[tokio::test]
async fn what_no_run_would_read_is_not_saved_and_its_text_is_kept() {
    let site = Site::start().await;
    let login = site.login().await;
    let first = "---\nname: Week\nschedule: \"0 8 * * 1\"\n---\nPlan the week.";
    let made = save(&site, &login, "responsibilities/week.md", first, "").await;
    assert_eq!(made.status, 303, "{}", made.body);
    let again = save(&site, &login, "responsibilities/week.md", first, "").await;
    assert_eq!(again.status, 409, "its own name is no twin: {}", again.body);
    let persona = base(&site.get(&login, FILE).await);
    for (name, text, base, says, kept) in [
        (
            "responsibilities/twin.md",
            first,
            "",
            "is the name of responsibilities/week.md already",
            "Plan the week.",
        ),
        (
            "knowledge/beds.md",
            "A bed\nis\0 40 EUR.",
            "",
            "Line 2 has the character NUL",
            "40 EUR.",
        ),
        (
            "PERSONA.md",
            " \r\n",
            persona.as_str(),
            "cannot be empty",
            "",
        ),
        (
            "knowledge/x.sh",
            "echo",
            "",
            "is no file that is edited here",
            "echo",
        ),
    ] {
        let answer = save(&site, &login, name, text, base).await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.body);
        let said = answer.body.replace("&#x2f;", "/");
        assert!(said.contains(says), "{name}: {said}");
        assert!(said.contains(kept), "{name}: the text is kept: {said}");
    }
    let large = "x".repeat(300 * 1024);
    let answer = save(&site, &login, "knowledge/large.md", &large, "").await;
    assert_eq!(answer.status, 400);
    assert!(
        answer.body.contains("a file has 256 kB at most") && answer.body.contains(&large),
        "the text is kept"
    );
    let listed = site.get(&login, "/personas/ada").await.body;
    for name in ["twin.md", "beds.md", "large.md"] {
        assert!(!listed.contains(name), "{name}");
    }
    assert!(!on_disk(&site, "PERSONA.md").trim().is_empty());
}
