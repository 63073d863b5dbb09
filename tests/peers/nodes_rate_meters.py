"""What a measurement reads: CPU seconds of processes, and where PostgreSQL's sessions spend their time. See nodes_rate.sh."""

import collections
import json
import os
import pathlib
import re
import subprocess
import threading

TICKS = os.sysconf("SC_CLK_TCK")
LOOKS_PER_SECOND = 20
# First numbers of the engine's advisory locks (src/store/postgres/lock.rs).
WHOLE = int.from_bytes(b"ATTE", "big")
ADVISORY = {WHOLE: "the whole database", WHOLE + 1: "a persona", WHOLE + 2: "a mailbox", WHOLE + 3: "claims"}
MEASURED = "postgres"
STATEMENT_SHOWN = 110
# The engine's turn; the server's; of those who had a lock a moment ago.
NOTHING_ASKED, WORKING, ENDED = "in a transaction, nothing asked", "on a processor, or waiting for one", "has ended since"
CHANGED = re.compile(r"\b(?:INSERT INTO|UPDATE(?! OF)|FROM) (\w+)")
# Rows of a turn are its run's own; its trigger counts in a row that all share.
BY_TRIGGER = {"run_turns": "provider_calls"}


def cpu_of(pid, with_children=True):
    """CPU seconds of a process, and of its children that have ended and were waited for."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    # utime, stime, cutime, cstime: fields 14 to 17 of proc(5).
    return sum(map(int, fields[11:15 if with_children else 13])) / TICKS


def cpu_of_cluster(postmaster):
    """CPU seconds of a server of PostgreSQL: a backend that ends hands its own over to the postmaster."""
    children = pathlib.Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return cpu_of(postmaster) + sum(cpu_of(pid) for pid in children)


def busy_seconds():
    """CPU seconds that all processors of this machine have worked."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + irq + softirq) / TICKS


# One look: sessions that are in a transaction or a statement, and the locks that have to do with somebody's waiting.
LOOK = """
WITH l AS MATERIALIZED (SELECT pid, locktype, classid, objid, transactionid, relation, granted, mode FROM pg_locks
    WHERE locktype IN ('advisory', 'transactionid', 'tuple', 'spectoken'))
SELECT json_build_object(
  'sessions', (SELECT coalesce(json_agg(json_build_array(pid, state, wait_event_type, wait_event, left(query, 4000))), '[]')
    FROM pg_stat_activity WHERE backend_type = 'client backend' AND state <> 'idle' AND datname = '{measured}'),
  'locks', (SELECT coalesce(json_agg(json_build_array(pid, locktype, classid::bigint, objid::bigint, transactionid::text,
      CASE WHEN relation IS NOT NULL THEN relation::bigint END, granted, mode)), '[]') FROM l))
\\watch {pause}
"""
Session = collections.namedtuple("Session", "pid state wait_type wait query")
Lock = collections.namedtuple("Lock", "pid type class_ number transaction relation granted mode")


class Tally:
    """Looks at the sessions of a server, counted: what each was doing, and for one that waits for a lock, which lock that is
    and what whoever has it was doing."""

    def __init__(self, relations):
        """`relations`: numbers of tables -> names."""
        self.relations, self.count, self.sessions = relations, 0, 0
        self.doing, self.waits, self.holders = collections.Counter(), collections.Counter(), collections.Counter()
        # Statements of those who were waited for: the one under way, or the last.
        self.statements = collections.Counter()

    def note(self, sessions, locks):
        self.count += 1
        self.sessions += len(sessions)
        by_pid = {session.pid: session for session in sessions}
        waiting = {lock.pid: lock for lock in locks if not lock.granted}
        for session in sessions:
            lock = waiting.get(session.pid)
            if not lock:
                self.doing[doing(session)] += 1
                continue
            self.doing["waits for a lock"] += 1
            wanted = self.named(session, lock, locks)
            self.waits[wanted] += 1
            holder = by_pid.get(first_holder(session.pid, waiting, locks))
            self.holders[wanted, doing(holder) if holder else ENDED] += 1
            self.statements[shortened(holder.query, STATEMENT_SHOWN) if holder else ENDED] += 1

    def named(self, session, lock, locks):
        if lock.type == "advisory":
            return f"lock of {ADVISORY.get(lock.class_, 'another program')}"
        # Whoever is the next to have a row has a lock on it, and waits for the transaction of whoever has it.
        relation = lock.relation or next((own.relation for own in locks if own.pid == lock.pid and own.type == "tuple"), None)
        if relation in self.relations:
            return f"row of {self.relations[relation]}"
        # `ON CONFLICT` waits for whoever changes its row without that lock.
        changed = CHANGED.search(session.query)
        return f"row of {BY_TRIGGER.get(changed[1], changed[1])}" if changed else f"another's {lock.type}"


