"""What a letter, its answer, a slot of a schedule and a page cost, in numbers that no other program's work changes: commits and
frames of the log, bytes kept, instructions, allocations, system calls; on PostgreSQL, statements, messages and transactions. See
counted.sh."""

import argparse
import http.client
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
import urllib.parse

from first_letter import HOUSE, check
from household import House, Smarthost
from model_stub import ModelStub, call, say
from nodes_rate import Server
from sinks import free_port, wait_for

GUEST = "guest@traveller.example"
OWNER = "marta@guesthouse.example"
RELAY = "mx.guesthouse.example"
BODY = "".join(f"Line {line} of a letter that is neither short nor long, with the number {line * 37}.\n" for line in range(28))
# An answer that says one sentence over and over is no letter, and the tool would refuse it.
ANSWER = "".join(f"On day {day} from seven to ten, and she may bring her dog number {day * day}.\n" for day in range(30))
WARM = 12
# Most of each. A reply: a letter that comes alone, a model call that calls `send_email`, a second one, a mail to the smarthost. A
# letter alone is stored, and its run waits. A slot is begun by a command and mails the owner in the same way. A page is read.
LIMITS = {
    "reply": {"commits": 6.2, "frames": 108, "kept_kb": 32},
    "letter": {"commits": 1.3, "frames": 36},
    "slot": {"commits": 7.2, "frames": 116},
    "page": {"commits": 0, "frames": 0},
    # On PostgreSQL: statements that the engine sends, messages that it waits for, transactions that write.
    "reply on a server": {"statements": 82, "messages": 74, "writes": 8.5},
}


def plan(request):
    """A mail by a tool, to whoever wrote, or of a schedule to the owner; then a word."""
    if request["messages"][-1]["role"] == "tool":
        return say("Sent.")
    if "Breakfast" in json.dumps(request["messages"]):
        return call(("send_email", {"to": [GUEST], "body": ANSWER}))
    return call(("send_email", {"to": [OWNER], "subject": "Digest", "body": ANSWER}))


class Counted:
    """An engine on SQLite that answers one letter after the other."""

    def __init__(self, binary, folder, model):
        self.smarthost = Smarthost()
        self.house = House(binary, folder, self.smarthost)
        self.house.edit("configs/gateway.json", listeners=[{"kind": "smtp", "address": "127.0.0.1:0"},
                                                           {"kind": "http", "address": f"127.0.0.1:{free_port()}"}])
        self.house.edit("configs/inference.json", provider="openai", model="stub-1", providers={"openai": {"base_url": f"{model.url}/v1"}})
        self.house.edit("configs/security.json", access={"allow": ["*"]},
                        authentication={"trusted_relays": [{"peers": ["127.0.0.1"], "authserv_id": RELAY}]})
        self.house.environment["OPENAI_API_KEY"] = "none"
        self.count = 0

    def start(self, wrapper=(), seconds=120):
        self.house.start(wrapper=wrapper, seconds=seconds)
        return self

    def send(self, session, name):
        session.sendmail(GUEST, HOUSE, f"Authentication-Results: {RELAY}; dkim=pass header.d=traveller.example\nFrom: {GUEST}\nTo: {HOUSE}\n"
                         f"Date: {time.strftime('%a, %d %b %Y %H:%M:%S +0000', time.gmtime())}\nSubject: Breakfast\nMessage-ID: <{name}>\n\n{BODY}")

    def answer(self, letters, seconds=120):
        """One letter at a time, until each is answered and the answer's outcome is stored."""
        with smtplib.SMTP("127.0.0.1", self.house.port, local_hostname="traveller.example", timeout=seconds) as session:
            for _ in range(letters):
                self.count += 1
                name = f"{self.count}@traveller.example"
                self.send(session, name)
                wait_for("an answer", lambda: self.smarthost.answered(name), seconds, 0.002)
                wait_for("its outcome", lambda: self.rows("SELECT count(*) FROM deliveries WHERE state = 'done'")[0][0] == self.count
                         and self.rows("SELECT count(*) FROM runs WHERE state = 'succeeded'")[0][0] == self.count, seconds, 0.005)

    def check_calls(self):
        """That each call did what it was to do: one that fails costs less."""
        failed = self.rows("SELECT payload_json FROM thread_tool_events WHERE event_type = 'tool_result' AND payload_json NOT LIKE '{\"ok\":true%'")
        check("every call of `send_email` mailed", not failed and self.rows("SELECT 1 FROM thread_tool_events"), failed[:1])

    def deliver(self, letters):
        """Letters that nobody answers, because the persona is halted."""
        with smtplib.SMTP("127.0.0.1", self.house.port, local_hostname="traveller.example") as session:
            for _ in range(letters):
                self.count += 1
                self.send(session, f"{self.count}@traveller.example")

    def begin_slot(self, times):
        for _ in range(times):
            before = self.rows("SELECT count(*) FROM deliveries WHERE state = 'done'")[0][0]
            self.house.run("schedule", "run", "weekday-digest")
            wait_for("the mail of a slot", lambda: self.rows("SELECT count(*) FROM deliveries WHERE state = 'done'")[0][0] > before, 60, 0.005)

    def log_in(self):
        made = self.house.json("web", "login")
        address, self.web = urllib.parse.urlsplit(made["url"]), None
        form = urllib.parse.urlencode({"code": address.fragment, "next": "/"})
        fields = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{address.netloc}"}
        self.web = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
        self.web.request("POST", "/login", form, fields)
        answer = self.web.getresponse()
        check("the code logs in", answer.status == 303, answer.read())
        answer.read()
        self.cookie = answer.headers["Set-Cookie"].split(";")[0]

    def read_page(self, times):
        """A thread's page."""
        thread = self.rows("SELECT id FROM threads ORDER BY updated_at DESC LIMIT 1")[0][0]
        for _ in range(times):
            self.web.request("GET", f"/t/{thread}", headers={"Cookie": self.cookie})
            answer = self.web.getresponse()
            page = answer.read().decode()
            check("a thread's page", answer.status == 200 and "Breakfast" in page, page[:500])

    def kept_bytes(self):
        return self.rows("SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size")[0][0]

    def rows(self, sql):
        rows = sqlite3.connect(f"file:{self.house.database}?mode=ro", uri=True)
        try:
            return rows.execute(sql).fetchall()
        finally:
            rows.close()


