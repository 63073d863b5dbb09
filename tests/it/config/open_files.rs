//! Files that other users of the machine may write: what counts, and what they cannot reach.

use attache::config::{writable_files, writable_part};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// A workspace that others may enter, with the files of a configuration, all as `init` and an umask of 022 leave them.
fn workspace() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for file in [
        "configs/gateway.json",
        "configs/tools/stock/tool.json",
        "configs/tools/stock/run",
        "skills/tea/SKILL.md",
        "personas/ada/skills/tea/run",
        "personas/ada/PERSONA.md",
        "hooks/h",
        "other/x",
    ] {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(&path, "x").expect("a file");
    }
    let mut left = vec![folder.path().to_path_buf()];
    while let Some(path) = left.pop() {
        let is_folder = path.is_dir();
        chmod(&path, if is_folder { 0o755 } else { 0o644 });
        if is_folder {
            let entries = std::fs::read_dir(&path).expect("a folder");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
    }
    folder
}

#[test]
fn what_others_may_write_is_found_unless_they_cannot_reach_it() {
    type Modes = &'static [(&'static str, u32)];
    let rows: [(Modes, &[&str]); 18] = [
        (&[], &[]),
        (&[("configs", 0o777)], &["configs"]),
        (&[("configs", 0o775)], &["configs"]),
        (&[("configs", 0o757)], &["configs"]),
        (
            &[("configs/gateway.json", 0o664)],
            &["configs/gateway.json"],
        ),
        (
            &[("configs/gateway.json", 0o646)],
            &["configs/gateway.json"],
        ),
        (&[("configs/tools", 0o770)], &["configs/tools"]),
        (
            &[("configs/tools/stock/run", 0o777)],
            &["configs/tools/stock/run"],
        ),
        (&[("skills", 0o777)], &["skills"]),
        (&[("skills/tea/SKILL.md", 0o666)], &["skills/tea/SKILL.md"]),
        (
            &[("personas/ada/skills/tea/run", 0o776)],
            &["personas/ada/skills/tea/run"],
        ),
        (&[("", 0o777)], &[""]),
        // Each may remove their own there, and nobody else's.
        (&[("configs", 0o1777)], &[]),
        (&[("", 0o700), ("configs", 0o777)], &[]),
        (&[("configs", 0o700), ("configs/gateway.json", 0o666)], &[]),
        (
            &[("configs/tools", 0o700), ("configs/tools/stock/run", 0o777)],
            &[],
        ),
        // Doctor looks at these by another measure.
        (&[("personas/ada/PERSONA.md", 0o666)], &[]),
        (&[("other", 0o777), ("other/x", 0o666)], &[]),
    ];
    for (modes, wanted) in rows {
        let folder = workspace();
        for (path, mode) in modes {
            chmod(&folder.path().join(path), *mode);
        }
        let found = writable_files(folder.path());
        let below = |path: &Path| {
            path.strip_prefix(folder.path())
                .expect("below")
                .display()
                .to_string()
        };
        let found: Vec<String> = found.iter().map(|file| below(&file.path)).collect();
        assert_eq!(found, wanted, "{modes:?}");
    }
    // As an umask of 002 leaves files, and a volume whose group the process is in.
    for (mode, wanted) in [(0o775, true), (0o770, true), (0o777, false), (0o772, false)] {
        let folder = workspace();
        chmod(&folder.path().join("configs"), mode);
        let found = writable_files(folder.path());
        let found: Vec<bool> = found.iter().map(|file| file.is_of_own_group).collect();
        assert_eq!(found, [wanted], "{mode:o}");
    }
}

#[test]
fn a_program_that_others_may_write_or_exchange_is_known_by_any_word_of_its_command() {
    let rows: [(&[&str], &str, u32, bool); 12] = [
        (&["./run"], "configs/tools/stock/run", 0o777, true),
        (&["./run"], "configs/tools/stock/run", 0o775, false),
        (&["./run"], "configs/tools/stock", 0o777, true),
        (&["./run"], "configs/tools", 0o777, true),
        (&["./run"], "configs", 0o777, true),
        (&["./run"], "", 0o777, true),
        (&["sh", "run"], "configs/tools/stock/run", 0o777, true),
        (
            &["sh", "-c", "true"],
            "configs/tools/stock/run",
            0o777,
            false,
        ),
        (&["../../../hooks/h"], "hooks/h", 0o777, true),
        (&["../../../hooks/h"], "hooks", 0o777, true),
        (&["./run"], "configs/tools/stock/tool.json", 0o777, false),
        (&["./run"], "other", 0o777, false),
    ];
    for (command, path, mode, is_open) in rows {
        let folder = workspace();
        chmod(&folder.path().join(path), mode);
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let tool = folder.path().join("configs/tools/stock");
        let found = writable_part(&command, (&tool, folder.path()));
        assert_eq!(found.is_some(), is_open, "{command:?} with {path} {mode:o}");
    }
    // What a group may write that this process is not in is another's.
    let folder = workspace();
    let tool = folder.path().join("configs/tools/stock");
    chmod(&tool.join("run"), 0o775);
    let own = std::fs::metadata(&tool).expect("a folder").gid();
    // Only root may give a file to such a group.
    if std::os::unix::fs::chown(tool.join("run"), None, Some(own + 4321)).is_ok() {
        let command = ["./run".to_owned()];
        assert!(writable_part(&command, (&tool, folder.path())).is_some());
        let found = writable_files(folder.path());
        assert!(found.iter().all(|file| !file.is_of_own_group) && found.len() == 1);
    }
    // Somewhere else, the program itself is looked at.
    let (folder, elsewhere) = (workspace(), workspace());
    let program = elsewhere.path().join("hooks/h");
    chmod(&program, 0o757);
    let command = [program.display().to_string()];
    let places = (folder.path(), folder.path());
    assert!(writable_part(&command, places).is_some());
}
