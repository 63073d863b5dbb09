"""A proxy between a node and its database that does what networks do. Standard library only.

`python3 nodes_proxy.py DATABASE_PORT` prints `listening PORT` and reads commands from standard input, one a line: a word of
FAULTS and seconds. It prints `swallowed` for each COMMIT whose answer it kept back, and ends with its input.
"""

import asyncio
import pathlib
import subprocess
import sys
import threading
import time

# cut: connections break and no new one is taken; hang: nothing is passed on, then everything; deaf: requests are passed on and
# answers are not, then connections break; delay: each piece comes late; swallow: the next COMMIT within that time is passed
# on, its answer is dropped, and the connection breaks.
FAULTS = ("cut", "hang", "deaf", "delay", "swallow")
PIECE = 65536
DELAY_SECONDS = 0.03
# `ReadyForQuery` outside a transaction: what ends the answer to a COMMIT.
READY = b"Z\x00\x00\x00\x05I"
COMMIT = b"COMMIT\x00"


class Frames:
    """Follows what a client of PostgreSQL sends (protocol 3) and finds each COMMIT, however its bytes are cut in pieces."""

    def __init__(self):
        self.left, self.started = b"", False

    def has_commit(self, piece):
        self.left += piece
        found = False
        while True:
            # The first messages have a length and no kind: a request for TLS, then the startup.
            at = 1 if self.started else 0
            if len(self.left) < at + 4:
                return found
            length = at + int.from_bytes(self.left[at:at + 4], "big")
            if len(self.left) < length:
                return found
            message, self.left = self.left[:length], self.left[length:]
            if self.started:
                found |= message[:1] == b"Q" and message[5:] == COMMIT
            else:
                self.started = message[4:8] == b"\x00\x03\x00\x00"


class Proxy:
    def __init__(self, database_port):
        self.database_port, self.until, self.links, self.tasks = database_port, dict.fromkeys(FAULTS, 0.0), set(), set()

    def struck(self, fault):
        return time.monotonic() < self.until[fault]

    def strike(self, fault, seconds):
        self.until[fault] = time.monotonic() + seconds
        if fault == "cut":
            self.cut_all()
        if fault == "deaf":
            asyncio.get_running_loop().call_later(seconds, self.cut_all)

    def cut_all(self):
        for link in list(self.links):
            link.cut()

    async def connected(self, reader, writer):
        if self.struck("cut"):
            return writer.transport.abort()
        try:
            database = await asyncio.open_connection("127.0.0.1", self.database_port)
        except OSError:
            return writer.transport.abort()
        link = Link(self, (reader, writer), database)
        self.links.add(link)
        try:
            await asyncio.gather(link.requests(), link.answers())
        except OSError:
            pass
        finally:
            self.links.discard(link)
            link.cut()


class Link:
    """One connection of the node and the one that it stands for."""

    def __init__(self, proxy, client, database):
        self.proxy, self.client, self.database, self.frames = proxy, client, database, Frames()
        self.swallows = False

    def cut(self):
        for _, writer in (self.client, self.database):
            writer.transport.abort()

    async def late(self):
        while self.proxy.struck("hang"):
            await asyncio.sleep(0.02)
        if self.proxy.struck("delay"):
            await asyncio.sleep(DELAY_SECONDS)

    async def requests(self):
        while piece := await self.client[0].read(PIECE):
            if self.frames.has_commit(piece) and self.proxy.struck("swallow"):
                self.proxy.until["swallow"], self.swallows = 0.0, True
            await self.late()
            self.database[1].write(piece)
            await self.database[1].drain()
        self.cut()

    async def answers(self):
        while piece := await self.database[0].read(PIECE):
            if self.swallows:
                if piece.endswith(READY):
                    print("swallowed", flush=True)
                    return self.cut()
                continue
            await self.late()
            if self.proxy.struck("deaf"):
                continue
            self.client[1].write(piece)
            await self.client[1].drain()
        self.cut()


async def serve(database_port):
    proxy = Proxy(database_port)
    server = await asyncio.start_server(proxy.connected, "127.0.0.1", 0, backlog=256)
    print("listening", server.sockets[0].getsockname()[1], flush=True)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        fault, seconds = line.decode().split()
        proxy.strike(fault, float(seconds))


class Wire:
    """The proxy as a process of its own, so that nobody's thread holds it up."""

    def __init__(self, database_port):
        command = [sys.executable, str(pathlib.Path(__file__).resolve()), str(database_port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port, self.swallowed = int(self.process.stdout.readline().split()[1]), 0
        threading.Thread(target=self.count, daemon=True).start()

    def count(self):
        for _ in self.process.stdout:
            self.swallowed += 1

    def strike(self, fault, seconds):
        self.process.stdin.write(f"{fault} {seconds}\n")
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
