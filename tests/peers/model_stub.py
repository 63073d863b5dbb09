"""A server that speaks five model APIs, streamed, follows a plan, and keeps every request. Standard library only."""

import base64
import http.server
import json
import threading

# A signature, as vendors seal their reasoning: it has to come back.
SEALED = base64.b64encode(b"sealed reasoning of the stub").decode()


def say(text):
    """A step: answer with words. Chat completions say the pair `tokens` of a step, input and output, instead of 10 and 5."""
    return {"text": text, "calls": []}


def call(*calls, text=""):
    """A step: call tools, each a pair of its name and its arguments."""
    return {"text": text, "calls": list(calls)}


class ModelStub:
    """Answers the requests one step after the other, and all later ones with the last step.
    `plan` may be a function instead, of the request to its step; then requests are not kept."""

    def __init__(self, plan):
        self.requests, self.paths, stub = [], [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.reply("application/json", b'{"object": "list", "data": [{"id": "stub-1", "object": "model"}]}')

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                with stub.lock:
                    number = len(stub.paths)
                    stub.paths.append(self.path)
                    if not callable(plan):
                        stub.requests.append(body)
                step = plan(body) if callable(plan) else plan[min(number, len(plan) - 1)]
                path = self.path.split("?")[0]
                render = next(render for end, render in RENDERS.items() if path.endswith(end))
                kind, whole = render(step, number)
                self.reply(kind, whole.encode())

            def reply(self, kind, body):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # Who asked is gone: some tests kill it.

        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def named(events):
    return "text/event-stream", "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)


def plain(chunks, end=""):
    return "text/event-stream", "".join(f"data: {json.dumps(c)}\n\n" for c in chunks) + end


def anthropic(step, number):
    usage = {"input_tokens": 11, "output_tokens": 1}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "stub-1", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}
    blocks = [({"type": "thinking", "thinking": "", "signature": ""},
               [{"type": "thinking_delta", "thinking": "Hm."}, {"type": "signature_delta", "signature": SEALED}])]
    if step["text"]:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": step["text"]}]))
    for at, (name, args) in enumerate(step["calls"]):
        blocks.append(({"type": "tool_use", "id": f"toolu_{number}_{at}", "name": name, "input": {}},
                       [{"type": "input_json_delta", "partial_json": json.dumps(args)}]))
    events = [{"type": "message_start", "message": message}]
    for at, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": at, "content_block": block})
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": at})
    stop = "tool_use" if step["calls"] else "end_turn"
    events.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None},
                   "usage": {"output_tokens": 7}})
    return named([*events, {"type": "message_stop"}])


def chat(step, number):
    def chunk(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": "stub-1", "choices": [choice]}

    chunks = [chunk({"role": "assistant", "content": step["text"]})]
    for at, (name, args) in enumerate(step["calls"]):
        function = {"name": name, "arguments": json.dumps(args)}
        chunks.append(chunk({"tool_calls": [{"index": at, "id": f"call_{number}_{at}", "type": "function", "function": function}]}))
    chunks.append(chunk({}, "tool_calls" if step["calls"] else "stop"))
    asked, said = step.get("tokens", (10, 5))
    usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    last = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": "stub-1", "choices": [], "usage": usage}
    return plain([*chunks, last], "data: [DONE]\n\n")


def responses(step, number):
    items = [{"id": f"rs_{number}", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": SEALED}]
    if step["text"]:
        part = {"type": "output_text", "text": step["text"], "annotations": [], "logprobs": []}
        phase = "commentary" if step["calls"] else "final_answer"
        items.append({"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": [part], "phase": phase})
    for at, (name, args) in enumerate(step["calls"]):
        items.append({"id": f"fc_{number}_{at}", "type": "function_call", "status": "completed", "call_id": f"call_{number}_{at}",
                      "name": name, "arguments": json.dumps(args)})

    def response(status, output, usage):
        return {"id": f"resp_{number}", "object": "response", "created_at": 1, "status": status, "error": None, "incomplete_details": None,
                "model": "stub-1", "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage}

    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
             "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15}
    events = [{"type": "response.created", "response": response("in_progress", [], None)}]
    for at, item in enumerate(items):
        place = {"output_index": at, "item_id": item["id"]}
        events.append({"type": "response.output_item.added", "output_index": at, "item": {**item, "content": [], "arguments": ""}})
        if item["type"] == "message":
            events.append({"type": "response.output_text.delta", **place, "content_index": 0, "delta": step["text"]})
        if item["type"] == "function_call":
            events.append({"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]})
            events.append({"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    return named([*events, {"type": "response.completed", "response": response("completed", items, usage)}])


def gemini(step, number):
    parts = [{"text": step["text"]}] if step["text"] else []
    for at, (name, args) in enumerate(step["calls"]):
        part = {"functionCall": {"name": name, "args": args}}
        parts.append({**part, "thoughtSignature": SEALED} if at == 0 else part)
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return plain([{"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub-1", "responseId": f"r{number}"}])


def ollama(step, _number):
    calls = [{"function": {"name": name, "arguments": args}} for name, args in step["calls"]]
    message = {"role": "assistant", "content": step["text"], **({"tool_calls": calls} if calls else {})}
    lines = [{"model": "stub-1", "created_at": "2026-11-20T08:00:00Z", "message": message, "done": False},
             {"model": "stub-1", "created_at": "2026-11-20T08:00:00Z", "message": {"role": "assistant", "content": ""}, "done": True,
              "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 5}]
    return "application/x-ndjson", "".join(json.dumps(line) + "\n" for line in lines)


RENDERS = {
    "/messages": anthropic,
    "/chat/completions": chat,
    "/responses": responses,
    ":streamGenerateContent": gemini,
    "/api/chat": ollama,
}
