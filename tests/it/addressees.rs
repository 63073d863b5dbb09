//! Whom an answer goes to: copies by `reply_to`, and the `Reply-To` of forms by `reply_to_of`. Every letter is signed for real.

use crate::app::Workspace;
use crate::hijack::world::ALL;
use crate::identity::world::World;
use attache::domain::{Address, Email};
use attache::gateway::intake_contract::{Accepted, CopyOutcome};
use attache::replay::verify::Outcome;
use serde_json::{Value, json};

const PERSONA: &str = "personas/ada/persona.json";

/// A persona that answers every letter alike, with these members of her file and of `configs/security.json`.
async fn world(members: &Value, security: &Value) -> World {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Noted." }] }));
    workspace.persona("digest", "Digest");
    let files = [(PERSONA, members), ("configs/security.json", security)];
    for (file, members) in files {
        for (key, value) in members.as_object().expect("an object") {
            workspace.set(file, &format!("/{key}"), value.clone());
        }
    }
    World::in_workspace(workspace, json!({})).await
}

async fn verified(world: &World) {
    world.app.drain().await;
    world.app.check().await;
    for run in world.app.workspace.verified().await {
        assert!(
            matches!(
                run.outcome,
                Outcome::Identical { .. } | Outcome::NothingAsked
            ),
            "{run:?}"
        );
    }
}

/// The answer to a letter; `None`: it has none.
fn answer(world: &World, id: &str) -> Option<Email> {
    let id = format!("{id}@x.test");
    let mut sent = world.app.sent().into_iter();
    sent.find(|mail| mail.in_reply_to == [id.as_str()])
}

fn addresses(people: &[attache::domain::Mailbox]) -> Vec<&str> {
    people.iter().map(|one| one.spec.as_str()).collect()
}

/// Hands a letter over, signed over these fields; `domain` is empty for none.
async fn hand_over(world: &World, domain: &'static str, eml: &str, fields: &[&str]) -> Accepted {
    let eml = match domain {
        "" => eml.to_owned(),
        domain => world.signed_with(domain, eml, fields, |signer| signer),
    };
    world.hand_over(&eml, None).await.expect("it is taken")
}

/// A letter with other recipients than Ada alone.
fn to_many(world: &World, (from, id): (&str, &str), to: &str, cc: &str) -> String {
    let more = match cc {
        "" => String::new(),
        cc => format!("Cc: {cc}\r\n"),
    };
    let letter = world.plain(from, id, &more);
    letter.replace("To: ada@engine.test", &format!("To: {to}"))
}

/// From, the domain that signs, `To`, `Cc`, the signed fields, and the number of copies.
type CopiesRow<'r> = (
    &'r str,
    &'static str,
    &'r str,
    &'r str,
    &'r Vec<&'r str>,
    usize,
);

#[tokio::test]
async fn proven_people_of_a_contacts_letter_get_copies_and_nobody_else() {
    let world = world(&json!({ "reply_to": "all" }), &json!({})).await;
    let to = "ada@engine.test, Bob <bob@guest.test>";
    let cc = "Pia <pia@cc.test>, ADA+x@engine.test, digest@engine.test, noreply@cc.test, team-request@cc.test, PIA@cc.test, \
              mailer-daemon@cc.test, olga@home.test";
    let without = |field: &str| -> Vec<&str> {
        let fields = ALL.into_iter();
        fields.filter(|known| *known != field).collect()
    };
    let crowd = |count: usize| {
        let people = (0..count).map(|n| format!("p{n}@cc.test"));
        people.collect::<Vec<_>>().join(", ")
    };
    let (twenty, more) = (crowd(20), crowd(21));
    let (no_to, no_cc) = (without("To"), without("Cc"));
    let all = ALL.to_vec();
    let table: Vec<CopiesRow<'_>> = vec![
        // A contact who signed everything.
        ("carol1@partner.test", "partner.test", to, cc, &all, 3),
        // Nothing to copy.
        (
            "carol2@partner.test",
            "partner.test",
            "ada@engine.test",
            "",
            &all,
            0,
        ),
        // Any server can add a field that is not signed.
        ("carol3@partner.test", "partner.test", to, cc, &no_cc, 1),
        // A letter that is not signed to this persona brings nobody along.
        (
            "carol4@partner.test",
            "partner.test",
            to,
            "pia@cc.test",
            &no_to,
            0,
        ),
        // An announcement is answered to its sender.
        (
            "carol5@partner.test",
            "partner.test",
            "ada@engine.test",
            &twenty,
            &all,
            20,
        ),
        (
            "carol6@partner.test",
            "partner.test",
            "ada@engine.test",
            &more,
            &all,
            0,
        ),
        // A stranger could have us write to anybody, and a name alone proves nothing.
        ("mallory@evil.test", "evil.test", to, cc, &all, 0),
        ("carol7@partner.test", "", to, cc, &all, 0),
        // The sender's own address is no second copy.
        (
            "carol8@partner.test",
            "partner.test",
            to,
            "Carol8@partner.test",
            &all,
            1,
        ),
    ];
    for (number, (from, domain, to, cc, fields, _)) in table.iter().enumerate() {
        let letter = to_many(&world, (from, &format!("l{number}")), to, cc);
        hand_over(&world, domain, &letter, fields).await;
    }
    world.app.drain().await;
    for (number, (from, _, _, _, fields, copies)) in table.iter().enumerate() {
        let mail = answer(&world, &format!("l{number}"));
        let mail = mail.unwrap_or_else(|| panic!("no answer to {number} from {from}"));
        assert_eq!(addresses(&mail.to), [*from], "{number}");
        assert_eq!(mail.cc.len(), *copies, "{number}: {:?} {fields:?}", mail.cc);
    }
    let first = answer(&world, "l0").expect("an answer");
    assert_eq!(
        addresses(&first.cc),
        ["bob@guest.test", "pia@cc.test", "olga@home.test"]
    );
    verified(&world).await;
}

