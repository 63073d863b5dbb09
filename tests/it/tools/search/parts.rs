//! Words of scripts without blanks, and parts of codes.

use super::*;
use crate::app::db;
use crate::tools::address;

const LETTERS: [(&str, &str, &str); 6] = [
    (
        "zh",
        "王小明 <wang@partner.test>",
        "你好，请查收附件中的发票号码，谢谢。",
    ),
    (
        "ja",
        "田中太郎 <tanaka@partner.test>",
        "来週の会議は東京タワーの近くで開かれます。",
    ),
    (
        "ko",
        "Kim <kim@partner.test>",
        "다음 주 회의는 서울에서 열립니다.",
    ),
    (
        "inv",
        "Carol <carol@partner.test>",
        "We have paid invoice INV-2026/0042 today.",
    ),
    (
        "inv2",
        "Carol <carol@partner.test>",
        "We have paid invoice INV-2026/0043 today.",
    ),
    (
        "part",
        "Dan <dan@partner.test>",
        "The pump takes seal 4711AB, see the list.",
    ),
];

async fn with_letters() -> RunDeps {
    let mut run_deps = run_deps().await;
    let mut conn = connection(&run_deps).await;
    for (id, sender, body) in LETTERS {
        let seed = Seed {
            sender,
            subject: "",
            body,
            day: 9,
            ..SUPPER
        };
        message(&mut conn, "ada", id, seed).await;
    }
    index(&run_deps.store).await;
    as_owner(&mut run_deps);
    run_deps
}

#[tokio::test]
async fn words_within_a_run_and_parts_of_codes_are_found() {
    let run_deps = with_letters().await;
    for (query, wanted) in [
        ("发票", "zh"),
        ("发票号码", "zh"),
        ("東京タワー", "ja"),
        ("会議", "ja"),
        ("서울", "ko"),
        ("회의", "ko"),
        ("INV-2026/0042", "inv"),
        ("2026/0042", "inv"),
        ("INV20260042", "inv"),
        ("0043", "inv2"),
        ("4711", "part"),
        ("711ab", "part"),
    ] {
        assert_eq!(
            ids(&run_deps, json!({ "query": query })).await,
            [wanted],
            "{query}"
        );
    }
    for query in ["號碼", "大阪", "INV-2026/0044", "4712AB", "711ac"] {
        let none: [String; 0] = [];
        assert_eq!(
            ids(&run_deps, json!({ "query": query })).await,
            none,
            "{query}"
        );
    }
}

#[tokio::test]
async fn filters_hold_for_parts_too() {
    let run_deps = with_letters().await;
    let both = json!({ "query": "4711", "from": "dan" });
    assert_eq!(ids(&run_deps, both).await, ["part"]);
    let other = json!({ "query": "4711", "from": "carol" });
    assert!(ids(&run_deps, other).await.is_empty());
    let from = json!({ "from": "田中" });
    assert_eq!(
        ids(&run_deps, from).await,
        ["ja"],
        "a family name comes first"
    );
    // For a correspondent who is in no thread with such letters.
    let search = MessageSearch {
        query: Some("4711".to_owned()),
        visible_to: Some(vec![address("eve@partner.test")]),
        limit: 5,
        ..MessageSearch::default()
    };
    let found = run_deps.persona.search_messages(&search).await;
    assert_eq!(found.expect("a search"), []);
    let carol = MessageSearch {
        visible_to: Some(vec![address("carol@partner.test")]),
        ..search
    };
    let found = run_deps
        .persona
        .search_messages(&carol)
        .await
        .expect("a search");
    assert_eq!(found.len(), 1, "{found:?}");
}

#[tokio::test]
async fn parts_follow_the_letter_and_go_with_it() {
    let run_deps = with_letters().await;
    let mut conn = connection(&run_deps).await;
    let held = conn.on(
        "SELECT count(*) FROM letter_parts_data WHERE instr(block, CAST('4711ab' AS BLOB)) > 0",
        "SELECT count(*) FROM letter_parts WHERE words @@ CAST('4711ab' AS TSQUERY)",
    );
    let count: i64 = db::query_scalar(held)
        .fetch_one(&mut conn)
        .await
        .expect("a number");
    assert_eq!(count, 1, "the control: the bytes are there");
    let change = "UPDATE messages SET text_body = 'Seal 9900XY.' WHERE id = 'part'; DELETE FROM messages WHERE id = 'zh'";
    db::raw_sql(change)
        .execute(&mut conn)
        .await
        .expect("changed");
    index(&run_deps.store).await;
    assert_eq!(ids(&run_deps, json!({ "query": "9900" })).await, ["part"]);
    for query in ["4711", "发票"] {
        assert!(
            ids(&run_deps, json!({ "query": query })).await.is_empty(),
            "{query}"
        );
    }
    let count: i64 = db::query_scalar(held)
        .fetch_one(&mut conn)
        .await
        .expect("a number");
    assert_eq!(count, 0);
    // Of PostgreSQL: no letter waits for its words.
    let check = conn.on(
        "INSERT INTO letter_parts (letter_parts, rank) VALUES ('integrity-check', 1)",
        "SELECT 1 / (CASE WHEN EXISTS (SELECT 1 FROM letter_words WHERE words IS NULL) THEN 0 ELSE 1 END)",
    );
    db::query(check)
        .execute(&mut conn)
        .await
        .expect("the same parts");
}

/// More than a text of PostgreSQL's index may have: what is beyond is not found, and nothing is refused.
#[tokio::test]
async fn a_letter_with_many_words_is_found_by_its_first() {
    let run_deps = with_letters().await;
    let mut conn = connection(&run_deps).await;
    let body: String = (0..250_000).map(|n| format!("q{n:06}x ")).collect();
    let seed = Seed {
        sender: "Erin <erin@partner.test>",
        subject: "Numbers",
        body: &body,
        day: 9,
        ..SUPPER
    };
    message(&mut conn, "ada", "long", seed).await;
    index(&run_deps.store).await;
    for query in ["q000007x", "Numbers", "erin@partner.test"] {
        let found = ids(&run_deps, json!({ "query": query })).await;
        assert_eq!(found, ["long"], "{query}");
    }
    // The next letter is indexed, too.
    let next = Seed {
        body: "A quagga came by.",
        day: 10,
        ..SUPPER
    };
    message(&mut conn, "ada", "next", next).await;
    index(&run_deps.store).await;
    let found = ids(&run_deps, json!({ "query": "quagga" })).await;
    assert_eq!(found, ["next"]);
}
