"""Large letters into a bucket of moto's S3 server. See objects.sh."""

import hashlib
import random
import signal
import smtplib
import sqlite3
import subprocess
import sys
import tempfile
from email.message import EmailMessage

import boto3

from first_letter import HOUSE, check
from household import GUEST, House, Smarthost, asked_binary
from sinks import answers, free_port, wait_for

BUCKET, PREFIX = "letters", "cell/one"
KEYS = {"ATTACHE_OBJECTS_KEY_ID": "key-id", "ATTACHE_OBJECTS_SECRET_KEY": "no-secret-at-all"}
LETTERS, KILLS = 24, 6
WITH_OBJECT = """SELECT object, sha256 FROM raw_letters WHERE object IS NOT NULL
    UNION ALL SELECT object, sha256 FROM attachments WHERE object IS NOT NULL
    UNION ALL SELECT packed_object, NULL FROM run_turns WHERE packed_object IS NOT NULL"""


class Moto:
    """The server as a process of its own, so that it can be stopped."""

    def __init__(self):
        self.port = free_port()
        self.process = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("moto's server", lambda: answers(self.port))
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.client = boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1",
                                   aws_access_key_id="key-id", aws_secret_access_key="no-secret-at-all")
        self.client.create_bucket(Bucket=BUCKET)

    def objects(self):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return {entry["Key"] for page in pages for entry in page.get("Contents", [])}

    def read(self, key):
        return self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()


def letter(number, chance):
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = GUEST, HOUSE, f"Plan {number}"
    mail["Message-ID"] = f"<plan-{number}@traveller.example>"
    mail.set_content("See the plan.\n")
    mail.add_attachment(chance.randbytes(40_000), maintype="application", subtype="octet-stream", filename="plan.bin")
    return mail


def hand_in(house, mail):
    """The reply to the letter's end; `None`: the engine is gone."""
    try:
        with smtplib.SMTP("127.0.0.1", house.port, timeout=20) as client:
            client.send_message(mail)
            return 250
    except smtplib.SMTPDataError as refused:
        return refused.smtp_code
    except (OSError, smtplib.SMTPException):
        return None


def rows(house, sql):
    with sqlite3.connect(house.database) as database:
        return database.execute(sql).fetchall()


def require_whole(house, moto):
    named = rows(house, WITH_OBJECT)
    check("rows name objects", len(named) >= 2 * LETTERS, len(named))
    there = moto.objects()
    for name, sha256 in named:
        key = f"{PREFIX}/{name}"
        check(f"the object of a row is there: {name}", key in there)
        if sha256:
            check("its bytes are those of the row's digest", hashlib.sha256(moto.read(key)).hexdigest() == sha256, name)
    return there - {f"{PREFIX}/{name}" for name, _ in named}


def main():
    chance, moto = random.Random(11), Moto()
    with tempfile.TemporaryDirectory() as folder:
        try:
            work(House(asked_binary(), folder, Smarthost(), environment=KEYS), moto, chance)
        finally:
            moto.process.send_signal(signal.SIGCONT)
            moto.process.kill()


def work(house, moto, chance):
    (house.folder / "configs/keeping.json").write_text(
        '{"objects": {"url": "s3://%s/%s", "endpoint": "%s", "timeout": "2s"}}' % (BUCKET, PREFIX, moto.endpoint))
    house.run("config", "check")
    house.start()
    kills = set(chance.sample(range(LETTERS), KILLS))
    for number in range(LETTERS):
        mail = letter(number, chance)
        if number in kills:
            # In the middle of a letter, as far as chance lets it be.
            killer = subprocess.Popen(["sh", "-c", f"sleep {chance.random() * 0.08:.3f}; kill -9 {house.process.pid}"])
            hand_in(house, mail)
            killer.wait()
            house.process.wait()
            house.start()
        check(f"letter {number} is taken", hand_in(house, mail) == 250)
    wait_for("the answers", lambda: all(house.smarthost.answered(f"plan-{n}@traveller.example") for n in range(LETTERS)), 90)
    orphans = require_whole(house, moto)
    print(f"ok: {LETTERS} letters, {KILLS} kills; {len(orphans)} objects without a row")
    moto.process.send_signal(signal.SIGSTOP)
    check("451 while the service hangs", hand_in(house, letter(900, chance)) == 451)
    moto.process.send_signal(signal.SIGCONT)
    check("250 when it is back", hand_in(house, letter(900, chance)) == 250)
    wait_for("its answer", lambda: house.smarthost.answered("plan-900@traveller.example"), 60)
    code, out, err = house.ask("doctor", "--audit")
    check("the audit reads every object", code == 0, out + err)
    house.process.send_signal(signal.SIGTERM)
    house.process.wait()
    lost = f"{PREFIX}/{rows(house, WITH_OBJECT)[0][0]}"
    kept = moto.read(lost)
    moto.client.delete_object(Bucket=BUCKET, Key=lost)
    code, out, err = house.ask("doctor", "--audit")
    check("the control: an object that is gone is named", code == 1 and "object" in out, out + err)
    moto.client.put_object(Bucket=BUCKET, Key=lost, Body=kept)
    orphans = require_whole(house, moto)
    house.run("gc", "--older-than", "0s", "--kind", "letters", "--kind", "attachments", "--kind", "turns")
    check("what was pruned is gone from the bucket", moto.objects() == orphans, moto.objects() - orphans)
    print("ok: 451 while the service hangs, an audit, a control that loses an object, and what was pruned is gone")


if __name__ == "__main__":
    main()
