//! What is done about a failed call: every class, in every phase, at the first and at the last try, with and without
//! somebody to fall back to, before and after an agent has acted.

use RetryDecision::{Downgrade, Fail, Fallback, Lengthen, Reschedule, RetryNow, TrimAndRetry};
use attache::domain::ErrorClass;
use attache::providers::contract::retry::longer_output_tokens;
use attache::providers::{
    Parameter, Phase, PriorAttempts, ProviderError, RetryDecision, RetryLimits, Size,
    retry_decision,
};
use std::time::Duration;

const HIGHEST: u64 = u64::MAX;
const TRIES_MAX: u32 = 4;
const PHASES: [Phase; 4] = [
    Phase::Config,
    Phase::BeforeSend,
    Phase::BeforeFirstByte,
    Phase::MidStream,
];

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn patience() -> RetryLimits {
    RetryLimits {
        attempts_max: TRIES_MAX,
        inline_wait_max: secs(45),
        left: secs(600),
        fallback_on_refusal: false,
        jitter_seed: HIGHEST,
    }
}

fn failed(class: ErrorClass) -> ProviderError {
    ProviderError::new(class, Phase::BeforeFirstByte, "x")
}

fn size() -> Size {
    Size {
        used_tokens: 10_000,
        max_output_tokens: 1000,
        ..Size::default()
    }
}

fn tried(calls: u32, has_fallback: bool) -> PriorAttempts<'static> {
    PriorAttempts {
        calls,
        has_fallback,
        ..PriorAttempts::default()
    }
}

fn decide(error: &ProviderError, calls: u32) -> RetryDecision {
    retry_decision(error, tried(calls, false), patience(), size())
}

/// At the first try; at the last try alone; at the last try with a fallback.
fn expected(class: ErrorClass) -> [RetryDecision; 3] {
    use ErrorClass as C;
    let later = Reschedule(secs(30));
    match class {
        C::RateLimited => [RetryNow(secs(2)), later, Fallback],
        C::Overloaded | C::Transient | C::Timeout => [RetryNow(secs(1)), later, Fallback],
        // What cannot be understood twice is not understood by waiting.
        C::Protocol => [RetryNow(secs(1)), Fail, Fallback],
        C::Store => [RetryNow(secs(1)), later, later],
        C::ContextOverflow | C::RequestTooLarge => {
            [TrimAndRetry {
                target_tokens: 7000,
            }; 3]
        }
        C::Auth
        | C::Billing
        | C::Permission
        | C::ModelNotFound
        | C::BinaryMissing
        | C::Unsupported
        | C::OutputLimit => [Fail, Fail, Fallback],
        _ => [Fail; 3],
    }
}

#[test]
fn every_class_in_every_phase_has_its_decision() {
    for (class, phase) in ErrorClass::ALL
        .iter()
        .flat_map(|class| PHASES.map(|phase| (*class, phase)))
    {
        let error = ProviderError {
            phase,
            ..failed(class)
        };
        let at = |calls, has_fallback| {
            retry_decision(&error, tried(calls, has_fallback), patience(), size())
        };
        let [first, last, elsewhere] = expected(class);
        // What the configuration lacks is not mended by waiting.
        let waits =
            |decision| matches!(decision, RetryNow(_) | Reschedule(_)) && phase == Phase::Config;
        let stays = |decision| if waits(decision) { Fail } else { decision };
        assert_eq!(at(TRIES_MAX, false), stays(last), "{class} {phase:?}");
        assert_eq!(at(TRIES_MAX, true), stays(elsewhere), "{class} {phase:?}");
        assert_eq!(at(1, false), stays(first), "{class} {phase:?}");
        let first_with_fallback = match stays(first) {
            Fail => elsewhere,
            decided => decided,
        };
        assert_eq!(at(1, true), stays(first_with_fallback), "{class} {phase:?}");
        for (calls, has_fallback) in [(1, false), (1, true), (TRIES_MAX, false), (TRIES_MAX, true)]
        {
            let acted = ProviderError {
                acted: true,
                should_retry: Some(true),
                ..error.clone()
            };
            let decided = retry_decision(&acted, tried(calls, has_fallback), patience(), size());
            assert_eq!(
                decided, Fail,
                "{class} {phase:?}: an agent acted, so a person decides"
            );
        }
    }
}

#[test]
fn waits_double_up_to_the_cap_with_full_jitter() {
    for (calls, expected) in [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (40, 30), (90, 30)] {
        let at = |jitter_seed| {
            let patience = RetryLimits {
                attempts_max: 99,
                jitter_seed,
                ..patience()
            };
            retry_decision(
                &failed(ErrorClass::Transient),
                tried(calls, false),
                patience,
                size(),
            )
        };
        assert_eq!(at(HIGHEST), RetryNow(secs(expected)), "try {calls}");
        assert_eq!(at(0), RetryNow(Duration::ZERO), "try {calls}");
    }
}

#[test]
fn the_providers_wait_decides_between_now_elsewhere_and_later() {
    let limited = |asked| ProviderError {
        retry_after: Some(asked),
        ..failed(ErrorClass::RateLimited)
    };
    let calm = RetryLimits {
        jitter_seed: 0,
        ..patience()
    };
    let at =
        |asked, has_fallback| retry_decision(&limited(asked), tried(1, has_fallback), calm, size());
    assert_eq!(at(secs(10), false), RetryNow(secs(10)));
    assert_eq!(
        at(secs(10), true),
        RetryNow(secs(10)),
        "a short wait is cheaper than another model"
    );
    assert_eq!(
        decide(&limited(secs(10)), 1),
        RetryNow(secs(11)),
        "up to a second of spread"
    );
    assert_eq!(
        at(secs(90), false),
        Reschedule(secs(90)),
        "longer than a worker is held for"
    );
    assert_eq!(at(secs(3600), false), Reschedule(secs(3600)));
    assert_eq!(at(secs(3600), true), Fallback);
    assert_eq!(at(Duration::MAX, false), Reschedule(secs(24 * 3600)));
}

