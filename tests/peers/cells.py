"""A domain divided over two engines by Postfix, with the lines of docs/guide/cells.md. See cells.sh."""

import argparse
import json
import pathlib
import re
import shutil
import smtplib
import tempfile
from email.message import EmailMessage

from first_letter import Engine, check
from postfix_relay import Postfix
from sinks import free_port, wait_for

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "cells.md"
CELLS = {"cell-1": ["porter"], "cell-2": ["clerk", "digest"]}


class Cell(Engine):
    def furnish(self):
        super().furnish()
        shutil.rmtree(self.folder / "personas")
        for persona in CELLS[self.folder.name]:
            folder = self.folder / "personas" / persona
            folder.mkdir(parents=True)
            (folder / "PERSONA.md").write_text("You answer letters.\n")
            (folder / "persona.json").write_text(json.dumps({"name": persona, "address": persona, "reply": "final"}))

    def came_in(self):
        return sorted(run["subject"] for run in self.json("runs", "list", "--limit", "100"))


def shown(path):
    """The file that the page shows under this name."""
    return re.search(rf"```\w+ {re.escape(path)}\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]


def write(port, recipient, subject):
    letter = EmailMessage()
    letter["From"], letter["To"], letter["Subject"] = "guest@traveller.example", recipient, subject
    letter["Message-ID"] = f"<{subject}@traveller.example>"
    letter.set_content("When?")
    with smtplib.SMTP("127.0.0.1", port, local_hostname="mail.traveller.example", timeout=30) as session:
        session.send_message(letter)


def divided(binary, scratch):
    ports = {name: free_port() for name in CELLS}
    table = pathlib.Path(scratch) / "transport"

    def lay_out(text):
        for name, port in ports.items():
            text = text.replace(f"[{name}.guesthouse.example]:2525", f"[127.0.0.1]:{port}")
        table.write_text(text)

    lay_out(shown("postfix/transport"))
    check("every cell is in the table", ".example]" not in table.read_text(), table.read_text())
    # Letters come from a machine that may relay, so that the table alone decides.
    main = shown("postfix/main.cf").replace("/etc/postfix/transport", str(table))
    postfix = Postfix(scratch, 0, main + "smtpd_relay_restrictions = reject_unauth_destination\n")
    cells = [Cell(binary, pathlib.Path(scratch) / name, postfix.port, port=port) for name, port in ports.items()]
    try:
        for persona in ("porter", "clerk", "digest", "porter+b-123"):
            write(postfix.port, f"{persona}@guesthouse.example", f"to-{persona}")
        # As bounces come; what the engine makes of an extension that it gave to nobody is not meant here.
        relayed = rf"to=<porter\+b-123@guesthouse.example>, relay=127.0.0.1\[127.0.0.1\]:{ports['cell-1']}"
        wait_for("an address with an extension to go to its persona's cell", lambda: re.search(relayed, postfix.log()))
        wait_for("porter's letter", lambda: "to-porter" in cells[0].came_in())
        wait_for("the other cell's letters", lambda: cells[1].came_in() == ["to-clerk", "to-digest"])
        try:
            write(postfix.port, "nobody@guesthouse.example", "to-nobody")
            check("an address without a line is refused", False)
        except smtplib.SMTPRecipientsRefused as refused:
            check("it is refused for good", next(iter(refused.recipients.values()))[0] == 550, refused)
        for cell in cells:
            cell.stop()
        print("ok: a domain divided over two engines by the lines of docs/guide/cells.md")
    finally:
        for cell in cells:
            cell.process.kill()
            cell.process.wait()
        postfix.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attache-cells-") as scratch:
        divided(args.attache, scratch)


if __name__ == "__main__":
    main()
