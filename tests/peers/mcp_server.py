"""Asks a persona with the MCP client of Python, beside an engine at work. See mcp_server.sh."""

import argparse
import asyncio
import json
import pathlib
import subprocess
import tempfile

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

SCRIPT = {
    "rules": [
        {
            "when": {"turn": 0, "contains": "seats"},
            "call": [{"tool": "list_files", "args": {}}],
        },
        {"say": "Forty seats.", "delay_ms": 300},
    ]
}


def workspace(folder: pathlib.Path, attache: str) -> None:
    subprocess.run([attache, "init", str(folder), "--domain", "engine.test", "--owner", "olga@home.test"], check=True, capture_output=True)
    inference = folder / "configs/inference.json"
    inference.write_text(json.dumps({
        "provider": "scripted", "model": "test",
        "providers": {"scripted": {"script": "configs/script.json"}},
    }))
    (folder / "configs/script.json").write_text(json.dumps(SCRIPT))
    gateway = json.loads((folder / "configs/gateway.json").read_text())
    gateway["listeners"] = []
    (folder / "configs/gateway.json").write_text(json.dumps(gateway))


def persona_of(folder: pathlib.Path, attache: str) -> str:
    found = subprocess.run([attache, "--json", "persona", "list"], cwd=folder, check=True, capture_output=True)
    personas = json.loads(found.stdout)
    if not personas:
        subprocess.run([attache, "persona", "create", "ada", "--name", "Ada"], cwd=folder, check=True, capture_output=True)
        return "ada"
    return personas[0]["id"]


async def converse(attache: str, folder: pathlib.Path, persona: str) -> None:
    server = StdioServerParameters(command=attache, args=["mcp", "serve", "--workspace", str(folder)])
    heard: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async with stdio_client(server) as pipes, ClientSession(*pipes) as session:
        hello = await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        assert tools == ["ask", "read_run", "read_thread"], tools
        question = {"persona": persona, "text": "How many seats?"}
        asked = await session.call_tool("ask", question, progress_callback=progress)
        answer = json.loads(asked.content[0].text)
        assert answer["answer"] == "Forty seats." and answer["state"] == "succeeded", answer
        assert heard == ["calls list_files"], heard
        read = await session.call_tool("read_run", {"id": answer["run"]})
        assert json.loads(read.content[0].text) == answer, read
        thread = await session.call_tool("read_thread", {"id": answer["thread"]})
        letters = json.loads(thread.content[0].text)["letters"]
        assert [letter["text"] for letter in letters] == ["How many seats?", "Forty seats."], thread
        for name, args in [("list_threads", {"persona": persona}), ("ask", {"persona": "nobody", "text": "x"})]:
            refused = await session.call_tool(name, args)
            assert refused.is_error, refused
        print(f"ok: {hello.server_info.name} speaks {hello.protocol_version} with the client mcp; 5 calls, progress heard")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    attache = parser.parse_args().attache
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        workspace(folder, attache)
        persona = persona_of(folder, attache)
        security = folder / "configs/security.json"
        typed = json.loads(security.read_text())
        typed["mcp_server"] = {"personas": [persona], "tools": ["ask", "read_run", "read_thread"]}
        security.write_text(json.dumps(typed))
        engine = subprocess.Popen([attache, "serve"], cwd=folder, stdout=subprocess.PIPE)
        try:
            engine.stdout.readline()
            asyncio.run(converse(attache, folder, persona))
        finally:
            engine.terminate()
            engine.wait()


if __name__ == "__main__":
    main()
