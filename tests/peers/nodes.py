"""N engines on one database, under faults of every kind. See nodes.sh."""

import argparse
import collections
import email
import hashlib
import pathlib
import random
import re
import signal
import sys
import tempfile
import time

from household import INVARIANTS, Smarthost
from nodes_cluster import EXPECTED_ENDS, FRUGAL, PERSONAS, Cluster
from nodes_faults import Faults, drawn
from nodes_judge import Answer, Copy, Event, Evidence, Run, Stored, complaints, overtaken, self_test
from nodes_letters import MailServer, threads_of
from sinks import wait_for

# A letter costs some 12,000 micro-dollars: a third of those can be paid whose money is short.
MICROS_A_LETTER = 4000
ENGINE_MICROS = 1_000_000_000
# Of the second part, in which the budget of the whole engine is short.
BUDGET_LETTERS = 40


def asked():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--seed", type=int, default=None)
    for name, default in (("nodes", 4), ("letters", 300), ("kills", 6), ("freezes", 6), ("restarts", 2), ("cuts", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--lease", type=int, default=2, help="seconds")
    parser.add_argument("--patience", type=float, default=8, help="seconds for the nodes to come to an end by themselves")
    args = parser.parse_args()
    args.seed = random.SystemRandom().randrange(1_000_000) if args.seed is None else args.seed
    return args


def copies(smarthost, notices):
    """What came out of the house, in that order, but for notices to the owner."""
    for mail in smarthost.mails:
        read = email.message_from_bytes(mail)
        message_id = (read["Message-ID"] or "").strip("<>")
        if message_id not in notices:
            replies_to = (read["In-Reply-To"] or "").strip("<>").split("@")[0]
            says = f"Answer to {replies_to}.".encode() in mail
            yield Copy(message_id, replies_to if says else f"not {replies_to}", hashlib.sha256(mail).hexdigest())


def gathered(cluster, taken, bounds, short, frugal):
    rows = cluster.database.rows
    named = "split_part(m.message_id, '@', 1)"
    inbound = "m.direction = 'inbound'"
    notices = {row[0] for row in rows("SELECT m.message_id FROM deliveries d JOIN messages m ON m.id = d.message_id WHERE d.kind = 'notice'")}
    # That of the engine has parts.
    accounts = rows("SELECT CASE scope WHEN 'engine' THEN '' ELSE owner END AS name, CAST(sum(spent_micros + reserved_micros) AS BIGINT) AS micros "
                    "FROM budget_accounts WHERE scope IN ('engine', 'persona') AND length(period) = 10 GROUP BY 1")
    return Evidence(
        taken=taken,
        stored=[Stored(*row) for row in rows(f"SELECT {named} AS name, persona_id, thread_id, seq, disposition FROM messages m WHERE {inbound}")],
        runs=[Run(*row) for row in rows(f"SELECT r.id, {named} AS name, r.persona_id, r.thread_id, r.state, r.error_class, r.seq "
                                        "FROM runs r JOIN messages m ON m.id = r.trigger_message_id")],
        answers=[Answer(*row) for row in rows("SELECT m.message_id, d.run_id, d.state, d.possible_duplicate, d.seq FROM deliveries d "
                                              "JOIN messages m ON m.id = d.message_id WHERE d.kind = 'mail'")],
        events=[Event(*row) for row in rows("SELECT kind, thread_id, run_id FROM feed WHERE kind LIKE 'run.%' ORDER BY seq")],
        copies=list(copies(cluster.smarthost, notices)), requests=cluster.model.requests, billed=cluster.model.bills,
        accounts=dict(accounts), bounds=bounds, short=short, frugal=frugal)


def audited(cluster):
    """What the engine itself, and the invariants of the other tests of faults, have to say about the rows."""
    for name, sql in INVARIANTS.items():
        if "pragma" not in sql and (found := cluster.database.rows(sql)):
            yield f"{name}: {found[:3]}"
    for asks in (("doctor", "--audit"), ("replay", "verify", "--all")):
        code, out, err = cluster.nodes[0].ask(*asks, seconds=600)
        if code:
            yield f"`attache {' '.join(asks)}` ends with {code}\n{out[-4000:]}{err}"
    # Without entries in the contexts, the second of them has seen little.
    if not cluster.model.reminded:
        yield f"no run was told an entry, of {cluster.database.rows('SELECT count(*) FROM memory')} that there are"


def judged(cluster, evidence, faults, mail):
    yield from complaints(evidence)
    yield from audited(cluster)
    yield from mail.wrong
    ends = collections.Counter(code for node in cluster.nodes for code in node.ends)
    if set(ends) - EXPECTED_ENDS:
        words = [said for node in cluster.nodes for said in node.last_words]
        yield f"nodes ended with {dict(ends)}, of which only {sorted(EXPECTED_ENDS)} are known, such as\n{words[0]}"
    for node in cluster.nodes:
        if len(node.ends) > node.strikes:
            yield f"{node.folder.name} ended by itself {len(node.ends)} times, with {node.ends[:5]}, and was struck {node.strikes} times"
        if "panicked" in (said := node.log_path.read_text()):
            yield f"{node.folder.name} panicked\n{said[said.index('panicked') - 200:][:1000]}"


def folders(cluster):
    """What `doctor` says of nodes whose personas are in folders of their own, as these are: runs here change no file."""
    here = cluster.nodes[0]
    says = lambda: re.findall(r"node (\d+) \(\S+\) works with another folder of personas", here.ask("doctor")[1])
    # Nodes that were just started are not judged.
    wait_for("all other nodes are told apart", lambda: len(set(says())) == len(cluster.nodes) - 1, 30, 0.5)
    own, = [row["epoch"] for row in here.json("nodes", "list") if row["workspace"] == str(here.folder.resolve())]
    if str(own) in (apart := says()):
        yield f"node {own} is told apart from its own folder: {apart}"


def story(args, scratch, short):
    """`short`: the account that is to be used up, a persona's or, empty, that of all."""
    chance, began = random.Random(args.seed), time.monotonic()
    threads = threads_of(args.letters, chance)
    frugal = {short} if short else set(PERSONAS)
    paid = sum(len(thread) for thread in threads if thread[0].persona in frugal)
    bounds = {"": ENGINE_MICROS, short: MICROS_A_LETTER * paid}
    smarthost = Smarthost(late=0.7)
    cluster = Cluster(args.attache, scratch, smarthost, args.nodes, args.lease, bounds, frugal)
    try:
        faults = Faults(cluster, drawn(chance, args.lease, args.kills, args.freezes, args.restarts, args.cuts), args.seed)
        mail = MailServer(cluster.nodes, threads, faults.due, args.seed)
        faults.close()
        for line in faults.wrong:
            print(f"FAILED: {line}", flush=True)
        mail.close(60 + args.letters / 10)
        apart = list(folders(cluster))
        worked = time.monotonic()
        left = cluster.work_off(args.patience, 60 + args.letters / 10)
        worked = time.monotonic() - worked
        evidence = gathered(cluster, mail.taken, bounds, short, frugal)
        wrong = apart + list(judged(cluster, evidence, faults, mail))
        figures = told(args, cluster, evidence, faults, mail)
        for line in wrong:
            print(f"FAILED: {line}")
        print(f"{'FAILED' if wrong or faults.wrong else 'ok'}: {figures}; worked off {worked:.0f} s after the last letter, {left} runs of them by `attache drain`, {time.monotonic() - began:.0f} s in all")
        return not wrong and not faults.wrong
    finally:
        cluster.close()


def told(args, cluster, evidence, faults, mail):
    states = collections.Counter(run.state for run in evidence.runs)
    several = sum(count > 1 for count in collections.Counter(mail.message_id for mail in evidence.copies).values())
    flagged = sum(bool(answer.possible_duplicate) for answer in evidence.answers)
    ends = collections.Counter(code for node in cluster.nodes for code in node.ends)
    swallowed = sum(node.wire.swallowed for node in cluster.nodes)
    return (f"{args.nodes} nodes, {len(mail.taken)} letters with a yes ({sum(mail.refusals.values())} offers without one) in "
            f"{len({letter.thread for letter in mail.taken})} threads; {args.kills} kills, {faults.woken} stops beyond the lease of {args.lease} s "
            f"({faults.buried} found themselves buried), {args.restarts} restarts of the database, {args.cuts} faults of the network "
            f"({swallowed} answers to COMMIT swallowed); {sum(node.starts for node in cluster.nodes)} starts, own ends {dict(ends)}; "
            f"{states['succeeded']} runs and answers, in order in every thread, {several} answers twice among {flagged} flagged, "
            f"{overtaken(evidence)} overtaken on their way out; {len(evidence.runs) - states['succeeded']} runs wait for money, "
            f"{evidence.accounts.get(evidence.short, 0)} of {evidence.bounds[evidence.short]} micro-dollars booked, "
            f"{sum(evidence.billed[persona] for persona in evidence.frugal)} billed; {cluster.model.reminded} runs were told entries of memory")


def main():
    # `timeout` ends this program; what it started is to end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("FAILED: it took too long"))
    args = asked()
    seen = self_test()
    print(f"nodes: --seed {args.seed}; the checks see {seen} of {seen} made-up faults", flush=True)
    # Without faults but for one, all nodes at one budget.
    short_of_all = argparse.Namespace(**{**vars(args), "letters": BUDGET_LETTERS, "kills": 1, "freezes": 0, "restarts": 0, "cuts": 0})
    held = True
    for which, short in ((args, FRUGAL), (short_of_all, "")):
        with tempfile.TemporaryDirectory(prefix="attache-nodes-") as scratch:
            held &= story(which, scratch, short)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
