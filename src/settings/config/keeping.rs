//! `configs/keeping.json`: backups that the engine makes by itself, and what it throws away by age.

use crate::config::values::section::*;
use chrono::{NaiveTime, Timelike};
use std::path::PathBuf;

/// Bounds of the interval between two backups.
const EVERY_MIN: Duration = Duration::from_secs(3600);
const EVERY_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Most backups that are kept: each is a whole copy.
const COUNT_MAX: u32 = 1000;
/// Least age of what is thrown away: a shorter one is a typing error, such as `90m` for ninety months.
const AGE_MIN: Duration = Duration::from_secs(24 * 3600);

/// Folders that each backup copies.
const OF_WORKSPACE: [&str; 5] = [
    "configs",
    "personas",
    "skills",
    "data/tokens",
    "data/workspaces",
];

/// Backups, and what is thrown away by age. Without this file there is neither.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/keeping.json")]
pub struct TypedKeeping {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Backups of the whole workspace, made beside the engine's work.
    backup: Option<TypedScheduledBackup>,
    /// Ages after which data is thrown away, as `attache gc --kind` does it. A kind that is left out stays.
    #[serde(default)]
    retention: RetentionAges,
}

/// Backups of the whole workspace, made beside the engine's work.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedScheduledBackup {
    /// Interval between two backups, from `1h` to `366d`.
    #[serde(default = "default_every", with = "TypedDuration")]
    #[schemars(default = "every_text")]
    every: Duration,
    /// Time of day in UTC from which the intervals count, such as `03:30`.
    #[serde(default = "default_at")]
    at: String,
    /// Folder that gets a folder for each backup, relative to the workspace; best on another disk.
    #[schemars(length(min = 1))]
    folder: String,
    /// Number of good backups that are kept.
    #[serde(default = "default_count")]
    #[schemars(range(min = 1, max = 1000))]
    count: u32,
}

const fn default_every() -> Duration {
    Duration::from_secs(24 * 3600)
}

fn every_text() -> String {
    spell(default_every())
}

fn default_at() -> String {
    "03:00".to_owned()
}

const fn default_count() -> u32 {
    7
}

macro_rules! retention_ages {
    ($($(#[$doc:meta])* $kind:ident)*) => {
        /// Ages after which data is thrown away, by kind.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct RetentionAges {
            $(
                $(#[$doc])*
                #[serde(with = "optional_duration")]
                #[schemars(with = "Option<TypedDuration>")]
                pub $kind: Option<Duration>,
            )*
        }

        impl RetentionAges {
            /// Returns the age of every kind, in the order of `attache gc`.
            pub fn kinds(&self) -> Vec<(&'static str, Option<Duration>)> {
                vec![$((stringify!($kind), self.$kind)),*]
            }
        }
    };
}

retention_ages! {
    /// Requests to providers and their answers, of runs that succeeded or were cancelled.
    turns
    /// Raw bytes of letters.
    letters
    /// Bytes of attachments.
    attachments
    /// Bytes and attachments of letters that were filed and whose senders prove nothing.
    unproven
    /// Bytes of mails that everybody has, or that were cancelled.
    mails
    /// Records of forks, and their folders.
    forks
    /// Earlier versions of personas' files.
    versions
    /// Notices that were told.
    notices
    /// The log of what was decided.
    decisions
    /// What `attache tail` shows of the past.
    feed
    /// What webhooks were told, or could not be told.
    webhooks
    /// Counts of automatic mails.
    counts
}

/// Serde form of an age that may be left out.
mod optional_duration {
    use super::{Duration, TypedDuration, spell};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(age: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        age.map(spell).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<TypedDuration>::deserialize(from)?.map(|typed| typed.0))
    }
}

/// Backups, and what is thrown away by age.
#[derive(Debug, Clone, Default, Serialize)]
pub struct KeepingSettings {
    /// `None`: the engine makes none.
    pub backup: Option<ScheduledBackup>,
    pub retention: RetentionAges,
}

/// Backups that the engine makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScheduledBackup {
    #[serde(with = "TypedDuration")]
    pub every: Duration,
    /// Time of day in UTC from which the intervals count.
    pub at: NaiveTime,
    /// Absolute path.
    pub folder: PathBuf,
    pub count: usize,
}

impl ScheduledBackup {
    /// Returns the time of day as a span since midnight.
    pub fn since_midnight(&self) -> Duration {
        Duration::from_secs(u64::from(self.at.num_seconds_from_midnight()))
    }
}

/// Resolves `configs/keeping.json`. Problems go to the context.
pub fn resolve(file: &ConfigFile<TypedKeeping>, ctx: &mut CheckContext<'_>) -> KeepingSettings {
    let (backup, retention) = (&file.typed.backup, &file.typed.retention);
    let place = &mut ctx.place(file, "");
    for (kind, age) in retention.kinds() {
        if age.is_some_and(|age| age < AGE_MIN) {
            let hint = "`d` is days, `m` is minutes: write `90d` for three months";
            place.refuse(&format!("retention/{kind}"), "must be `1d` or more", hint);
        }
    }
    KeepingSettings {
        backup: backup
            .as_ref()
            .and_then(|typed| resolve_backup(typed, &mut place.under("backup"))),
        retention: retention.clone(),
    }
}

fn resolve_backup(
    typed: &TypedScheduledBackup,
    place: &mut CheckPlace<'_, '_>,
) -> Option<ScheduledBackup> {
    if !(EVERY_MIN..=EVERY_MAX).contains(&typed.every) {
        let hint = "`d` is days, `h` hours, `m` minutes; once a day is `1d`";
        place.refuse("every", "must be from `1h` to `366d`", hint);
    }
    if !(1..=COUNT_MAX).contains(&typed.count) {
        let hint = "the oldest good backup is removed when there are more";
        place.refuse("count", format!("must be from 1 to {COUNT_MAX}"), hint);
    }
    let at = NaiveTime::parse_from_str(&typed.at, "%H:%M").ok();
    if at.is_none() {
        let hint = "write hours and minutes in UTC, such as `03:30`";
        place.refuse("at", format!("`{}` is no time of day", typed.at), hint);
    }
    let workspace = place.ctx.workspace;
    let folder = below(workspace, &typed.folder);
    let is_copied = |part: &&str| folder.starts_with(workspace.join(part));
    if folder == workspace || OF_WORKSPACE.iter().any(is_copied) {
        let message = format!("`{}` is a folder that each backup copies", typed.folder);
        place.refuse(
            "folder",
            message,
            "name another folder, best on another disk",
        );
    }
    Some(ScheduledBackup {
        every: typed.every,
        at: at?,
        folder,
        count: usize::try_from(typed.count).unwrap_or(1),
    })
}
