//! Locks that a write takes first, for as long as its transaction lasts
//! (postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS).

/// Begins a transaction that is alone, whatever its scope. The first number of the lock is ours,
/// `ATTE` in ASCII, so that other programs may have locks in the same database. The epoch comes last,
/// and is read after the lock is had.
pub(in crate::store) const BEGIN_ALONE: &str = "
    BEGIN; SELECT pg_advisory_xact_lock(1096045637, 0); SELECT epoch FROM engine WHERE id = 1";

#[cfg(test)]
mod tests {
    use super::BEGIN_ALONE;

    #[test]
    fn the_first_number_of_the_lock_spells_our_name() {
        let number = i32::from_be_bytes(*b"ATTE");
        assert!(BEGIN_ALONE.contains(&format!("({number}, 0)")));
    }
}
