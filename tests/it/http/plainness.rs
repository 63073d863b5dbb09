//! What a page says to its owner: notices with their subjects, problems with what to do, refusals with their reason.

use super::site::Site;
use crate::app::db;
use crate::approvals::scene::CONTACT;
use attache::domain::{NoticeId, NoticeKind, NoticeSubject};
use attache::store::{ListPage, NewNotice};
use std::time::Duration;

async fn tell(site: &Site, kind: NoticeKind, about: (NoticeSubject, &str)) {
    tell_again(site, kind, about, "").await;
}

async fn tell_again(site: &Site, kind: NoticeKind, about: (NoticeSubject, &str), occurrence: &str) {
    let store = &site.scene.world.app.engine.store;
    let (subject, id) = about;
    let notice = NewNotice {
        id: NoticeId::new(store.clock().new_id()),
        persona: None,
        kind,
        detail: id.to_owned(),
        subject,
        subject_id: id.to_owned(),
        occurrence: occurrence.to_owned(),
        summary: format!("something is wrong with {id}"),
        hint: "`attache outbox list` shows it".to_owned(),
    };
    assert!(store.emit_notice(notice).await.expect("stored"));
}

#[tokio::test]
async fn a_notice_leads_to_its_subject_and_says_when_its_cause_is_over() {
    let site = Site::with_a_question().await;
    let app = &site.scene.world.app;
    let login = site.login().await;
    let page = site.get(&login, "/notices").await.body;
    assert!(!page.contains("Notices <span class=\"number\">"), "{page}");
    let sql = "SELECT r.id FROM runs r JOIN messages m ON m.id = r.trigger_message_id WHERE m.message_id = $1";
    let run = app.row(sql, "html1@x.test").await[0].clone();
    let run = run.expect("a run");
    tell(
        &site,
        NoticeKind::RunFailed,
        (NoticeSubject::Run, run.as_str()),
    )
    .await;
    tell(
        &site,
        NoticeKind::ConfigFaulty,
        (NoticeSubject::ConfigFile, "configs/policy.json"),
    )
    .await;
    let mut rows = app.workspace.rows().await;
    let failed = db::query("UPDATE runs SET state = 'failed' WHERE id = $1").bind(&run);
    failed.execute(&mut rows).await.expect("failed");
    app.workspace.clock.advance(Duration::from_secs(10));
    let page = site.get(&login, "/notices").await.body;
    for words in [
        format!("href=\"&#x2f;r&#x2f;{run}\""),
        "href=\"&#x2f;config\"".to_owned(),
        "Its run says what failed; it can be tried again there.".to_owned(),
        "Notices <span class=\"number\">2</span>".to_owned(),
    ] {
        assert!(page.contains(&words), "no {words}: {page}");
    }
    assert!(!page.contains("state good\">over"), "{page}");
    let done = db::query("UPDATE runs SET state = 'succeeded' WHERE id = $1").bind(&run);
    done.execute(&mut rows).await.expect("done");
    app.workspace.clock.advance(Duration::from_secs(10));
    let page = site.get(&login, "/notices").await.body;
    for words in [
        "state good\">over",
        "its run has succeeded since",
        "Notices <span class=\"number\">1</span>",
    ] {
        assert!(page.contains(words), "no {words}: {page}");
    }
}

#[tokio::test]
async fn a_dismissed_notice_is_shown_again_when_its_cause_happens_again() {
    let site = Site::start().await;
    let login = site.login().await;
    let about = (NoticeSubject::ConfigFile, "configs/policy.json");
    tell(&site, NoticeKind::ConfigFaulty, about).await;
    site.scene
        .world
        .app
        .workspace
        .clock
        .advance(Duration::from_secs(10));
    let shown = "something is wrong with configs&#x2f;policy.json".to_lowercase();
    let page = site.get(&login, "/notices").await.body.to_lowercase();
    assert!(
        page.contains(&shown) && page.contains("notices <span class=\"number\">1"),
        "{page}"
    );
    let store = &site.scene.world.app.engine.store;
    let fold = &store.list_notices(ListPage::first(9)).await.expect("folds")[0];
    let path = format!("/notices/{}/dismiss", fold.newest);
    let done = site.post(&login, &path, &[]).await;
    assert_eq!(done.status, 303, "{}", done.body);
    let page = site.get(&login, "/notices").await.body.to_lowercase();
    assert!(!page.contains(&shown) && !page.contains("notices <span class=\"number\">"));
    let kept = &store.list_notices(ListPage::first(9)).await.expect("folds")[0];
    assert!(
        kept.dismissed_at.is_some(),
        "the list of the terminal has it"
    );
    tell_again(&site, NoticeKind::ConfigFaulty, about, "again").await;
    let page = site.get(&login, "/notices").await.body.to_lowercase();
    assert!(page.contains(&shown), "{page}");
}

