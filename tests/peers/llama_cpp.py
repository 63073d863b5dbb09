"""A real llama.cpp server answers letters by three of its APIs. See llama_cpp.sh."""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

import llama_cpp_letters
from first_letter import check
from model_house import ModelHouse
from sinks import free_port

KEY = "sk-house-0123456789abcdef"
CHOICE = {"type": "object", "required": ["guests"], "additionalProperties": False,
          "properties": {"guests": {"type": "string", "enum": ["none", "one", "two"]}}}
APIS = {
    "chat completions": ("compat:house", {"api_key_variable": "HOUSE_KEY"}, "/v1"),
    "responses": ("compat:house", {"api_key_variable": "HOUSE_KEY", "api": "responses"}, "/v1"),
    "messages": ("anthropic", {"api_key_variable": "HOUSE_KEY"}, ""),
}


@contextlib.contextmanager
def served(folder, window, model=None):
    """Serves a model with that window: real weights from a file, or random ones."""
    port = free_port()
    log = open(folder / f"server-{window}.log", "w+")
    model = model or folder / f"random-{window}.gguf"
    command = [sys.executable, "llama_cpp_server.py", str(model), str(port), str(window), KEY]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        lines = iter(server.stdout.readline, "")
        url = next((line.strip() for line in lines if line.startswith("http")), None)
        log.seek(0)
        check("llama.cpp serves", url, log.read()[-3000:])
        yield url
    finally:
        server.kill()
        server.wait()


def house(binary, folder, url, provider, block, path):
    folder.mkdir()
    home = ModelHouse(binary, folder, provider, {"base_url": url + path, **block}, max_output_tokens=32, temperature=0)
    file = folder / "personas" / "concierge" / "persona.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "tools": ["read_file"]}))  # a shorter prompt
    return home


def shown(home):
    """The newest run, with all of its turns."""
    return json.loads(home.attache("runs", "show", home.runs()[0]["id"], "--json"))


def answered(binary, scratch, url, name):
    """A letter and a reply to it: random words are mailed, and the second time the server has the beginning in its cache."""
    provider, block, path = APIS[name]
    home = house(binary, scratch / name.split()[0], url, provider, block, path)
    check(f"{name}: the server is there", "answered in" in home.attache("providers", "check", succeeds=False))
    home.receive("q1", "When may we arrive?")
    mails = home.mails()
    check(f"{name}: an answer is mailed", len(mails) == 1, home.runs())
    sent = next(line[12:].strip() for line in mails[0].splitlines() if line.lower().startswith("message-id: "))
    home.receive("q2", "And until when?", answers=sent)
    runs = home.runs()
    check(f"{name}: both runs succeed", [run["state"] for run in runs] == ["succeeded"] * 2, runs)
    usage = runs[0]["usage"]
    check(f"{name}: cached tokens are counted", usage["cache_read_tokens"] > 1000 and usage["output_tokens"] > 0, usage)
    print(f"ok: {name}: two letters answered; of the second, {usage['cache_read_tokens']} tokens came from the server's cache")


def formed(binary, scratch, url, name):
    """An answer by a schema: the server's grammar leaves the random model no other."""
    provider, block, path = APIS[name]
    home = house(binary, scratch / f"form-{name.split()[0]}", url, provider, block, path)
    home.with_duty(CHOICE)
    home.attache("schedule", "run", "Arrivals")
    home.attache("drain")
    run = home.runs()[0]
    check(f"{name}: the duty succeeds", run["state"] == "succeeded", run)
    text = json.dumps(shown(home))
    check(f"{name}: its answer fits", any(f'\\"{choice}\\"' in text for choice in CHOICE["properties"]["guests"]["enum"]), text[-3000:])
    print(f"ok: {name}: an answer by a schema")


def refused(binary, scratch, url, name, small):
    provider, block, path = APIS[name]
    wrong = house(binary, scratch / f"wrong-{name.split()[0]}", url, provider, block, path)
    wrong.environment["HOUSE_KEY"] = "sk-wrong-0123456789"
    wrong.receive("q1", "When may we arrive?", succeeds=False)
    check(f"{name}: a wrong key is one", wrong.runs()[0]["error_class"] == "auth", wrong.runs())
    tight = house(binary, scratch / f"tight-{name.split()[0]}", small, provider, block, path)
    tight.receive("q1", "When may we arrive?", succeeds=False)
    check(f"{name}: a letter that does not fit is told", tight.runs()[0]["error_class"] == "context_overflow", tight.runs())
    print(f"ok: {name}: a wrong key and a window that is too small are told")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--weights", help="folder of the installed packages, with real weights among them")
    parser.add_argument("--long", action="store_true", help="ten letters, a file, a follow-up and a duty to the real model")
    given = parser.parse_args()
    binary, real = given.attache, llama_cpp_letters.weights(given.weights or ".")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        with served(scratch, 65536) as url, served(scratch, 2048) as small:
            for name in APIS:
                answered(binary, scratch, url, name)
            formed(binary, scratch, url, "chat completions")
            for name in APIS:
                refused(binary, scratch, url, name, small)
        if real is None:
            print("SKIPPED: llama_cpp.sh: no weights of SmolLM2, so NO REAL MODEL has answered a letter")
            return
        with served(scratch, llama_cpp_letters.WINDOW, real) as url:
            (llama_cpp_letters.long if given.long else llama_cpp_letters.minute)(binary, scratch, url)


if __name__ == "__main__":
    main()
