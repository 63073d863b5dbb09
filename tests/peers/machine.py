"""Faults of the machine beside its disk: no file descriptors left, a second engine, an engine that was stopped for a while,
a reader that holds on to the database, a clock that is set. See machine.sh."""

import contextlib
import datetime
import json
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import tempfile
import time

from first_letter import HOUSE, check
from household import GUEST, SCRIPT, Client, House, Smarthost, Writers, asked_binary, letter_bytes
from sinks import wait_for

# `journal_size_limit` of the database, and what a release promises of its log (reference, D10).
WAL_MAX = 64 << 20


def hand_in(caller, name):
    """A letter over a connection that was greeted; the last reply."""
    caller.settimeout(10)
    caller.recv(1000)
    for words in (b"HELO traveller.example", f"MAIL FROM:<{GUEST}>".encode(), f"RCPT TO:<{HOUSE}>".encode(), b"DATA",
                  letter_bytes(name, b"When?\r\n") + b"."):
        caller.sendall(words + b"\r\n")
        reply = caller.recv(1000).decode()
        if reply[0] not in "23":
            break
    return reply.strip()


def no_descriptors(house):
    """64 descriptors, and more clients than that: some are turned away, nothing spins, and who was greeted is served and
    answered meanwhile, because the engine keeps the descriptors that its own work needs."""
    few = ["prlimit", "--nofile=64:64"] if shutil.which("prlimit") else None
    if not few:
        return print("SKIPPED: no engine ran out of descriptors, which needs prlimit, which is not installed")
    house.start(few)
    crowd, told, greeted, reply = [], {"220": 0, "421": 0, "": 0}, None, ""
    try:
        for _ in range(150):
            caller = socket.create_connection(("127.0.0.1", house.port), timeout=10)
            caller.settimeout(0.5)
            crowd.append(caller)
        time.sleep(0.5)
        before, began = house.cpu_seconds(), time.monotonic()
        time.sleep(2)
        share = (house.cpu_seconds() - before) / (time.monotonic() - began)
        # A loop around a failing `accept` would take a whole processor.
        check("the engine does not spin while no descriptor is left", share < 0.3, share)
        for caller in crowd:
            caller.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                told[word := caller.recv(3).decode()] += 1
                greeted = caller if word == "220" else greeted
        check("some are greeted", told["220"] >= 5, told)
        check("not all are", told["220"] < len(crowd), told)
        check("the engine is still there", house.process.poll() is None, house.said())
        reply = hand_in(greeted, "crowded@traveller.example")
        check("a letter is taken", reply.startswith("250"), reply)
        wait_for("its answer, while the crowd is there", lambda: house.smarthost.answered("crowded@traveller.example"), 10)
    finally:
        for caller in crowd:
            caller.close()
    probed = house.probe("when the crowd has left")
    house.stop()
    house.audit("after it ran out of descriptors")
    return print(f"ok: 150 clients at 64 descriptors: {told['220']} greeted, {told['421']} turned away; a letter of theirs is taken and answered meanwhile; {share:.0%} of a processor meanwhile; "
                 f"a letter is answered {probed:.1f} s after they left", flush=True)


def two_engines(house):
    """The second one says at once who is there, and changes nothing."""
    house.start()
    epoch = house.column("SELECT epoch FROM engine")
    began = time.monotonic()
    code, out, err = house.ask("serve", seconds=20)
    took = time.monotonic() - began
    check("the second engine ends with 78", code == 78, [code, out, err])
    check("it names the first one's process", str(house.process.pid) in err, err)
    # What must not be waited for is a lock, which the first engine keeps; a debug build under load starts slowly.
    check("it does not wait for the first one", took < 8, took)
    check("it changed nothing", house.column("SELECT epoch FROM engine") == epoch)
    house.probe("beside a second engine")
    return print(f"ok: a second engine ends with 78 after {took:.2f} s and names the first one's process", flush=True)


def frozen(house, seconds):
    """SIGSTOP for a while: clients time out, and when it goes on nothing is lost, doubled or late beyond its limit."""
    writers = Writers(house, "frozen", pause=0.01)
    wait_for("some letters", lambda: len(writers.taken()) > 10)
    house.freeze()
    before = len(writers.taken())
    with contextlib.closing(socket.create_connection(("127.0.0.1", house.port), timeout=seconds / 2)) as caller:
        began = time.monotonic()
        with contextlib.suppress(TimeoutError):
            check("a stopped engine greets nobody", caller.recv(3) == b"", caller)
        check("a client waits as long as it wants, and no longer", time.monotonic() - began < seconds)
    time.sleep(seconds / 2)
    stalled = len(writers.taken()) - before
    check("a stopped engine says no yes", stalled <= len(writers.threads), stalled)
    house.process.send_signal(signal.SIGCONT)
    probed = house.probe("when it goes on")
    taken = writers.close()
    return taken, probed


