"""An engine that is killed again and again while letters come in and answers go out. See kills.sh."""

import collections
import os
import pathlib
import random
import smtplib
import sqlite3
import subprocess
import tempfile
import threading
import time

from first_letter import HOUSE, Engine, check
from household import Smarthost, asked_binary
from sinks import free_port

CLIENTS = 4


class Clients:
    """Writes letters, each until it gets its yes."""

    def __init__(self, port):
        self.port, self.taken, self.closed, self.lock = port, [], False, threading.Lock()
        self.threads = [threading.Thread(target=self.write, args=(number,)) for number in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def write(self, number):
        count = 0
        while not self.closed:
            name, count = f"{number}-{count}@traveller.example", count + 1
            letter = f"From: guest@traveller.example\nTo: {HOUSE}\nSubject: Breakfast\nMessage-ID: <{name}>\n\nWhen?\n"
            while not self.closed:
                try:
                    with smtplib.SMTP("127.0.0.1", self.port, local_hostname="traveller.example", timeout=10) as session:
                        session.sendmail("guest@traveller.example", HOUSE, letter)
                except (OSError, smtplib.SMTPException):
                    time.sleep(0.01)
                    continue
                with self.lock:
                    self.taken.append(name)
                # Slower than the engine, so that kills strike deliveries as well.
                time.sleep(0.02)
                break

    def close(self):
        self.closed = True
        for thread in self.threads:
            thread.join()


def serve(binary, house, environment):
    command = [binary, "--workspace", str(house), "serve"]
    log = open(house / "serve.log", "a")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    check("the engine starts again", "listening" in process.stdout.readline(), (house / "serve.log").read_text()[-2000:])
    return process


def under_fire(engine, kills):
    """Kills the engine at random instants; the clients and the smarthost go on."""
    chance, clients, process = random.Random(kills), Clients(engine.port), engine.process
    try:
        for _ in range(kills):
            time.sleep(chance.uniform(0.02, 0.4))
            process.kill()
            process.wait()
            process = serve(engine.binary, engine.folder, engine.environment)
    finally:
        clients.close()
        process.kill()
        process.wait()
    return clients.taken


def drain(engine):
    """Works off what is left, and says how many runs that were."""
    backlog = len(engine.json("runs", "list", "--state", "queued", "--limit", "10000"))
    command = [engine.binary, "--workspace", str(engine.folder), "drain"]
    for _ in range(10):
        check("`attache drain` succeeds", subprocess.run(command, env=engine.environment, stdout=subprocess.DEVNULL).returncode == 0)
        waiting = engine.json("outbox", "list")
        if waiting == []:
            break
        for mail in waiting:
            engine.run("outbox", "retry", mail["id"])
    return backlog


def judge(house, taken, smarthost):
    rows = sqlite3.connect(house / "data" / "attache.db")
    column = lambda sql: [row[0] for row in rows.execute(sql)]
    check("the database is whole", column("PRAGMA integrity_check") == ["ok"])
    stored = column("SELECT message_id FROM messages WHERE direction = 'inbound'")
    check("every letter with a yes is stored, and none twice", len(set(stored)) == len(stored) and set(taken) <= set(stored),
          [len(taken), len(stored), sorted(set(taken) - set(stored))[:5]])
    runs = collections.Counter(column("SELECT trigger_message_id FROM runs"))
    check("every stored letter has one run", len(runs) == len(stored) and set(runs.values()) == {1})
    states = collections.Counter(column("SELECT state FROM runs"))
    check("every run came to its end", set(states) == {"succeeded"}, states)
    # Answers, and notices to the owner about those that are on hold.
    deliveries = rows.execute("SELECT d.kind, d.state, d.possible_duplicate, m.message_id FROM deliveries d "
                              "JOIN messages m ON m.id = d.message_id").fetchall()
    answers = [kind for kind, *_ in deliveries if kind == "mail"]
    check("every run has one answer, and every mail is out", len(answers) == len(stored)
          and all(state == "done" for _, state, *_ in deliveries), collections.Counter(state for _, state, *_ in deliveries))
    copies = smarthost.copies()
    unknown = set(copies) - {name for *_, name in deliveries}
    check("nothing came that is not in the outbox", not unknown, sorted(unknown)[:5])
    doubled = flagged = 0
    for _, _, possible_duplicate, name in deliveries:
        came = copies[name]
        check("a mail that is out came at least once", came, name)
        check("copies are the same bytes", len(set(came)) == 1, name)
        check("a second copy was announced", len(came) == 1 or possible_duplicate, name)
        doubled, flagged = doubled + (len(came) > 1), flagged + bool(possible_duplicate)
    return len(answers), doubled, flagged, max((len(came) for came in copies.values()), default=0)


def story(binary, scratch, kills):
    smarthost = Smarthost(late=0.2)
    house = pathlib.Path(scratch) / "house"
    engine = Engine(binary, house, smarthost.port, port=free_port())
    taken = under_fire(engine, kills)
    drained = time.monotonic()
    backlog = drain(engine)
    drained = time.monotonic() - drained
    answered, doubled, flagged, most = judge(house, taken, smarthost)
    print(f"ok: {kills} kills, {len(taken)} letters with a yes, all stored once, {answered} runs and answers; "
          f"{doubled} mails came twice or more ({most} at most), all of them among the {flagged} that are marked; "
          f"{backlog} runs were left in the end and took {drained:.0f} s")


def main():
    binary = asked_binary()
    with tempfile.TemporaryDirectory(prefix="attache-kills-") as scratch:
        story(binary, scratch, int(os.environ.get("KILLS", "10")))


if __name__ == "__main__":
    main()
