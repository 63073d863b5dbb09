//! Guards that a test may switch off, to show that an attack gets through without them: `is_off("G8")` at the decision.
//!
//! `ATTACHE_MUTANT=G8` switches one guard off for the life of the process, in builds with debug assertions only: a plain
//! build has neither the names nor the variable (as with crash points, decision D-36). A guard needs a line in `GUARDS`, a
//! call site, and an attack in `tests/fixtures/attacks/` that names it and gets through when it is off.
//!
//! Absent: guards without which the same attacks were stopped all the same, so another one stands behind them: that a
//! question is decided once, and the number of a run's mails. The strict form of addresses is a type, not a decision.

/// Reports whether a test has switched a guard off. Always `false` in a plain build.
#[inline]
pub fn is_off(guard: &'static str) -> bool {
    #[cfg(debug_assertions)]
    return armed::is_off(guard);
    #[cfg(not(debug_assertions))]
    {
        let _ = guard;
        false
    }
}

/// Returns the variable by which a child process of our own learns what is off; `None` in a plain build.
#[inline]
pub fn passed_on() -> Option<(&'static str, String)> {
    #[cfg(debug_assertions)]
    return armed::passed_on();
    #[cfg(not(debug_assertions))]
    None
}

#[cfg(debug_assertions)]
pub use armed::GUARDS;

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;

    const VARIABLE: &str = "ATTACHE_MUTANT";

    /// Every guard, and what it keeps. Numbers as in the security reference; a word after the dot names a part.
    pub const GUARDS: &[(&str, &str)] = &[
        (
            "G2",
            "a signature speaks for `From` only if its domain is aligned",
        ),
        (
            "G2.content",
            "what may be another's reading of the signed bytes is no order of the owner's",
        ),
        (
            "G3",
            "results of verification count from a trusted relay only",
        ),
        ("G4", "a letter that was here before is not run again"),
        ("G5", "automatic mail is filed and not answered"),
        ("G6", "one person gets a bounded number of answers"),
        (
            "G8",
            "mail to somebody new is asked about or denied, by trust",
        ),
        (
            "G9",
            "mail to whoever may not read what the run has read is held",
        ),
        (
            "G10",
            "a URL, and a query, holds only what everybody may read",
        ),
        (
            "G10.effects",
            "calls with effects wait for the owner where words of low trust could have chosen them",
        ),
        (
            "G10.links",
            "a page to which a stranger's letter leads is the owner's to ask for",
        ),
        ("G11", "an MCP server is sent what its audience may read"),
        ("G12", "tools are closed by the trust of what was read"),
        (
            "G12.files",
            "files for the owner alone are closed to others",
        ),
        (
            "G12.page",
            "the page of a persona is closed to strangers, and its owner is not even asked",
        ),
        ("G12.search", "a search shows what all readers may see"),
        (
            "G13",
            "a run's label goes down with every text that it reads",
        ),
        (
            "G13.memory",
            "a line of the memory is shown to its readers only",
        ),
        (
            "G13.names",
            "the name of a private file is as private as its text",
        ),
        (
            "G13.withheld",
            "a text that was withheld is shown to no later run",
        ),
        (
            "G13.contacts",
            "an entry of memory is shown where everybody who reads along heard it",
        ),
        (
            "G14",
            "a decision with a digest decides only on the call of that digest",
        ),
        ("G15.expiry", "nobody decides after the end of a question"),
        ("G15.owner", "only the owner's own reply decides by mail"),
        ("G16", "a name with a private address is not connected to"),
        (
            "G16.proxy",
            "no proxy of the environment is between an address and its check",
        ),
        ("G17", "the address that was checked is connected to"),
        ("G18", "each redirect is checked like the first URL"),
        (
            "G18.rules",
            "rules are asked about each host to which a page redirects",
        ),
        ("G19", "files are opened beneath the persona's folder"),
        (
            "G19.links",
            "no link in the workspace is followed, by a reader or a writer",
        ),
        ("G20", "a file with a second name is not opened"),
        ("G21", "a command has no network"),
        ("G22", "a command sees no variable of the engine"),
        (
            "G23",
            "a tool of an MCP server is called while it is as approved",
        ),
        ("G24", "a subject has no line ends"),
        ("G27.calls", "a run makes a bounded number of tool calls"),
    ];

    pub fn passed_on() -> Option<(&'static str, String)> {
        let value = std::env::var(VARIABLE).ok()?;
        Some((VARIABLE, value))
    }

    pub fn is_off(guard: &'static str) -> bool {
        static OFF: OnceLock<Option<String>> = OnceLock::new();
        let off = OFF.get_or_init(|| {
            let value = std::env::var(VARIABLE).ok()?;
            if !GUARDS.iter().any(|(name, _)| *name == value) {
                // A run with a misspelt name would show that every guard is needless.
                tracing::error!(%value, "`{VARIABLE}` names no guard");
                std::process::abort();
            }
            Some(value)
        });
        debug_assert!(GUARDS.iter().any(|(name, _)| *name == guard), "{guard}");
        off.as_deref() == Some(guard)
    }
}
