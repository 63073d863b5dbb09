"""A mailbox on a real Dovecot, with everybody going down in turn. See dovecot.sh."""

import argparse
import json
import os
import pathlib
import re
import shutil
import smtplib
import subprocess
import tempfile
import time
from email.message import EmailMessage

import guest_house
from first_letter import HOUSE, Engine, check
from sinks import SINKS, answers, free_port, wait_for

USER = "concierge"
LAY_THERE, WHILE_IDLE, WHILE_KILLED, WHILE_DOWN = 40, 10, 60, 10


class Dovecot:
    """An instance with mail of its own, from dovecot/dovecot.conf, and an authority that vouches for it."""

    def __init__(self, scratch):
        self.folder = pathlib.Path(scratch) / "dovecot"
        (self.folder / "mail").mkdir(parents=True)
        self.folder.parent.chmod(0o755)
        shutil.chown(self.folder / "mail", "mail", "mail")
        self.imaps, self.lmtp = free_port(), free_port()
        self.make_certificates()
        known = {"DIR": self.folder, "IMAPS": self.imaps, "LMTP": self.lmtp}
        text = (pathlib.Path(__file__).parent / "dovecot" / "dovecot.conf").read_text()
        self.config = self.folder / "dovecot.conf"
        self.config.write_text(re.sub(r"@([A-Z]+)@", lambda match: str(known[match[1]]), text))
        self.process = None
        self.sent = 0

    def make_certificates(self):
        def openssl(*args):
            done = subprocess.run(["openssl", *args], cwd=self.folder, capture_output=True, text=True, timeout=60)
            check(f"openssl {args[0]} succeeds", done.returncode == 0, done.stderr)

        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem",
                "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
                "-keyout", "server.key", "-out", "server.csr")
        (self.folder / "names").write_text("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "2", "-extfile", "names", "-out", "server.pem")

    def start(self):
        self.process = subprocess.Popen(["dovecot", "-F", "-c", str(self.config)], stderr=subprocess.DEVNULL)
        wait_for("Dovecot to listen", lambda: answers(self.imaps) and answers(self.lmtp))

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=30)

    def deliver(self, number):
        """So many letters, each by a guest of its own."""
        with smtplib.LMTP("127.0.0.1", self.lmtp, local_hostname="mail.traveller.example", timeout=30) as session:
            for _ in range(number):
                self.sent += 1
                letter = EmailMessage()
                guest = f"guest{self.sent}@traveller.example"
                letter["From"], letter["To"] = guest, HOUSE
                letter["Subject"] = f"Question {self.sent}"
                # Every third names itself not at all.
                if self.sent % 3:
                    letter["Message-ID"] = f"<d{self.sent}@traveller.example>"
                letter.set_content(f"This is question {self.sent}.\n")
                session.send_message(letter, from_addr=guest, to_addrs=[f"{USER}@mailbox.example"])

    def flags(self):
        """The flags of every letter."""
        command = ["doveadm", "-c", str(self.config), "-f", "flow", "fetch", "-u", USER, "uid flags", "mailbox", "INBOX", "all"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        check("doveadm answers", done.returncode == 0, done.stdout + done.stderr + self.log())
        return re.findall(r"flags=([^\n]*)", done.stdout)

    def seen(self):
        return sum("\\Seen" in flags for flags in self.flags())

    def forget_numbers(self):
        """Gives the mailbox a new UIDVALIDITY, as a restored backup does."""
        for file in (self.folder / "mail" / USER).glob("dovecot*"):
            file.unlink()

    def log(self):
        file = self.folder / "dovecot.log"
        return file.read_text() if file.exists() else ""


class House:
    """A workspace whose letters come from the mailbox, and the engines that worked on it."""

    def __init__(self, binary, scratch, dovecot, sink):
        self.binary, self.folder, self.sink = binary, pathlib.Path(scratch) / "house", sink
        self.engines = []
        guest_house.write(self.folder)
        mailbox = {"name": "desk", "host": "localhost", "port": dovecot.imaps, "user": USER, "since": "all",
                   "ca_file": str(dovecot.folder / "ca.pem"), "poll": "30s"}
        self.edit("gateway", mailboxes=[mailbox])
        self.edit("security", access={"allow": ["*@traveller.example"]})
        secrets = self.folder / ".secrets"
        secrets.touch(mode=0o600)
        secrets.write_text("ATTACHE_IMAP_PASSWORD=pass\n")

    def edit(self, name, **members):
        file = self.folder / "configs" / f"{name}.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **members}, indent=2))

    def start(self):
        self.engines.append(Engine(self.binary, self.folder, self.sink.port))
        return self.engines[-1]

    def close(self):
        for engine in self.engines:
            engine.process.kill()
            engine.process.wait()


def came_in(engine):
    """The subjects of the letters that have a run, each as often as it has one."""
    return sorted(run["subject"] for run in engine.json("runs", "list", "--limit", "10000"))


def all_came_in_once(engine, dovecot, when):
    wanted = sorted(f"Question {number + 1}" for number in range(dovecot.sent))
    wait_for(f"all letters {when}", lambda: len(came_in(engine)) >= dovecot.sent, seconds=60)
    check(f"{when}: every letter has exactly one run", came_in(engine) == wanted, came_in(engine))
    wait_for(f"all flags {when}", lambda: dovecot.seen() == dovecot.sent)


def go_through(house, dovecot):
    dovecot.start()
    dovecot.deliver(LAY_THERE)
    check("nobody has seen the letters yet", dovecot.seen() == 0)
    first = house.start()
    checked = first.run("mailboxes", "check")
    check("the check finds the mailbox", "can be read: INBOX holds" in checked and "tells of new letters" in checked, checked)
    all_came_in_once(first, dovecot, "that lay there")

    began = time.monotonic()
    dovecot.deliver(WHILE_IDLE)
    all_came_in_once(first, dovecot, "that came while we idled")
    took = time.monotonic() - began
    check("IDLE told of them, not the poll", took < 20, took)

    dovecot.deliver(WHILE_KILLED)
    first.process.kill()
    first.process.wait()
    before, seen = len(came_in(first)), dovecot.seen()
    check("nothing is flagged that is not stored", seen <= before, (seen, before))
    second = house.start()
    all_came_in_once(second, dovecot, "of the killed engine")

    dovecot.stop()
    wait_for("the engine to miss Dovecot", lambda: second.json("mailboxes", "list")[0]["wrong"])
    dovecot.start()
    dovecot.deliver(WHILE_DOWN)
    all_came_in_once(second, dovecot, "after Dovecot was away")

    dovecot.stop()
    dovecot.forget_numbers()
    dovecot.start()
    known = second.json("mailboxes", "list")[0]["uid_validity"]
    dovecot.deliver(1)
    all_came_in_once(second, dovecot, "under new numbers")
    wait_for("a good fetch", lambda: not second.json("mailboxes", "list")[0]["wrong"])
    health = second.json("mailboxes", "list")[0]
    check("the numbers are new", health["uid_validity"] != known, health)
    check("nothing was refused or is left", (health["refused"], health["backlog"]) == (0, 0), health)
    sent = lambda: second.json("outbox", "list", "--state", "done", "--limit", "10000")
    # On a slow machine the owner has had a notice of an unusual day by then.
    answered = lambda: sum(mail["kind"] == "mail" for mail in sent())
    wait_for("every letter to be answered", lambda: answered() == dovecot.sent)
    check("and answered once", second.json("outbox", "list") == [])
    second.stop()
    return before


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--sink", choices=SINKS, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attache-dovecot-") as scratch:
        dovecot, sink = Dovecot(scratch), SINKS[args.sink](scratch)
        house = House(args.attache, scratch, dovecot, sink)
        try:
            before = go_through(house, dovecot)
        except SystemExit:
            print(house.engines[-1].said()[-4000:] if house.engines else "", dovecot.log()[-2000:])
            raise
        finally:
            house.close()
            dovecot.stop()
            sink.close()
    print(f"ok: {dovecot.sent} letters from Dovecot over TLS, kill -9 when {before} were in, Dovecot gone and back, new "
          "numbers for all: every letter has one run and one answer")


if __name__ == "__main__":
    main()