#[tokio::test]
async fn without_the_setting_the_sender_alone_is_answered() {
    let world = world(&json!({}), &json!({})).await;
    let letter = to_many(
        &world,
        ("carol@partner.test", "l"),
        "ada@engine.test",
        "pia@cc.test",
    );
    hand_over(&world, "partner.test", &letter, &ALL).await;
    world.app.drain().await;
    let mail = answer(&world, "l").expect("an answer");
    assert_eq!(addresses(&mail.to), ["carol@partner.test"]);
    assert!(mail.cc.is_empty(), "{:?}", mail.cc);
    verified(&world).await;
}

/// Whoever is copied in may answer, and is in the thread.
#[tokio::test]
async fn somebody_who_got_a_copy_answers_into_the_thread() {
    let world = world(&json!({ "reply_to": "all" }), &json!({})).await;
    let letter = to_many(
        &world,
        ("carol@partner.test", "l"),
        "ada@engine.test",
        "pia@small.test",
    );
    let taken = hand_over(&world, "partner.test", &letter, &ALL).await;
    world.app.drain().await;
    let mail = answer(&world, "l").expect("an answer");
    let id = mail.message_id.expect("an id");
    let reply = world.plain(
        "pia@small.test",
        "pia",
        &format!("In-Reply-To: <{id}>\r\nReferences: <l@x.test> <{id}>\r\n"),
    );
    let joined = hand_over(&world, "small.test", &reply, &ALL).await;
    let thread = async |taken: &Accepted| {
        let sql = "SELECT thread_id FROM messages WHERE id = $1";
        let message = taken.copies[0].message.to_string();
        world.app.row(sql, &message).await.remove(0)
    };
    assert_eq!(thread(&taken).await, thread(&joined).await);
    verified(&world).await;
}

/// Copies count for nobody: a manager who is copied in by everybody must not use up the answers to customers.
#[tokio::test]
#[ignore = "second tier"]
async fn somebody_who_is_copied_in_often_keeps_no_answer_back() {
    let world = world(&json!({ "reply_to": "all" }), &json!({})).await;
    for number in 0..12 {
        let from = format!("carol{number}@partner.test");
        let id = format!("l{number}");
        let letter = to_many(&world, (&from, &id), "ada@engine.test", "boss@partner.test");
        hand_over(&world, "partner.test", &letter, &ALL).await;
    }
    world.app.drain().await;
    for number in 0..12 {
        let mail = answer(&world, &format!("l{number}")).expect("an answer");
        assert_eq!(addresses(&mail.cc), ["boss@partner.test"]);
    }
    verified(&world).await;
}

#[tokio::test]
async fn a_draft_shows_its_copies_and_leaves_with_them() {
    let members = json!({ "reply_to": "all", "reply": "draft" });
    let world = world(&members, &json!({})).await;
    let letter = to_many(
        &world,
        ("carol@partner.test", "l"),
        "ada@engine.test",
        "pia@cc.test",
    );
    hand_over(&world, "partner.test", &letter, &ALL).await;
    world.app.drain().await;
    assert!(answer(&world, "l").is_none());
    let store = &world.app.engine.store;
    let drafts = store.drafts(None, None, 10).await.expect("drafts");
    let view = &drafts[0].view;
    assert!(view.contains("To: carol@partner.test"), "{view}");
    assert!(view.contains("Cc: pia@cc.test  (in this thread)"), "{view}");
    verified(&world).await;
}

