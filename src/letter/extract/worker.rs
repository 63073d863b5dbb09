//! The child: locks itself, reads one document from standard input, and writes what it found to standard output as JSON.

use super::confine::{attempts, bound, lock};
use super::decode::decode;
use super::document::{DecodeError, Extracted};
use super::limits::ExtractLimits;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::thread;

/// First argument of the child.
pub const WORKER: &str = "extract-worker";
/// Second argument of a child that tries what it may not do.
pub const SELF_TEST: &str = "--self-test";
/// Stack of the thread that decodes: PDF and XML nest.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Exit code of a child that could not lock itself.
pub const UNLOCKED: u8 = 70;

/// Does the work of the child. `arguments`: those behind [`WORKER`].
pub fn work(arguments: &[OsString]) -> ExitCode {
    let limits = ExtractLimits::default();
    // The reason of a panic is in the file that caused it; nobody reads it here.
    std::panic::set_hook(Box::new(|_| ()));
    if let Err(error) = bound(&limits) {
        return unlocked(&error);
    }
    let is_test = arguments
        .first()
        .is_some_and(|argument| argument == SELF_TEST);
    let claimed = arguments
        .first()
        .map(|claimed| claimed.to_string_lossy().into_owned());
    let thread = thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || match lock() {
            Err(error) => unlocked(&error),
            Ok(()) if is_test => answer(&attempts()),
            Ok(()) => decoded(&claimed.unwrap_or_default(), &limits),
        });
    let ended = thread.map(thread::JoinHandle::join);
    match ended {
        Ok(Ok(code)) => code,
        _ => ExitCode::FAILURE,
    }
}

fn unlocked(error: &io::Error) -> ExitCode {
    let _nobody_reads = writeln!(
        io::stderr(),
        "cannot lock the process that reads documents: {error}"
    );
    ExitCode::from(UNLOCKED)
}

fn decoded(claimed: &str, limits: &ExtractLimits) -> ExitCode {
    let mut bytes = Vec::new();
    let most = limits.file_bytes_max as u64;
    if io::stdin()
        .lock()
        .take(most)
        .read_to_end(&mut bytes)
        .is_err()
    {
        return ExitCode::FAILURE;
    }
    let done: Result<Result<Extracted, DecodeError>, _> =
        catch_unwind(|| decode(&bytes, claimed, limits));
    let gave_up = |_| Err(DecodeError::Broken("its decoder gave up".to_owned()));
    answer(&done.unwrap_or_else(gave_up))
}

fn answer(value: &impl Serialize) -> ExitCode {
    let json = serde_json::to_vec(value).unwrap_or_default();
    let mut out = io::stdout().lock();
    let written = out.write_all(&json).and_then(|()| out.flush());
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
