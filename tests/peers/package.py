"""The Debian package on a clean Debian. See package.sh, which makes both and cuts the network off."""

import argparse
import email
import email.policy
import json
import pathlib
import shutil
import smtplib
import subprocess
import time
import urllib.request
from email.message import EmailMessage

from chat_stub import ChatStub, say
from sinks import SmtpSink, wait_for

GUEST = "bert.halm@traveller.example"
PERSONA = "porter@guesthouse.example"
WORKSPACE = "/var/lib/attache"
ANSWER = "Dear Bert,\n\nsix bicycles are there, twelve euros a day.\n\nPaul"
PLAN = [say(ANSWER) for _ in range(8)]


def check(what, holds, shown=None):
    if not holds:
        raise SystemExit(f"FAILED: {what}" + (f"\n{shown}" if shown is not None else ""))
    print(f"ok: {what}", flush=True)


class Debian:
    """A folder with a Debian whose own systemd runs, in namespaces of its own but for the network."""

    def __init__(self, root):
        self.root = root
        here = pathlib.Path(__file__).parent
        command = ["unshare", "--fork", "--pid", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup"]
        self.outer = subprocess.Popen([*command, "bash", str(here / "package_boot.bash"), str(root)])
        wait_for("the first process of the machine", self.first)
        self.pid = self.first()
        wait_for("systemd to answer", lambda: self.try_run("systemctl", "list-units").returncode == 0)

    def first(self):
        children = pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()
        if not children:
            return None
        name = pathlib.Path(f"/proc/{children[0]}/comm").read_text().strip()
        return children[0] if name == "systemd" else None

    def try_run(self, *command, text=None):
        enter = ["nsenter", "-t", self.pid, "-m", "-p", "-u", "-i", "-C", "-r", "-w", "--", *command]
        return subprocess.run(enter, capture_output=True, text=True, timeout=120, input=text)

    def run(self, *command, text=None):
        done = self.try_run(*command, text=text)
        if done.returncode != 0:
            print(self.try_run("journalctl", "--no-pager", "-u", "attache", "-n", "40").stdout)
            raise SystemExit(f"FAILED: `{' '.join(command)}`: {done.stdout}{done.stderr}")
        return done.stdout

    def attache(self, *arguments, text=None):
        """As the engine's user, as the book says."""
        command = ["runuser", "-u", "attache", "--", "attache", "--workspace", WORKSPACE, *arguments]
        return self.run(*command, text=text)

    def unit(self, name):
        return self.run("systemctl", "show", "--value", "-p", name, "attache").strip()

    def files(self):
        """Every file and folder of its disk but for what no package owns: logs, caches, the ids of the machine."""
        volatile = ("var/log", "var/cache", "var/lib/systemd", "var/lib/dpkg", "var/lib/apt", "etc/machine-id", "var/tmp",
                    "etc/systemd/system/multi-user.target.wants")
        inside = ("run/", "tmp/", "proc/", "sys/", "dev/")
        paths = {str(path.relative_to(self.root)) for path in self.root.rglob("*")}
        return {path for path in paths if not path.startswith(volatile + inside)}

    def end(self):
        self.outer.kill()
        self.outer.wait()


def write_letter(number, subject, text, **fields):
    letter = EmailMessage()
    letter["From"], letter["To"], letter["Subject"] = f"Bert Halm <{GUEST}>", PERSONA, subject
    letter["Message-ID"] = f"<bicycles-{number}@traveller.example>"
    for name, value in fields.items():
        letter[name.replace("_", "-")] = value
    letter.set_content(text)
    with smtplib.SMTP("127.0.0.1", 25, local_hostname="mail.traveller.example", timeout=30) as session:
        check(f"letter {number} is taken at port 25", session.send_message(letter) == {})


def answers(sink):
    mails = [email.message_from_bytes(raw, policy=email.policy.default) for raw in sink.letters()]
    return [mail for mail in mails if GUEST in (mail["To"] or "")]


def install(machine, package):
    shutil.copy(package, machine.root / "var/tmp/attache.deb")
    machine.run("dpkg", "-i", "/var/tmp/attache.deb")
    folder = machine.run("stat", "-c", "%U %a", WORKSPACE).strip()
    check("the workspace is of a user of its own, who alone can open it", folder == "attache 700", folder)
    state = machine.try_run("systemctl", "is-active", "attache").stdout.strip()
    check("nothing runs before it is set up", state == "inactive", state)
    check("the manual has a page for each command", machine.run("ls", "/usr/share/man/man1").count("attache-") > 40)
    machine.run("bash", "-n", "/usr/share/bash-completion/completions/attache")


def set_up(machine, stub, sink):
    said = machine.attache(
        "setup", WORKSPACE, "--yes", "--owner", "marta@guesthouse.example", "--domain", "guesthouse.example",
        "--persona", "porter", "--name", "Paul, Lindenhof Guest House", "--in", "smtp", "--listen", "0.0.0.0:25",
        "--out", "smarthost", "--smtp-host", "127.0.0.1", "--smtp-port", str(sink.port), "--smtp-tls", "none",
        "--smtp-user", "-", "--provider", "openai", "--model", "stub-1", "--base-url", stub.url, "--key-file", "-",
        text="sk-stub-of-the-package\n")
    print(said)
    check("setup has asked the mail server and the model", "can be used" in said and "answers" in said, said)
    gateway = json.loads(machine.run("cat", f"{WORKSPACE}/configs/gateway.json"))
    gateway["listeners"].append({"kind": "http", "address": "127.0.0.1:8025"})
    access = {"access": {"allow": ["*@traveller.example"]}}
    for name, content in (("gateway", gateway), ("security", access)):
        machine.run("runuser", "-u", "attache", "--", "tee", f"{WORKSPACE}/configs/{name}.json", text=json.dumps(content))
    machine.run("systemctl", "enable", "--now", "attache")
    check("systemd is told whom it serves", "serves 1 persona" in machine.unit("StatusText"), machine.unit("StatusText"))


def watch(machine):
    """A stopped engine is ended and started anew; the control without a watchdog stays stopped."""
    drop_in = "[Service]\nWatchdogSec=2\nRestartSec=0\n"
    machine.run("mkdir", "-p", "/etc/systemd/system/attache.service.d")
    machine.run("tee", "/etc/systemd/system/attache.service.d/watch.conf", text=drop_in)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "attache")
    before = machine.unit("MainPID")
    machine.run("systemctl", "kill", "--signal=STOP", "attache")
    wait_for("a new engine", lambda: machine.unit("MainPID") not in (before, "0"))
    wait_for("it to serve", lambda: machine.unit("SubState") == "running")
    check("an engine that hangs is replaced", machine.unit("NRestarts") == "1", machine.unit("NRestarts"))
    machine.run("rm", "-r", "/etc/systemd/system/attache.service.d")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "attache")


