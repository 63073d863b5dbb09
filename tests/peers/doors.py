"""Every way into `attache serve`, by Postfix, swaks, msmtp and smtplib, and by a crowd. See doors.sh."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import smtplib
import socket
import ssl
import subprocess
import tempfile
from email.message import EmailMessage

import guest_house
from first_letter import HOUSE, check
from postfix_relay import Postfix
from sinks import free_port, wait_for

USER, PASSWORD, OWNER = "olga", "kept in .secrets", "olga@guesthouse.example"
CROWD = 10_000


class Gateway:
    """`attache serve` with a listener of every kind."""

    def __init__(self, binary, scratch):
        self.binary, self.folder = binary, pathlib.Path(scratch) / "house"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("ATTACHE_")}
        guest_house.write(self.folder)
        self.certificate = self.folder / "house.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                   "-keyout", "house.key", "-out", "house.pem", "-days", "2", "-subj", "/CN=house.test",
                   "-addext", "subjectAltName=DNS:house.test,DNS:localhost,IP:127.0.0.1"]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)
        (self.folder / ".secrets").write_text(f"OLGA_PASSWORD={PASSWORD}\n")
        (self.folder / ".secrets").chmod(0o600)
        self.ports = {name: free_port() for name in ("smtp", "submission", "submissions", "lmtp", "proxied")}
        at = lambda name: f"127.0.0.1:{self.ports[name]}"
        self.socket = self.folder / "data" / "lmtp.sock"
        listeners = [
            {"address": at("smtp")},
            {"address": at("submission"), "auth": True},
            {"address": at("submissions"), "auth": True, "tls": "implicit"},
            {"kind": "lmtp", "address": at("lmtp"), "tls": "none"},
            {"kind": "lmtp", "address": "unix:data/lmtp.sock", "mode": "0666"},
            {"address": at("proxied"), "tls": "none", "proxy_protocol": ["127.0.0.1"]},
        ]
        self.edit("configs/gateway.json", listeners=listeners, owners=[OWNER],
                  tls={"certificate": "house.pem", "key": "house.key"},
                  submission=[{"user": USER, "address": OWNER, "password_variable": "OLGA_PASSWORD"}],
                  outbound={"kind": "folder", "path": "data/outbox"}, limits={"connections_max": 500})
        self.edit("configs/security.json", access={"allow": ["*"]})
        self.run("config", "check")
        self.log = open(self.folder / "serve.log", "w+")
        command = [binary, "--workspace", str(self.folder), "--log", "info", "serve"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=self.environment)
        check("the engine listens", "listening on" in self.process.stdout.readline(), self.said())

    def edit(self, path, **members):
        file = self.folder / path
        file.write_text(json.dumps({**json.loads(file.read_text()), **members}, indent=2))

    def run(self, *args):
        command = [self.binary, "--workspace", str(self.folder), *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=self.environment)
        check(f"`attache {' '.join(args)}` succeeds", done.returncode == 0, done.stdout + done.stderr)
        return done.stdout

    def said(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()

    def trace_of(self, subject):
        """The Received field of the letter with that subject, once it is there; it must come with its bytes."""
        listed = lambda: [t for t in json.loads(self.run("threads", "list", "--limit", "1000", "--json")) if t["subject"] == subject]
        thread = wait_for(f"the letter `{subject}`", listed)[0]
        message = json.loads(self.run("threads", "show", thread["id"], "--json"))["messages"][0]
        raw = self.run("threads", "raw", message["id"])
        check(f"`{subject}` has its bytes", f"Subject: {subject}" in raw, raw)
        check(f"`{subject}` has a trace in front", raw.startswith("Received: "), raw)
        return re.sub(r"\r?\n\s+", " ", raw).splitlines()[0]

    def memory_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        check("SIGTERM ends the engine with 0", self.process.wait(timeout=30) == 0, self.said())
        check("its socket file is gone", not self.socket.exists())


def letter(subject):
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = OWNER, HOUSE, subject
    message["Message-ID"] = f"<{subject.replace(' ', '-')}@doors.example>"
    message.set_content("By which door did this come?\n.\n..dots\n")
    return message


def skipped(program):
    print(f"SKIPPED: doors.sh without {program}, which is not installed")


def by_postfix(gateway, scratch):
    if not shutil.which("postfix"):
        return skipped("postfix")
    if os.geteuid() != 0:
        return print("SKIPPED: doors.sh without Postfix, which starts as root only")
    postfix = Postfix(scratch, gateway.ports["smtp"])
    try:
        ways = {
            "lmtp over tcp": (f"lmtp:inet:127.0.0.1:{gateway.ports['lmtp']}", "with LMTP "),
            "lmtp over a socket": (f"lmtp:unix:{gateway.socket}", "with LMTP "),
            "smtp under tls": (f"smtp:[127.0.0.1]:{gateway.ports['smtp']}", "with ESMTPS "),
        }
        for path in [gateway.folder, gateway.folder / "data", pathlib.Path(scratch)]:
            path.chmod(0o755)  # Postfix leaves root behind before it connects
        for subject, (way, expected) in ways.items():
            settings = [f"transport_maps=inline:{{ {{ guesthouse.example = {way} }} }}", "smtp_tls_security_level=secure",
                        f"smtp_tls_CAfile={gateway.certificate}", "smtp_tls_secure_cert_match=house.test",
                        "lmtp_tls_security_level=none"]
            postfix.command("postconf", "-e", *settings)
            postfix.command("postfix", "reload")
            with smtplib.SMTP("127.0.0.1", postfix.port, timeout=30) as session:
                check("Postfix takes it", session.send_message(letter(subject)) == {})
            try:
                wait_for(f"Postfix to hand over `{subject}`", lambda: postfix.queued() == [])
            except SystemExit:
                print(postfix.log())
                raise
            trace = gateway.trace_of(subject)
            check(f"{subject}: {expected}", expected in trace, trace + postfix.log())
    finally:
        postfix.close()
    return print("ok: Postfix by LMTP over TCP, by LMTP over a Unix socket, and by SMTP with our certificate verified")


def by_swaks(gateway):
    if not shutil.which("swaks"):
        return skipped("swaks")
    if subprocess.run(["perl", "-MNet::SSLeay", "-e", "1"], capture_output=True).returncode:
        return skipped("swaks (no Net::SSLeay)")
    common = ["swaks", "--server", "127.0.0.1", "--from", OWNER, "--to", HOUSE, "--timeout", "20"]
    cases = {
        "swaks tls": ["--port", str(gateway.ports["smtp"]), "--tls"],
        "swaks plain": ["--port", str(gateway.ports["submission"]), "--tls", "--auth", "PLAIN"],
        "swaks login": ["--port", str(gateway.ports["submissions"]), "--tls-on-connect", "--auth", "LOGIN"],
        "swaks lmtp": ["--port", str(gateway.ports["lmtp"]), "--protocol", "LMTP"],
    }
    expected = {"swaks tls": "with ESMTPS ", "swaks lmtp": "with LMTP "}
    for subject, options in cases.items():
        if "--auth" in options:
            options += ["--auth-user", USER, "--auth-password", PASSWORD]
        message_id = f"<{subject.replace(' ', '-')}@doors.example>"
        done = subprocess.run([*common, *options, "--header", f"Subject: {subject}", "--header", f"Message-Id: {message_id}"],
                              capture_output=True, text=True, timeout=60)
        check(f"{subject} is content", done.returncode == 0, done.stdout + done.stderr)
        trace = gateway.trace_of(subject)
        check(subject, expected.get(subject, "with ESMTPSA ") in trace, trace)
    wrong = subprocess.run([*common, "--port", str(gateway.ports["submission"]), "--tls", "--auth", "PLAIN", "--auth-user", USER,
                            "--auth-password", "guess"], capture_output=True, text=True, timeout=60)
    check("a wrong password is refused", wrong.returncode != 0 and "535 5.7.8" in wrong.stdout, wrong.stdout)
    clear = subprocess.run([*common, "--port", str(gateway.ports["submission"]), "--auth", "PLAIN", "--auth-user", USER,
                            "--auth-password", PASSWORD], capture_output=True, text=True, timeout=60)
    check("AUTH is not offered in the clear", clear.returncode != 0 and "AUTH PLAIN" not in clear.stdout, clear.stdout)
    return print("ok: swaks by STARTTLS, AUTH PLAIN, AUTH LOGIN under implicit TLS, LMTP; refused with a wrong password or in the clear")


def by_msmtp(gateway, scratch):
    if not shutil.which("msmtp"):
        return skipped("msmtp")
    for subject, port, starttls in [("msmtp starttls", "submission", "on"), ("msmtp tls", "submissions", "off")]:
        settings = pathlib.Path(scratch) / "msmtprc"
        settings.write_text(f"account default\nhost 127.0.0.1\nport {gateway.ports[port]}\nfrom {OWNER}\nauth on\nuser {USER}\n"
                            f"password \"{PASSWORD}\"\ntls on\ntls_starttls {starttls}\ntls_trust_file {gateway.certificate}\n")
        settings.chmod(0o600)
        done = subprocess.run(["msmtp", "-C", str(settings), HOUSE], input=letter(subject).as_bytes(), capture_output=True, timeout=60)
        check(f"{subject} is content", done.returncode == 0, done.stderr.decode())
        trace = gateway.trace_of(subject)
        check(subject, "with ESMTPSA " in trace, trace)
    return print("ok: msmtp by STARTTLS and by TLS, certificate checked, logged in")


def by_smtplib(gateway):
    trusting = ssl.create_default_context(cafile=gateway.certificate)
    with smtplib.SMTP("127.0.0.1", gateway.ports["submission"], timeout=30) as session:
        session.starttls(context=trusting)
        session.login(USER, PASSWORD)
        check("nobody is refused", session.send_message(letter("smtplib starttls")) == {})
        with contextlib.suppress(smtplib.SMTPRecipientsRefused):
            session.sendmail(OWNER, ["victim@other.test"], b"x")
            raise SystemExit("FAILED: a relay for whoever logs in")
    with smtplib.SMTP_SSL("127.0.0.1", gateway.ports["submissions"], context=trusting, timeout=30) as session:
        session.login(USER, PASSWORD)
        check("nobody is refused", session.send_message(letter("smtplib tls")) == {})
    for subject in ("smtplib starttls", "smtplib tls"):
        trace = gateway.trace_of(subject)
        check(subject, "with ESMTPSA " in trace, trace)
    header = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes([203, 0, 113, 9, 127, 0, 0, 1]) + b"\x12\x34\x00\x19"
    with socket.create_connection(("127.0.0.1", gateway.ports["proxied"]), timeout=30) as raw:
        raw.sendall(header)
        session = smtplib.SMTP(timeout=30)
        session.sock, session.file = raw, None
        check("a greeting behind the PROXY header", session.getreply()[0] == 220)
        session.send_message(letter("smtplib proxied"))
        session.quit()
    trace = gateway.trace_of("smtplib proxied")
    check("the client's own address", "([203.0.113.9])" in trace, trace)
    print("ok: smtplib by STARTTLS and by TLS, logged in, without relaying; and behind a PROXY header")


def by_a_crowd(gateway):
    before, told, silent, crowd = gateway.memory_kib(), 0, 0, []
    soft = int(subprocess.run(["sh", "-c", "ulimit -n"], capture_output=True, text=True).stdout)
    wanted = min(CROWD, soft - 200)
    for number in range(wanted):
        peer = socket.socket()
        peer.settimeout(20)
        peer.bind((f"127.1.{number // 200 % 250}.{1 + number % 50}", 0))
        peer.connect(("127.0.0.1", gateway.ports["smtp"]))
        crowd.append(peer)
    for peer in crowd:
        try:
            told += peer.recv(100).startswith((b"220 ", b"421 4.7.0 "))
        except OSError:
            silent += 1
    after = gateway.memory_kib()
    greeted = wanted - silent
    check("every connection is greeted or turned away with a word", told == greeted and silent == 0, (told, silent))
    check("memory stays bounded", after - before < 64 * 1024, (before, after))
    for peer in crowd:
        peer.close()

    def served():
        with contextlib.suppress(smtplib.SMTPException, OSError):
            with smtplib.SMTP("127.0.0.1", gateway.ports["smtp"], timeout=30) as session:
                return session.send_message(letter("after the crowd")) == {}
        return False

    wait_for("a client to be served after the crowd", served)
    gateway.trace_of("after the crowd")
    print(f"ok: {wanted} connections at once, 500 places; every one heard a greeting or 421; memory {before} -> {after} KiB; "
          "the next client is served")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attache-doors-") as scratch:
        gateway = Gateway(args.attache, scratch)
        try:
            by_smtplib(gateway)
            by_swaks(gateway)
            by_msmtp(gateway, scratch)
            by_postfix(gateway, scratch)
            by_a_crowd(gateway)
            gateway.stop()
        finally:
            gateway.process.kill()
            gateway.process.wait()


if __name__ == "__main__":
    main()