class CountedOnServer(Counted):
    """The same on PostgreSQL, which counts its statements."""

    def __init__(self, binary, folder, model, server):
        super().__init__(binary, folder, model)
        self.server = server
        self.house.environment["ATTACHE_DATABASE_URL"] = f"{server.url}?sslmode=disable"

    def rows(self, sql):
        return self.server.rows(sql)

    def counts(self, letters):
        """Of a letter, without what an engine without letters asks in that time. Looks of this program are not counted."""
        looks = ("json_agg", "pg_stat_statements")
        def count(work):
            self.server.begin_counting()
            began = time.monotonic()
            work()
            took = time.monotonic() - began
            rows = [row for row in self.server.statements() if not any(look in row["query"] for look in looks)]
            return sum(row["calls"] for row in rows), sum(row["calls"] for row in rows if row["query"] == "COMMIT"), took
        idle, _, seconds = count(lambda: time.sleep(5))
        statements, writes, took = count(lambda: self.answer(letters))
        statements -= idle * took / seconds
        # The begin of a write and its locks are two statements of one message.
        return {"statements": round(statements / letters, 1), "messages": round((statements - writes) / letters, 1), "writes": round(writes / letters, 2)}


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


def counts_of_log(counted, once, times):
    """Commits and frames of each time that `once` is called with a number of times."""
    # While somebody reads, the log is not begun anew, however long the machine lets a letter wait.
    reader = sqlite3.connect(f"file:{counted.house.database}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM runs").fetchall()
    once(1)
    salt, commits, frames = log_of(counted.house.database)
    once(times)
    later, more_commits, more_frames = log_of(counted.house.database)
    reader.close()
    check("the log was not begun anew meanwhile", salt == later)
    return {"commits": round((more_commits - commits) / times, 2), "frames": round((more_frames - frames) / times, 2)}


