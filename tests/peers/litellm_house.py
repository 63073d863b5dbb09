"""Letters through a real LiteLLM proxy: its own mock, and stubs of three vendors behind it. See litellm.sh."""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import urllib.request

from first_letter import check
from model_house import ModelHouse, picture
from model_stub import ModelStub, call, say
from sinks import free_port, wait_for

KEY = "sk-house-0123456789abcdef"
PAGE = {"path": "knowledge/opening-hours.md"}
PLAN = [
    call(("read_file", PAGE), text="I look."),
    call(("read_file", PAGE), ("list_files", {})),
    say("From seven to ten."),
    say("A grey room."),
]
# The engine's adapter and its block, and the vendor behind the proxy: what the proxy translates on the way.
WAYS = [
    ("compat:house", {}, "anthropic"),
    ("compat:house", {}, "ollama"),
    ("compat:house", {"api": "responses"}, "anthropic"),
    ("compat:house", {"api": "responses"}, "chat"),
    ("anthropic", {}, "chat"),
]


def settings(stubs):
    def model(name, **parameters):
        return {"model_name": name, "litellm_params": {"api_key": "sk-behind", **parameters}}

    models = [model("mock", model="openai/mock", mock_response="From eight to nine.")]
    for (name, stub) in stubs.items():
        vendor = name.split("-")[0]
        behind = {"anthropic": "anthropic/stub-1", "ollama": "ollama_chat/stub-1", "chat": "openai/stub-1"}[vendor]
        models.append(model(name, model=behind, api_base=stub.url + ("/v1" if vendor == "chat" else "")))
    return {"model_list": models, "general_settings": {"master_key": KEY}, "litellm_settings": {"num_retries": 0}}


def start(program, folder, stubs):
    """The proxy, when it answers."""
    port, config = free_port(), folder / "proxy.json"
    config.write_text(json.dumps(settings(stubs)))  # JSON is YAML
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LITELLM_TELEMETRY": "False", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    log = open(folder / "proxy.log", "w+")
    command = [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    proxy = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)

    def answers():
        if proxy.poll() is not None:
            return True
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=2).status == 200
        except OSError:
            return False

    wait_for("the proxy", answers, 90, 0.5)
    log.seek(0)
    check("the proxy runs", proxy.poll() is None, log.read()[-3000:])
    return proxy, f"http://127.0.0.1:{port}"


def house(binary, folder, url, provider, block, model):
    folder.mkdir(parents=True)
    base = url if provider == "anthropic" else f"{url}/v1"
    return ModelHouse(binary, folder, provider, {"base_url": base, "api_key_variable": "HOUSE_KEY", **block}, model)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--litellm", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        drive(args.attache, args.litellm, pathlib.Path(scratch))


def drive(binary, program, scratch):
    stubs = {f"{vendor}-{at}": ModelStub(PLAN) for at, (_, _, vendor) in enumerate(WAYS)}
    proxy, url = start(program, scratch, stubs)
    try:
        mocked = house(binary, scratch / "mock", url, "compat:house", {}, "mock")
        mocked.receive("q1", "When may we arrive?")
        check("the proxy's mock is mailed", any("From eight to nine." in mail for mail in mocked.mails()), mocked.runs())
        print("ok: LiteLLM's own mock answered a letter")
        for at, (provider, block, vendor) in enumerate(WAYS):
            translated(binary, scratch / f"way-{at}", url, (provider, block, f"{vendor}-{at}"), stubs[f"{vendor}-{at}"])
        refused(binary, scratch, url)
    finally:
        proxy.kill()
        proxy.wait()


def translated(binary, folder, url, way, stub):
    provider, block, model = way
    name = f"{provider}{' by responses' if block else ''} -> {model.split('-')[0]}"
    home = house(binary, folder, url, provider, block, model)
    home.receive("q1", "When may we arrive?")
    home.receive("q2", "What is this?", image=picture())
    states = [run["state"] for run in home.runs()]
    check(f"{name}: both runs succeed", states == ["succeeded"] * 2, home.attache("runs", "list", "--json"))
    mails = home.mails()
    for text in ("From seven to ten.", "A grey room."):
        check(f"{name}: `{text}` is mailed", any(text in mail for mail in mails), mails)
    check(f"{name}: every step was asked for", len(stub.requests) == len(PLAN), len(stub.requests))
    # Results of tools arrive at the vendor behind, in its own format.
    last = json.dumps(stub.requests[2])
    check(f"{name}: the results came through", last.count("opening-hours") >= 2 and "07:" in last or "Opening" in last, last[:4000])
    print(f"ok: {name}: two letters, three calls of tools, {len(stub.requests)} requests came through LiteLLM")


def refused(binary, scratch, url):
    def failure(folder, model, key):
        home = house(binary, scratch / folder, url, "compat:house", {}, model)
        home.environment["HOUSE_KEY"] = key
        home.receive("q1", "When may we arrive?", succeeds=False)
        return json.dumps(home.runs())

    unknown = failure("unknown", "no-such-model", KEY)
    check("an unknown model is one", "model_not_found" in unknown, unknown)
    wrong = failure("wrong", "mock", "sk-wrong-0123456789")
    # A proxy without a database says of every key but its master's that it could not look it up, with status 400.
    check("a wrong key is refused in LiteLLM's words", "no_db_connection" in wrong or '"auth"' in wrong, wrong)
    print("ok: LiteLLM's refusals of an unknown model and of a wrong key are told")


if __name__ == "__main__":
    main()
