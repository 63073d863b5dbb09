"""Invitations are answered and written; Python's icalendar and npm's ical.js read the same of them. See calendar.sh."""

import argparse
import email
import email.policy
import json
import pathlib
import smtplib
import subprocess
import tempfile
from email.utils import formatdate

import icalendar
from first_letter import HOUSE, check
from household import House, Smarthost
from sinks import wait_for

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures/calendar"
CAROL = "carol@partner.test"
RELAY = "mail.guesthouse.example"
INVITATIONS = ["google_request", "outlook_request", "outlook_instance", "apple_request", "nextcloud_request", "zimbra_request"]
COMMENT = "Yes; of course, with pleasure.\nÜber 75 bytes long is this line, so that it has to be folded, and it is."
SCRIPT = {
    "rules": [
        {"when": {"turn": 0, "contains": "Calendar part"},
         "call": [{"tool": "answer_invitation", "args": {"answer": "accept", "comment": COMMENT}}]},
        {"when": {"turn": 0}, "call": [{"tool": "invite", "args": {
            "summary": "Tasting; six wines, and cheese", "start": "2026-12-03T18:00", "end": "2026-12-03T19:00",
            "zone": "Europe/Berlin", "attendees": [CAROL], "description": "Bring:\n- a pen\n- time"}}]},
        {"say": "It is done."},
    ]
}


def part(name):
    return (FIXTURES / f"{name}.ics").read_text().replace("ada@engine.test", HOUSE)


def letter(name, calendar):
    fields = (
        f"Authentication-Results: {RELAY}; dkim=pass header.d=partner.test; dmarc=pass header.from=partner.test\r\n"
        f"From: Carol Kern <{CAROL}>\r\nTo: {HOUSE}\r\nSubject: {name}\r\nMessage-ID: <{name}@partner.test>\r\n"
        f"Date: {formatdate()}\r\nMIME-Version: 1.0\r\n"
    )
    if calendar is None:
        return fields + "Content-Type: text/plain\r\n\r\nPlease invite me to the tasting.\r\n"
    method = next(line[7:] for line in calendar.splitlines() if line.startswith("METHOD:"))
    lines = calendar.replace("\n", "\r\n")
    return fields + (
        "Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nPlease see.\r\n"
        f"--b\r\nContent-Type: text/calendar; charset=utf-8; method={method}\r\n\r\n{lines}--b--\r\n"
    )


def calendar_of(mail):
    """The method that the part declares, and its text, as a mail program takes them."""
    parsed = email.message_from_bytes(mail, policy=email.policy.default)
    found = [p for p in parsed.walk() if p.get_content_type() == "text/calendar"]
    check("one calendar part in a mail", len(found) == 1, mail.decode(errors="replace"))
    check("it is another form of the text", parsed.get_content_type() == "multipart/alternative")
    check("it is no file", found[0].get_content_disposition() is None)
    return found[0].get_param("method"), found[0].get_content()


def by_python(text):
    calendar = icalendar.Calendar.from_ical(text)
    events = calendar.walk("VEVENT")
    event = events[0]
    attendees = event.get("attendee", [])
    attendees = attendees if isinstance(attendees, list) else [attendees]
    moment = lambda name: event[name].dt if name in event else None
    stamp = lambda value: int(value.timestamp()) if hasattr(value, "timestamp") else value
    return {
        "method": str(calendar["method"]), "events": len(events), "uid": str(event["uid"]),
        "sequence": int(event["sequence"]), "summary": str(event.get("summary")),
        "comment": str(event["comment"]) if "comment" in event else None, "organizer": str(event["organizer"]),
        "attendees": [[str(one), one.params.get("PARTSTAT")] for one in attendees],
        "start": stamp(moment("dtstart")), "end": stamp(moment("dtend")),
        "instance": moment("recurrence-id"),
    }


def by_node(text, cache):
    script = pathlib.Path(__file__).with_name("calendar_read.mjs")
    done = subprocess.run(["node", str(script), cache], input=text, capture_output=True, text=True, timeout=30)
    check("ical.js reads it", done.returncode == 0, done.stderr + text)
    return json.loads(done.stdout)


def same(text, cache):
    """What both read; a whole day has no instant and is compared by neither."""
    ours, theirs = by_python(text), by_node(text, cache)
    for name in ("method", "events", "uid", "sequence", "summary", "comment", "organizer", "attendees"):
        check(f"both read the same `{name}`", ours[name] == theirs[name], (ours[name], theirs[name]))
    if isinstance(ours["start"], int):
        check("both read the same times", (ours["start"], ours["end"]) == (theirs["start"], theirs["end"]), (ours, theirs))
    return ours


def main(attache, cache, folder):
    smarthost = Smarthost()
    house = House(attache, folder, smarthost, script=SCRIPT)
    house.edit("configs/security.json", authentication={"trusted_relays": [{"peers": ["127.0.0.1"], "authserv_id": RELAY}]},
               access={"allow": ["*@partner.test"]})
    house.start()
    try:
        for name in [*INVITATIONS, "ask"]:
            text = letter(name, None if name == "ask" else part(name))
            with smtplib.SMTP("127.0.0.1", house.port, local_hostname="mail.partner.test", timeout=30) as session:
                refused = session.sendmail(CAROL, [HOUSE], text.encode())
            check("nobody is refused", refused == {})
        mails = lambda: [m for m in smarthost.mails if b"text/calendar" in m]
        wait_for("every letter has its calendar mail", lambda: len(mails()) == len(INVITATIONS) + 1, 60, 0.1)
        answers = 0
        for mail in mails():
            method, text = calendar_of(mail)
            read = same(text, cache)
            check("the part is of the method that it declares", method == read["method"], (method, read))
            if method == "REQUEST":
                check("the invitation asks Carol", read["attendees"] == [[f"mailto:{CAROL}", "NEEDS-ACTION"]], read)
                check("its texts are whole", read["summary"] == "Tasting; six wines, and cheese", read)
                check("its time is its time", read["start"] == 1796317200, read)
                continue
            answers += 1
            check("the answer is the persona's alone", read["attendees"] == [[f"mailto:{HOUSE}", "ACCEPTED"]], read)
            check("the organizer is named", read["organizer"] == f"mailto:{CAROL}", read)
            check("the comment is whole", read["comment"] == COMMENT, read)
            asked = [icalendar.Calendar.from_ical(part(name)).walk("VEVENT")[0] for name in INVITATIONS]
            asked = [one for one in asked if str(one["uid"]) == read["uid"] and int(one["sequence"]) == read["sequence"]]
            check("it answers one of the invitations", len(asked) == 1, read)
            instance = asked[0]["recurrence-id"].dt if "recurrence-id" in asked[0] else None
            check("and the instance of it", read["instance"] == instance, (read, instance))
        check("every invitation is answered once", answers == len(INVITATIONS), answers)
    finally:
        house.kill()
    print(f"calendar: ok: {answers} answers and an invitation, read alike by icalendar {icalendar.__version__} and ical.js")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--cache", required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        main(given.attache, given.cache, pathlib.Path(scratch))
