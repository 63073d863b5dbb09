//! One byte changed, and the file that made the difference is named.

use super::workspace::{cause, correspond, house, meddle};
use crate::app::TestApp;
use attache::domain::RunId;

async fn lived() -> (TestApp, Vec<RunId>) {
    let app = house().start().await;
    let runs = correspond(&app).await;
    (app, runs)
}

#[tokio::test]
#[ignore = "second tier"]
async fn one_byte_of_what_was_kept_names_its_resolver() {
    let cases: &[(&str, &str, &str)] = &[
        (
            "UPDATE contents SET bytes = CAST('Nothing yes.' AS BLOB) WHERE bytes = CAST('Nothing new.' AS BLOB)",
            "active-memory",
            "personas/ada/active.md",
        ),
        (
            "UPDATE contents SET bytes = CAST('Ada answers lettere.' AS BLOB)
             WHERE bytes = CAST('Ada answers letters.' AS BLOB)",
            "persona",
            "personas/ada/PERSONA.md",
        ),
        (
            "UPDATE contents SET bytes = CAST(replace(CAST(bytes AS TEXT), 'Today', 'today') AS BLOB)
             WHERE CAST(bytes AS TEXT) LIKE 'You are {{%'",
            "load-file",
            "configs/prompts/system.md",
        ),
        (
            "UPDATE contents SET bytes = CAST('From seven to tin.' AS BLOB)
             WHERE CAST(bytes AS TEXT) LIKE 'From seven to ten.'",
            "knowledge",
            "all of knowledge, 2 files",
        ),
    ];
    for (sql, resolver, source) in cases {
        let (app, runs) = lived().await;
        assert_eq!(meddle(&app, sql).await, 1, "{sql}");
        let cause = cause(&app, &runs[0]).await.expect("a difference");
        assert_eq!(
            (cause.resolver.as_str(), cause.source.as_str()),
            (*resolver, *source),
            "{cause:?}"
        );
        assert!(
            cause.what.contains("was changed in the database"),
            "{cause:?}"
        );
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn one_byte_of_a_row_names_its_resolver() {
    let cases: &[(&str, &str)] = &[
        (
            "UPDATE messages SET text_body = replace(text_body, 'breakfast?', 'breakfasts')",
            "current-input",
        ),
        (
            "UPDATE messages SET subject = 'Breakfasts' WHERE direction = 'inbound'",
            "invocation-metadata",
        ),
    ];
    for (sql, resolver) in cases {
        let (app, runs) = lived().await;
        assert!(meddle(&app, sql).await > 0);
        let cause = cause(&app, &runs[0]).await.expect("a difference");
        assert_eq!(cause.resolver, *resolver, "{cause:?}");
    }
    // Of the past of a thread, for a run that came later in it.
    let cases: &[&str] = &[
        "UPDATE messages SET text_body = replace(text_body, 'when is tea', 'When is tea')",
        "UPDATE messages SET sender = 'Bub' WHERE text_body LIKE '%when is tea%'",
        "UPDATE thread_tool_events SET payload_json = replace(payload_json, 'seven', 'sEven')",
        "DELETE FROM thread_tool_events WHERE event_type = 'tool_result'",
    ];
    for sql in cases {
        let (app, runs) = lived().await;
        assert!(meddle(&app, sql).await > 0);
        let cause = cause(&app, runs.last().expect("a run"))
            .await
            .expect("a difference");
        assert_eq!(cause.resolver, "thread-history", "{sql}: {cause:?}");
    }
}

#[tokio::test]
async fn what_is_not_kept_any_more_is_said() {
    let (app, runs) = lived().await;
    meddle(
        &app,
        "DELETE FROM contents WHERE bytes = CAST('Nothing new.' AS BLOB)",
    )
    .await;
    let cause = cause(&app, &runs[0]).await.expect("a difference");
    assert_eq!(cause.resolver, "active-memory");
    assert!(cause.what.contains("is not kept any more"), "{cause:?}");
}
