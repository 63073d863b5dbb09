//! `send_email`: who may be written to, what is a reply, what may be attached; EX04 to EX06 and FS12 of the attack
//! battery.

use super::{RunDeps, address, answered};
use attache::domain::Address;
use attache::tools::{MailDraft, ToolError};
use serde_json::{Value, json};

async fn draft(run_deps: &RunDeps, args: Value) -> MailDraft {
    let outcome = run_deps
        .call("send_email", args)
        .await
        .expect("the call succeeds");
    assert_eq!(outcome.result["queued"], true);
    *outcome.mail.expect("a draft")
}

fn keys(list: &[Address]) -> Vec<String> {
    list.iter().map(Address::key).collect()
}

#[tokio::test]
async fn a_mail_to_the_sender_is_a_reply_and_keeps_its_subject() {
    let run_deps = RunDeps::new().await;
    let args = json!({"to": "Carol@Partner.test", "subject": "ignored", "body": "Yes."});
    let outcome = run_deps
        .call("send_email", args)
        .await
        .expect("the call succeeds");
    assert_eq!(
        outcome.result,
        json!({"queued": true, "reply": true, "to": ["Carol@partner.test"]})
    );
    let wanted = MailDraft {
        to: vec![address("Carol@partner.test")],
        body: "Yes.".into(),
        is_reply: true,
        ..MailDraft::default()
    };
    assert_eq!(outcome.mail, Some(Box::new(wanted)));
}

#[tokio::test]
async fn a_mail_to_others_is_new_unless_it_is_asked_to_be_a_reply() {
    let run_deps = RunDeps::new().await;
    let new = json!({"to": "desk@hotel.example", "subject": " Tonight ", "body": "x"});
    let mail = draft(&run_deps, new).await;
    assert_eq!((mail.is_reply, mail.subject.as_str()), (false, "Tonight"));
    let mail = draft(
        &run_deps,
        json!({"to": "dan@partner.test", "reply": true, "body": "x"}),
    )
    .await;
    assert_eq!((mail.is_reply, mail.subject.as_str()), (true, ""));
    let apart =
        json!({"to": "carol@partner.test", "reply": false, "subject": "Other", "body": "x"});
    assert!(!draft(&run_deps, apart).await.is_reply);
}

#[tokio::test]
async fn reply_to_counts_only_when_it_is_allowed() {
    let mut run_deps = RunDeps::new().await;
    let mut letter = answered("carol@partner.test");
    letter.reply_to = Some(address("cook@kitchen.example"));
    run_deps.mail.answers = Some(letter.clone());
    assert!(
        draft(
            &run_deps,
            json!({"to": "cook@kitchen.example", "body": "x"})
        )
        .await
        .is_reply
    );
    letter.reply_to = Some(address("mallory@evil.test"));
    run_deps.mail.answers = Some(letter);
    let (code, _) = run_deps
        .failure(
            "send_email",
            json!({"to": "mallory@evil.test", "body": "x"}),
        )
        .await;
    assert_eq!(code, "recipient_not_allowed");
}

#[tokio::test]
async fn lists_are_read_as_models_write_them_and_nobody_stands_twice() {
    let run_deps = RunDeps::new().await;
    let args = json!({
        "to": ["carol@partner.test; dan@partner.test", "CAROL@partner.test"],
        "cc": "dan@partner.test, owner@home.test",
        "bcc": ["chef@kitchen.example", " "],
        "body": "x",
    });
    let mail = draft(&run_deps, args).await;
    assert_eq!(keys(&mail.to), ["carol@partner.test", "dan@partner.test"]);
    assert_eq!(keys(&mail.cc), ["owner@home.test"]);
    assert_eq!(keys(&mail.bcc), ["chef@kitchen.example"]);
}

#[tokio::test]
async fn who_is_not_allowed_is_refused_everywhere_naming_no_outsiders() {
    let run_deps = RunDeps::new().await;
    for field in ["to", "cc", "bcc"] {
        let mut args = json!({"to": "owner@home.test", "body": "x", "subject": "x"});
        args[field] = json!(["mallory@evil.test"]);
        let (code, message) = run_deps.failure("send_email", args).await;
        assert_eq!(code, "recipient_not_allowed", "{field}");
        assert!(message.contains("`mallory@evil.test`"), "{message}");
        assert!(
            message.contains("(carol@partner.test, dan@partner.test)"),
            "{message}"
        );
        for secret in ["owner@home.test", "hotel.example", "kitchen.example"] {
            assert!(!message.contains(secret), "{message}");
        }
    }
    let (code, _) = run_deps
        .failure(
            "send_email",
            json!({"to": "ada+x@engine.test", "body": "x"}),
        )
        .await;
    assert_eq!(code, "recipient_is_self");
}

