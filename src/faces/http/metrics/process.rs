//! What the process and its folder take, by the names that Prometheus' own libraries use.

use super::exposition::{Exposition, SampleKind};
use crate::domain::Timestamp;
use crate::gateway::intake::free_disk_bytes;
use std::path::Path;

/// Writes what this process takes, and what lies in `data`. What the system does not tell is left out.
pub(super) fn add_to(to: &mut Exposition, data: &Path, started: Timestamp) {
    let mut gauge = |name, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            to.family(name, SampleKind::Gauge, help).sample(&[], value);
        }
    };
    let size = |name: &str| {
        std::fs::metadata(data.join(name))
            .ok()
            .map(|file| file.len() as f64)
    };
    gauge(
        "attache_database_bytes",
        "Size of the database.",
        size("attache.db"),
    );
    gauge(
        "attache_database_log_bytes",
        "Size of the database's log.",
        size("attache.db-wal"),
    );
    let free = free_disk_bytes(data).ok().map(|bytes| bytes as f64);
    gauge(
        "attache_disk_free_bytes",
        "Free space of the disk below `data`.",
        free,
    );
    let started = started.as_millis() as f64 / 1e3;
    gauge(
        "process_start_time_seconds",
        "Start of the process, in seconds since 1970.",
        Some(started),
    );
    gauge(
        "process_resident_memory_bytes",
        "Memory that the process holds.",
        resident_bytes(),
    );
    let files = std::fs::read_dir("/proc/self/fd")
        .ok()
        .map(|files| files.count() as f64);
    gauge("process_open_fds", "Open files and sockets.", files);
}

/// Resident pages times their size (proc_pid_statm(5)).
fn resident_bytes() -> Option<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as f64)
}
