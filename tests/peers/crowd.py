"""Peers that hold what others need and send nothing, from many addresses of the loopback network, and logs that are not
read. See crowd.sh."""

import os
import resource
import signal
import socket
import subprocess
import tempfile
import time

from first_letter import HOUSE, check
from household import GUEST, House, Smarthost, asked_binary, letter_bytes
from sinks import wait_for

# Of silent connections, with the limits of a workspace that says nothing about them: a thirtieth of five minutes.
STRESSED_SECONDS = 10
# What a letter that hardly comes on is given before it has to make room.
PACE_SECONDS = 10
LETTERS_UNREAD = 2000


class Peer:
    """One conversation from one address of 127.0.0.0/8."""

    def __init__(self, port, host, timeout=10.0):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout, source_address=(host, 0))
        self.lines = self.socket.makefile("rb")
        self.greeting = self.hear()

    def hear(self):
        try:
            return self.lines.readline().decode().strip()
        except OSError:
            return ""

    def say(self, words):
        self.socket.sendall(words + b"\r\n")
        return self.hear()

    def begin(self):
        """Up to the letter."""
        self.socket.sendall(b"HELO crowd.example\r\nMAIL FROM:<%s>\r\nRCPT TO:<%s>\r\nDATA\r\n" % (GUEST.encode(), HOUSE.encode()))
        return [self.hear() for _ in range(4)][-1]

    def send(self, name, size):
        """A whole letter; the answer."""
        self.begin()
        lines = (b"x" * 62 + b"\r\n") * (size // 64)
        try:
            self.socket.sendall(letter_bytes(name, lines) + b".\r\n")
        except OSError:
            pass  # It was cut off; what it was told stands in front of that.
        return self.hear()

    def close(self):
        self.lines.close()
        self.socket.close()


def hold(port, host, sizes):
    """Letters that stop in the middle, one connection each."""
    held = []
    for size in sizes:
        peer = Peer(port, host, 30.0)
        peer.begin()
        peer.socket.sendall((b"x" * 62 + b"\r\n") * (int(size) // 64))
        held.append(peer)
    return held


def bring(port, host, name, size):
    peer = Peer(port, host, 60.0)
    try:
        return peer.send(name, size) if peer.greeting.startswith("220") else peer.greeting
    finally:
        peer.close()


def letters_in_memory(house):
    """39 MB of one address, and then all that there is, held in silence."""
    house.start()
    held = hold(house.port, "127.0.0.2", (16.8e6, 16.8e6, 4.2e6, 0.5e6, 0.5e6))
    told = [bring(house.port, "127.0.0.3", f"held-{n}@traveller.example", size)
            for n, size in enumerate([2_000] * 20 + [5_000_000] * 3)]
    refused = sum(not reply.startswith("250") for reply in told)
    check("beside five unfinished letters of one address everybody's are taken", refused == 0, told)
    for host in range(4, 8):
        held += hold(house.port, f"127.0.0.{host}", (25e6,))
    began, small, replies, large, count = time.monotonic(), [], [], None, 0
    while large is None and time.monotonic() - began < 3 * PACE_SECONDS:
        count += 1
        small.append(bring(house.port, "127.0.0.3", f"small-{count}@traveller.example", 2_000))
        replies.append(bring(house.port, "127.0.0.9", f"large-{count}@traveller.example", 8_000_000))
        if replies[-1].startswith("250"):
            large = time.monotonic() - began
        time.sleep(0.5)
    check("small letters are taken while large ones hold the rest", all(r.startswith("250") for r in small), small)
    check("a large letter is taken once another one has stalled for a while", large is not None, replies)
    told = house.json("notices", "list")
    check("the owner is told", any(n["cause"].startswith("letters_refused") for n in told) or count == 1, told)
    for peer in held:
        peer.close()
    house.stop()
    house.audit("after letters that did not end")
    print(f"ok: beside 39 MB of five unfinished letters of one address 0 of 23 letters refused; with all memory held by five "
          f"addresses 0 of {len(small)} small letters refused, a large one taken after {large:.1f} s", flush=True)


def places(house):
    """1,000 silent connections from ten addresses."""
    house.start()
    known = bring(house.port, "127.0.1.1", "known@traveller.example", 2_000)
    check("a letter before the crowd", known.startswith("250"), known)
    crowd, greeted = [], 0
    for host in range(10, 20):
        for _ in range(100):
            caller = socket.create_connection(("127.0.0.1", house.port), timeout=10, source_address=(f"127.0.0.{host}", 0))
            crowd.append(caller)
    began = time.monotonic()
    who_came_before = bring(house.port, "127.0.1.1", "again@traveller.example", 2_000)
    check("who brought a letter before is served at once", who_came_before.startswith("250"), who_came_before)
    at_once = time.monotonic() - began
    refused, reply = 0, ""
    while not reply.startswith("250") and time.monotonic() - began < 3 * STRESSED_SECONDS:
        reply = bring(house.port, "127.0.1.2", f"new-{refused}@traveller.example", 2_000)
        refused += not reply.startswith("250")
        time.sleep(0.2)
    waited = time.monotonic() - began
    check("a newcomer is served before long", reply.startswith("250"), reply)
    check("and had to wait, so the places were taken", refused > 0, refused)
    wait_for("the owner to be told", lambda: any(n["cause"].startswith("letters_refused") for n in house.json("notices", "list")), 20)
    for caller in crowd:
        caller.close()
    house.stop()
    house.audit("after a silent crowd")
    print(f"ok: 1,000 silent connections from ten addresses: who brought a letter before is served in {at_once:.2f} s, a "
          f"newcomer after {waited:.1f} s", flush=True)


def serve_with_log(house, stderr):
    """An engine at `trace`, whose log goes there."""
    process = subprocess.Popen(house.command("--log", "trace", "serve"), stdout=subprocess.PIPE, stderr=stderr,
                               env=house.environment, start_new_session=True)
    house.process = process
    line = process.stdout.readline().decode()
    check("it says where it listens", "127.0.0.1:" in line, line)
    house.port = int(line.strip().rsplit(":", 1)[1])


def end_in_time(house, what):
    began = time.monotonic()
    house.stop(15)
    took = time.monotonic() - began
    check(f"{what}: SIGTERM ends it in time", took < 12, took)
    return took


def send_many(house, count, what):
    peer = Peer(house.port, "127.0.0.1", 30.0)
    for number in range(count):
        reply = peer.send(f"{what}-{number}@traveller.example", 128)
        check(f"{what}: letter {number} is taken", reply.startswith("250"), reply)
    peer.close()


def logs(house):
    """A full disk, a closed pipe, and a pipe that nobody reads, below a log of everything."""
    with open("/dev/full", "wb") as full:
        serve_with_log(house, full)
        send_many(house, 50, "full")
        ends = [end_in_time(house, "a full disk")]
    reader, writer = os.pipe()
    os.close(reader)
    serve_with_log(house, writer)
    os.close(writer)
    send_many(house, 50, "closed")
    ends.append(end_in_time(house, "a closed pipe"))
    reader, writer = os.pipe()
    serve_with_log(house, writer)
    os.close(writer)
    began = time.monotonic()
    send_many(house, LETTERS_UNREAD, "unread")
    took = time.monotonic() - began
    # Somebody reads after all: what was lost is said.
    os.set_blocking(reader, False)
    seen = b""
    def is_told():
        nonlocal seen
        try:
            while piece := os.read(reader, 1 << 20):
                seen = (seen + piece)[-(1 << 20):]
                if b"log lines were dropped" in seen:
                    return True
        except BlockingIOError:
            pass
        return b"log lines were dropped" in seen
    wait_for("the log to tell of the lines that were dropped", is_told, 20)
    ends.append(end_in_time(house, "a pipe that nobody read"))
    os.close(reader)
    reader, writer = os.pipe()
    serve_with_log(house, writer)
    os.close(writer)
    send_many(house, 300, "unread-to-the-end")
    ends.append(end_in_time(house, "a pipe that nobody reads"))
    os.close(reader)
    house.audit("after logs that nobody read")
    print(f"ok: logs at trace into a full disk, a closed pipe and an unread pipe: {LETTERS_UNREAD} letters taken in "
          f"{took:.1f} s, SIGTERM ends it in {', '.join(f'{end:.1f}' for end in ends)} s", flush=True)


def main():
    binary = asked_binary()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    for play in (letters_in_memory, places, logs):
        with tempfile.TemporaryDirectory(prefix="attache-crowd-") as scratch:
            house = House(binary, os.path.join(scratch, "house"), Smarthost())
            try:
                play(house)
            finally:
                house.close()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    main()
