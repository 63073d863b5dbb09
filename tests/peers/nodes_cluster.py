"""N engines on one PostgreSQL, with a model, a mail server, and a network that can be broken. See nodes.sh."""

import json
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from first_letter import check
from household import House
from model_stub import ModelStub, call, say
from nodes_judge import Request
from nodes_proxy import Wire
from sinks import free_port

POSTGRES = pathlib.Path(__file__).resolve().parents[2] / ".ci" / "postgres"
SHM, SHM_BYTES = pathlib.Path("/dev/shm"), 3 << 30
# Dollars for a million tokens are micro-dollars for one.
PRICE = {"provider": "openai", "model": "stub-1", "input": 1, "output": 1}
SAID_TOKENS = 20
MODEL_SECONDS = (0.02, 0.2)
FRUGAL = "miser"
PERSONAS = ("porter", "clerk", "warden", FRUGAL)
# Its word proves who sent a letter: entries about a guest who proves nothing are not made.
RELAY = "mx.guesthouse.example"
# Every so many letters of a thread one is remembered, in these words.
REMEMBERED_EVERY, REMEMBERED = 2, "They wrote"
# Of a node that was buried: it may be started again.
EXPECTED_ENDS = {75}


class Database:
    """A server of its own, in memory where there is room for it, unless the disk is a part of what is measured."""

    def __init__(self, in_memory=True):
        roomy = in_memory and SHM.is_dir() and shutil.disk_usage(SHM).free > SHM_BYTES
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="attache-nodes-", dir=SHM if roomy else None))
        self.folder.chmod(0o755)
        self.server = self.folder / "server"
        self.url = subprocess.run([POSTGRES, "start", self.server], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        self.port = int(re.search(r":(\d+)/", self.url)[1])
        self.lock = threading.Lock()

    def restart(self):
        with self.lock:
            subprocess.run([POSTGRES, "restart", self.server], check=True)

    def rows(self, sql):
        """Rows as lists, by way of JSON."""
        text = f"SELECT coalesce(json_agg(row_to_json(t)), '[]') FROM ({sql}) t"
        done = subprocess.run(["psql", self.url, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", text], capture_output=True, text=True)
        check("the database answers", done.returncode == 0, done.stderr)
        return [list(row.values()) for row in json.loads(done.stdout)]

    def close(self):
        subprocess.run([POSTGRES, "stop", self.server])
        shutil.rmtree(self.folder, ignore_errors=True)


class Model:
    """Calls a tool and then answers, whatever else happens to who asks; keeps the bill, and what was shown to it."""

    def __init__(self):
        self.lock, self.bills, self.requests, self.reminded = threading.Lock(), dict.fromkeys(PERSONAS, 0), [], 0
        self.stub = ModelStub(self.step)

    def step(self, body):
        shown = json.dumps(body["messages"])
        name, persona = re.findall(r"Question (t\d+-\d+) for (\w+)\.", shown)[-1]
        thread = name.split("-")[0]
        answers = frozenset(re.findall(rf"Answer to ({thread}-\d+)\.", shown))
        # Nearly as much as the engine has reserved, a token for every byte: who reserves too little overspends.
        tokens = (len(json.dumps(body, separators=(",", ":"))) * 9 // 10, SAID_TOKENS)
        is_called = body["messages"][-1]["role"] == "tool"
        with self.lock:
            self.bills[persona] += sum(tokens)
            self.requests.append(Request(name, answers))
            self.reminded += not is_called and REMEMBERED in shown
        time.sleep(random.uniform(*MODEL_SECONDS))
        step = say(f"Answer to {name}.") if is_called else call(self.called(name, persona))
        return {**step, "tokens": tokens}


    def called(self, name, persona):
        if int(name.split("-")[1]) % REMEMBERED_EVERY:
            return "list_files", {}
        return "remember", {"text": f"{REMEMBERED} {name}.", "kind": "fact", "source_quote": f"Question {name} for {persona}."}


class Node(House):
    """A workspace of its own, and the engine of the moment on it."""

    def __init__(self, binary, folder, smarthost, model, database, lease, bounds):
        self.wire, self.ends, self.lock, self.starts = Wire(database.port), [], threading.RLock(), 0
        # What may have made it end by itself.
        self.strikes, self.last_words = 0, []
        self.bounds, self.model_url = bounds, model.stub.url
        self.secret = f"postgres://attache@127.0.0.1:{self.wire.port}/postgres?sslmode=disable"
        super().__init__(binary, folder, smarthost, environment={"ATTACHE_NODE_LEASE_SECONDS": str(lease)})
        # One for good: nobody else gets it while the node is dead.
        self.port = free_port()
        self.edit("configs/gateway.json", listeners=[{"kind": "smtp", "address": f"127.0.0.1:{self.port}"}])
        self.furnish()
        self.run("config", "check")

    def furnish(self):
        self.edit("configs/inference.json", provider="openai", model="stub-1", max_output_tokens=SAID_TOKENS,
                  concurrency={"runs_max": 8, "runs_per_persona_max": 4}, providers={"openai": {"base_url": self.model_url}},
                  # Faults are no reason to give a letter up.
                  retry={"run_attempts_max": 100},
                  budget={"day_usd_max": self.bounds[""] / 1e6})
        self.edit("configs/prices.json", prices=[PRICE])
        self.edit("configs/security.json", access={"allow": ["*@traveller.example"]},
                  authentication={"trusted_relays": [{"peers": ["127.0.0.1"], "authserv_id": RELAY}]})
        (self.folder / "configs" / "context.json").write_text(json.dumps(
            {"$schema": "schema/context.json", "thread": ["persona", "contact-memory", "recall", "thread-history", "invocation-metadata",
                                                          {"use": "current-input", "required": True}],
             "responsibility": ["persona", {"use": "current-input", "required": True}]}))
        shutil.rmtree(self.folder / "personas")
        for persona in PERSONAS:
            folder = self.folder / "personas" / persona
            folder.mkdir(parents=True)
            (folder / "PERSONA.md").write_text("You answer guests.\n")
            budget = {"budget": {"day_usd_max": self.bounds[persona] / 1e6}} if persona in self.bounds else {}
            (folder / "persona.json").write_text(json.dumps({"name": persona, "address": persona, "reply": "final", "tools": "all", **budget}))
        secrets = self.folder / ".secrets"
        secrets.write_text(f"ATTACHE_DATABASE_URL={self.secret}\n")
        secrets.chmod(0o600)

    def up(self, seconds=60):
        """Starts it until it stands: the database may be away, too."""
        deadline = time.monotonic() + seconds
        while True:
            self.starts += 1
            if self.start(may_fail=True):
                return
            code = self.exit_code(0)
            self.kill()
            check(f"{self.folder.name} starts again in {seconds} s", time.monotonic() < deadline, [code, self.said()])
            time.sleep(0.2)

    def mourn(self):
        """Starts it again if it has ended by itself."""
        if self.process and self.process.poll() is not None:
            self.ends.append(self.process.returncode)
            if self.process.returncode not in EXPECTED_ENDS:
                self.last_words.append(self.said().strip()[-600:])
            self.kill()
            self.up()

    def wake(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.kill()
        self.wire.close()
        super().close()


class Cluster:
    """The nodes, and what they talk to."""

    def __init__(self, binary, scratch, smarthost, count, lease, bounds, frugal):
        self.smarthost, self.lease, self.closed = smarthost, lease, threading.Event()
        self.unfinished = LEFT.format(frugal=", ".join(f"'{persona}'" for persona in frugal))
        self.database, self.model, self.nodes = Database(), Model(), []
        try:
            for number in range(count):
                folder = pathlib.Path(scratch) / f"node-{number}"
                self.nodes.append(Node(binary, folder, smarthost, self.model, self.database, lease, bounds))
                self.nodes[-1].up()
        except BaseException:
            self.close()
            raise
        self.keeper = threading.Thread(target=self.keep, daemon=True)
        self.keeper.start()

    def keep(self):
        """What an init system does."""
        while not self.closed.wait(0.1):
            for node in self.nodes:
                # Whoever strikes a node brings it up again.
                if node.lock.acquire(blocking=False):
                    try:
                        node.mourn()
                    finally:
                        node.lock.release()

    def is_done(self):
        return self.database.rows(self.unfinished) == [[0, 0]]

    def work_off(self, patience, seconds):
        """Waits until nothing is left to do. What still waits after `patience`, such as runs that are parked for a minute since
        the database was away, is worked off by commands, when no node serves any more; returns how many runs that were."""
        deadline = time.monotonic() + patience
        while not self.is_done() and time.monotonic() < deadline:
            time.sleep(0.5)
        self.stop()
        left, deadline = self.database.rows(self.unfinished)[0][0], time.monotonic() + seconds
        while not self.is_done():
            check(f"everything is worked off in {seconds:.0f} s", time.monotonic() < deadline, self.left())
            for run, in self.database.rows("SELECT id FROM runs WHERE state = 'waiting_retry' AND error_class <> 'budget'"):
                self.nodes[0].run("runs", "retry", run)
            for mail, in self.database.rows("SELECT id FROM deliveries WHERE state IN ('queued', 'held')"):
                self.nodes[0].run("outbox", "retry", mail)
            self.nodes[0].ask("drain", seconds=seconds)
        return left

    def left(self):
        states = self.database.rows("SELECT 'run', persona_id, state, error_class, behind, crashes, count(*) FROM runs GROUP BY 1, 2, 3, 4, 5, 6")
        states += self.database.rows("SELECT 'mail', state, possible_duplicate, count(*) FROM deliveries GROUP BY 1, 2, 3")
        return "\n".join([*map(str, states), *(node.said()[-1500:] for node in self.nodes)])

    def stop(self):
        self.closed.set()
        self.keeper.join()
        for node in self.nodes:
            node.mourn()
            node.stop()

    def close(self):
        self.closed.set()
        for node in self.nodes:
            node.close()
        self.model.stub.close()
        self.database.close()


# Runs and mails that somebody has still to work on; a run that waits for money, and what is behind it, waits until tomorrow.
LEFT = """
SELECT (SELECT count(*) FROM runs r WHERE state IN ('queued', 'running', 'waiting_retry') AND NOT EXISTS (
    SELECT 1 FROM runs o WHERE o.thread_id = r.thread_id AND o.seq <= r.seq AND o.persona_id IN ({frugal})
      AND o.state = 'waiting_retry' AND o.error_class = 'budget')) AS runs,
  (SELECT count(*) FROM deliveries WHERE state NOT IN ('done', 'failed', 'cancelled')) AS mails"""
