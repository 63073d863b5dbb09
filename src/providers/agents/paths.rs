//! Checks the paths that an agent announces to read or write: links are resolved before paths are
//! compared.
//!
//! Changes that an agent does not announce are found afterwards (`runs::env::file_guards`).

use crate::config::{AGENT_FOLDER, Tier, is_protected};
use crate::providers::contract::traits::{AgentOptions, ToolArgs};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Arguments that hold a path, by the names that agents use.
const PATHS: [&str; 5] = ["file_path", "filePath", "filepath", "path", "notebook_path"];

/// Returns the reason to refuse a call of a tool of this tier for its paths; `None` if there is
/// none. `more` names further arguments that hold a path.
pub fn refusal(
    name: &str,
    needs: Tier,
    args: &ToolArgs,
    options: &AgentOptions,
    more: &[&str],
) -> Option<String> {
    let ToolArgs::Object(args) = args else {
        return None;
    };
    let mut paths = PATHS
        .iter()
        .chain(more)
        .filter_map(|key| args.get(*key).and_then(Value::as_str));
    paths.find_map(|path| of_path(name, needs, path, options))
}

fn of_path(name: &str, needs: Tier, path: &str, options: &AgentOptions) -> Option<String> {
    let folder = Path::new(&options.folder);
    let folder = folder
        .canonicalize()
        .unwrap_or_else(|_| folder.to_path_buf());
    let (writes, is_free) = (needs >= Tier::Write, options.tier == Tier::Full);
    let places = places(path, &folder);
    if writes
        && places
            .iter()
            .flatten()
            .any(|place| place.strip_prefix(&folder).is_ok_and(is_protected))
    {
        return Some(format!("`{name}` may not change `{path}`: no agent may"));
    }
    let (allowed, said) = match writes {
        true => (
            folder.join(AGENT_FOLDER),
            format!("{}/{AGENT_FOLDER}", options.folder),
        ),
        false => (folder, options.folder.clone()),
    };
    let is_inside = |place: &Option<PathBuf>| {
        place
            .as_ref()
            .is_some_and(|place| place.starts_with(&allowed) && !has_other_names(place))
    };
    let is_refused = !is_free && !places.iter().all(is_inside);
    is_refused.then(|| format!("`{name}` is allowed inside `{said}` only, and not through links"))
}

/// Returns the targets of a path in a folder: with `..` removed before links are followed, as many
/// programs do, and after, as the system does. `None`: the target cannot be determined.
fn places(path: &str, folder: &Path) -> [Option<PathBuf>; 2] {
    let mut plain = folder.to_path_buf();
    for part in Path::new(path).components() {
        step(&mut plain, part);
    }
    [resolved(Path::new(path), folder), resolved(&plain, folder)]
        .map(|place| place.filter(|_| !path.starts_with('~')))
}

/// Returns the longest existing part with its links resolved, and the rest as written.
fn resolved(path: &Path, folder: &Path) -> Option<PathBuf> {
    let mut place = folder.to_path_buf();
    for part in path.components() {
        step(&mut place, part);
        if place.is_symlink() {
            // A dangling link would be written through.
            place = place.canonicalize().ok()?;
        }
    }
    Some(place)
}

fn step(place: &mut PathBuf, part: Component<'_>) {
    match part {
        Component::RootDir => *place = PathBuf::from("/"),
        Component::ParentDir => {
            place.pop();
        }
        Component::Normal(name) => place.push(name),
        Component::CurDir | Component::Prefix(_) => {}
    }
}

/// Reports whether a file has hard links: another name of it may be outside the folder.
fn has_other_names(place: &Path) -> bool {
    place
        .symlink_metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.nlink() > 1)
}
