//! Documents that come with letters: read rightly, by a process that can do nothing else, whatever is in them.

mod crafted;
mod hostile;
pub mod letters;
mod locked;
pub mod made;
mod right;
mod thousands;

use attache::extract::{ExtractLimits, Extractor};

/// A reader that starts the real binary.
fn extractor() -> Extractor {
    with(ExtractLimits::default())
}

fn with(limits: ExtractLimits) -> Extractor {
    Extractor::new(env!("CARGO_BIN_EXE_attache").into(), limits)
}
