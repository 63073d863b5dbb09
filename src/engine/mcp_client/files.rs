//! The program of a server and the scripts among its arguments, by their digests.

use crate::config::{McpServer, PinnedFile};
use crate::domain::hex;
use crate::providers::child::program::Program;
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Largest file that is digested.
const FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Ends of names of scripts: what an interpreter executes. Other files among the arguments may be data, which changes.
const SCRIPTS: &[&str] = &[
    "py", "js", "mjs", "cjs", "ts", "sh", "rb", "pl", "php", "jar",
];

/// Reason why the files of a server cannot be digested.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("`{0}` is not a program")]
    NoProgram(String),
    #[error("`{path}` cannot be read")]
    Unread {
        path: String,
        #[source]
        source: io::Error,
    },
}

/// Digests the program of a server and its scripts; nothing for a server at an address. Blocks.
pub fn pinned_files(server: &McpServer) -> Result<Vec<PinnedFile>, FilesError> {
    let [wanted, args @ ..] = server.command.as_slice() else {
        return Ok(Vec::new());
    };
    let places = (server.folder.as_path(), server.folder.as_path());
    let program = Program::at(wanted, places, server.values.clone());
    let program = program.ok_or_else(|| FilesError::NoProgram(wanted.clone()))?;
    let scripts = args.iter().map(|arg| server.folder.join(arg));
    let scripts = scripts.filter(|path| is_script(path));
    let paths = [PathBuf::from(program.path())].into_iter().chain(scripts);
    paths.map(|path| pinned(&path)).collect()
}

fn is_script(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str());
    end.is_some_and(|end| SCRIPTS.contains(&end)) && path.is_file()
}

fn pinned(path: &Path) -> Result<PinnedFile, FilesError> {
    let shown = path.display().to_string();
    let unread = |source| FilesError::Unread {
        path: path.display().to_string(),
        source,
    };
    let mut file = std::fs::File::open(path)
        .map_err(unread)?
        .take(FILE_BYTES_MAX);
    let (mut digest, mut piece) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        let count = file.read(&mut piece).map_err(unread)?;
        if count == 0 {
            break;
        }
        digest.update(&piece[..count]);
    }
    Ok(PinnedFile {
        path: shown,
        sha256: hex(&digest.finalize()),
    })
}

/// Returns what is not as it was approved; `None`: everything is. Blocks.
pub fn changed(server: &McpServer) -> Option<String> {
    let now = match pinned_files(server) {
        Ok(now) => now,
        Err(error) => return Some(error.to_string()),
    };
    if now == server.files {
        return None;
    }
    let other = now.iter().find(|file| !server.files.contains(file));
    Some(match other {
        Some(file) => format!("`{}` is not the file that was approved", file.path),
        None => "a script that was approved is gone".to_owned(),
    })
}
