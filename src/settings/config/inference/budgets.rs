//! `budget` in `configs/inference.json` and in `persona.json`: bounds on the cost of a run, a day
//! and a month..

use crate::config::values::section::*;
use crate::domain::{Allowance, OnBudget};
use chrono_tz::Tz;

/// Default maximum of the tokens of one run.
pub const RUN_TOKENS_MAX: u64 = 500_000;
/// Defaults of the other bounds of one run that several levels may set.
pub const TURNS_MAX: u32 = 8;
pub const TOOL_CALLS_MAX: u32 = 50;
pub const DURATION_MAX: Duration = Duration::from_secs(600);

/// The bounds of one run.
#[derive(Debug, Clone)]
pub struct Budget {
    pub turns_max: u32,
    pub tool_calls_max: u32,
    pub tool_failures_max: u32,
    /// Tokens of input and output together, including cached ones.
    pub tokens_max: u64,
    /// Micro-dollars; `None` means no bound.
    pub cost_micros_max: Option<i64>,
    pub duration_max: Duration,
    /// Maximum tokens of the assembled context.
    pub context_tokens_max: usize,
    pub mails_max: usize,
}

/// Bounds on the cost of runs, days and months.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedBudget {
    /// Tool calls of one run. Default: 50.
    #[schemars(range(min = 1))]
    tool_calls_max: Option<u32>,
    /// Failed tool calls of one run. Default: 10.
    #[schemars(range(min = 1))]
    tool_failures_max: Option<u32>,
    /// Input and output tokens of one run together, including cached tokens. Default: 500000.
    #[schemars(range(min = 1))]
    tokens_max: Option<u64>,
    /// US dollars of one run; left out, there is no bound on money.
    #[schemars(range(min = 0, max = 1_000_000))]
    cost_usd_max: Option<f64>,
    /// Duration of one run. Default: 10m.
    duration_max: Option<TypedDuration>,
    /// Maximum tokens of the assembled context. Default: 60000.
    #[schemars(range(min = 1000))]
    context_tokens_max: Option<usize>,
    /// Mails that one run may send. Default: 5.
    mails_max: Option<usize>,
    /// US dollars of all runs in a day.
    #[schemars(range(min = 0, max = 1_000_000))]
    day_usd_max: Option<f64>,
    /// Tokens of all runs in a day.
    #[schemars(range(min = 1))]
    day_tokens_max: Option<u64>,
    /// US dollars of all runs in a month.
    #[schemars(range(min = 0, max = 1_000_000))]
    month_usd_max: Option<f64>,
    /// Tokens of all runs in a month.
    #[schemars(range(min = 1))]
    month_tokens_max: Option<u64>,
    /// US dollars of each persona in a day.
    #[schemars(range(min = 0, max = 1_000_000))]
    persona_day_usd_max: Option<f64>,
    /// Tokens of each persona in a day.
    #[schemars(range(min = 1))]
    persona_day_tokens_max: Option<u64>,
    /// Mails of each persona in a day (UTC), without those to owners who asked.
    #[schemars(range(min = 1))]
    persona_day_mails_max: Option<u32>,
    /// US dollars of each persona in a month.
    #[schemars(range(min = 0, max = 1_000_000))]
    persona_month_usd_max: Option<f64>,
    /// Tokens of each persona in a month.
    #[schemars(range(min = 1))]
    persona_month_tokens_max: Option<u64>,
    /// US dollars of each thread in a day.
    #[schemars(range(min = 0, max = 1_000_000))]
    thread_day_usd_max: Option<f64>,
    /// Tokens of each thread in a day.
    #[schemars(range(min = 1))]
    thread_day_tokens_max: Option<u64>,
    /// Behaviour of a run whose day or month is used up: `wait` for the next, or `answer` with the
    /// text so far. Default: `wait`.
    on_budget: Option<OnBudget>,
    /// IANA zone in which days and months begin. Default: UTC.
    timezone: Option<String>,
    /// US dollars reserved for a call whose model has no price in `configs/prices.json` and whose
    /// provider reports the cost afterwards. Left out, such a model cannot be used under a bound on
    /// money.
    #[schemars(range(min = 0, max = 1_000_000))]
    reserve_usd_per_call: Option<f64>,
}

