//! `read_file` and `list_files`: useful inside the persona's folder, blind outside; FS01, FS02, FS03 and FS05 of the
//! attack battery.

use super::RunDeps;
use attache::tools::Reader;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::time::Duration;

#[tokio::test]
async fn a_file_is_read_whole_or_in_pieces() {
    let run_deps = RunDeps::new().await;
    run_deps.write("knowledge/rooms.md", "# Räume\nZwölf.\n");
    let whole = run_deps
        .result("read_file", json!({"path": "./knowledge/rooms.md"}))
        .await;
    let wanted = json!({
        "path": "./knowledge/rooms.md", "size_bytes": 17, "offset": 0, "content": "# Räume\nZwölf.\n",
        "truncated": false, "next_offset": null,
        "sha256": attache::domain::sha256_hex(&["# Räume\nZwölf.\n".as_bytes()]),
    });
    assert_eq!(whole, wanted);
    let (mut joined, mut offset) = (String::new(), json!(0));
    while !offset.is_null() {
        let args = json!({"path": "knowledge/rooms.md", "offset": offset, "max_bytes": 4});
        let piece = run_deps.result("read_file", args).await;
        joined.push_str(piece["content"].as_str().expect("text"));
        offset = piece["next_offset"].clone();
    }
    assert_eq!(joined, "# Räume\nZwölf.\n");
    let past = run_deps
        .result(
            "read_file",
            json!({"path": "knowledge/rooms.md", "offset": 1e18}),
        )
        .await;
    assert_eq!(
        (&past["content"], &past["truncated"]),
        (&json!(""), &json!(false))
    );
}

#[tokio::test]
async fn an_answer_is_never_larger_than_the_limit() {
    let run_deps = RunDeps::new().await;
    // Each of these bytes is six in JSON.
    run_deps.write("worst.txt", vec![1; 10_000]);
    let piece = run_deps
        .result("read_file", json!({"path": "worst.txt"}))
        .await;
    assert!(
        piece.to_string().len() <= 4096,
        "{}",
        piece.to_string().len()
    );
    assert_eq!(piece["truncated"], true);
    for n in 0..600 {
        run_deps.write(&format!("many/{n:04}.md"), "");
    }
    let listing = run_deps.result("list_files", json!({})).await;
    assert!(
        listing.to_string().len() <= 4096,
        "{}",
        listing.to_string().len()
    );
    assert_eq!(listing["truncated"], true);
}

#[tokio::test]
async fn files_that_are_no_text_or_too_large_are_refused_in_words() {
    let run_deps = RunDeps::new().await;
    run_deps.write("logo.png", [0x89, b'P', b'N', b'G', 0, 0]);
    run_deps.write("large.txt", vec![b'x'; 16 * 1024 + 1]);
    run_deps.write("latin1.txt", [b'f', 0xFC, b'r']);
    let (code, message) = run_deps
        .failure("read_file", json!({"path": "logo.png"}))
        .await;
    assert_eq!(
        (code, message.contains("not a text file")),
        ("binary_file", true),
        "{message}"
    );
    let (code, message) = run_deps
        .failure("read_file", json!({"path": "large.txt"}))
        .await;
    assert_eq!(
        (code, message.contains("16384")),
        ("file_too_large", true),
        "{message}"
    );
    // Text of another encoding is read as what it says.
    assert_eq!(
        run_deps
            .result("read_file", json!({"path": "latin1.txt"}))
            .await["content"],
        "für"
    );
}

