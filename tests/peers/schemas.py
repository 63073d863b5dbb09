"""Requests of every adapter before the types that the vendors publish. See schemas.sh."""

import argparse
import copy
import importlib.metadata
import json
import pathlib
import sys
import tempfile
import typing

# The vendors' request types say `Iterable`, which pydantic reads lazily: nothing inside would be looked at.
import httpx  # noqa: F401  (before the change below, as everything that these types do not concern)
import pydantic

EAGER, typing.Iterable = typing.Iterable, typing.List
import anthropic.types
import openai.types
import openai.types.chat
import openai.types.responses


typing.Iterable = EAGER

import google.genai.types as genai
import ollama
from first_letter import check
from model_house import ModelHouse, picture, scan
from model_stub import ModelStub, call, say
from pydantic import TypeAdapter

PAGE = {"path": "knowledge/opening-hours.md"}
PLAN = [
    call(("read_file", PAGE), text="I look."),
    call(("read_file", PAGE), ("list_files", {}), ("read_file", {"path": "nowhere.md"})),
    say("From seven to ten."),  # the first letter is answered
    say("Until eight."),  # the second of its thread
    call(("list_files", {})),
    say("A grey room."),  # the picture
    say("An empty page."),  # the scan
    say('{"guests": ["Bob"]}'),  # the responsibility
]


def forbid_strangers(package):
    """Makes pydantic refuse members that a TypedDict does not name; by itself it drops them."""
    modules = [module for name, module in sys.modules.items() if name.startswith(package.__name__ + ".")]
    for value in (value for module in modules for value in vars(module).values()):
        if hasattr(value, "__total__"):
            value.__pydantic_config__ = {"extra": "forbid", "arbitrary_types_allowed": True}


def typed(parameters):
    adapter = TypeAdapter(parameters)
    return lambda body: adapter.validate_python(body, strict=False)


class GeminiRequest(pydantic.BaseModel):
    """The body of `generateContent`, made of the types of google-genai, which forbid strangers themselves."""

    model_config = {"extra": "forbid"}
    contents: list[genai.Content]
    systemInstruction: genai.Content | None = None
    tools: list[genai.Tool] | None = None
    toolConfig: genai.ToolConfig | None = None
    generationConfig: genai.GenerationConfig | None = None


def strict_ollama(body):
    """The server's type of a tool's schema has few members and drops the others, so schemas are reduced to their names; `truncate`
    and `shift` are members of its ChatRequest (api/types.go) that the Python package lacks."""
    body = {key: copy.deepcopy(value) for key, value in body.items() if key not in ("truncate", "shift")}
    for tool in body["tools"] if isinstance(body.get("tools"), list) else []:
        parameters = tool["function"]["parameters"]
        known = {key: parameters[key] for key in ("type", "required") if key in parameters}
        tool["function"]["parameters"] = {**known, "properties": dict.fromkeys(parameters.get("properties", {}), {})}
    ollama._types.ChatRequest.model_validate(body, extra="forbid")
    for message in body["messages"]:  # the request's own type takes any mapping there
        images = [{"value": image} for image in message["images"]] if "images" in message else None
        ollama.Message.model_validate({**message, **({"images": images} if images else {})}, extra="forbid")


def validators():
    forbid_strangers(anthropic.types)
    forbid_strangers(openai.types)
    chat = typed(openai.types.chat.completion_create_params.CompletionCreateParamsStreaming)
    answers = typed(openai.types.responses.response_create_params.ResponseCreateParamsStreaming)
    messages = typed(anthropic.types.message_create_params.MessageCreateParamsStreaming)
    return {
        "anthropic": ({}, messages),
        "openai": ({}, chat),
        "openai by responses": ({"api": "responses"}, answers),
        "grok": ({}, chat),
        "grok by responses": ({"api": "responses"}, answers),
        "openrouter": ({}, chat),
        "compat:house": ({"api_key_variable": "HOUSE_KEY"}, chat),
        "compat:house by responses": ({"api_key_variable": "HOUSE_KEY", "api": "responses"}, answers),
        "gemini": ({}, GeminiRequest.model_validate),
        "ollama": ({}, strict_ollama),
    }