/// Bounds on the cost of one persona.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedPersonaBudget {
    /// Tool calls of one run, instead of the value in `configs/inference.json`.
    #[schemars(range(min = 1))]
    pub tool_calls_max: Option<u32>,
    /// Duration of one run, instead of the value in `configs/inference.json`.
    pub duration_max: Option<TypedDuration>,
    /// US dollars of one run, instead of the value in `configs/inference.json`.
    #[schemars(range(min = 0, max = 1_000_000))]
    cost_usd_max: Option<f64>,
    /// Tokens of one run, instead of the value in `configs/inference.json`.
    #[schemars(range(min = 1))]
    tokens_max: Option<u64>,
    /// US dollars in a day, instead of `persona_day_usd_max` of `configs/inference.json`.
    #[schemars(range(min = 0, max = 1_000_000))]
    day_usd_max: Option<f64>,
    /// Tokens in a day.
    #[schemars(range(min = 1))]
    day_tokens_max: Option<u64>,
    /// US dollars in a month.
    #[schemars(range(min = 0, max = 1_000_000))]
    month_usd_max: Option<f64>,
    /// Tokens in a month.
    #[schemars(range(min = 1))]
    month_tokens_max: Option<u64>,
    /// US dollars of each of its threads in a day.
    #[schemars(range(min = 0, max = 1_000_000))]
    thread_day_usd_max: Option<f64>,
    /// Tokens of each of its threads in a day.
    #[schemars(range(min = 1))]
    thread_day_tokens_max: Option<u64>,
    on_budget: Option<OnBudget>,
}

/// Bounds of the budget accounts of days and months.
#[derive(Debug, Clone)]
pub struct Budgets {
    pub day: Allowance,
    pub month: Allowance,
    /// Bound of each persona without its own.
    pub persona_day: Allowance,
    pub persona_month: Allowance,
    /// Mails of each persona in a day.
    pub persona_day_mails_max: Option<u32>,
    /// Bound of each thread.
    pub thread_day: Allowance,
    pub on_budget: OnBudget,
    /// Time zone in which days and months begin.
    pub zone: Tz,
    /// Micro-dollars reserved for a call whose price is known only afterwards.
    pub reserve_micros_per_call: Option<i64>,
}

/// Bounds of one persona.
#[derive(Debug, Clone, Default)]
pub struct PersonaBudget {
    pub run: Allowance,
    pub day: Allowance,
    pub month: Allowance,
    pub thread_day: Allowance,
    pub on_budget: Option<OnBudget>,
}

/// Builds the bounds of a run except its budget accounts.
pub fn finish_run(turns_max: Option<u32>, budget: &TypedBudget) -> Budget {
    Budget {
        turns_max: turns_max.unwrap_or(TURNS_MAX),
        tool_calls_max: budget.tool_calls_max.unwrap_or(TOOL_CALLS_MAX),
        tool_failures_max: budget.tool_failures_max.unwrap_or(10),
        tokens_max: budget.tokens_max.unwrap_or(RUN_TOKENS_MAX),
        cost_micros_max: budget.cost_usd_max.map(micros),
        duration_max: budget.duration_max.map_or(DURATION_MAX, |span| span.0),
        context_tokens_max: budget.context_tokens_max.unwrap_or(60_000),
        mails_max: budget.mails_max.unwrap_or(5),
    }
}

