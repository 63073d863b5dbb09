"""Two letters to `attache serve` by a foreign client, answered at a foreign mail server. See first_letter.sh."""

import argparse
import email
import email.policy
import json
import os
import pathlib
import re
import signal
import smtplib
import subprocess
import tempfile
from email.message import EmailMessage

import guest_house
from chat_stub import ChatStub, call, say
from sinks import SINKS, wait_for

GUEST = "bert.halm@traveller.example"
HOUSE = "concierge@guesthouse.example"
FIRST_ID, SECOND_ID = "<first-7c1@traveller.example>", "<second-7c2@traveller.example>"
FIRST = "Until when may we arrive on Saturday? Our ferry lands at 19:10."
SECOND = "Thank you. And where does the key box hang?"
ANSWER = "Dear Bert,\n\nthe desk is open until 20:00; after that the key box lets you in.\n\nLena"
SECOND_ANSWER = "Dear Bert,\n\nbeside the door, at the height of your eyes.\n\nLena"
PAGE = "knowledge/opening-hours.md"
PLAN = [call("read_file", {"path": PAGE}), say(ANSWER), say(SECOND_ANSWER)]


def check(what, holds, shown=None):
    if not holds:
        raise SystemExit(f"FAILED: {what}" + (f"\n{shown}" if shown is not None else ""))


def by_smtplib(port, fields, body):
    letter = EmailMessage()
    for name, value in {"From": f"Bert Halm <{GUEST}>", "To": HOUSE, **fields}.items():
        letter[name] = value
    letter.set_content(body)
    with smtplib.SMTP("127.0.0.1", port, local_hostname="mail.traveller.example", timeout=30) as session:
        check("nobody is refused", session.send_message(letter) == {})


