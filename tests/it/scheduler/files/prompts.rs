//! Prompts: what they know, and what bounds them.

use super::*;

#[tokio::test]
async fn a_prompt_knows_its_time_slot_last_run_and_persona() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    let persona = world.personas.iter().next().expect("a persona");
    let facts = PromptVariables {
        now: at("2026-03-29T07:00:01Z"),
        slot: at("2026-03-29T07:00:00Z"),
        last_run: Some(at("2026-03-28T08:00:00Z")),
        zone: chrono_tz::Europe::Berlin,
        persona,
        letters: &[],
    };
    let body = "{{ now }} {{ slot[:10] }} {{ last_run }} {{ persona.id }} {{ persona.name | upper }} {{ persona.address }}";
    let rendered = render(body, &facts);
    let expected =
        "2026-03-29T09:00:01+02:00 2026-03-29 2026-03-28T09:00:00+01:00 ada ADA ada@engine.test";
    assert_eq!(rendered, Ok(expected.to_owned()));
    let first = PromptVariables {
        last_run: None,
        ..facts
    };
    let body = "{% if last_run %}again{% else %}first{% endif %}";
    assert_eq!(render(body, &first), Ok("first".to_owned()));
}

#[test]
fn a_prompt_that_can_never_be_rendered_is_refused_with_its_line() {
    let cases = [
        ("ok\n{{ nwo }}", Some(2), "unknown name `nwo`"),
        ("{{ persona.mail }}", Some(1), "unknown name `persona.mail`"),
        ("one\ntwo {% if now %}", Some(2), "cannot be rendered"),
        (
            "{% set x = 'a' ~ 'a' %}",
            Some(1),
            "statement `set` is not offered",
        ),
        (
            "\n\n{%- macro m() %}{% endmacro %}",
            Some(3),
            "statement `macro` is not offered",
        ),
        (
            "{% include 'x' %}",
            Some(1),
            "statement `include` is not offered",
        ),
        ("{{ range(9) }}", Some(1), "unknown name `range`"),
    ];
    for (body, line, says) in cases {
        let error = check(body).expect_err(body);
        assert!(error.problem.contains(says), "{body}: {error}");
        assert_eq!(error.line, line, "{body}: {error}");
    }
    assert_eq!(
        check("{# a note #}{{ now }} 100 % {{ persona.name | default('x') }}"),
        Ok(())
    );
}

#[tokio::test]
async fn a_prompt_cannot_grow_without_bound() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    let persona = world.personas.iter().next().expect("a persona");
    let (now, zone) = (world.now(), chrono_tz::UTC);
    let facts = PromptVariables {
        now,
        slot: now,
        last_run: None,
        zone,
        persona,
        letters: &[],
    };
    for body in [
        "{{ 'x' * 2000000000 }}",
        "{{ 'x' * 1000000 }}",
        "{{ 'a' | replace('a', 'aaaa') }}",
    ] {
        assert!(render(body, &facts).is_err(), "{body} was rendered");
    }
}

/// On a stack as small as that of the engine's workers.
fn checked(body: String) -> Result<(), String> {
    let work = move || check(&body).map_err(|error| error.to_string());
    let thread = std::thread::Builder::new()
        .stack_size(1024 * 1024)
        .spawn(work)
        .expect("a thread");
    thread.join().expect("it does not panic")
}

#[test]
fn code_that_could_grow_unbounded_or_exhaust_a_stack_is_refused() {
    let doubling = |inner: &str| {
        format!(
            "{{% for a in [\"xx\"] %}}{}{{{{ a|length }}}}{}",
            format!("{{% for a in {inner} %}}").repeat(30),
            "{% endfor %}".repeat(31)
        )
    };
    let cases = [
        (
            format!("{{% if {} 1 %}}x{{% endif %}}", "-".repeat(2500)),
            "longer than 500 bytes",
        ),
        (
            format!("{{{{ {}1 }}}}", "-".repeat(4000)),
            "longer than 500 bytes",
        ),
        (
            format!("{{{{ {}1 }}}}", "not ".repeat(400)),
            "longer than 500 bytes",
        ),
        ("{{ [1]*100000000 }}".to_owned(), "`*` is not offered"),
        ("{{ \"}}\" ~ inbox() }}".to_owned(), "`~` is not offered"),
        ("{{ {1: 2} }}".to_owned(), "`{` is not offered"),
        ("{{ now + now }}".to_owned(), "`+` is not offered"),
        (doubling("[a~a]"), "`a` stands in brackets"),
        (doubling("[a, a]"), "`a` stands in brackets"),
        (doubling("[[a, a]]"), "`a` stands in brackets"),
        (doubling("(a, a)"), "`,` is not offered"),
        (
            "{% if 1 %}{% elif 1 %}{% endif %}".repeat(200),
            "at most 500",
        ),
        (
            "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_owned(),
            "`recursive` is not offered",
        ),
        (
            "{{ now|replace(\"a\", \"b\") }}".to_owned(),
            "no filter `replace`",
        ),
        (
            "{% if last_run is not defined %}x{% endif %}".to_owned(),
            "no test `defined`",
        ),
    ];
    for (body, says) in cases {
        let refusal = checked(body.clone()).expect_err(&body[..body.len().min(60)]);
        assert!(
            refusal.contains(says),
            "{}: {refusal}",
            &body[..body.len().min(60)]
        );
    }
    let good = [
        "{% for l in inbox(since=\"24h\") %}{{ loop.index - 1 }} {{ l.subject|default(\"none: at all, + * ~\") }}{% endfor %}",
        "{%- if last_run is not none -%}{{ last_run|lower }}{%- endif -%} {# * ~ #} {% raw %}{{ a * b ~ c }}{% endraw %} a * b",
        "{% for n in [1, 2, \"three\"] %}{{ n }}{% endfor %} {{ slot[:10] }}{{ inbox()[0].subject if inbox()|length > 0 else \"-\" }}",
    ];
    for body in good {
        assert_eq!(checked(body.to_owned()), Ok(()), "{body}");
    }
}
