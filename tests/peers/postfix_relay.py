"""Two hundred letters through a real Postfix, with the engine down, killed and up again. See postfix_relay.sh."""

import argparse
import json
import pathlib
import re
import smtplib
import subprocess
import tempfile
from email.message import EmailMessage

from first_letter import HOUSE, Engine, check
from sinks import answers, free_port, wait_for

LETTERS = 200
ENOUGH_TO_KILL = 30


class Postfix:
    """An instance with a queue of its own, from the files in postfix/."""

    def __init__(self, scratch, house_port, more=""):
        """`more`: lines in place of those of main.cf."""
        self.folder, self.port = pathlib.Path(scratch) / "postfix", free_port()
        self.etc = self.folder / "etc"
        for name in ("etc", "spool", "lib", "log"):
            (self.folder / name).mkdir(parents=True)
        self.folder.parent.chmod(0o755)
        subprocess.run(["chown", "postfix", str(self.folder / "lib")], check=True)
        daemons = subprocess.run(["postconf", "-dh", "daemon_directory"], check=True, capture_output=True, text=True)
        known = {"DIR": self.folder, "FRONT": self.port, "HOUSE": house_port, "DAEMONS": daemons.stdout.strip()}
        for name in ("main.cf", "master.cf"):
            text = (pathlib.Path(__file__).parent / "postfix" / name).read_text()
            if name == "main.cf":
                # A parameter given twice is a warning of every process, and those of the first fill the socket to a
                # logger that is not there yet: Postfix would not come up.
                given = {line.split(" = ")[0].rstrip("= ") for line in more.splitlines() if line}
                kept = [line for line in text.splitlines() if line.split(" = ")[0].rstrip("= ") not in given]
                text = "\n".join(kept) + "\n" + more
            (self.etc / name).write_text(re.sub(r"@([A-Z]+)@", lambda match: str(known[match[1]]), text))
        self.command("postfix", "start")
        wait_for("Postfix to listen", lambda: answers(self.port))

    def command(self, program, *args):
        done = subprocess.run([program, "-c", str(self.etc), *args], capture_output=True, text=True, timeout=60)
        check(f"{program} {' '.join(args)} succeeds", done.returncode == 0, done.stdout + done.stderr + self.log())
        return done.stdout

    def log(self):
        file = self.folder / "log" / "mail.log"
        return file.read_text() if file.exists() else ""

    def queued(self):
        return [json.loads(line) for line in self.command("postqueue", "-j").splitlines()]

    def close(self):
        subprocess.run(["postfix", "-c", str(self.etc), "stop"], capture_output=True, timeout=60)


def write_letters(port):
    with smtplib.SMTP("127.0.0.1", port, local_hostname="mail.traveller.example", timeout=30) as session:
        for number in range(LETTERS):
            letter = EmailMessage()
            letter["From"], letter["To"] = f"guest{number}@traveller.example", HOUSE
            letter["Subject"], letter["Message-ID"] = f"Question {number}", f"<q{number}@traveller.example>"
            letter.set_content(f"This is question {number}.\n.\n..and a line of dots")
            check("Postfix takes the letter", session.send_message(letter) == {})


def came_in(engine):
    """The letters that have a run, by their threads' subjects."""
    return [run["subject"] for run in engine.json("runs", "list", "--limit", "1000")]


def relay(binary, scratch):
    house = pathlib.Path(scratch) / "house"
    house_port = free_port()
    postfix = Postfix(scratch, house_port)
    engines = []

    def start():
        engines.append(Engine(binary, house, postfix.port, port=house_port))
        return engines[-1]

    try:
        write_letters(postfix.port)
        waits = lambda: [mail for mail in postfix.queued() if mail["queue_name"] in ("deferred", "active")]
        wait_for("every letter to wait in Postfix", lambda: len(waits()) == LETTERS and "Connection refused" in postfix.log())
        first = start()
        postfix.command("postqueue", "-f")
        wait_for("some letters to come in", lambda: first.said().count("a letter came") >= ENOUGH_TO_KILL, pause=0.002)
        first.process.kill()
        first.process.wait()
        before = len(came_in(first))
        second = start()
        postfix.command("postqueue", "-f")
        wait_for("Postfix to have handed over everything", lambda: postfix.queued() == [], seconds=90)
        wanted = sorted(f"Question {number}" for number in range(LETTERS))
        check("every letter has exactly one run", sorted(came_in(second)) == wanted, came_in(second))
        sent = lambda: second.json("outbox", "list", "--state", "done", "--limit", "1000")
        done = lambda: [mail for mail in sent() if mail["kind"] == "mail"]  # without notices to the owner
        wait_for("every answer to be with Postfix", lambda: len(done()) == LETTERS, seconds=90)
        check("no answer is left", second.json("outbox", "list") == [])
        doubtful = sum(1 for mail in done() if mail["possible_duplicate"])
        second.stop()
        print(f"ok: {LETTERS} letters waited in Postfix, kill -9 after {before} came in, every letter has one run and one answer "
              f"({doubtful} of them maybe sent twice, and marked so)")
    finally:
        for engine in engines:
            engine.process.kill()
            engine.process.wait()
        postfix.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attache-postfix-") as scratch:
        relay(args.attache, scratch)


if __name__ == "__main__":
    main()
