//! Opens an address in the browser of whoever types the command.

use crate::config::environment;
use std::process::{Command, Stdio};

/// Program that opens an address in the browser of the desktop.
const OPENER: &str = match cfg!(target_os = "macos") {
    true => "open",
    false => "xdg-open",
};

/// Starts the program that `BROWSER` names, or the desktop's own; `false`: there is none. It is not waited for: the browser may
/// be what it starts, and outlives the command.
pub fn open(address: &str) -> bool {
    let named = environment("BROWSER").filter(|program| !program.trim().is_empty());
    let program = named.unwrap_or_else(|| OPENER.to_owned());
    let mut command = Command::new(program.trim());
    command
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().is_ok()
}