def try_sandbox(machine):
    """The sandbox of a persona's commands works inside that of the unit, where the engine has a capability."""
    path = f"{WORKSPACE}/personas/porter/persona.json"
    before = machine.run("cat", path)
    machine.run("runuser", "-u", "attache", "--", "tee", path, text=json.dumps({**json.loads(before), "shell": True}))
    machine.run("mkdir", "-p", "/etc/systemd/system/attache.service.d")
    drop_in = f"[Service]\nExecStartPre=-/usr/bin/attache --workspace {WORKSPACE} doctor --quick\n"
    machine.run("tee", "/etc/systemd/system/attache.service.d/try.conf", text=drop_in)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "attache")
    said = machine.run("journalctl", "--no-pager", "-u", "attache", "-n", "30")
    check("commands of a persona have their sandbox within the unit's", " checks, " in said and "is offered to no run" not in said, said)
    machine.run("rm", "-r", "/etc/systemd/system/attache.service.d")
    machine.run("runuser", "-u", "attache", "--", "tee", path, text=before)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "attache")


def refuse(machine):
    """A fault in the configuration ends the service, and is not tried again and again."""
    machine.run("runuser", "-u", "attache", "--", "cp", f"{WORKSPACE}/configs/gateway.json", f"{WORKSPACE}/good.json")
    machine.run("runuser", "-u", "attache", "--", "tee", f"{WORKSPACE}/configs/gateway.json", text="{")
    failed = machine.try_run("systemctl", "restart", "attache")
    check("a wrong configuration does not start", failed.returncode != 0)
    wait_for("systemd to give up", lambda: machine.unit("ActiveState") == "failed")
    check("it is not tried again", machine.unit("NRestarts") == "0", machine.unit("NRestarts"))
    said = machine.run("journalctl", "--no-pager", "-u", "attache", "-n", "20")
    check("the journal names the file", "configs/gateway.json:1" in said, said)
    machine.run("runuser", "-u", "attache", "--", "mv", f"{WORKSPACE}/good.json", f"{WORKSPACE}/configs/gateway.json")
    machine.run("systemctl", "reset-failed", "attache")
    machine.run("systemctl", "start", "attache")


def remove(machine, before):
    machine.run("dpkg", "-P", "attache")
    check("the service is gone", machine.try_run("systemctl", "is-active", "attache").stdout.strip() != "active")
    left = {path for path in machine.files() - before if not path.startswith("var/lib/attache")}
    account = {"etc/passwd-", "etc/shadow-", "etc/group-", "etc/gshadow-", "etc/.pwd.lock"}
    check("nothing is left but the data", not left - account, sorted(left))
    kept = machine.run("ls", "-A", f"{WORKSPACE}/data")
    check("the letters are left", "attache.db" in kept, kept)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", required=True)
    parser.add_argument("--root", required=True, type=pathlib.Path)
    parser.add_argument("--scratch", required=True)
    args = parser.parse_args()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    stub, sink, machine = ChatStub(PLAN), SmtpSink(args.scratch), None
    try:
        machine = Debian(args.root)
        before = machine.files()
        began = time.monotonic()
        install(machine, args.package)
        set_up(machine, stub, sink)
        write_letter(1, "Bicycles", "How many bicycles do you lend, and for how much?")
        first = wait_for("the first answer", lambda: answers(sink))[0]
        took = time.monotonic() - began
        check(f"{took:.1f} s from the package to the first answer", took < 60)
        check("it says what the model said", "twelve euros" in first.get_body(("plain",)).get_content(), first.as_string())
        pages = urllib.request.urlopen("http://127.0.0.1:8025/login", timeout=30)
        check("the pages open", pages.status == 200 and b"Attach" in pages.read())
        machine.attache("doctor")
        watch(machine)
        try_sandbox(machine)
        refuse(machine)
        write_letter(2, "Re: Bicycles", "Thank you. And helmets?", In_Reply_To=first["Message-ID"])
        second = wait_for("the second answer", lambda: [m for m in answers(sink) if m["In-Reply-To"] == "<bicycles-2@traveller.example>"])
        check("it is answered once, in its thread", len(second) == 1 and first["Message-ID"] in second[0]["References"],
              [mail.as_string() for mail in second])
        machine.run("dpkg", "-i", "/var/tmp/attache.deb")
        check("an upgrade starts the engine anew", machine.unit("ActiveState") == "active")
        remove(machine, before)
    finally:
        if machine:
            machine.end()
        sink.close()
        stub.close()


main()
