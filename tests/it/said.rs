//! What a model says, and what is mailed of it: letters, and nothing else.

mod honest;

use crate::app::{TestApp, proven_note as note};
use crate::archives::mbox;
use crate::corpora::corpus;
use attache::mime::{ParseLimits, parse};
use attache::runs::said::letter::{LastText, read};
use serde_json::{Value, json};

/// What became of a letter.
struct Said {
    app: TestApp,
    run: String,
}

/// A letter to a persona whose model says this, turn by turn; the last of it for ever.
async fn said(turns: &[Value]) -> Said {
    let mut all = turns.to_vec();
    all.resize(12, turns.last().cloned().unwrap_or_default());
    let app = TestApp::start(json!({ "turns": all })).await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    app.check().await;
    Said { app, run }
}

impl Said {
    /// Texts of the mails to people.
    fn mails(&self) -> Vec<String> {
        let mails = self.app.sent().into_iter();
        mails.map(|mail| mail.text.trim().to_owned()).collect()
    }

    /// State, end and error of the run.
    async fn end(&self) -> String {
        let (state, stop, class) = self.app.outcome(&self.run).await;
        format!(
            "{state} {} {}",
            stop.unwrap_or_default(),
            class.unwrap_or_default()
        )
    }

    /// Why its answer waits for the owner; empty: it does not.
    async fn draft(&self) -> String {
        let sql = "SELECT coalesce(group_concat(json_extract(reason_json, '$.code') || ': ' || json_extract(reason_json, '$.why')), '')
            FROM approvals WHERE run_id = $1";
        self.app
            .row(sql, &self.run)
            .await
            .remove(0)
            .unwrap_or_default()
    }

    async fn notices(&self) -> String {
        let sql =
            "SELECT coalesce(group_concat(kind || ' ' || summary), '') FROM notices WHERE $1 = $1";
        self.app.row(sql, "").await.remove(0).unwrap_or_default()
    }

    /// Every request, as text.
    async fn asked(&self) -> Vec<String> {
        let prompts = self.app.prompts(&self.run).await;
        prompts.iter().map(Value::to_string).collect()
    }
}

fn says(text: &str) -> Value {
    json!({ "say": text })
}

fn calls(tool: &str, args: &Value, words: &str) -> Value {
    json!({ "say": words, "call": [{ "tool": tool, "args": args }] })
}

const PAGE: &str = "knowledge/house.md";

