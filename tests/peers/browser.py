"""The pages in a browser. See browser.sh."""

import argparse
import contextlib
import email
import http.server
import json
import os
import pathlib
import shutil
import signal
import smtplib
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from datetime import datetime, timezone

import payloads as table
from sinks import free_port
from webdriver import Driver, WebDriverError, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAYLOADS = ROOT / "tests/fixtures/http/payloads.txt"
RELAY = "mx.house.test"
WIDTHS, SCHEMES = (320, 768, 1280), ("light", "dark")
# The others do nothing by themselves in a page of today's browsers without a click, or never did.
FIRES_AT_LEAST = 190


def check(what, holds, shown=None):
    if not holds:
        raise SystemExit(f"FAILED: {what}" + (f"\n{shown}" if shown is not None else ""))


class Sink:
    """An address that nobody must ask: counts connections, requests or not."""

    def __init__(self):
        self.lock, self.connections, self.paths = threading.Lock(), 0, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            peer, _ = self.socket.accept()
            with self.lock:
                self.connections += 1
            threading.Thread(target=self.answer, args=(peer,), daemon=True).start()

    def answer(self, peer):
        with peer:
            peer.settimeout(2)
            try:
                head = peer.recv(2048).decode(errors="replace")
                with self.lock:
                    self.paths.append(head.split("\r\n")[0])
                peer.sendall(b"HTTP/1.1 204 No Content\r\naccess-control-allow-origin: *\r\nconnection: close\r\n\r\n")
            except OSError:
                pass

    def taken(self):
        """What came since it was last asked."""
        with self.lock:
            found, self.connections, paths, self.paths = self.connections, 0, self.paths, []
        return found, paths


class Control:
    """The payloads as plain pages, without any policy of ours."""

    def __init__(self, payloads):
        pages = payloads

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                try:
                    page = pages[int(self.path.strip("/"))].encode()
                except (ValueError, IndexError):
                    page = b""
                self.send_response(200)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(b"<!doctype html>" + page)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


SCRIPT = {"rules": [
    {"when": {"turn": 0, "contains": "breakfast"}, "call": [{"tool": "read_file", "args": {"path": "knowledge/house.md"}},
                                                          {"tool": "search_email", "args": {"query": "breakfast"}}],
     "usage": {"input_tokens": 2140, "output_tokens": 64}, "delay_ms": 180},
    {"when": {"turn": 0, "contains": "tell Eve"}, "call": [{"tool": "send_email", "args": {
        "to": ["eve@new.test"], "subject": "Tuesday", "body": "Dear Eve,\n\nwe meet on Tuesday at ten, in the small room.\n\nAda"}}],
     "usage": {"input_tokens": 1822, "output_tokens": 91}, "delay_ms": 120},
    {"when": {"turn": 0, "contains": "the invoice"}, "error": {"class": "bad_request", "message": "the model refused the request"}},
    {"when": {"turn": 0, "contains": "no such file"}, "call": [{"tool": "read_file", "args": {"path": "knowledge/nothing.md"}}],
     "usage": {"input_tokens": 1500, "output_tokens": 30}, "delay_ms": 40},
    {"when": {"contains": "breakfast"}, "say": "Dear Bob,\n\nbreakfast is from seven to ten, in the garden room. On Sundays until eleven.\n\nAda",
     "usage": {"input_tokens": 2480, "output_tokens": 48}, "delay_ms": 240},
    {"say": "Thank you for your letter. I have read it.\n\nAda", "usage": {"input_tokens": 1310, "output_tokens": 17}, "delay_ms": 30},
]}


