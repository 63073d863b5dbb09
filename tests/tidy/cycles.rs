//! Import cycles between the files of `src`.
//!
//! A file imports another when it names an item of it, through any re-export. The parent of a folder (`mod.rs`, or
//! the file beside the folder) may import its members and they it: that edge down is not counted.

use crate::source::{File, is_word, module_of, occurrences};
use std::collections::{BTreeMap, BTreeSet};

type Module = Vec<String>;

/// Files that import each other in a circle, circle by circle, as module paths.
pub fn circles(files: &[File]) -> Vec<Vec<String>> {
    let graph = Graph::of(files);
    let mut circles: Vec<Vec<String>> = components(&graph.edges)
        .into_iter()
        .filter(|component| component.len() > 1)
        .map(|component| component.iter().map(|module| module.join("/")).collect())
        .collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// Circles as complaints.
pub fn complaints(files: &[File]) -> Vec<String> {
    circles(files)
        .iter()
        .map(|circle| {
            format!(
                "{}: import each other in a circle: move what both need into a file below them, or pass it as an \
                 argument",
                circle.join(", ")
            )
        })
        .collect()
}

struct Graph {
    edges: BTreeMap<Module, BTreeSet<Module>>,
}

impl Graph {
    fn of(files: &[File]) -> Self {
        let files: BTreeMap<Module, &File> = files
            .iter()
            .filter(|file| file.path != "src/main.rs")
            .map(|file| (module_of(&file.path), file))
            .collect();
        let names = Names::of(&files);
        let parents: BTreeSet<&Module> = files
            .keys()
            .filter(|module| is_parent(module, &files))
            .collect();
        let mut edges = BTreeMap::new();
        for (module, file) in &files {
            let mut targets: BTreeSet<Module> = paths(&file.live, module, &files)
                .into_iter()
                .filter(|path| !files.contains_key(path))
                .filter_map(|path| names.owner(&path, 0))
                .collect();
            targets.remove(module);
            targets.remove(&Vec::new());
            if parents.contains(module) {
                targets.retain(|target| !target.starts_with(module));
            }
            edges.insert(module.clone(), targets);
        }
        edges.remove(&Vec::new());
        Self { edges }
    }
}

fn is_parent(module: &Module, files: &BTreeMap<Module, &File>) -> bool {
    files
        .keys()
        .any(|other| other.len() > module.len() && other.starts_with(module))
}

/// Items that each module defines, and those that it re-exports.
struct Names<'f> {
    files: &'f BTreeMap<Module, &'f File>,
    defined: BTreeMap<Module, BTreeSet<String>>,
    exported: BTreeMap<Module, BTreeMap<String, Module>>,
    globs: BTreeMap<Module, Vec<Module>>,
}

impl<'f> Names<'f> {
    fn of(files: &'f BTreeMap<Module, &'f File>) -> Self {
        let mut names = Self {
            files,
            defined: BTreeMap::new(),
            exported: BTreeMap::new(),
            globs: BTreeMap::new(),
        };
        for (module, file) in files {
            names.defined.insert(module.clone(), defined(&file.live));
            for (path, name, is_public) in uses(&file.live, module, files) {
                if !is_public {
                    continue;
                }
                if name == "*" {
                    names.globs.entry(module.clone()).or_default().push(path);
                } else {
                    names
                        .exported
                        .entry(module.clone())
                        .or_default()
                        .insert(name, path);
                }
            }
        }
        names
    }

    /// The module that defines what a path names; the longest known module when nothing does.
    fn owner(&self, path: &[String], depth: usize) -> Option<Module> {
        if depth > 8 {
            return None;
        }
        let known = (0..=path.len())
            .rev()
            .find(|length| self.files.contains_key(&path[..*length]))?;
        let (module, rest) = (path[..known].to_vec(), &path[known..]);
        let Some(name) = rest.first() else {
            return Some(module);
        };
        if let Some(target) = self.exported.get(&module).and_then(|names| names.get(name)) {
            let target: Vec<String> = target.iter().chain(&rest[1..]).cloned().collect();
            return self.owner(&target, depth + 1).or(Some(module));
        }
        let has = |module: &Module| {
            self.defined
                .get(module)
                .is_some_and(|names| names.contains(name))
        };
        if has(&module) {
            return Some(module);
        }
        let through = self
            .globs
            .get(&module)
            .into_iter()
            .flatten()
            .find_map(|glob| {
                let target: Vec<String> = glob.iter().chain(rest).cloned().collect();
                self.owner(&target, depth + 1).filter(has)
            });
        through.or(Some(module))
    }
}

