"""The pages behind proxies that nobody here wrote. See proxies.sh."""

import argparse
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.parse

from first_letter import check
from sinks import answers, free_port, wait_for

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs/guide/pages.md"
NAME = "attache.example.org"
NGINX = "/etc/nginx/conf.d/attache.conf"
CADDY = "/etc/caddy/Caddyfile"


def block(path):
    """The file that the guide shows under that name."""
    found = re.search(rf"^```\w+ {re.escape(path)}\n(.*?)^```", GUIDE.read_text(), re.M | re.S)
    check(f"the guide shows {path}", found)
    return found[1]


def changed(text, *pairs):
    """The block with other ports and files: each must stand there once."""
    for old, new in pairs:
        check(f"the block has `{old}` once", text.count(old) == 1, text)
        text = text.replace(old, new)
    return text


def certificate(folder):
    pem, key = folder / "proxy.pem", folder / "proxy.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}", "-addext",
         f"subjectAltName=DNS:{NAME}", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", pem],
        check=True, capture_output=True)
    return pem, key


class Engine:
    def __init__(self, attache, folder, is_socket, tls_port):
        self.attache, self.house = attache, folder / "house"
        self.run("init", str(self.house), "--domain", "guesthouse.example", "--owner", "anna@example.org", cwd=folder)
        self.port = free_port()
        address = "unix:data/pages.sock" if is_socket else f"127.0.0.1:{self.port}"
        self.behind = f"unix:{self.house}/data/pages.sock:" if is_socket else f"127.0.0.1:{self.port}"
        pages = {"kind": "http", "address": address, "origins": [f"https://{NAME}:{tls_port}"],
                 "proxies": ["unix:" if is_socket else "127.0.0.1"]}
        if is_socket:
            pages["mode"] = "0666"  # nginx's workers are another user here
            for part in (folder, self.house, self.house / "data"):
                part.mkdir(exist_ok=True)
                os.chmod(part, 0o755)
        file = self.house / "configs/gateway.json"
        gateway = json.loads(file.read_text())
        gateway["listeners"] = [{"kind": "smtp", "address": f"127.0.0.1:{free_port()}"}, pages]
        file.write_text(json.dumps(gateway))
        self.process = subprocess.Popen([attache, "serve"], cwd=self.house, stdout=subprocess.DEVNULL,
                                        stderr=open(folder / "engine.log", "w"))
        wait_for("the pages", lambda: (self.house / "data/pages.sock").exists() if is_socket else answers(self.port))

    def run(self, *args, cwd=None):
        done = subprocess.run([self.attache, *args], cwd=cwd or self.house, capture_output=True, text=True)
        check(f"attache {' '.join(args)}", done.returncode == 0, done.stdout + done.stderr)
        return done.stdout

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


class Browser:
    """A client that calls the proxy by its name, whatever its certificate."""

    def __init__(self, port):
        self.port, self.cookie = port, None
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE

    def ask(self, method, path, body=None, stream=False, **fields):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=20)
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection.sock = self.context.wrap_socket(raw, server_hostname=NAME)
        headers = {"Host": f"{NAME}:{self.port}", **{key.replace("_", "-"): value for key, value in fields.items()}}
        if self.cookie:
            headers["Cookie"] = self.cookie
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer if stream else (answer.status, answer.headers, answer.read().decode(errors="replace"))


