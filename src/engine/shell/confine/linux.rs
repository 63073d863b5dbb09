//! The second layer on Linux: resource limits; Landlock, where the kernel has it; seccomp, without which no command is run.

use super::system_calls::{ABSENT, CREATED_MODES, DENIED, FILE_MODES, NETWORK};
use crate::mutants::is_off;
use crate::shell::limits::CommandLimits;
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Architecture by seccompiler's name. A program of another one, such as 32-bit x86, is killed at its first system call.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &str = "x86_64";
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: &str = "aarch64";
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: &str = "unknown";

/// Bit of the numbers of the x32 ABI, which reaches the same calls by other numbers.
const X32: i64 = 0x4000_0000;
/// Flags of `clone` that make namespaces: `CLONE_NEWNS`, `CGROUP`, `UTS`, `IPC`, `USER`, `PID`, `NET`, `TIME`.
const NAMESPACES: [u64; 8] = [
    0x0002_0000,
    0x0200_0000,
    0x0400_0000,
    0x0800_0000,
    0x1000_0000,
    0x2000_0000,
    0x4000_0000,
    0x0000_0080,
];
/// Set-user-id and set-group-id: the engine's user must get no program of the command's.
const SET_ID: [u64; 2] = [0o4000, 0o2000];

/// Confines this process, its threads to come and everything that it starts; `writable`: folders in which they may write,
/// `removable`: folders in which they may remove only. Returns whether Landlock holds; without it the mounts alone do. Errors: a limit cannot be set, or the kernel has no seccomp.
pub fn confine(
    limits: &CommandLimits,
    writable: &[&Path],
    removable: &[&Path],
) -> io::Result<bool> {
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
    set(Resource::Fsize, limits.file_bytes_max)?;
    set(Resource::Nofile, limits.open_files_max)?;
    // Not counted for root (setrlimit(2)); the stage counts, too.
    set(Resource::Nproc, limits.processes_max)?;
    // The mounts deny what Landlock would: an old kernel has the ones and not the other.
    let has_landlock = restrict_files(writable, removable).unwrap_or(false);
    restrict_calls()?;
    Ok(has_landlock)
}

/// Returns whether the kernel has Landlock.
fn restrict_files(writable: &[&Path], removable: &[&Path]) -> Result<bool, landlock::RulesetError> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
        path_beneath_rules,
    };
    const VERSION: ABI = ABI::V5;
    const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(VERSION))?;
    if !is_off("G21") {
        // No rule follows: no port is opened or connected to.
        ruleset = ruleset.handle_access(AccessNet::from_all(VERSION))?;
    }
    let ruleset = ruleset
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::from_read(VERSION)))?
        .add_rules(path_beneath_rules(DEVICES, AccessFs::from_file(VERSION)))?
        .add_rules(path_beneath_rules(writable, AccessFs::from_all(VERSION)))?
        .add_rules(path_beneath_rules(
            removable,
            AccessFs::RemoveFile | AccessFs::RemoveDir,
        ))?;
    Ok(ruleset.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

fn restrict_calls() -> io::Result<()> {
    let mut denied: Rules = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    if !is_off("G21") {
        denied.extend(NETWORK.iter().map(|call| (*call, Vec::new())));
    }
    denied.insert(libc::SYS_clone, any_bit(0, &NAMESPACES)?);
    for (call, mode) in FILE_MODES {
        denied.insert(*call, any_bit(*mode, &SET_ID)?);
    }
    for (call, flags, mode) in CREATED_MODES {
        denied.insert(*call, created_with_set_id(*flags, *mode)?);
    }
    let absent = ABSENT.iter().map(|call| (*call, Vec::new())).collect();
    // A library that finds a call missing takes another way; one that may not make it gives up.
    install(absent, libc::ENOSYS)?;
    install(denied, libc::EPERM)
}

/// Returns rules that match when one of these bits of an argument is set.
fn any_bit(argument: u8, bits: &[u64]) -> io::Result<Vec<SeccompRule>> {
    let rules = bits
        .iter()
        .map(|bit| SeccompRule::new(vec![has_bit(argument, *bit)?]));
    rules.collect::<Result<_, _>>().map_err(failed)
}

/// Returns rules that match when a file would be created with a set-id bit.
fn created_with_set_id(flags: u8, mode: u8) -> io::Result<Vec<SeccompRule>> {
    let created = u64::from(libc::O_CREAT.cast_unsigned());
    let rules = SET_ID
        .iter()
        .map(|bit| SeccompRule::new(vec![has_bit(flags, created)?, has_bit(mode, *bit)?]));
    rules.collect::<Result<_, _>>().map_err(failed)
}

fn has_bit(argument: u8, bit: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(bit),
        bit,
    )
}

/// Answers these system calls with an error number, and allows all others.
fn install(rules: Rules, errno: libc::c_int) -> io::Result<()> {
    let of_x32: Rules = match ARCHITECTURE {
        "x86_64" => rules
            .iter()
            .map(|(call, of)| (call | X32, of.clone()))
            .collect(),
        _ => Rules::new(),
    };
    let filter = SeccompFilter::new(
        rules.into_iter().chain(of_x32).collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno.cast_unsigned()),
        ARCHITECTURE.try_into().map_err(failed)?,
    );
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(failed)?;
    // Sets `PR_SET_NO_NEW_PRIVS` first.
    seccompiler::apply_filter(&program).map_err(|error| io::Error::other(error.to_string()))
}

fn failed(error: BackendError) -> io::Error {
    io::Error::other(error.to_string())
}
