//! Texts that an index might take for syntax.

use super::*;

#[test]
#[ignore = "second tier"]
fn no_text_is_a_syntax_error() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let run_deps = runtime.block_on(run_deps());
    let operators = prop::collection::vec(
        prop::sample::select(vec![
            "\"", "'", "(", ")", "*", "^", "-", "+", ":", "{", "}", "NEAR", "NEAR(", "AND", "OR",
            "NOT", "subject", "sender :", "a", "ö", "\0", "\u{1}", ",", " ", "\u{301}", "½",
            "日本", "%", ";--",
        ]),
        0..12,
    )
    .prop_map(|pieces| pieces.concat());
    let text = prop_oneof![operators, any::<String>()];
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 1500,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&(text.clone(), prop::option::of(text)), |(query, from)| {
        let search = MessageSearch {
            query: Some(query.clone()),
            subject: from.clone(),
            from,
            limit: 5,
            ..MessageSearch::default()
        };
        let found = runtime.block_on(run_deps.persona.search_messages(&search));
        prop_assert!(found.is_ok(), "{found:?}");
        let terms: Vec<String> = query.split(' ').map(str::to_owned).collect();
        let found = runtime.block_on(run_deps.persona.search_knowledge(&terms, 5));
        prop_assert!(found.is_ok(), "{found:?}");
        Ok(())
    });
    assert_eq!(outcome, Ok(()));
}
