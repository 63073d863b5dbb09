//! The lock-down of the process that reads: what it may not do, tried; and the same without it, as the control.

use attache::extract::{Attempts, SELF_TEST, WORKER, attempts};
use std::process::Command;

#[test]
fn a_locked_process_can_do_nothing_but_compute() {
    let child = Command::new(env!("CARGO_BIN_EXE_attache"))
        .args([WORKER, SELF_TEST])
        .output()
        .expect("the binary");
    assert!(child.status.success(), "{child:?}");
    let locked: Attempts = serde_json::from_slice(&child.stdout).expect("what it tried");
    let nothing = Attempts {
        opens_a_file: false,
        makes_a_file: false,
        makes_a_socket: false,
        starts_a_program: false,
        starts_a_thread: false,
        sends_a_signal: false,
        takes_a_gigabyte: false,
    };
    assert_eq!(locked, nothing);
    let everything = Attempts {
        opens_a_file: true,
        makes_a_file: true,
        makes_a_socket: true,
        starts_a_program: true,
        starts_a_thread: true,
        sends_a_signal: true,
        takes_a_gigabyte: true,
    };
    assert_eq!(attempts(), everything, "without the lock-down");
}
