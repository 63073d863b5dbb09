//! Reads text files and tells usual faults apart: a folder in place of the file, another encoding,
//! an unreadable mode.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Error of a text file that cannot be read. Each variant names the fault; [`Unreadable::hint`] has
/// the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("there is no such file")]
    Missing,
    #[error("is a link to `{to}`, which does not exist")]
    DanglingLink { to: String },
    #[error("is a folder, not a file")]
    Folder,
    /// A pipe, a socket, a device.
    #[error("is not a regular file")]
    Irregular,
    #[error("has {bytes} bytes; at most {bytes_max} are read")]
    TooLarge { bytes: u64, bytes_max: u64 },
    #[error("is written in {0}, not in UTF-8")]
    OtherEncoding(&'static str),
    /// Line number, from 1, and value of the first byte that is not UTF-8.
    #[error("is not UTF-8: line {line} holds the byte 0x{byte:02X}")]
    NotUtf8 { line: usize, byte: u8 },
    #[error("may not be read by the user with the number {user}, as which this program runs")]
    Forbidden { user: u32 },
    #[error("cannot be read: {0}")]
    Failed(#[source] io::Error),
}

impl Unreadable {
    /// Remedy, where it is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::DanglingLink { .. } => {
                Some("write the file that it leads to, or make the link anew".to_owned())
            }
            Self::Folder => Some("move the folder away, and write a file of that name".to_owned()),
            Self::OtherEncoding(_) | Self::NotUtf8 { .. } => Some(
                "save it as UTF-8 in your editor, or convert it with `iconv -t UTF-8`".to_owned(),
            ),
            Self::Forbidden { user } => Some(format!(
                "`ls -l` shows whose it is; `chown {user}` makes it this user's"
            )),
            Self::Missing | Self::Irregular | Self::TooLarge { .. } | Self::Failed(_) => None,
        }
    }
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::Missing,
            ErrorKind::PermissionDenied => Self::Forbidden {
                user: rustix::process::geteuid().as_raw(),
            },
            _ => Self::Failed(error),
        }
    }
}

/// Returns the text of a regular file of at most `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> Result<String, Unreadable> {
    // Checked before the file is opened: opening a pipe would block until a writer opens it.
    let metadata = std::fs::metadata(path).map_err(|error| match std::fs::read_link(path) {
        Ok(to) if error.kind() == ErrorKind::NotFound => Unreadable::DanglingLink {
            to: to.display().to_string(),
        },
        _ => error.into(),
    })?;
    let bytes = metadata.len();
    match () {
        () if metadata.is_dir() => return Err(Unreadable::Folder),
        () if !metadata.is_file() => return Err(Unreadable::Irregular),
        () if bytes > bytes_max => return Err(Unreadable::TooLarge { bytes, bytes_max }),
        () => {}
    }
    let mut content = Vec::new();
    std::fs::File::open(path)?
        .take(bytes_max)
        .read_to_end(&mut content)?;
    decode(content)
}

/// Decodes UTF-8. Errors: the encoding that it is instead, as far as it can be detected.
fn decode(content: Vec<u8>) -> Result<String, Unreadable> {
    if content.starts_with(&[0xFF, 0xFE]) || content.starts_with(&[0xFE, 0xFF]) {
        return Err(Unreadable::OtherEncoding("UTF-16"));
    }
    String::from_utf8(content).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let content = error.into_bytes();
        let line = content[..valid]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1;
        Unreadable::NotUtf8 {
            line,
            byte: content.get(valid).copied().unwrap_or_default(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Not by a file of mode 0: tests may run as root, which may read every file.
    #[test]
    fn an_unreadable_file_names_the_user_and_the_remedy() {
        let error = Unreadable::from(io::Error::from(ErrorKind::PermissionDenied));
        let user = rustix::process::geteuid().as_raw();
        let said = format!(
            "may not be read by the user with the number {user}, as which this program runs"
        );
        assert_eq!(error.to_string(), said);
        let hint = format!("`ls -l` shows whose it is; `chown {user}` makes it this user's");
        assert_eq!(error.hint(), Some(hint));
    }
}
