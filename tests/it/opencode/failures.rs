//! What goes wrong, and what is left running when it does.

use super::server::{Cut, OpenCode, Play, When, context, info, play, request, running, updated};
use crate::app::cuts;
use attache::config::{AgentSettings, ProviderSettings, Tier};
use attache::domain::ErrorClass;
use attache::providers::{self, AgentSession, Event, FinishReason, Message, Phase, ToolServer};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use tokio_util::sync::CancellationToken;

fn new() -> AgentSession {
    AgentSession::New("0199aaaa-0000-7000-8000-000000000000".into())
}

async fn class_of(reply: (u16, Value)) -> ErrorClass {
    let server = OpenCode::start(Play {
        reply,
        ..Play::default()
    })
    .await;
    let events = play(server.provider().as_ref(), &request(new(), Tier::ReadOnly)).await;
    events
        .last()
        .expect("an end")
        .as_ref()
        .expect_err("a failure")
        .class
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_answer_cut_at_any_byte_is_an_error_and_never_an_answer() {
    let length = Play::default().reply.1.to_string().len();
    let at = |cut: usize, how: Cut| async move {
        let server = OpenCode::start(Play {
            reply_cut: Some((cut, how)),
            ..Play::default()
        })
        .await;
        let events = play(server.provider().as_ref(), &request(new(), Tier::ReadOnly)).await;
        (cut, events.into_iter().last().expect("an end"))
    };
    for how in [Cut::Silent, Cut::Closed] {
        for some in cuts(length, 7).chunks(32) {
            for (cut, end) in
                futures_util::future::join_all(some.iter().map(|cut| at(*cut, how))).await
            {
                let error = end.expect_err(&format!("{how:?} after {cut} of {length}"));
                let expected = [ErrorClass::Transient, ErrorClass::Protocol];
                assert!(
                    expected.contains(&error.class),
                    "{how:?} after {cut}: {error:?}"
                );
            }
        }
        let whole = at(length, how).await.1;
        assert!(
            matches!(whole, Ok(Event::Finished(_))),
            "{how:?}: {whole:?}"
        );
    }
}

#[tokio::test]
async fn errors_are_told_apart_by_their_names() {
    let reply = |name: &str, data: Value| {
        let mut info = info("msg_2");
        info["error"] = json!({ "name": name, "data": data });
        (200, json!({ "info": info, "parts": [] }))
    };
    let said = json!({ "message": "no" });
    for (name, data, class) in [
        ("ProviderAuthError", said.clone(), ErrorClass::Auth),
        (
            "ContextOverflowError",
            said.clone(),
            ErrorClass::ContextOverflow,
        ),
        (
            "APIError",
            json!({ "message": "slow", "statusCode": 429, "isRetryable": true }),
            ErrorClass::RateLimited,
        ),
        (
            "APIError",
            json!({ "message": "net", "isRetryable": true }),
            ErrorClass::Transient,
        ),
        ("MessageAbortedError", said.clone(), ErrorClass::Transient),
        ("UnknownError", said, ErrorClass::Protocol),
    ] {
        assert_eq!(class_of(reply(name, data)).await, class, "{name}");
    }
    for (status, class) in [
        (401, ErrorClass::Auth),
        (409, ErrorClass::SessionBusy),
        (500, ErrorClass::Transient),
    ] {
        assert_eq!(
            class_of((status, json!({ "name": "x" }))).await,
            class,
            "{status}"
        );
    }
    let cut = reply("MessageOutputLengthError", json!({}));
    let server = OpenCode::start(Play {
        reply: cut,
        ..Play::default()
    })
    .await;
    let events = play(server.provider().as_ref(), &request(new(), Tier::ReadOnly)).await;
    assert!(
        matches!(events.last(), Some(Ok(Event::Finished(response))) if response.stop == FinishReason::MaxTokens)
    );
}

#[tokio::test]
async fn a_session_that_is_gone_is_said_to_be_missing() {
    let server = OpenCode::start(Play::default()).await;
    let gone = AgentSession::Resume {
        id: "ses_gone".into(),
        used: None,
    };
    let events = play(server.provider().as_ref(), &request(gone, Tier::ReadOnly)).await;
    assert_eq!(
        events[0].as_ref().expect_err("gone").class,
        ErrorClass::SessionMissing
    );
}

#[tokio::test]
async fn a_cancelled_call_tells_the_server_to_stop() {
    let streams = vec![vec![updated(running("c1", "read"))]];
    let server = OpenCode::start(Play {
        streams,
        when: When::Never,
        ..Play::default()
    })
    .await;
    let provider = server.provider();
    let wire = provider
        .encode_request(&request(new(), Tier::ReadOnly))
        .expect("a body");
    let cancel = CancellationToken::new();
    let mut events = provider.stream(&wire, context(cancel.clone()));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::ObservedCall { .. }) => cancel.cancel(),
            Ok(_) => {}
            Err(error) => assert_eq!(error.class, ErrorClass::Cancelled),
        }
    }
    assert_eq!(server.bodies("POST /session/ses_1/abort").len(), 1);
}

