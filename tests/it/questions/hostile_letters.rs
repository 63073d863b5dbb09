//! Letters to the addresses of real questions, through the real door, with real signatures: none of them decides.

use super::dice::{Dice, many};
use super::hostile_words::{KINDS, hostile};
use super::letters::Content;
use crate::app::db;
use crate::approvals::scene::{CONTACT, OWNER, Scene, asks};
use crate::hijack::world::ALL;
use attache::domain::ApprovalState;
use attache::store::ApprovalVerdict;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is wrong with a letter that says yes.
#[rustfmt::skip]
const WRONGS: [&str; 20] = [
    "no signature", "another's signature", "a contact's", "two senders", "two From fields", "To is somebody else", "To is not signed",
    "Message-ID is not signed", "a week old", "of the future", "l= and more", "l= alone", "automatic", "a list's", "bulk",
    "changed on the way", "of another question", "of another owner", "a guessed token", "sent again",
];

/// The addresses of two open questions and one that was decided.
struct Places {
    /// Olga's own, for two open questions.
    open: [String; 2],
    /// Otto's, for the first.
    of_otto: String,
    /// A genuine yes to a question that it decided.
    used: String,
}

fn letter(
    scene: &Scene,
    (from, to, id): (&str, &str, &str),
    date: Duration,
    content: &Content,
) -> String {
    let now = scene.world.now().minus(date).to_utc().to_rfc2822();
    let Content { more, body } = content;
    format!(
        "From: {from}\r\nTo: {to}\r\nSubject: Re: asks\r\nMessage-ID: <{id}@x.test>\r\nDate: {now}\r\n{more}\r\n{body}\r\n"
    )
}

/// The letter and whom it is handed over for.
#[rustfmt::skip]
fn wrong(scene: &Scene, places: &Places, what: &str, id: &str, dice: &mut Dice) -> (String, String) {
    let to = places.open[dice.below(2)].as_str();
    let yes = Content::plain(dice.of(&["yes", "Ja", "OK", "Oui.", "はい"]));
    let with = |line: &str| Content { more: format!("{line}\r\n{}", yes.more), body: yes.body.clone() };
    let of = |from: &str, to: &str, content: &Content| letter(scene, (from, to, id), Duration::ZERO, content);
    let sign = |domain, letter: &str| scene.world.signed_with(domain, letter, &ALL, |signer| signer);
    let own = |letter: &str| sign("home.test", letter);
    let without = |field: &str| {
        let fields: Vec<&str> = ALL.iter().copied().filter(|one| *one != field).collect();
        scene.world.signed_with("home.test", &of(OWNER, to, &yes), &fields, |signer| signer)
    };
    let limited = |content: &Content| scene.world.signed_with("home.test", &of(OWNER, to, content), &ALL, |s| s.body_length(true));
    let made = match what {
        "no signature" => of(OWNER, to, &yes),
        "another's signature" => sign("evil.test", &of(OWNER, to, &yes)),
        "a contact's" => sign("partner.test", &of(CONTACT, to, &yes)),
        "two senders" => own(&of(&format!("{OWNER}, {CONTACT}"), to, &yes)),
        "two From fields" => format!("From: {CONTACT}\r\n{}", own(&of(OWNER, to, &yes))),
        "To is somebody else" => own(&of(OWNER, "ada@engine.test", &yes)),
        "To is not signed" => without("To"),
        "Message-ID is not signed" => without("Message-ID"),
        "a week old" => own(&letter(scene, (OWNER, to, id), Duration::from_secs(8 * 86_400), &yes)),
        "of the future" => own(&of(OWNER, to, &yes).replace("Date: ", "Date: Fri, 1 Jan 2100 10:00:00 +0000\r\nX-Date: ")),
        "l= and more" => format!("{}yes\r\n", limited(&Content { more: yes.more.clone(), body: String::new() })),
        "l= alone" => limited(&yes),
        "automatic" => own(&of(OWNER, to, &with("Auto-Submitted: auto-replied"))),
        "a list's" => own(&of(OWNER, to, &with("List-Id: <all.home.test>"))),
        "bulk" => own(&of(OWNER, to, &with("Precedence: bulk"))),
        "changed on the way" => own(&of(OWNER, to, &Content::plain("maybe"))).replace("maybe", "yes"),
        "of another question" => own(&of(OWNER, &places.open[0], &yes)),
        "of another owner" => own(&of(OWNER, &places.of_otto, &yes)),
        "a guessed token" => own(&of(OWNER, &format!("ada+a.{:016x}{:016x}@engine.test", dice.roll(), dice.roll()), &yes)),
        _ => places.used.clone(),
    };
    let for_whom = match what {
        "of another question" | "sent again" => places.open[1].clone(),
        "of another owner" => places.of_otto.clone(),
        "a guessed token" => {
            let line = made.lines().find(|line| line.starts_with("To: ")).expect("To");
            line.trim_start_matches("To: ").to_owned()
        }
        _ => to.to_owned(),
    };
    (made, for_whom)
}

