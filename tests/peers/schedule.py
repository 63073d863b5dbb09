"""A responsibility of every minute at `attache serve`, mailed to a foreign mail server. See schedule.sh."""

import argparse
import datetime
import email
import email.policy
import pathlib
import subprocess
import tempfile
import time

from first_letter import Engine, check
from sinks import SINKS, wait_for

OWNER = "marta@guesthouse.example"
DUTY = """---
name: Minute
schedule: "* * * * *"
timezone: Europe/Berlin
---
It is due at {{ slot }}. Is there anything to report?
"""
MINUTE = datetime.timedelta(minutes=1)
# Rendering, running and mailing of one slot, at most.
LATENESS_MAX = datetime.timedelta(seconds=20)


class House(Engine):
    """The sample workspace with one responsibility and nothing else that could come due."""

    def __init__(self, binary, folder, smarthost_port):
        folder.mkdir()
        self.duty = folder / "personas/concierge/responsibilities/minute.md"
        super().__init__(binary, folder, smarthost_port)

    def furnish(self):
        super().furnish()
        for duty in self.folder.glob("personas/*/responsibilities/*.md"):
            duty.unlink()
        self.duty.write_text(DUTY)

    def history(self):
        return list(reversed(self.json("schedule", "history", "--limit", "1000")))

    def again(self, environment):
        """Serves once more, the same way but for the environment."""
        command = [self.binary, "--workspace", str(self.folder), "serve"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env={**self.environment, **environment})
        line = self.process.stdout.readline()
        check("the engine says where it listens", "listening on" in line, line + self.said())


def instant(text):
    return datetime.datetime.fromisoformat(text)


def read(raw):
    return email.message_from_bytes(raw, policy=email.policy.default)


def fired(slots):
    return [slot for slot in slots if slot["run_id"] and slot["kind"] == "scheduled"]


def check_mail(house, mail, slot):
    """The mail is the answer of the run that the slot became, and came when it was due."""
    record = house.json("runs", "show", slot["run_id"])
    [wrote] = record["mails"]
    check("the mail is its run's", mail["Message-ID"] == f"<{wrote['message']['rfc_message_id']}>", mail.as_string())
    check("the outbox says delivered", wrote["delivery"]["state"] == "done", wrote)
    check("it goes to the owner", OWNER in mail["To"], mail.as_string())
    check("it says that a machine wrote it", mail["Auto-Submitted"] == "auto-generated", mail.as_string())
    local = instant(slot["slot_at"]).astimezone(datetime.timezone.utc)
    told = record["trigger"]["text"].split("due at ")[1].split(". Is")[0]
    check("the prompt names the slot", instant(told) == local, record["trigger"]["text"])
    check("the record names the slot", record["slot"]["slot_at"] == slot["slot_at"], record["slot"])
    late = mail["Date"].datetime - local
    check("it was written when it was due", datetime.timedelta(0) <= late + datetime.timedelta(seconds=1) < LATENESS_MAX, late)


def two_minutes(house, sink):
    """Two slots that follow each other, each one mail."""
    begun = datetime.datetime.now(datetime.timezone.utc)
    wait_for("two mails of two minutes", lambda: len(sink.letters()) >= 2, 150, 0.25)
    wait_for("both runs to have ended", lambda: len(house.json("outbox", "list", "--state", "done")) >= 2)
    house.stop()
    slots = fired(house.history())
    mails = {mail["Message-ID"]: mail for mail in map(read, sink.letters())}
    check("each mail came once", len(mails) == len(sink.letters()) == len(slots), [len(mails), len(sink.letters()), slots])
    check("both succeeded", [s["run_state"] for s in slots] == ["succeeded"] * len(slots), slots)
    dues = [instant(slot["slot_at"]) for slot in slots]
    check("whole minutes", all(due.second == due.microsecond == 0 for due in dues), dues)
    check("one after another", [b - a for a, b in zip(dues, dues[1:])] == [MINUTE] * (len(dues) - 1), dues)
    check("the first is the first minute after the start", begun < dues[0] <= begun + MINUTE, [begun, dues])
    for mail, slot in zip(sorted(mails.values(), key=lambda mail: mail["Date"].datetime), slots):
        check_mail(house, mail, slot)
    print(f"ok: two slots, {dues[0]:%H:%M} and {dues[1]:%H:%M}, each mailed once to a foreign server", flush=True)
    return slots


def after_a_downtime(house, sink, before):
    """Three hours later the engine starts again: the newest slot fires late, once; the others are missed in one row."""
    library = next(iter(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
    if not library:
        return print("SKIPPED: no downtime of three hours, which needs libfaketime, which is not installed")
    had = len(sink.letters())
    environment = {"LD_PRELOAD": str(library), "FAKETIME": "+3h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    house.again(environment)
    wait_for("a mail after the downtime", lambda: len(sink.letters()) > had, 60, 0.25)
    time.sleep(3)  # A second one for what was slept over would come at once, too.
    house.stop()
    slots = house.history()[len(before):]
    missed = [slot for slot in slots if slot["state"] == "missed"]
    check("what nobody looked at is one row", len(missed) == 1 and 170 <= missed[0]["missed_count"] <= 185, slots)
    runs = fired(slots)
    check("the newest of them fires, and beside it only what came due since", 1 <= len(runs) <= 2, slots)
    gap = instant(runs[0]["slot_at"]) - instant(missed[0]["missed_until"])
    check("no slot is left out between", gap == MINUTE, slots)
    check("each mail once", len({read(raw)["Message-ID"] for raw in sink.letters()}) == len(sink.letters()) == had + len(runs))
    print(f"ok: {missed[0]['missed_count']} slots slept over are one row, and the newest slot fired once", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--sink", choices=SINKS, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attache-schedule-") as scratch:
        sink, house = SINKS[args.sink](scratch), None
        try:
            house = House(args.attache, pathlib.Path(scratch) / "house", sink.port)
            before = two_minutes(house, sink)
            after_a_downtime(house, sink, before)
        finally:
            if house and house.process.poll() is None:
                house.process.kill()
                house.process.wait()
            sink.close()


if __name__ == "__main__":
    main()