#[tokio::test]
async fn silence_on_purpose_is_counted() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let none = site.get(&login, "/usage").await.body;
    assert!(!none.contains("that needed no answer"), "{none}");
    let mut rows = site.scene.world.app.workspace.rows().await;
    let sql =
        "UPDATE runs SET state = 'succeeded', stop_reason = 'no_answer', finished_at = created_at";
    db::query(sql).execute(&mut rows).await.expect("silent");
    let one = site.get(&login, "/usage").await.body;
    assert!(
        one.contains("2 messages that needed no answer got none"),
        "{one}"
    );
}

#[tokio::test]
async fn the_doctor_is_not_green_while_the_next_start_would_fail() {
    let site = Site::start().await;
    let login = site.login().await;
    let well = site.get(&login, "/doctor").await.body;
    for words in ["the next start reads it", "none is used up"] {
        assert!(well.contains(words), "no {words}: {well}");
    }
    let workspace = &site.scene.world.app.workspace;
    workspace.write("configs/inference.json", "{ \"provider\": \"nobody\" }");
    workspace.write(
        "personas/ada/responsibilities/week.md",
        "---\nname: Week\nschedule: never\n---\nHi",
    );
    let scheduler = site.scene.world.app.engine.web_parts().scheduler;
    scheduler.sync().await.expect("read");
    let page = site.get(&login, "/doctor").await.body;
    for words in [
        "the next start fails",
        "configs&#x2f;inference.json",
        "<a href=\"&#x2f;config\">",
        "does not fire",
        "<a href=\"&#x2f;schedule\">",
    ] {
        assert!(page.contains(words), "no {words}: {page}");
    }
}

#[tokio::test]
async fn what_a_query_cannot_mean_is_said_and_not_passed_over() {
    let site = Site::start().await;
    let login = site.login().await;
    for (path, says) in [
        ("/?after=x", "`x` is no place in this list."),
        ("/usage?days=many", "`many` is no number of days."),
        ("/memory?status=lost", "`lost` is no state of an entry."),
        ("/memory?contact=carol", "`carol` is no whole address."),
    ] {
        let answer = site.get(&login, path).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.body.contains(says), "{path}: {}", answer.body);
        assert!(answer.body.contains("aria-label=\"Pages\""), "{path}");
    }
    for path in ["/?after=", "/outbox?state=held", "/memory?status=all"] {
        assert_eq!(site.get(&login, path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_text_that_is_too_long_is_refused_with_its_limit_and_kept() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let mut open = site.scene.open().await;
    let (count, question) = (open.len(), open.remove(0));
    let page = site.get(&login, "/approvals").await.body;
    assert!(page.contains("maxlength=\"20000\""), "{page}");
    let long = "word ".repeat(14_000);
    let form = [("sha256", question.sha256.as_str()), ("words", &long)];
    let path = format!("/approvals/{}/edit", question.id);
    let answer = site.post(&login, &path, &form).await;
    assert_eq!(answer.status, 400);
    for words in ["20000 are the most", long.trim()] {
        assert!(answer.body.contains(words), "{:.2000}", answer.body);
    }
    assert_eq!(site.scene.open().await.len(), count, "it is open still");
}

#[tokio::test]
async fn usage_sets_thousands_apart_and_leaves_out_idle_accounts() {
    let site = Site::start().await;
    site.scene.writes(CONTACT, "l1", "").await;
    let login = site.login().await;
    let page = site.get(&login, "/usage").await.body;
    assert!(
        page.contains("without a bound, of which nothing was spent"),
        "{page}"
    );
    let budgets = page.split("id=\"budgets\"").nth(1).expect("budgets");
    for row in budgets.split("<tr>").skip(2) {
        let is_idle = row.contains("no bound") && row.contains(">$0.00<");
        assert!(!is_idle, "{row}");
    }
}

#[tokio::test]
async fn a_long_subject_is_whole_in_its_title() {
    let site = Site::start().await;
    let subject = "Long ".repeat(140);
    let eml = format!(
        "From: {CONTACT}\r\nTo: ada@engine.test\r\nMessage-ID: <long@x.test>\r\nSubject: {}\r\n\r\nHi\r\n",
        subject.trim()
    );
    let accepted = site.scene.deliver(&eml, "ada@engine.test").await;
    accepted.expect("the letter is taken");
    let login = site.login().await;
    let page = site.get(&login, "/").await.body;
    let title = format!("<h2 title=\"{}\">", subject.trim());
    assert!(page.contains(&title), "{page}");
}
