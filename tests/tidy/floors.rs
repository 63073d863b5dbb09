//! The floors: which unit may import which, as the table in `src/ARCHITECTURE.md` says.
//!
//! Each line of the block `floors` is `unit: units it may import`. A unit is a path of modules; the longest unit that
//! begins a module's path owns it. A unit may import itself, and only units of lines above its own.

use crate::source::{File, is_word, line_of, occurrences};

#[derive(Debug)]
pub struct Table {
    lines: Vec<(String, Vec<String>)>,
}

impl Table {
    pub fn read(document: &str) -> Result<Self, String> {
        let block = document
            .split("```floors\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next());
        let block = block
            .ok_or("src/ARCHITECTURE.md: no block ```floors: it holds the table of the floors")?;
        let mut lines: Vec<(String, Vec<String>)> = Vec::new();
        for line in block.lines().map(str::trim).filter(|line| !line.is_empty()) {
            // `unit: others`, and not the colons of a path.
            let (unit, others) = line
                .split_once(": ")
                .or_else(|| line.strip_suffix(':').map(|unit| (unit, "")))
                .ok_or_else(|| {
                    format!("src/ARCHITECTURE.md: `{line}` is not `unit: units it may import`")
                })?;
            let others: Vec<String> = others.split_whitespace().map(str::to_owned).collect();
            if let Some(other) = others
                .iter()
                .find(|other| !lines.iter().any(|(above, _)| above == *other))
            {
                return Err(format!(
                    "src/ARCHITECTURE.md: `{unit}` may import `{other}`, which is not on a line above: \
                     floors only go down"
                ));
            }
            lines.push((unit.trim().to_owned(), others));
        }
        Ok(Self { lines })
    }

    /// The unit that owns a path of modules.
    fn unit_of(&self, path: &[String]) -> Option<&str> {
        let whole = format!("{}::", path.join("::"));
        let owners = self
            .lines
            .iter()
            .filter(|(unit, _)| whole.starts_with(&format!("{unit}::")));
        owners
            .map(|(unit, _)| unit.as_str())
            .max_by_key(|unit| unit.len())
    }

    fn allows(&self, from: &str, to: &str) -> bool {
        from == to
            || self
                .lines
                .iter()
                .any(|(unit, others)| unit == from && others.iter().any(|o| o == to))
    }
}

pub fn check(table: &Table, file: &File) -> Vec<String> {
    let module = module_of(&file.path);
    if module.is_empty() {
        return Vec::new(); // lib.rs only names the modules.
    }
    let Some(from) = table.unit_of(&module) else {
        return vec![format!(
            "{}: `{}` has no line in the floors of src/ARCHITECTURE.md",
            file.path, module[0]
        )];
    };
    let mut complaints = Vec::new();
    for (line, path) in imports(&file.live, &module) {
        let shown = path.join("::");
        match table.unit_of(&path) {
            Some(to) if table.allows(from, to) => {}
            Some(to) => complaints.push(format!(
                "{}:{line}: `{from}` imports `{shown}`, and `{to}` is not below it: move what both need down, \
                 pass it as an argument, or change the floors with a decision in docs/decisions",
                file.path
            )),
            None => complaints.push(format!(
                "{}:{line}: `{shown}` has no line in the floors of src/ARCHITECTURE.md",
                file.path
            )),
        }
    }
    complaints
}

/// `src/a/b.rs` and `src/a/b/mod.rs` are `a::b`; `src/main.rs` is `main`; `src/lib.rs` is the crate itself.
fn module_of(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let inner = inner.trim_end_matches("/mod");
    if inner == "lib" {
        Vec::new()
    } else {
        inner.split('/').map(str::to_owned).collect()
    }
}

/// Every path into the crate, with its line: `crate::…`, `super::…` and, from the binary, `attache::…`.
fn imports(code: &str, module: &[String]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    // `pub(in crate::x)` says who may look in; it imports nothing.
    for at in occurrences(code, "crate::").filter(|at| !code[..*at].ends_with("(in ")) {
        found.extend(
            tree(code, at + "crate::".len(), &[])
                .0
                .into_iter()
                .map(|path| (line_of(code, at), path)),
        );
    }
    if module == ["main"] {
        for at in occurrences(code, "attache::") {
            found.extend(
                tree(code, at + "attache::".len(), &[])
                    .0
                    .into_iter()
                    .map(|p| (line_of(code, at), p)),
            );
        }
    }
    for at in occurrences(code, "super::").filter(|at| !code[..*at].ends_with("super::")) {
        let ups = code[at..]
            .split("super::")
            .take_while(|between| between.is_empty())
            .count();
        let base = &module[..module.len().saturating_sub(ups)];
        let rest = at + ups * "super::".len();
        found.extend(
            tree(code, rest, base)
                .0
                .into_iter()
                .map(|path| (line_of(code, at), path)),
        );
    }
    // The bare name of the crate or of a parent crosses nothing.
    found.retain(|(_, path)| !path.is_empty());
    found.sort();
    found.dedup();
    found
}

/// The paths of a use tree from an offset, and where it ends. Upper-case segments are items and end a path.
fn tree(code: &str, at: usize, prefix: &[String]) -> (Vec<Vec<String>>, usize) {
    let start = at + (code[at..].len() - code[at..].trim_start().len());
    let bytes = code.as_bytes();
    if bytes.get(start) == Some(&b'{') {
        return group(code, start + 1, prefix);
    }
    let end = start
        + code[start..]
            .bytes()
            .take_while(|byte| is_word(*byte))
            .count();
    let name = &code[start..end];
    let mut path = prefix.to_vec();
    if name == "super" {
        path.pop();
    } else if name.starts_with(|c: char| c.is_ascii_lowercase()) && name != "self" {
        path.push(name.to_owned());
    }
    if code[end..].starts_with("::") && !code[end..].starts_with("::<") {
        return tree(code, end + 2, &path);
    }
    (vec![path], end)
}

fn group(code: &str, mut at: usize, prefix: &[String]) -> (Vec<Vec<String>>, usize) {
    let mut paths = Vec::new();
    loop {
        let rest = code[at..].trim_start();
        at = code.len() - rest.len();
        match rest.bytes().next() {
            None => return (paths, at),
            Some(b'}') => return (paths, at + 1),
            Some(b',') => at += 1,
            Some(_) => {
                let (inner, end) = tree(code, at, prefix);
                paths.extend(inner);
                // `x as y` and `*` carry nothing more; go on after them.
                at = code[end.max(at + 1)..]
                    .find([',', '}'])
                    .map_or(code.len(), |next| end.max(at + 1) + next);
            }
        }
    }
}

#[cfg(test)]
const SAMPLE: &str = "# Map\n```floors\ndomain:\nclock: domain\nstore: domain clock\ngateway::judge: domain\n\
    gateway: domain store gateway::judge\nharness: domain clock store\nmain: harness\n```\n";

#[test]
fn an_arrow_that_goes_up_is_found_however_it_is_written() {
    let table = Table::read(SAMPLE).expect("a table");
    let bad = [
        ("src/store/x.rs", "use crate::gateway::Door;"),
        ("src/harness/x.rs", "use crate::gateway::Door;"),
        (
            "src/harness/mod.rs",
            "fn f() { crate::gateway::judge::g(); }",
        ),
        ("src/store/x.rs", "use crate::{clock::Clock, harness::Run};"),
        (
            "src/store/x.rs",
            "use crate::{domain::{A, b::C}, gateway::{judge::X as Y}};",
        ),
        ("src/gateway/judge.rs", "use super::intake;"),
        (
            "src/gateway/judge/rule.rs",
            "use super::super::intake::{self, Intake};",
        ),
        ("src/gateway/judge.rs", "use crate::store::Store;"),
        ("src/main.rs", "fn main() { attache::store::open(); }"),
        ("src/store/x.rs", "use crate::unheard::Of;"),
        ("src/unheard/x.rs", "fn f() {}"),
    ];
    for (path, text) in bad {
        assert_eq!(
            check(&table, &File::new(path, text)).len(),
            1,
            "{path}: {text}"
        );
    }
}

#[test]
fn an_arrow_that_goes_down_or_stays_is_fine() {
    let table = Table::read(SAMPLE).expect("a table");
    let good = [
        (
            "src/gateway/intake.rs",
            "use super::judge;\nuse super::{judge::Rule, door};\nuse crate::store::{Store, rows::*};",
        ),
        (
            "src/gateway/judge/rule.rs",
            "use super::Verdict;\nuse crate::domain::Address;",
        ),
        (
            "src/store/mod.rs",
            "pub(crate) fn f() {}\npub(in crate::harness) fn g() {}\n//! [`crate::gateway`]\nconst S: &str = \"crate::gateway::x\";",
        ),
        (
            "src/store/x.rs",
            "#[cfg(test)]\nmod tests { use crate::gateway::Door; }",
        ),
        ("src/main.rs", "fn main() { attache::harness::run(); }"),
        ("src/lib.rs", "pub mod anything;"),
    ];
    for (path, text) in good {
        assert_eq!(
            check(&table, &File::new(path, text)),
            Vec::<String>::new(),
            "{path}: {text}"
        );
    }
}

#[test]
fn a_table_that_is_missing_malformed_or_points_up_is_refused() {
    let refused = |text: &str| Table::read(text).expect_err("a complaint");
    assert!(refused("# Map").contains("no block"));
    assert!(refused("```floors\nstore domain\n```").contains("is not `unit: units"));
    assert!(refused("```floors\nstore: domain\ndomain:\n```").contains("not on a line above"));
}
