"""How many letters a second N engines answer on one PostgreSQL, beside one on SQLite. See nodes_rate.sh."""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from first_letter import check
from household import House, Smarthost
from nodes_cluster import Database
from nodes_rate_meters import MEASURED, STATEMENT_SHOWN, Looks, busy_seconds, cpu_of, cpu_of_cluster, self_test, shortened
from sinks import wait_for

# Processes that bring letters.
CLIENTS = 2
# For each letter that is measured.
CEILING_TIMES = 5
# Before what is measured: caches of plans and files, first rows of senders, texts that are stored once.
WARM_UP_SHARE, WARM_UP_MIN = 0.3, 10
TOP = 10
RUNS_MAX = 32
UNFINISHED = ("SELECT (SELECT count(*) FROM runs WHERE state <> 'succeeded') + "
              "(SELECT count(*) FROM deliveries WHERE state NOT IN ('done', 'failed', 'cancelled')) AS n")
SUCCEEDED = "SELECT count(*) AS n FROM runs WHERE state = 'succeeded'"
ANSWER_TO = re.compile(rb"^In-Reply-To: <rate-(\d+)@", re.M)


def asked():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--letters", type=int, default=1000, help="of each measurement")
    parser.add_argument("--nodes", default="1,2,4", type=lambda text: [int(count) for count in text.split(",")])
    parser.add_argument("--personas", default="1,50", type=lambda text: [int(count) for count in text.split(",")])
    parser.add_argument("--connections", type=int, default=32, help="over all nodes")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--in-memory", action="store_true", help="the server's files, not those of SQLite: for a test only")
    parser.add_argument("--json", help="a file that gets a line for each measurement")
    return parser.parse_args()


class Engine(House):
    """One node, with as many copies of the sample's concierge as asked."""

    def __init__(self, binary, folder, smarthost, personas, url=None):
        super().__init__(binary, folder, smarthost, environment={"ATTACHE_DATABASE_URL": url} if url else None)
        sample = self.folder / "personas"
        shutil.move(sample, self.folder / "sample")
        for name in personas:
            shutil.copytree(self.folder / "sample" / "concierge", sample / name)
            # Nothing else is due meanwhile.
            shutil.rmtree(sample / name / "responsibilities")
            self.edit(f"personas/{name}/persona.json", address=name, aliases=[])
        # Quotas for answers to one person are raised by `House`.
        self.edit("configs/gateway.json", outbound={"kind": "smarthost", "host": "127.0.0.1", "port": smarthost.port, "tls": "none",
                                                    "connections_max": 16})
        self.edit("configs/inference.json", concurrency={"runs_max": RUNS_MAX, "runs_per_persona_max": RUNS_MAX})
        self.run("config", "check")

    def scalar(self, sql):
        return self.column(sql)[0]


