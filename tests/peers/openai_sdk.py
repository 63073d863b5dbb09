"""Talks to a persona with OpenAI's clients, beside an engine at work. See openai_sdk.sh."""

import argparse
import http.server
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import urllib.request

import openai
import sseclient

from sinks import free_port

SCRIPT = {
    "rules": [
        {"when": {"contains": "Zanzibar"}, "error": {"class": "bad_request", "message": "the vendor said no"}},
        {"when": {"turn": 0, "contains": "cupboard"}, "say": "Let me look.", "call": [{"tool": "list_files", "args": {}}]},
        {"when": {"contains": "cupboard"}, "say": "I looked: {{result}}", "usage": {"input_tokens": 30, "output_tokens": 9}},
        {"when": {"contains": "Bravo"}, "say": "You are welcome."},
        {"say": "Forty seats.", "usage": {"input_tokens": 20, "output_tokens": 4}},
    ]
}


def run(attache, folder, *args):
    return subprocess.run([attache, "--workspace", str(folder), *args], check=True, capture_output=True, text=True).stdout


def workspace(folder, attache, port):
    subprocess.run([attache, "init", str(folder), "--domain", "engine.test", "--owner", "olga@home.test"], check=True, capture_output=True)
    (folder / "configs/inference.json").write_text(json.dumps({
        "provider": "scripted", "model": "test",
        "providers": {"scripted": {"script": "configs/script.json"}},
    }))
    (folder / "configs/script.json").write_text(json.dumps(SCRIPT))
    gateway = json.loads((folder / "configs/gateway.json").read_text())
    gateway["listeners"] = [{"kind": "http", "address": f"127.0.0.1:{port}"}]
    (folder / "configs/gateway.json").write_text(json.dumps(gateway))
    personas = json.loads(run(attache, folder, "--json", "persona", "list"))
    if not personas:
        run(attache, folder, "persona", "create", "ada", "--name", "Ada")
        return "ada"
    return personas[0]["id"]


def asks(persona, *turns):
    roles = ["user", "assistant"]
    return {"model": persona, "messages": [{"role": roles[at % 2], "content": text} for at, text in enumerate(turns)]}


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise SystemExit(f"FAILED: no {kind.__name__}")


def converse(client, persona):
    """Everything that a program may want; the number of runs that it caused."""
    models = [model.id for model in client.models.list()]
    assert models == [persona, "titles"], models
    assert client.models.retrieve(persona).owned_by == "attache"

    first = client.chat.completions.create(**asks(persona, "How many seats?"))
    assert first.choices[0].message.content == "Forty seats.", first
    assert (first.choices[0].finish_reason, first.usage.completion_tokens) == ("stop", 4), first
    thread = first.attache["thread_id"]
    second = client.chat.completions.create(**asks(persona, "How many seats?", "Forty seats.", "Bravo!"))
    assert (second.choices[0].message.content, second.attache["thread_id"]) == ("You are welcome.", thread), second

    stream = client.chat.completions.create(**asks(persona, "What is in the cupboard?"), stream=True,
                                            stream_options={"include_usage": True})
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.startswith("I looked: ") and "Let me look" not in text, text
    assert chunks[-1].usage.completion_tokens >= 9 and chunks[-1].choices == [], chunks[-1]
    calls = client.get(f"/responses/{chunks[0].id}", cast_to=dict)
    assert calls["status"] == "completed", calls

    response = client.responses.create(model=persona, input="How many seats?", instructions="Be brief.")
    assert (response.output_text, response.status) == ("Forty seats.", "completed"), response
    more = client.responses.create(model=persona, input="Bravo!", previous_response_id=response.id)
    assert more.output_text == "You are welcome.", more
    assert client.responses.retrieve(more.id).output_text == more.output_text
    with client.responses.stream(model=persona, input="How many seats?") as events:
        kinds = [event.type for event in events]
        final = events.get_final_response()
    assert final.output_text == "Forty seats." and kinds[-1] == "response.completed", kinds

    title = client.chat.completions.create(**asks("titles", "How many seats are in the hall, and where?"))
    assert title.choices[0].message.content == "How many seats are in the hall, and", title

    missing = refused(openai.NotFoundError, lambda: client.models.retrieve("nobody"))
    assert (missing.code, missing.param) == ("model_not_found", "model"), missing
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    tool = refused(openai.BadRequestError, lambda: client.chat.completions.create(**asks(persona, "Hello"), tools=tools))
    assert (tool.code, tool.param) == ("unsupported_parameter", "tools"), tool
    # Once only: the client would try a 500 again by itself.
    failed = refused(openai.InternalServerError, lambda: client.chat.completions.create(**asks(persona, "Zanzibar")))
    assert failed.code == "run_failed", failed
    in_stream = client.chat.completions.create(**asks(persona, "Zanzibar"), stream=True)
    refused(openai.APIError, lambda: list(in_stream))
    stranger = client.with_options(api_key="att_" + "0" * 64)
    refused(openai.AuthenticationError, stranger.models.list)
    return 8


class Recorded(http.server.BaseHTTPRequestHandler):
    """Answers with a recorded stream, in pieces that end anywhere."""

    streams = {}

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = self.streams[self.path]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.end_headers()
        for at in range(0, len(body), 5):
            self.wfile.write(body[at:at + 5])
            self.wfile.flush()

    def log_message(self, *_):
        pass


