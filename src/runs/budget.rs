//! Upper bound of the cost of a call, its reservation in the budget accounts, and its actual cost.
//!
//! The bound of a call is one that its bill cannot exceed: a token has at least one byte, and an
//! answer ends at the length that the request names. The unused part of a reservation is released
//! with the answer.

use super::call_record::BlockedBy;
use super::deps::{RunDeps, RunError, WorkerDeps};
use super::work::Work;
use crate::config::{self, Budget, Config, ModelChoice, Persona, Problem, Spending, dollars};
use crate::domain::{
    BudgetAccount, BudgetAccountId, BudgetScope, CostSource, ErrorClass, NoticeId, OnBudget, Rates,
    RunOptions, ThreadBudget, Timestamp, Usage, UsageLine, end_of,
};
use crate::providers::{Phase, ProviderError, Request, Response, TokenUsage, ToolChoice};
use crate::store::{
    Billing, BudgetExhausted, CallReservation, ClaimedRun, JournalEntry, NewNotice, RunFailure,
    StoreError, TurnStarted, budget_reached,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Tokens that a vendor may add to a request without their being in the body: a system prompt for
/// tools has up to 530 (Anthropic, "tool use pricing").
const HIDDEN_TOKENS: u64 = 1024;
/// Longest time between two checks of a budget account that other calls have reserved.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Checks before the run is parked and frees its worker.
const LOOKS_MAX: u32 = 60;
/// Time that a run is parked while other calls hold the reservation.
const HELD_WAIT: Duration = Duration::from_secs(60);

/// Answer when not even the final turn can be paid.
pub const NOTHING_LEFT: &str =
    "[This letter could not be answered to the end: what may be spent on it is used up.]";

/// Returns the spending bounds of a run, each with its origin.
pub fn spending(deps: &RunDeps, run: &ClaimedRun, persona: &Persona) -> Spending {
    let thread = (&run.thread, run.thread_budget);
    config::spending(
        (&deps.config.inference, persona),
        thread,
        run.budget_micros,
        deps.clock.now(),
    )
}

/// Returns the spending bounds of a run, and its budget with those bounds applied.
pub fn bounds(deps: &RunDeps, run: &ClaimedRun, persona: &Persona) -> (Spending, Budget) {
    let spending = spending(deps, run, persona);
    let budget = Budget {
        tokens_max: spending.run_tokens_max.value.unsigned_abs(),
        cost_micros_max: spending.run_cost_micros_max.map(|bound| bound.value),
        ..deps.config.inference.budget.clone()
    };
    (spending, budget)
}

/// Returns the bounds in the form of the run's row.
pub fn limits_json(spending: &Spending) -> String {
    let usd = |bound: crate::domain::Bound| json!({ "usd": dollars(bound.value), "origin": bound.origin.as_str() });
    let tokens = |bound: crate::domain::Bound| json!({ "tokens": bound.value, "origin": bound.origin.as_str() });
    let accounts = spending
        .accounts
        .iter()
        .filter(|account| account.cost_micros_max.or(account.tokens_max).is_some());
    let accounts = accounts.map(|account| {
        let (cost, most) = (account.cost_micros_max.map(usd), account.tokens_max.map(tokens));
        json!({ "account": account.id.whose(), "span": account.id.span(), "cost_max": cost, "tokens_max": most })
    });
    let run = json!({
        "account": "run", "span": "run", "cost_max": spending.run_cost_micros_max.map(usd),
        "tokens_max": tokens(spending.run_tokens_max),
    });
    Value::Array(std::iter::once(run).chain(accounts).collect()).to_string()
}

/// Returns the amounts that a call reserves in each budget account. Errors: class `Config`, when
/// the price is unknown and a bound on money is configured.
pub fn reservation(
    work: &Work<'_>,
    request: &Request,
    encoded: &str,
    choice: ToolChoice,
) -> Result<CallReservation, RunError> {
    let Spending {
        run_cost_micros_max,
        mut accounts,
        on_budget,
        ..
    } = spending(work.deps, work.run, work.persona);
    let counts = run_cost_micros_max.is_some()
        || accounts
            .iter()
            .any(|account| account.cost_micros_max.is_some());
    let (micros, tokens) = most(work, request, encoded, counts)?;
    accounts.extend(run_cost_micros_max.map(|bound| BudgetAccount {
        id: BudgetAccountId {
            scope: BudgetScope::Run,
            owner: work.run.id.to_string(),
            period: String::new(),
        },
        cost_micros_max: Some(bound),
        tokens_max: None,
    }));
    // The final turn of a run is paid from what each earlier call left. One call of an agent is a
    // whole run.
    let final_turn = if choice == ToolChoice::Auto && request.agent.is_none() {
        micros
    } else {
        0
    };
    let left_elsewhere = if on_budget == OnBudget::Answer {
        final_turn
    } else {
        0
    };
    Ok(CallReservation {
        micros,
        tokens,
        accounts,
        left_in_run: final_turn,
        left_elsewhere,
    })
}

/// Returns the most micro-dollars and tokens that a call may cost.
fn most(
    work: &Work<'_>,
    request: &Request,
    encoded: &str,
    counts: bool,
) -> Result<(i64, i64), RunError> {
    let (config, route) = (&work.deps.config, &work.route);
    let rates = rates(config, &route.name, &request.model, work.deps.clock.now());
    let (input, output) = match &request.agent {
        None => (
            (encoded.len() as u64).saturating_add(HIDDEN_TOKENS),
            u64::from(request.max_output_tokens),
        ),
        // An agent reads any number of files: all tokens that the run may still use, at the dearer
        // price.
        Some(_) => (
            0,
            work.budget()
                .tokens_max
                .saturating_sub(work.counters.usage.total_tokens()),
        ),
    };
    let tokens = i64::try_from(input.saturating_add(output)).unwrap_or(i64::MAX);
    let by_price = |rates: Rates| {
        let (dearest, answer) = (rates.dearest_input(), rates.output);
        let answer = if request.agent.is_some() {
            answer.max(dearest)
        } else {
            answer
        };
        let used = Usage {
            input_tokens: input,
            output_tokens: output,
            ..Usage::default()
        };
        Rates {
            input: dearest,
            output: answer,
            ..Rates::default()
        }
        .cost_micros(used)
    };
    let stated = request
        .agent
        .as_ref()
        .and_then(|agent| agent.cost_micros_max);
    let reserve = config.inference.budgets.reserve_micros_per_call;
    let reserve = reserve.filter(|_| route.provider.capabilities(&request.model).reports_cost);
    match stated.or_else(|| rates.map(by_price)).or(reserve) {
        Some(micros) => Ok((micros, tokens)),
        None if !counts => Ok((0, tokens)),
        None => {
            let (name, model) = (&route.name, &request.model);
            let message = format!("{}; {}", no_price(name, model), what_to_write(name, model));
            Err(RunError::Fatal {
                class: ErrorClass::Config,
                message,
            })
        }
    }
}

fn rates(config: &Config, provider: &str, model: &str, now: Timestamp) -> Option<Rates> {
    let day = now
        .to_utc()
        .with_timezone(&config.inference.budgets.zone)
        .date_naive();
    config.prices.find(provider, model, day)
}

fn no_price(provider: &str, model: &str) -> String {
    format!("nobody knows what `{model}` of `{provider}` costs, and there is a budget in dollars")
}

fn price_to_write(provider: &str, model: &str) -> String {
    let line =
        format!(r#"{{"provider": "{provider}", "model": "{model}", "input": …, "output": …}}"#);
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

/// Reports models in use without a price although a bound on money is configured, as problems of
/// the configuration. `reports_cost` tells by provider and model whether calls return their cost.
pub fn unpriced(
    config: &Config,
    now: Timestamp,
    reports_cost: impl Fn(&str, &str) -> bool,
) -> Vec<Problem> {
    let counts = |persona: &&Persona| counts_money(config, persona, None, now);
    let mut problems = Vec::new();
    for persona in config.personas.iter().filter(counts) {
        let choices = config.inference.choices_for(persona);
        for choice in choices
            .iter()
            .filter(|choice| is_unpriced(config, choice, now, &reports_cost))
        {
            let (file, pointer) = config.inference.place_of(persona, choice);
            let message = no_price(&choice.provider, &choice.model);
            let problem = config.snapshot.problem_at(&file, &pointer, message);
            problems.push(problem.hint(what_to_write(&choice.provider, &choice.model)));
        }
    }
    problems
}

/// Reports models in use without a price where no bound on money needs one, as warnings, each model
/// once: `attache usage` shows `?` for them.
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
            let is_priced =
                reports_cost(provider, model) || rates(config, provider, model, now).is_some();
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

/// Reports an unpriced model that a responsibility asks first; `file` is the responsibility's.
pub fn unpriced_schedule(
    config: &Config,
    now: Timestamp,
    (file, persona): (&str, &Persona),
    (options, budget_micros): (&RunOptions, Option<i64>),
    reports_cost: impl Fn(&str, &str) -> bool,
) -> Option<Problem> {
    let choice = config
        .inference
        .choices_under(options, persona)
        .into_iter()
        .next()?;
    let is_unpriced = counts_money(config, persona, budget_micros, now)
        && is_unpriced(config, &choice, now, &reports_cost);
    is_unpriced.then(|| {
        let problem = Problem::of_file(file, no_price(&choice.provider, &choice.model));
        problem.hint(what_to_write(&choice.provider, &choice.model))
    })
}

fn counts_money(
    config: &Config,
    persona: &Persona,
    budget_micros: Option<i64>,
    now: Timestamp,
) -> bool {
    let (thread, budget) = (crate::domain::ThreadId::new(""), ThreadBudget::default());
    config::spending(
        (&config.inference, persona),
        (&thread, budget),
        budget_micros,
        now,
    )
    .counts_money()
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

/// Commits the beginning of a call as soon as every budget account can pay it; waits for a while
/// when other calls hold the reservation.
///
/// Errors: [`RunError::BudgetExhausted`]; then everything that was pending is committed, and the
/// call is not begun.
pub async fn begin(work: &mut Work<'_>, started: TurnStarted) -> Result<(), RunError> {
    let mut looks = 0;
    let mut beginning = JournalEntry::TurnStarted(started);
    loop {
        // Registered before the account is checked, so that no release is missed in between.
        let given_back = work.deps.given_back.notified();
        work.pending.push(beginning);
        let empty = match work.commit(None).await {
            Err(RunError::Store(StoreError::BudgetExhausted(empty))) => empty,
            done => return done,
        };
        let begun = work.pending.pop();
        // Commits before waiting: other calls may wait for what the call before releases.
        work.commit(None).await?;
        looks += 1;
        beginning = match begun {
            Some(again) if empty.held_by_others && looks < LOOKS_MAX => again,
            begun => {
                if let Some(JournalEntry::TurnStarted(started)) = begun {
                    work.fresh_context = started.context;
                }
                work.blocked_by
                    .push(BlockedBy::account(empty.account.scope));
                return Err(RunError::BudgetExhausted(empty));
            }
        };
        tokio::select! {
            () = given_back => {}
            () = work.deps.provider_health.wait(LOOK_AGAIN) => {}
            () = work.cancel.cancelled() => return Err(RunError::Cancelled),
        }
    }
}

/// Reports whether a run that cannot be paid ends now with a partial answer instead of waiting;
/// emits a notice to the owner.
pub async fn ends(work: &Work<'_>, empty: &BudgetExhausted) -> Result<bool, RunError> {
    if empty.account.scope == BudgetScope::Run {
        return Ok(true);
    }
    let waits = spending(work.deps, work.run, work.persona).on_budget == OnBudget::Wait;
    if !waits && !empty.held_by_others {
        work.deps
            .run_store
            .emit_notice(notice(work.deps, work.run, empty))
            .await?;
    }
    Ok(!waits)
}

/// Parks a run until its budget account can pay again; returns its failure when the transaction
/// failed.
pub async fn park(
    deps: &WorkerDeps,
    run: &ClaimedRun,
    empty: &BudgetExhausted,
    worked: Duration,
) -> Option<RunFailure> {
    let now = deps.clock.now();
    let (until, notice) = match empty.held_by_others {
        true => (now.plus(HELD_WAIT), None),
        false => (
            refilled(deps, &empty.account),
            Some(notice(deps, run, empty)),
        ),
    };
    tracing::warn!(run = %run.id, persona = %run.persona, %until, error = %empty, "run waits for money");
    let error = deps
        .store
        .wait_for_budget(&run.id, empty, (until, worked), notice)
        .await
        .err()?;
    tracing::error!(run = %run.id, %error, "a run that waits for money is not stored yet; trying again");
    Some(RunFailure {
        class: ErrorClass::Budget,
        message: empty.to_string(),
        retry_at: Some(until),
        worked,
    })
}

fn refilled(deps: &RunDeps, account: &BudgetAccountId) -> Timestamp {
    end_of(
        &account.period,
        deps.clock.now(),
        &deps.config.inference.budgets.zone,
    )
}

/// Builds one notice per budget account and period.
fn notice(deps: &RunDeps, run: &ClaimedRun, empty: &BudgetExhausted) -> NewNotice {
    let (zone, account) = (deps.config.inference.budgets.zone.name(), &empty.account);
    let of_money = empty
        .cost_micros_max
        .is_some_and(|max| empty.state.spent_micros + empty.micros > max);
    let (spent, call, max) = match (of_money, empty.cost_micros_max, empty.tokens_max) {
        (true, Some(max), _) | (_, Some(max), None) => (
            dollars(empty.state.spent_micros),
            dollars(empty.micros),
            format!("{} dollars", dollars(max)),
        ),
        (_, _, max) => {
            let max = format!("{} tokens", max.unwrap_or_default());
            (
                empty.state.spent_tokens.to_string(),
                empty.tokens.to_string(),
                max,
            )
        }
    };
    let summary = format!(
        "the {} budget of {} for {} ({zone}) is {max}: {spent} are spent, and the next call of run {} may cost up to {call}",
        account.span(),
        account.whose(),
        account.period,
        run.id
    );
    let place = match account.scope {
        BudgetScope::Thread => format!("with `attache threads budget {}`", account.owner),
        BudgetScope::Persona => {
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
        refilled(deps, account)
    );
    budget_reached(
        NoticeId::new(deps.clock.new_id()),
        &run.persona,
        empty,
        (summary, hint),
    )
}

/// Reports whether a failed call may still be billed.
pub fn billing(error: &ProviderError) -> Billing {
    // A timeout of a gateway says nothing about what the model behind it has written.
    let turned_away = |status: u16| status >= 400 && ![408, 499, 504, 524].contains(&status);
    match error.phase {
        Phase::Config | Phase::BeforeSend => Billing::None,
        Phase::BeforeFirstByte if error.http_status.is_some_and(turned_away) => Billing::None,
        Phase::BeforeFirstByte | Phase::MidStream => Billing::Unknown,
    }
}

/// Returns the usage and cost of an answer, in total and by model: as the provider reports them,
/// else by the price table.
pub fn priced(work: &Work<'_>, response: &Response) -> (Usage, Vec<UsageLine>) {
    let lines = lines_of(response, &work.route.model);
    price(work, response.usage, lines)
}

/// Returns the usage and cost of a failed call that reported its usage.
pub fn priced_failure(work: &Work<'_>, used: TokenUsage) -> (Usage, Vec<UsageLine>) {
    price(work, used, vec![line(&work.route.model, used)])
}

fn price(work: &Work<'_>, whole: TokenUsage, mut lines: Vec<UsageLine>) -> (Usage, Vec<UsageLine>) {
    let config = &work.deps.config;
    let total = whole.cost_micros;
    let of_lines = lines
        .iter()
        .filter_map(|line| line.usage.cost_micros)
        .fold(0, i64::saturating_add);
    for (index, line) in lines.iter_mut().enumerate() {
        let now = work.deps.clock.now();
        let known = || {
            let asked = || rates(config, &work.route.name, &work.route.model, now);
            // The price of the requested model does not apply to another model that helped it.
            rates(config, &work.route.name, &line.model, now)
                .or_else(|| asked().filter(|_| index == 0))
        };
        match (total, line.usage.cost_micros) {
            // The provider's total counts; what its parts leave of it is added to the first line.
            (Some(total), own) => {
                let rest = if index == 0 {
                    total.saturating_sub(of_lines).max(0)
                } else {
                    0
                };
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
    let cost = lines
        .iter()
        .fold(Usage::default(), |sum, line| sum.plus(line.usage))
        .cost_micros;
    (
        Usage {
            cost_micros: cost,
            ..Usage::from(whole)
        },
        lines,
    )
}

/// Returns one line per model, none priced yet.
fn lines_of(response: &Response, asked: &str) -> Vec<UsageLine> {
    let served = if response.model_served.is_empty() {
        asked
    } else {
        &response.model_served
    };
    let whole = [(served, response.usage)];
    let parts: Vec<(&str, TokenUsage)> = match response.breakdown.is_empty() {
        true => whole.to_vec(),
        false => response
            .breakdown
            .iter()
            .map(|part| (part.model.as_str(), part.usage))
            .collect(),
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
