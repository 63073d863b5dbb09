"""Mail servers that others wrote and that keep what they are given: Postfix's smtp-sink, aiosmtpd, Python's smtpd.

`python3 sinks.py NAME` ends with 0 if that one can be used here.
"""

import fcntl
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings

SBIN = "/usr/sbin:/usr/local/sbin"
# Below those that the system chooses from.
PORTS = range(20000, 32000)
# Open while this program uses the ports.
PORT_LOCKS = []


def wait_for(what, probe, seconds=30.0, pause=0.05):
    """Looks again and again until `probe()` gives something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise SystemExit(f"FAILED: waited {seconds:.0f} s for {what}")
        time.sleep(pause)


def free_port(kind=socket.SOCK_STREAM):
    """Gives a port that no other of these programs takes before this one has ended, and that the system hands out to nobody."""
    folder = pathlib.Path(tempfile.gettempdir()) / f"attache-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for number in range(len(PORTS)):
        port = PORTS[(os.getpid() * 16 + number) % len(PORTS)]
        lock = (folder / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket(socket.AF_INET, kind) as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        PORT_LOCKS.append(lock)
        return port
    raise SystemExit("FAILED: no port is free")


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def find_smtp_sink():
    return shutil.which("smtp-sink", path=os.environ.get("PATH", "") + ":" + SBIN)


class SmtpSink:
    """Postfix's test server; every transaction becomes a file with the envelope as X- fields on top."""

    def __init__(self, scratch):
        self.folder = pathlib.Path(scratch) / "sink"
        self.folder.mkdir()
        self.port = free_port()
        command = [find_smtp_sink(), "-d", str(self.folder / "mail.")]
        if os.geteuid() == 0:
            # It refuses to stay root.
            self.folder.chmod(0o777)
            pathlib.Path(scratch).chmod(0o755)
            command += ["-u", "nobody"]
        self.process = subprocess.Popen([*command, f"127.0.0.1:{self.port}", "10"])
        wait_for("smtp-sink to listen", lambda: answers(self.port))

    def letters(self):
        files = [file for file in sorted(self.folder.iterdir()) if b"X-Rcpt-Args:" in file.read_bytes()]
        return [file.read_bytes() for file in files]

    def close(self):
        self.process.terminate()
        self.process.wait()


class AioSmtpd:
    """aiosmtpd, from PyPI."""

    def __init__(self, _scratch):
        from aiosmtpd.controller import Controller

        kept = self.kept = []

        class Handler:
            async def handle_DATA(self, _server, _session, envelope):
                kept.append(envelope.content)
                return "250 2.0.0 kept"

        self.port = free_port()
        self.controller = Controller(Handler(), hostname="127.0.0.1", port=self.port)
        self.controller.start()

    def letters(self):
        return list(self.kept)

    def close(self):
        self.controller.stop()


class Smtpd:
    """Python's own, which left the standard library with 3.12."""

    def __init__(self, _scratch):
        warnings.simplefilter("ignore", DeprecationWarning)
        import asyncore
        import smtpd

        kept = self.kept = []

        class Server(smtpd.SMTPServer):
            def process_message(self, _peer, _sender, _recipients, data, **_options):
                kept.append(data)

        self.server = Server(("127.0.0.1", 0), None)
        self.port = self.server.socket.getsockname()[1]
        threading.Thread(target=lambda: asyncore.loop(timeout=0.1), daemon=True).start()

    def letters(self):
        return list(self.kept)

    def close(self):
        self.server.close()


SINKS = {"smtp-sink": SmtpSink, "aiosmtpd": AioSmtpd, "smtpd": Smtpd}


def usable(name):
    if name == "smtp-sink":
        return find_smtp_sink() is not None
    warnings.simplefilter("ignore", DeprecationWarning)
    try:
        __import__(name)
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(0 if usable(sys.argv[1]) else 1)