def captured(binary, folder, provider, block):
    """The requests of a thread of two letters, of letters with a picture and with a scan, and of a responsibility with a schema."""
    stub = ModelStub(PLAN)
    house = ModelHouse(binary, folder, provider, {"base_url": stub.url, **block})
    house.with_duty()
    house.receive("q1", "When may we arrive?")
    sent = [line[12:].strip() for mail in house.mails() for line in mail.splitlines() if line.lower().startswith("message-id: ")]
    house.receive("q2", "And until when?", answers=sent[0])
    house.receive("q3", "What is this?", image=picture())
    house.receive("q4", "And this?", pdf=scan())
    house.attache("schedule", "run", "Arrivals")
    house.attache("drain")
    stub.close()
    states = [run["state"] for run in house.runs()]
    check(f"{provider}: five runs succeed", states == ["succeeded"] * 5, states)
    check(f"{provider}: every step was asked for", len(stub.requests) == len(PLAN), len(stub.requests))
    return stub.requests


def is_refused(validate, body):
    try:
        validate(body)
    except pydantic.ValidationError:
        return True
    return False


def damaged(body):
    """The same request, wrong in one way after the other."""
    def changed(change):
        copied = copy.deepcopy(body)
        return copied if change(copied) is not False else None

    def turns(body):
        return body.get("messages") or body.get("input") or body.get("contents")

    yield "an unknown member", changed(lambda b: b.update(no_such_member=1))
    yield "an unknown member of a message", changed(lambda b: turns(b)[0].update(no_such_member=1))
    yield "a model that is a number", changed(lambda b: b.update(model=[7]) if "model" in b else False)
    yield "messages that are a text", changed(lambda b: b.update({k: 7 for k in ("messages", "input", "contents") if k in b}))
    yield "a role that nobody has", changed(lambda b: turns(b)[0].update(role={"of": "nobody"}))
    yield "tools that are a text", changed(lambda b: b.update(tools="look") if b.get("tools") else False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    binary = parser.parse_args().attache
    total = 0
    for name, (block, validate) in validators().items():
        provider, controls = name.split(" ")[0], 0
        with tempfile.TemporaryDirectory() as folder:
            bodies = captured(binary, pathlib.Path(folder), provider, block)
        text = json.dumps(bodies)
        check(f"{name}: a result of a tool went back", "opening-hours" in text, text[:2000])
        takes_images = not provider.startswith("compat:")
        check(f"{name}: the picture went along", ("iVBORw0KGgo" in text) == takes_images, text[-3000:])
        takes_pdf = provider in ("anthropic", "openai", "gemini")
        check(f"{name}: the scan went along", ("JVBERi0xLjQK" in text) == takes_pdf, text[-3000:])
        check(f"{name}: the form was asked for", "guests" in json.dumps(bodies[-1]), bodies[-1])
        for at, body in enumerate(bodies):
            try:
                validate(body)
            except pydantic.ValidationError as error:
                check(f"{name}: request {at} is of the published type", False, f"{error}\n{json.dumps(body, indent=1)[:6000]}")
            for what, wrong in damaged(body):
                if wrong is not None:
                    check(f"{name}: the control, {what}, is refused", is_refused(validate, wrong), json.dumps(wrong)[:3000])
                    controls += 1
        total += len(bodies)
        print(f"ok: {name}: {len(bodies)} requests are of the published type, {controls} damaged ones are not")
    versions = ", ".join(f"{m.__name__} {getattr(m, '__version__', '')}".strip() for m in (anthropic, openai))
    print(f"ok: {total} requests before the types of {versions}, google-genai {importlib.metadata.version('google-genai')}, "
          f"ollama {importlib.metadata.version('ollama')}")


if __name__ == "__main__":
    main()
