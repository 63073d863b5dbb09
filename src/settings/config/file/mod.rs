//! One configuration file: its text, the positions in it, and the problems found there. Nothing here
//! knows a setting.
//!
//! | file | subject |
//! | --- | --- |
//! | `text_file` | reads a text and tells usual faults apart |
//! | `problem` | a problem with its position and hint |
//! | `secret_keys` | secrets that stand in a file of the configuration |
//! | `syntax` | messages for a text that is not JSON |
//! | `document` | the JSON value, and the position of each key and value |
//! | `snapshot` | the texts of all files, for another process |
//! | `source` | where files are read from: the workspace or a snapshot |
//! | `json_schema` | the JSON Schema of a type |
//! | `duration` | durations such as `30s` |
//! | `check` | finds every problem of a file by its schema, then reads it into its type |
//! | `misspelled` | names in the workspace that are nearly those that are read |
//! | `open_files` | files that other users of the machine may write |
//! | `paths` | paths of the files, and of what they name |
//! | `private_file` | writes a file that its user alone may read |

mod check;
mod document;
pub mod duration;
pub mod json_schema;
mod misspelled;
pub mod open_files;
mod paths;
mod private_file;
mod problem;
mod secret_keys;
mod snapshot;
mod source;
mod syntax;
pub mod text_file;

pub use check::{ConfigFile, read};
pub use document::{Document, child};
pub use duration::{TypedDuration, spell};
pub use misspelled::misspelled;
pub use open_files::{WritableFile, writable_files, writable_part};
pub use paths::{
    CONTEXT_FILE, GATEWAY_FILE, HOOKS_FILE, INFERENCE_FILE, KEEPING_FILE, MCP_FILE, MCP_LOCK_FILE,
    OWN_TOOLS_FOLDER, POLICY_FILE, PRICES_FILE, SECURITY_FILE, SKILLS_FILE, WEB_FILE, below,
    is_program, is_text_without_interpreter, own_tool_file, persona_file, persona_policy_file,
};
pub use private_file::write_private;
pub use problem::{ConfigErrors, Problem, nearest};
pub use snapshot::Snapshot;
pub use source::{ConfigLocation, ConfigSource, KeptFiles};
