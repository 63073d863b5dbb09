//! Whose first line is a command: only that of a letter which is proven to be an owner's order to the persona.

use super::{command, halted, letter, signed, stored, taken, world};
use crate::app::letter as enveloped;
use crate::identity::world::USUAL;
use attache::domain::Address;

/// The honest twin of every letter below.
#[tokio::test]
async fn a_signed_letter_of_the_owner_is_a_command() {
    let world = world().await;
    command(&world, "p", "/pause").await;
    assert_eq!(halted(&world).await, ["ada"]);
    world.app.check().await;
}

#[tokio::test]
async fn nobody_else_gives_commands() {
    let world = world().await;
    let pause = |from: &str, id: &str| {
        let plain = world.plain(from, id, "");
        let (head, _) = plain.split_once("\r\n\r\n").expect("a header");
        format!("{head}\r\n\r\n/pause\r\n")
    };
    let contact = world.signed("partner.test", &pause("carol@partner.test", "c"));
    assert_eq!(taken(&world, &contact).await, "run", "a contact's is text");
    let stranger = world.signed("evil.test", &pause("mallory@evil.test", "m"));
    assert_eq!(
        taken(&world, &stranger).await,
        "run",
        "a stranger's is text"
    );
    let unaligned = world.signed("evil.test", &pause("olga@home.test", "u"));
    let forged = pause("olga@home.test", "f");
    for (what, eml) in [("unaligned", unaligned), ("forged", forged)] {
        let outcome = world.hand_over(&eml, None).await;
        let is_command = outcome
            .is_ok_and(|accepted| format!("{:?}", accepted.copies[0].outcome).contains("command"));
        assert!(!is_command, "{what}");
    }
    // The name of an owner as the display name of somebody else.
    let display = world.signed(
        "evil.test",
        &pause("\"olga@home.test\" <mallory@evil.test>", "d"),
    );
    assert_eq!(taken(&world, &display).await, "run");
    world.app.drain().await;
    assert!(stored(&world).await.is_empty());
    assert!(halted(&world).await.is_empty());
    world.app.check().await;
}

#[tokio::test]
async fn a_signature_over_a_part_of_the_body_proves_no_command() {
    let world = world().await;
    let eml = letter(&world, "l", "", "/pause");
    let cut = world.signed_with("home.test", &eml, &USUAL, |signer| signer.body_length(true));
    assert!(cut.contains("l="), "the control: {cut}");
    let accepted = world.hand_over(&cut, None).await;
    let outcome = accepted.map(|accepted| format!("{:?}", accepted.copies[0].outcome));
    assert!(!outcome.is_ok_and(|outcome| outcome.contains("command")));
    world.app.drain().await;
    assert!(halted(&world).await.is_empty());
}

#[tokio::test]
async fn an_order_to_somebody_else_is_none_to_this_persona() {
    let world = world().await;
    // Signed for another persona and handed to this one: the recipient of the envelope is not the signed one.
    let eml = letter(&world, "b", "", "/pause").replace("ada@engine.test", "bea@engine.test");
    let mut handed = enveloped(&world.signed("home.test", &eml));
    handed.envelope.rcpt_to = vec![Address::parse("ada@engine.test").expect("an address")];
    let accepted = world
        .app
        .engine
        .intake()
        .accept(handed)
        .await
        .expect("taken");
    assert_eq!(accepted.copies[0].persona.as_str(), "ada");
    assert!(!format!("{:?}", accepted.copies[0].outcome).contains("command"));
    world.app.drain().await;
    assert!(halted(&world).await.is_empty());
}

#[tokio::test]
async fn two_personas_that_are_addressed_both_obey() {
    let world = world().await;
    let eml = letter(&world, "t", "", "/pause").replace(
        "To: ada@engine.test",
        "To: ada@engine.test, bea@engine.test",
    );
    let accepted = world.app.receive(&world.signed("home.test", &eml)).await;
    assert_eq!(accepted.expect("taken").copies.len(), 2);
    world.app.drain().await;
    assert_eq!(halted(&world).await, ["ada", "bea"]);
    assert_eq!(stored(&world).await, ["ada pause -", "bea pause -"]);
    assert_eq!(world.app.notices().len(), 2);
    world.app.check().await;
}

#[tokio::test]
async fn automatic_and_list_letters_and_quotations_bring_no_command() {
    let world = world().await;
    let vacation = signed(&world, "v", "Auto-Submitted: auto-replied\r\n", "/pause");
    assert_eq!(taken(&world, &vacation).await, "auto_submitted");
    let list = signed(&world, "l", "List-Id: <talk.home.test>\r\n", "/pause");
    assert_eq!(taken(&world, &list).await, "list");
    let quoted = signed(&world, "q", "", "> /pause\r\n\r\nWhat is this?");
    assert_eq!(taken(&world, &quoted).await, "run");
    let below = signed(&world, "b", "", "Hello,\r\n\r\n/pause");
    assert_eq!(taken(&world, &below).await, "run");
    let path = signed(&world, "e", "", "/etc/hosts is wrong, please look.");
    assert_eq!(taken(&world, &path).await, "run");
    assert!(stored(&world).await.is_empty());
}

#[tokio::test]
async fn answers_are_not_for_the_others_of_the_thread() {
    let world = world().await;
    let eml = letter(&world, "s", "Cc: carol@partner.test\r\n", "/status");
    let fields = ["From", "To", "Cc", "Subject", "Date", "Message-ID"];
    let eml = world.signed_with("home.test", &eml, &fields, |signer| signer);
    assert_eq!(taken(&world, &eml).await, "command");
    world.app.drain().await;
    let answers = world.app.notices();
    assert_eq!((answers[0].to.len(), answers[0].cc.len()), (1, 0));
    // Carol writes in the same thread: her run must not read what the owner was told.
    let carol = world
        .plain("carol@partner.test", "c", "In-Reply-To: <s@x.test>\r\n")
        .replace("Hello, c.", "And what did she ask?");
    let fields = ["From", "To", "Subject", "Date", "Message-ID", "In-Reply-To"];
    let carol = world.signed_with("partner.test", &carol, &fields, |signer| signer);
    let run = world.app.run_of(&carol).await;
    world.app.drain().await;
    let threads = world
        .app
        .row(
            "SELECT CAST(count(DISTINCT thread_id) AS TEXT) FROM messages WHERE persona_id = $1",
            "ada",
        )
        .await;
    assert_eq!(threads[0].as_deref(), Some("1"), "the control: one thread");
    let prompts = world.app.prompts(&run).await;
    assert!(!prompts[0].to_string().contains("spent today"));
    world.app.check().await;
}