#[tokio::test]
async fn address_tricks_never_reach_an_allow_list() {
    let run_deps = RunDeps::new().await;
    let no_address = [
        "owner@home.test\r\nBcc: mallory@evil.test",
        "owner@home.test\nBcc: mallory@evil.test",
        "owner@home.test\r",
        "\nowner@home.test",
        "owner@home.test\0",
        "owner\0@home.test",
        "owner@home.test\u{b}",
        "owner@home.test%0d%0aBcc:mallory@evil.test",
        "owner@home.test,\r\nmallory@evil.test",
        "owner@home.test\u{2028}Bcc: mallory@evil.test",
        "=?utf-8?q?mallory=40evil.test=3e?=@home.test@x",
        "=?utf-8?q?mallory@evil.test?=",
        "\"owner\"@home.test",
        "owner@home.test.",
        "owner@HOME.test.",
        "<owner@home.test>",
        "Owner <owner@home.test>",
        "owner(x)@home.test",
        "@evil.test:owner@home.test",
        "mallory@evil.test:owner@home.test",
        "owner＠home.test",
        "owner@hоme.test",
        "öwner@home.test",
        "owner@[127.0.0.1]",
        "group:owner@home.test;",
        "owner@home..test",
        "owner @home.test",
        "owner@home.test mallory@evil.test",
    ];
    for text in no_address {
        for to in [json!(text), json!([text])] {
            let args = json!({"to": to, "subject": "x", "body": "x"});
            let (code, message) = run_deps.failure("send_email", args).await;
            assert_eq!(code, "bad_address", "{text:?}: {message}");
            assert!(!message.chars().any(char::is_control), "{message:?}");
        }
    }
    let not_allowed = [
        "\"a b\"@home.test",
        "owner@home.test.evil.test",
        "owner@xn--hme-ula.test",
        "owner+x@home.test",
        "owner@sub.home.test",
        "cook@kitchen.example.evil.test",
        "cook@evilkitchen.example",
        "=?utf-8?q?mallory=40evil.test=3e?=@home.test",
        "carol%partner.test@evil.test",
    ];
    for text in not_allowed {
        let (code, message) = run_deps
            .failure(
                "send_email",
                json!({"to": text, "subject": "x", "body": "x"}),
            )
            .await;
        assert_eq!(code, "recipient_not_allowed", "{text:?}: {message}");
    }
}

#[tokio::test]
async fn subject_and_body_are_checked_before_anything_is_queued() {
    let run_deps = RunDeps::new().await;
    let mail = |subject: &str, body: &str| json!({"to": "dan@partner.test", "subject": subject, "body": body});
    for subject in [
        "a\r\nBcc: mallory@evil.test",
        "a\nb",
        "a\rb",
        "a\0b",
        "a\u{85}b",
        "a\u{7f}",
    ] {
        assert_eq!(
            run_deps.failure("send_email", mail(subject, "x")).await.0,
            "bad_subject",
            "{subject:?}"
        );
    }
    assert_eq!(
        run_deps
            .failure("send_email", mail(&"x".repeat(301), "x"))
            .await
            .0,
        "bad_subject"
    );
    assert_eq!(
        run_deps.failure("send_email", mail("  ", "x")).await.0,
        "subject_missing"
    );
    assert_eq!(
        run_deps.failure("send_email", mail("x", " \n ")).await.0,
        "body_missing"
    );
    assert_eq!(
        run_deps.failure("send_email", mail("x", "a\0b")).await.0,
        "bad_body"
    );
    assert_eq!(
        run_deps
            .failure("send_email", mail("x", &"x".repeat(256 * 1024 + 1)))
            .await
            .0,
        "body_too_large"
    );
    assert_eq!(
        run_deps
            .failure("send_email", json!({"to": " , ", "body": "x"}))
            .await
            .0,
        "recipient_missing"
    );
    let crowd: Vec<String> = (0..51)
        .map(|n| format!("cook{n}@kitchen.example"))
        .collect();
    let to_crowd = json!({"to": crowd, "subject": "x", "body": "x"});
    assert_eq!(
        run_deps.failure("send_email", to_crowd).await.0,
        "too_many_recipients"
    );
}

