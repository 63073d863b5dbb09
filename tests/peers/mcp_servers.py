"""Tools of two real MCP servers, over three connections: approved, called, and replayed without them. See mcp.sh."""

import argparse
import contextlib
import os
import pathlib
import shutil
import smtplib
import subprocess
import tempfile
from email.utils import formatdate

from first_letter import HOUSE, check
from household import GUEST, House, Smarthost
from sinks import free_port, wait_for

CALLS = [
    ("every__echo", {"message": "K_STDIO"}, "Echo: K_STDIO"),
    ("every__get_structured_content", {"location": "Chicago"}, "temperature"),
    ("every__get_tiny_image", {}, "not shown"),
    ("remote__echo", {"message": "K_HTTP"}, "Echo: K_HTTP"),
    ("remote__get_sum", {"a": 40, "b": 2}, "42"),
    ("clock__convert_time", {"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "Europe/Berlin"}, "time_difference"),
    ("clock__get_current_time", {"timezone": "Nowhere/Nothing"}, "is_error"),
]
SCRIPT = {"rules": [
    *({"when": {"turn": turn}, "call": [{"tool": tool, "args": args}]} for turn, (tool, args, _) in enumerate(CALLS)),
    {"say": "It is so: {{result}}"},
]}


def servers(everything, python, port):
    plain = {"class": "repeatable", "effects": {}}
    tools = lambda *names: {name: plain for name in names}
    return {
        "every": {"command": [shutil.which("node"), everything, "stdio"], "audience": "everyone",
                  "tools": tools("echo", "get-structured-content", "get-tiny-image")},
        "remote": {"url": f"http://127.0.0.1:{port}/mcp", "audience": "everyone", "tools": tools("echo", "get-sum")},
        "clock": {"command": [shutil.which("env"), f"PYTHONPATH={python}", shutil.which("python3"), "-m", "mcp_server_time"],
                  "audience": "everyone", "tools": tools("convert_time", "get_current_time")},
    }


@contextlib.contextmanager
def at_address(everything, port):
    environment = {**os.environ, "PORT": str(port)}
    process = subprocess.Popen([shutil.which("node"), everything, "streamableHttp"], env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        import socket
        wait_for("the server at an address", lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, 30, 0.1)
        yield
    finally:
        process.kill()
        process.wait()


def main(attache, everything, python, folder):
    smarthost, port = Smarthost(), free_port()
    house = House(attache, folder, smarthost, script=SCRIPT)
    (house.folder / "configs/mcp.json").write_text("{}")
    house.edit("configs/mcp.json", servers=servers(everything, python, port))
    with at_address(everything, port):
        for name in ("every", "remote", "clock"):
            shown = house.run("mcp", "approve", name, "--yes")
            check("the definitions are shown", f"{name}__" in shown, shown)
        states = {(row["server"], row["tool"]): row["state"] for row in house.json("mcp", "list")}
        named = [state for (server, tool), state in states.items() if state != "new"]
        check("what is named is approved", named == ["approved"] * len(CALLS), states)
        check("what is not named is new", states[("every", "get-env")] == "new", states)
        house.start()
        try:
            text = (f"From: Bert Halm <{GUEST}>\r\nTo: {HOUSE}\r\nSubject: Tools\r\nMessage-ID: <t@traveller.example>\r\n"
                    f"Date: {formatdate()}\r\n\r\nPlease look.\r\n")
            with smtplib.SMTP("127.0.0.1", house.port, local_hostname="mail.traveller.example", timeout=30) as session:
                check("nobody is refused", session.sendmail(GUEST, [HOUSE], text.encode()) == {})
            wait_for("an answer", lambda: smarthost.answered("t@traveller.example"), 90, 0.1)
        finally:
            house.kill()
    run = house.json("runs", "list")[0]
    calls = house.json("replay", run["id"])["calls"]
    for (tool, _, expected), call in zip(CALLS, calls):
        check(f"{tool} was called", call["tool"] == tool, call)
        check(f"{tool} says what it should", expected in str(call), call)
    check("every call was made", len(calls) == len(CALLS), calls)
    left = subprocess.run(["pgrep", "-f", f"{everything} stdio"], capture_output=True, text=True).stdout.split()
    check("no server is left", left == [], left)
    house.run("replay", "verify", run["id"])
    print(f"mcp: ok: {len(calls)} calls of tools of two servers over three connections, executed again without them")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option in ("--attache", "--everything", "--python"):
        parser.add_argument(option, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        main(given.attache, given.everything, given.python, pathlib.Path(scratch))
