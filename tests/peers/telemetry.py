"""Reads an engine's spans and numbers with the parsers of OpenTelemetry and Prometheus. See telemetry.sh."""

import argparse
import base64
import http.server
import importlib
import json
import os
import pathlib
import pkgutil
import signal
import subprocess
import tempfile
import threading
import urllib.request

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.semconv import attributes as stable
from opentelemetry.semconv._incubating import attributes as incubating
from prometheus_client import parser

from first_letter import check
from sinks import free_port, wait_for

OURS = "attache."
SCRIPT = {
    "rules": [
        {"when": {"contains": "go wrong"}, "error": {"class": "bad_request", "message": "the vendor said no"}},
        {"when": {"turn": 0}, "say": "Let me look.", "call": [{"tool": "list_files", "args": {}}],
         "usage": {"input_tokens": 30, "output_tokens": 9}},
        {"say": "Forty seats.", "usage": {"input_tokens": 41, "output_tokens": 4}},
    ]
}


def conventional_names():
    """Every name of an attribute that the conventions know."""
    names = set()
    for package in (stable, incubating):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            values = vars(importlib.import_module(module.name)).values()
            names.update(value for value in values if isinstance(value, str))
    return names


class Collector(http.server.ThreadingHTTPServer):
    """Takes spans as a collector does, by the published messages; a member that they do not have is an error."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Taking)
        self.requests, self.faults = [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def spans(self):
        of_scopes = [scope for request in self.requests for resource in request.resource_spans for scope in resource.scope_spans]
        return [span for scope in of_scopes for span in scope.spans]


class Taking(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            kind = self.headers["Content-Type"]
            assert self.path == "/v1/traces" and kind == "application/json", (self.path, kind)
            self.server.requests.append(read(body))
        except Exception as fault:  # told by the test, not by this thread
            self.server.faults.append(repr(fault))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def read(body):
    """OTLP writes ids in hexadecimal digits (its specification, "JSON Protobuf Encoding"), where Protobuf's JSON has base64."""
    for resource in body["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return json_format.ParseDict(body, trace_service_pb2.ExportTraceServiceRequest())


class Engine:
    """`attache serve` that tells a collector, with a listener for numbers."""

    def __init__(self, attache, folder, collector):
        self.attache, self.folder = attache, folder
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("ATTACHE_")}
        self.port = free_port()
        command = [attache, "init", str(folder), "--domain", "engine.test", "--owner", "olga@home.test"]
        subprocess.run(command, check=True, capture_output=True, env=self.environment)
        (folder / "configs/script.json").write_text(json.dumps(SCRIPT))
        (folder / "configs/inference.json").write_text(json.dumps({
            "provider": "scripted", "model": "test", "providers": {"scripted": {"script": "configs/script.json"}}}))
        gateway = json.loads((folder / "configs/gateway.json").read_text())
        gateway["listeners"] = [{"kind": "http", "address": f"127.0.0.1:{self.port}"}]
        gateway["telemetry"] = {"traces": {"url": f"http://127.0.0.1:{collector.server_port}/v1/traces"}}
        (folder / "configs/gateway.json").write_text(json.dumps(gateway))
        self.persona = json.loads(self.run("--json", "persona", "list")[1])[0]["id"]
        key = json.loads(self.run("--json", "web", "tokens", "create", "prometheus", "--scope", "metrics")[1])
        self.key = key["token"]
        self.log = open(folder / "serve.log", "w+")
        command = [attache, "--workspace", str(folder), "serve"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=self.environment)
        said = [self.process.stdout.readline(), self.process.stdout.readline()]
        check("the engine has pages", said[1].startswith("pages at"), said)

    def run(self, *args):
        command = [self.attache, "--workspace", str(self.folder), *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=self.environment)
        return done.returncode, done.stdout

    def numbers(self):
        """Families of /metrics, by name, as the parser reads them."""
        headers = {"Authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/metrics", headers=headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return list(parser.text_string_to_metric_families(answer.read().decode()))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        check("the engine ends", self.process.wait(30) == 0)


def check_spans(collector, engine, known):
    spans = wait_for("the spans of three runs", lambda: (found := collector.spans()) and len(roots(found)) >= 3 and found)
    check("a collector reads all of them", not collector.faults, collector.faults)
    ids = [span.span_id for span in spans]
    check("ids of spans have eight bytes and are not repeated", len(set(ids)) == len(ids) and {len(id) for id in ids} == {8}, ids)
    check("ids of traces have sixteen bytes", {len(span.trace_id) for span in spans} == {16})
    names = {attribute.key for span in spans for attribute in span.attributes}
    strange = sorted(name for name in names if name not in known and not name.startswith(OURS))
    check("each attribute is one of the conventions, or ours by its name", not strange, strange)
    wanted = {"gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.request.model", "gen_ai.usage.input_tokens", "gen_ai.tool.name",
              "error.type"}
    check("the conventions' own are there", wanted <= names, wanted - names)
    for root in roots(spans):
        inside = [span for span in spans if span.trace_id == root.trace_id and span.parent_span_id]
        check("what is inside a run is its child", all(span.parent_span_id == root.span_id for span in inside))
        times = [time for span in inside for time in (span.start_time_unix_nano, span.end_time_unix_nano)]
        check("and lies between its ends", all(root.start_time_unix_nano <= time <= root.end_time_unix_nano for time in times))
    kinds = {trace_pb2.Status.StatusCode.Name(root.status.code) for root in roots(spans)}
    check("a run that failed is told from those that did not", kinds == {"STATUS_CODE_OK", "STATUS_CODE_ERROR"}, kinds)
    tokens = [attribute.value.int_value for span in spans for attribute in span.attributes
              if attribute.key == "gen_ai.usage.input_tokens"]
    check("tokens are those of the model's answers", sorted(tokens)[-4:] == [30, 30, 41, 41], tokens)


def roots(spans):
    return [span for span in spans if not span.parent_span_id]


def check_numbers(engine):
    families = engine.numbers()
    names = [family.name for family in families]
    check("each family comes once", len(set(names)) == len(names), names)
    check("and says what it is", all(family.type != "unknown" and family.documentation for family in families),
          [family.name for family in families if family.type == "unknown" or not family.documentation])
    by_name = {family.name: family for family in families}
    # The parser takes the end `_total` from the name of a counter.
    changes = by_name["attache_run_changes"]
    check("runs are counted", changes.type == "counter", changes)
    ended = {sample.labels["state"]: sample.value for sample in changes.samples}
    check("two went well and one did not", (ended.get("succeeded"), ended.get("failed")) == (2, 1), ended)
    times = by_name["attache_run_seconds"]
    check("times of runs are a histogram", times.type == "histogram", times)
    buckets = [(float(s.labels["le"]), s.value) for s in times.samples if s.name.endswith("_bucket")]
    counts = [value for _, value in sorted(buckets)]
    check("whose buckets grow", counts == sorted(counts) and counts[-1] == 3, buckets)


def main():
    parsed = argparse.ArgumentParser()
    parsed.add_argument("--attache", required=True)
    attache = parsed.parse_args().attache
    collector = Collector()
    with tempfile.TemporaryDirectory() as scratch:
        engine = Engine(attache, pathlib.Path(scratch) / "house", collector)
        try:
            for text, code in [("How many seats?", 0), ("And tables?", 0), ("Now go wrong.", 1)]:
                check(f"`{text}` ends so", engine.run("ask", engine.persona, text)[0] == code)
            check_spans(collector, engine, conventional_names())
            check_numbers(engine)
        finally:
            engine.stop()
    print("telemetry: spans and numbers are read by the parsers of OpenTelemetry and Prometheus")


if __name__ == "__main__":
    main()
