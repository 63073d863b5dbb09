"""A server that speaks streamed chat completions, follows a plan, and keeps every request. Standard library only."""

import http.server
import json
import threading


def call(name, arguments):
    """A plan's step: call one tool. The arguments travel in two pieces, as real servers send them."""
    text = json.dumps(arguments)
    half = len(text) // 2
    first = {"index": 0, "id": "call_stub", "type": "function", "function": {"name": name, "arguments": text[:half]}}
    rest = {"index": 0, "function": {"arguments": text[half:]}}
    return [{"role": "assistant", "tool_calls": [first]}, {"tool_calls": [rest]}], "tool_calls"


def say(text):
    """A plan's step: answer, one line per piece."""
    return [{"role": "assistant", "content": line} for line in text.splitlines(keepends=True)], "stop"


class ChatStub:
    """Serves `plan`, one step per request; a request beyond the plan is answered with 500."""

    def __init__(self, plan):
        self.requests = []
        stub, steps = self, iter(plan)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.requests.append(body)
                step = next(steps, None)
                if self.path != "/v1/chat/completions" or not body.get("stream") or step is None:
                    self.send_error(500, "the stub has no answer to this")
                    return
                pieces, reason = step
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for delta in pieces:
                    self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
                self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
                usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
                self.event({"choices": [], "usage": usage})
                self.wfile.write(b"data: [DONE]\n\n")
                self.close_connection = True

            def event(self, chunk):
                whole = {"id": "chatcmpl-stub", "object": "chat.completion.chunk", "model": "stub-1", **chunk}
                self.wfile.write(b"data: " + json.dumps(whole).encode() + b"\n\n")
                self.wfile.flush()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
