//! What keeps a database for years: versions of the program, upgrades, copies.
//!
//! - `versions`: versions that have written it, migrations that it has.
//! - `before_upgrade`: the copy that is made before an upgrade. `migrate`: the upgrade. `upgrade_check`: what it would do.
//! - `verify`: checks of a copy. `backups`: those that were tried.
//! - `retention`: pruning by the engine itself, in steps.
//! - `notes`: when each kind of maintenance was done last.
//!
//! Not here: pruning by age, which is `gc`.

pub mod versions;
pub mod before_upgrade;
pub mod migrate;
pub mod upgrade_check;
pub mod verify;
pub mod backups;
pub mod retention;
