//! Whose thread a letter joins depends on who is known to have sent it (decision D-22).

use super::world::World;
use serde_json::json;

async fn thread_of(world: &World, eml: &str) -> String {
    let accepted = world.hand_over(eml, None).await.expect("stored");
    let row = world
        .app
        .row("SELECT thread_id FROM messages WHERE id = $1", accepted.copies[0].message.as_str())
        .await;
    row[0].clone().expect("a thread")
}

async fn people_of(world: &World, thread: &str) -> Vec<String> {
    let row = world
        .app
        .row("SELECT json_group_array(address) FROM (SELECT address FROM thread_participants WHERE thread_id = $1 ORDER BY 1)", thread)
        .await;
    serde_json::from_str(row[0].as_deref().expect("a list")).expect("json")
}

#[tokio::test]
async fn a_forged_participant_joins_nobodys_thread_and_the_genuine_one_stays_in_it() {
    let world = World::start().await;
    let reply = "In-Reply-To: <first@x.test>\r\nReferences: <first@x.test>\r\n";
    let genuine = |id: &str, more: &str| world.signed("home.test", &world.plain("olga@home.test", id, more));
    let private = thread_of(&world, &genuine("first", "")).await;
    let forged = world.plain("olga@home.test", "forged", &format!("Cc: mallory@evil.test\r\n{reply}"));
    let apart = thread_of(&world, &forged).await;
    assert_ne!(apart, private, "a name alone opens no thread");
    assert_eq!(people_of(&world, &apart).await, ["unverified:olga@home.test"], "and brings nobody along");
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
    let signed =
        |id: &str, more: &str| world.signed("evil.test", &world.plain("mallory@evil.test", id, more));
    let posed = thread_of(&world, &signed("m1", &format!("{list}{reply}Cc: eve@evil.test\r\n"))).await;
    assert_eq!(posed, private, "like every letter of the list");
    assert_eq!(people_of(&world, &private).await, ["list:board.home.test"]);
    assert_ne!(thread_of(&world, &signed("m2", reply)).await, private);
    // Nor by being there first.
    let early = thread_of(&world, &signed("m3", &format!("{list}References: <older@x.test>\r\n"))).await;
    let late = post("post2", "References: <older@x.test>\r\n");
    assert_eq!(thread_of(&world, &world.signed("home.test", &late)).await, early);
    assert_ne!(thread_of(&world, &signed("m4", "References: <older@x.test>\r\n")).await, early);
}

#[tokio::test]
async fn somebody_who_cannot_prove_anything_still_has_one_thread() {
    let world = World::start().await;
    let first = thread_of(&world, &world.plain("bob@guest.test", "b1", "")).await;
    let second =
        thread_of(&world, &world.plain("bob@guest.test", "b2", "In-Reply-To: <b1@x.test>\r\n")).await;
    assert_eq!(first, second);
    let other = thread_of(&world, &world.plain("eve@guest.test", "b3", "In-Reply-To: <b1@x.test>\r\n")).await;
    assert_ne!(first, other);
}

#[tokio::test]
async fn an_allow_listed_name_is_taken_at_its_word_unless_its_domain_disowns_the_letter() {
    let world = World::start().await;
    let signed = world.signed("partner.test", &world.plain("carol@partner.test", "c1", ""));
    let thread = thread_of(&world, &signed).await;
    let plain = world.plain("carol@partner.test", "c2", "In-Reply-To: <c1@x.test>\r\n");
    assert_eq!(thread_of(&world, &plain).await, thread, "allow-listed by the operator");
    let disowned = world.plain("carol@partner.test", "c3", "In-Reply-To: <c1@x.test>\r\n");
    let accepted = world.hand_over(&disowned, Some(super::world::STRANGER)).await.expect("stored");
    let row = world
        .app
        .row("SELECT thread_id FROM messages WHERE id = $1", accepted.copies[0].message.as_str())
        .await;
    assert_ne!(row[0].as_deref(), Some(thread.as_str()), "p=quarantine, and nobody of partner.test sent it");
}

#[tokio::test]
async fn whoever_proves_their_name_takes_the_place_of_the_one_who_only_claimed_it() {
    let world = World::with(json!({})).await;
    let claimed = thread_of(&world, &world.plain("ann@small.test", "a1", "")).await;
    // The persona wrote into that thread to Ann, so the address is a participant.
    let mut rows = world.app.workspace.rows().await;
    let insert = "INSERT INTO thread_participants (thread_id, address) VALUES ($1, 'ann@small.test')";
    sqlx::query(insert).bind(&claimed).execute(&mut rows).await.expect("a row");
    let proven =
        world.signed("small.test", &world.plain("ann@small.test", "a2", "In-Reply-To: <a1@x.test>\r\n"));
    assert_eq!(thread_of(&world, &proven).await, claimed);
    assert_eq!(people_of(&world, &claimed).await, ["ann@small.test"]);
    let again = world.plain("ann@small.test", "a3", "In-Reply-To: <a1@x.test>\r\n");
    assert_ne!(thread_of(&world, &again).await, claimed, "now it is a proven person's thread");
}