/// Resolves the bounds of the budget accounts. Problems go to the context.
pub fn resolve(typed: &TypedBudget, place: &mut CheckPlace<'_, '_>) -> Budgets {
    let named = typed.timezone.as_deref().unwrap_or("UTC");
    let zone = named.parse();
    if zone.is_err() {
        let hint = "write an IANA name such as `Europe/Berlin`";
        place.refuse("timezone", format!("no time zone `{named}`"), hint);
    }
    Budgets {
        day: allowance(typed.day_usd_max, typed.day_tokens_max),
        month: allowance(typed.month_usd_max, typed.month_tokens_max),
        persona_day: allowance(typed.persona_day_usd_max, typed.persona_day_tokens_max),
        persona_month: allowance(typed.persona_month_usd_max, typed.persona_month_tokens_max),
        persona_day_mails_max: typed.persona_day_mails_max,
        thread_day: allowance(typed.thread_day_usd_max, typed.thread_day_tokens_max),
        on_budget: typed.on_budget.unwrap_or(OnBudget::Wait),
        zone: zone.unwrap_or(Tz::UTC),
        reserve_micros_per_call: typed.reserve_usd_per_call.map(micros),
    }
}

/// Resolves the bounds of a persona.
pub fn resolve_persona(typed: &TypedPersonaBudget) -> PersonaBudget {
    PersonaBudget {
        run: allowance(typed.cost_usd_max, typed.tokens_max),
        day: allowance(typed.day_usd_max, typed.day_tokens_max),
        month: allowance(typed.month_usd_max, typed.month_tokens_max),
        thread_day: allowance(typed.thread_day_usd_max, typed.thread_day_tokens_max),
        on_budget: typed.on_budget,
    }
}

fn allowance(usd: Option<f64>, tokens: Option<u64>) -> Allowance {
    let tokens_max = tokens.map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX));
    Allowance {
        cost_micros_max: usd.map(micros),
        tokens_max,
    }
}

/// Whole micro-dollars. The schema keeps the sum between 0 and 10^6 dollars, so the cast loses
/// nothing.
#[expect(clippy::cast_possible_truncation, reason = "at most 10^12, see above")]
fn micros(usd: f64) -> i64 {
    (usd * 1_000_000.0).round() as i64
}

/// Parses US dollars such as `0.25` or `$2` into micro-dollars; `None` for other text, more than
/// six decimals, or more than a million.
pub fn micros_of(typed: &str) -> Option<i64> {
    let typed = typed.trim().trim_start_matches('$');
    let (whole, part) = typed.split_once('.').unwrap_or((typed, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 7 || part.len() > 6 || !digits(whole) || !digits(part) {
        return None;
    }
    let micros: i64 = format!("{whole}{part:0<6}").parse().ok()?;
    (micros <= 1_000_000_000_000).then_some(micros)
}

/// Formats dollars with six decimals.
pub fn dollars(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// JSON of the budget accounts' part of `budget` in `configs/inference.json`.
pub fn show(budgets: &Budgets) -> Value {
    let usd = |allowance: Allowance| allowance.cost_micros_max.map(dollars);
    json!({
        "day_usd_max": usd(budgets.day), "day_tokens_max": budgets.day.tokens_max,
        "month_usd_max": usd(budgets.month), "month_tokens_max": budgets.month.tokens_max,
        "persona_day_usd_max": usd(budgets.persona_day),
        "persona_day_tokens_max": budgets.persona_day.tokens_max,
        "persona_month_usd_max": usd(budgets.persona_month),
        "persona_month_tokens_max": budgets.persona_month.tokens_max,
        "thread_day_usd_max": usd(budgets.thread_day),
        "thread_day_tokens_max": budgets.thread_day.tokens_max,
        "persona_day_mails_max": budgets.persona_day_mails_max,
        "on_budget": budgets.on_budget,
        "timezone": budgets.zone.name(),
        "reserve_usd_per_call": budgets.reserve_micros_per_call.map(dollars),
    })
}

/// JSON of a persona's `budget`.
pub fn show_persona(budget: &PersonaBudget) -> Value {
    let usd = |allowance: Allowance| allowance.cost_micros_max.map(dollars);
    json!({
        "cost_usd_max": usd(budget.run), "tokens_max": budget.run.tokens_max,
        "day_usd_max": usd(budget.day), "day_tokens_max": budget.day.tokens_max,
        "month_usd_max": usd(budget.month), "month_tokens_max": budget.month.tokens_max,
        "thread_day_usd_max": usd(budget.thread_day),
        "thread_day_tokens_max": budget.thread_day.tokens_max,
        "on_budget": budget.on_budget,
    })
}
