"""A workspace whose engine and machine are maltreated: started, stopped, killed; clients that note what they were told;
and what must hold of the database afterwards. Used by the tests of the machine's faults (powercut, disk, machine)."""

import argparse
import collections
import contextlib
import email
import hashlib
import json
import os
import pathlib
import random
import re
import selectors
import signal
import socket
import socketserver
import sqlite3
import subprocess
import threading
import time

import guest_house
from first_letter import HOUSE, check
from sinks import wait_for

GUEST = "guest@traveller.example"
PROBE_SECONDS = 10.0
# A call of a tool and an answer, so that a run has steps between which it can be interrupted.
SCRIPT = {"turns": [{"call": [{"tool": "list_files", "args": {}}]}, {"say": "From seven to ten."}]}

INVARIANTS = {
    "letters with neither a run nor a rule":
        "SELECT id FROM messages m WHERE direction = 'inbound' AND disposition = 'run' AND NOT EXISTS "
        "(SELECT 1 FROM runs r WHERE r.trigger_message_id = m.id)",
    "letters with more than one run": "SELECT trigger_message_id FROM runs GROUP BY 1 HAVING count(*) > 1",
    "letters stored twice":
        "SELECT message_id FROM messages WHERE direction = 'inbound' GROUP BY persona_id, message_id HAVING count(*) > 1",
    "letters without their bytes":
        "SELECT m.id FROM messages m WHERE direction = 'inbound' AND raw_id IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM raw_letters l WHERE l.id = m.raw_id)",
    "calls of ended runs without exactly one result":
        "SELECT c.id FROM thread_tool_events c JOIN runs r ON r.id = c.run_id WHERE c.event_type = 'tool_call' "
        "AND r.finished_at IS NOT NULL AND (SELECT count(*) FROM thread_tool_events e WHERE e.run_id = c.run_id "
        "AND e.tool_call_id = c.tool_call_id AND e.event_type = 'tool_result') <> 1",
    "steps with a gap":
        "SELECT run_id FROM thread_tool_events GROUP BY run_id HAVING max(step_index) <> count(*) - 1",
    "answers sent twice by one run":
        "SELECT run_id FROM deliveries WHERE kind = 'mail' AND run_id IS NOT NULL GROUP BY 1 HAVING count(*) > 1",
    "broken foreign keys": 'SELECT "table" FROM pragma_foreign_key_check',
}


