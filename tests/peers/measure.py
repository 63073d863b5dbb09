"""What users have and load clients do not: models that take their time, many personas, letters with large files, a start with
nothing cached. Each part says how many rows there were. See measure.sh."""

import argparse
import base64
import contextlib
import json
import pathlib
import random
import re
import smtplib
import subprocess
import tempfile
import threading
import time

import counted
from counted import Counted, plan
from first_letter import check
from model_stub import ModelStub, say
from sinks import wait_for

# As packaging/attache.service has them.
MEMORY = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "4194304"}
TABLES = ("messages", "runs", "run_turns", "thread_tool_events", "deliveries", "attachments")
# A waiting run of a build without the optimiser takes as much memory as one of a release.
MOST = {"mb_a_waiting_run": 0.25, "kept_of_its_size": 1.05}


def memory_mb(house):
    status = pathlib.Path(f"/proc/{house.process.pid}/status").read_text()
    return {name: int(re.search(rf"^{field}:\s+(\d+)", status, re.M)[1]) / 1024 for name, field in (("all", "VmRSS"), ("own", "RssAnon"))}


def rows(house):
    return {table: house.rows(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}


def seconds(work):
    began = time.monotonic()
    work()
    return round(time.monotonic() - began, 3)


@contextlib.contextmanager
def built(binary, answer=plan, edit=lambda house: None):
    with tempfile.TemporaryDirectory() as folder:
        house = Counted(binary, pathlib.Path(folder) / "house", ModelStub(answer))
        house.house.environment.update(MEMORY)
        edit(house.house)
        try:
            yield house
        finally:
            house.house.kill()


def slow_models(binary, runs, wait):
    """Runs that wait for a model: memory and CPU meanwhile, and what is left of them."""
    is_slow = threading.Event()

    def answer(_request):
        if is_slow.is_set():
            time.sleep(wait)
        return say("From seven to ten, and gladly.")

    places = {"runs_max": runs, "runs_per_persona_max": runs}
    with built(binary, answer, lambda house: house.edit("configs/inference.json", concurrency=places)) as slow:
        house = slow.start().house
        slow.answer(counted.WARM)
        is_slow.set()
        before = memory_mb(house)
        with smtplib.SMTP("127.0.0.1", house.port, local_hostname="traveller.example") as session:
            for letter in range(runs):
                slow.send(session, f"slow-{letter}@traveller.example")
        wait_for("all runs to wait", lambda: house.column("SELECT count(*) FROM run_turns WHERE state = 'started'") == [runs], wait, 0.1)
        waiting, cpu, began = memory_mb(house), house.cpu_seconds(), time.monotonic()
        time.sleep(min(5, wait / 3))
        cpu = (house.cpu_seconds() - cpu) / (time.monotonic() - began)
        wait_for("all answers", lambda: house.column("SELECT count(*) FROM runs WHERE state = 'succeeded'") == [runs + counted.WARM], 4 * wait + 60, 0.2)
        return {"runs": runs, "mb_a_waiting_run": round((waiting["own"] - before["own"]) / runs, 3), "cpu_of_a_core": round(cpu, 3),
                "idle_mb": round(before["all"], 1), "waiting_mb": round(waiting["all"], 1), "after_mb": round(memory_mb(house)["all"], 1),
                "rows": rows(house)}


def many_personas(binary, personas):
    """An engine with many personas: how long commands and its start take, and what it does while nothing comes."""
    def fill(house):
        source = house.folder / "personas/concierge"
        persona = json.loads((source / "persona.json").read_text())
        persona.pop("aliases", None)
        text = json.dumps(persona, indent=1)
        for number in range(personas):
            folder = house.folder / f"personas/p{number:05}"
            folder.mkdir()
            for file in ("PERSONA.md", "active.md"):
                (folder / file).write_bytes((source / file).read_bytes())
            (folder / "persona.json").write_text(text.replace("concierge@", f"p{number:05}@").replace('"concierge"', f'"p{number:05}"'))

    with built(binary, edit=fill) as many:
        house = many.house
        found = {"personas": personas, "first_start_s": seconds(many.start)}
        many.answer(1)
        found |= {f"{' '.join(command)}_s": seconds(lambda: house.run(*command, seconds=300))
                  for command in (["status"], ["persona", "list"], ["config", "check"])}
        cpu, began = house.cpu_seconds(), time.monotonic()
        time.sleep(10)
        found["idle_cpu_percent"] = round((house.cpu_seconds() - cpu) / (time.monotonic() - began) * 100, 2)
        found["mb"] = round(memory_mb(house)["all"], 1)
        house.stop()
        return found | {"start_s": seconds(many.start), "rows": rows(house)}


def large_letters(binary, letters, megabytes):
    """Letters with a file: memory, time, and what is kept of them."""
    chance = random.Random(11)
    with built(binary) as large:
        house = large.start().house
        large.answer(2)
        before, kept, took, sizes = memory_mb(house), large.kept_bytes(), [], 0
        with smtplib.SMTP("127.0.0.1", house.port, local_hostname="traveller.example", timeout=120) as session:
            for number in range(letters):
                file = base64.encodebytes(chance.randbytes(megabytes * 1_000_000 * 3 // 4)).decode()
                letter = (f"From: {counted.GUEST}\nTo: {counted.HOUSE}\nSubject: Breakfast with a file\nMessage-ID: <large-{number}@traveller.example>\n"
                          "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nSee the file.\n"
                          f"--b\nContent-Type: application/octet-stream\nContent-Disposition: attachment; filename=file-{number}.bin\n"
                          f"Content-Transfer-Encoding: base64\n\n{file}\n--b--\n").replace("\n", "\r\n")
                sizes += len(letter)
                took.append(seconds(lambda: session.sendmail(counted.GUEST, counted.HOUSE, letter)))
        wait_for("large letters to be worked off", lambda: not house.column("SELECT 1 FROM runs WHERE finished_at IS NULL"), 60, 0.1)
        return {"letters": letters, "megabytes": megabytes, "accept_s": sorted(took)[len(took) // 2],
                "kept_of_its_size": round((large.kept_bytes() - kept) / sizes, 3), "before_mb": round(before["all"], 1),
                "after_mb": round(memory_mb(house)["all"], 1), "rows": rows(house)}


def cold_start(binary):
    """From nothing to the first answer, with the pages of the binary and the database out of the cache where that is allowed."""
    with built(binary) as house:
        house.start()
        house.answer(20)
        house.house.stop()
        dropped = subprocess.run(["sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"], stderr=subprocess.DEVNULL, check=False).returncode == 0
        started = seconds(house.start)
        return {"caches_dropped": dropped, "start_s": started, "first_answer_s": seconds(lambda: house.answer(1)), "rows": rows(house.house)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--wait", type=float, default=30)
    parser.add_argument("--personas", type=int, default=10_000 - 2)
    parser.add_argument("--letters", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=24)
    parser.add_argument("--only", choices=("slow", "personas", "large", "cold"))
    args = parser.parse_args()
    parts = {"slow": lambda: slow_models(args.attache, args.runs, args.wait), "personas": lambda: many_personas(args.attache, args.personas),
             "large": lambda: large_letters(args.attache, args.letters, args.megabytes), "cold": lambda: cold_start(args.attache)}
    for name, part in parts.items():
        if args.only in (None, name):
            found = part()
            print(json.dumps({name: found}), flush=True)
            wrong = {what: found[what] for what, most in MOST.items() if found.get(what, 0) > most}
            check(f"{name}: at most {MOST}", not wrong, wrong)


if __name__ == "__main__":
    main()
