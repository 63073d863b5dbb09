//! What a section measures with: the processor's time of this process, the disk's rate, waits in order.

use std::time::{Duration, Instant};

/// User and system time of this process so far; the dependencies's own clients are part of it.
pub fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the process may hold blanks; after it come the fields from the third on (proc_pid_stat(5)).
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|ticks| ticks.parse::<u64>().ok())
            .unwrap_or(0)
    };
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// Bytes that this process read from disk and wrote to disk so far (proc_pid_io(5)); zeros where that cannot be read.
pub fn disk_bytes() -> [u64; 2] {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    ["read_bytes: ", "write_bytes: "].map(|name| {
        let line = io.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
    })
}

/// fdatasync after each small append: the floor under every durable accept.
pub fn disk_commits_per_second() -> f64 {
    use std::io::Write;
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = std::fs::File::create(folder.path().join("probe")).expect("a file");
    let began = Instant::now();
    let mut commits = 0;
    while began.elapsed() < Duration::from_secs(1) {
        file.write_all(&[0; 4096]).expect("a write");
        file.sync_data().expect("a sync");
        commits += 1;
    }
    f64::from(commits) / began.elapsed().as_secs_f64()
}

/// The wait, in milliseconds, that so many of a hundred do not exceed.
pub fn percentile(waits: &mut [Duration], of_hundred: usize) -> f64 {
    waits.sort();
    waits
        .get(waits.len().saturating_sub(1) * of_hundred / 100)
        .map_or(0.0, |wait| wait.as_secs_f64() * 1e3)
}

/// The middle of some figures.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Adds a line of JSON to the file that `ATTACHE_BENCH_JSON` names, for figures that are kept.
pub fn record(figures: &serde_json::Value) {
    use std::io::Write;
    let Some(path) = std::env::var_os("ATTACHE_BENCH_JSON") else {
        return;
    };
    let file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(path);
    writeln!(file.expect("a file for figures"), "{figures}").expect("a line");
}
