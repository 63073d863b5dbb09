"""A model behind the real OpenCode: asks for `send_email` of our tool server when it is offered, then says that it did."""
import http.server, json, sys

class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        names = [tool["function"]["name"] for tool in body.get("tools", [])]
        done = any(message["role"] == "tool" for message in body["messages"])
        print(json.dumps({"tools": names, "done": done}), file=sys.stderr, flush=True)
        delta, why = {"role": "assistant", "content": "I have answered."}, "stop"
        if "attache_send_email" in names and not done:
            mail = {"to": ["marta@guesthouse.example"], "subject": "x", "body": "From seven to ten, says the agent."}
            call = {"name": "attache_send_email", "arguments": json.dumps(mail)}
            delta = {"role": "assistant", "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": call}]}
            why = "tool_calls"
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m1"}
        chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                  {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": why}], "usage": usage}]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
server.serve_forever()
