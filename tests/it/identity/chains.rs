//! ARC chains of a trusted ARC signer, each with one thing wrong in it (RFC 8617 sections 4.1 and 5.2), signed over what is
//! wrong; and those that look odd and are right.

use super::sealing::{Edit, Hand, as_it_is};
use super::world::{STRANGER, World};
use mail_auth::common::headers::HeaderWriter as _;

const CAROL: &str = "carol@partner.test";

/// Carol's letter as a list passes it on: her own signature is broken.
fn passed_on(world: &World, id: &str) -> String {
    world
        .signed("partner.test", &world.plain(CAROL, id, ""))
        .replace("Subject: B", "Subject: [l] B")
}

/// A text in place of another, once.
fn swap<'e>(from: &'e str, to: &'e str) -> impl Fn(String) -> String + 'e {
    move |text| {
        assert!(text.contains(from), "{from} in {text}");
        text.replacen(from, to, 1)
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_broken_chain_of_a_trusted_sealer_vouches_for_nobody() {
    let world = World::start().await;
    let hand = Hand::new(&world);
    world
        .dns
        .txt("old._domainkey.lists.test", &hand.record("h=sha1; "));
    world
        .dns
        .txt("tls._domainkey.lists.test", &hand.record("s=tlsrpt; "));
    world
        .dns
        .txt("twice._domainkey.lists.test", &hand.record("t=s; t=s; "));
    let no: Edit<'_> = &as_it_is;
    let (a, d, seal, ams) = ("a=rsa-sha256; ", "d=lists.test; ", true, false);
    let rows = [
        (seal, a, ""),
        (ams, a, ""),
        (seal, a, "a=rsa-sha1; "),
        (ams, a, "a=rsa-sha1; "),
        (seal, a, "A=rsa-sha256; "),
        (ams, a, "a=; "),
        (seal, d, "d=lists.test; d=lists.test; "),
        (ams, d, "d=lists.test; d=lists.test; "),
        (ams, "s=rsa; ", "s=none; s=rsa; "),
        (seal, "cv=none; ", "cv=none; cv=none; "),
        (seal, "cv=none; ", "cv=fail; "),
        (seal, "cv=none; ", "cv=pass; "),
        (seal, "cv=none; ", "cv=NONE; "),
        (seal, "cv=none; ", ""),
        (seal, "cv=none; ", "cv=none; h=From; "),
        (ams, "h=From:", "h=ARC-Seal:From:"),
        (ams, "h=From:", "h=From : arc-seal:"),
        (ams, "h=From:", "h="),
        (seal, "i=1; ", "1x=y; i=1; "),
        (seal, "i=1; ", "x y=z; i=1; "),
        (ams, "i=1; ", "x; i=1; "),
        (ams, "i=1; ", "=x; i=1; "),
        (seal, "i=1; ", ";i=1; "),
        (seal, "i=1; ", "i=1; i=1; "),
        (seal, "i=1; ", "i=2; "),
        (ams, "i=1; ", "i=2; "),
        (ams, "i=1; ", ""),
        (seal, "i=1; ", "i=1x; "),
        (ams, "t=", "l=1; t="),
        (ams, "t=", "x=5; t="),
        (seal, "s=rsa; ", "s=old; "),
        (ams, "s=rsa; ", "s=old; "),
        (seal, "s=rsa; ", "s=tls; "),
        (ams, "s=rsa; ", "s=twice; "),
        (seal, "s=rsa; ", "s=nowhere; "),
    ];
    let mut passed = Vec::new();
    for (n, (is_seal, from, to)) in rows.into_iter().enumerate() {
        let edit = swap(from, to);
        let letter = passed_on(&world, &format!("broken{n}"));
        let letter = match is_seal {
            true => hand.sealed(&world, &letter, no, &edit),
            false => hand.sealed(&world, &letter, &edit, no),
        };
        let (trust, why) = world.found(&letter, Some(STRANGER)).await;
        if trust != "unauthenticated" {
            passed.push(format!(
                "{}: {from:?} -> {to:?}: {trust} ({why})",
                if is_seal { "seal" } else { "signature" }
            ));
        }
    }
    assert!(passed.is_empty(), "{passed:#?}");
}

#[tokio::test]
async fn a_right_chain_that_looks_odd_vouches() {
    let world = World::start().await;
    let hand = Hand::new(&world);
    let rows: [(&str, &str, &str, &str); 8] = [
        ("i=1; ", "i=1; ", "i=1; ", "i=1; "),
        ("i=1; ", "new_1=x y; i=1 ;\t", "i=1; ", "new=; i=1;"),
        (
            "h=From:To:",
            "h=from : TO :",
            "a=rsa-sha256; ",
            "a = rsa-sha256; ",
        ),
        ("h=From:", "h=From::Cc:Cc:", "cv=none; ", "cv= none ; "),
        // Without `c`, as ARC signers mean it and as RFC 6376 does.
        ("c=relaxed/relaxed; ", "", "i=1; ", "i=1; "),
        ("c=relaxed/relaxed; ", "c=relaxed; ", "i=1; ", "i=1; "),
        (
            "h=From:",
            "h=ARC-Authentication-Results:From:",
            "t=",
            "q=x; t=",
        ),
        ("t=", "x=99999999999; t=", "i=1; ", "i=1; "),
    ];
    for (n, (ams, to, seal, into)) in rows.into_iter().enumerate() {
        let letter = hand.sealed(
            &world,
            &passed_on(&world, &format!("odd{n}")),
            &swap(ams, to),
            &swap(seal, into),
        );
        assert_eq!(
            world.found(&letter, Some(STRANGER)).await.0,
            "contact",
            "{to:?} {into:?}"
        );
    }
    let no: Edit<'_> = &as_it_is;
    let of_four = |id: &str| {
        (0..4).fold(passed_on(&world, id), |letter, _| {
            hand.sealed(&world, &letter, no, no)
        })
    };
    assert_eq!(
        world.found(&of_four("long"), Some(STRANGER)).await.0,
        "contact",
        "four sets"
    );
    // Each of its three fields is one line.
    let three: String = of_four("long3").split_inclusive("\r\n").skip(3).collect();
    assert_eq!(
        world.found(&three, Some(STRANGER)).await.0,
        "contact",
        "without the newest"
    );
    let broken = of_four("long4").replacen("cv=pass", "cv=fail", 1);
    assert_eq!(
        world.found(&broken, Some(STRANGER)).await.0,
        "unauthenticated"
    );
}

#[tokio::test]
async fn a_signature_that_is_not_well_formed_is_none() {
    let world = World::start().await;
    let hand = Hand::new(&world);
    let letter = |n: usize| world.plain("olga@home.test", &format!("tags{n}"), "");
    let good = [
        ("v=1; ", "v=1; "),
        ("v=1; ", "v=1 ; new=x;"),
        ("t=", "x=99999999999; t="),
        ("h=From:", "h=From::"),
    ];
    for (n, (from, to)) in good.into_iter().enumerate() {
        let signed = hand.signed(&world, &letter(n), &swap(from, to));
        assert_eq!(world.found(&signed, None).await.0, "owner", "{to:?}");
    }
    let bad = [
        ("v=1; ", ""),
        ("v=1; ", "v=2; "),
        ("v=1; ", "v=1; v=1; "),
        ("a=rsa-sha256; ", ""),
        ("a=rsa-sha256; ", "A=rsa-sha256; "),
        ("d=home.test; ", "d=home.test; d=home.test; "),
        ("s=rsa; ", "s=rsa; 1=2; "),
        ("s=rsa; ", "s=rsa;; "),
        ("t=", "x=5; t="),
        ("t=", "x=soon; t="),
    ];
    for (n, (from, to)) in bad.into_iter().enumerate() {
        let signed = hand.signed(&world, &letter(100 + n), &swap(from, to));
        assert_eq!(
            world.found(&signed, None).await.0,
            "unauthenticated",
            "{to:?}"
        );
    }
}

#[tokio::test]
async fn a_key_for_something_else_verifies_no_mail() {
    let world = World::start().await;
    let signed = |selector: &str| {
        let letter = world.plain("olga@home.test", selector, "");
        let signer =
            mail_auth::dkim::DkimSigner::from_key(world.key("home.test")).domain("home.test");
        let signature = signer
            .selector(selector)
            .headers(super::world::USUAL)
            .sign(letter.as_bytes());
        format!("{}{letter}", signature.expect("a signature").to_header())
    };
    let rows = [
        ("h=sha1; ", "unauthenticated"),
        ("h=sha1:sha512; ", "unauthenticated"),
        ("h=sha1 : sha256; ", "owner"),
        ("h=sha256; ", "owner"),
        ("s=tlsrpt; ", "unauthenticated"),
        ("s=tlsrpt:email; ", "owner"),
        ("s=*; ", "owner"),
        ("v=DKIM1; ", "unauthenticated"),
        ("n=a note; ", "owner"),
    ];
    for (n, (tags, trust)) in rows.into_iter().enumerate() {
        let selector = format!("key{n}");
        world.publish("home.test", &selector, tags);
        assert_eq!(
            world.found(&signed(&selector), None).await.0,
            trust,
            "{tags}"
        );
    }
    // What else stands under the name is nobody's business.
    world
        .dns
        .txt("beside._domainkey.home.test", "a site verification");
    world.publish("home.test", "beside", "");
    assert_eq!(world.found(&signed("beside"), None).await.0, "owner");
}

#[tokio::test]
async fn two_policies_of_a_domain_are_none() {
    let world = World::start().await;
    let found = async |domain: &str| {
        let letter = world.plain(&format!("ann@{domain}"), &domain.replace('.', "-"), "");
        world.found(&letter, Some(STRANGER)).await.0
    };
    let policies: [(&str, &[&str], &str); 5] = [
        ("one.test", &["v=DMARC1; p=reject"], "refused"),
        (
            "two.test",
            &["v=DMARC1; p=reject", "v=DMARC1; p=reject"],
            "unauthenticated",
        ),
        (
            "differ.test",
            &["v=DMARC1; p=none", "v=DMARC1; p=reject"],
            "unauthenticated",
        ),
        (
            "beside.test",
            &["a site verification", "v=DMARC1; p=reject"],
            "refused",
        ),
        // The walk goes on above a name whose records are discarded (RFC 9989 section 4.10).
        (
            "sub.one.test",
            &["v=DMARC1; p=none", "v=DMARC1; p=none"],
            "refused",
        ),
    ];
    for (domain, records, _) in policies {
        records
            .iter()
            .for_each(|record| world.dns.txt(&format!("_dmarc.{domain}"), record));
    }
    for (domain, _, outcome) in policies {
        assert_eq!(found(domain).await, outcome, "{domain}");
    }
}
