"""A server that speaks just enough of two model APIs, and keeps every request. Standard library only."""

import http.server
import json
import threading


class AgentStub:
    """Answers every question with `text`, as Anthropic's messages or OpenAI's responses, streamed.

    While `mail` is set, a question that offers `send_email` and has no result of it yet is answered by calling it with that.
    """

    def __init__(self, text):
        self.requests, self.mail, stub = [], None, self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.reply("application/json", b'{"data": [], "models": []}')

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                if "count_tokens" in self.path:
                    return self.reply("application/json", b'{"input_tokens": 10}')
                stub.requests.append(body)
                asked = json.loads(body)
                call = None if stub.mail is None or CALL in body else tool_call(asked.get("tools", []), stub.mail)
                is_codex = self.path.endswith("/responses")
                events = responses(text, call) if is_codex else messages(text, asked["model"], call)
                lines = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
                self.reply("text/event-stream", lines.encode())

            def reply(self, kind, body):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


# The id of the one call; a request that has it has its result, too.
CALL = "toolu_send_1"


def tool_call(tools, args):
    """The call of `send_email`, by whichever name the agent offers it; None where it does not."""
    for tool in tools:
        if tool.get("type") == "namespace":
            call = tool_call(tool["tools"], args)
            if call:
                return {**call, "namespace": tool["name"]}
        elif tool.get("name", "").endswith("send_email"):
            return {"name": tool["name"], "args": args}
    return None


def messages(text, model, call):
    usage = {"input_tokens": 11, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": message}
    block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
    if call:
        block = {"type": "tool_use", "id": CALL, "name": call["name"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call["args"])}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stop = "tool_use" if call else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None},
           "usage": {"output_tokens": 7}}
    yield {"type": "message_stop"}


def responses(text, call):
    content = [{"type": "output_text", "text": text}]
    item = {"type": "message", "role": "assistant", "id": "msg_1", "content": content}
    if call:
        item = {"type": "function_call", "id": "fc_1", "call_id": CALL, "name": call["name"],
                "arguments": json.dumps(call["args"])}
        if "namespace" in call:
            item["namespace"] = call["namespace"]
    usage = {"input_tokens": 16, "input_tokens_details": {"cached_tokens": 3}, "output_tokens": 7,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 23}
    yield {"type": "response.created", "response": {"id": "resp_1"}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}
