"""Signed by OpenDKIM, published by dnsmasq, verified here, and the other way round. See authentication.sh."""

import argparse
import base64
import email.utils
import pathlib
import smtplib
import socket
import subprocess
import tempfile

from first_letter import HOUSE, Engine, check
from postfix_relay import Postfix
from sinks import answers, free_port, wait_for

GUEST, DOMAIN, AUTHSERV = "bert.halm@traveller.example", "traveller.example", "mx.front.test"


class Program:
    """A program in the foreground that is ended with the test."""

    def __init__(self, scratch, name, *command):
        self.log = open(pathlib.Path(scratch) / f"{name}.log", "w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def close(self):
        self.process.kill()
        self.process.wait()


def make_key(scratch):
    file = pathlib.Path(scratch) / "s1.private"
    subprocess.run(["openssl", "genrsa", "-out", str(file), "2048"], check=True, capture_output=True)
    file.chmod(0o600)
    der = subprocess.run(["openssl", "rsa", "-in", str(file), "-pubout", "-outform", "DER"], check=True, capture_output=True)
    return file, f"v=DKIM1; k=rsa; p={base64.b64encode(der.stdout).decode()}"


def name_server(scratch, port, records):
    # In a file, because dnsmasq reads quotes only there. Names of these zones without a record do not exist.
    lines = ["no-resolv", "no-hosts", "bind-interfaces", "listen-address=127.0.0.1", f"port={port}", "user=root", "local=/example/", "local=/test/"]
    for name, text in records.items():
        lines.append(f"txt-record={name}," + ",".join(f'"{text[at:at + 250]}"' for at in range(0, len(text), 250)))
    conf = pathlib.Path(scratch) / f"dnsmasq-{port}.conf"
    conf.write_text("".join(f"{line}\n" for line in lines))
    command = ["dnsmasq", "--keep-in-foreground", f"--conf-file={conf}", "--pid-file="]
    return Program(scratch, f"dnsmasq-{port}", *command)


def milter(scratch, name, **settings):
    folder, port = pathlib.Path(scratch), free_port()
    lines = {"Background": "no", "Syslog": "no", "UserID": "root", "RequireSafeKeys": "no", "Socket": f"inet:{port}@127.0.0.1", **settings}
    conf = folder / f"{name}.conf"
    conf.write_text("".join(f"{key} {value}\n" for key, value in lines.items()))
    program = Program(scratch, name, "opendkim", "-f", "-x", str(conf))
    wait_for(f"OpenDKIM ({name}) to listen", lambda: answers(port))
    return program, f"smtpd_milters = inet:127.0.0.1:{port}\nmilter_default_action = tempfail\n"


class House(Engine):
    """An engine that asks our name server, and takes nobody at their word."""

    def __init__(self, binary, folder, port, smarthost_port, dns_port, **authentication):
        self.authentication = {"resolver": {"servers": [f"127.0.0.1:{dns_port}"], "timeout": "5s"}, **authentication}
        super().__init__(binary, folder, smarthost_port, port=port)

    def run(self, *args):
        if args == ("config", "check"):
            self.edit("configs/security.json", access={"default_decision": "allow"}, authentication=self.authentication)
        return super().run(*args)

    def close(self):
        self.process.kill()
        self.process.wait()

    def raw(self, message):
        command = [self.binary, "--workspace", str(self.folder), "threads", "raw", message]
        return subprocess.run(command, check=True, capture_output=True, timeout=60, env=self.environment).stdout

    def message(self, subject):
        """The letter with that subject, once it is there."""
        find = lambda: [thread for thread in self.json("threads", "list") if thread["subject"] == subject]
        thread = wait_for(f"`{subject}` to be stored", find)[0]
        return self.json("threads", "show", thread["id"])["messages"][0]


def letter(subject, more=""):
    date = email.utils.formatdate()
    return (f"{more}From: Bert Halm <{GUEST}>\r\nTo: {HOUSE}\r\nSubject: {subject}\r\nDate: {date}\r\n"
            f"Message-ID: <{subject}@{DOMAIN}>\r\n\r\nUntil when may we arrive?\r\n").encode()


def hand_over(port, raw):
    with smtplib.SMTP("127.0.0.1", port, local_hostname="mail.traveller.example", timeout=30) as session:
        check("nobody is refused", session.sendmail(GUEST, [HOUSE], raw) == {})


def expect(engine, subject, trust, basis):
    found = engine.message(subject)
    check(f"`{subject}` is {trust}: {basis}", (found["trust"], found["trust_basis"]) == (trust, basis), found)
    return found


def signed_by_opendkim(binary, scratch, open_programs):
    """Gives the bytes of a letter as OpenDKIM signed it, and its key record."""
    key, record = make_key(scratch)
    zone = {f"s1._domainkey.{DOMAIN}": record, f"_dmarc.{DOMAIN}": "v=DMARC1; p=reject", DOMAIN: "v=spf1 -all"}
    dns_port, house_port = free_port(socket.SOCK_DGRAM), free_port()
    open_programs.append(name_server(scratch, dns_port, zone))
    inside = pathlib.Path(scratch) / "inside"
    inside.write_text("127.0.0.1\n")
    signing, lines = milter(scratch, "signing", Mode="s", Domain=DOMAIN, Selector="s1", KeyFile=key, InternalHosts=inside, Canonicalization="relaxed/simple")
    open_programs.append(signing)
    front = Postfix(pathlib.Path(scratch) / "signer", house_port, lines)
    open_programs.append(front)
    engine = House(binary, pathlib.Path(scratch) / "house", house_port, front.port, dns_port)
    open_programs.append(engine)
    hand_over(front.port, letter("signed"))
    found = expect(engine, "signed", "unknown", "signed by the sender's domain")
    wanted = f"dkim=pass header.d={DOMAIN} header.s=s1; dmarc=pass header.from={DOMAIN} policy.dmarc=reject"
    check("the results are kept", found["authentication_results"].endswith(wanted), found)
    hand_over(house_port, letter("unsigned"))
    expect(engine, "unsigned", "unauthenticated", "no signature of the sender's domain")
    raw = engine.raw(found["id"])
    for subject, changed in [("body", raw.replace(b"may we arrive", b"must we leave")), ("subject", raw)]:
        changed = changed.replace(b"Subject: signed", f"Subject: {subject}".encode()).replace(b"<signed@", f"<{subject}@".encode())
        hand_over(house_port, changed)
        expect(engine, subject, "unauthenticated", "no signature of the sender's domain")
    engine.stop()
    return raw, record


def vouched_for_by_a_relay(binary, scratch, open_programs, raw, record):
    """The zone is withdrawn: only the relay, whose OpenDKIM has the key in a file, can know."""
    dns_port, house_port = free_port(socket.SOCK_DGRAM), free_port()
    open_programs.append(name_server(scratch, dns_port, {}))
    keys, outside = pathlib.Path(scratch) / "keys", pathlib.Path(scratch) / "outside"
    keys.write_text(f"s1._domainkey.{DOMAIN} {record}\n")
    outside.write_text("192.0.2.1\n")
    verifying, lines = milter(scratch, "verifying", Mode="v", AuthservID=AUTHSERV, AlwaysAddARHeader="yes", TestPublicKeys=keys, InternalHosts=outside)
    open_programs.append(verifying)
    front = Postfix(pathlib.Path(scratch) / "relay", house_port, lines)
    open_programs.append(front)
    relays = [{"peers": ["127.0.0.1"], "authserv_id": AUTHSERV}]
    engine = House(binary, pathlib.Path(scratch) / "relayed", house_port, front.port, dns_port, trusted_relays=relays)
    open_programs.append(engine)
    hand_over(front.port, raw)
    expect(engine, "signed", "unknown", "the trusted relay found an aligned dkim=pass")
    hand_over(front.port, raw.replace(b"<signed@", b"<changed@").replace(b"Subject: signed", b"Subject: changed"))
    expect(engine, "changed", "unauthenticated", "the relay vouches for nobody")
    forged = f"Authentication-Results: {AUTHSERV}; dkim=pass header.d={DOMAIN}\r\n"
    hand_over(front.port, letter("forged", forged))
    check("a letter's own results are not believed", engine.message("forged")["trust"] == "unauthenticated", engine.message("forged"))
    engine.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attache-authentication-") as scratch:
        pathlib.Path(scratch).chmod(0o755)
        open_programs = []
        try:
            raw, record = signed_by_opendkim(args.attache, scratch, open_programs)
            vouched_for_by_a_relay(args.attache, scratch, open_programs, raw, record)
            print("ok: OpenDKIM's signature is verified here, OpenDKIM's word as a trusted relay is believed, and five forgeries are nobody's")
        finally:
            for program in reversed(open_programs):
                program.close()


if __name__ == "__main__":
    main()
