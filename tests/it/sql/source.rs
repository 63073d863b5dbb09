//! Statements read from the source of the store.

use super::*;

/// Those that SQLite executes, all but the ones of [`statements_of_postgres`].
pub(super) fn statements_of_the_store() -> Vec<Statement> {
    statements(|is_of_postgres| !is_of_postgres)
}

/// Text of the statement of that name, `file::NAME`.
pub fn statement(name: &str) -> String {
    let found = statements_of_the_store()
        .into_iter()
        .find(|one| one.name == name);
    found.expect(name).sql
}

/// Those of the folder of PostgreSQL itself.
pub(super) fn statements_of_postgres() -> Vec<Statement> {
    statements(|is_of_postgres| is_of_postgres)
}

fn statements(is_wanted: fn(bool) -> bool) -> Vec<Statement> {
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
    let mut files = Vec::new();
    rust_files(&store, &mut files);
    files.retain(|file| is_wanted(file.starts_with(store.join("postgres"))));
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

/// Every `const NAME: &str = …;` and `const NAME: Sql = Sql::pair(…, …);` of a source text. A value that is no string
/// literal is an error: no test would ever see its SQL.
pub(super) fn read_statements(file: &str, source: &str) -> Vec<Statement> {
    let live = source
        .split("\n#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default();
    let mut statements = Vec::new();
    for declaration in live.split("const ").skip(1) {
        let Some((name, value)) = declaration.split_once(": ") else {
            continue;
        };
        let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        if !name.chars().all(is_name) {
            continue;
        }
        let name = format!("{file}::{name}");
        let texts = texts(value);
        let Some(texts) = texts else {
            continue;
        };
        let (sql, postgres) = texts
            .unwrap_or_else(|| panic!("`{name}` is not one string literal, or a pair of them"));
        statements.push(Statement {
            name,
            sql,
            postgres,
        });
    }
    statements
}

/// The text of a statement, and the one for PostgreSQL where that is another; `None` for what is no statement.
fn texts(declared: &str) -> Option<Option<(String, Option<String>)>> {
    if let Some(value) = declared.strip_prefix("&str =") {
        return Some(literal(value).map(|(sql, _)| (sql, None)));
    }
    let pair = declared.strip_prefix("Sql = Sql::pair(")?;
    let both = literal(pair).and_then(|(sql, rest)| {
        let (postgres, _) = literal(rest.trim_start().strip_prefix(',')?)?;
        Some((sql, Some(postgres)))
    });
    Some(both)
}

/// The text of the string literal at the beginning of `source`, plain or raw, and what follows it.
fn literal(source: &str) -> Option<(String, &str)> {
    let source = source.trim_start();
    if let Some(raw) = source.strip_prefix('r') {
        let marks = raw.len() - raw.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(marks));
        let (text, rest) = raw[marks..].strip_prefix('"')?.split_once(&end)?;
        return Some((text.to_owned(), rest));
    }
    let mut text = String::new();
    let mut rest = source.strip_prefix('"')?.chars();
    loop {
        match rest.next()? {
            '"' => return Some((text, rest.as_str())),
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
