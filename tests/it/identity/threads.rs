//! Whose thread a letter joins depends on who is known to have sent it (decision D-22).

use super::world::{USUAL, World};
use crate::app::rows;
use serde_json::json;

async fn thread_of(world: &World, eml: &str) -> String {
    let accepted = world.hand_over(eml, None).await.expect("stored");
    let row = world
        .app
        .row(
            "SELECT thread_id FROM messages WHERE id = $1",
            accepted.copies[0].message.as_str(),
        )
        .await;
    row[0].clone().expect("a thread")
}

async fn people_of(world: &World, thread: &str) -> Vec<String> {
    let row = world
        .app
        .row("SELECT json_group_array(address) FROM (SELECT address FROM thread_participants WHERE thread_id = $1 ORDER BY 1) listed", thread)
        .await;
    serde_json::from_str(row[0].as_deref().expect("a list")).expect("json")
}

#[tokio::test]
async fn a_forged_participant_joins_no_thread_and_the_genuine_stays() {
    let world = World::start().await;
    let reply = "In-Reply-To: <first@x.test>\r\nReferences: <first@x.test>\r\n";
    let genuine =
        |id: &str, more: &str| world.signed("home.test", &world.plain("olga@home.test", id, more));
    let private = thread_of(&world, &genuine("first", "")).await;
    let forged = world.plain(
        "olga@home.test",
        "forged",
        &format!("Cc: mallory@evil.test\r\n{reply}"),
    );
    let apart = thread_of(&world, &forged).await;
    assert_ne!(apart, private, "a name alone opens no thread");
    assert_eq!(
        people_of(&world, &apart).await,
        ["unverified:olga@home.test"],
        "and brings nobody along"
    );
    assert_eq!(thread_of(&world, &genuine("second", reply)).await, private);
    assert_eq!(people_of(&world, &private).await, ["olga@home.test"]);
    // Mallory, who was copied by the forgery, is in neither.
    let mallory = world.plain("mallory@evil.test", "m", reply);
    let theirs = thread_of(&world, &world.signed("evil.test", &mallory)).await;
    assert!(theirs != private && theirs != apart);
}

#[tokio::test]
async fn a_lists_name_brings_nobody_into_the_lists_thread() {
    let world = World::start().await;
    let list = "List-Id: <board.home.test>\r\n";
    let post = |id: &str, more: &str| world.plain("olga@home.test", id, &format!("{list}{more}"));
    let private = thread_of(&world, &world.signed("home.test", &post("post", ""))).await;
    let reply = "In-Reply-To: <post@x.test>\r\nReferences: <old@x.test> <post@x.test>\r\n";
    // Mallory is no member, but knows the list's name and an id; her letter is signed by her own domain.
    let signed = |id: &str, more: &str| {
        world.signed("evil.test", &world.plain("mallory@evil.test", id, more))
    };
    let posed = thread_of(
        &world,
        &signed("m1", &format!("{list}{reply}Cc: eve@evil.test\r\n")),
    )
    .await;
    assert_eq!(posed, private, "like every letter of the list");
    assert_eq!(people_of(&world, &private).await, ["list:board.home.test"]);
    assert_ne!(thread_of(&world, &signed("m2", reply)).await, private);
    // Nor by being there first.
    let early = thread_of(
        &world,
        &signed("m3", &format!("{list}References: <older@x.test>\r\n")),
    )
    .await;
    let late = post("post2", "References: <older@x.test>\r\n");
    assert_eq!(
        thread_of(&world, &world.signed("home.test", &late)).await,
        early
    );
    assert_ne!(
        thread_of(&world, &signed("m4", "References: <older@x.test>\r\n")).await,
        early
    );
}

#[tokio::test]
async fn somebody_who_cannot_prove_anything_still_has_one_thread() {
    let world = World::start().await;
    let first = thread_of(&world, &world.plain("bob@guest.test", "b1", "")).await;
    let second = thread_of(
        &world,
        &world.plain("bob@guest.test", "b2", "In-Reply-To: <b1@x.test>\r\n"),
    )
    .await;
    assert_eq!(first, second);
    let other = thread_of(
        &world,
        &world.plain("eve@guest.test", "b3", "In-Reply-To: <b1@x.test>\r\n"),
    )
    .await;
    assert_ne!(first, other);
}