class Engine:
    """`attache serve` with the pages on, and letters of people who are proved to be who they say."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.letters = binary, folder, 0
        self.smtp, self.pages = free_port(), free_port()
        self.write("configs/script.json", SCRIPT)
        self.write("configs/gateway.json", {
            "mail_domain": "house.test", "owners": ["olga@home.test"],
            "listeners": [{"kind": "smtp", "address": f"127.0.0.1:{self.smtp}"},
                          {"kind": "http", "address": f"127.0.0.1:{self.pages}"}],
            "outbound": {"kind": "folder", "path": "data/outbox"},
            "limits": {name: 1_000_000 for name in ("replies_per_hour_max", "replies_per_day_max", "alternations_max", "domain_runs_per_day_max")}
                      | {"letters_per_run_max": 1}})
        self.write("configs/inference.json", {
            "provider": "scripted", "model": "script-1", "providers": {"scripted": {"script": "configs/script.json"}}})
        self.write("configs/context.json", {
            "thread": ["load-file(configs/prompts/system.md)", "persona", "active-memory", "thread-history", "invocation-metadata",
                       "current-input"],
            "responsibility": ["persona", "active-memory", "invocation-metadata", "current-input"]})
        self.write("configs/security.json", {
            "access": {"allow": ["*"]},
            "authentication": {"trusted_relays": [{"peers": ["127.0.0.1"], "authserv_id": RELAY}]}})
        self.write("configs/prices.json", {"version": "2026-11-25", "prices": [{"provider": "scripted", "model": "script-1", "input": 3.0, "output": 15.0}]})
        self.write("configs/prompts/system.md", "You are {{ persona.name }}. Today is {{ date }}.")
        self.write("personas/ada/persona.json", {"name": "Ada", "address": "ada"})
        self.write("personas/ada/PERSONA.md", "Ada answers letters of a small guest house, shortly and warmly.")
        self.write("personas/ada/active.md", "The garden room is open again since Monday.")
        self.write("personas/ada/knowledge/house.md", "# Breakfast\n\nFrom seven to ten, on Sundays until eleven.\n")
        self.write("personas/ada/responsibilities/weekly.md",
                   "---\nname: Weekly summary\nschedule: \"0 8 * * MON\"\ntimezone: Europe/Berlin\n---\nSum up the letters of the week.\n")
        self.run("config", "check")
        self.log = open(folder / "serve.log", "w+")
        self.process = subprocess.Popen([binary, "--workspace", str(folder), "serve"], stdout=subprocess.DEVNULL, stderr=self.log)
        until(lambda: listens(self.smtp) and listens(self.pages), "the engine listens")

    def write(self, path, what):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(what if isinstance(what, str) else json.dumps(what, indent=2))

    def run(self, *args):
        done = subprocess.run([self.binary, "--workspace", str(self.folder), *args], capture_output=True, text=True, timeout=60)
        check(f"attache {' '.join(args)}", done.returncode == 0, done.stdout + done.stderr)
        return done.stdout

    def login(self):
        return json.loads(self.run("--json", "web", "login"))

    def letter(self, sender, subject, text, html=None, more=None):
        self.letters += 1
        domain = sender.split("@")[1].rstrip(">")
        letter = EmailMessage(policy=SMTP)
        letter["From"], letter["To"], letter["Subject"] = sender, "ada@house.test", subject
        letter["Message-ID"] = f"<{self.letters}@{domain}>"
        letter["Date"] = format_datetime(datetime.now(timezone.utc))
        for name, value in (more or {}).items():
            letter[name] = value
        letter.set_content(text)
        if html is not None:
            letter.add_alternative(html, subtype="html")
        proof = f"Authentication-Results: {RELAY}; dkim=pass header.d={domain}\r\n".encode()
        with smtplib.SMTP("127.0.0.1", self.smtp, timeout=30) as session:
            session.sendmail(sender, ["ada@house.test"], proof + letter.as_bytes())
        return letter["Message-ID"]

    def settled(self):
        """Reports whether no run is at work or waits its turn."""
        runs = json.loads(self.run("--json", "runs", "list", "--limit", "500"))
        return all(run["state"] in ("succeeded", "failed", "waiting_approval", "waiting_retry", "cancelled") for run in runs)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)


def listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


NEWSLETTER = """<html><body style="margin:0;background:#f3efe6;font-family:Georgia,serif"><table width="100%"><tr><td align="center">
<table width="560" style="background:#fff;margin:24px"><tr><td style="padding:28px"><h1 style="color:#7a3b12">Harvest at the mill</h1>
<p>The first apples are in. On Saturday we press them, and you are welcome from <b>two to five</b>.</p>
<p><img src="https://pixel.test/open.gif" width="1" height="1"><a href="https://mill.test/saturday">Tell us that you come</a></p>
</td></tr></table></td></tr></table></body></html>"""


def furnish(engine):
    """Letters as an owner would see them."""
    first = engine.letter("Bob <bob@guest.example>", "Breakfast on Sunday", "Dear Ada,\n\nuntil when is there breakfast on Sundays? We come in late.\n\nBob")
    until(engine.settled, "the first letter is answered")
    engine.letter("Bob <bob@guest.example>", "Re: Breakfast on Sunday", "Thank you, that is perfect. And is there a high chair for breakfast?\n\n"
                  "On Sunday Ada wrote:\n> Dear Bob,\n> breakfast is from seven to ten.\n", more={"In-Reply-To": first, "References": first})
    engine.letter("Carol Weiss <carol@partner.test>", "The meeting on Tuesday", "Please tell Eve that we meet on Tuesday at ten. Her address is eve@new.test.")
    engine.letter("Dan <dan@supplier.test>", "Invoice 4711", "Here is the invoice of last month. Please confirm the invoice.")
    engine.letter("Mill <news@mill.test>", "Harvest at the mill", "The first apples are in.", NEWSLETTER)
    engine.letter("Fay <fay@guest.example>", "A question about no such file", "Is there no such file as the house rules?")
    until(engine.settled, "the letters are worked off")


def log_in(driver, engine):
    """Follows the printed address, as an owner would."""
    driver.open(engine.login()["url"])
    until(lambda: driver.url().endswith(f":{engine.pages}/"), "the code of the address logs in")
    check("the inbox", driver.text("h1") == "Inbox")


def log_in_by_hand(driver, engine):
    made = engine.login()
    driver.open(made["url"].split("#")[0])
    driver.type(driver.find("#code"), made["code"].upper())
    driver.click(driver.find("#login button"))
    until(lambda: driver.url().endswith(f":{engine.pages}/"), "a typed code logs in")


def log_in_behind_a_wrong_code(driver, engine):
    """Opens a good address in the tab in which another one failed: only the fragment changes."""
    made = engine.login()
    driver.open(made["url"].split("#")[0] + "#000000000000")
    until(lambda: "not good here" in driver.text("main"), "a wrong code says so")
    check("a wrong code leaves a field", len(driver.find_all("#code")) == 1)
    driver.open(made["url"])
    until(lambda: driver.url().endswith(f":{engine.pages}/"), "a second address in one tab logs in")


def three_clicks(driver, engine):
    driver.open(f"http://127.0.0.1:{engine.pages}/")
    driver.click(driver.link("Breakfast on Sunday"))
    text = driver.text("main")
    for words in ("until when is there breakfast", "read_file", "search_email", "turn 1", "context"):
        check(f"the thread shows `{words}`", words in text, text)
    driver.click(driver.link("context"))
    text = driver.text("main")
    for words in ("What the model saw", "Ada answers letters of a small guest house", "current-input"):
        check(f"the context shows `{words}`", words in text, text)
    driver.click(driver.link("Exact request"))
    check("the exact bytes", "until when is there breakfast" in driver.text("body"))


def approve(driver, engine):
    outbox = engine.folder / "data/outbox"
    addressed = lambda mail: email.message_from_bytes(mail.read_bytes())["to"] or ""
    sent = lambda: [mail for mail in outbox.glob("*.eml") if "eve@new.test" in addressed(mail)]
    check("nothing went to Eve", not sent())
    driver.open(f"http://127.0.0.1:{engine.pages}/approvals")
    check("the bytes are shown", "we meet on Tuesday at ten" in driver.text("main"))
    driver.click(driver.find("form[action$=approve] button"))
    until(lambda: "No question is open." in driver.text("main"), "the question is decided")
    until(sent, "the mail goes to Eve")


def letters_of(engine):
    """Ids of the letters that came, by their subjects."""
    with contextlib.closing(sqlite3.connect(engine.folder / "data/attache.db")) as rows:
        return dict(rows.execute("SELECT subject, id FROM messages WHERE direction = 'inbound'").fetchall())


def hostile(driver, engine, payloads, sink):
    """Opens every hostile letter, with its frame and its HTML alone. Gives what reached the sink."""
    base = f"http://127.0.0.1:{engine.pages}"
    for number, payload in enumerate(payloads):
        engine.letter("Mallory <mallory@evil.test>", f"Hostile {number:03}", "A text.", payload)
    until(engine.settled, "the hostile letters are worked off", 120)
    letters = letters_of(engine)
    sink.taken()
    reached = []
    for number, payload in enumerate(payloads):
        message = letters[f"Hostile {number:03}"]
        for path in (f"/m/{message}", f"/m/{message}/body.html"):
            driver.open(base + path)
            if path.endswith(message):
                driver.script("document.querySelector('iframe.hostile').loading = 'eager';"
                              "document.querySelector('iframe.hostile').scrollIntoView();")
            time.sleep(0.25)
            check(f"nobody is led away by {payload}", driver.url() == base + path, driver.url())
            check(f"no window is opened by {payload}", len(driver.windows()) == 1)
        found, paths = sink.taken()
        if found:
            reached.append((payload, found, paths))
    driver.open(base + "/")
    time.sleep(1)
    found, paths = sink.taken()
    if found:
        reached.append(("late", found, paths))
    return reached


def control(driver, payloads, sink):
    """The same payloads without a policy: how many of them fire."""
    plain, fired, quiet = Control(payloads), 0, []
    sink.taken()
    for number, payload in enumerate(payloads):
        try:
            driver.open(f"http://127.0.0.1:{plain.port}/{number}")
        except WebDriverError:
            pass
        time.sleep(0.25)
        found, _ = sink.taken()
        fired += bool(found)
        if not found:
            quiet.append(payload)
        for window in driver.windows()[1:]:
            driver.command("POST", "/window", {"handle": window})
            driver.command("DELETE", "/window")
        driver.command("POST", "/window", {"handle": driver.windows()[0]})
    return fired, quiet


def pages_of(engine):
    run = next(run for run in json.loads(engine.run("--json", "runs", "list", "--limit", "500")) if run["subject"] == "Re: Breakfast on Sunday")
    letter = letters_of(engine)["Harvest at the mill"]
    return {
        "inbox": "/", "thread": f"/t/{run['thread']}", "run": f"/r/{run['id']}", "context": f"/r/{run['id']}/context",
        "letter": f"/m/{letter}", "approvals": "/approvals", "outbox": "/outbox", "notices": "/notices", "usage": "/usage",
        "memory": "/memory", "schedule": "/schedule", "personas": "/personas", "persona": "/personas/ada",
        "search": "/search?q=breakfast", "doctor": "/doctor?check=records", "config": "/config", "error": "/t/00000000",
    }


RUN_AXE = """
const done = arguments[arguments.length - 1];
const shown = (one) => one.id + ": " + one.help + " at " + one.nodes.map((node) => node.target.join(" ")).join(", ");
axe.run(document, { iframes: false, resultTypes: ["violations"] })
  .then((found) => done(found.violations.map(shown)), (error) => done([String(error)]));
