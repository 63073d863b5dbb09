//! `list_files`: lists the persona's folder. The smallest tool: copy this file to start a new one.

use crate::tools::contract::*;
use crate::tools::files::folder::{
    cannot_use, is_private_name, label_of_names, objection, on_disk, open_folder, real_path,
};
use cap_std::fs_utf8::Dir;

/// Most entries of one answer; further ones are left out, and the answer says so.
const ENTRIES_MAX: usize = 500;
/// Deepest folder below the listed one that is entered.
const DEPTH_MAX: usize = 6;

/// Lists the files in your folder and its subfolders, with their sizes in bytes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListFiles {
    /// A subfolder such as `knowledge`. Default: all.
    path: Option<String>,
}

impl TypedTool for ListFiles {
    const NAME: &str = "list_files";
    // What comes from elsewhere, such as a web page, is `Unknown`.
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(files);
    const NEEDS: &'static [ToolNeed] = &[ToolNeed::Orders];

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let path = self.path.unwrap_or_else(|| ".".to_owned());
        let (bytes_max, reader) = (call.limits.result_bytes_max, call.reader);
        let (result, has_private) = on_disk(call.env.files()?, move |folder| {
            list(folder, &path, bytes_max, reader)
        })
        .await?;
        Ok(ToolOutcome::labelled(result, label_of_names(has_private)))
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
        .add(&top, &prefix, &real, 0)
        .map_err(cannot_use(path))?;
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
    fn add(&mut self, dir: &Dir, prefix: &str, real: &str, depth: usize) -> std::io::Result<()> {
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
                        self.add(&entry.open_dir()?, &format!("{path}/"), &below, depth + 1)?;
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
