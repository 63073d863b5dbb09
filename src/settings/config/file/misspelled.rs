//! Files and folders whose names are nearly those that are read: nobody would notice that they are not.

use super::paths::{
    CONTEXT_FILE, GATEWAY_FILE, HOOKS_FILE, INFERENCE_FILE, KEEPING_FILE, MCP_FILE, MCP_LOCK_FILE,
    POLICY_FILE, PRICES_FILE, SECURITY_FILE, SKILLS_FILE, WEB_FILE,
};
use super::problem::{Problem, nearest};
use std::path::Path;

/// Most entries of a folder that are looked at.
const ENTRIES_MAX: usize = 1000;
const JSON: &str = ".json";
const CONFIGS: &str = "configs";
const IN_CONFIGS: [&str; 13] = [
    CONTEXT_FILE,
    GATEWAY_FILE,
    HOOKS_FILE,
    INFERENCE_FILE,
    KEEPING_FILE,
    MCP_FILE,
    MCP_LOCK_FILE,
    POLICY_FILE,
    PRICES_FILE,
    SECURITY_FILE,
    SKILLS_FILE,
    WEB_FILE,
    "configs/tools",
];
const OF_WORKSPACE: [&str; 4] = [CONFIGS, "personas", "skills", ".secrets"];
const OF_PERSONA: [&str; 7] = [
    "persona.json",
    "policy.json",
    "PERSONA.md",
    "knowledge",
    "workspace",
    "responsibilities",
    "skills",
];
const OF_TOOL: [&str; 1] = ["tool.json"];

/// Returns a warning for each name in the workspace that is nearly one that is read.
pub fn misspelled(workspace: &Path) -> Vec<Problem> {
    let in_configs = IN_CONFIGS.map(|path| path.rsplit('/').next().unwrap_or(path));
    let mut problems = in_folder(workspace, "", &OF_WORKSPACE);
    problems.extend(in_folder(workspace, CONFIGS, &in_configs));
    for (parent, known) in [
        ("personas", &OF_PERSONA[..]),
        ("configs/tools", &OF_TOOL[..]),
    ] {
        for name in names_in(&workspace.join(parent)) {
            problems.extend(in_folder(workspace, &format!("{parent}/{name}"), known));
        }
    }
    problems
}

fn stem(name: &str) -> &str {
    name.strip_suffix(JSON).unwrap_or(name)
}

/// Names of a folder, sorted; a folder that cannot be read has none, which the files that are read complain about.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.take(ENTRIES_MAX).collect();
    names.sort();
    names
}

fn in_folder(workspace: &Path, folder: &str, known: &[&str]) -> Vec<Problem> {
    let names = names_in(&workspace.join(folder));
    // A name that is there was not meant by another.
    let missing: Vec<&str> = known
        .iter()
        .copied()
        .filter(|name| !names.iter().any(|there| there == name))
        .collect();
    let strays = names.iter().filter(|name| !known.contains(&name.as_str()));
    let problems = strays.filter_map(|name| {
        let alike: Vec<&str> = missing
            .iter()
            .filter(|known| known.ends_with(JSON) == name.ends_with(JSON))
            .map(|known| stem(known))
            .collect();
        let near = nearest(stem(name), &alike)?;
        let near = missing.iter().find(|known| stem(known) == near)?;
        let path = match folder {
            "" => name.clone(),
            folder => format!("{folder}/{name}"),
        };
        let problem = Problem::in_file(&path, "nothing reads it");
        Some(problem.hint(format!("did you mean `{near}`? Then rename it")))
    });
    problems.collect()
}
