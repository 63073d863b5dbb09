//! Statements read from the source of the store.

use super::*;

pub(super) fn statements_of_the_store() -> Vec<Statement> {
    let mut files = Vec::new();
    rust_files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store"),
        &mut files,
    );
    files.sort();
    let read = |path: &PathBuf| {
        let name = |path: &Path| {
            path.file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        };
        // The main file of a room goes by the room's name.
        let stem = match name(path).as_str() {
            "queue" | "cursors" | "responsibilities" | "causes" => {
                name(path.parent().expect("a room"))
            }
            other => other.to_owned(),
        };
        read_statements(
            &stem,
            &std::fs::read_to_string(path).expect("a readable file"),
        )
    };
    files.iter().flat_map(read).collect()
}

pub fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every `const NAME: &str = …;` of a source text. A value that is not one string literal is an error: no test would
/// ever see its SQL.
pub(super) fn read_statements(file: &str, source: &str) -> Vec<Statement> {
    let live = source
        .split("\n#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default();
    let mut statements = Vec::new();
    for declaration in live.split("const ").skip(1) {
        let Some((name, value)) = declaration.split_once(": &str =") else {
            continue;
        };
        if !name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        {
            continue;
        }
        let name = format!("{file}::{name}");
        let sql = literal(value.trim_start());
        let sql = sql.unwrap_or_else(|| panic!("`{name}` is not one string literal"));
        statements.push(Statement { name, sql });
    }
    statements
}

/// The text of the string literal at the beginning of `source`, plain or raw.
fn literal(source: &str) -> Option<String> {
    if let Some(raw) = source.strip_prefix('r') {
        let marks = raw.len() - raw.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(marks));
        return raw[marks..]
            .strip_prefix('"')?
            .split_once(&end)
            .map(|(text, _)| text.to_owned());
    }
    let mut text = String::new();
    let mut rest = source.strip_prefix('"')?.chars();
    loop {
        match rest.next()? {
            '"' => return Some(text),
            '\\' => match rest.next()? {
                '\n' => rest = rest.as_str().trim_start().chars(),
                'n' => text.push('\n'),
                quoted @ ('"' | '\\' | '\'') => text.push(quoted),
                _ => return None,
            },
            plain => text.push(plain),
        }
    }
}