/// The owner's own submission covers everything.
#[tokio::test]
async fn an_owner_who_logged_in_gets_copies_sent_too() {
    let world = world(&json!({ "reply_to": "all" }), &json!({})).await;
    let letter = to_many(
        &world,
        ("olga@home.test", "l"),
        "ada@engine.test",
        "pia@cc.test",
    );
    let mut letter = crate::app::letter(&letter);
    letter.envelope.arrival.submitted_by = Address::parse("olga@home.test").ok();
    letter.envelope.rcpt_to = vec![Address::parse("ada@engine.test").expect("one")];
    let taken = world.app.engine.intake().accept(letter).await;
    taken.expect("it is taken");
    world.app.drain().await;
    let mail = answer(&world, "l").expect("an answer");
    assert_eq!(addresses(&mail.cc), ["pia@cc.test"]);
    verified(&world).await;
}

/// A form at home.test that the owner trusts to name whoever filled it in.
async fn with_form() -> World {
    let security =
        json!({ "reply_to_of": ["form@home.test", "noreply@home.test", "web@partner.test"] });
    world(&json!({}), &security).await
}

fn form(world: &World, from: &str, id: &str, reply_to: &str) -> String {
    world.plain(from, id, &format!("Reply-To: {reply_to}\r\n"))
}

async fn message(world: &World, taken: &Accepted, column: &'static str) -> String {
    let message = taken.copies[0].message.to_string();
    let found = world.app.row(column, &message).await.remove(0);
    found.unwrap_or_default()
}

const TRUST: &str = "SELECT trust FROM messages WHERE id = $1";
const SENDER: &str = "SELECT sender FROM messages WHERE id = $1";
const THREAD: &str = "SELECT thread_id FROM messages WHERE id = $1";

async fn notices(world: &World) -> Vec<String> {
    let sql = "SELECT coalesce(group_concat(summary, '|'), '') FROM notices WHERE kind = $1";
    let found = world.app.row(sql, "reply_to_unused").await.remove(0);
    let found = found.unwrap_or_default();
    let found = found.split('|').filter(|text| !text.is_empty());
    found.map(str::to_owned).collect()
}

