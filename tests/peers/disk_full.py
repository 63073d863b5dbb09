"""A full disk: letters are refused before they are taken, nothing is lost, and it goes on by itself. See disk.sh."""

import tempfile
import time

from disks import MemoryDisk
from first_letter import check
from household import Client, House, Smarthost, Writers, asked_binary, letter_bytes
from sinks import wait_for

RESERVE = 4 << 20
# The first answer calls a tool; the second one takes its time, so that the disk can fill in between.
SLOW = {"turns": [{"call": [{"tool": "list_files", "args": {}}]}, {"say": "From seven to ten.", "delay_ms": 1500}]}


def steps(house, name):
    """What is written down of the run of that letter: its turns and its steps."""
    run = "SELECT r.id FROM runs r JOIN messages m ON m.id = r.trigger_message_id WHERE m.message_id = ?"
    turns = house.rows(f"SELECT turn_index, attempt, response_json FROM run_turns WHERE run_id = ({run}) "
                       "AND response_json IS NOT NULL ORDER BY 1, 2", name)
    events = house.rows(f"SELECT step_index, event_type, payload_json FROM thread_tool_events WHERE run_id = ({run}) ORDER BY 1", name)
    return turns, events


def until_a_run_is_under_way(house, client, name):
    check(f"`{name}` is taken", client.send(name).startswith("250"), client.replies)
    return wait_for("the run to wait for its second answer", lambda: (written := steps(house, name))[1][1:] and written, pause=0.01)


