//! Where an agent may read and write, by the paths that it announces: links are resolved before anything is compared.
//!
//! What an agent does without announcing it is found afterwards (`harness::guards`).

use super::contract::{AgentTerms, ToolArgs};
use crate::config::{AGENT_FOLDER, Tier, is_protected};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Arguments that hold a path, as agents spell them.
const PATHS: [&str; 5] = ["file_path", "filePath", "filepath", "path", "notebook_path"];

/// Why a call of a tool that needs this tier is not for the agent, by its paths; `None` if nothing speaks against it. `more` names
/// further arguments that hold one.
pub fn refusal(
    name: &str,
    needs: Tier,
    args: &ToolArgs,
    terms: &AgentTerms,
    more: &[&str],
) -> Option<String> {
    let ToolArgs::Object(args) = args else { return None };
    let mut paths = PATHS.iter().chain(more).filter_map(|key| args.get(*key).and_then(Value::as_str));
    paths.find_map(|path| of_path(name, needs, path, terms))
}

fn of_path(name: &str, needs: Tier, path: &str, terms: &AgentTerms) -> Option<String> {
    let folder = Path::new(&terms.folder);
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let (writes, is_free) = (needs >= Tier::Write, terms.tier == Tier::Full);
    let places = places(path, &folder);
    if writes && places.iter().flatten().any(|place| place.strip_prefix(&folder).is_ok_and(is_protected)) {
        return Some(format!("`{name}` may not change `{path}`: no agent may"));
    }
    let (allowed, said) = match writes {
        true => (folder.join(AGENT_FOLDER), format!("{}/{AGENT_FOLDER}", terms.folder)),
        false => (folder, terms.folder.clone()),
    };
    let is_inside = |place: &Option<PathBuf>| {
        place.as_ref().is_some_and(|place| place.starts_with(&allowed) && !has_other_names(place))
    };
    let is_refused = !is_free && !places.iter().all(is_inside);
    is_refused.then(|| format!("`{name}` is allowed inside `{said}` only, and not through links"))
}

/// Where a path leads from a folder, `..` taken before links are followed, as many programs do, and after, as the system
/// does. `None`: to nowhere that can be told.
fn places(path: &str, folder: &Path) -> [Option<PathBuf>; 2] {
    let mut plain = folder.to_path_buf();
    for part in Path::new(path).components() {
        step(&mut plain, part);
    }
    [resolved(Path::new(path), folder), resolved(&plain, folder)]
        .map(|place| place.filter(|_| !path.starts_with('~')))
}

/// The longest existing part with its links resolved, and the rest as it is written.
fn resolved(path: &Path, folder: &Path) -> Option<PathBuf> {
    let mut place = folder.to_path_buf();
    for part in path.components() {
        step(&mut place, part);
        if place.is_symlink() {
            // One that leads nowhere yet would be written through.
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

/// A file with a second name may be one from elsewhere.
fn has_other_names(place: &Path) -> bool {
    place.symlink_metadata().is_ok_and(|facts| facts.is_file() && facts.nlink() > 1)
}
