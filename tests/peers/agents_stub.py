"""A server that speaks just enough of two model APIs, and keeps every request. Standard library only."""

import http.server
import json
import threading


class AgentStub:
    """Answers every question with `text`, as Anthropic's messages or OpenAI's responses, streamed."""

    def __init__(self, text):
        self.requests, stub = [], self

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
                events = responses(text) if self.path.endswith("/responses") else messages(text, asked["model"])
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


def messages(text, model):
    usage = {"input_tokens": 11, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": message}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
           "usage": {"output_tokens": 7}}
    yield {"type": "message_stop"}


def responses(text):
    content = [{"type": "output_text", "text": text}]
    item = {"type": "message", "role": "assistant", "id": "msg_1", "content": content}
    usage = {"input_tokens": 16, "input_tokens_details": {"cached_tokens": 3}, "output_tokens": 7,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 23}
    yield {"type": "response.created", "response": {"id": "resp_1"}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}
