//! The lock on Linux: resource limits; Landlock with nothing granted, where the kernel has it; a seccomp list of the few
//! system calls that reading, computing and writing need. Without the last there is no decoding.

use crate::extract::limits::ExtractLimits;
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::collections::BTreeMap;
use std::io;

/// System calls that a decoder needs: memory, standard input and output, time, the end. No `open`, no `socket`, no `clone`.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// System calls for memory that must not be executable: their third argument has no `PROT_EXEC`.
const ALLOWED_FOR_DATA: &[libc::c_long] = &[libc::SYS_mmap, libc::SYS_mprotect];

/// Architecture by seccompiler's name.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &str = "x86_64";
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: &str = "aarch64";
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: &str = "unknown";

/// Bounds the process, and takes the files from it where the kernel has Landlock. Called before the thread that decodes is
/// made, which inherits it. Errors: a limit cannot be set.
pub fn bound(limits: &ExtractLimits) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let set = |resource, most| {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit)
    };
    set(Resource::As, limits.address_space_bytes_max)?;
    set(Resource::Cpu, limits.cpu_seconds_max)?;
    set(Resource::Core, 0)?;
    set(Resource::Fsize, 0)?;
    // Seccomp denies what Landlock would: an old kernel has the one and not the other.
    let _without_landlock = take_files_away();
    Ok(())
}

fn take_files_away() -> Result<(), landlock::RulesetError> {
    use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr};
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(ABI::V5))?;
    ruleset.create()?.restrict_self()?;
    Ok(())
}

/// Denies all system calls but those of computing, to every thread of the process; a denied one fails with `EPERM`.
/// Errors: the kernel has no seccomp.
pub fn lock() -> io::Result<()> {
    let failed = |error: seccompiler::BackendError| io::Error::other(error.to_string());
    let architecture = ARCHITECTURE.try_into().map_err(failed)?;
    let executable = u64::from(libc::PROT_EXEC.cast_unsigned());
    let of_data = SeccompCmpOp::MaskedEq(executable);
    let of_data = SeccompCondition::new(2, SeccompCmpArgLen::Dword, of_data, 0);
    let of_data = of_data.and_then(|condition| SeccompRule::new(vec![condition]));
    let of_data = of_data.map_err(failed)?;
    let any = ALLOWED.iter().map(|call| (*call, Vec::new()));
    let data = ALLOWED_FOR_DATA
        .iter()
        .map(|call| (*call, vec![of_data.clone()]));
    let rules: BTreeMap<i64, Vec<SeccompRule>> = any.chain(data).collect();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Errno(libc::EPERM.cast_unsigned()),
        SeccompAction::Allow,
        architecture,
    );
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(failed)?;
    seccompiler::apply_filter_all_threads(&program)
        .map_err(|error| io::Error::other(error.to_string()))
}