/// A scene with two open questions and two owners, and a third question that Olga approved by mail.
async fn scene_and_places() -> (Scene, Places) {
    let scene = Scene::with(&asks(), |workspace| {
        workspace.set(
            "configs/gateway.json",
            "/owners",
            json!(["olga@home.test", "otto@small.test"]),
        );
    })
    .await;
    let mut asked = Vec::new();
    for id in ["a", "b", "c"] {
        scene.writes(CONTACT, id, "").await;
        let all = scene.to_owner();
        let of = |owner: &str| {
            let mut mails = all.iter().filter(|mail| mail.to[0].spec == owner);
            mails
                .rfind(|mail| {
                    asked
                        .iter()
                        .all(|known: &[String; 2]| !known.contains(&mail.from[0].spec))
                })
                .expect("asked")
                .from[0]
                .spec
                .clone()
        };
        asked.push([of("olga@home.test"), of("otto@small.test")]);
    }
    let used = scene.signed(OWNER, &asked[2][0], "used", "", "yes");
    scene.deliver(&used, &asked[2][0]).await.expect("taken");
    scene.world.app.drain().await;
    assert_eq!((scene.open().await.len(), scene.to_eve().len()), (2, 1));
    let places = Places {
        open: [asked[0][0].clone(), asked[1][0].clone()],
        of_otto: asked[0][1].clone(),
        used,
    };
    (scene, places)
}

/// What became of the letters to addresses of questions.
async fn outcomes(scene: &Scene) -> BTreeMap<String, i64> {
    let mut rows = scene.world.app.workspace.rows().await;
    let sql = "SELECT outcome, count(*) FROM approval_answers GROUP BY outcome";
    let found = db::query(sql).fetch_all(&mut rows).await.expect("rows");
    found.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
#[ignore = "second tier"]
async fn of_many_hostile_letters_none_decides() {
    let (mut scene, places) = scene_and_places().await;
    let many = many("ATTACHE_HOSTILE_ANSWERS", 2_000) / 5;
    let (mut dice, mut refused) = (Dice(3), 0);
    for number in 0..many {
        let id = format!("h{number}");
        // Every third is genuine, but for its words.
        let what = match number % 3 {
            0 => KINDS[number / 3 % KINDS.len()],
            _ => WRONGS[number % WRONGS.len()],
        };
        let (eml, to) = if number % 3 == 0 {
            let to = places.open[dice.below(2)].clone();
            let (subject, content) = hostile(what, &mut dice);
            let eml = letter(&scene, (OWNER, &to, &id), Duration::ZERO, &content)
                .replace("Re: asks", subject);
            (
                scene
                    .world
                    .signed_with("home.test", &eml, &ALL, |signer| signer),
                to,
            )
        } else {
            wrong(&scene, &places, what, &id, &mut dice)
        };
        refused += usize::from(scene.deliver(&eml, &to).await.is_err());
        assert_eq!(scene.open().await.len(), 2, "{what}: {eml}");
        if number == many / 2 {
            scene.world.app = scene.world.app.restart().await;
        }
    }
    let became = outcomes(&scene).await;
    println!(
        "B-1 letters: {many} hostile letters with signatures, 0 decisions; {refused} refused at the door, the others {became:?}"
    );
    scene.world.app.drain().await;
    assert_eq!(scene.to_eve().len(), 1);
    assert_eq!(became["approved"], 1, "the genuine one before");
    for kind in ["not_proven", "not_understood", "automatic", "unknown_token"] {
        assert!(became[kind] > 0, "{kind}");
    }
    late_and_old(&scene, &places).await;
}

/// A yes to a version that was edited changes nothing, a yes that is genuine decides, and one that comes late is a no.
async fn late_and_old(scene: &Scene, places: &Places) {
    let of = |to: &str, id: &str| scene.signed(OWNER, to, id, "", "yes");
    let open = scene.open().await;
    let edited = open
        .iter()
        .min_by_key(|question| question.id.clone())
        .expect("a question")
        .id
        .clone();
    scene
        .decide(&edited, ApprovalVerdict::Edit, "say Wednesday")
        .await;
    scene
        .deliver(&of(&places.open[0], "v1"), &places.open[0])
        .await
        .expect("taken");
    assert_eq!(scene.approval(&edited).await.state, ApprovalState::Edited);
    let other = scene.only_question().await.id;
    scene
        .deliver(&of(&places.open[1], "good"), &places.open[1])
        .await
        .expect("taken");
    assert_eq!(
        scene.approval(&other).await.state,
        ApprovalState::Approved,
        "the control"
    );
    scene.writes(CONTACT, "d", "").await;
    let late = scene.only_question().await.id;
    let to = scene
        .to_owner()
        .iter()
        .rfind(|mail| mail.to[0].spec == "olga@home.test" && mail.from[0].spec.contains("+a."))
        .expect("asked")
        .from[0]
        .spec
        .clone();
    scene
        .world
        .app
        .workspace
        .clock
        .advance(Duration::from_secs(72 * 3600));
    scene.deliver(&of(&to, "late"), &to).await.expect("taken");
    assert_eq!(scene.approval(&late).await.state, ApprovalState::Expired);
    scene.world.app.drain().await;
    assert_eq!(scene.to_eve().len(), 2);
    scene.world.app.check().await;
}

/// A Message-ID that was here before belongs to a letter that was, whoever signed the other.
#[tokio::test]
async fn a_second_letter_of_one_message_id_decides_nothing() {
    let scene = Scene::start().await;
    scene.writes(CONTACT, "l1", "").await;
    let (to, id) = (scene.reply_address(), scene.only_question().await.id);
    scene.owner_replies("m1", "Who is Eve?").await;
    let second = scene.signed(OWNER, &to, "m1", "", "yes");
    let _duplicate = scene.deliver(&second, &to).await;
    assert_eq!(scene.approval(&id).await.state, ApprovalState::Open);
    scene.owner_replies("m2", "yes").await;
    assert_eq!(
        scene.approval(&id).await.state,
        ApprovalState::Approved,
        "the control"
    );
}
