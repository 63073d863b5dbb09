//! What a command may take: time, memory, processes, disk, output (SH04).

use super::{Yard, alive, is_there};
use attache::shell::{CommandEnd, CommandLimits, StopCause};
use std::time::{Duration, Instant};

const MIB: u64 = 1024 * 1024;

/// Limits for a test that should not take two minutes.
fn short() -> CommandLimits {
    CommandLimits {
        wall_ms_max: 3_000,
        ..CommandLimits::default()
    }
}

/// Resident memory of this process, which is the engine.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes
        .and_then(|number| number.parse::<u64>().ok())
        .expect("a number")
        * 1024
}

#[tokio::test]
async fn sh04_a_command_that_takes_too_long_ends_with_all_that_it_started() {
    if !is_there(&["bwrap", "ps"]) {
        return;
    }
    let limits = CommandLimits {
        wall_ms_max: 300,
        ..CommandLimits::default()
    };
    let yard = Yard::within(limits);
    let word = format!("87{}", std::process::id());
    let began = Instant::now();
    let ended = yard
        .sh(&format!(
            "trap '' TERM INT HUP; echo begun; setsid sleep {word} & sleep {word}"
        ))
        .await;
    assert_eq!(ended.end, CommandEnd::Stopped(StopCause::Time));
    assert_eq!(ended.stdout.head, "begun\n", "what it said is kept");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(alive(&word), Vec::<String>::new());
}

/// Says that this process measures its own memory, so it does nothing else.
const ALONE: &str = "ATTACHE_TEST_ALONE";

#[tokio::test]
#[ignore = "second tier"]
async fn sh04_ten_gigabytes_of_output_are_counted_and_not_kept() {
    if !is_there(&["bwrap", "head"]) {
        return;
    }
    if std::env::var(ALONE).is_err() {
        let test = "shell::bounds::sh04_ten_gigabytes_of_output_are_counted_and_not_kept";
        let me = std::env::current_exe().expect("this program");
        let mut alone = std::process::Command::new(me);
        let alone = alone
            .args(["--exact", "--include-ignored", test, "--nocapture"])
            .env(ALONE, "1")
            .output();
        let alone = alone.expect("a process");
        println!("{}", String::from_utf8_lossy(&alone.stdout));
        assert!(
            alone.status.success(),
            "{}",
            String::from_utf8_lossy(&alone.stderr)
        );
        return;
    }
    let limits = CommandLimits {
        wall_ms_max: 60_000,
        ..CommandLimits::default()
    };
    let yard = Yard::within(limits);
    let before = resident();
    let began = Instant::now();
    let ended = yard
        .sh("echo first; head -c 10G /dev/zero; echo; echo last")
        .await;
    let more = resident().saturating_sub(before);
    println!(
        "10 GB of output: {:?} in {:?}, engine +{} KiB",
        ended.end,
        began.elapsed(),
        more / 1024
    );
    let CommandEnd::Exited(0) = ended.end else {
        // A slow machine stops it; what counts is what it took.
        assert_eq!(ended.end, CommandEnd::Stopped(StopCause::Time));
        assert!(ended.stdout.bytes > 1024 * MIB);
        return;
    };
    assert_eq!(ended.stdout.bytes, 10 * 1024 * MIB + 12);
    assert!(ended.stdout.head.starts_with("first\n") && ended.stdout.tail.ends_with("\nlast\n"));
    let kept = ended.stdout.head.len() + ended.stdout.tail.len();
    assert!(kept <= 256 * 1024, "{kept}");
    assert!(more <= 50 * MIB, "{more} bytes");
}

#[tokio::test]
#[ignore = "second tier"]
async fn sh04_fork_bombs_and_memory_hogs_end_at_their_bound() {
    if !is_there(&["bwrap", "python3"]) {
        return;
    }
    let yard = Yard::within(short());
    // It doubles, as a fork bomb does, and ends at 4096 processes even if nothing stops it.
    let bomb = "b() { [ $1 = 0 ] || { b $(($1-1)) & b $(($1-1)) & }; sleep 2; }; b 11; echo over";
    let bomb = yard.sh(bomb).await;
    println!("fork bomb: {:?}", bomb.end);
    // An ordinary user's forks fail at the limit; root's, which has none, are counted.
    let is_bounded = match bomb.end {
        CommandEnd::Stopped(StopCause::Processes | StopCause::Time) => true,
        CommandEnd::Exited(_) => bomb.stderr.head.contains("fork"),
        _ => false,
    };
    assert!(is_bounded, "{bomb:?}");
    // None of these waits for the time: a slow machine may take longer than a bomb is given.
    let yard = Yard::within(CommandLimits::default());
    let threads = "import threading,time\nfor n in range(400): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\nprint('all')";
    let threads = yard.python(threads).await;
    assert!(!threads.stdout.head.contains("all"), "{threads:?}");
    let one = yard.python("x = bytearray(2 << 30); print('had it')").await;
    assert_eq!(
        (one.end.clone(), one.stdout.bytes),
        (CommandEnd::Exited(1), 0),
        "{one:?}"
    );
    assert!(one.stderr.head.contains("MemoryError"), "{one:?}");
    let many = "import os,time\nfor n in range(8): os.fork() or (bytearray(b'x') * (400 << 20), time.sleep(9))\ntime.sleep(9)";
    let many = yard.python(many).await;
    assert_eq!(many.end, CommandEnd::Stopped(StopCause::Memory), "{many:?}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn sh04_disks_of_memory_and_the_workspace_have_ends() {
    if !is_there(&["bwrap", "dd"]) {
        return;
    }
    let yard = Yard::within(short());
    for (place, most) in [("/tmp", 64 * MIB), ("/dev/shm", 16 * MIB)] {
        let filled = yard
            .said(&format!(
                "dd if=/dev/zero of={place}/x bs=1M count=200 2>/dev/null; stat -c %s {place}/x"
            ))
            .await;
        let bytes: u64 = filled.trim().parse().expect("a number");
        assert!(bytes > 0 && bytes <= most, "{place}: {bytes}");
    }
    let sparse = yard.sh("truncate -s 300M big").await;
    assert_ne!(sparse.end, CommandEnd::Exited(0), "a file beyond 256 MB");
    // The sandbox's own start counts, too, and takes a good second on a machine with other work.
    let cpu = CommandLimits {
        cpu_seconds_max: 4,
        ..CommandLimits::default()
    };
    let busy = Yard::within(cpu);
    let busy = busy.sh("while :; do :; done").await;
    assert!(matches!(busy.end, CommandEnd::Signalled(_)), "{busy:?}");
    let full = yard
        .sh("for n in 1 2 3 4 5 6 7 8; do head -c 20M /dev/zero >f$n; done; sleep 2; echo over")
        .await;
    assert_eq!(
        full.end,
        CommandEnd::Stopped(StopCause::Workspace),
        "{full:?}"
    );
    let many = Yard::within(short());
    let many = many
        .sh("n=0; while [ $n -lt 5000 ]; do : >$n; n=$((n+1)); done; sleep 2")
        .await;
    assert_eq!(
        many.end,
        CommandEnd::Stopped(StopCause::Workspace),
        "{many:?}"
    );
}
