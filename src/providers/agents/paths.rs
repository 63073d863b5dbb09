//! Checks the paths that an agent announces to read or write: links are resolved before paths are
//! compared.
//!
//! Changes that an agent does not announce are found afterwards (`runs::env::file_guards`).

use crate::config::{AGENT_FOLDER, CORRESPONDENTS_FOLDER, Tier, is_for_owner_alone, is_protected};
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
    paths.find_map(|path| refusal_of_path(name, needs, path, options))
}

fn refusal_of_path(name: &str, needs: Tier, path: &str, options: &AgentOptions) -> Option<String> {
    let folder = Path::new(&options.folder);
    let folder = folder
        .canonicalize()
        .unwrap_or_else(|_| folder.to_path_buf());
    let own = match options.workspace.as_str() {
        "" => folder.join(AGENT_FOLDER),
        workspace => folder.join(workspace),
    };
    let places = places(path, &folder.join(&options.workspace));
    match needs >= Tier::Write {
        true => refusal_of_write(name, path, (&places, &folder, &own), options),
        false if options.tier == Tier::Full => None,
        false => refusal_of_read(name, path, (&places, &folder, &own), options),
    }
}

/// Targets of a path, the folder of the persona, and the workspace of the run.
type Targets<'a> = (&'a [Option<PathBuf>; 2], &'a Path, &'a Path);

fn refusal_of_write(
    name: &str,
    path: &str,
    (places, folder, own): Targets<'_>,
    options: &AgentOptions,
) -> Option<String> {
    let is_ours = |place: &PathBuf| {
        place.strip_prefix(folder).is_ok_and(is_protected)
            || engine_folder(folder)
                .is_some_and(|ours| place.starts_with(ours) && !place.starts_with(folder))
    };
    if places.iter().flatten().any(is_ours) {
        return Some(format!("`{name}` may not change `{path}`: no agent may"));
    }
    let is_inside = |place: &Option<PathBuf>| {
        place
            .as_ref()
            .is_some_and(|place| place.starts_with(own) && !has_other_names(place))
    };
    let is_refused = options.tier != Tier::Full && !places.iter().all(is_inside);
    is_refused.then(|| {
        let own = own.display();
        format!("`{name}` is allowed inside `{own}` only, and not through links")
    })
}

fn refusal_of_read(
    name: &str,
    path: &str,
    (places, folder, own): Targets<'_>,
    options: &AgentOptions,
) -> Option<String> {
    let is_inside = |place: &Option<PathBuf>| {
        place
            .as_ref()
            .is_some_and(|place| place.starts_with(folder) && !has_other_names(place))
    };
    if !places.iter().all(is_inside) {
        let folder = &options.folder;
        return Some(format!(
            "`{name}` is allowed inside `{folder}` only, and not through links"
        ));
    }
    let is_closed = |place: &PathBuf| {
        (is_of_owner(options) || !place.starts_with(own))
            && place
                .strip_prefix(folder)
                .is_ok_and(|below| is_of_others(below, options))
    };
    places
        .iter()
        .flatten()
        .any(is_closed)
        .then(|| format!("`{name}` may not read `{path}`: it is not for those whom you answer"))
}

/// Reports whether a path below the persona's folder, or anything that a search in it would find, was
/// written in runs of other readers, or is for the owner alone.
fn is_of_others(below: &Path, options: &AgentOptions) -> bool {
    let mut names = below
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    let Some(first) = names.next() else {
        return !is_of_owner(options);
    };
    if is_of_owner(options) {
        // Words of others, which would count as the owner's.
        return first == AGENT_FOLDER
            && names
                .next()
                .is_some_and(|name| name == CORRESPONDENTS_FOLDER);
    }
    // A pattern may stand for every name.
    let is_pattern = first.contains(['*', '?', '[', '{']);
    is_pattern || first.starts_with('.') || is_for_owner_alone(&first)
}

/// Reports whether the run is the owner's: its workspace is the whole one.
fn is_of_owner(options: &AgentOptions) -> bool {
    options.workspace.is_empty() || options.workspace == AGENT_FOLDER
}

/// Returns the folder of the engine that a persona's folder is in: its configuration, its database,
/// and the other personas.
fn engine_folder(folder: &Path) -> Option<&Path> {
    let personas = folder.parent()?;
    personas.parent().filter(|_| personas.ends_with("personas"))
}

/// Returns the targets of a path in a working folder: with `..` removed before links are followed, as many
/// programs do, and after, as the system does. `None`: the target cannot be determined.
fn places(path: &str, working: &Path) -> [Option<PathBuf>; 2] {
    // An agent may have put a link in the place of its working folder.
    let Some(working) = resolved(working, Path::new("/")) else {
        return [None, None];
    };
    let working = working.as_path();
    let mut plain = working.to_path_buf();
    for part in Path::new(path).components() {
        step(&mut plain, part);
    }
    [
        resolved(Path::new(path), working),
        resolved(&plain, working),
    ]
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
