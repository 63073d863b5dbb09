"""Three engines behind one name, and Postfix as packaging/compose/postfix/main.cf has it. Run in a network of its own: see
compose.sh."""

import argparse
import pathlib
import smtplib
import subprocess
import tempfile
import time
from email.message import EmailMessage

from first_letter import HOUSE, Engine, check
from postfix_relay import Postfix
from sinks import answers, wait_for

MAIN = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "compose" / "postfix" / "main.cf"
ADDRESSES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
LETTERS = 40
# What this test needs otherwise: its clients are on loopback and must not be let through for that, names of DNS are asked for,
# and there is a log to read.
OTHERWISE = "mynetworks = 192.0.2.1\nsmtp_host_lookup = dns\nsmtp_dns_support_level = enabled\n"


class Node(Engine):
    def __init__(self, binary, folder, address):
        self.address = address
        super().__init__(binary, folder, smarthost_port=9)

    def edit(self, path, **members):
        if "listeners" in members:
            members["listeners"] = [{"kind": "smtp", "address": f"{self.address}:2525"}]
        super().edit(path, **members)

    def came_in(self):
        return len(self.json("runs", "list", "--limit", "1000"))


def name_server(scratch):
    """Says the three addresses of `nodes`, to this process and those that it starts."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    file = pathlib.Path(scratch) / "resolv.conf"
    file.write_text("nameserver 127.0.0.1\n")
    file.chmod(0o644)
    subprocess.run(["mount", "--bind", str(file), "/etc/resolv.conf"], check=True)
    records = [f"--host-record=nodes,{address}" for address in ADDRESSES]
    server = subprocess.Popen(["dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--user=root", "--conf-file=/dev/null",
                               "--pid-file=", "--listen-address=127.0.0.1", "--bind-interfaces", *records])
    wait_for("the name server", lambda: answers(53))
    return server


def replies(port, recipient, count, label):
    """What the sender of so many letters hears of its recipient; 250 of a letter that was taken."""
    heard = []
    for number in range(count):
        letter = EmailMessage()
        letter["From"], letter["To"], letter["Subject"] = "guest@traveller.example", recipient, label
        letter["Message-ID"] = f"<{label}-{number}@traveller.example>"
        letter.set_content("When?")
        with smtplib.SMTP("127.0.0.1", port, local_hostname="mail.traveller.example", timeout=60) as session:
            try:
                session.send_message(letter)
                heard.append(250)
            except smtplib.SMTPRecipientsRefused as refused:
                heard.append(next(iter(refused.recipients.values()))[0])
    return heard


def in_turns(binary, scratch):
    kept = [line for line in MAIN.read_text().splitlines() if not line.startswith(("maillog_file", "mynetworks", "#"))]
    server, nodes, postfix = name_server(scratch), [], None
    try:
        for address in ADDRESSES:
            nodes.append(Node(binary, pathlib.Path(scratch) / address, address))
        postfix = Postfix(scratch, 0, "\n".join(kept) + "\n" + OTHERWISE)
        came = lambda: [node.came_in() for node in nodes]
        check("letters are taken", set(replies(postfix.port, HOUSE, LETTERS, "all")) == {250})
        wait_for("every letter to be with a node", lambda: sum(came()) == LETTERS)
        shares = came()
        # Postfix uses a connection again while there is more to bring, so by chance one may go without.
        check("several nodes have a share", sum(share > 0 for share in shares) > 1, shares)
        nodes[1].process.kill()
        nodes[1].process.wait()
        began = time.monotonic()
        check("letters are taken while a node is dead", set(replies(postfix.port, HOUSE, LETTERS, "two")) == {250})
        wait_for("every letter to be with one of the others", lambda: sum(came()) == 2 * LETTERS)
        waited = time.monotonic() - began
        check("the dead one has got none", came()[1] == shares[1])
        check("nobody's letter is refused", replies(postfix.port, "nobody@guesthouse.example", 1, "nobody") == [550])
        check("nothing is relayed elsewhere", replies(postfix.port, "guest@elsewhere.example", 1, "elsewhere") == [554])
        print(f"ok: {LETTERS} letters over three nodes, {shares}; {LETTERS} more with one of them dead, in {waited:.1f} s; "
              "by packaging/compose/postfix/main.cf")
    finally:
        if postfix:
            postfix.close()
        for node in nodes:
            node.process.kill()
            node.process.wait()
        server.kill()
        server.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attache-compose-") as scratch:
        pathlib.Path(scratch).chmod(0o755)
        in_turns(args.attache, scratch)


if __name__ == "__main__":
    main()