def raw_stream(base, key, path, body):
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    request = urllib.request.Request(f"{base}{path}", json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request, timeout=60)


def read_by_openai(base):
    client = openai.OpenAI(api_key="none", base_url=base)
    read = {"chat": "", "finish": None, "usage": None, "kinds": [], "response": ""}
    for chunk in client.chat.completions.create(**asks("p", "x"), stream=True):
        if chunk.choices:
            read["chat"] += chunk.choices[0].delta.content or ""
            read["finish"] = chunk.choices[0].finish_reason or read["finish"]
        read["usage"] = chunk.usage.completion_tokens if chunk.usage else read["usage"]
    for event in client.responses.create(model="p", input="x", stream=True):
        read["kinds"].append(event.type)
        read["response"] += event.delta if event.type == "response.output_text.delta" else ""
    return read


def read_by_sseclient(base):
    read = {"chat": "", "finish": None, "usage": None, "kinds": [], "response": ""}
    for event in sseclient.SSEClient(raw_stream(base, "none", "/chat/completions", {})).events():
        if event.data == "[DONE]":
            continue
        chunk = json.loads(event.data)
        for choice in chunk["choices"]:
            read["chat"] += choice["delta"].get("content") or ""
            read["finish"] = choice["finish_reason"] or read["finish"]
        read["usage"] = chunk["usage"]["completion_tokens"] if chunk.get("usage") else read["usage"]
    for event in sseclient.SSEClient(raw_stream(base, "none", "/responses", {})).events():
        told = json.loads(event.data)
        assert told["type"] == event.event, event
        read["kinds"].append(told["type"])
        read["response"] += told["delta"] if event.event == "response.output_text.delta" else ""
    return read


def read_by_node(base, folder, node, persona):
    script = folder / "openai_stream.mjs"
    shutil.copy(pathlib.Path(__file__).with_name("openai_stream.mjs"), script)
    read = subprocess.run(["node", str(script)], check=True, timeout=60, capture_output=True, text=True,
                          env={**os.environ, "BASE_URL": base, "PERSONA": persona})
    return json.loads(read.stdout)


def parsers(base, key, persona, folder, node):
    """Has the same two streams read by parsers that others wrote; the number of runs that it caused."""
    chat = {**asks(persona, "What is in the cupboard?"), "stream": True, "stream_options": {"include_usage": True}}
    response = {"model": persona, "input": "What is in the cupboard?", "stream": True}
    for path, body in [("/chat/completions", chat), ("/responses", response)]:
        Recorded.streams[f"/v1{path}"] = raw_stream(base, key, path, body).read()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorded) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        recorded = f"http://127.0.0.1:{server.server_port}/v1"
        read = {"openai of Python": read_by_openai(recorded), "sseclient-py": read_by_sseclient(recorded)}
        if node:
            read["openai of Node"] = read_by_node(recorded, folder, node, persona)
        server.shutdown()
    first = next(iter(read.values()))
    assert first["chat"].startswith("I looked: ") and first["response"] == first["chat"], first
    assert (first["finish"], first["kinds"][-1]) == ("stop", "response.completed") and first["usage"] >= 9, first
    for name, other in read.items():
        assert other == first, f"{name} reads something else: {other}"
    print(f"ok: the same streams by {len(read)} parsers: {', '.join(read)}")
    return 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--node", required=True)
    arguments = parser.parse_args()
    attache = arguments.attache
    with tempfile.TemporaryDirectory() as name:
        folder, port = pathlib.Path(name) / "house", free_port()
        persona = workspace(folder, attache, port)
        key = run(attache, folder, "web", "tokens", "create", "a program", "--scope", f"chat:{persona}").strip()
        engine = subprocess.Popen([attache, "--workspace", str(folder), "--log", "error", "serve"], stdout=subprocess.PIPE)
        try:
            engine.stdout.readline()
            base = f"http://127.0.0.1:{port}/v1"
            client = openai.OpenAI(api_key=key, base_url=base)
            expected = converse(client, persona)
            print(f"ok: openai {openai.__version__} of Python: {expected} runs, streams, responses, errors")
            node = (pathlib.Path(arguments.node) / "node_modules/openai").is_dir() and shutil.which("node")
            if node:
                # Modules are looked for beside the file that imports them.
                script = pathlib.Path(name) / "openai_sdk.mjs"
                shutil.copy(pathlib.Path(__file__).with_suffix(".mjs"), script)
                (pathlib.Path(name) / "node_modules").symlink_to(pathlib.Path(arguments.node).resolve() / "node_modules")
                subprocess.run(["node", str(script)], check=True, timeout=60,
                               env={**os.environ, "BASE_URL": base, "API_KEY": key, "PERSONA": persona})
                expected += 5
            expected += parsers(base, key, persona, pathlib.Path(name), node)
            with sqlite3.connect(f"file:{folder}/data/attache.db?mode=ro", uri=True) as rows:
                runs = rows.execute("SELECT count(*) FROM runs").fetchone()[0]
                calls = rows.execute("SELECT count(*) FROM thread_tool_events").fetchone()[0]
            assert runs == expected, f"one message is one run: {runs} and not {expected}"
            assert calls >= 1, "the persona has called its tool"
        finally:
            engine.terminate()
            engine.wait()


if __name__ == "__main__":
    main()