def deadline_passes_while_frozen(binary, scratch):
    """A run whose time ran out while the engine was stopped has no time left when it goes on, and one answer in the end."""
    script = {"turns": [{"call": [{"tool": "list_files", "args": {}}]}, {"say": "From seven to ten.", "delay_ms": 60_000}]}
    smarthost = Smarthost()
    house = House(binary, pathlib.Path(scratch) / "late", smarthost, script=script)
    house.edit("configs/inference.json", budget={"duration_max": "4s"})
    try:
        house.start()
        with Client(house.port) as client:
            check("a letter is taken", client.send("late@traveller.example").startswith("250"), client.replies)
        wait_for("its run to wait for an answer", lambda: house.rows("SELECT 1 FROM thread_tool_events WHERE event_type = 'tool_result'"))
        house.freeze()
        time.sleep(5)
        house.process.send_signal(signal.SIGCONT)
        went_on = time.monotonic()
        parked = lambda: house.rows("SELECT state, error_class, worked_ms FROM runs WHERE state <> 'running'")
        state, error, worked = wait_for("the run to be told that its time is over", parked, 30, 0.02)[0]
        took = time.monotonic() - went_on
        # The model would take a minute.
        check("its time is over, and not when the model is done", took < 20, took)
        check("its call timed out, and all of its time is counted", (state, error) == ("waiting_retry", "timeout") and worked >= 4000,
              [state, error, worked])
        check("nothing was mailed", not smarthost.mails)
        house.stop()
        (house.folder / "configs/demo-script.json").write_text(json.dumps(SCRIPT))
        house.run("runs", "retry", house.json("runs", "list")[0]["id"])
        house.work_off()
        with Client(house.start().port) as client:
            reply = client.send("late@traveller.example")
        check("its letter is still the same letter", reply.startswith("250"), reply)
        house.stop()
        check("its mail came once", house.judge([], "after a run whose time ran out while the engine was stopped") == 0
              and len(smarthost.mails) == 1, len(smarthost.mails))
        return print(f"ok: a run whose time ran out while the engine was stopped is put off {took:.1f} s after it goes on, all its time "
                     "counted; its answer came once", flush=True)
    finally:
        house.close()


def replaced_while_frozen(binary, scratch):
    """An engine that is stopped in the middle of a run, replaced, and then goes on: it stores nothing, sends nothing, ends."""
    script = {"turns": [{"call": [{"tool": "list_files", "args": {}}]}, {"say": "From seven to ten.", "delay_ms": 1500}]}
    smarthost = Smarthost()
    house = House(binary, pathlib.Path(scratch) / "replaced", smarthost, script=script)
    zombie = None
    try:
        house.start()
        with Client(house.port) as client:
            check("a letter is taken", client.send("replaced@traveller.example").startswith("250"), client.replies)
        wait_for("its run to wait for an answer", lambda: house.rows("SELECT 1 FROM thread_tool_events WHERE event_type = 'tool_result'"))
        house.freeze()
        zombie, house.process = house.process, None
        house.start(flags=["--take-over"])
        wait_for("the second engine to answer", lambda: smarthost.answered("replaced@traveller.example"), 10)
        wait_for("it to be noted as sent", lambda: not house.json("outbox", "list"))
        before = house.rows("SELECT state, attempt, epoch FROM runs")
        zombie.send_signal(signal.SIGCONT)
        code = zombie.wait(timeout=10)
        check("the first engine ends with 78 when it goes on", code == 78, [code, house.said()])
        check("it wrote nothing", house.rows("SELECT state, attempt, epoch FROM runs") == before, before)
        house.probe("after the first engine has ended")
        house.stop()
        house.work_off()
        check("it sent nothing", house.judge([], "after an engine was replaced") == 0 and len(smarthost.mails) == 2, len(smarthost.mails))
        return print("ok: an engine that was stopped in a run and replaced ends with 78 when it goes on; one mail, by the second", flush=True)
    finally:
        if zombie and zombie.poll() is None:
            zombie.kill()
            zombie.wait()
        house.close()