#[tokio::test]
async fn a_run_sends_only_so_many_mails_and_none_without_a_transport() {
    let mut run_deps = RunDeps::new().await;
    let args = json!({"to": "carol@partner.test", "body": "x"});
    run_deps.mail.mails_sent = 3;
    let (code, message) = run_deps.failure("send_email", args.clone()).await;
    assert_eq!(code, "mail_limit_reached");
    assert!(message.contains("at most 3"), "{message}");
    run_deps.mail.outbound_configured = false;
    let outcome = run_deps.call("send_email", args).await;
    assert!(
        matches!(outcome, Err(ToolError::OutboundNotConfigured)),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_schedule_answers_nobody_but_may_write_to_its_owner() {
    let mut run_deps = RunDeps::new().await;
    run_deps.mail.answers = None;
    run_deps.mail.participants.clear();
    let args = json!({"to": "owner@home.test", "body": "x", "reply": true});
    assert_eq!(
        run_deps.failure("send_email", args).await.0,
        "nothing_to_answer"
    );
    let mail = draft(
        &run_deps,
        json!({"to": "owner@home.test", "subject": "Digest", "body": "x"}),
    )
    .await;
    assert!(!mail.is_reply);
    let (_, message) = run_deps
        .failure(
            "send_email",
            json!({"to": "carol@partner.test", "subject": "x", "body": "x"}),
        )
        .await;
    assert!(message.contains("(nobody)"), "{message}");
}

#[tokio::test]
async fn files_of_the_folder_are_attached_with_name_and_type() {
    let run_deps = RunDeps::new().await;
    run_deps.write("knowledge/menu.csv", "soup,7\n");
    run_deps.write("plan.bin", [0, 1, 2]);
    let paths = json!(["knowledge/menu.csv", "plan.bin", "./knowledge/../plan.bin"]);
    let args = json!({"to": "carol@partner.test", "body": "x", "attachments": paths});
    let outcome = run_deps
        .call("send_email", args)
        .await
        .expect("the call succeeds");
    let listed = json!([{"name": "menu.csv", "bytes": 7}, {"name": "plan.bin", "bytes": 3}]);
    assert_eq!(outcome.result["attachments"], listed);
    let attached = outcome.mail.expect("a draft").attachments;
    let seen: Vec<_> = attached
        .iter()
        .map(|a| {
            (
                a.filename.as_str(),
                a.content_type.as_str(),
                a.bytes.as_slice(),
            )
        })
        .collect();
    let wanted = [
        ("menu.csv", "text/csv", b"soup,7\n".as_slice()),
        ("plan.bin", "application/octet-stream", [0, 1, 2].as_slice()),
    ];
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn nothing_outside_the_folder_and_no_configuration_is_attached() {
    let run_deps = RunDeps::new().await;
    let outside = run_deps.outside("K_FILE");
    std::fs::write(&outside, "canary").expect("a file");
    run_deps.write("persona.json", "{}");
    run_deps.write(".secrets", "KEY=1");
    run_deps.write(".memory/active-1.md", "old");
    run_deps.write("large.bin", vec![0; 16 * 1024 + 1]);
    run_deps.write("bad\nname.md", "x");
    std::os::unix::fs::symlink(&outside, run_deps.path("link")).expect("a link");
    std::os::unix::fs::symlink("persona.json", run_deps.path("innocent.json")).expect("a link");
    std::os::unix::fs::symlink(".secrets", run_deps.path("innocent.txt")).expect("a link");
    std::fs::hard_link(run_deps.path("persona.json"), run_deps.path("notes.json"))
        .expect("a hard link");
    let refused = [
        ("../../K_FILE", "path_not_allowed"),
        (outside.to_str().expect("UTF-8"), "path_not_allowed"),
        ("link", "path_not_allowed"),
        ("../../data/attache.db", "path_not_allowed"),
        ("/etc/passwd", "path_not_allowed"),
        ("a\0b", "path_not_allowed"),
        ("persona.json", "attachment_not_allowed"),
        ("./knowledge/../persona.json", "attachment_not_allowed"),
        ("innocent.json", "attachment_not_allowed"),
        ("notes.json", "attachment_not_allowed"),
        (".secrets", "attachment_not_allowed"),
        ("innocent.txt", "attachment_not_allowed"),
        (".memory/active-1.md", "attachment_not_allowed"),
        ("bad\nname.md", "attachment_not_allowed"),
        ("large.bin", "attachment_too_large"),
        ("knowledge", "not_a_file"),
        ("missing.md", "file_not_found"),
    ];
    for (path, wanted) in refused {
        let args = json!({"to": "carol@partner.test", "body": "x", "attachments": [path]});
        let (code, message) = run_deps.failure("send_email", args).await;
        assert_eq!(code, wanted, "{path:?}: {message}");
        assert!(!message.contains("canary"));
    }
}

#[tokio::test]
async fn attachments_are_bounded_together() {
    let run_deps = RunDeps::new().await;
    run_deps.write("a.bin", vec![0; 12 * 1024]);
    run_deps.write("b.bin", vec![0; 12 * 1024]);
    let mail =
        |paths: Value| json!({"to": "carol@partner.test", "body": "x", "attachments": paths});
    assert_eq!(
        draft(&run_deps, mail(json!("a.bin")))
            .await
            .attachments
            .len(),
        1
    );
    let (code, message) = run_deps
        .failure("send_email", mail(json!(["a.bin", "b.bin"])))
        .await;
    assert_eq!(code, "attachments_too_large");
    assert!(message.contains("20480"), "{message}");
    let many = json!(vec!["a.bin"; 21]);
    assert_eq!(
        run_deps.failure("send_email", mail(many)).await.0,
        "too_many_attachments"
    );
}
