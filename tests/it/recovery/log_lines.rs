//! Log lines that cannot be written: a full disk, a closed pipe, a pipe that nobody reads. The engine loses the lines, and
//! nothing else.

use super::place::{Running, Sink, send, workspace};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;
use serde_json::json;
use std::fs::File;
use std::io::{PipeReader, Write, pipe};
use std::process::Stdio;
use std::time::Duration;

const LETTERS: usize = 20;
/// From SIGTERM to the end, with a drain of three seconds.
const END: Duration = Duration::from_secs(6);

/// A pipe into which nothing more goes, and its other end.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, mut writer) = pipe().expect("a pipe");
    let blocking = fcntl_getfl(&writer).expect("its flags");
    fcntl_setfl(&writer, blocking | OFlags::NONBLOCK).expect("other flags");
    while writer.write(&[b'.'; 4096]).is_ok() {}
    while writer.write(b".").is_ok() {}
    // Whoever inherits it waits, as for any pipe.
    fcntl_setfl(&writer, blocking).expect("its flags again");
    (reader, writer.into())
}

fn letters_are_answered_and_the_engine_ends(log: Stdio) {
    let sink = Sink::default();
    let dir = workspace(sink.open(), &json!({ "rules": [{ "say": "At ten." }] }));
    let config = dir.path().join("configs/gateway.json");
    let text = std::fs::read_to_string(&config).expect("a file");
    let text = text.replace("\"limits\":{", "\"limits\":{\"drain_max\":\"3s\",");
    std::fs::write(config, text).expect("a file");
    let engine = Running::logging(dir.path(), "trace", log, &[]);
    for letter in 0..LETTERS {
        send(engine.port, &format!("{letter}@guest.example"), "When?");
    }
    super::place::until("the answers", || {
        sink.mails.lock().expect("a lock").len() == LETTERS
    });
    engine.signal(Signal::TERM);
    let (status, _, took) = engine.ended();
    assert_eq!(status.code(), Some(0));
    assert!(took < END, "{took:?}");
}

#[test]
fn a_full_disk_below_the_log_stops_nothing() {
    letters_are_answered_and_the_engine_ends(
        File::options()
            .write(true)
            .open("/dev/full")
            .expect("Linux")
            .into(),
    );
}

#[test]
fn a_log_whose_reader_has_gone_stops_nothing() {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    letters_are_answered_and_the_engine_ends(writer.into());
}

#[test]
#[ignore = "second tier"]
fn a_log_that_nobody_reads_stops_nothing() {
    let (_unread, writer) = full_pipe();
    letters_are_answered_and_the_engine_ends(writer);
}

#[test]
fn an_error_on_a_pipe_that_nobody_reads_still_ends_the_command() {
    let (_unread, writer) = full_pipe();
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = super::place::attache(dir.path(), &["serve"]);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()
        .expect("the binary runs");
    let mut status = None;
    super::place::until("the end", || {
        status = child.try_wait().expect("a child");
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(78));
}
