//! What a call may cost at most, whether the purses can pay it, and what it has cost.
//!
//! The bound of a call is one that its bill cannot exceed: a token has at least one byte, and an answer ends at the length
//! that the request names. What is set aside too much comes back with the answer.

use super::circumstances::Hindrance;
use super::desk::{Bench, Desk, RunError};
use super::providers::{Phase, ProviderError, Request, Response, TokenUsage, ToolChoice};
use super::work::Work;
use crate::config::{self, Budget, Config, ModelChoice, Persona, Problem, Spending, dollars};
use crate::domain::{
    CostSource, ErrorClass, NoticeId, OnBudget, Purse, PurseId, PurseScope, Rates, RunTerms, ThreadBudget,
    Timestamp, Usage, UsageLine, end_of,
};
use crate::store::{
    Advance, Billing, ClaimedRun, EmptyPurse, Entry, NewNotice, RunFailure, StoreError, TurnStarted,
    budget_reached,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Tokens of the vendor's own that a request may bring along without holding them: a system prompt for tools has up to 530
/// (Anthropic, "tool use pricing").
const HIDDEN_TOKENS: u64 = 1024;
/// Longest time between two looks at a purse that other calls hold.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Looks before the run makes room for others.
const LOOKS_MAX: u32 = 60;
/// How long a run is parked that waits for other calls to give back.
const HELD_WAIT: Duration = Duration::from_secs(60);

/// What is answered when not even last words can be paid.
pub const NOTHING_LEFT: &str =
    "[This letter could not be answered to the end: what may be spent on it is used up.]";

/// The bounds of a run, each with where it was said.
pub fn spending(desk: &Bench, run: &ClaimedRun, persona: &Persona) -> Spending {
    let thread = (&run.thread, run.thread_budget);
    config::spending((&desk.config.inference, persona), thread, run.budget_micros, desk.clock.now())
}

/// The same, and all bounds of the run beside it.
pub fn bounds(desk: &Bench, run: &ClaimedRun, persona: &Persona) -> (Spending, Budget) {
    let spending = spending(desk, run, persona);
    let budget = Budget {
        tokens_max: spending.run_tokens_max.value.unsigned_abs(),
        cost_micros_max: spending.run_cost_micros_max.map(|bound| bound.value),
        ..desk.config.inference.budget.clone()
    };
    (spending, budget)
}

/// The bounds as the run's row keeps them.
pub fn limits_json(spending: &Spending) -> String {
    let usd =
        |bound: crate::domain::Bound| json!({ "usd": dollars(bound.value), "origin": bound.origin.as_str() });
    let tokens =
        |bound: crate::domain::Bound| json!({ "tokens": bound.value, "origin": bound.origin.as_str() });
    let purses = spending.purses.iter().filter(|purse| purse.cost_micros_max.or(purse.tokens_max).is_some());
    let purses = purses.map(|purse| {
        let (cost, most) = (purse.cost_micros_max.map(usd), purse.tokens_max.map(tokens));
        json!({ "purse": purse.id.whose(), "span": purse.id.span(), "cost_max": cost, "tokens_max": most })
    });
    let run = json!({
        "purse": "run", "span": "run", "cost_max": spending.run_cost_micros_max.map(usd),
        "tokens_max": tokens(spending.run_tokens_max),
    });
    Value::Array(std::iter::once(run).chain(purses).collect()).to_string()
}

/// What a call takes from which purses. Errors: class `Config`, when nobody knows what it may cost and somebody wants to
/// bound it.
pub fn advance(
    work: &Work<'_>,
    request: &Request,
    wire: &str,
    choice: ToolChoice,
) -> Result<Advance, RunError> {
    let Spending { run_cost_micros_max, mut purses, on_budget, .. } =
        spending(work.desk, work.run, work.persona);
    let counts = run_cost_micros_max.is_some() || purses.iter().any(|purse| purse.cost_micros_max.is_some());
    let (micros, tokens) = most(work, request, wire, counts)?;
    purses.extend(run_cost_micros_max.map(|bound| Purse {
        id: PurseId { scope: PurseScope::Run, owner: work.run.id.to_string(), period: String::new() },
        cost_micros_max: Some(bound),
        tokens_max: None,
    }));
    // The last words of a run are paid from what each call before them left. One call of an agent is a whole run.
    let last_words = if choice == ToolChoice::Auto && request.agent.is_none() { micros } else { 0 };
    let left_elsewhere = if on_budget == OnBudget::Answer { last_words } else { 0 };
    Ok(Advance { micros, tokens, purses, left_in_run: last_words, left_elsewhere })
}

/// Micro-dollars and tokens that a call may cost at most.
fn most(work: &Work<'_>, request: &Request, wire: &str, counts: bool) -> Result<(i64, i64), RunError> {
    let (config, route) = (&work.desk.config, &work.route);
    let rates = rates(config, &route.name, &request.model, work.desk.clock.now());
    let (input, output) = match &request.agent {
        None => ((wire.len() as u64).saturating_add(HIDDEN_TOKENS), u64::from(request.max_output_tokens)),
        // An agent reads what it likes: all that the run may still use, at the dearer price.
        Some(_) => (0, work.budget().tokens_max.saturating_sub(work.meter.usage.total_tokens())),
    };
    let tokens = i64::try_from(input.saturating_add(output)).unwrap_or(i64::MAX);
    let by_price = |rates: Rates| {
        let (dearest, answer) = (rates.dearest_input(), rates.output);
        let answer = if request.agent.is_some() { answer.max(dearest) } else { answer };
        let used = Usage { input_tokens: input, output_tokens: output, ..Usage::default() };
        Rates { input: dearest, output: answer, ..Rates::default() }.cost_micros(used)
    };
    let told = request.agent.as_ref().and_then(|agent| agent.cost_micros_max);
    let reserve = config.inference.budgets.reserve_micros_per_call;
    let reserve = reserve.filter(|_| route.provider.capabilities(&request.model).reports_cost);
    match told.or_else(|| rates.map(by_price)).or(reserve) {
        Some(micros) => Ok((micros, tokens)),
        None if !counts => Ok((0, tokens)),
        None => {
            let (name, model) = (&route.name, &request.model);
            let message = format!("{}; {}", no_price(name, model), what_to_write(name, model));
            Err(RunError::Fatal { class: ErrorClass::Config, message })
        }
    }
}

fn rates(config: &Config, provider: &str, model: &str, now: Timestamp) -> Option<Rates> {
    let day = now.to_utc().with_timezone(&config.inference.budgets.zone).date_naive();
    config.prices.find(provider, model, day)
}

fn no_price(provider: &str, model: &str) -> String {
    format!("nobody knows what `{model}` of `{provider}` costs, and there is a budget in dollars")
}

fn price_to_write(provider: &str, model: &str) -> String {
    let line = format!(r#"{{"provider": "{provider}", "model": "{model}", "input": …, "output": …}}"#);
    format!(
        "add `{line}` to `prices` in `configs/prices.json`, in dollars per million tokens (0 if it costs nothing)"
    )
}

fn what_to_write(provider: &str, model: &str) -> String {
    format!(
        "{}; if the provider says itself what a call cost, `budget.reserve_usd_per_call` in `configs/inference.json` will do",
        price_to_write(provider, model)
    )
}

/// Models in use that have no price although money is counted, as problems of the configuration. `reports_cost` says of a
/// provider and a model whether calls come back with their cost.
pub fn unpriced(config: &Config, now: Timestamp, reports_cost: impl Fn(&str, &str) -> bool) -> Vec<Problem> {
    let counts = |persona: &&Persona| counts_money(config, persona, None, now);
    let mut problems = Vec::new();
    for persona in config.personas.iter().filter(counts) {
        let choices = config.inference.choices_for(persona);
        for choice in choices.iter().filter(|choice| is_unpriced(config, choice, now, &reports_cost)) {
            let (file, pointer) = config.inference.place_of(persona, choice);
            let message = no_price(&choice.provider, &choice.model);
            let problem = config.snapshot.problem_at(&file, &pointer, message);
            problems.push(problem.hint(what_to_write(&choice.provider, &choice.model)));
        }
    }
    problems
}

/// Models in use without a price where nothing depends on one, as warnings, each model once: the books show `?` for them.
pub fn unpriced_uncounted(
    config: &Config,
    now: Timestamp,
    reports_cost: impl Fn(&str, &str) -> bool,
) -> Vec<Problem> {
    let mut warned = BTreeSet::new();
    let uncounted = |persona: &&Persona| !counts_money(config, persona, None, now);
    let mut warnings = Vec::new();
    for persona in config.personas.iter().filter(uncounted) {
        for choice in config.inference.choices_for(persona) {
            let ModelChoice { provider, model } = &choice;
            let is_priced = reports_cost(provider, model) || rates(config, provider, model, now).is_some();
            if is_priced || !warned.insert((provider.clone(), model.clone())) {
                continue;
            }
            let (file, pointer) = config.inference.place_of(persona, &choice);
            let message = format!(
                "nobody knows what `{model}` of `{provider}` costs: `attache usage` will show `?` for it"
            );
            let warning = config.snapshot.problem_at(&file, &pointer, message);
            warnings.push(warning.hint(price_to_write(provider, model)));
        }
    }
    warnings
}

/// The same of the model that a responsibility asks first; `file` is its own.
pub fn unpriced_duty(
    config: &Config,
    now: Timestamp,
    (file, persona): (&str, &Persona),
    (terms, budget_micros): (&RunTerms, Option<i64>),
    reports_cost: impl Fn(&str, &str) -> bool,
) -> Option<Problem> {
    let choice = config.inference.choices_under(terms, persona).into_iter().next()?;
    let is_unpriced =
        counts_money(config, persona, budget_micros, now) && is_unpriced(config, &choice, now, &reports_cost);
    is_unpriced.then(|| {
        let problem = Problem::of_file(file, no_price(&choice.provider, &choice.model));
        problem.hint(what_to_write(&choice.provider, &choice.model))
    })
}

fn counts_money(config: &Config, persona: &Persona, budget_micros: Option<i64>, now: Timestamp) -> bool {
    let (thread, budget) = (crate::domain::ThreadId::new(""), ThreadBudget::default());
    config::spending((&config.inference, persona), (&thread, budget), budget_micros, now).counts_money()
}

fn is_unpriced(
    config: &Config,
    choice: &ModelChoice,
    now: Timestamp,
    reports_cost: &impl Fn(&str, &str) -> bool,
) -> bool {
    let ModelChoice { provider, model } = choice;
    let has_reserve = config.inference.budgets.reserve_micros_per_call.is_some();
    let is_bounded = has_reserve && reports_cost(provider, model);
    !is_bounded && rates(config, provider, model, now).is_none()
}

/// Commits the beginning of a call as soon as every purse can pay it. What others hold is waited for a while.
///
/// Errors: [`RunError::Purse`]; then everything that was pending is committed, and the call is not begun.
pub async fn begin(work: &mut Work<'_>, started: TurnStarted) -> Result<(), RunError> {
    let mut looks = 0;
    let mut beginning = Entry::TurnStarted(started);
    loop {
        // Asked for before the look at the purse, so that nothing is missed in between.
        let given_back = work.desk.given_back.notified();
        work.pending.push(beginning);
        let empty = match work.commit(None).await {
            Err(RunError::Store(StoreError::EmptyPurse(empty))) => empty,
            done => return done,
        };
        let begun = work.pending.pop();
        // Nobody waits with money in hand: what the call before gives back may be what others wait for.
        work.commit(None).await?;
        looks += 1;
        beginning = match begun {
            Some(again) if empty.held_by_others && looks < LOOKS_MAX => again,
            begun => {
                if let Some(Entry::TurnStarted(started)) = begun {
                    work.fresh_context = started.context;
                }
                work.hindrances.push(Hindrance::purse(empty.purse.scope));
                return Err(RunError::Purse(empty));
            }
        };
        tokio::select! {
            () = given_back => {}
            () = work.desk.circumstances.wait(LOOK_AGAIN) => {}
            () = work.cancel.cancelled() => return Err(RunError::Cancelled),
        }
    }
}

/// Whether a run that cannot be paid ends now, with what can be said, instead of waiting. The owner is told.
pub async fn ends(work: &Work<'_>, empty: &EmptyPurse) -> Result<bool, RunError> {
    if empty.purse.scope == PurseScope::Run {
        return Ok(true);
    }
    let waits = spending(work.desk, work.run, work.persona).on_budget == OnBudget::Wait;
    if !waits && !empty.held_by_others {
        work.desk.ledger.raise_notice(notice(work.desk, work.run, empty)).await?;
    }
    Ok(!waits)
}

/// Parks a run until its purse can pay again; gives its failure when that could not be stored.
pub async fn park(desk: &Desk, run: &ClaimedRun, empty: &EmptyPurse, worked: Duration) -> Option<RunFailure> {
    let now = desk.clock.now();
    let (until, notice) = match empty.held_by_others {
        true => (now.plus(HELD_WAIT), None),
        false => (refilled(desk, &empty.purse), Some(notice(desk, run, empty))),
    };
    tracing::warn!(run = %run.id, persona = %run.persona, %until, error = %empty, "run waits for money");
    let error = desk.store.wait_for_purse(&run.id, empty, (until, worked), notice).await.err()?;
    tracing::error!(run = %run.id, %error, "a run that waits for money is not stored yet; trying again");
    Some(RunFailure { class: ErrorClass::Budget, message: empty.to_string(), retry_at: Some(until), worked })
}

fn refilled(desk: &Bench, purse: &PurseId) -> Timestamp {
    end_of(&purse.period, desk.clock.now(), &desk.config.inference.budgets.zone)
}

/// One fact per purse and period.
fn notice(desk: &Bench, run: &ClaimedRun, empty: &EmptyPurse) -> NewNotice {
    let (zone, purse) = (desk.config.inference.budgets.zone.name(), &empty.purse);
    let of_money = empty.cost_micros_max.is_some_and(|max| empty.state.spent_micros + empty.micros > max);
    let (spent, call, max) = match (of_money, empty.cost_micros_max, empty.tokens_max) {
        (true, Some(max), _) | (_, Some(max), None) => {
            (dollars(empty.state.spent_micros), dollars(empty.micros), format!("{} dollars", dollars(max)))
        }
        (_, _, max) => {
            let max = format!("{} tokens", max.unwrap_or_default());
            (empty.state.spent_tokens.to_string(), empty.tokens.to_string(), max)
        }
    };
    let summary = format!(
        "the {} budget of {} for {} ({zone}) is {max}: {spent} are spent, and the next call of run {} may cost up to {call}",
        purse.span(),
        purse.whose(),
        purse.period,
        run.id
    );
    let place = match purse.scope {
        PurseScope::Thread => format!("with `attache threads budget {}`", purse.owner),
        PurseScope::Persona => {
            format!(
                "in `personas/{}/persona.json` or in `configs/inference.json`, and start the engine again",
                run.persona
            )
        }
        _ => "in `configs/inference.json`, and start the engine again".to_owned(),
    };
    let hint = format!(
        "nothing has to be done: runs that wait go on at {}; to let them go now, raise the budget {place}; \
         `attache usage --budgets` shows every budget and where it was set",
        refilled(desk, purse)
    );
    budget_reached(NoticeId::new(desk.clock.new_id()), &run.persona, empty, (summary, hint))
}

/// Whether a call that failed may be billed all the same.
pub fn billing(error: &ProviderError) -> Billing {
    // A gateway that gives up waiting says nothing about what the model behind it has written.
    let turned_away = |status: u16| status >= 400 && ![408, 499, 504, 524].contains(&status);
    match error.phase {
        Phase::Config | Phase::BeforeSend => Billing::None,
        Phase::BeforeFirstByte if error.http_status.is_some_and(turned_away) => Billing::None,
        Phase::BeforeFirstByte | Phase::MidStream => Billing::Unknown,
    }
}

/// What an answer used and cost, all of it and model by model: as the provider says, else by the price table.
pub fn priced(work: &Work<'_>, response: &Response) -> (Usage, Vec<UsageLine>) {
    let lines = lines_of(response, &work.route.model);
    price(work, response.usage, lines)
}

/// The same for a call that failed and says what it used.
pub fn priced_failure(work: &Work<'_>, used: TokenUsage) -> (Usage, Vec<UsageLine>) {
    price(work, used, vec![line(&work.route.model, used)])
}

fn price(work: &Work<'_>, whole: TokenUsage, mut lines: Vec<UsageLine>) -> (Usage, Vec<UsageLine>) {
    let config = &work.desk.config;
    let total = whole.cost_micros;
    let of_lines = lines.iter().filter_map(|line| line.usage.cost_micros).fold(0, i64::saturating_add);
    for (index, line) in lines.iter_mut().enumerate() {
        let now = work.desk.clock.now();
        let known = || {
            let asked = || rates(config, &work.route.name, &work.route.model, now);
            // The price of the model that was asked for is no price of another that helped it.
            rates(config, &work.route.name, &line.model, now).or_else(|| asked().filter(|_| index == 0))
        };
        match (total, line.usage.cost_micros) {
            // The provider's total is the truth; what its parts leave of it stands with the first.
            (Some(total), own) => {
                let rest = if index == 0 { total.saturating_sub(of_lines).max(0) } else { 0 };
                line.usage.cost_micros = Some(own.unwrap_or(0).saturating_add(rest));
                line.source = CostSource::Provider;
            }
            (None, Some(_)) => line.source = CostSource::Provider,
            (None, None) => {
                if let Some(rates) = known() {
                    line.usage.cost_micros = Some(rates.cost_micros(line.usage));
                    line.source = CostSource::PriceTable;
                    line.price_version = Some(config.prices.version.clone());
                }
            }
        }
    }
    let cost = lines.iter().fold(Usage::default(), |sum, line| sum.plus(line.usage)).cost_micros;
    (Usage { cost_micros: cost, ..Usage::from(whole) }, lines)
}

/// One line per model, none priced yet.
fn lines_of(response: &Response, asked: &str) -> Vec<UsageLine> {
    let served = if response.model_served.is_empty() { asked } else { &response.model_served };
    let whole = [(served, response.usage)];
    let parts: Vec<(&str, TokenUsage)> = match response.breakdown.is_empty() {
        true => whole.to_vec(),
        false => response.breakdown.iter().map(|part| (part.model.as_str(), part.usage)).collect(),
    };
    let mut lines: Vec<UsageLine> = Vec::new();
    for (model, used) in parts {
        match lines.iter_mut().find(|line| line.model == model) {
            Some(line) => {
                line.usage = line.usage.plus(Usage::from(used));
                line.estimated |= used.estimated;
            }
            None => lines.push(line(model, used)),
        }
    }
    lines
}

fn line(model: &str, used: TokenUsage) -> UsageLine {
    UsageLine {
        model: model.to_owned(),
        usage: Usage::from(used),
        source: CostSource::Unknown,
        price_version: None,
        estimated: used.estimated,
    }
}