/// Names after `fn`, `struct` and the like.
fn defined(code: &str) -> BTreeSet<String> {
    let words = [
        "fn ",
        "struct ",
        "enum ",
        "trait ",
        "type ",
        "const ",
        "static ",
        "union ",
        "macro_rules! ",
    ];
    let named = words.iter().flat_map(|word| {
        occurrences(code, word)
            .map(|at| identifier(code[at + word.len()..].trim_start()).to_owned())
    });
    named.filter(|name| !name.is_empty()).collect()
}

fn identifier(code: &str) -> &str {
    let end = code.bytes().take_while(|byte| is_word(*byte)).count();
    &code[..end]
}

/// Every path into the crate that a file names: in `use` and elsewhere, also behind an imported module's name.
fn paths(code: &str, module: &Module, files: &BTreeMap<Module, &File>) -> Vec<Module> {
    let uses = uses(code, module, files);
    let imported: BTreeMap<&String, &Module> = uses
        .iter()
        .filter(|(path, _, _)| files.contains_key(path))
        .map(|(path, name, _)| (name, path))
        .collect();
    let mut found: Vec<Module> = uses
        .iter()
        .filter(|(_, name, is_public)| !is_public && name != "*")
        .map(|(path, _, _)| path.clone())
        .collect();
    let body = without_uses(code);
    for at in (0..body.len()).filter(|at| starts_path(&body, *at)) {
        let segments = segments(&body[at..]);
        if segments.len() < 2 {
            continue;
        }
        let own: Module = module
            .iter()
            .cloned()
            .chain([segments[0].to_owned()])
            .collect();
        let rest = segments[1..].iter().map(|segment| (*segment).to_owned());
        if ["crate", "super", "self"].contains(&segments[0]) {
            found.extend(absolute(module, &segments, files));
        } else if let Some(base) = imported.get(&segments[0].to_owned()) {
            found.push(base.iter().cloned().chain(rest).collect());
        } else if files.contains_key(&own) {
            found.push(own.into_iter().chain(rest).collect());
        }
    }
    found
}

/// `true` where a lower-case word begins that is no part of a longer path.
fn starts_path(code: &str, at: usize) -> bool {
    let bytes = code.as_bytes();
    let begins = bytes
        .get(at)
        .is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'_');
    begins && (at == 0 || !(is_word(bytes[at - 1]) || bytes[at - 1] == b':'))
}

fn segments(code: &str) -> Vec<&str> {
    let mut found = vec![identifier(code)];
    let mut rest = &code[found[0].len()..];
    while let Some(after) = rest.strip_prefix("::") {
        let name = identifier(after);
        if name.is_empty() {
            break;
        }
        found.push(name);
        rest = &after[name.len()..];
    }
    found
}

fn absolute(module: &Module, segments: &[&str], files: &BTreeMap<Module, &File>) -> Option<Module> {
    let ups = segments
        .iter()
        .take_while(|segment| **segment == "super")
        .count();
    let rest = |from: usize| segments[from..].iter().map(|segment| (*segment).to_owned());
    match segments[0] {
        "crate" => Some(rest(1).collect()),
        "self" => Some(module.iter().cloned().chain(rest(1)).collect()),
        "super" => {
            let base = &module[..module.len().saturating_sub(ups)];
            Some(base.iter().cloned().chain(rest(ups)).collect())
        }
        first => {
            let own: Module = module.iter().cloned().chain([first.to_owned()]).collect();
            files
                .contains_key(&own)
                .then(|| module.iter().cloned().chain(rest(0)).collect())
        }
    }
}

