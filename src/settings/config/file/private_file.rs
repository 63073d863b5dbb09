//! Writes a file that its user alone may read: whole or not at all, and on the disk before it counts as written.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Mode of the file, whatever the umask.
const MODE: u32 = 0o600;

/// Replaces a file, and makes its folder where there is none. Blocking. After an error the file is as it was before.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(".tmp");
    let draft = folder.join(name);
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(MODE);
    let mut file = options.open(&draft)?;
    // A draft that an earlier process left keeps its mode, and a umask takes bits away.
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    // The rename is durable only after an `fsync` of the folder.
    File::open(folder)?.sync_all()
}