#[tokio::test]
async fn whoever_filled_in_a_trusted_form_gets_the_answer_and_proves_nothing() {
    let world = with_form().await;
    let letter = form(
        &world,
        "Shop <form@home.test>",
        "f1",
        "Gina <gina@small.test>",
    );
    let taken = hand_over(&world, "home.test", &letter, &ALL).await;
    world.app.drain().await;
    let mail = answer(&world, "f1").expect("an answer");
    assert_eq!(addresses(&mail.to), ["gina@small.test"]);
    assert!(mail.cc.is_empty());
    assert_eq!(message(&world, &taken, TRUST).await, "unauthenticated");
    assert_eq!(
        message(&world, &taken, SENDER).await,
        "Gina via form@home.test <gina@small.test>"
    );
    assert!(notices(&world).await.is_empty());
    // What a letter that proves nothing may not do, this one may not do either.
    let CopyOutcome::Run(run) = &taken.copies[0].outcome else {
        panic!("{:?}", taken.copies[0].outcome);
    };
    let prompts = world.app.prompts(run.as_str()).await;
    let tools = prompts[0]["tools"].to_string();
    for tool in ["send_email", "remember", "update_memory", "forward_email"] {
        assert!(!tools.contains(&format!("\"{tool}\"")), "{tool}: {tools}");
    }
    // Her own answer, which she signs, joins the thread and sees what she wrote in the form.
    let id = mail.message_id.expect("an id");
    let more = format!("In-Reply-To: <{id}>\r\nReferences: <f1@x.test> <{id}>\r\n");
    let reply = world.plain("gina@small.test", "g1", &more);
    let joined = hand_over(&world, "small.test", &reply, &ALL).await;
    assert_eq!(
        message(&world, &joined, THREAD).await,
        message(&world, &taken, THREAD).await
    );
    world.app.drain().await;
    assert!(answer(&world, "g1").is_some());
    let CopyOutcome::Run(run) = &joined.copies[0].outcome else {
        panic!("{:?}", joined.copies[0].outcome);
    };
    let prompts = world.app.prompts(run.as_str()).await;
    assert!(prompts[0].to_string().contains("Hello, f1."), "{prompts:?}");
    // Somebody else who knows the ids does not.
    let forged = world.plain("mallory@evil.test", "m1", &more);
    let apart = hand_over(&world, "evil.test", &forged, &ALL).await;
    assert_ne!(
        message(&world, &apart, THREAD).await,
        message(&world, &taken, THREAD).await
    );
    verified(&world).await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_form_is_believed_only_as_far_as_it_signed() {
    let world = with_form().await;
    let unsigned: Vec<&str> = ALL.into_iter().filter(|one| *one != "Reply-To").collect();
    let all = ALL.to_vec();
    // From, domain of the signature, Reply-To, signed fields, who gets the answer.
    let table: Vec<(&str, &'static str, &str, &Vec<&str>, &str)> = vec![
        (
            "form@home.test",
            "home.test",
            "gina@cust.test",
            &unsigned,
            "form@home.test",
        ),
        // The name of a form alone.
        (
            "web@partner.test",
            "",
            "gina2@cust.test",
            &all,
            "web@partner.test",
        ),
        // Not ours, no machine, one only.
        (
            "form@home.test",
            "home.test",
            "digest@engine.test",
            &all,
            "form@home.test",
        ),
        (
            "form@home.test",
            "home.test",
            "noreply@cust.test",
            &all,
            "form@home.test",
        ),
        (
            "form@home.test",
            "home.test",
            "gina3@cust.test, eve@evil.test",
            &all,
            "form@home.test",
        ),
        // Another sender of the same domain is no form.
        (
            "carol@partner.test",
            "partner.test",
            "gina4@cust.test",
            &all,
            "carol@partner.test",
        ),
        // The same mailbox under a tag needs no trust.
        (
            "dora@partner.test",
            "partner.test",
            "dora+x@partner.test",
            &all,
            "dora+x@partner.test",
        ),
    ];
    for (number, (from, domain, reply_to, fields, to)) in table.iter().enumerate() {
        let letter = form(&world, from, &format!("f{number}"), reply_to);
        let taken = hand_over(&world, domain, &letter, fields).await;
        let trust = message(&world, &taken, TRUST).await;
        let is_form = from.starts_with("form@") || domain.is_empty();
        assert_eq!(trust == "unauthenticated", is_form, "{number}: {trust}");
        world.app.drain().await;
        let mail = answer(&world, &format!("f{number}"));
        let mail = mail.unwrap_or_else(|| panic!("no answer to {number}"));
        assert_eq!(addresses(&mail.to), [*to], "{number}");
    }
    let told = notices(&world).await;
    assert_eq!(told.len(), table.len() - 1, "{told:#?}");
    let names = |one: &str, other: &str| {
        told.iter()
            .any(|text| text.contains(one) && text.contains(other))
    };
    assert!(names("form@home.test", "`gina@cust.test`"), "{told:#?}");
    assert!(
        names("carol@partner.test", "`gina4@cust.test`"),
        "{told:#?}"
    );
    // The same pair is told once.
    let again = form(&world, "carol@partner.test", "again", "gina4@cust.test");
    hand_over(&world, "partner.test", &again, &ALL).await;
    world.app.drain().await;
    assert!(answer(&world, "again").is_some());
    assert_eq!(notices(&world).await.len(), told.len());
    verified(&world).await;
}

/// Forms write as `noreply`, and say that a program wrote.
#[tokio::test]
async fn a_trusted_form_may_be_a_machine_and_an_untrusted_one_not() {
    let world = with_form().await;
    let auto = "Auto-Submitted: auto-generated\r\n";
    let letter = |from: &str, id: &str, auto: &str| {
        world.plain(from, id, &format!("{auto}Reply-To: {id}@cust.test\r\n"))
    };
    hand_over(
        &world,
        "home.test",
        &letter("noreply@home.test", "f1", auto),
        &ALL,
    )
    .await;
    hand_over(
        &world,
        "partner.test",
        &letter("noreply@partner.test", "f2", ""),
        &ALL,
    )
    .await;
    let replied = "Auto-Submitted: auto-replied\r\n";
    hand_over(
        &world,
        "home.test",
        &letter("form@home.test", "f3", replied),
        &ALL,
    )
    .await;
    world.app.drain().await;
    let mail = answer(&world, "f1").expect("an answer");
    assert_eq!(addresses(&mail.to), ["f1@cust.test"]);
    assert!(answer(&world, "f2").is_none() && answer(&world, "f3").is_none());
    verified(&world).await;
}

/// Limits count whoever filled in the form, and not the form.
#[tokio::test]
#[ignore = "second tier"]
async fn a_form_is_no_single_correspondent() {
    let world = with_form().await;
    for number in 0..12 {
        let reply_to = format!("p{number}@c{number}.test");
        let letter = form(&world, "form@home.test", &format!("f{number}"), &reply_to);
        hand_over(&world, "home.test", &letter, &ALL).await;
        let same = form(
            &world,
            "form@home.test",
            &format!("s{number}"),
            "eve@evil.test",
        );
        hand_over(&world, "home.test", &same, &ALL).await;
    }
    world.app.drain().await;
    let answered = |kind: &str| {
        let ids = (0..12).map(|number| format!("{kind}{number}"));
        ids.filter(|id| answer(&world, id).is_some()).count()
    };
    assert_eq!(answered("f"), 12);
    assert!((1..12).contains(&answered("s")), "{}", answered("s"));
    verified(&world).await;
}
