//! Arguments that several commands share, and their values.

pub mod in_force;
pub mod lookup;

use super::{CommandContext, Exit, Failure, refuse};
use crate::clock::{Clock, SystemClock};
use crate::domain::{Address, PersonaId, Timestamp};
use crate::store::Store;
use clap::value_parser;
use std::time::Duration;

/// Earliest instant that is accepted.
const THE_FIRST: &str = "1970-01-01T00:00:00Z";

/// The page of a listing.
#[derive(clap::Args)]
pub struct PageArgs {
    /// Only this persona's
    #[arg(long, value_name = "ID")]
    pub persona: Option<String>,
    /// Show so many at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
    /// Pass over so many first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub offset: u32,
}

/// The most entries of a listing without pages.
#[derive(clap::Args)]
pub struct LimitArg {
    /// Show so many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
}

/// The persona given by `--persona`; one whose folder was removed still has its rows.
///
/// Errors: a malformed id, and an id without folder and rows, so that a typing error does not yield
/// an empty listing.
pub async fn persona_of(
    context: &CommandContext,
    store: &Store,
    typed: Option<String>,
) -> anyhow::Result<Option<PersonaId>> {
    let Some(typed) = typed else {
        return Ok(None);
    };
    let id = PersonaId::parse(&typed).map_err(Failure::usage)?;
    let has_folder = context
        .workspace
        .join("personas")
        .join(id.as_str())
        .is_dir();
    if !has_folder && !store.knows_persona(&id).await? {
        return refuse(
            Exit::NoInput,
            format!("no persona `{id}`"),
            "`attache persona list` shows who lives here",
        );
    }
    Ok(Some(id))
}

/// Returns the user of this process as the audit log names who decided something.
pub fn user() -> String {
    format!("uid {}", rustix::process::getuid().as_raw())
}

/// Parses the address of one correspondent. Errors: it is none, or a pattern as the lists of the configuration have them.
pub fn correspondent(typed: &str) -> Result<Address, Failure> {
    let address = Address::parse(typed).map_err(|_| {
        Failure::new(Exit::Usage, format!("`{typed}` is no address"))
            .hint("write it as in `anna@guest.example`")
    })?;
    match address.key().contains('*') {
        true => refuse(
            Exit::Usage,
            format!("`{typed}` is a pattern and no address"),
            "name one address; only lists of the configuration know patterns",
        ),
        false => Ok(address),
    }
}

/// Parses `24h` (an age), a day in UTC (its beginning), or an instant.
pub fn instant(typed: &str) -> Result<Timestamp, Failure> {
    let ago = || {
        let (count, unit) = typed.split_at(typed.find(|c: char| !c.is_ascii_digit())?);
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return None,
        };
        let span = Duration::from_secs(count.parse::<u64>().ok()?.checked_mul(seconds)?);
        // A time before 1970 is a typing error.
        Some(SystemClock::new().now().minus(span))
            .filter(|at| Timestamp::parse(THE_FIRST).is_some_and(|first| *at > first))
    };
    let day = || Timestamp::parse(&format!("{typed}T00:00:00Z"));
    Timestamp::parse(typed).or_else(day).or_else(ago).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("`{typed}` is not a time")).hint(
            "write a span such as `24h` or `7d`, a day such as 2026-11-20 (from midnight UTC), or an instant such as 2026-11-20T09:00:00Z",
        )
    })
}
