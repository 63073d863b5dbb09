//! Workspaces: what is kept of files that runs change there, the quota, and the command that brings versions back.

use crate::guest_house::GuestHouse;
use attache::domain::{RunId, Timestamp};
use attache::store::files::versions::{FileVersion, WorkspaceVersions};
use attache::store::files::workspace::{WorkspaceError, WorkspaceQuota, make};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const QUOTA: WorkspaceQuota = WorkspaceQuota {
    bytes_max: 1000,
    files_max: 20,
    versions_max: 5,
    versions_bytes_max: 100,
};

/// A persona's folder with a workspace in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a temporary folder"));
        std::fs::create_dir_all(place.folder()).expect("a folder");
        make(&place.folder(), "workspace").expect("a workspace");
        place.outside("PERSONA.md", "Be kind.");
        place
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("personas/ada")
    }

    fn outside(&self, path: &str, text: &str) {
        std::fs::write(self.folder().join(path), text).expect("a file");
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder().join("workspace").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).expect(path)
    }

    fn versions(&self, quota: WorkspaceQuota) -> WorkspaceVersions {
        WorkspaceVersions::of(&self.folder(), quota).expect("a place for them")
    }

    /// What is noted after a run.
    fn record(&self, run: &str) {
        let recorded = self.versions(QUOTA).record(Some(&RunId::new(run)), now());
        recorded.expect("within the quota");
    }

    fn kept(&self) -> Vec<FileVersion> {
        self.versions(QUOTA).versions().expect("an index")
    }

    fn objects(&self) -> usize {
        let objects = self.0.path().join("data/workspaces/ada/objects");
        std::fs::read_dir(objects).map_or(0, Iterator::count)
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_900_000_000_000)
}

/// Path, run, and whether it was removed.
fn shown(versions: &[FileVersion]) -> Vec<(&str, &str, bool)> {
    versions
        .iter()
        .map(|v| (v.path.as_str(), v.run.as_deref().unwrap_or("-"), v.removed))
        .collect()
}

#[test]
fn what_a_run_changes_or_removes_is_kept_and_comes_back() {
    let place = Place::new();
    place.write("report.md", "first");
    place.write("deep/list.md", "milk");
    place.record("r1");
    assert_eq!(place.kept(), [], "what is new replaces nothing");
    // Of the same length, and within one step of the clock.
    place.write("report.md", "other");
    std::fs::remove_dir_all(place.path("deep")).expect("gone");
    place.record("r2");
    let kept = place.kept();
    let wanted = [("deep/list.md", "r2", true), ("report.md", "r2", false)];
    assert_eq!(shown(&kept), wanted);
    place.record("r3");
    assert_eq!(place.kept(), kept, "nothing has changed since");

    let versions = place.versions(QUOTA);
    versions.restore("deep/list.md", None, now()).expect("kept");
    assert_eq!(place.read("deep/list.md"), "milk");
    let mode = place
        .path("deep/list.md")
        .metadata()
        .expect("a file")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let restored = versions.restore("report.md", None, now()).expect("kept");
    assert_eq!(
        (place.read("report.md").as_str(), restored.number),
        ("first", 2)
    );
    // The version that it replaced is kept, too.
    assert_eq!(shown(&place.kept())[2..], [("report.md", "-", false)]);
    versions.restore("report.md", Some(3), now()).expect("kept");
    assert_eq!(place.read("report.md"), "other");
    for (path, number) in [("report.md", Some(1)), ("never.md", None)] {
        let error = versions.restore(path, number, now()).expect_err("not kept");
        assert!(matches!(error, WorkspaceError::NotFound(_)), "{error}");
    }
}

#[test]
fn the_oldest_versions_go_first_and_leave_no_bytes() {
    let place = Place::new();
    for round in 0..8 {
        place.write("a.md", &format!("round {round}"));
        place.record("r");
    }
    let kept = place.kept();
    let numbers: Vec<u64> = kept.iter().map(|version| version.number).collect();
    assert_eq!(numbers, [3, 4, 5, 6, 7], "five are kept");
    assert_eq!(place.objects(), 6, "with the present one");
    // One of ninety bytes leaves room for one of seven.
    place.write("a.md", &"x".repeat(90));
    place.record("r");
    place.write("a.md", "short");
    place.record("r");
    let bytes: Vec<u64> = place.kept().iter().map(|version| version.bytes).collect();
    assert_eq!(bytes, [7, 90]);
    assert_eq!(place.objects(), 3);
}