#[tokio::test]
async fn bytes_without_a_nul_are_no_text_either() {
    let run_deps = RunDeps::new().await;
    let compressed: Vec<u8> = (1..=255).cycle().take(3000).collect();
    let pdf = [
        b"%PDF-1.3\n%\xc4\xe5\xf2\xe5\xeb\xa7\n4 0 obj stream\n".to_vec(),
        compressed.clone(),
    ]
    .concat();
    run_deps.write("menu.pdf", &pdf);
    run_deps.write(
        "photo.jpg",
        [b"\xff\xd8\xff\xe0\x10JFIF".to_vec(), compressed].concat(),
    );
    for path in ["menu.pdf", "photo.jpg"] {
        let (code, message) = run_deps.failure("read_file", json!({"path": path})).await;
        assert_eq!(
            (code, message.contains("not a text file")),
            ("binary_file", true),
            "{message}"
        );
    }
    // However it is cut into pieces: it is the file that is no text.
    let args = json!({"path": "menu.pdf", "offset": 0, "max_bytes": 8});
    assert_eq!(run_deps.failure("read_file", args).await.0, "binary_file");
}

#[tokio::test]
async fn hidden_files_stay_hidden_from_every_tool_by_every_spelling() {
    let run_deps = RunDeps::new().await;
    run_deps.write(".ssh/id", "K_HIDDEN");
    run_deps.write("knowledge/.draft.md", "K_HIDDEN");
    run_deps.write(".memory/active-1.md", "K_HIDDEN");
    run_deps.write("persona.json", "{\"note\": \"K_HIDDEN\"}");
    run_deps.write("responsibilities/evening.md", "K_HIDDEN");
    symlink(".ssh/id", run_deps.path("plain.md")).expect("a link");
    symlink(".ssh", run_deps.path("keys")).expect("a link");
    symlink("persona.json", run_deps.path("me.md")).expect("a link");
    let paths = [
        ".ssh/id",
        "./.ssh/id",
        "knowledge/../.ssh/id",
        "knowledge/.draft.md",
        ".memory/active-1.md",
        "persona.json",
        "knowledge/../persona.json",
        "responsibilities/evening.md",
        "plain.md",
        "keys/id",
        "me.md",
    ];
    for path in paths {
        let (code, message) = run_deps.failure("read_file", json!({"path": path})).await;
        assert_eq!(code, "file_not_allowed", "{path}: {message}");
    }
    for path in [".ssh", ".memory", "keys", "responsibilities", "./.ssh/"] {
        let (code, message) = run_deps.failure("list_files", json!({"path": path})).await;
        assert_eq!(code, "file_not_allowed", "{path}: {message}");
    }
    let listing = run_deps.result("list_files", json!({})).await.to_string();
    for name in ["ssh/", "persona.json", "responsibilities", "memory"] {
        assert!(!listing.contains(name), "{name} in {listing}");
    }
}