#[test]
fn no_wait_within_a_run_passes_the_end_of_its_time() {
    let error = failed(ErrorClass::Overloaded);
    let at = |left, has_fallback| {
        let patience = RetryLimits { left, ..patience() };
        retry_decision(&error, tried(2, has_fallback), patience, size())
    };
    assert_eq!(at(secs(3), false), RetryNow(secs(2)));
    assert_eq!(at(secs(2), false), Reschedule(secs(2)));
    assert_eq!(at(secs(2), true), Fallback);
    assert_eq!(at(Duration::ZERO, false), Reschedule(secs(2)));
}

#[test]
fn the_providers_word_beats_the_class_but_not_a_cancellation() {
    let said = |class, word| ProviderError {
        should_retry: Some(word),
        ..failed(class)
    };
    assert_eq!(
        decide(&said(ErrorClass::RateLimited, false), 1),
        Reschedule(secs(30))
    );
    assert_eq!(decide(&said(ErrorClass::Billing, false), 1), Fail);
    assert_eq!(
        decide(&said(ErrorClass::BadRequest, true), 1),
        RetryNow(secs(1))
    );
    assert_eq!(decide(&said(ErrorClass::Cancelled, true), 1), Fail);
    let vetoed = retry_decision(
        &said(ErrorClass::Overloaded, false),
        tried(1, true),
        patience(),
        size(),
    );
    assert_eq!(
        vetoed, Fallback,
        "the veto is about this call, not about another provider"
    );
}

#[test]
fn a_parameter_is_left_out_once_whatever_the_class_and_tries() {
    for class in [ErrorClass::BadRequest, ErrorClass::Unsupported] {
        let refused = ProviderError {
            refused: Some(Parameter::Temperature),
            ..failed(class)
        };
        assert_eq!(
            decide(&refused, TRIES_MAX),
            Downgrade(Parameter::Temperature)
        );
        let other = PriorAttempts {
            without: &[Parameter::Strict],
            ..tried(1, false)
        };
        assert_eq!(
            retry_decision(&refused, other, patience(), size()),
            Downgrade(Parameter::Temperature)
        );
        let again = PriorAttempts {
            without: &[Parameter::Temperature],
            ..tried(1, false)
        };
        assert_eq!(retry_decision(&refused, again, patience(), size()), Fail);
    }
}

#[test]
fn an_input_is_made_shorter_once_to_what_the_window_leaves() {
    // Window as the error says it, as it is known, and as we estimated the input; tokens to come down to.
    for (said, known, used, target) in [
        (Some(8000), None, 10_000, 6200),
        (Some(8000), Some(4000), 10_000, 6200),
        (None, Some(8000), 10_000, 6200),
        (None, None, 10_000, 7000),
        // We estimate less than the model counts: what the window leaves would change nothing.
        (Some(8000), None, 6000, 4200),
        // The answer alone is larger than the window: it gets a quarter.
        (Some(900), None, 10_000, 585),
        (Some(3), None, 10_000, 3),
    ] {
        let error = ProviderError {
            window_tokens: said,
            ..failed(ErrorClass::ContextOverflow)
        };
        let size = Size {
            used_tokens: used,
            max_output_tokens: 1000,
            window_tokens: known,
            ..Size::default()
        };
        let at = |tried| retry_decision(&error, tried, patience(), size);
        assert_eq!(
            at(tried(1, true)),
            TrimAndRetry {
                target_tokens: target
            },
            "{said:?} {known:?} {used}"
        );
        let trimmed = |has_fallback| PriorAttempts {
            trimmed: true,
            ..tried(2, has_fallback)
        };
        assert_eq!((at(trimmed(true)), at(trimmed(false))), (Fallback, Fail));
    }
}

#[test]
fn an_answer_without_a_word_gets_more_room_while_there_is_some() {
    let error = failed(ErrorClass::OutputLimit);
    let with = |longer_output_tokens, has_fallback| {
        let size = Size {
            longer_output_tokens,
            ..size()
        };
        retry_decision(&error, tried(9, has_fallback), patience(), size)
    };
    assert_eq!(
        with(Some(16_384), true),
        Lengthen {
            max_output_tokens: 16_384
        }
    );
    assert_eq!((with(None, true), with(None, false)), (Fallback, Fail));
    // Room now, tokens left, room then.
    for (now, left, then) in [
        (4096, 100_000, Some(16_384)),
        (4096, 9000, Some(9000)),
        (4096, 8191, None),
        (20_000, 100_000, Some(64_000)),
        (40_000, 100_000, None),
        (64_000, u64::MAX, None),
    ] {
        assert_eq!(longer_output_tokens(now, left), then, "{now} of {left}");
    }
}

#[test]
fn a_refusal_goes_elsewhere_only_where_somebody_asked_for_it() {
    let error = failed(ErrorClass::ContentFilter);
    for (asked, expected) in [(true, Fallback), (false, Fail)] {
        let patience = RetryLimits {
            fallback_on_refusal: asked,
            ..patience()
        };
        assert_eq!(
            retry_decision(&error, tried(1, true), patience, size()),
            expected
        );
    }
}