def use(what, engine, port):
    """What a person and a program do, and what another site tries."""
    browser = Browser(port)
    check(f"{what}: alive", browser.ask("GET", "/livez")[0] == 200)
    status, _, page = browser.ask("GET", "/login")
    check(f"{what}: the login is shown", status == 200 and "code" in page, page)
    code = engine.run("web", "login").strip().split("#")[-1].splitlines()[0]
    form = urllib.parse.urlencode({"code": code, "next": "/"})
    kind = {"Content_Type": "application/x-www-form-urlencoded"}
    own = f"https://{NAME}:{port}"
    foreign = browser.ask("POST", "/login", form, Origin="https://evil.example", **kind)
    check(f"{what}: a form of another site is refused", foreign[0] == 403, foreign[2])
    status, headers, page = browser.ask("POST", "/login", form, Origin=own, **kind)
    check(f"{what}: the code logs in", status == 303, page)
    browser.cookie = headers["Set-Cookie"].split(";")[0]
    check(f"{what}: the cookie is for TLS alone", "Secure" in headers["Set-Cookie"], headers["Set-Cookie"])
    for path in ("/", "/approvals", "/outbox", "/config"):
        status, _, page = browser.ask("GET", path)
        check(f"{what}: {path}", status == 200 and "Log out" in page, page[:500])
    check(f"{what}: a stranger sees nothing", Browser(port).ask("GET", "/")[0] in (303, 401))
    key = engine.run("web", "tokens", "create", "curl").strip().splitlines()[-1]
    began = time.monotonic()
    stream = browser.ask("GET", "/api/v1/events?after=0", stream=True, Authorization=f"Bearer {key}")
    check(f"{what}: the stream is there", stream.status == 200, stream.headers)
    letter = engine.house.parent / "letter.eml"
    letter.write_text("From: bert@guest.example\r\nTo: assistant@guesthouse.example\r\nSubject: A room\r\n"
                      f"Message-ID: <{time.time_ns()}@guest.example>\r\n\r\nIs there one?\r\n")
    engine.run("ingest", str(letter))
    seen = b""
    while b"letter." not in seen and time.monotonic() - began < 15:
        seen += stream.fp.read1(4096)
    check(f"{what}: a committed letter is told at once", b"letter." in seen, seen)


def nginx(folder, engine, port, is_old):
    pem, key = certificate(folder)
    site = changed(block(NGINX), ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"), ("http://127.0.0.1:8025;", f"http://{engine.behind};"),
                   ("/etc/ssl/attache.example.org.pem", str(pem)), ("/etc/ssl/private/attache.example.org.key", str(key)))
    if is_old:
        site = changed(site, ("        proxy_http_version 1.1;\n", ""))
    config = folder / "nginx.conf"
    places = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config.write_text(f"pid {folder}/nginx.pid;\nerror_log {folder}/nginx.log;\nevents {{}}\n"
                      f"http {{\n{places}access_log off;\n{site}}}\n")
    return ["nginx", "-e", str(folder / "nginx.log"), "-c", str(config), "-g", "daemon off;"]


def caddy(folder, engine, port, _):
    pem, key = certificate(folder)
    behind = "unix/" + engine.behind.removeprefix("unix:").removesuffix(":") if engine.behind.startswith("unix") else engine.behind
    site = changed(block(CADDY), ("attache.example.org {", f"{NAME}:{port} {{\n    tls {pem} {key}"), ("127.0.0.1:8025", behind))
    file = folder / "Caddyfile"
    file.write_text(f"{{\n    admin off\n    auto_https disable_redirects\n}}\n{site}")
    return ["caddy", "run", "--config", str(file), "--adapter", "caddyfile"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    attache = parser.parse_args().attache
    rounds = [("nginx", nginx, False, False), ("nginx by HTTP/1.0", nginx, False, True), ("nginx by a socket", nginx, True, False),
              ("nginx by HTTP/1.0 and a socket", nginx, True, True), ("caddy", caddy, False, False), ("caddy by a socket", caddy, True, False)]
    for what, proxy, is_socket, is_old in rounds:
        program = proxy.__name__
        if not shutil.which(program):
            print(f"SKIPPED: {what}: {program} is not installed")
            continue
        with tempfile.TemporaryDirectory(prefix="attache-proxies-") as name:
            folder, port = pathlib.Path(name), free_port()
            engine = Engine(attache, folder, is_socket, port)
            environment = os.environ | {"HOME": name, "XDG_DATA_HOME": name, "XDG_CONFIG_HOME": name}
            log = folder / "proxy.log"
            process = subprocess.Popen(proxy(folder, engine, port, is_old), env=environment, stdout=log.open("w"), stderr=subprocess.STDOUT)
            try:
                wait_for(f"{what}\n{log.read_text()}", lambda: answers(port))
                use(what, engine, port)
            finally:
                process.terminate()
                process.wait(10)
                engine.end()
            print(f"{what}: logged in, read, refused and followed")


main()
