//! Processes of the sandbox, and what its workspace holds, as the stage sees them.

use std::fs;
use std::path::Path;

/// Fields of `/proc/PID/stat` behind the name in parentheses (proc(5)): number of threads, and resident pages.
const THREADS_FIELD: usize = 17;
const RESIDENT_FIELD: usize = 21;

/// Processes in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Processes and their threads.
    pub threads: u64,
    pub resident_bytes: u64,
}

/// Adds up the processes of this namespace, without this one. More processes than `processes_max` are counted only: a fork
/// bomb makes new ones faster than each can be looked at.
pub fn processes(page_bytes: u64, processes_max: u64) -> ProcessUsage {
    let own = std::process::id();
    let mut usage = ProcessUsage::default();
    let Ok(listed) = fs::read_dir("/proc") else {
        return usage;
    };
    let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let pids: Vec<u32> = listed
        .flatten()
        .filter_map(pid)
        .filter(|pid| *pid != own)
        .collect();
    if pids.len() as u64 > processes_max {
        usage.threads = pids.len() as u64;
        return usage;
    }
    for pid in pids {
        // A process that has ended meanwhile counts for nothing.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some((threads, pages)) = read_stat(&stat) {
            usage.threads += threads;
            usage.resident_bytes += pages * page_bytes;
        }
    }
    usage
}

/// Returns the threads and the resident pages of a process.
fn read_stat(stat: &str) -> Option<(u64, u64)> {
    // The name may hold blanks and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let threads = fields.nth(THREADS_FIELD)?.parse().ok()?;
    let pages = fields
        .nth(RESIDENT_FIELD - THREADS_FIELD - 1)?
        .parse()
        .ok()?;
    Some((threads, pages))
}

/// Reports whether a folder holds more than this. Links are not followed; what vanishes meanwhile is not counted.
pub fn is_over(folder: &Path, bytes_max: u64, files_max: usize) -> bool {
    let (mut bytes, mut files) = (0u64, 0usize);
    let mut left = vec![folder.to_path_buf()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            files += 1;
            if metadata.is_dir() {
                left.push(entry.path());
            } else if metadata.is_file() {
                bytes = bytes.saturating_add(metadata.len());
            }
            if bytes > bytes_max || files > files_max {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_hides_no_number() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 39 19 3 0 100 8192 25 18446744073709551615 1 1 0";
        assert_eq!(read_stat(stat), Some((3, 25)));
        assert_eq!(read_stat("7 (x"), None);
    }
}