#[test]
fn what_is_over_its_quota_is_told_with_what_to_do() {
    let place = Place::new();
    let versions = place.versions(QUOTA);
    let told = |versions: &WorkspaceVersions| match versions.record(None, now()) {
        Err(WorkspaceError::OverQuota(message)) => message,
        other => panic!("{other:?}"),
    };
    place.write("a.md", &"x".repeat(1000));
    versions.record(None, now()).expect("exactly full");
    place.write("b.md", "x");
    let message = told(&versions);
    assert!(
        message.contains("1000 bytes; remove files in it, or raise"),
        "{message}"
    );
    assert!(message.contains("limits.workspace_bytes_max"), "{message}");
    // A sparse file takes no room yet, and would.
    std::fs::remove_file(place.path("b.md")).expect("gone");
    let sparse = std::fs::File::create(place.path("c.md")).expect("a file");
    sparse.set_len(1 << 40).expect("a length");
    assert!(told(&versions).contains("1000 bytes"));
    std::fs::remove_file(place.path("c.md")).expect("gone");
    // Empty folders and links count as files do.
    for n in 0..20 {
        std::fs::create_dir(place.path(&format!("f{n}"))).expect("a folder");
    }
    assert!(told(&versions).contains("limits.workspace_files_max"));
    for n in 0..20 {
        std::fs::remove_dir(place.path(&format!("f{n}"))).expect("gone");
    }
    std::fs::create_dir_all(place.path(&"d/".repeat(40))).expect("deep folders");
    let deep = WorkspaceQuota {
        files_max: 100,
        ..QUOTA
    };
    assert!(told(&place.versions(deep)).contains("folders deep"));
}

#[test]
fn no_link_leads_the_versions_out_of_the_workspace() {
    let place = Place::new();
    let secret = place.0.path().join("secret");
    std::fs::write(&secret, "canary").expect("a file");
    symlink(&secret, place.path("link.md")).expect("a link");
    symlink(place.0.path(), place.path("up")).expect("a link");
    std::fs::hard_link(&secret, place.path("second.md")).expect("a second name");
    place.write("a.md", "mine");
    place.record("r1");
    assert_eq!(place.objects(), 1, "of a.md alone");
    // A link in the place of a file that is brought back is replaced, not followed.
    std::fs::remove_file(place.path("a.md")).expect("gone");
    symlink(&secret, place.path("a.md")).expect("a link");
    place.record("r2");
    place
        .versions(QUOTA)
        .restore("a.md", None, now())
        .expect("kept");
    assert_eq!(place.read("a.md"), "mine");
    assert_eq!(std::fs::read_to_string(&secret).expect("a file"), "canary");
    // Nor a link in the place of its folder.
    place.write("box/b.md", "mine");
    place.record("r3");
    std::fs::remove_dir_all(place.path("box")).expect("gone");
    for to in [place.0.path(), Path::new(".."), Path::new("../../..")] {
        symlink(to, place.path("box")).expect("a link");
        place.record("r4");
        assert!(
            place
                .versions(QUOTA)
                .restore("box/b.md", None, now())
                .is_err(),
            "{to:?}"
        );
        assert!(!place.0.path().join("b.md").exists());
        assert!(!place.folder().join("b.md").exists());
        std::fs::remove_file(place.path("box")).expect("gone");
    }
    // Nor one in the place of the workspace: nothing is read, and nothing written.
    std::fs::rename(place.path(""), place.folder().join("moved")).expect("moved");
    symlink(".", place.folder().join("workspace")).expect("a link");
    assert!(place.versions(QUOTA).restore("a.md", None, now()).is_err());
    assert!(!place.folder().join("a.md").exists());
}

fn newest(folder: &Path) -> WorkspaceVersions {
    let quota = WorkspaceQuota {
        bytes_max: 1 << 20,
        versions_bytes_max: 1 << 20,
        ..QUOTA
    };
    WorkspaceVersions::of(folder, quota).expect("a place")
}

#[test]
fn the_command_lists_files_and_versions_and_brings_one_back() {
    let house = GuestHouse::new();
    let folder = house.path().join("personas/concierge");
    assert_eq!(
        house.json(&["workspace", "list", "concierge"]),
        serde_json::json!([])
    );
    make(&folder, "workspace").expect("a workspace");
    let write = |text: &str| {
        house.write("personas/concierge/workspace/report.md", text);
        newest(&folder)
            .record(Some(&RunId::new("r1")), now())
            .expect("recorded");
    };
    write("Twelve rooms.");
    write("No rooms.");
    let listed = house.json(&["workspace", "list", "concierge"]);
    assert_eq!(
        listed,
        serde_json::json!([{ "path": "report.md", "bytes": 9 }])
    );
    let kept = house.json(&["workspace", "versions", "concierge", "workspace/report.md"]);
    assert_eq!(kept.as_array().map(Vec::len), Some(1), "{kept}");
    assert_eq!(
        (&kept[0]["number"], &kept[0]["run"]),
        (&1.into(), &"r1".into())
    );
    let none = house.json(&["workspace", "versions", "concierge", "other.md"]);
    assert_eq!(none, serde_json::json!([]));
    let said = house.ok(&["workspace", "restore", "concierge", "workspace/report.md"]);
    assert!(
        said.stdout
            .contains("`workspace/report.md` is as it was until"),
        "{}",
        said.stdout
    );
    let now = std::fs::read_to_string(folder.join("workspace/report.md")).expect("a file");
    assert_eq!(now, "Twelve rooms.");
    let said = house.run(&[
        "workspace",
        "restore",
        "concierge",
        "report.md",
        "--version",
        "9",
    ]);
    assert_eq!(said.code, 66, "{}", said.stderr);
    assert!(
        said.stderr.contains("there is no version 9 of `report.md`"),
        "{}",
        said.stderr
    );
    assert_eq!(house.run(&["workspace", "list", "nobody"]).code, 66);
}
