//! Maps of rooms: a folder with many files names each of them in the header of its `mod.rs`.

use crate::source::File;
use std::collections::BTreeMap;

/// Files that one folder may hold without a map in its `mod.rs`.
const UNMAPPED_FILES_MAX: usize = 8;
/// Rooms with many files whose `mod.rs` does not name each of them in its header.
pub fn unmapped(files: &[File]) -> Vec<String> {
    let mut rooms: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in files {
        if let Some((folder, name)) = file.path.rsplit_once('/') {
            rooms.entry(folder).or_default().push(name);
        }
    }
    let mut complaints = Vec::new();
    for (folder, names) in rooms
        .into_iter()
        .filter(|(_, names)| names.len() > UNMAPPED_FILES_MAX)
    {
        let roots = [format!("{folder}/mod.rs"), format!("{folder}.rs")];
        let Some(root) = files.iter().find(|file| roots.contains(&file.path)) else {
            continue;
        };
        let header: String = root
            .text
            .lines()
            .filter(|line| line.starts_with("//!"))
            .collect();
        let members = names
            .iter()
            .filter_map(|name| name.strip_suffix(".rs"))
            .filter(|name| !["mod", "lib"].contains(name));
        let missing: Vec<&str> = members
            .filter(|name| !header.contains(&format!("`{name}`")))
            .collect();
        if !missing.is_empty() {
            complaints.push(format!(
                "{}: the map in its header leaves out {}: name each file there, in reading order, with what it is for",
                root.path,
                missing.join(", ")
            ));
        }
    }
    complaints
}

#[test]
fn a_large_room_names_each_file() {
    let names = ["b", "c", "d", "e", "f", "g", "h", "i"];
    let rows: Vec<(String, &str)> = names
        .iter()
        .map(|name| (format!("src/a/{name}.rs"), "//! x"))
        .collect();
    let mut room: Vec<File> = rows
        .iter()
        .map(|(path, text)| File::new(path, text))
        .collect();
    room.push(File::new("src/a/mod.rs", "//! `b` `c` `d` `e` `f` `g` `h`"));
    let complaints = unmapped(&room);
    assert!(
        complaints.len() == 1 && complaints[0].contains("leaves out i:"),
        "{complaints:?}"
    );
    room.pop();
    room.push(File::new(
        "src/a/mod.rs",
        "//! `b` `c` `d` `e` `f` `g` `h` `i`",
    ));
    assert_eq!(unmapped(&room), Vec::<String>::new());
}
