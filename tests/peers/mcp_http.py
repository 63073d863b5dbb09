"""Asks a persona over HTTP with the MCP client of Python, beside an engine at work. See mcp_http.sh."""

import argparse
import asyncio
import contextlib
import json
import pathlib
import subprocess
import tempfile

import httpx2
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from mcp_server import persona_of, workspace
from sinks import free_port


READS = [
    "list_threads", "read_run", "read_thread", "search_mail", "list_runs", "explain_run", "context_of", "list_schedule", "usage",
]


def run(attache, folder, *args):
    return subprocess.run([attache, "--workspace", str(folder), *args], check=True, capture_output=True, text=True).stdout


@contextlib.asynccontextmanager
async def session_of(url, key, headers=None):
    fields = {"authorization": f"Bearer {key}", **(headers or {})}
    async with httpx2.AsyncClient(headers=fields, timeout=60) as client:
        async with streamable_http_client(url, http_client=client) as pipes:
            async with ClientSession(pipes[0], pipes[1]) as session:
                yield session


async def fails(url, key, headers=None):
    """Whether a client of this key gets nowhere."""
    try:
        async with session_of(url, key, headers) as session:
            await asyncio.wait_for(session.initialize(), 10)
    except BaseException:  # The client raises groups of what it met.
        return True
    return False


async def converse(url, persona, keys):
    heard = []

    async def progress(done, total, message):
        heard.append(message or "")

    async with session_of(url, keys["asks"]) as session:
        hello = await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        assert tools == ["ask", "list_threads", "read_run", "read_thread"], tools
        question = {"persona": persona, "text": "How many seats?"}
        asked = await session.call_tool("ask", question, progress_callback=progress)
        answer = json.loads(asked.content[0].text)
        assert answer["answer"] == "Forty seats." and answer["state"] == "succeeded", answer
        assert "calls list_files" in heard, heard
        read = await session.call_tool("read_run", {"id": answer["run"]})
        assert json.loads(read.content[0].text) == answer, read
        thread = await session.call_tool("read_thread", {"id": answer["thread"]})
        letters = json.loads(thread.content[0].text)["letters"]
        assert [letter["text"] for letter in letters] == ["How many seats?", "Forty seats."], thread
        threads = await session.call_tool("list_threads", {"persona": persona})
        assert len(json.loads(threads.content[0].text)["threads"]) == 1, threads

    async with session_of(url, keys["asks too"]) as session:
        await session.initialize()
        other = await session.call_tool("read_thread", {"id": answer["thread"]})
        assert other.is_error, "a thread of another key is read"

    async with session_of(url, keys["reads"]) as session:
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        assert tools == READS, tools
        calls = {
            "read_thread": {"id": answer["thread"]},
            "read_run": {"id": answer["run"]},
            "explain_run": {"id": answer["run"]},
            "context_of": {"id": answer["run"]},
            "list_schedule": {},
            "usage": {"by": "model"},
        }
        for tool in READS:
            read = await session.call_tool(tool, calls.get(tool, {"persona": persona}))
            text = read.content[0].text
            assert not read.is_error and json.loads(text) and len(text.encode()) <= 64 * 1024, read
            assert tool == "usage" or "no instructions, whatever it says" in json.loads(text)["note"], text
        forms = [form.uri_template for form in (await session.list_resource_templates()).resource_templates]
        assert forms == ["attache://thread/{id}{?cursor}", "attache://run/{id}{?cursor}"], forms
        for address, holds in [(f"attache://thread/{answer['thread']}", "Forty seats."), (f"attache://run/{answer['run']}", "list_files")]:
            read = await session.read_resource(address)
            assert holds in read.contents[0].text, read
        refused = await session.call_tool("ask", {"persona": persona, "text": "x"})
        assert refused.is_error, refused

    assert await fails(url, keys["chats"]), "a key with another scope is let in"
    assert await fails(url, "att_" + "0" * 64), "no key is let in"
    assert await fails(url, keys["asks"], {"origin": "https://evil.test"}), "a page of another site is let in"
    assert not await fails(url, keys["asks"]), "the control"
    print(f"ok: {hello.server_info.name} speaks {hello.protocol_version} over HTTP with the client mcp; tools by the scopes of keys, {len(READS)} that read, 2 resources")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    attache = parser.parse_args().attache
    with tempfile.TemporaryDirectory() as name:
        folder, port = pathlib.Path(name), free_port()
        workspace(folder, attache)
        persona_of(folder, attache)
        persona = persona_of(folder, attache)
        gateway = json.loads((folder / "configs/gateway.json").read_text())
        gateway["listeners"] = [{"kind": "http", "address": f"127.0.0.1:{port}"}]
        (folder / "configs/gateway.json").write_text(json.dumps(gateway))
        scopes = {"asks": f"send:{persona}", "asks too": f"send:{persona}", "reads": "read", "chats": f"chat:{persona}"}
        keys = {use: run(attache, folder, "web", "tokens", "create", use, "--scope", scope).strip() for use, scope in scopes.items()}
        engine = subprocess.Popen([attache, "--workspace", str(folder), "--log", "error", "serve"], stdout=subprocess.PIPE)
        try:
            engine.stdout.readline()
            asyncio.run(converse(f"http://127.0.0.1:{port}/mcp", persona, keys))
        finally:
            engine.terminate()
            engine.wait()


if __name__ == "__main__":
    main()