#[tokio::test]
async fn a_model_without_its_provider_is_refused_before_sending() {
    let server = OpenCode::start(Play::default()).await;
    let mut wrong = request(new(), Tier::ReadOnly);
    wrong.model = "m1".into();
    let error = server
        .provider()
        .encode_request(&wrong)
        .expect_err("refused");
    assert_eq!(error.class, ErrorClass::BadRequest);
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_prompt_too_long_for_an_agent_is_refused_before_sending() {
    let server = OpenCode::start(Play::default()).await;
    let mut long = request(new(), Tier::ReadOnly);
    long.messages = vec![Message::user("x".repeat(33 * 1024 * 1024))];
    let error = server
        .provider()
        .encode_request(&long)
        .expect_err("refused");
    assert_eq!(
        (error.class, error.phase),
        (ErrorClass::RequestTooLarge, Phase::BeforeSend)
    );
}

#[tokio::test]
async fn a_server_started_for_the_call_has_a_password_and_our_tools() {
    let server = OpenCode::start(Play::default()).await;
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("opencode");
    let script = format!(
        "#!/bin/sh\necho \"$@\" > {0}/args\necho \"$OPENCODE_SERVER_PASSWORD\" > {0}/password\n\
         echo \"$OPENCODE_CONFIG_CONTENT\" > {0}/config\necho 'opencode server listening on {1}'\nexec /bin/sleep 600\n",
        folder.path().display(),
        server.url
    );
    std::fs::write(&program, script).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let binary = Some(program.display().to_string());
    let agent = AgentSettings {
        binary,
        ..AgentSettings::default()
    };
    let settings = ProviderSettings {
        agent,
        ..ProviderSettings::default()
    };
    let provider = providers::build("opencode", &settings).expect("an adapter");
    let mut asked = request(new(), Tier::ReadOnly);
    let args = vec!["mcp".to_owned(), "serve".to_owned()];
    let ours = ToolServer {
        name: "attache".into(),
        program: "/bin/attache".into(),
        args,
    };
    asked.agent.as_mut().expect("terms").tool_server = Some(ours);
    let events = play(provider.as_ref(), &asked).await;
    assert!(
        matches!(events.last(), Some(Ok(Event::Finished(_)))),
        "{events:?}"
    );
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("written");
    assert_eq!(read("args").trim(), "serve --hostname 127.0.0.1 --port 0");
    assert_eq!(read("password").trim().len(), 20);
    let config: Value = serde_json::from_str(&read("config")).expect("json");
    assert_eq!(
        config["mcp"]["attache"]["command"],
        json!(["/bin/attache", "mcp", "serve"])
    );
    assert!(!server.seen()[0].head.contains("hunter2"));
}
