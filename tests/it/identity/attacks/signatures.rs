//! Signatures that prove nothing.

use super::*;

#[tokio::test]
async fn what_is_changed_or_added_beside_a_signature_voids_it() {
    let world = World::start().await;
    let good = world.signed("home.test", &world.plain(OWNER, "good", ""));
    assert_eq!(world.trust(&good).await, "owner");
    let body = good.replace("Hello, good", "Hello, goad");
    let subject = format!("Subject: Wire the money\r\n{good}");
    let bare = world
        .plain(OWNER, "bare", "")
        .replace("Subject: Breakfast\r\n", "");
    let added =
        world
            .signed("home.test", &bare)
            .replacen("From:", "Subject: Wire the money\r\nFrom:", 1);
    let typed = format!("Content-Type: text/html\r\nContent-Type: text/plain\r\n{good}");
    let stray = good.replacen("Subject:", "a stray line\r\nSubject:", 1);
    let changed = [
        ("body", body),
        ("subject", subject),
        ("added subject", added),
        ("two types", typed),
        ("stray", stray),
    ];
    for (what, letter) in changed {
        assert_eq!(world.trust(&letter).await, "unauthenticated", "{what}");
    }
    // What nobody signed can be anybody's.
    let unsigned_subject: Vec<&str> = USUAL
        .into_iter()
        .filter(|field| *field != "Subject")
        .collect();
    let letter = world.plain(OWNER, "nosubject", "");
    let letter = world.signed_with("home.test", &letter, &unsigned_subject, |signer| signer);
    assert_eq!(
        world.found(&letter, None).await,
        (
            "unauthenticated".into(),
            "a field was added beside the signed ones".into()
        )
    );
    let without_from = world.signed_with(
        "home.test",
        &world.plain(OWNER, "nofrom", ""),
        &["Subject", "Date"],
        |s| s,
    );
    assert_eq!(world.trust(&without_from).await, "unauthenticated");
}

#[tokio::test]
async fn keys_on_trial_and_expired_signatures_prove_nothing() {
    let world = World::start().await;
    let letter = world.plain(OWNER, "trial", "");
    world.publish("home.test", "trial", "t=y; ");
    let signer = mail_auth::dkim::DkimSigner::from_key(world.key("home.test")).domain("home.test");
    let signature = signer
        .selector("trial")
        .headers(USUAL)
        .sign(letter.as_bytes())
        .expect("a signature");
    let header = mail_auth::common::headers::HeaderWriter::to_header(&signature);
    assert_eq!(
        world.trust(&format!("{header}{letter}")).await,
        "unauthenticated"
    );
    let short = world.plain(OWNER, "short", "");
    let short = world.signed_with("home.test", &short, &USUAL, |signer| {
        signer.expiration(3600)
    });
    world.app.workspace.clock.advance(Duration::from_secs(7200));
    assert_eq!(world.trust(&short).await, "unauthenticated");
}

#[tokio::test]
async fn a_signature_by_sha_1_is_not_even_asked_about() {
    let world = World::start().await;
    // The hashes are those of the body, so that what is missing is the key.
    let field = |algorithm: &str, selector: &str, hash: &str| {
        format!(
            "DKIM-Signature: v=1; a={algorithm}; c=relaxed/relaxed; d=home.test; s={selector};\r\n \
             h=From:Subject:Date; bh={hash}; b=AAAA\r\n"
        )
    };
    let old = field("rsa-sha1", "old", "3gkho7CwDX3DTB1YN95n44+s7fI=");
    let new = field(
        "rsa-sha256",
        "new",
        "wL2jWb/fhXtw+NMiTe8OikM+xcEHE8X3vmjA+BMABMk=",
    );
    let letter = format!("{old}{new}{}", world.plain(OWNER, "sha1", ""));
    assert_eq!(world.trust(&letter).await, "unauthenticated");
    let asked = world.dns.asked();
    let about = |selector: &str| asked.iter().any(|question| question.contains(selector));
    assert!(
        !about("old._domainkey") && about("new._domainkey"),
        "{asked:?}"
    );
}

#[tokio::test]
async fn the_eleventh_signature_is_not_asked_about() {
    let world = World::start().await;
    let mut letter = world.signed("home.test", &world.plain(OWNER, "many", ""));
    for n in 0..40 {
        let other = world.signed("home.test", &world.plain(OWNER, &format!("other{n}"), ""));
        let field = other
            .split_once("From:")
            .expect("a letter")
            .0
            .replace("s=s1", &format!("s=n{n}"));
        letter = format!("{field}{letter}");
    }
    let asked = world.dns.asked().len();
    assert_eq!(
        world.trust(&letter).await,
        "unauthenticated",
        "the good one is the forty-first"
    );
    assert!(
        world.dns.asked().len() - asked <= 12,
        "{:?}",
        &world.dns.asked()[asked..]
    );
}

#[tokio::test]
async fn a_copy_that_proves_nothing_keeps_no_genuine_letter_away() {
    let world = World::start().await;
    let genuine = world.signed("home.test", &world.plain(OWNER, "copied", ""));
    let copy = genuine
        .split_once("From:")
        .map(|(_, rest)| format!("From:{rest}"))
        .expect("a letter");
    for (letter, is_new) in [
        (&copy, true),
        (&genuine, true),
        (&genuine, false),
        (&copy, false),
    ] {
        let accepted = world.hand_over(letter, None).await.expect("taken");
        assert_eq!(accepted.copies[0].outcome != CopyOutcome::Duplicate, is_new);
    }
}
