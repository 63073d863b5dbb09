//! The forms in which mail systems report, each written for this test: what is read in them.

use super::{shape, shapes};
use attache::mime::{ParseLimits, read_report};
use serde_json::{Value, json};

const ID: &str = "our-own@engine.test";

#[test]
fn every_shape_is_read() {
    let shapes = shapes();
    assert!(shapes.len() >= 30, "only {} shapes", shapes.len());
    for (name, expected) in shapes {
        let eml = shape(&name, "ada+b.0f0f@engine.test", ID).replace('\n', "\r\n");
        let report = read_report(eml.as_bytes(), &ParseLimits::default());
        let report = report.unwrap_or_else(|| panic!("{name} is not read"));
        assert_eq!(report.recipients.len(), 1, "{name}: {report:?}");
        let found = &report.recipients[0];
        let read = json!({
            "action": found.action.as_str(), "reason": found.reason.as_str(), "status": found.status,
            "code": found.code, "hard": found.is_hard,
        });
        let of = |key: &str| expected[key].clone();
        let wanted = json!({
            "action": of("action"), "reason": of("reason"), "status": of("status"), "code": of("code"),
            "hard": of("hard"),
        });
        assert_eq!(read, wanted, "{name}: {found:?}");
        assert_eq!(
            found.address,
            expected["recipient"]
                .as_str()
                .unwrap_or("bob@guest.example"),
            "{name}"
        );
        assert_eq!(
            report.kind.as_str(),
            expected["kind"].as_str().unwrap_or("delivery_status"),
            "{name}"
        );
        assert_eq!(report.original_message_id.as_deref(), Some(ID), "{name}");
    }
}

#[test]
fn letters_of_people_are_no_reports() {
    let letters = [
        "From: Bob <bob@guest.example>\nSubject: Breakfast\n\nThe parcel could not be delivered to carol@guest.example.",
        "From: Bob <bob@guest.example>\nSubject: I am away\nAuto-Submitted: auto-replied\n\nWrite to carol@guest.example.",
        "From: no-reply@guest.example\nSubject: Your order 550\n\nIt goes to carol@guest.example tomorrow.",
        "From: postmaster@guest.example\nSubject: New rules\n\nPlease write to carol@guest.example from now on.",
        "no header at all",
        "",
    ];
    for letter in letters {
        let read = read_report(
            letter.replace('\n', "\r\n").as_bytes(),
            &ParseLimits::default(),
        );
        assert_eq!(read, None, "{letter}");
    }
}

#[test]
#[ignore = "second tier"]
fn a_hostile_report_is_bounded() {
    let many: String = (0..5_000)
        .map(|i| format!("Final-Recipient: rfc822; u{i}@b.test\nAction: failed\nStatus: 5.1.1\n\n"))
        .collect();
    let head = "From: MAILER-DAEMON@b.test\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; b.test\n\n";
    let report =
        read_report(format!("{head}{many}").as_bytes(), &ParseLimits::default()).expect("a report");
    assert!(
        (2..=200).contains(&report.recipients.len()),
        "{} recipients",
        report.recipients.len()
    );

    let long = format!(
        "{head}Final-Recipient: rfc822; a@b.test\nAction: failed\nDiagnostic-Code: smtp; {}\n",
        "550 x ".repeat(100_000)
    );
    let report = read_report(long.as_bytes(), &ParseLimits::default()).expect("a report");
    assert_eq!(report.recipients[0].diagnostic.chars().count(), 500);
    assert!(
        report.recipients[0]
            .diagnostic
            .chars()
            .all(|c| !c.is_control())
    );

    let prose: String = (0..20_000)
        .map(|i| format!("<u{i}@b.test>:\n550 no\n"))
        .collect();
    let bounce = format!("From: MAILER-DAEMON@b.test\nSubject: failure notice\n\n{prose}");
    let report = read_report(bounce.as_bytes(), &ParseLimits::default()).expect("a report");
    assert!(
        report.recipients.len() <= 100,
        "{} recipients",
        report.recipients.len()
    );
}

#[test]
#[ignore = "second tier"]
fn every_beginning_of_every_shape_is_read_without_a_panic() {
    for (name, _) in shapes() {
        let eml = shape(&name, "ada+b.0f0f@engine.test", ID);
        for end in (0..eml.len()).step_by(7) {
            let _any = read_report(&eml.as_bytes()[..end], &ParseLimits::default());
        }
    }
}

#[test]
fn expectations_name_files_and_files_have_expectations() {
    let mut files: Vec<String> = crate::corpora::files(&super::folder(), "eml")
        .iter()
        .map(|path| {
            path.file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let mut named: Vec<String> = shapes()
        .into_iter()
        .map(|(name, _): (String, Value)| name)
        .collect();
    files.sort();
    named.sort();
    assert_eq!(files, named);
}
