//! What the programs of others send, method by method: invitations and cancellations of theirs, answers and proposals to an
//! invitation of ours; D-3.

use super::parts::{arrives, events, letter, part};
use crate::approvals::scene::{CONTACT, OWNER, Scene};
use attache::domain::{Attachment, Email};
use serde_json::json;

/// Programs with an invitation and its cancellation.
const INVITE: [&str; 6] = [
    "google",
    "outlook",
    "exchange_2010",
    "apple",
    "nextcloud",
    "zimbra",
];
/// Programs with what Carol answers by them, in order of time. Two of them leave the organizer out.
const ANSWER: [(&str, &str); 6] = [
    ("exchange_2010", "ACCEPTED"),
    ("google", "DECLINED"),
    ("outlook", "TENTATIVE"),
    ("apple", "ACCEPTED"),
    ("nextcloud", "DECLINED"),
    ("zimbra", "ACCEPTED"),
];
/// Programs that propose another time; Nextcloud has no such thing.
const PROPOSE: [&str; 5] = ["google", "outlook", "exchange_2010", "apple", "zimbra"];

/// Invites Carol when the owner says so.
async fn scene() -> Scene {
    let script = json!({ "rules": [
        { "when": { "turn": 0, "contains": "Tell Eve" }, "call": [{ "tool": "invite", "args": {
            "summary": "Tasting", "start": "2026-12-03T18:00", "end": "2026-12-03T19:00", "zone": "Europe/Berlin",
            "attendees": ["carol@partner.test"] } }] },
        { "say": "Noted." },
    ] });
    let allowed = json!(["*@partner.test"]);
    Scene::with(&script, |workspace| {
        workspace.set("configs/security.json", "/send_allow", allowed);
    })
    .await
}

/// The UID in the invitation that Carol got.
fn uid_of_ours(sent: &[Email]) -> String {
    let is_calendar = |part: &&Attachment| part.content_type == "text/calendar";
    let mut parts = sent.iter().flat_map(|mail| &mail.attachments);
    let part = parts.find(is_calendar).expect("an invitation");
    let text = String::from_utf8_lossy(&part.bytes).replace("\r\n ", "");
    let uid = text.lines().find_map(|line| line.strip_prefix("UID:"));
    uid.expect("a UID").to_owned()
}

#[tokio::test]
#[ignore = "second tier"]
async fn invitations_and_cancellations_of_every_program_are_understood() {
    let scene = scene().await;
    for program in INVITE {
        let prompt = arrives(
            &scene,
            CONTACT,
            &format!("r-{program}"),
            &part(&format!("{program}_request.ics")),
        )
        .await;
        assert!(
            prompt.contains("calendar: invitation, new"),
            "{program}: {prompt}"
        );
        let known = events(&scene).await;
        let open = known
            .iter()
            .filter(|line| line.ends_with(" 0 NEEDS-ACTION"));
        assert_eq!(open.count(), 1, "{program}: {known:?}");
        let prompt = arrives(
            &scene,
            CONTACT,
            &format!("c-{program}"),
            &part(&format!("{program}_cancel.ics")),
        )
        .await;
        assert!(
            prompt.contains("its organiser has cancelled it"),
            "{program}: {prompt}"
        );
        let known = events(&scene).await;
        assert!(
            known.iter().all(|line| line.ends_with(" 1 NEEDS-ACTION")),
            "{program}: {known:?}"
        );
    }
    assert_eq!(events(&scene).await.len(), INVITE.len());
    scene.world.app.check().await;
}

#[tokio::test]
async fn answers_and_proposals_of_every_program_are_understood() {
    let scene = scene().await;
    scene.writes(OWNER, "i1", "").await;
    let app = &scene.world.app;
    let uid = uid_of_ours(&app.sent());
    let of = |name: String| part(&name).replace("UID-OF-THE-INVITATION", &uid);
    let answer = || async {
        let sql = "SELECT json_extract(event_json, '$.attendees[0].answer') FROM events WHERE organizer = $1";
        app.row(sql, "ada@engine.test").await[0]
            .clone()
            .unwrap_or_default()
    };
    for (program, expected) in ANSWER {
        let (id, ics) = (format!("a-{program}"), of(format!("{program}_reply.ics")));
        // Carol said something herself.
        if ["exchange_2010", "google"].contains(&program) {
            let prompt = arrives(&scene, CONTACT, &id, &ics).await;
            assert!(
                prompt.contains("an answer to an invitation of yours"),
                "{program}: {prompt}"
            );
        } else {
            let eml = letter(&scene, CONTACT, &id, &ics);
            let accepted = scene.deliver(&eml, "ada@engine.test").await.expect("taken");
            let outcome = &accepted.copies[0].outcome;
            assert_eq!(
                crate::automatic::word(outcome),
                "filed:calendar_answer",
                "{program}"
            );
        }
        assert_eq!(answer().await, expected, "{program}");
    }
    let before = events(&scene).await;
    for program in PROPOSE {
        let prompt = arrives(
            &scene,
            CONTACT,
            &format!("p-{program}"),
            &of(format!("{program}_counter.ics")),
        )
        .await;
        assert!(
            prompt.contains("proposal of another time")
                && prompt.contains("Friday would be better"),
            "{program}: {prompt}"
        );
        assert_eq!(
            events(&scene).await,
            before,
            "{program}: a proposal changes nothing"
        );
    }
    app.check().await;
}