def counts_of_calls(counted, once, times):
    """The most frequent ones of each time, or why they cannot be counted."""
    out = tempfile.NamedTemporaryFile("r", suffix=".strace")
    tracer = subprocess.Popen(["strace", "-f", "-c", "-o", out.name, "-p", str(counted.house.process.pid)], stderr=subprocess.PIPE, text=True)
    said = tracer.stderr.readline()
    if "attached" not in said:
        tracer.wait()
        return f"SKIPPED: strace may not look at the engine here: {said.strip()}"
    once(times)
    tracer.terminate()
    tracer.wait()
    calls = {}
    for line in out:
        parts = line.split()
        if len(parts) >= 5 and parts[0].replace(".", "").isdigit() and parts[-1] != "total":
            calls[parts[-1]] = round(int(parts[3]) / times, 1)
    return dict(sorted(calls.items(), key=lambda item: -item[1])[:14])


def allocations(dump):
    """Calls of `malloc`, `calloc` and `realloc` in a dump (valgrind.org/docs/manual/cl-format.html)."""
    names, calls, called = {}, 0, None
    for line in dump.splitlines():
        if line.startswith("cfn="):
            number, _, name = line[4:].partition(" ")
            called = names.setdefault(number, name)
        elif line.startswith("fn="):
            number, _, name = line[3:].partition(" ")
            names.setdefault(number, name)
        elif line.startswith("calls=") and called in ("malloc", "calloc", "realloc"):
            calls += int(line[6:].split()[0])
    return calls


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
    texts = [dump.read_text(errors="replace") for dump in dumps]
    total = sum(int(re.search(r"^totals: (\d+)", text, re.M)[1]) for text in texts)
    return {"instructions_millions": round(total / letters / 1e6, 3), "allocations": round(sum(map(allocations, texts)) / letters),
            "seconds": round(took, 1)}


def counts_of_kept(counted, letters):
    before = counted.kept_bytes()
    counted.answer(letters)
    return {"kept_kb": round((counted.kept_bytes() - before) / letters / 1000, 2)}


def exceeded(found):
    return [f"{name} of a {what}: {found[what][name]}, at most {most}" for what, limits in LIMITS.items() if what in found
            for name, most in limits.items() if found[what].get(name, 0) > most]


def on_server(args, folder, model):
    server = Server(in_memory=True)
    try:
        if not server.counts_statements:
            print("SKIPPED: statements on PostgreSQL, which has no pg_stat_statements here")
            return {}
        counted = CountedOnServer(args.attache, folder / "server", model, server).start()
        # A text becomes a function of a connection when it was executed once.
        counted.answer(2 * WARM)
        server.analyze()
        counted.answer(WARM)
        found = counted.counts(args.letters)
        counted.check_calls()
        counted.house.kill()
        return found
    finally:
        server.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--letters", type=int, default=24)
    parser.add_argument("--instructions", action="store_true")
    args = parser.parse_args()
    model = ModelStub(plan)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        counted = Counted(args.attache, folder / "house", model).start()
        counted.answer(WARM)
        found["reply"] = counts_of_log(counted, counted.answer, args.letters) | counts_of_kept(counted, 60)
        if shutil.which("strace"):
            found["calls"] = counts_of_calls(counted, counted.answer, args.letters)
        counted.log_in()
        counted.read_page(WARM)
        found["page"] = counts_of_log(counted, counted.read_page, 8)
        found["slot"] = counts_of_log(counted, counted.begin_slot, 8)
        counted.check_calls()
        counted.house.run("halt", "--reason", "counted")
        found["letter"] = counts_of_log(counted, counted.deliver, args.letters)
        counted.house.kill()
        # The control: one index more, and the limit is exceeded.
        spoilt = Counted(args.attache, folder / "spoilt", model).start()
        with sqlite3.connect(spoilt.house.database) as rows:
            rows.execute("CREATE INDEX one_too_many ON messages (persona_id, subject, received_at)")
        spoilt.answer(WARM)
        found["reply with an index more"] = counts_of_log(spoilt, spoilt.answer, args.letters)
        spoilt.house.kill()
        if shutil.which("psql"):
            found["reply on a server"] = on_server(args, folder, model)
        if args.instructions and shutil.which("valgrind"):
            counted = Counted(args.attache, folder / "slow", model)
            found |= counts_of_instructions(counted, folder, args.letters)
            counted.house.kill()
    print(json.dumps(found))
    check("no limit is exceeded", not exceeded(found), exceeded(found))
    spoilt = exceeded({"reply": found["reply"] | found["reply with an index more"]})
    check(f"the control, with an index more, is found: {spoilt}", spoilt)


if __name__ == "__main__":
    main()