def by_swaks(port, fields, body):
    command = ["swaks", "--server", "127.0.0.1", "--port", str(port), "--ehlo", "mail.traveller.example"]
    command += ["--from", GUEST, "--to", HOUSE, "--body", body]
    for name, value in fields.items():
        # swaks replaces a field of its own only if it is spelled as swaks spells it.
        name = {"Message-ID": "Message-Id"}.get(name, name)
        command += ["--header", f"{name}: {value}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    check("swaks is content", done.returncode == 0, done.stdout + done.stderr)


CLIENTS = {"smtplib": by_smtplib, "swaks": by_swaks}


class Engine:
    """`attache serve` on a workspace of its own, and the commands beside it."""

    def __init__(self, binary, folder, smarthost_port, model_url=None, port=0, outbound=None, environment=None):
        """`model_url`: where `openai` is asked; without it the sample's script answers. `port` 0: any free one.
        `outbound`: members of the smarthost's settings beside those of one in clear text on loopback."""
        self.binary, self.folder = binary, folder
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("ATTACHE_", "OPENAI_"))}
        self.environment.update(environment or {})
        self.furnish()
        # The clients write from few addresses and are to be answered however often they write.
        often = {name: 1_000_000 for name in ("replies_per_hour_max", "replies_per_day_max", "alternations_max", "domain_runs_per_day_max")}
        often["letters_per_run_max"] = 1  # each has a run of its own
        self.edit("configs/gateway.json", listeners=[{"kind": "smtp", "address": f"127.0.0.1:{port}"}], limits=often,
                  outbound={"kind": "smarthost", "host": "127.0.0.1", "port": smarthost_port, "tls": "none",
                            **(outbound or {})})
        self.edit("configs/inference.json", budget={})
        if model_url:
            self.edit("configs/inference.json", provider="openai", model="stub-1",
                      providers={"openai": {"base_url": model_url}})
        self.run("config", "check")
        self.serve()

    def serve(self):
        command = [self.binary, "--workspace", str(self.folder), "serve"]
        self.log = open(self.folder / "serve.log", "w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=self.environment)
        line = self.process.stdout.readline()
        spoken = re.search(r"listening on 127\.0\.0\.\d+:(\d+)", line)
        check("the engine says where it listens", spoken, line + self.said())
        self.port = int(spoken[1])

    def furnish(self):
        """Writes the workspace before it is edited."""
        guest_house.write(self.folder)

    def edit(self, path, **members):
        file = self.folder / path
        file.write_text(json.dumps({**json.loads(file.read_text()), **members}, indent=2))

    def run(self, *args):
        command = [self.binary, "--workspace", str(self.folder), *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=self.environment)
        check(f"`attache {' '.join(args)}` succeeds", done.returncode == 0, done.stdout + done.stderr)
        return done.stdout

    def json(self, *args):
        return json.loads(self.run(*args, "--json"))

    def said(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        check("SIGTERM ends the engine with 0", code == 0, self.said())


def answered(engine, sink, number, text):
    """The answer with that number, once the sink has it and the outbox knows."""
    wait_for(f"answer {number} to be delivered", lambda: len(engine.json("outbox", "list", "--state", "done")) >= number)
    line = text.splitlines()[2].encode()
    found = wait_for(f"answer {number} at the sink", lambda: [raw for raw in sink.letters() if line in raw])
    check(f"answer {number} came once", len(found) == 1)
    return email.message_from_bytes(found[0], policy=email.policy.default)


def check_answer(mail, letter_id, before, text):
    shown = mail.as_string()
    check("the answer comes from the persona", HOUSE in mail["From"], shown)
    check("it goes to the guest", GUEST in mail["To"], shown)
    check("In-Reply-To names the letter", mail["In-Reply-To"] == letter_id, shown)
    check("References lead to the letter", mail["References"].split() == [*before, letter_id], shown)
    check("the subject is kept", mail["Subject"] == "Re: Arriving on Saturday", shown)
    check("it says that a machine wrote it", mail["Auto-Submitted"] == "auto-replied", shown)
    check("its Message-ID is of the mail domain", mail["Message-ID"].endswith("@guesthouse.example>"), shown)
    check("it says what the model said", text.splitlines()[2] in mail.get_body(("plain",)).get_content(), shown)


def check_second_request(request):
    """The model is shown the first exchange as it was: letter, call, result, answer, then the new letter."""
    messages = request["messages"]
    shown = json.dumps(messages, indent=1)
    roles = [message["role"] for message in messages]
    check("first letter, call, result, answer, second letter", roles[-5:] == ["user", "assistant", "tool", "assistant", "user"], shown)
    letter, asked, result, answer, second = messages[-5:]
    check("the first letter", FIRST in json.dumps(letter), shown)
    called = asked["tool_calls"][0]
    check("the tool call", called["function"]["name"] == "read_file", shown)
    check("its arguments", json.loads(called["function"]["arguments"]) == {"path": PAGE}, shown)
    check("the result belongs to the call", result["tool_call_id"] == called["id"], shown)
    check("the result", "The front desk is open every day" in json.dumps(result), shown)
    check("the first answer", ANSWER.splitlines()[2] in json.dumps(answer), shown)
    check("the second letter", SECOND in json.dumps(second), shown)


def check_records(engine):
    threads = engine.json("threads", "list")
    check("both letters and both answers are one thread", [t["messages"] for t in threads] == [4], threads)
    runs = engine.json("runs", "list")
    check("two runs", [run["state"] for run in runs] == ["succeeded", "succeeded"], runs)
    records = [engine.json("replay", run["id"]) for run in reversed(runs)]
    check("the first run called one tool", [[c["tool"] for c in r["calls"]] for r in records] == [["read_file"], []])
    for run, record in zip(reversed(runs), records):
        told = engine.run("replay", run["id"])
        check("replay tells the run to its end", "succeeded (answered)" in told and "delivered" in told, told)
        check("replay knows the delivery", record["mails"][0]["delivery"]["state"] == "done", record["mails"])
    outbox = engine.json("outbox", "list", "--state", "done")
    states = [recipient["state"] for mail in outbox for recipient in mail["recipients"]]
    check("the outbox says delivered", states == ["delivered", "delivered"], outbox)
    check("nothing else is in the outbox", engine.json("outbox", "list") == [])


def correspond(engine, stub, sink, send):
    send(engine.port, {"Subject": "Arriving on Saturday", "Message-ID": FIRST_ID}, FIRST)
    first = answered(engine, sink, 1, ANSWER)
    check_answer(first, FIRST_ID, [], ANSWER)
    answer_id = first["Message-ID"]
    fields = {"Subject": "Re: Arriving on Saturday", "Message-ID": SECOND_ID, "In-Reply-To": answer_id,
              "References": f"{FIRST_ID} {answer_id}"}
    send(engine.port, fields, SECOND)
    second = answered(engine, sink, 2, SECOND_ANSWER)
    check_answer(second, SECOND_ID, [FIRST_ID, answer_id], SECOND_ANSWER)
    check("the model was asked three times", len(stub.requests) == 3, len(stub.requests))
    check_second_request(stub.requests[2])
    check_records(engine)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--client", choices=CLIENTS, required=True)
    parser.add_argument("--sink", choices=SINKS, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attache-first-letter-") as scratch:
        stub, sink = ChatStub(PLAN), SINKS[args.sink](scratch)
        engine = None
        try:
            engine = Engine(args.attache, pathlib.Path(scratch) / "house", sink.port, model_url=stub.url)
            correspond(engine, stub, sink, CLIENTS[args.client])
            engine.stop()
        finally:
            if engine and engine.process.poll() is None:
                engine.process.kill()
                engine.process.wait()
            sink.close()
            stub.close()
    print(f"ok: two letters by {args.client}, answered at {args.sink}, in one thread")


if __name__ == "__main__":
    main()