#[tokio::test]
async fn a_file_with_a_second_name_is_not_read() {
    let run_deps = RunDeps::new().await;
    std::fs::write(run_deps.outside(".secrets"), "K_SECRET").expect("a file");
    std::fs::hard_link(
        run_deps.outside(".secrets"),
        run_deps.path("knowledge/notes.md"),
    )
    .expect("a link");
    run_deps.write("knowledge/rooms.md", "twelve");
    let (code, message) = run_deps
        .failure("read_file", json!({"path": "knowledge/notes.md"}))
        .await;
    assert_eq!(code, "file_not_allowed", "{message}");
    let args =
        json!({"to": "carol@partner.test", "body": "x", "attachments": ["knowledge/notes.md"]});
    assert_eq!(
        run_deps.failure("send_email", args).await.0,
        "attachment_not_allowed"
    );
    assert_eq!(
        run_deps
            .result("read_file", json!({"path": "knowledge/rooms.md"}))
            .await["content"],
        "twelve"
    );
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_out_of_the_folder() {
    let run_deps = RunDeps::new().await;
    std::fs::write(run_deps.outside("K_FILE"), "canary").expect("a file");
    let absolute = run_deps.outside("K_FILE").display().to_string();
    let hostile = [
        "../../K_FILE",
        "knowledge/../../../K_FILE",
        "./../../K_FILE",
        "knowledge/./.././../../K_FILE",
        "../ada/../../K_FILE",
        absolute.as_str(),
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/environ",
        "/dev/stdin",
        "~/.ssh/id_rsa",
        "file:///etc/passwd",
        "..\\..\\K_FILE",
        "%2e%2e/%2e%2e/K_FILE",
        "..%2f..%2fK_FILE",
        "../../K_FILE\0.md",
        "knowledge\0/../../../K_FILE",
        "..",
        "../..",
        "../../../../../../../../../../etc/passwd",
        "",
    ];
    let long = "a/".repeat(3000);
    for path in hostile.iter().copied().chain([long.as_str()]) {
        for (tool, args) in [
            ("read_file", json!({"path": path})),
            ("list_files", json!({"path": path})),
        ] {
            if tool == "list_files" && path.is_empty() {
                continue; // the folder itself
            }
            let (code, message) = run_deps.failure(tool, args).await;
            let codes = ["path_not_allowed", "file_not_found", "file_error"];
            assert!(codes.contains(&code), "{tool} {path:?}: {code} {message}");
            assert!(
                !message.contains("canary") && !message.chars().any(char::is_control),
                "{message:?}"
            );
            assert!(message.len() < 300, "{message}");
        }
    }
}

#[tokio::test]
async fn links_are_followed_only_inside_the_folder() {
    let run_deps = RunDeps::new().await;
    std::fs::create_dir(run_deps.outside("other")).expect("a folder");
    std::fs::write(run_deps.outside("other/K_FILE"), "canary").expect("a file");
    run_deps.write("knowledge/rooms.md", "twelve");
    symlink("knowledge/rooms.md", run_deps.path("inside")).expect("a link");
    symlink(run_deps.outside("other/K_FILE"), run_deps.path("absolute")).expect("a link");
    symlink("../../other/K_FILE", run_deps.path("relative")).expect("a link");
    symlink("../../other", run_deps.path("folder")).expect("a link");
    symlink("/", run_deps.path("root")).expect("a link");
    symlink("circle", run_deps.path("circle")).expect("a link");
    assert_eq!(
        run_deps
            .result("read_file", json!({"path": "inside"}))
            .await["content"],
        "twelve"
    );
    for path in [
        "absolute",
        "relative",
        "folder/K_FILE",
        "root/etc/passwd",
        "root/proc/self/environ",
    ] {
        let (code, message) = run_deps.failure("read_file", json!({"path": path})).await;
        assert_eq!(code, "path_not_allowed", "{path}: {message}");
    }
    assert_eq!(
        run_deps
            .failure("read_file", json!({"path": "circle"}))
            .await
            .0,
        "file_error"
    );
    for path in ["folder", "root", "root/etc"] {
        assert_eq!(
            run_deps
                .failure("list_files", json!({"path": path}))
                .await
                .0,
            "path_not_allowed",
            "{path}"
        );
    }
    let listing = run_deps.result("list_files", json!({})).await.to_string();
    assert!(
        listing.contains(r#"{"path":"folder","type":"other"}"#),
        "{listing}"
    );
    assert!(!listing.contains("K_FILE"), "{listing}");
}

#[tokio::test]
async fn what_is_not_a_regular_file_is_refused_and_does_not_block() {
    let run_deps = RunDeps::new().await;
    let made = std::process::Command::new("mkfifo")
        .arg(run_deps.path("pipe"))
        .status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    let _socket =
        std::os::unix::net::UnixListener::bind(run_deps.path("socket")).expect("a socket");
    for path in ["pipe", "socket", "knowledge", "."] {
        for (tool, args) in [
            ("read_file", json!({"path": path})),
            (
                "send_email",
                json!({"to": "carol@partner.test", "body": "x", "attachments": [path]}),
            ),
        ] {
            let refused =
                tokio::time::timeout(Duration::from_secs(5), run_deps.failure(tool, args)).await;
            assert_eq!(
                refused.map(|(code, _)| code),
                Ok("not_a_file"),
                "{tool} {path}"
            );
        }
    }
}

#[tokio::test]
async fn a_listing_shows_files_and_folders_but_not_the_hidden_ones() {
    let run_deps = RunDeps::new().await;
    run_deps.write("PERSONA.md", "I am Ada.");
    run_deps.write("knowledge/rooms.md", "12");
    run_deps.write(".memory/active-1.md", "old");
    let listing = run_deps.result("list_files", json!({})).await;
    let wanted = json!({
        "entries": [
            {"path": "PERSONA.md", "type": "file", "bytes": 9},
            {"path": "knowledge", "type": "folder"},
            {"path": "knowledge/rooms.md", "type": "file", "bytes": 2},
        ],
        "truncated": false,
    });
    assert_eq!(listing, wanted);
    let below = run_deps
        .result("list_files", json!({"path": "knowledge/"}))
        .await;
    assert_eq!(below["entries"][0]["path"], "knowledge/rooms.md");
    assert_eq!(
        run_deps
            .failure("list_files", json!({"path": "PERSONA.md"}))
            .await
            .0,
        "file_not_found"
    );
}

/// What an agent wrote for the owner is the owner's; what it wrote for others, nobody's.
#[tokio::test]
async fn the_workspace_is_read_and_sent_in_runs_of_the_owner_alone() {
    let mut run_deps = RunDeps::new().await;
    run_deps.write("workspace/notes.md", "private");
    run_deps.write("workspace/correspondents/0011/notes.md", "of Carol");
    run_deps.write("knowledge/rooms.md", "public");
    symlink("workspace/notes.md", run_deps.path("alias.md")).expect("a link");
    let others = "workspace/correspondents/0011/notes.md";
    let mail = |path: &str| json!({"to": "owner@home.test", "subject": "Notes", "body": "Here.", "attachments": [path]});
    for reader in [Reader::Owner, Reader::Correspondent, Reader::Unproven] {
        run_deps.reader = reader;
        let is_owner = reader == Reader::Owner;
        for (path, is_open) in [
            ("workspace/notes.md", is_owner),
            ("WORKSPACE/notes.md", false),
            ("alias.md", is_owner),
            (others, false),
            ("knowledge/rooms.md", true),
        ] {
            let read = run_deps.call("read_file", json!({"path": path})).await;
            assert_eq!(read.is_ok(), is_open, "{reader:?} reads {path}");
            let sent = run_deps.call("send_email", mail(path)).await;
            assert_eq!(sent.is_ok(), is_open, "{reader:?} sends {path}");
            let mut mail = mail(path);
            mail["cc"] = json!("carol@partner.test");
            let sent = run_deps.call("send_email", mail).await;
            let is_public = path.starts_with("knowledge");
            assert_eq!(
                sent.is_ok(),
                is_public,
                "{reader:?} sends {path} to Carol, too"
            );
        }
        let listed = run_deps.result("list_files", json!({})).await.to_string();
        assert_eq!(
            listed.contains("workspace/notes.md"),
            is_owner,
            "{reader:?}"
        );
        assert!(!listed.contains("0011"), "{listed}");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_folder_that_turns_into_a_link_and_back_gives_nothing_away() {
    let run_deps = RunDeps::new().await;
    std::fs::create_dir(run_deps.outside("other")).expect("a folder");
    std::fs::write(run_deps.outside("other/note.md"), "canary").expect("a file");
    run_deps.write("real/note.md", "inside");
    symlink("../../other", run_deps.path("fake")).expect("a link");
    let (real, fake, name) = (
        run_deps.path("real"),
        run_deps.path("fake"),
        run_deps.path("flip"),
    );
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = stop.clone();
    let flipper = std::thread::spawn(move || {
        while !told.load(std::sync::atomic::Ordering::Relaxed) {
            for side in [&real, &fake] {
                std::fs::rename(side, &name).expect("a rename");
                std::fs::rename(&name, side).expect("a rename");
            }
        }
    });
    let mut inside = 0;
    for _ in 0..2000 {
        let outcome = run_deps
            .call("read_file", json!({"path": "flip/note.md"}))
            .await;
        if let Ok(outcome) = outcome {
            assert_eq!(outcome.result["content"], Value::from("inside"));
            inside += 1;
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    flipper.join().expect("the flipper");
    eprintln!("{inside} of 2000 reads met the real folder");
}
