//! Floors within a crate: a room imports only rooms that its crate's `lib.rs` names before it. Between crates the compiler
//! holds them, by the dependencies in each `Cargo.toml`.

use crate::source::{File, is_word, line_of, module_of, occurrences};

/// Imports of rooms that stand above the one that imports them, in any crate.
pub fn complaints(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for root in files.iter().filter(|file| file.path.ends_with("/lib.rs")) {
        let rooms = rooms_of(root);
        let folder = root.path.trim_end_matches("lib.rs");
        for file in files.iter().filter(|file| file.path.starts_with(folder)) {
            let module = module_of(&file.path);
            let Some(own) = module.first().and_then(|own| place_of(&rooms, own)) else {
                continue;
            };
            for (line, room) in imports(&file.live) {
                if place_of(&rooms, &room).is_some_and(|place| place > own) {
                    complaints.push(format!(
                        "{}:{line}: `{}` imports `{room}`, which `{}` names after it: move what both need down, or pass \
                         it as an argument",
                        file.path, rooms[own], root.path
                    ));
                }
            }
        }
    }
    complaints
}

/// The rooms of a crate, in the order of its root.
fn rooms_of(root: &File) -> Vec<String> {
    let lines = root.code.lines();
    lines
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect()
}

fn place_of(rooms: &[String], name: &str) -> Option<usize> {
    rooms.iter().position(|room| room == name)
}

/// The first name of every path that begins with `crate::`, with its line.
fn imports(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in occurrences(code, "crate::") {
        let rest = &code[at + "crate::".len()..];
        let line = line_of(code, at);
        let Some(group) = rest.strip_prefix('{') else {
            found.push((line, identifier(rest)));
            continue;
        };
        let (mut depth, mut begins) = (1, true);
        for (offset, byte) in group.bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ if depth == 1 && begins && is_word(byte) => {
                    found.push((line, identifier(&group[offset..])));
                }
                _ => {}
            }
            begins = byte == b',' || (begins && byte.is_ascii_whitespace());
            if depth == 0 {
                break;
            }
        }
    }
    found
}

fn identifier(code: &str) -> String {
    code.bytes()
        .take_while(|byte| is_word(*byte))
        .map(char::from)
        .collect()
}

#[cfg(test)]
fn checked(path: &str, text: &str) -> usize {
    let root = File::new(
        "src/engine/lib.rs",
        "pub mod tools;\npub mod context;\npub mod runs;\n\npub use base::text;",
    );
    complaints(&[root, File::new(path, text)]).len()
}

#[test]
fn an_arrow_that_goes_up_is_found_however_it_is_written() {
    let bad = [
        ("src/engine/tools/x.rs", "use crate::runs::Run;"),
        ("src/engine/tools/mod.rs", "fn f() { crate::context::g(); }"),
        (
            "src/engine/tools/x.rs",
            "use crate::{text::Word, runs::Run};",
        ),
        (
            "src/engine/context/x.rs",
            "use crate::{\n    runs::{a::X, Y},\n    tools::Z,\n};",
        ),
        ("src/engine/context.rs", "use crate::runs;"),
    ];
    for (path, text) in bad {
        assert_eq!(checked(path, text), 1, "{path}: {text}");
    }
}

#[test]
fn an_arrow_that_goes_down_or_stays_is_fine() {
    let good = [
        (
            "src/engine/runs/x.rs",
            "use crate::tools::Tool;\nuse crate::runs::Run;",
        ),
        (
            "src/engine/runs/x.rs",
            "use crate::{text, tools::{runs, X}};",
        ),
        (
            "src/engine/tools/x.rs",
            "//! [`crate::runs`]\nconst S: &str = \"crate::runs::x\";",
        ),
        (
            "src/engine/tools/x.rs",
            "#[cfg(test)]\nmod tests { use crate::runs::Run; }",
        ),
        ("src/engine/tools/x.rs", "use crate::text;"),
        ("src/faces/tools/x.rs", "use crate::runs::Run;"),
    ];
    for (path, text) in good {
        assert_eq!(checked(path, text), 0, "{path}: {text}");
    }
}