/// `use` declarations: the path, the name that it is imported as, and whether it is re-exported.
fn uses(
    code: &str,
    module: &Module,
    files: &BTreeMap<Module, &File>,
) -> Vec<(Module, String, bool)> {
    let mut found = Vec::new();
    for (start, end) in declarations(code) {
        let at = start + code[start..end].find("use ").unwrap_or_default();
        let is_public = code[start..at].contains("pub");
        for tree in expanded(code[at + 4..end].trim_end_matches(';')) {
            let (path, alias) = tree
                .split_once(" as ")
                .map_or((tree.as_str(), None), |(p, a)| (p, Some(a)));
            let mut segments: Vec<&str> = path.split("::").map(str::trim).collect();
            let is_glob = segments.last() == Some(&"*");
            if is_glob || segments.last() == Some(&"self") {
                segments.pop();
            }
            let (Some(last), Some(path)) = (segments.last(), absolute(module, &segments, files))
            else {
                continue;
            };
            let name = if is_glob {
                "*"
            } else {
                alias.unwrap_or(last).trim()
            };
            found.push((path, name.to_owned(), is_public));
        }
    }
    found
}

/// Byte ranges of `use …;` with the visibility before it.
fn declarations(code: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for at in occurrences(code, "use ") {
        let line = code[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let before = code[line..at].trim();
        let is_declaration =
            before.is_empty() || (before.starts_with("pub") && !before.contains([';', '{']));
        if let (true, Some(length)) = (is_declaration, code[at..].find(';')) {
            found.push((line, at + length + 1));
        }
    }
    found
}

fn without_uses(code: &str) -> String {
    let mut body = code.to_owned();
    for (start, end) in declarations(code).into_iter().rev() {
        body.replace_range(start..end, "");
    }
    body
}

/// `a::{b, c::{d, e}}` is `a::b`, `a::c::d`, `a::c::e`.
fn expanded(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        return vec![tree.split_whitespace().collect::<Vec<_>>().join(" ")];
    };
    let close = crate::source::after_closing(tree, open);
    let inner = &tree[open + 1..close - 1];
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts
        .flat_map(expanded)
        .map(|part| format!("{}{part}", &tree[..open]))
        .collect()
}

/// Strongly connected components (Kosaraju: an order by end, then the reverse graph in that order).
fn components(edges: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<&Module>> {
    let mut reverse: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (from, targets) in edges {
        for to in targets {
            reverse.entry(to).or_default().insert(from);
        }
    }
    let forward: BTreeMap<&Module, BTreeSet<&Module>> = edges
        .iter()
        .map(|(from, targets)| (from, targets.iter().collect()))
        .collect();
    let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
    for module in edges.keys() {
        visit(module, &forward, &mut seen, &mut order);
    }
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for module in order.into_iter().rev() {
        let mut component = Vec::new();
        visit(module, &reverse, &mut seen, &mut component);
        component.sort();
        found.push(component);
    }
    found
}

fn visit<'m>(
    module: &'m Module,
    edges: &BTreeMap<&'m Module, BTreeSet<&'m Module>>,
    seen: &mut BTreeSet<&'m Module>,
    order: &mut Vec<&'m Module>,
) {
    if !seen.insert(module) {
        return;
    }
    for next in edges.get(module).into_iter().flatten() {
        visit(next, edges, seen, order);
    }
    order.push(module);
}

#[cfg(test)]
fn files(rows: &[(&str, &str)]) -> Vec<File> {
    rows.iter()
        .map(|(path, text)| File::new(path, text))
        .collect()
}

#[test]
fn a_circle_is_found_through_a_re_export_and_an_inline_path() {
    let direct = files(&[
        ("src/a/mod.rs", "mod x;\nmod y;\npub use y::Y;"),
        ("src/a/x.rs", "use super::Y;\npub fn f() {}"),
        ("src/a/y.rs", "pub struct Y;\nfn g() { super::x::f(); }"),
        ("src/a/z.rs", "use super::{x::f, y::Y};"),
    ]);
    assert_eq!(circles(&direct), [["a/x", "a/y"]]);
    let by_module = files(&[
        ("src/b/x.rs", "use super::y;\npub fn f() { y::g(); }"),
        ("src/b/y.rs", "use crate::b::x;\npub fn g() { x::f(); }"),
    ]);
    assert_eq!(circles(&by_module), [["b/x", "b/y"]]);
}

#[test]
fn a_parent_and_its_members_are_no_circle() {
    let good = files(&[
        ("src/a/mod.rs", "mod x;\npub fn f() { x::g(); }"),
        (
            "src/a/x.rs",
            "use super::f;\npub fn g() { f(); }\n#[cfg(test)]\nmod tests { use crate::b::h; }",
        ),
        ("src/b.rs", "use crate::a::f;\npub fn h() { f(); }"),
    ]);
    assert_eq!(circles(&good), Vec::<Vec<String>>::new());
}