def below_the_reserve(house, disk):
    """With less room than the reserve, letters are refused at MAIL, and what was taken before is still worked off."""
    with Client(house.port) as client:
        until_a_run_is_under_way(house, client, "reserve@traveller.example")
        disk.fill(leave=RESERVE // 2)
        reply = client.say(b"MAIL FROM:<guest@traveller.example>")
        check("a letter is refused at MAIL with 452", reply.startswith("452 4.3.1"), reply)
    wait_for("the answer to what was taken before", lambda: house.smarthost.answered("reserve@traveller.example"), 20)
    wait_for("it to be noted as sent", lambda: not house.json("outbox", "list"))


def nothing_left(house, disk):
    """The disk fills while letters come and a run is under way; gives the run's letter."""
    body = b"x" * 70 + b"\r\n"
    with Client(house.port) as client, Client(house.port) as big:
        written = until_a_run_is_under_way(house, client, "caught@traveller.example")
        sent = len(house.smarthost.mails)
        for line in (b"MAIL FROM:<guest@traveller.example>", b"RCPT TO:<concierge@guesthouse.example>", b"DATA"):
            big.say(line)
        disk.fill()
        # More than the log of the database can have left of earlier letters.
        big.socket.sendall(letter_bytes("too-late@traveller.example", body * 100_000) + b".\r\n")
        reply = big.hear()
        check("a letter for which there is no room is refused with 451", reply.startswith("451 4.3.0"), reply)
    writers = Writers(house, "full", count=2, pause=0.01)
    for listing in (("runs", "list"), ("threads", "list"), ("outbox", "list")):
        code, out, err = house.ask(*listing)
        check(f"`{' '.join(listing)}` works on a full disk", code == 0, out + err)
    time.sleep(2)  # the run's second answer comes into this
    check("the engine is still there", house.process.poll() is None, house.said())
    check("letters with a yes on the full disk are none", not writers.close(), writers.replies())
    check("they were told 452", set(writers.replies()) == {"452"}, writers.replies())
    now = steps(house, "caught@traveller.example")
    check("no step of the run under way is lost", now[0][:len(written[0])] == written[0] and now[1][:len(written[1])] == written[1], now)
    check("nothing was sent of which nobody could have known", len(house.smarthost.mails) == sent)


def without_a_reserve(binary, scratch):
    """The disk fills under letters that nobody refused before: each is stored or told 451, and the engine stays."""
    # What comes before and after the disk is full must have room, however much a busy machine lets come.
    disk, smarthost = MemoryDisk(scratch, "64m"), Smarthost()
    house = House(binary, disk.path / "house", smarthost, limits={"free_disk_bytes_min": 0})
    try:
        house.start()
        writers = Writers(house, "brim", pause=0.002)
        wait_for("some letters", lambda: len(writers.taken()) > 20)
        disk.fill()
        wait_for("letters to find no room", lambda: writers.replies()["451"] > 20)
        for listing in (("runs", "list"), ("threads", "list")):
            code, out, err = house.ask(*listing)
            check(f"`{' '.join(listing)}` works when not even a commit has room", code == 0, out + err)
        check("the engine is still there", house.process.poll() is None, house.said())
        # The notice has no room either: it is tried again once a minute.
        check("the log says what is short", "no room for a write" in house.log_path.read_text(), house.said())
        disk.free()
        freed, before = time.monotonic(), len(writers.taken())
        wait_for("letters to be taken again", lambda: len(writers.taken()) > before, 5)
        again = time.monotonic() - freed
        taken = writers.close()
        check("each was told 250 or 451", set(writers.replies()) == {"250", "451"}, writers.replies())
        house.probe("when there is room again")
        # As after a fault of the machine, so that nothing can be hidden in memory.
        house.kill()
        for run in house.json("runs", "list", "--state", "waiting_retry", "--limit", "1000"):
            house.run("runs", "retry", run["id"])
        house.work_off()
        house.judge(taken, "after the disk was full to the brim")
        print(f"ok: a disk full to the brim: {len(taken)} letters with a yes, all stored and answered, {writers.replies()['451']} told 451; "
              f"letters are taken {again:.1f} s after there is room", flush=True)
    finally:
        house.close()
        disk.close()


def with_a_reserve(binary, scratch):
    disk, smarthost = MemoryDisk(scratch, "64m"), Smarthost()
    house = House(binary, disk.path / "house", smarthost, limits={"free_disk_bytes_min": RESERVE}, script=SLOW)
    try:
        house.start()
        house.probe("before the fault")
        below_the_reserve(house, disk)
        disk.free()
        nothing_left(house, disk)
        disk.free()
        freed = time.monotonic()
        with Client(house.port) as client:
            again = wait_for("letters to be taken again", lambda: client.send("again@traveller.example").startswith("250"), 5)
        check("letters are taken again", again)
        again = time.monotonic() - freed
        probed = house.probe("when there is room again")
        for run in house.json("runs", "list", "--state", "waiting_retry"):
            house.run("runs", "retry", run["id"])  # or in a minute by itself
        wait_for("the run that was caught to end", lambda: house.smarthost.answered("caught@traveller.example"), 15)
        house.stop()
        house.work_off()
        check("no mail came twice", house.judge([], "after the disk was full") == 0)
        print(f"ok: a full disk: 452 below the reserve while earlier letters are answered, 451 at the end of data, no yes, reads work; "
              f"letters are taken {again:.1f} s after there is room, answered {probed:.1f} s after, without a restart", flush=True)
    finally:
        house.close()
        disk.close()


def from_the_start(binary, scratch):
    """On a disk that is full already, a start and a `gc` have the room that `data` keeps for them, once each."""
    disk, smarthost = MemoryDisk(scratch, "160m"), Smarthost()
    house = House(binary, disk.path / "house", smarthost, limits={"free_disk_bytes_min": RESERVE})
    spare = house.folder / "data" / "spare"
    given_up = "spare room of `data` is given up"
    try:
        house.start()
        house.probe("before the fault")
        house.kill()
        check("room is kept", spare.exists())
        disk.fill()
        house.start()
        check("an engine starts on a full disk, and says by what", given_up in house.said() and not spare.exists(), house.said())
        house.kill()
        disk.fill()
        check("without that room it does not", house.start(may_fail=True) is None)
        code = house.exit_code(10)
        house.kill()
        check("and says what to do", code == 75 and "make room on the disk of `data`" in house.said(), [code, house.said()])
        disk.free()
        house.start()
        house.probe("when there is room again")
        house.kill()
        disk.fill()
        code, out, err = house.ask("gc", "--older-than", "1s")
        check("`gc` deletes on a full disk", code == 0 and given_up in err and not spare.exists(), [code, out, err])
        disk.free()
        house.start()
        house.probe("after that")
        house.stop()
        house.judge([], "after starts on a full disk")
        print("ok: a start and a `gc` on a full disk, by the room that is kept for them; without it, exit code 75 and what to do", flush=True)
    finally:
        house.close()
        disk.close()


def main():
    binary = asked_binary()
    for story in (with_a_reserve, without_a_reserve, from_the_start):
        with tempfile.TemporaryDirectory(prefix="attache-full-") as scratch:
            story(binary, scratch)


if __name__ == "__main__":
    main()
