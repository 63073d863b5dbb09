"""Disks of our own that can be filled, made read-only, or cut from the power: files mounted as ext4 by a loop device, and
tmpfs. `python3 disks.py` says why there can be none here, or nothing."""

import errno
import fcntl
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

# Linux, fs/ext4/ext4.h: stop the file system at once. With NOLOGFLUSH nothing more reaches the disk, not even the
# journal that is in memory; what was not forced out by an fsync is gone, as after a power cut.
EXT4_IOC_SHUTDOWN = 0x8004587D
NOLOGFLUSH = 2


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"FAILED: {' '.join(words)}\n{done.stdout}{done.stderr}")


class LoopDisk:
    """ext4 in a file. Its journal commits by itself once a minute only, so that nothing but an fsync makes durable."""

    def __init__(self, scratch, size="1G"):
        self.image, self.path = pathlib.Path(scratch) / "disk.img", pathlib.Path(scratch) / "disk"
        self.path.mkdir()
        with open(self.image, "wb"):
            pass
        command("truncate", "-s", size, str(self.image))
        # Nothing initialised lazily: a thread of the kernel would write, and commit, behind the test's back.
        command("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(self.image))
        self.mount()

    def mount(self):
        command("mount", "-o", "loop,commit=60,errors=remount-ro", str(self.image), str(self.path))

    def turn_read_only(self):
        """As ext4 does when it meets an error: its journal is given up, and every write answers EROFS."""
        device = subprocess.run(["findmnt", "-no", "SOURCE", str(self.path)], capture_output=True, text=True).stdout.strip()
        pathlib.Path("/sys/fs/ext4", os.path.basename(device), "trigger_fs_error").write_text("1")

    def cut_power(self):
        """The power goes. Whoever writes must have been stopped before: an fsync that is under way while the journal is
        given up may be told that it succeeded, which no real disk would do."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", NOLOGFLUSH))
        finally:
            os.close(folder)

    def power_again(self):
        """Mounts what reached the disk; the file system replays its journal."""
        command("umount", str(self.path))
        self.mount()

    def close(self):
        subprocess.run(["umount", str(self.path)], capture_output=True)


class MemoryDisk:
    """A small tmpfs."""

    def __init__(self, scratch, size="16m"):
        self.path = pathlib.Path(scratch) / "memory"
        self.path.mkdir()
        command("mount", "-t", "tmpfs", "-o", f"size={size}", "attache-test", str(self.path))
        self.filler = self.path / "filler"

    def fill(self, leave=0):
        """Takes every byte that there is, or all but so many."""
        with open(self.filler, "ab", buffering=0) as filler:
            try:
                while (disk := os.statvfs(self.path)).f_bavail * disk.f_frsize > leave:
                    filler.write(bytes(disk.f_frsize))
            except OSError as full:
                if full.errno != errno.ENOSPC:
                    raise

    def free(self):
        self.filler.unlink(missing_ok=True)

    def close(self):
        subprocess.run(["umount", "-l", str(self.path)], capture_output=True)


def absence():
    """Why no disk of our own can be had here; empty when it can."""
    if not sys.platform.startswith("linux"):
        return "Linux, whose ext4 can be stopped at will"
    if os.geteuid() != 0:
        return "root, because only root mounts"
    for program in ("mkfs.ext4", "mount", "losetup"):
        if not shutil.which(program):
            return f"{program}, which is not installed"
    with tempfile.TemporaryDirectory(prefix="attache-disk-") as scratch:
        try:
            LoopDisk(scratch, "16M").close()
        except SystemExit as refused:
            return f"a loop device with ext4, which cannot be mounted here ({str(refused).splitlines()[-1]})"
    return ""


if __name__ == "__main__":
    print(absence(), end="")
