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


def write(port, recipient, subject, reply_to=None):
    letter = EmailMessage()
    letter["From"], letter["To"], letter["Subject"] = "guest@traveller.example", recipient, subject
    letter["Message-ID"] = f"<{subject}@traveller.example>"
    if reply_to:
        letter["In-Reply-To"] = f"<{reply_to}@traveller.example>"
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
        moving(postfix, cells[0], lay_out)
        moved(postfix, cells, ports, table)
        for cell in cells:
            cell.stop()
        print("ok: a domain divided over two engines by the lines of docs/guide/cells.md; the senders of a persona that moves come again, "
              "and it goes on in the other cell")
    finally:
        for cell in cells:
            cell.process.kill()
            cell.process.wait()
        postfix.close()


def moving(postfix, cell, lay_out):
    """While a persona moves, its senders are asked to come again, and do."""
    line = re.search(r"`(porter@\S+ retry:[^`]*)`", PAGE.read_text())[1]
    lay_out(re.sub(r"^porter@.*$", line, shown("postfix/transport"), flags=re.MULTILINE))
    postfix.command("postfix", "reload")
    answers = []

    def offered():
        try:
            write(postfix.port, "porter@guesthouse.example", "while-it-moves")
            answers.append(250)
        except smtplib.SMTPRecipientsRefused as refused:
            answers.append(next(iter(refused.recipients.values()))[0])
        return answers[-1]

    check("its mail is refused for now", offered() == 450 and "while-it-moves" not in cell.came_in(), answers)
    lay_out(shown("postfix/transport"))
    postfix.command("postfix", "reload")
    wait_for("the sender to be let in again", lambda: offered() == 250)
    wait_for("the letter that came again", lambda: "while-it-moves" in cell.came_in())


def moved(postfix, cells, ports, table):
    """The persona goes to the other cell by the command, and its letters after it: a reply finds its thread."""
    thread = threads(cells[0])["to-porter"]
    for cell in cells:
        cell.stop()
    cells[0].run("persona", "move", "porter", "--to", str(cells[1].folder))
    for cell in cells:
        cell.serve()
    check("the old cell has nothing of it", cells[0].came_in() == [], cells[0].came_in())
    table.write_text(re.sub(rf"^(porter@.*):{ports['cell-1']}$", rf"\1:{ports['cell-2']}", table.read_text(), flags=re.MULTILINE))
    postfix.command("postfix", "reload")
    write(postfix.port, "porter@guesthouse.example", "after-it-moved", reply_to="to-porter")
    wait_for("the reply in the new cell", lambda: "after-it-moved" in cells[1].came_in())
    check("it is in the thread of the first letter", threads(cells[1])["after-it-moved"] == thread, threads(cells[1]))


def threads(cell):
    """The threads of runs, by the subject of their letter."""
    return {run["subject"]: run["thread"] for run in cell.json("runs", "list", "--limit", "100")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attache-cells-") as scratch:
        divided(args.attache, scratch)


if __name__ == "__main__":
    main()