#[tokio::test]
#[ignore = "second tier"]
async fn reasoning_in_the_text_is_neither_mailed_nor_sent_back() {
    for text in [
        "<think>They would pay double.</think>\n\nFrom seven.",
        "They would pay double.\n</think>\n\nFrom seven.",
        "<thinking>\nThey would pay double.\n</thinking>\nFrom seven.",
        "[THINK]They would pay double.[/THINK]From seven.",
        "◁think▷They would pay double.◁/think▷From seven.",
        "<|channel|>analysis<|message|>They would pay double.<|end|><|start|>assistant<|channel|>final<|message|>From seven.",
    ] {
        let said = said(&[says(text)]).await;
        assert_eq!(
            (said.mails(), said.end().await.as_str()),
            (vec!["From seven.".to_owned()], "succeeded answered "),
            "{text}"
        );
        let stored = said
            .app
            .row(
                "SELECT response_json FROM run_turns WHERE run_id = $1",
                &said.run,
            )
            .await;
        assert!(
            stored[0]
                .as_deref()
                .is_some_and(|json| json.contains("double")),
            "it is kept for a replay"
        );
        said.app
            .run_of(&note(
                "r@guest.example",
                "In-Reply-To: <q@guest.example>\n",
                "On Sundays, too?",
            ))
            .await;
        said.app.drain().await;
        let sql = "SELECT CAST(count(*) AS TEXT) FROM messages WHERE text_body LIKE '%double%' AND $1 = $1";
        assert_eq!(said.app.row(sql, "").await[0].as_deref(), Some("0"));
    }
    // A thought without an end is no answer.
    let said = said(&[says("<think>They would pay double. They would")]).await;
    assert_eq!(
        (said.mails().len(), said.end().await.as_str()),
        (0, "failed failed protocol")
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn calls_in_the_text_are_made_where_they_fit() {
    for text in [
        r#"{"name": "read_file", "arguments": {"path": "knowledge/house.md"}}"#,
        "One moment.\n\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"knowledge/house.md\"}}\n</tool_call>",
        "<function=read_file>\n<parameter=path>\nknowledge/house.md\n</parameter>\n</function>",
        "[TOOL_CALLS]read_file{\"path\": \"knowledge/house.md\"}",
    ] {
        let said = said(&[says(text), says("From seven.")]).await;
        assert_eq!(said.mails(), ["From seven."], "{text}");
        assert_eq!(
            said.app.trace(&said.run).await,
            ["call read_file", "ok read_file"],
            "{text}"
        );
    }
    // One that names no tool is asked for again, and never mailed.
    for text in [
        r#"{"name": "nope", "arguments": {}}"#,
        "<tool_call>\n{\"name\": \"read_f",
        "<function_calls><invoke name=\"nope\"></invoke></function_calls>",
    ] {
        let said = said(&[says(text), says("From seven.")]).await;
        assert_eq!(said.mails(), ["From seven."], "{text}");
        assert!(
            said.asked().await[1].contains("could not be read"),
            "{text}"
        );
    }
    let said = said(&[says(r#"{"name": "nope", "arguments": {}}"#)]).await;
    assert_eq!(said.mails().len(), 0);
    assert_eq!(
        said.draft().await,
        "no_letter: the answer is a call of a tool written as text"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_is_no_letter_goes_back_once_and_is_a_draft_then() {
    for (text, note, why) in [
        (
            r#"{"reply": "From seven."}"#,
            "is JSON",
            "the answer is JSON",
        ),
        (
            "From seven.\n\n[Your Name]",
            "a placeholder",
            "the answer has a placeholder that nobody filled in",
        ),
        (
            &"I am sorry. ".repeat(400),
            "over and over",
            "the answer says one sentence over and over",
        ),
        (
            "When is breakfast? When is breakfast? When is breakfast?",
            "",
            "",
        ),
    ] {
        let mended = said(&[says(text), says("From seven.")]).await;
        if why.is_empty() {
            assert_eq!(mended.mails(), [text], "three times is no fault");
            continue;
        }
        assert_eq!(
            (mended.mails(), mended.asked().await.len()),
            (vec!["From seven.".to_owned()], 2),
            "{note}"
        );
        assert!(mended.asked().await[1].contains(note), "{note}");
        let kept = said(&[says(text)]).await;
        assert_eq!(
            (
                kept.mails().len(),
                kept.asked().await.len(),
                kept.end().await.as_str()
            ),
            (0, 2, "succeeded answered "),
            "{note}"
        );
        assert_eq!(kept.draft().await, format!("no_letter: {why}"));
        assert!(
            kept.app.notices()[0].text.contains(why),
            "the owner reads why"
        );
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_end_without_a_word_is_asked_about_once_and_then_told() {
    let read = || calls("read_file", &json!({ "path": PAGE }), "");
    for nothing in ["", " \n", "(empty content)", "NO_REPLY", "\u{200b}", "."] {
        let mended = said(&[read(), says(nothing), says("From seven.")]).await;
        assert_eq!(mended.mails(), ["From seven."], "{nothing:?}");
        assert!(
            mended.asked().await[2].contains("without a word"),
            "{nothing:?}"
        );
        let silent = said(&[read(), says(nothing)]).await;
        assert_eq!(
            (silent.mails().len(), silent.end().await.as_str()),
            (0, "failed failed no_answer"),
            "{nothing:?}"
        );
        assert!(silent.notices().await.contains("run_failed"), "{nothing:?}");
    }
    // An operator who tries it again gets another answer.
    let tried = said(&[read(), says(""), says(""), says("From seven.")]).await;
    assert_eq!(tried.end().await, "failed failed no_answer");
    let run = attache::domain::RunId::new(&tried.run);
    tried
        .app
        .engine
        .store
        .retry_run(&run)
        .await
        .expect("queued again");
    tried.app.drain().await;
    tried.app.check().await;
    assert_eq!(
        (tried.mails(), tried.asked().await.len()),
        (vec!["From seven.".to_owned()], 4)
    );
    // Words beside a call say what it is to do, unless it only notes something down and did.
    let promised = said(&[
        calls(
            "read_file",
            &json!({ "path": "knowledge/none.md" }),
            "I am sending it now.",
        ),
        says(""),
    ])
    .await;
    assert_eq!(
        (promised.mails().len(), promised.end().await.as_str()),
        (0, "failed failed no_answer")
    );
    let noted = calls(
        "update_memory",
        &json!({ "append": "Bob asks about breakfast." }),
        "From seven.",
    );
    let noted = said(&[noted, says("")]).await;
    let trace = noted.app.trace(&noted.run).await;
    assert_eq!(noted.mails(), ["From seven."], "{trace:?}");
}

#[tokio::test]
async fn a_run_that_comes_to_a_bound_without_a_word_has_failed() {
    let said = said(&[calls("read_file", &json!({ "path": PAGE }), "")]).await;
    assert_eq!(
        (said.mails().len(), said.end().await.as_str()),
        (0, "failed limit_turns no_answer")
    );
    assert!(said.notices().await.contains("run_failed"));
    let trace = said.app.trace(&said.run).await;
    assert_eq!(
        &trace[..6],
        [
            "call read_file",
            "ok read_file",
            "call read_file",
            "ok read_file",
            "call read_file",
            "skipped read_file"
        ]
    );
    assert!(said.asked().await[3].contains("you have had this result twice"));
}

#[tokio::test]
async fn a_mail_by_a_tool_is_a_letter_too() {
    let sends = |body: &str| {
        let args = json!({ "to": "bob@guest.example", "subject": "Breakfast", "body": body });
        calls("send_email", &args, "")
    };
    let said = said(&[
        sends("Dear [Name], from seven."),
        sends("<think>He asks when.</think>Dear Bob, from seven."),
        sends("Subject: Breakfast\n\nDear Bob, from seven."),
        sends("Dear Bob, from seven."),
        says("Sent."),
    ])
    .await;
    assert_eq!(
        said.app.trace(&said.run).await,
        [
            "call send_email",
            "no_letter send_email",
            "call send_email",
            "no_letter send_email",
            "call send_email",
            "no_letter send_email",
            "call send_email",
            "ok send_email"
        ]
    );
    assert!(
        said.mails().contains(&"Dear Bob, from seven.".to_owned()),
        "{:?}",
        said.mails()
    );
}

#[test]
#[ignore = "second tier"]
fn what_people_write_is_a_letter() {
    let Some(folder) = corpus("list-debian") else {
        return;
    };
    let letters = mbox(&folder.join("list.mbox")).into_iter();
    let texts =
        letters.filter_map(|bytes| Some(parse(&bytes, &ParseLimits::default()).ok()?.fresh_text));
    // Below a greeting alone, or in the marks of a quotation, stood what its reader cut.
    let is_left = |text: &String| {
        let text = text.trim();
        text.contains(char::is_alphanumeric) && !(text.ends_with(',') && text.lines().count() == 1)
    };
    let texts: Vec<String> = texts.filter(is_left).collect();
    let is_letter = |text: &&String| read(text, "") == LastText::Letter(text.trim().to_owned());
    let wrong: Vec<&String> = texts.iter().filter(|text| !is_letter(text)).collect();
    println!(
        "{} of {} texts that people wrote are letters",
        texts.len() - wrong.len(),
        texts.len()
    );
    assert!(
        texts.len() > 500 && wrong.len() * 100 <= texts.len(),
        "{wrong:#?}"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_letter_that_needs_no_answer_gets_none() {
    let silent =
        |reason: &str, words: &str| calls("no_answer", &json!({ "reason": reason }), words);
    let said_so = said(&[silent("a thank-you", "You are welcome!")]).await;
    assert_eq!(
        (said_so.mails().len(), said_so.end().await.as_str()),
        (0, "succeeded no_answer ")
    );
    assert_eq!(
        (said_so.notices().await, said_so.draft().await),
        (String::new(), String::new())
    );
    assert_eq!(said_so.asked().await.len(), 1, "it is not asked again");
    assert!(said_so.app.notices().is_empty() && said_so.app.sent().is_empty());
    // A reason is needed, and what else the same answer calls is done.
    let after = said(&[
        silent(" ", ""),
        json!({ "call": [
            { "tool": "read_file", "args": { "path": PAGE } },
            { "tool": "no_answer", "args": { "reason": "a receipt" } },
        ] }),
    ])
    .await;
    assert_eq!(
        (after.mails().len(), after.end().await.as_str()),
        (0, "succeeded no_answer ")
    );
    let trace = after.app.trace(&after.run).await;
    assert_eq!(
        trace,
        [
            "call no_answer",
            "bad_reason no_answer",
            "call read_file",
            "ok read_file",
            "call no_answer",
            "ok no_answer"
        ]
    );
    // A mail that was written by a tool goes out.
    let mailed = said(&[
        json!({ "call": [{ "tool": "send_email", "args": { "to": ["bob@guest.example"], "subject": "x", "body": "From seven." } }] }),
        silent("it is answered", ""),
    ])
    .await;
    assert_eq!(
        (mailed.mails(), mailed.end().await.as_str()),
        (vec!["From seven.".to_owned()], "succeeded no_answer ")
    );
}