class Server(Database):
    """A server of PostgreSQL that counts its statements, and is looked at from a database of its own."""

    def __init__(self, in_memory):
        super().__init__(in_memory=in_memory)
        try:
            self.furnish()
        except BaseException:
            self.close()
            raise

    def furnish(self):
        self.meters_url = self.url.rsplit("/", 1)[0] + "/meters"
        self.sql(self.url, "CREATE DATABASE meters")
        # Some distributions have it in a package of its own.
        self.counts_statements = bool(self.rows("SELECT 1 AS is_there FROM pg_available_extensions WHERE name = 'pg_stat_statements'"))
        if self.counts_statements:
            self.sql(self.url, "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
            self.restart()
            self.sql(self.meters_url, "CREATE EXTENSION pg_stat_statements")
        self.pid = int((self.server / "data" / "postmaster.pid").read_text().split("\n", 1)[0])

    def sql(self, url, *texts):
        commands = [part for text in texts for part in ("-c", text)]
        done = subprocess.run(["psql", url, "-XAtq", "-v", "ON_ERROR_STOP=1", *commands], capture_output=True, text=True)
        check("the database answers", done.returncode == 0, done.stderr)

    def scalar(self, sql):
        return self.rows(sql)[0][0]

    def counters(self):
        """What only grows: bytes and records of the log, numbers of transactions that wrote, savepoints included."""
        row = self.rows("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS bytes, w.wal_records, w.wal_fpi, "
                        "txid_current() AS writes, pg_database_size('postgres') AS size FROM pg_stat_wal w")[0]
        return dict(zip(("wal_bytes", "wal_records", "wal_page_images", "writes", "size_bytes"), row))

    def transactions(self):
        return self.scalar(f"SELECT xact_commit + xact_rollback AS n FROM pg_stat_database WHERE datname = '{MEASURED}'")

    def relations(self):
        return dict(self.rows("SELECT oid::bigint, relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"))

    def analyze(self):
        """Has plans made for tables as they are: autovacuum comes once a minute only."""
        self.sql(self.url, "ANALYZE")

    def begin_counting(self):
        if self.counts_statements:
            self.sql(self.meters_url, "SELECT pg_stat_statements_reset()")

    def statements(self):
        if not self.counts_statements:
            return []
        text = ("SELECT json_agg(row_to_json(t)) FROM (SELECT query, calls, total_exec_time AS ms FROM pg_stat_statements s "
                f"JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = '{MEASURED}' ORDER BY total_exec_time DESC) t")
        done = subprocess.run(["psql", self.meters_url, "-XAtq", "-c", text], capture_output=True, text=True, check=True)
        return json.loads(done.stdout or "null") or []


class Clients:
    """Load, from processes of its own."""

    def __init__(self, ports, connections, personas):
        program = [sys.executable, str(pathlib.Path(__file__).with_name("nodes_rate_client.py")), "--ports", ",".join(map(str, ports)),
                   "--connections", str(max(connections // CLIENTS, 1)), "--personas", ",".join(personas)]
        self.processes = [subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(CLIENTS)]
        for process in self.processes:
            check("a client has its connections", process.stdout.readline() == "ready\n")

    def begin(self, first, count):
        share = count // CLIENTS
        for at, process in enumerate(self.processes):
            process.stdin.write(f"{first + at * share} {count - share if at else share}\n")
            process.stdin.flush()

    def end(self):
        """Seconds until the last yes, and CPU seconds."""
        told = [json.loads(process.stdout.readline()) for process in self.processes]
        refusals = [line for client in told for line in client["refusals"]]
        check("every letter is taken", not refusals, [len(refusals), refusals[:3]])
        return max(client["seconds"] for client in told), sum(client["cpu"] for client in told)

    def close(self):
        for process in self.processes:
            process.stdin.close()
            process.wait()
            process.stdout.close()


def ceiling(letters, connections):
    """Letters a second, and CPU of each, of the clients and the sink without an engine between."""
    sink = Smarthost()
    clients = Clients([sink.port], connections, ["nobody"])
    began, cpu = time.monotonic(), time.process_time()
    clients.begin(0, letters)
    _, theirs = clients.end()
    seconds = time.monotonic() - began
    check("the sink has all that the clients sent", len(sink.mails) == letters, len(sink.mails))
    clients.close()
    sink.server.shutdown()
    return letters / seconds, (theirs + time.process_time() - cpu) / letters


def commits_of_disk():
    """Durable writes of 4 KiB a second, where the databases are."""
    with tempfile.TemporaryFile() as file:
        began = time.monotonic()
        for _ in range(200):
            file.write(bytes(4096))
            file.flush()
            os.fdatasync(file.fileno())
        return 200 / (time.monotonic() - began)


class Measurement:
    """Engines on one database, warmed up, then letters from the first to the last answer."""

    def __init__(self, args, scratch, nodes, personas):
        self.args, self.nodes, self.personas, self.smarthost = args, nodes, [f"porter{at}" for at in range(personas)], Smarthost()
        self.server = Server(args.in_memory) if nodes else None
        self.engines, self.clients = [], None
        try:
            for number in range(nodes or 1):
                url = f"{self.server.url}?sslmode=disable" if nodes else None
                engine = Engine(args.attache, pathlib.Path(scratch) / f"node-{number}", self.smarthost, self.personas, url)
                self.engines.append(engine.start(seconds=60))
            self.store = self.server or self.engines[0]
            self.clients = Clients([engine.port for engine in self.engines], args.connections, self.personas)
            # The first letter of a persona has its folder read.
            warm_up = max(int(args.letters * WARM_UP_SHARE), WARM_UP_MIN, 2 * personas)
            self.batch(0, warm_up // 2)
            if self.server:
                self.server.analyze()
            # Then every connection has its plans again.
            self.batch(warm_up // 2, warm_up - warm_up // 2)
            if self.server:
                self.server.begin_counting()
            self.figures = self.measured(warm_up)
            self.judge(warm_up + args.letters)
        finally:
            self.close()

    def batch(self, first, count):
        """Brings letters and waits for their answers; seconds until the last yes, until the last answer, and CPU of the clients."""
        began = time.monotonic()
        self.clients.begin(first, count)
        taken, cpu = self.clients.end()
        wait_for("all answers", lambda: len(self.smarthost.mails) >= first + count, 60 + count, 0.01)
        seconds = time.monotonic() - began
        wait_for("all rows", lambda: self.store.scalar(UNFINISHED) == 0, 30, 0.2)
        return taken, seconds, cpu

    def meter(self):
        read = {"engines": sum(cpu_of(engine.process.pid) for engine in self.engines), "busy": busy_seconds(), "own": time.process_time(),
                "server": cpu_of_cluster(self.server.pid) if self.server else 0.0}
        return {**read, **(self.server.counters() if self.server else {})}

    def measured(self, first):
        letters, looks = self.args.letters, Looks(self.server.meters_url, self.server.relations()) if self.server else None
        load, looking = os.getloadavg()[0], cpu_of(looks.backend) if looks else 0
        transactions, before = self.server.transactions() if self.server else 0, self.meter()
        taken, seconds, clients = self.batch(first, letters)
        statements = self.server.statements() if self.server else []
        after = self.meter()
        if looks:
            looking = cpu_of(looks.backend) - looking
            tally = looks.close()
        spent = {name: after[name] - before[name] for name in before}
        others = spent["busy"] - spent["engines"] - spent["server"] - spent["own"] - clients
        for engine in self.engines:
            engine.stop()
        figures = {"nodes": self.nodes, "personas": len(self.personas), "letters": letters, "seconds": seconds, "per_second": letters / seconds,
                   "accepts_per_second": letters / taken, "engine_ms": spent["engines"] / letters * 1e3, "load": load,
                   "others_cores": max(others, 0) / seconds, "load_ms": (clients + spent["own"]) / letters * 1e3}
        if self.server:
            # Sessions tell their counts at their end at the latest.
            figures |= {"server_ms": (spent["server"] - looking) / letters * 1e3,
                        "transactions": (self.server.transactions() - transactions) / letters,
                        **{name: spent[name] / letters for name in ("wal_bytes", "wal_records", "wal_page_images", "writes", "size_bytes")},
                        "commits": sum(row["calls"] for row in statements if row["query"] == "COMMIT") / letters,
                        **profile(tally, statements, letters)}
        still = [name for name in ("engine_ms", "load_ms", *(("server_ms", "wal_bytes", "transactions", "writes") if self.server else ())) if figures[name] <= 0]
        check("every meter has moved", not still, figures)
        return figures

    def judge(self, letters):
        answers = collections.Counter(int(found[1]) for mail in self.smarthost.mails if (found := ANSWER_TO.search(mail)))
        check("every letter has one answer", answers == dict.fromkeys(range(letters), 1), [len(answers), answers.most_common(3)])
        check("every letter has one run that succeeded", self.store.scalar(SUCCEEDED) == letters, self.store.scalar(SUCCEEDED))

    def close(self):
        if self.clients:
            self.clients.close()
        for engine in self.engines:
            engine.close()
        self.smarthost.server.shutdown()
        if self.server:
            self.server.close()


def profile(tally, statements, letters):
    """Where the time of the sessions went, by looks and by statements."""
    check("the sessions were looked at", tally.count > 0 and tally.sessions > 0, [tally.count, tally.sessions])
    whole = sum(row["ms"] for row in statements) or 1
    top = [[row["ms"] / whole, row["calls"] / letters, row["ms"] / row["calls"], shortened(row["query"], STATEMENT_SHOWN)]
           for row in statements[:TOP]]
    share = lambda counts: [[count / tally.sessions, name] for name, count in counts.most_common(TOP)]
    return {"looks": tally.count, "sessions": tally.sessions / tally.count, "doing": share(tally.doing), "waits": share(tally.waits),
            "holders": [[count / tally.sessions, *name] for name, count in tally.holders.most_common(TOP)],
            "held_in": share(tally.statements),
            "statements": sum(row["calls"] for row in statements) / letters, "statements_ms": whole / letters, "top": top}


def told(figures):
    name = f"{figures['nodes']} node(s) on PostgreSQL" if figures["nodes"] else "SQLite"
    line = (f"{name}, {figures['personas']} persona(s): {figures['per_second']:.0f} letters/s ({figures['accepts_per_second']:.0f} taken/s); "
            f"CPU a letter: engines {figures['engine_ms']:.1f} ms")
    if figures["nodes"]:
        line += (f", server {figures['server_ms']:.1f} ms; {figures['wal_bytes'] / 1e3:.1f} kB of log ({figures['wal_page_images']:.1f} page images), "
                 f"{figures['transactions']:.1f} transactions ({figures['commits']:.1f} commits of writes, {figures['writes']:.1f} numbers with those of savepoints), {figures['statements']:.0f} statements of "
                 f"{figures['statements_ms']:.0f} ms, {figures['size_bytes'] / 1e3:.0f} kB of database; {figures['sessions']:.1f} sessions at work")
    return f"{line}; load and sink {figures['load_ms']:.1f} ms, other programs {figures['others_cores']:.2f} cores, load average {figures['load']:.1f}"


def told_profile(figures):
    for share, name in figures["doing"]:
        yield f"    {share:6.1%} {name}"
    for share, name in figures["waits"]:
        yield f"    {share:6.1%} waits for {name}"
    for share, wanted, holder in figures["holders"]:
        yield f"    {share:6.1%} waits for {wanted}, which has: {holder}"
    for share, query in figures["held_in"]:
        yield f"    {share:6.1%} waits for whoever is in or after: {query}"
    for share, calls, ms, query in figures["top"]:
        yield f"    {share:6.1%} of the statements' time, {calls:.1f} a letter of {ms:.2f} ms: {query}"


def main():
    # `timeout` ends this program; what it started is to end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("FAILED: it took too long"))
    args = asked()
    self_test()
    rate, cpu = ceiling(CEILING_TIMES * args.letters, args.connections)
    print(f"clients and sink alone: {rate:.0f} letters/s, {cpu * 1e3:.2f} ms of CPU each; durable writes of 4 KiB, one writer: "
          f"{commits_of_disk():.0f}/s", flush=True)
    for _ in range(args.rounds):
        for personas in args.personas:
            for nodes in [0, *args.nodes]:
                with tempfile.TemporaryDirectory(prefix="attache-rate-") as scratch:
                    figures = Measurement(args, scratch, nodes, personas).figures
                print(told(figures), flush=True)
                if nodes and not args.in_memory:
                    print("\n".join(told_profile(figures)), flush=True)
                with open(args.json, "a") if args.json else contextlib.nullcontext() as lines:
                    if lines:
                        lines.write(json.dumps(figures) + "\n")
    print("ok: every letter had one answer")


if __name__ == "__main__":
    main()
