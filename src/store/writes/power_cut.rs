//! A simulated power cut, for tests of recovery.

/// Simulated power cut, for tests: the number of its commit, counted from 1, and the state of that
/// commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerCut {
    /// Nothing of the group is on disk.
    BeforeCommit(u64),
    /// The group is on disk, and no caller was answered.
    AfterCommit(u64),
    /// The machine stays on; the disk answers the commit with an I/O error.
    BrokenDisk(u64),
}

impl PowerCut {
    pub(in crate::store) fn strikes(self, commit: u64) -> bool {
        match self {
            PowerCut::BeforeCommit(at) | PowerCut::AfterCommit(at) | PowerCut::BrokenDisk(at) => {
                commit >= at
            }
        }
    }
}
