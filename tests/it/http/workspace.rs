//! Pages about the workspace: memory, schedule, personas, configuration, the state of the engine, search.

use super::site::{ENTRY, Login, Site, cookie};
use crate::approvals::scene::CONTACT;
use attache::domain::MemoryStatus;
use attache::store::MemoryFilter;

async fn statuses(site: &Site) -> Vec<(String, MemoryStatus)> {
    let filter = MemoryFilter {
        limit: 100,
        ..MemoryFilter::default()
    };
    let entries = site
        .scene
        .world
        .app
        .engine
        .store
        .memory_entries(&filter)
        .await;
    entries
        .expect("entries")
        .into_iter()
        .map(|entry| (entry.id, entry.status))
        .collect()
}

#[tokio::test]
async fn memory_is_listed_by_person_and_changed_as_on_the_command_line() {
    let site = Site::with_a_question().await;
    let mut login = site.login().await;
    let page = site
        .get(&login, "/memory?contact=carol@partner.test")
        .await
        .body;
    assert!(
        page.contains("She likes tea.") && page.contains("carol@partner.test"),
        "{page}"
    );
    let post = async |login: &Login, id: &str, verb: &str, words: &str| {
        let form = [("words", words), ("status", "all")];
        site.post(login, &format!("/memory/{id}/{verb}"), &form)
            .await
    };
    let answer = post(&login, ENTRY, "edit", "She drinks green tea.").await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, "/memory?status=all"),
        "{}",
        answer.body
    );
    login.cookie = cookie(&answer);
    let active: Vec<_> = statuses(&site)
        .await
        .into_iter()
        .filter(|(_, status)| *status == MemoryStatus::Active)
        .collect();
    assert_eq!(active.len(), 1);
    let answer = post(&login, &active[0].0, "reject", "she changed her mind").await;
    login.cookie = cookie(&answer);
    assert!(
        statuses(&site)
            .await
            .iter()
            .all(|(_, status)| *status != MemoryStatus::Active)
    );
    assert_eq!(post(&login, &active[0].0, "edit", "").await.status, 400);
    let path = format!("/memory/{}/forget", active[0].0);
    let erased = site.post(&login, &path, &[("confirmed", "yes")]).await;
    assert_eq!(erased.status, 303, "{}", erased.body);
    let page = site.get(&login, "/memory?status=all").await.body;
    assert!(!page.contains("green tea"), "{page}");
}

#[tokio::test]
async fn the_workspace_is_shown_as_it_is() {
    let site = Site::start().await;
    site.scene.writes(CONTACT, "l1", "").await;
    let login = site.login().await;
    for (path, words) in [
        ("/schedule", "No persona has a duty"),
        ("/personas", "ada@engine.test"),
        ("/personas/ada", "Ada answers letters."),
        ("/doctor", "mail leaves"),
        ("/doctor?check=records", "nothing is wrong"),
        ("/config", "Nothing is wrong in the files"),
        ("/search?q=tuesday", "<bdi>Tuesday</bdi>"),
        ("/search?q=zebra", "Nothing has these words"),
        ("/search", "Words or an id"),
        ("/notices", "Notices"),
    ] {
        let page = site.get(&login, path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        assert!(
            page.body.contains(words),
            "{path}: no {words}: {}",
            page.body
        );
    }
    assert_eq!(site.get(&login, "/personas/nobody").await.status, 404);
    assert_eq!(
        site.get(&login, "/personas/..%2f..%2fconfigs").await.status,
        404
    );
    site.scene
        .world
        .app
        .workspace
        .write("configs/inference.json", "{ \"provider\": \"nobody\" }");
    let page = site.get(&login, "/config").await.body;
    assert!(
        page.contains("configs&#x2f;inference.json") && page.contains("in the files"),
        "{page}"
    );
}

#[tokio::test]
async fn the_coming_week_has_each_duty_on_the_day_of_its_own_zone() {
    let site = Site::start().await;
    let app = &site.scene.world.app;
    // A day on which neither time has passed anywhere, whenever this runs.
    let day = chrono::Utc::now() + chrono::Days::new(3);
    let (number, day) = (day.format("%w"), day.format("%A").to_string());
    let duty = |name: &str, zone: &str, at: &str| {
        format!(
            "---\nname: {name}\nschedule: {at} * * {number}\ntimezone: {zone}\n---\nCount the kettles.\n"
        )
    };
    for (file, text) in [
        ("tokyo", duty("Morning count", "Asia/Tokyo", "0 7")),
        ("berlin", duty("Evening count", "Europe/Berlin", "30 18")),
    ] {
        let path = format!("personas/ada/responsibilities/{file}.md");
        app.workspace.write(&path, &text);
    }
    let read = app.engine.web_parts().scheduler.sync().await;
    read.expect("the files are read");
    let login = site.login().await;
    let page = site.get(&login, "/schedule").await.body;
    let (_, week) = page.split_once("class=\"week\"").expect("a week");
    let week = week.split("</ol>").next().expect("a week");
    let days: Vec<&str> = week.split("<h3>").skip(1).collect();
    assert_eq!(days.len(), 1, "{week}");
    assert!(days[0].starts_with(&day), "{week}");
    let (morning, evening) = (days[0].find("07:00</time>"), days[0].find("18:30</time>"));
    assert!(morning.is_some() && morning < evening, "{week}");
    assert!(days[0].contains("Asia&#x2f;Tokyo"), "{week}");
}

#[tokio::test]
async fn one_box_finds_letters_calls_memory_and_ids() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let run = &site.scene.open().await.remove(0).run.to_string();
    let thread = "SELECT thread_id FROM runs WHERE id = $1";
    let thread = site.scene.world.app.row(thread, run).await;
    let thread = thread[0].clone().expect("a thread");
    let calls = format!("href=\"/r/{run}\">send_email</a>");
    for (typed, finds) in [
        // Words of the arguments of a call, which no letter has.
        ("EVE@new.test", calls.as_str()),
        ("meet plan", calls.as_str()),
        ("tea", "She likes tea."),
        (run, &format!("href=\"&#x2f;r&#x2f;{run}\"")),
        (&thread, &format!("href=\"&#x2f;t&#x2f;{thread}\"")),
    ] {
        let query: String = form_urlencoded::byte_serialize(typed.as_bytes()).collect();
        let page = site.get(&login, &format!("/search?q={query}")).await;
        assert_eq!(page.status, 200, "{typed}: {}", page.body);
        assert!(
            page.body.contains(finds),
            "{typed}: no {finds}: {}",
            page.body
        );
    }
    let none = site.get(&login, "/search?q=meet+zebra").await.body;
    assert!(none.contains("Nothing has these words"), "{none}");
}
