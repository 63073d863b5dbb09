"""Answers through a Postfix that wants TLS and a password, as a provider's submission server does. See
postfix_submission.sh."""

import argparse
import pathlib
import re
import signal
import smtplib
import subprocess
import sys
import tempfile

from first_letter import HOUSE, Engine, check
from postfix_relay import Postfix
from sinks import SmtpSink, answers, free_port, wait_for

PASSWORD = "correct-horse-7"
LETTERS = 20


def certificates(folder):
    """An authority, and a certificate of it for `localhost`; returns their files."""
    run = lambda *args: subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=A test's authority", "-days", "2")
    (folder / "names").write_text("subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n")
    run("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    run("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
        "-extfile", "names", "-out", "server.pem")
    return folder / "ca.pem", folder / "server.pem", folder / "server.key"


class Passwords:
    """Dovecot's auth service."""

    def __init__(self, scratch):
        folder, self.port = pathlib.Path(scratch) / "dovecot", free_port()
        folder.mkdir()
        (folder / "passwords").write_text(f"house:{{PLAIN}}{PASSWORD}\n")
        text = (pathlib.Path(__file__).parent / "postfix" / "dovecot-auth.conf").read_text()
        known = {"DIR": scratch, "AUTH": self.port}
        self.config = folder / "dovecot.conf"
        self.config.write_text(re.sub(r"@([A-Z]+)@", lambda match: str(known[match[1]]), text))
        self.process = subprocess.Popen(["dovecot", "-c", str(self.config), "-F"])
        wait_for("Dovecot to listen", lambda: answers(self.port))

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)


def submission(scratch, sink, passwords, certificate, key):
    return Postfix(scratch, 0, f"""
smtpd_tls_security_level = encrypt
smtpd_tls_auth_only = yes
smtpd_tls_cert_file = {certificate}
smtpd_tls_key_file = {key}
smtpd_tls_loglevel = 1
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = dovecot
smtpd_sasl_path = inet:127.0.0.1:{passwords.port}
smtpd_relay_restrictions = permit_sasl_authenticated, reject
relay_domains =
transport_maps =
default_transport = smtp:[127.0.0.1]:{sink.port}
""")


def write_letters(port):
    with smtplib.SMTP("127.0.0.1", port, local_hostname="mail.traveller.example", timeout=30) as session:
        for number in range(LETTERS):
            letter = f"From: guest{number}@traveller.example\nTo: {HOUSE}\nSubject: Question {number}\n" \
                     f"Message-ID: <q{number}@traveller.example>\n\nWhen is breakfast?\n"
            check("nobody is refused", session.sendmail(f"guest{number}@traveller.example", HOUSE, letter) == {})


def story(binary, scratch):
    ca, certificate, key = certificates(pathlib.Path(scratch))
    sink, passwords = SmtpSink(scratch), Passwords(scratch)
    postfix = submission(scratch, sink, passwords, certificate, key)
    house, engines = pathlib.Path(scratch) / "house", []

    def start(trusted, password):
        environment = {"ATTACHE_SMTP_PASSWORD": password, **({"SSL_CERT_FILE": str(ca)} if trusted else {})}
        outbound = {"host": "localhost", "tls": "starttls", "user": "house"}
        engines.append(Engine(binary, house, postfix.port, outbound=outbound, environment=environment))
        return engines[-1]

    def resting(engine, state, word):
        health = wait_for(f"the transport to be {state}", lambda: (
            lambda found: found if found["state"] == state else None)(engine.json("outbox", "health")))
        check(f"the outbox says why: {word}", word in health["reason"].lower(), health)
        check("nothing came through", sink.letters() == [])
        engine.stop()

    try:
        stranger = start(trusted=False, password=PASSWORD)
        write_letters(stranger.port)
        resting(stranger, "unreachable", "certificate")
        check("no password was shown", "sasl" not in postfix.log().lower(), postfix.log())
        refused = start(trusted=True, password="wrong")
        resting(refused, "auth_failed", "authentication failed")
        # A probe would find out within a quarter of an hour; the owner who mended it need not wait.
        waiting = refused.json("outbox", "list")
        check("everything is kept", len(waiting) >= LETTERS and all(mail["state"] == "queued" for mail in waiting), waiting)
        for mail in waiting:
            refused.run("outbox", "retry", mail["id"])
        right = start(trusted=True, password=PASSWORD)
        # Beside the answers there may be a notice to the owner, about the password.
        is_answer = lambda mail: mail["subject"].startswith("Re: Question")
        wait_for("every answer at the sink", lambda: sum(b"\nSubject: Re: Question" in raw for raw in sink.letters()) == LETTERS,
                 seconds=60)
        done = lambda: [mail for mail in right.json("outbox", "list", "--state", "done") if is_answer(mail)]
        wait_for("the outbox to know", lambda: len(done()) == LETTERS)
        check("the way out is well", right.json("outbox", "health")["state"] == "well")
        check("no copy was announced", not any(m["possible_duplicate"] for m in right.json("outbox", "list", "--all")))
        right.stop()
        log = postfix.log()
        check("with the password, in TLS", f"sasl_username=house" in log and "Anonymous TLS connection established" in log, log)
        logins, connections = log.count("sasl_method="), len(re.findall(r" connect from", log))
        check("connections are used again", connections < LETTERS, connections)
        print(f"ok: {LETTERS} answers through Postfix with STARTTLS and AUTH ({logins} mails with a login, {connections} connections "
              "in all); an unknown certificate and a wrong password kept all of them and sent none")
    finally:
        for engine in engines:
            engine.process.kill()
            engine.process.wait()
        postfix.close()
        passwords.close()
        sink.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    args = parser.parse_args()
    # `timeout` in the script: what was started is stopped then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("FAILED: out of time"))
    with tempfile.TemporaryDirectory(prefix="attache-submission-") as scratch:
        story(args.attache, scratch)


if __name__ == "__main__":
    main()