class Looks:
    """Looks at the sessions of a server some twenty times a second, from another database of it."""

    def __init__(self, url, relations):
        self.tally = Tally(relations)
        self.process = subprocess.Popen(["psql", url, "-XAtq", "-f", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write("SELECT pg_backend_pid();\n" + LOOK.format(measured=MEASURED, pause=1 / LOOKS_PER_SECOND))
        self.process.stdin.close()
        self.backend = int(self.process.stdout.readline())
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            # Between them is the time of each look.
            if line.startswith("{"):
                look = json.loads(line)
                self.tally.note([Session(*row) for row in look["sessions"]], [Lock(*row) for row in look["locks"]])

    def close(self):
        self.process.kill()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()
        return self.tally


def doing(session):
    if session.state.startswith("idle in transaction"):
        return NOTHING_ASKED
    if session.wait_type is None:
        return WORKING
    return f"{session.wait_type} {session.wait}"


def shortened(query, most):
    text = " ".join(query.split())
    return text if len(text) <= most else text[:most] + "…"


def first_holder(pid, waiting, locks):
    """At the end of the chain of those who wait for each other."""
    seen = set()
    while pid in waiting and pid not in seen:
        seen.add(pid)
        pid = next((lock.pid for lock in locks if lock.granted and lock.pid != pid and is_same(lock, waiting[pid])), None)
    return pid


def is_same(lock, wanted):
    if lock.type != wanted.type or (wanted.type == "advisory" and lock.mode == "ShareLock" == wanted.mode):
        return False
    return (lock.class_, lock.number, lock.transaction, lock.relation) == (wanted.class_, wanted.number, wanted.transaction, wanted.relation)


def self_test():
    """The control: of three sessions, the first waits for the second, that for a row of the third, which is asked nothing."""
    tally = Tally({7: "runs"})
    sessions = [Session(1, "active", "Lock", "advisory", "BEGIN"), Session(2, "active", "Lock", "transactionid", "UPDATE run_turns SET state = $1"),
                Session(3, "idle in transaction", "Client", "ClientRead", "SELECT 3"), Session(4, "active", None, None, "SELECT 4"),
                Session(5, "active", "Lock", "transactionid", "UPDATE runs SET state = $1")]
    persona = (WHOLE + 1, 99, None, None)
    locks = [Lock(1, "advisory", *persona, False, "ExclusiveLock"), Lock(2, "advisory", *persona, True, "ExclusiveLock"),
             # Shared by all, so nobody waits for it.
             *(Lock(pid, "advisory", WHOLE, 0, None, None, True, "ShareLock") for pid in (1, 2, 3)),
             Lock(2, "transactionid", None, None, "800", None, False, "ShareLock"), Lock(3, "transactionid", None, None, "800", None, True, "ExclusiveLock"),
             Lock(5, "transactionid", None, None, "800", None, False, "ShareLock"), Lock(5, "tuple", None, None, None, 7, True, "ExclusiveLock")]
    tally.note(sessions, locks)
    found = [dict(tally.waits), dict(tally.holders), dict(tally.statements), dict(tally.doing)]
    wanted = ["lock of a persona", "row of provider_calls", "row of runs"]
    right = [dict.fromkeys(wanted, 1), {(name, NOTHING_ASKED): 1 for name in wanted}, {"SELECT 3": 3},
             {"waits for a lock": 3, NOTHING_ASKED: 1, WORKING: 1}]
    if found != right:
        raise SystemExit(f"FAILED: looks are counted wrongly\n{found}\n{right}")


if __name__ == "__main__":
    self_test()