def a_long_reader(house):
    """Somebody holds a snapshot while letters come. The log grows past what checkpoints can give back, which is refused to
    none of them; when the reader leaves, the log is given back, too."""
    wal = pathlib.Path(str(house.database) + "-wal")
    reader = sqlite3.connect(f"file:{house.database}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    seen = reader.execute("SELECT count(*) FROM messages").fetchone()
    writers = Writers(house, "reader", body=b"x" * 70 * 700 + b"\r\n")
    wait_for("the log to grow", lambda: wal.stat().st_size > 12 << 20, 30)
    pinned = wal.stat().st_size
    check("the reader still sees what it saw", reader.execute("SELECT count(*) FROM messages").fetchone() == seen)
    refused = {code: count for code, count in writers.replies().items() if code != "250"}
    check("no letter is refused because of a reader", not refused, refused)
    reader.execute("COMMIT")
    reader.close()
    grown = 0
    until = time.monotonic() + 2
    while time.monotonic() < until:
        grown = max(grown, wal.stat().st_size)
        time.sleep(0.02)
    taken = writers.close()
    check("under load the log stays within its limit", grown <= WAL_MAX, grown)
    house.probe("after a long reader")

    def given_back():
        """Nobody hinders a checkpoint, and it leaves nothing behind."""
        with contextlib.closing(sqlite3.connect(house.database, timeout=5)) as connection:
            return connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0

    wait_for("a checkpoint of the whole log when nothing is to be done", given_back, 10, 0.2)
    check("the log is empty then", wal.stat().st_size == 0, wal.stat().st_size)
    return taken, pinned, grown


def set_clock(file, offset):
    """At once: an empty file would be the true time."""
    whole = file.with_suffix(".new")
    whole.write_text(offset)
    whole.replace(file)


def offset_seen(house):
    """By how many hours the engine saw its clock set the last time."""
    seen = re.findall(r"the wall clock was set .*found=(\S+)Z", house.said())
    at = pathlib.Path(house.log_path).stat().st_mtime
    return seen and round((datetime.datetime.fromisoformat(seen[-1] + "+00:00").timestamp() - at) / 3600)


def a_waiting_mail_is_brought_forward(house, now):
    """A mail that waits for a smarthost, and a clock that is set back by a day: it does not wait a day longer."""
    # A step is seen within a few seconds; what comes to wait before would be moved by all steps together.
    wait_for("the engine to see the last step", lambda: offset_seen(house) == -2, 15)
    house.smarthost.is_open = False
    with Client(house.port) as client:
        check("a letter is taken", client.send("waiting@traveller.example").startswith("250"), client.replies)
    due = lambda: house.column("SELECT next_attempt_at FROM deliveries WHERE state = 'queued' AND attempts > 0")
    before = wait_for("its answer to be put off", due)[0]
    set_clock(now, "-26h")
    after = wait_for("it to be brought forward", lambda: [at for at in due() if at < before], 10)[0]
    moved = datetime.datetime.fromisoformat(before) - datetime.datetime.fromisoformat(after)
    check("by what the clock was set back", abs(moved - datetime.timedelta(hours=24)).total_seconds() < 10, [before, after, house.said()])
    house.smarthost.is_open = True


def clock_is_set(binary, scratch):
    """The wall clock is set by a day and back while the engine serves; only libfaketime can do that to one process."""
    library = next(iter(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
    if not library:
        return print("SKIPPED: no clock was set under the real engine, which needs libfaketime, which is not installed")
    now = pathlib.Path(scratch) / "faketime"
    now.write_text("+0")
    smarthost = Smarthost()
    house = House(binary, pathlib.Path(scratch) / "clock", smarthost)
    environment = {"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(now), "FAKETIME_NO_CACHE": "1",
                   "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1"}
    shown = []
    try:
        house.start(environment=environment)
        for step in ("+0", "+1d", "-1d", "-2h"):
            set_clock(now, step)
            # Under load the engine takes a moment until it looks at the clock again.
            shown.append(f"{step} {house.probe(f'the clock is set to {step}'):.1f} s")
        dates = house.column("SELECT m.received_at FROM messages m WHERE m.direction = 'inbound' ORDER BY m.seq")
        check("letters bear the time at which they came", len({date[:10] for date in dates}) == 3, dates)
        ids = house.column("SELECT id FROM messages WHERE direction = 'inbound' ORDER BY seq")
        check("ids only grow", ids == sorted(ids), ids)
        a_waiting_mail_is_brought_forward(house, now)
        house.stop()
        house.work_off()
        check("no mail came twice", house.judge([], "after the clock was set") == 0)
        return print(f"ok: the wall clock is set under way, a letter is answered each time: {', '.join(shown)}", flush=True)
    finally:
        house.close()


def one_house(binary, scratch):
    house = House(binary, pathlib.Path(scratch) / "house", Smarthost())
    try:
        no_descriptors(house)
        two_engines(house)
        taken, probed = frozen(house, 4)
        print(f"ok: stopped for 4 s and continued: {len(taken)} letters with a yes; a letter is answered {probed:.1f} s after", flush=True)
        more, pinned, grown = a_long_reader(house)
        house.stop()
        house.work_off()
        check("no mail came twice", house.judge(taken + more, "after all that") == 0)
        print(f"ok: a reader that holds on: the log grew to {pinned >> 20} MB under it, {len(more)} letters with a yes and none refused; "
              f"at most {grown >> 20} MB after it left, then empty", flush=True)
    finally:
        house.close()


def main():
    binary = asked_binary()
    for story in (one_house, deadline_passes_while_frozen, replaced_while_frozen, clock_is_set):
        with tempfile.TemporaryDirectory(prefix="attache-machine-") as scratch:
            story(binary, scratch)


if __name__ == "__main__":
    main()
