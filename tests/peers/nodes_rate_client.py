"""Letters over many connections, as fast as they are taken: one of the clients of nodes_rate.py, in a process of its own so
that none waits for another's interpreter.

Says `ready` when all connections stand. Then, for each line `FIRST COUNT` on its input, it brings that many letters to the
nodes, numbered from FIRST, and answers with a line of JSON: how long it took, the CPU seconds of it, and each reply that was
no yes."""

import argparse
import json
import queue
import socket
import sys
import threading
import time

LETTER_BYTES = 2_048
SENDERS = 200


def letter(number, personas):
    """The envelope's sender and recipient, and the letter: the first of a thread, padded to its size."""
    sender, recipient = f"guest{number % SENDERS}@traveller.example", f"{personas[number % len(personas)]}@guesthouse.example"
    text = (f"From: {sender}\r\nTo: {recipient}\r\nSubject: Stay {number}\r\nMessage-ID: <rate-{number}@traveller.example>\r\n\r\n"
            f"Is breakfast served on day {number}?\r\n")
    line = "May we ask for a quiet room, with a window to the lake?\r\n"
    return sender, recipient, (text + line * ((LETTER_BYTES - len(text)) // len(line))).encode()


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        # Two small segments in a row would wait for each other's acknowledgement.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lines = self.socket.makefile("rb")
        self.reply()
        self.socket.sendall(b"EHLO traveller.example\r\n")
        self.reply()

    def reply(self):
        while True:
            line = self.lines.readline()
            if not line:
                raise ConnectionError("the connection broke off")
            if line[3:4] != b"-":
                return line.decode().strip()

    def send(self, sender, recipient, text):
        """Of the first reply that is no yes, or of the last."""
        # In one segment, as PIPELINING allows (RFC 2920): what is measured is the server, not the loopback.
        self.socket.sendall(f"MAIL FROM:<{sender}>\r\nRCPT TO:<{recipient}>\r\nDATA\r\n".encode())
        replies = [self.reply() for _ in range(3)]
        if not replies[2].startswith("354"):
            return next(reply for reply in replies if not reply.startswith("250"))
        self.socket.sendall(text + b".\r\n")
        return self.reply()


class Batch:
    """Letters that all connections bring together."""

    def __init__(self, connections, personas, first, count):
        self.numbers, self.personas, self.refusals = queue.SimpleQueue(), personas, []
        for number in range(first, first + count):
            self.numbers.put(number)
        threads = [threading.Thread(target=self.work, args=(connection,)) for connection in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def work(self, connection):
        while True:
            try:
                number = self.numbers.get_nowait()
            except queue.Empty:
                return
            try:
                reply = connection.send(*letter(number, self.personas))
            except OSError as error:
                return self.refusals.append(f"rate-{number}: {error}")
            if not reply.startswith("250"):
                self.refusals.append(f"rate-{number}: {reply}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ports", required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--personas", required=True)
    args = parser.parse_args()
    ports = [int(port) for port in args.ports.split(",")]
    connections = [Connection(ports[at % len(ports)]) for at in range(args.connections)]
    print("ready", flush=True)
    for line in sys.stdin:
        first, count = map(int, line.split())
        began, cpu = time.monotonic(), time.process_time()
        batch = Batch(connections, args.personas.split(","), first, count)
        print(json.dumps({"seconds": time.monotonic() - began, "cpu": time.process_time() - cpu, "refusals": batch.refusals}), flush=True)


if __name__ == "__main__":
    main()
