//! Files of the persona's folder as attachments of a mail: regular files inside it, of bounded
//! size, and none that are for the owner alone, even in a mail to the owner; of the workspace in runs
//! of the owner, to owners only.

use crate::tools::contract::*;
use crate::tools::files::folder::{
    Closed, cannot_use, followed, is_in_workspace, not_allowed, objection, open_real, second_name,
    shown,
};
use cap_std::fs_utf8::Dir;
use std::io::Read;

const ATTACHMENTS_MAX: usize = 20;
/// Error code of a file that must not be attached.
const NOT_ALLOWED: &str = "attachment_not_allowed";
/// Reader of attachments: a mail may be forwarded.
const READER: Reader = Reader::Correspondent;

/// Reads the files. A path that is given twice is attached once.
pub(super) fn read_attachments(
    folder: &Dir,
    paths: &[String],
    limits: &ToolLimits,
    reader: Reader,
) -> Result<Vec<DraftAttachment>, ToolError> {
    if paths.len() > ATTACHMENTS_MAX {
        return refuse(
            "too_many_attachments",
            format!(
                "{} attachments, and at most {ATTACHMENTS_MAX} are allowed",
                paths.len()
            ),
        );
    }
    let mut attached: Vec<(String, DraftAttachment)> = Vec::new();
    let mut bytes_left = limits.attachments_bytes_max;
    for path in paths {
        let real = real_path(folder, path, reader)?;
        if attached.iter().any(|(other, _)| *other == real) {
            continue;
        }
        let bytes = read_whole(folder, &real, limits.file_bytes_max)?;
        let Some(left) = bytes_left.checked_sub(bytes.len()) else {
            let max = limits.attachments_bytes_max;
            return refuse(
                "attachments_too_large",
                format!(
                    "the attachments together have more than {max} bytes; send fewer or smaller files"
                ),
            );
        };
        bytes_left = left;
        let filename = real.rsplit('/').next().unwrap_or_default().to_owned();
        let content_type = mime_guess::from_path(&filename)
            .first_or_octet_stream()
            .to_string();
        attached.push((
            real,
            DraftAttachment {
                filename,
                content_type,
                bytes,
            },
        ));
    }
    Ok(attached
        .into_iter()
        .map(|(_, attachment)| attachment)
        .collect())
}

/// Returns the path with links followed, so that the checked name is the name of the file that is
/// read.
fn real_path(folder: &Dir, path: &str, reader: Reader) -> Result<String, ToolError> {
    let real = followed(folder, path)?;
    let refused = |closed: Closed| not_allowed(NOT_ALLOWED, path, closed);
    // What was made for the owner goes to the owner.
    let reader = match is_in_workspace(&real) {
        true => reader,
        false => READER,
    };
    objection(&real, reader).map_err(refused)?;
    // A name goes into a header of the mail.
    if real.chars().any(char::is_control) {
        return Err(refused(Closed("its name has control characters")));
    }
    Ok(real)
}

fn read_whole(folder: &Dir, path: &str, bytes_max: usize) -> Result<Vec<u8>, ToolError> {
    let (file, size) = open_real(folder, path)?;
    let failed = cannot_use(path);
    if let Some(closed) = second_name(folder, &file.metadata().map_err(failed)?, READER) {
        return Err(not_allowed(NOT_ALLOWED, path, closed));
    }
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    let more_than_allowed = bytes_max as u64 + 1;
    file.take(more_than_allowed)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if size > bytes_max as u64 || bytes.len() > bytes_max {
        return refuse(
            "attachment_too_large",
            format!(
                "`{}` has more than {bytes_max} bytes, the most that one file may have",
                shown(path)
            ),
        );
    }
    Ok(bytes)
}