"""


def walk(driver, engine, screens, axe):
    """Opens every page at every width in both schemes: nothing is wider than the page, nothing breaks our policy, and axe finds
    nothing that keeps people from using it."""
    found, looked = [], 0
    for name, path in pages_of(engine).items():
        for width in WIDTHS:
            for scheme in SCHEMES:
                driver.look(width, scheme)
                driver.open(f"http://127.0.0.1:{engine.pages}{path}")
                wide = driver.script("return document.documentElement.scrollWidth")
                check(f"{name} fits {width} pixels", wide <= width, wide)
                check(f"{name} has one h1", len(driver.find_all("h1")) == 1)
                told = [one for one in driver.messages() if "Content Security Policy" in one or "SEVERE" in one]
                told = [one for one in told if "body.html" not in one and "favicon" not in one]
                check(f"{name} keeps to its own policy", not told, told)
                if axe:
                    violations = driver.later(axe + RUN_AXE)
                    found += [f"{name} at {width} in {scheme}: {one}" for one in violations]
                    looked += 1
                if screens:
                    driver.picture(screens / f"{name}-{width}-{scheme}.png")
    check("axe finds nothing", not found, "\n".join(found))
    if axe:
        print(f"browser: axe looked at {looked} pages and found nothing")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--screens", type=pathlib.Path)
    parser.add_argument("--axe", type=pathlib.Path, help="axe.min.js of the package axe-core")
    parser.add_argument("--only", choices=["walk"], help="Only the pages, for who changes their looks")
    args = parser.parse_args()
    if args.screens:
        args.screens.mkdir(parents=True, exist_ok=True)
    axe = args.axe.read_text() if args.axe else None
    check("the payloads are those of the table: write them with `python3 payloads.py --write`", PAYLOADS.read_text() == table.whole())
    sink = Sink()
    payloads = [line.replace("SINK", f"http://127.0.0.1:{sink.port}") for line in PAYLOADS.read_text().splitlines()
                if line and not line.startswith("# ")]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="attache-browser-"))
    (folder / "with").mkdir()
    (folder / "without").mkdir()
    engine = Engine(os.path.abspath(args.attache), folder / "workspace")
    driver = bare = None
    try:
        furnish(engine)
        driver = Driver(folder / "with", free_port())
        log_in_behind_a_wrong_code(driver, engine)
        log_in(driver, engine)
        walk(driver, engine, args.screens, axe)
        if args.only:
            return
        driver.look(1280, "light")
        three_clicks(driver, engine)
        bare = Driver(folder / "without", free_port(), scripts=False)
        log_in_by_hand(bare, engine)
        three_clicks(bare, engine)
        approve(bare, engine)
        fired, quiet = control(driver, payloads, sink)
        check(f"of {len(payloads)} payloads {fired} fire without our policy", fired >= FIRES_AT_LEAST, "\n".join(quiet))
        log_in(driver, engine)
        reached = hostile(driver, engine, payloads, sink)
        check("no letter reaches the sink", not reached, reached)
        print(f"browser: {len(payloads)} hostile letters, 0 connections; without our policy {fired} of them fire")
    finally:
        for one in (driver, bare):
            if one:
                one.close()
        engine.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
