//! What keeps an installation healthy for years: the audit, backups, exports, and what may be thrown away.

mod attachment_ranges;
mod audit;
pub mod backup;
mod export;
pub mod gc;
pub mod workspace;
mod kept_bytes;
mod kept_database;
mod leftovers;
mod damage;
pub mod dying;
mod texts;
pub mod erasure;
mod erased_again;
mod erased_backups;
mod erased_columns;
mod erased_files;
mod erased_plants;
mod erased_quotes;
mod retention;
pub mod upgrades;
pub mod whole_backup;
