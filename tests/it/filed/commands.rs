//! `ingest`, `threads show`, `replay last` and `runs answer` after a letter that a rule files.

use crate::guest_house::GuestHouse;
use attache::domain::mail::filed;
use attache::gateway::judge;

/// From somebody whom nobody allowed, without proof.
fn stranger(id: &str) -> String {
    format!(
        "From: Bob <bob@stranger.example>\nTo: concierge@guesthouse.example\nSubject: Spare helmets\n\
         Message-ID: <{id}@stranger.example>\n\nHave you any?\n"
    )
}

const WHY: &str = "nothing proves who sent it";

#[test]
#[ignore = "second tier"]
fn a_filed_letter_says_why_and_how_it_is_answered_everywhere() {
    let house = GuestHouse::new();
    house.write("bob.eml", &stranger("1"));
    let taken = house.ok(&["ingest", "bob.eml"]);
    assert_eq!(
        taken.stdout,
        format!("accepted\tbob.eml\tconcierge: filed without a run (unauthenticated): {WHY}\n")
    );
    let id = house.json(&["ingest", "bob.eml"])[0]["copies"][0]["message"]
        .as_str()
        .expect("an id")
        .to_owned();
    let remedy = format!(
        "`attache runs answer {id}` has it answered; `\"allow\": [\"bob@stranger.example\"]` under `access` in \
         `configs/security.json` has bob@stranger.example answered from then on"
    );
    assert_eq!(taken.stderr, format!("hint: {remedy}\n"));

    for args in [
        &["replay", "last"][..],
        &["runs", "show", "last"],
        &["replay", "verify", "last"],
    ] {
        let said = house.run(args);
        assert_eq!(said.code, 66, "{args:?}: {}", said.stdout);
        assert_eq!(
            said.stderr,
            format!(
                "error: there is no run yet: the letter from Bob <bob@stranger.example> to concierge about \
                 `Spare helmets` is filed (unauthenticated): {WHY}\nhint: {remedy}\n"
            )
        );
    }
    let thread = house.json(&["threads", "list"])[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    for args in [["threads", "show", &thread], ["replay", "show", &thread]] {
        let shown = house.ok(&args).stdout;
        assert!(
            shown.contains(WHY) && shown.contains(&remedy),
            "{args:?}: {shown}"
        );
    }

    let queued = house.ok(&["runs", "answer", "last"]).stdout;
    assert!(queued.contains(&format!("for letter {id}")), "{queued}");
    assert_eq!(
        house.run(&["runs", "answer", "last"]).code,
        66,
        "nothing is filed any more"
    );
    house.ok(&["drain"]);
    let last = house.ok(&["replay", "last"]);
    assert!(
        last.stdout.contains("succeeded (answered)") && last.stderr.is_empty(),
        "{}",
        last.stderr
    );
}

#[test]
fn a_letter_filed_after_the_last_run_is_mentioned_beside_it() {
    let house = GuestHouse::new();
    house.ok(&["ingest", "configs/demo/letter.eml"]);
    house.write("bob.eml", &stranger("2"));
    house.ok(&["ingest", "bob.eml"]);
    let last = house.ok(&["replay", "last"]);
    assert!(
        last.stdout.contains("persona concierge, trigger email"),
        "{}",
        last.stdout
    );
    let said = "after this run the letter from Bob <bob@stranger.example> to concierge about `Spare helmets` is filed";
    assert!(
        last.stderr.starts_with(said) && last.stderr.contains("\nhint: `attache runs answer "),
        "{}",
        last.stderr
    );
}

#[test]
fn a_letter_counts_as_addressed_when_ingest_names_a_recipient() {
    let house = GuestHouse::new();
    let letter = |to: &str| {
        format!(
            "From: anna@traveller.example\n{to}Subject: Room\nMessage-ID: <{}@traveller.example>\n\nRoom?\n",
            to.len()
        )
    };
    for (number, to) in ["", "To: other@elsewhere.example\n"].iter().enumerate() {
        let file = format!("{number}.eml");
        house.write(&file, &letter(to));
        let taken = house.json(&["ingest", "--to", "concierge@guesthouse.example", &file]);
        assert_eq!(taken[0]["copies"][0]["outcome"], "run", "{taken}");
    }
    // Who names nobody leaves it to the letter.
    house.write(
        "bcc.eml",
        &format!(
            "Delivered-To: concierge@guesthouse.example\n{}",
            letter("To: b@elsewhere.example\n")
        ),
    );
    let taken = house.json(&["ingest", "bcc.eml"]);
    assert_eq!(taken[0]["copies"][0]["rule"], "not_addressed", "{taken}");
}

#[test]
fn every_rule_has_words_and_a_remedy_that_names_the_letter() {
    for rule in judge::rule_names().chain([
        "rate_limited",
        "alternations",
        "unreadable",
        "bounce",
        "a_new_one",
    ]) {
        assert!(!filed::why(rule).is_empty(), "{rule}");
        assert!(
            filed::remedy(rule, "0199", None).contains("0199`"),
            "{rule}"
        );
    }
}

/// Mail of the persona itself that an import filed: nothing about it can be answered.
#[test]
fn no_remedy_is_offered_for_the_personas_own_mail() {
    let house = GuestHouse::new();
    let mail = |from: &str, to: &str, id: usize, more: &str| {
        format!(
            "From: {from}\nTo: {to}\nSubject: Bicycles {id}\nMessage-ID: <{id}@old.example>\n\
             Date: Thu, 20 Aug 2026 08:00:00 +0000\n{more}\nOld words.\n"
        )
    };
    let own = "concierge@guesthouse.example";
    std::fs::create_dir(house.path().join("archive")).expect("a folder");
    for id in 0..6 {
        let answered = format!("In-Reply-To: <{id}@old.example>\n");
        house.write(
            &format!("archive/{id}.eml"),
            &mail("bob@stranger.example", own, id, ""),
        );
        house.write(
            &format!("archive/r{id}.eml"),
            &mail(own, "bob@stranger.example", id + 100, &answered),
        );
    }
    house.ok(&["import", "archive", "--persona", "concierge"]);
    let (mut inbound, mut outbound) = (0, 0);
    for thread in house
        .json(&["threads", "list"])
        .as_array()
        .expect("threads")
    {
        let id = thread["id"].as_str().expect("an id");
        let shown = house.ok(&["threads", "show", id]).stdout;
        for letter in shown
            .split("\n\n")
            .filter(|part| part.contains("disposition"))
        {
            let has_remedy = letter.contains("attache runs answer");
            let is_outbound = letter.contains("  outbound  ");
            assert_eq!(has_remedy, !is_outbound, "{letter}");
            *if is_outbound {
                &mut outbound
            } else {
                &mut inbound
            } += 1;
        }
    }
    assert_eq!((inbound, outbound), (6, 6));
}
