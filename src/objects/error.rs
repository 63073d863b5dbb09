//! Reasons why bytes could not be put or read.

use std::time::Duration;

/// Remedy for an object that is lost.
pub const LOST_REMEDY: &str = "something else has changed the object store: bring the object back from its versions or a copy";

/// Reason why bytes could not be put or read.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// It refused, or cannot be reached; a later try may succeed.
    #[error("the object store {place} cannot be used")]
    Away {
        place: String,
        #[source]
        source: object_store::Error,
    },
    /// It did not answer in time; a later try may succeed.
    #[error("the object store {place} did not answer within {} s", after.as_secs())]
    Late { place: String, after: Duration },
    /// The folder of the objects is not there, or cannot be used.
    #[error("the folder of objects `{folder}` cannot be used")]
    Folder {
        folder: String,
        #[source]
        source: std::io::Error,
    },
    /// The settings are not those of an object store.
    #[error("{0}")]
    Settings(String),
    /// A row names an object, and no object store is configured.
    #[error("bytes are in an object store, and `configs/keeping.json` names none under `objects`")]
    NotConfigured,
    /// No object has the name.
    #[error("the object `{name}` is missing in {place}")]
    Missing { name: String, place: String },
    /// Its objects may be those of another database's rows.
    #[error(
        "nothing is deleted in the object store {place}: another database has used it for the same objects, which is a copy of this \
         one or of which this one is a copy"
    )]
    NotHolder { place: String },
    /// The bytes are not those that were put.
    #[error("the object `{name}` in {place} is not what was put there")]
    Damaged { name: String, place: String },
}

impl ObjectError {
    /// Reports whether the object itself is lost; other errors may pass.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Damaged { .. })
    }

    /// Reports whether the object store works, and another database deletes there.
    pub fn is_not_holder(&self) -> bool {
        matches!(self, Self::NotHolder { .. })
    }

    /// Returns a remedy for the operator.
    pub fn remedy(&self) -> String {
        match self {
            Self::Away { .. } | Self::Late { .. } => {
                "see whether the object store works, and whether `objects` in `configs/keeping.json` and the keys in `.secrets` \
                 are right; `attache doctor --online` tries it"
                    .to_owned()
            }
            Self::Folder { folder, .. } => format!(
                "make the folder `{folder}`, or mount it, and let the engine's user write there; or name another one under \
                 `objects` in `configs/keeping.json`"
            ),
            Self::Settings(_) => "`attache config check` says what to write".to_owned(),
            Self::NotConfigured => "write `objects` into `configs/keeping.json` again, as it was when the bytes were stored; rows \
                 name their objects below its `url`"
                .to_owned(),
            Self::NotHolder { .. } => "copy the objects to another place, and name that as the `url` of one of the two, under `objects` in \
                 `configs/keeping.json`; where this one alone uses them (the other is gone, or this one was restored, moved or \
                 migrated), `attache objects claim --yes`"
                .to_owned(),
            Self::Missing { .. } | Self::Damaged { .. } => LOST_REMEDY.to_owned(),
        }
    }
}
