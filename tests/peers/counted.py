"""What one answered letter costs, in numbers that no other program's work changes: commits and frames of the log, bytes kept,
instructions, system calls. See counted.sh."""

import argparse
import json
import pathlib
import re
import shutil
import smtplib
import sqlite3
import struct
import subprocess
import tempfile
import time

from first_letter import HOUSE, check
from household import House, Smarthost
from model_stub import ModelStub, call, say
from sinks import wait_for

GUEST = "guest@traveller.example"
RELAY = "mx.guesthouse.example"
BODY = "A line of a letter that is neither short nor long.\n" * 40
ANSWER = "From seven to ten, and she may bring her dog.\n" * 40
WARM = 12
# Most of each for one letter that comes alone: a model call that calls `send_email`, a second one, a mail to the smarthost.
LIMITS = {"commits": 6.5, "frames": 112, "kept_kb": 24.5}


def plan(request):
    """A mail by a tool, then a word."""
    if request["messages"][-1]["role"] == "tool":
        return say("Sent.")
    return call(("send_email", {"to": [GUEST], "body": ANSWER}))


class Counted:
    """An engine on SQLite that answers one letter after the other."""

    def __init__(self, binary, folder, model):
        self.smarthost = Smarthost()
        self.house = House(binary, folder, self.smarthost)
        self.house.edit("configs/inference.json", provider="openai", model="stub-1", providers={"openai": {"base_url": f"{model.url}/v1"}})
        self.house.edit("configs/security.json", access={"allow": ["*"]},
                        authentication={"trusted_relays": [{"peers": ["127.0.0.1"], "authserv_id": RELAY}]})
        self.house.environment["OPENAI_API_KEY"] = "none"
        self.count = 0

    def start(self, wrapper=(), seconds=120):
        self.house.start(wrapper=wrapper, seconds=seconds)
        return self

    def answer(self, letters, seconds=120):
        """One letter at a time, until each is answered and the answer's outcome is stored."""
        with smtplib.SMTP("127.0.0.1", self.house.port, local_hostname="traveller.example", timeout=seconds) as session:
            for _ in range(letters):
                self.count += 1
                name = f"{self.count}@traveller.example"
                session.sendmail(GUEST, HOUSE, f"Authentication-Results: {RELAY}; dkim=pass header.d=traveller.example\nFrom: {GUEST}\nTo: {HOUSE}\n"
                                 f"Date: {time.strftime('%a, %d %b %Y %H:%M:%S +0000', time.gmtime())}\nSubject: Breakfast\nMessage-ID: <{name}>\n\n{BODY}")
                wait_for("an answer", lambda: self.smarthost.answered(name), seconds, 0.002)
                wait_for("its outcome", lambda: self.rows("SELECT count(*) FROM deliveries WHERE state = 'done'")[0][0] == self.count
                         and self.rows("SELECT count(*) FROM runs WHERE state = 'succeeded'")[0][0] == self.count, seconds, 0.005)

    def rows(self, sql):
        rows = sqlite3.connect(f"file:{self.house.database}?mode=ro", uri=True)
        try:
            return rows.execute(sql).fetchall()
        finally:
            rows.close()


def log_of(database):
    """Commits and frames in the log, and its salt (sqlite.org/fileformat2.html, section 4.1)."""
    log = pathlib.Path(f"{database}-wal").read_bytes()
    size = struct.unpack(">I", log[8:12])[0]
    salt, commits, frames = log[16:24], 0, 0
    for at in range(32, len(log) - 23, size + 24):
        if log[at + 8:at + 16] != salt:
            break
        frames += 1
        commits += struct.unpack(">I", log[at + 4:at + 8])[0] != 0
    return salt, commits, frames


def counts_of_log(counted, letters):
    # While somebody reads, the log is not begun anew, however long the machine lets a letter wait.
    reader = sqlite3.connect(f"file:{counted.house.database}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM runs").fetchall()
    counted.answer(1)
    salt, commits, frames = log_of(counted.house.database)
    counted.answer(letters)
    later, more_commits, more_frames = log_of(counted.house.database)
    reader.close()
    check("the log was not begun anew meanwhile", salt == later)
    return {"commits": (more_commits - commits) / letters, "frames": (more_frames - frames) / letters}


def counts_of_calls(counted, letters):
    """The most frequent ones of a letter, or why they cannot be counted."""
    out = tempfile.NamedTemporaryFile("r", suffix=".strace")
    tracer = subprocess.Popen(["strace", "-f", "-c", "-o", out.name, "-p", str(counted.house.process.pid)], stderr=subprocess.PIPE, text=True)
    said = tracer.stderr.readline()
    if "attached" not in said:
        tracer.wait()
        return f"SKIPPED: strace may not look at the engine here: {said.strip()}"
    counted.answer(letters)
    tracer.terminate()
    tracer.wait()
    calls = {}
    for line in out:
        parts = line.split()
        if len(parts) >= 5 and parts[0].replace(".", "").isdigit() and parts[-1] != "total":
            calls[parts[-1]] = round(int(parts[3]) / letters, 1)
    return dict(sorted(calls.items(), key=lambda item: -item[1])[:14])


def counts_of_instructions(counted, folder, letters):
    """Of user code, by callgrind. The engine is started under it."""
    out = folder / "callgrind.out"
    counted.start(wrapper=["valgrind", "--tool=callgrind", "--collect-jumps=no", f"--callgrind-out-file={out}"], seconds=300)
    pid = str(counted.house.process.pid)
    counted.answer(WARM, 300)
    subprocess.run(["callgrind_control", "-z", pid], check=True, stdout=subprocess.DEVNULL)
    began = time.monotonic()
    counted.answer(letters, 300)
    took = time.monotonic() - began
    subprocess.run(["callgrind_control", "-d", pid], check=True, stdout=subprocess.DEVNULL)
    dumps = wait_for("a dump", lambda: [dump for dump in folder.glob("callgrind.out.*") if "totals:" in dump.read_text(errors="replace")], 60)
    total = sum(int(re.search(r"^totals: (\d+)", dump.read_text(errors="replace"), re.M)[1]) for dump in dumps)
    return {"instructions_millions": round(total / letters / 1e6, 3), "seconds": round(took, 1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--letters", type=int, default=15)
    parser.add_argument("--instructions", action="store_true")
    args = parser.parse_args()
    model = ModelStub(plan)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        counted = Counted(args.attache, folder / "house", model).start()
        counted.answer(WARM)
        found |= counts_of_log(counted, args.letters)
        pages = "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count"
        before = counted.rows(pages)[0][0]
        counted.answer(60)
        found["kept_kb"] = round((counted.rows(pages)[0][0] - before) * 4.096 / 60, 2)
        if shutil.which("strace"):
            found["calls"] = counts_of_calls(counted, args.letters)
        counted.house.kill()
        if args.instructions and shutil.which("valgrind"):
            counted = Counted(args.attache, folder / "slow", model)
            found |= counts_of_instructions(counted, folder, args.letters)
            counted.house.kill()
    print(json.dumps(found))
    for name, most in LIMITS.items():
        check(f"{name} of a letter: at most {most}", found[name] <= most, found[name])
    print("ok: a letter costs no more than its limits")


if __name__ == "__main__":
    main()