#[tokio::test]
async fn an_allow_listed_name_counts_unless_its_domain_disowns_it() {
    let world = World::start().await;
    let signed = world.signed("partner.test", &world.plain("carol@partner.test", "c1", ""));
    let thread = thread_of(&world, &signed).await;
    let plain = world.plain("carol@partner.test", "c2", "In-Reply-To: <c1@x.test>\r\n");
    assert_eq!(
        thread_of(&world, &plain).await,
        thread,
        "allow-listed by the operator"
    );
    let disowned = world.plain("carol@partner.test", "c3", "In-Reply-To: <c1@x.test>\r\n");
    let accepted = world
        .hand_over(&disowned, Some(super::world::STRANGER))
        .await
        .expect("stored");
    let row = world
        .app
        .row(
            "SELECT thread_id FROM messages WHERE id = $1",
            accepted.copies[0].message.as_str(),
        )
        .await;
    assert_ne!(
        row[0].as_deref(),
        Some(thread.as_str()),
        "p=quarantine, and nobody of partner.test sent it"
    );
}

#[tokio::test]
async fn whoever_proves_a_name_takes_the_place_of_who_only_claimed_it() {
    let world = World::with(json!({})).await;
    let claimed = thread_of(&world, &world.plain("ann@small.test", "a1", "")).await;
    // The persona wrote into that thread to Ann, so the address is a participant.
    let mut database = world.app.workspace.rows().await;
    rows::participant(&mut database, Some(&claimed), "ann@small.test").await;
    let proven = world.signed(
        "small.test",
        &world.plain("ann@small.test", "a2", "In-Reply-To: <a1@x.test>\r\n"),
    );
    assert_eq!(thread_of(&world, &proven).await, claimed);
    assert_eq!(people_of(&world, &claimed).await, ["ann@small.test"]);
    let again = world.plain("ann@small.test", "a3", "In-Reply-To: <a1@x.test>\r\n");
    assert_ne!(
        thread_of(&world, &again).await,
        claimed,
        "now it is a proven person's thread"
    );
}

#[tokio::test]
async fn a_letter_joins_others_only_where_its_sender_signed_for_it() {
    let world = World::start().await;
    let whole = [
        "From",
        "To",
        "Cc",
        "Subject",
        "Date",
        "Message-ID",
        "In-Reply-To",
        "References",
    ];
    let letter = |id: &str, more: &str, fields: &[&str]| {
        world.signed_with(
            "small.test",
            &world.plain("ann@small.test", id, more),
            fields,
            |signer| signer,
        )
    };
    let copied = "Cc: bob@guest.test\r\n";
    let reply = "In-Reply-To: <g1@x.test>\r\n";
    let both = format!("{copied}{reply}");
    let with_cc = ["From", "To", "Cc", "Subject", "Date", "Message-ID"];
    let group = thread_of(&world, &letter("g1", copied, &whole)).await;
    assert_eq!(
        people_of(&world, &group).await,
        ["ann@small.test", "bob@guest.test"]
    );
    assert_eq!(
        thread_of(&world, &letter("g2", reply, &whole)).await,
        group,
        "signed as an answer"
    );
    assert_eq!(
        thread_of(&world, &letter("g3", &both, &with_cc)).await,
        group,
        "signed as to the same people"
    );
    let alone = thread_of(&world, &letter("g4", reply, &USUAL)).await;
    assert_ne!(
        alone, group,
        "anybody may have written that it is an answer"
    );
    assert_eq!(people_of(&world, &alone).await, ["ann@small.test"]);
    assert_eq!(
        thread_of(&world, &letter("g5", reply, &USUAL)).await,
        alone,
        "her own known thread"
    );
    assert_eq!(
        thread_of(&world, &letter("g6", &both, &USUAL)).await,
        alone,
        "nobody signed the copy"
    );
    let other = format!("Cc: eve@guest.test\r\n{reply}");
    let third = thread_of(&world, &letter("g7", &other, &with_cc)).await;
    assert!(
        third != group && third != alone,
        "other people, and nobody knows which thread they were meant for"
    );
    assert_eq!(
        people_of(&world, &third).await,
        ["ann@small.test", "eve@guest.test"]
    );
}

#[tokio::test]
async fn a_field_whose_name_reads_two_ways_is_signed_by_nobody() {
    let world = World::start().await;
    let whole = [
        "From",
        "To",
        "Cc",
        "Subject",
        "Date",
        "Message-ID",
        "In-Reply-To",
        "References",
    ];
    let signed = world.signed_with(
        "small.test",
        &world.plain("ann@small.test", "b1", ""),
        &whole,
        |signer| signer,
    );
    for above in [
        "Cc : eve@guest.test\r\n",
        "In-Reply-To\t: <b0@x.test>\r\n",
        "X-Own : 1\r\n",
    ] {
        let found = world.found(&format!("{above}{signed}"), None).await;
        assert_eq!(
            found,
            (
                "unauthenticated".into(),
                "the header can be read in two ways".into()
            ),
            "{above}"
        );
    }
    assert_eq!(world.trust(&signed).await, "unknown");
}