def asked_binary():
    """The binary to test, from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    return parser.parse_args().attache


class Smarthost:
    """A mail server that takes everything and keeps the bytes; `is_open` false makes it hang up on everybody.
    `late`: the share of its replies to the final dot that come late, so that a kill may fall before them."""

    def __init__(self, late=0.0):
        self.mails, self.lock, self.is_open, self.chance = [], threading.Lock(), True, random.Random(7)
        host = self

        class Session(socketserver.StreamRequestHandler):
            def handle(self):
                try:
                    self.talk()
                except OSError:
                    pass  # The engine died in the middle; that is what these tests are about.

            def say(self, line):
                self.wfile.write(line.encode() + b"\r\n")

            def talk(self):
                if not host.is_open:
                    return
                self.say("220 sink.test")
                while (line := self.rfile.readline()) and host.is_open:
                    verb = line[:4].upper()
                    if verb == b"QUIT":
                        return self.say("221 bye")
                    if verb != b"DATA":
                        self.say("250 yes")
                        continue
                    self.say("354 go on")
                    mail = bytearray()
                    while not mail.endswith(b"\r\n.\r\n"):
                        more = self.rfile.readline()
                        if not more:
                            return
                        mail += more
                    with host.lock:
                        host.mails.append(bytes(mail))
                        is_late = host.chance.random() < late
                    if is_late:
                        time.sleep(0.05)
                    self.say("250 taken")

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address, daemon_threads, request_queue_size = True, True, 64

        self.server = Server(("127.0.0.1", 0), Session)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def copies(self):
        """Message-ID -> the hashes of what came under it."""
        with self.lock:
            mails = list(self.mails)
        came = collections.defaultdict(list)
        for mail in mails:
            came[email.message_from_bytes(mail)["Message-ID"].strip("<>")].append(hashlib.sha256(mail).hexdigest())
        return came

    def answered(self, name):
        with self.lock:
            return any(b"In-Reply-To: <" + name.encode() + b">" in mail for mail in self.mails)


class House:
    """A workspace, and the engine of the moment on it."""

    def __init__(self, binary, folder, smarthost, limits=None, script=SCRIPT, environment=None):
        self.binary, self.folder, self.process, self.port = binary, pathlib.Path(folder), None, None
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("ATTACHE_")}
        self.environment.update(environment or {})
        self.smarthost, self.probes = smarthost, 0
        self.log_path = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"attache-{os.getpid()}-{id(self)}.log"
        guest_house.write(self.folder)
        # The scripted model calls what its script says, whoever writes.
        self.edit("personas/concierge/persona.json", tools="all")
        often = {name: 1_000_000 for name in ("replies_per_hour_max", "replies_per_day_max", "alternations_max", "domain_runs_per_day_max")}
        often["letters_per_run_max"] = 1  # each has a run of its own
        self.edit("configs/gateway.json", listeners=[{"kind": "smtp", "address": "127.0.0.1:0"}],
                  limits={**often, **(limits or {})},
                  outbound={"kind": "smarthost", "host": "127.0.0.1", "port": smarthost.port, "tls": "none"})
        # Many at once, so that no letter waits long behind those of a test, and no bound on a day.
        self.edit("configs/inference.json", concurrency={"runs_max": 32, "runs_per_persona_max": 32}, budget={})
        (self.folder / "configs/demo-script.json").write_text(json.dumps(script))
        self.run("config", "check")

    @property
    def database(self):
        return self.folder / "data" / "attache.db"

    def edit(self, path, **members):
        file = self.folder / path
        file.write_text(json.dumps({**json.loads(file.read_text()), **members}, indent=2))

    def command(self, *args):
        return [self.binary, "--workspace", str(self.folder), *args]

    def ask(self, *args, seconds=60):
        """One command; its exit code and all that it said."""
        done = subprocess.run(self.command(*args), capture_output=True, text=True, timeout=seconds, env=self.environment)
        return done.returncode, done.stdout, done.stderr

    def run(self, *args, seconds=60):
        code, out, err = self.ask(*args, seconds=seconds)
        check(f"`attache {' '.join(args)}` succeeds", code == 0, out + err)
        return out

    def json(self, *args):
        return json.loads(self.run(*args, "--json"))

    def start(self, wrapper=(), environment=None, seconds=20.0, may_fail=False, flags=()):
        """Starts `attache serve`, under `wrapper` if there is one, and waits until it listens; `None` if it does not and
        need not."""
        log = open(self.log_path, "a")
        self.process = subprocess.Popen([*wrapper, *self.command("--log", "warn", "serve", *flags)], stdout=subprocess.PIPE, stderr=log,
                                        env={**self.environment, **(environment or {})}, start_new_session=True)
        with selectors.DefaultSelector() as heard:
            heard.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline().decode() if heard.select(seconds) else ""
        spoken = re.search(r"listening on 127\.0\.0\.1:(\d+)", line)
        if not spoken and may_fail:
            return None
        if not spoken:
            self.kill()
        check("the engine says where it listens", spoken, line + self.said())
        self.port = int(spoken[1])
        return self

    def said(self):
        return self.log_path.read_text()[-4000:] if self.log_path.exists() else ""

    def freeze(self):
        """Stops all its threads; returns when they stand."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)

    def exit_code(self, seconds):
        """Of a process that ends by itself; `None` if it does not within that time."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process:
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def stop(self, seconds=30):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=seconds)
        self.process.stdout.close()
        self.process = None
        check("SIGTERM ends the engine with 0", code == 0, self.said())

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rows(self, sql, *values):
        """Reads the database beside the engine, without leaving a trace."""
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=10)) as connection:
            return connection.execute(sql, values).fetchall()

    def column(self, sql, *values):
        return [row[0] for row in self.rows(sql, *values)]

    def books(self):
        """What is wrong in the database: the checks of SQLite and ours. Nothing is written."""
        wrong = {name: found[:5] for name, sql in INVARIANTS.items() if (found := self.rows(sql))}
        whole = self.column("PRAGMA integrity_check")
        return wrong if whole == ["ok"] else {**wrong, "integrity_check": whole[:5]}

    def audit(self, what):
        """`books`, and what the engine itself has to say about its database."""
        wrong = self.books()
        check(f"{what}: the books are in order", not wrong, wrong)
        self.run("doctor", "--audit", seconds=120)

    def probe(self, what, seconds=PROBE_SECONDS):
        """A letter goes in and its answer comes out."""
        self.probes += 1
        name, began = f"probe-{self.probes}-{id(self)}@traveller.example", time.monotonic()

        def taken():
            try:
                with Client(self.port, timeout=5) as client:
                    return client.send(name).startswith("250")
            except OSError:
                return False

        wait_for(f"{what}: a letter to be taken", taken, seconds, 0.1)
        left = seconds - (time.monotonic() - began)
        wait_for(f"{what}: its answer to come out", lambda: self.smarthost.answered(name), max(left, 0.1), 0.02)
        return time.monotonic() - began

    def work_off(self):
        """Works off what is left when no engine serves."""
        for _ in range(10):
            code, out, err = self.ask("drain", seconds=200)
            check("`attache drain` succeeds", code == 0, out + err)
            if not (waiting := self.json("outbox", "list")):
                return
            for mail in waiting:
                self.run("outbox", "retry", mail["id"])
        check("the outbox is empty in the end", False, waiting)

    def judge(self, taken, what):
        """Every letter with a yes is here once, was worked on once, and its answer came out once or was announced."""
        stored = collections.Counter(self.column("SELECT message_id FROM messages WHERE direction = 'inbound'"))
        lost = [letter.name for letter in taken if letter.name not in stored]
        check(f"{what}: every letter with a yes is stored", not lost, [len(lost), lost[:5]])
        states = collections.Counter(self.column("SELECT state FROM runs"))
        check(f"{what}: every run came to its end", set(states) == {"succeeded"}, states)
        mails = self.rows("SELECT d.state, d.possible_duplicate, m.message_id FROM deliveries d "
                          "JOIN messages m ON m.id = d.message_id WHERE d.kind = 'mail'")
        check(f"{what}: every letter has its answer", len(mails) == len(stored), [len(mails), len(stored)])
        copies = self.smarthost.copies()
        for state, announced, name in mails:
            check(f"{what}: every answer is out", state == "done" and copies[name], [state, name])
            check(f"{what}: copies are the same bytes", len(set(copies[name])) == 1, name)
            check(f"{what}: a second copy was announced", len(copies[name]) == 1 or announced, name)
        self.audit(what)
        return sum(len(came) > 1 for came in copies.values())

    def close(self):
        self.kill()
        self.log_path.unlink(missing_ok=True)


Letter = collections.namedtuple("Letter", "name sha256 reply")


class Client:
    """One SMTP conversation, spelled out, so that every reply is seen. Raises OSError when it breaks off."""

    def __init__(self, port, timeout=20.0):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.lines, self.replies = self.socket.makefile("rb"), []
        try:
            self.hear("220")
            self.say(b"HELO traveller.example", "250")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.lines.close()
        self.socket.close()

    def hear(self, wanted=None):
        line = self.lines.readline().decode()
        self.replies.append(line.strip())
        if not line.endswith("\n") or (wanted and not line.startswith(wanted)):
            raise ConnectionError(f"heard `{line.strip()}`")
        return line.strip()

    def say(self, line, wanted=None):
        self.socket.sendall(line + b"\r\n")
        return self.hear(wanted)

    def send(self, name, body=b"When?\r\n"):
        """The last reply: of the final dot, or the first that was no yes."""
        for line in (f"MAIL FROM:<{GUEST}>", f"RCPT TO:<{HOUSE}>"):
            reply = self.say(line.encode())
            if not reply.startswith("250"):
                return reply
        reply = self.say(b"DATA")
        if not reply.startswith("354"):
            return reply
        self.bytes = letter_bytes(name, body)
        self.socket.sendall(self.bytes + b".\r\n")
        return self.hear()


def letter_bytes(name, body):
    head = f"From: {GUEST}\r\nTo: {HOUSE}\r\nSubject: Breakfast\r\nMessage-ID: <{name}>\r\n\r\n"
    return head.encode() + body


class Writers:
    """Clients side by side, each writing letter after letter until it is told to stop; notes every reply to a letter."""

    def __init__(self, house, label, count=4, body=b"When?\r\n", pause=0.0, insist=False):
        """`insist`: go on after a lost connection, to wherever the house listens then."""
        self.house, self.label, self.body, self.pause, self.insist = house, label, body, pause, insist
        self.closed, self.lock, self.letters = False, threading.Lock(), []
        self.threads = [threading.Thread(target=self.write, args=(number,), daemon=True) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def write(self, number):
        client, count = None, 0
        while not self.closed:
            name, count = f"{self.label}-{number}-{count}@traveller.example", count + 1
            try:
                client = client or Client(self.house.port, timeout=30)
                reply = client.send(name, self.body)
            except OSError:
                reply = ""
            if not reply.startswith("250") and client:
                client.close()
                client = None
            with self.lock:
                self.letters.append(Letter(name, hashlib.sha256(letter_bytes(name, self.body)).hexdigest(), reply))
            if not reply:
                if not self.insist:
                    break
                time.sleep(0.02)
            time.sleep(self.pause)
        if client:
            client.close()

    def taken(self):
        with self.lock:
            return [letter for letter in self.letters if letter.reply.startswith("250")]

    def replies(self):
        """Reply code -> how often."""
        with self.lock:
            return collections.Counter(letter.reply[:3] for letter in self.letters)

    def close(self):
        self.closed = True
        for thread in self.threads:
            thread.join(40)
        check("every client comes to its end", not any(thread.is_alive() for thread in self.threads))
        return self.taken()
