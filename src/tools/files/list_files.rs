//! `list_files`: lists the persona's folder. The smallest tool: copy this file to start a new one.

use crate::tools::contract::arguments::read_args;
use crate::tools::files::folder::{
    is_private_name, label_of_names, objection, on_disk, open_folder, path_error, real_path,
};
use crate::tools::{
    Effects, Reader, ResultWords, Tool, ToolCall, ToolCapabilities, ToolClass, ToolDeclaration,
    ToolError, ToolNeed, ToolOutcome, arguments_schema,
};
use cap_std::fs_utf8::Dir;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Most entries of one answer; further ones are left out, and the answer says so.
const ENTRIES_MAX: usize = 500;
/// Deepest folder below the listed one that is entered.
const DEPTH_MAX: usize = 6;

/// Text that the model reads.
const DESCRIPTION: &str =
    "Lists the files in your folder and its subfolders, with their sizes in bytes.";

pub struct ListFiles;

/// Arguments, with the descriptions that the model reads.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListFilesArgs {
    /// A subfolder such as `knowledge`. Default: all.
    path: Option<String>,
}

impl Tool for ListFiles {
    fn needs(&self) -> &'static [ToolNeed] {
        &[ToolNeed::Orders]
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: "list_files".to_owned(),
            description: DESCRIPTION.to_owned(),
            input_schema: arguments_schema::<ListFilesArgs>(),
            class: ToolClass::Repeatable,
            effects: Effects::NONE,
            // What comes from elsewhere, such as a web page, is `Unknown`.
            result_words: ResultWords::Engine,
            capabilities: ToolCapabilities {
                files: true,
                ..ToolCapabilities::NONE
            },
        }
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let path = read_args::<ListFilesArgs>(call.args)?
                .path
                .unwrap_or_else(|| ".".to_owned());
            let (bytes_max, reader) = (call.limits.result_bytes_max, call.reader);
            let (result, has_private) = on_disk(call.env.files()?, move |folder| {
                list(folder, &path, bytes_max, reader)
            })
            .await?;
            Ok(ToolOutcome {
                result,
                label: label_of_names(has_private),
                ..ToolOutcome::default()
            })
        })
    }
}

/// Returns the entries, and whether names that are for the owner alone are among them.
fn list(
    folder: &Dir,
    path: &str,
    bytes_max: usize,
    reader: Reader,
) -> Result<(Value, bool), ToolError> {
    let path = if path.is_empty() { "." } else { path };
    let real = real_path(folder, path, reader)?;
    let top = open_folder(folder, &real)?;
    let mut listing = Listing {
        entries: Vec::new(),
        bytes_left: bytes_max / 2,
        truncated: false,
        has_private: false,
        reader,
    };
    let prefix = if path == "." {
        String::new()
    } else {
        format!("{}/", path.trim_end_matches('/'))
    };
    let real = if real == "." {
        String::new()
    } else {
        format!("{real}/")
    };
    listing
        .add(&top, (&prefix, &real), 0)
        .map_err(|error| path_error(path, &error))?;
    let result = json!({ "entries": listing.entries, "truncated": listing.truncated });
    Ok((result, listing.has_private))
}

struct Listing {
    entries: Vec<Value>,
    /// Estimated bytes by which the result may still grow.
    bytes_left: usize,
    truncated: bool,
    has_private: bool,
    reader: Reader,
}

impl Listing {
    /// Adds the entries of a folder. `prefix` is its requested path, `real` the path with links
    /// followed.
    fn add(
        &mut self,
        dir: &Dir,
        (prefix, real): (&str, &str),
        depth: usize,
    ) -> std::io::Result<()> {
        // A name that is not UTF-8 cannot be passed to any tool, so it is not listed.
        let readable = dir
            .entries()?
            .filter_map(Result::ok)
            .filter_map(|e| Some((e.file_name().ok()?, e)));
        let shown = |name: &str| {
            !name.starts_with('.') && objection(&format!("{real}{name}"), self.reader).is_ok()
        };
        let mut found: Vec<_> = readable
            .filter(|(name, _)| shown(name))
            .take(ENTRIES_MAX + 1)
            .collect();
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, entry) in found {
            let (path, below) = (format!("{prefix}{name}"), format!("{real}{name}/"));
            let cost = path.len() + 48;
            if self.entries.len() == ENTRIES_MAX || cost > self.bytes_left {
                self.truncated = true;
                return Ok(());
            }
            self.bytes_left -= cost;
            self.has_private |= is_private_name(below.trim_end_matches('/'));
            let kind = entry.file_type()?;
            if kind.is_file() {
                self.entries
                    .push(json!({"path": path, "type": "file", "bytes": entry.metadata()?.len()}));
            } else if kind.is_dir() {
                self.entries.push(json!({"path": path, "type": "folder"}));
                match depth < DEPTH_MAX {
                    true => {
                        self.add(&entry.open_dir()?, (&format!("{path}/"), &below), depth + 1)?;
                    }
                    false => self.truncated = true,
                }
            } else {
                // Links are not followed, so that a cycle of them ends.
                self.entries.push(json!({"path": path, "type": "other"}));
            }
        }
        Ok(())
    }
}
