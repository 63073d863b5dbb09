"""A workspace on a disk that is mounted read-only, as a snapshot or a failing disk is: everything can be looked at, what
would write says why it cannot, and a log that cannot be read is said and not passed over. See disk.sh."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from disks import command
from first_letter import check
from household import House, Smarthost, asked_binary

LOOKS = [["threads", "list"], ["runs", "list"], ["outbox", "list"], ["notices", "list"], ["usage"], ["replay", "last"],
         ["replay", "verify", "--all"], ["doctor", "--audit"], ["schedule", "list"], ["persona", "list"]]
TEMPFAIL = 75


class ReadOnly:
    """A folder, seen through a mount that takes no writes."""

    def __init__(self, folder, seen):
        self.seen = pathlib.Path(seen)
        self.seen.mkdir()
        command("mount", "--bind", str(folder), str(seen))
        command("mount", "-o", "remount,bind,ro", str(seen))

    def close(self):
        subprocess.run(["umount", "-l", str(self.seen)], capture_output=True)


def looks(house, what):
    for words in LOOKS:
        code, out, err = house.ask(*words)
        check(f"{what}: `attache {' '.join(words)}` works", code == 0, f"{code}\n{out}{err}")


def main():
    binary = asked_binary()
    with tempfile.TemporaryDirectory(prefix="attache-read-only-") as scratch:
        scratch = pathlib.Path(scratch)
        house = House(binary, scratch / "house", Smarthost())
        house.start()
        house.probe("before")
        # As it is while an engine works, or after one was killed: with its log beside it.
        shutil.copytree(house.folder, scratch / "killed", ignore=shutil.ignore_patterns("*.sock"))
        house.stop()
        mounts = []
        try:
            for name in ("house", "killed"):
                mounts.append(ReadOnly(scratch / name, scratch / f"{name}-seen"))
                house.folder = mounts[-1].seen
                looks(house, name)
                code, _, err = house.ask("backup", str(scratch / f"{name}.db"))
                check(f"{name}: a backup to another disk works", code == 0, err)
                code, _, err = house.ask("serve")
                check(f"{name}: no engine starts", code not in (0, 1, 101) and "hint:" in err, f"{code} {err}")
                letter = scratch / "letter.eml"
                letter.write_text("From: guest@traveller.example\nTo: concierge@guesthouse.example\n\nHi\n")
                code, _, err = house.ask("ingest", str(letter))
                check(f"{name}: no letter is taken", code == TEMPFAIL, f"{code} {err}")
            shutil.copytree(scratch / "killed", scratch / "torn")
            log = scratch / "torn/data/attache.db-wal"
            check("the killed one left a log", log.stat().st_size > 0)
            (scratch / "torn/data/attache.db-shm").unlink()
            mounts.append(ReadOnly(scratch / "torn", scratch / "torn-seen"))
            house.folder = mounts[-1].seen
            code, _, err = house.ask("threads", "list")
            check("a log that cannot be read is said", code != 0 and "attache.db-wal" in err and "hint:" in err, f"{code} {err}")
        finally:
            for mount in mounts:
                mount.close()
            house.folder = scratch / "house"
            house.close()
    print(f"ok: {len(LOOKS)} commands read a workspace on a read-only disk, after an orderly end and after a kill; a backup of it "
          "is made, no letter is taken, and a log that cannot be read is said", flush=True)


if __name__ == "__main__":
    main()
