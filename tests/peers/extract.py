"""Text of PDFs that groff made, read by the engine's locked child and by poppler's pdftotext: the same words."""

import collections
import json
import random
import re
import subprocess
import sys

WORDS = """river market amount invoice payment delivery kitchen window garden number total balance account street valley
bridge morning evening coffee supper breakfast contract signature address quarter budget meeting calendar report winter
Straße Grüße Köln für façade déjà señor año Ærø smørrebrød""".split()
RECALL_MIN = 0.98


def source(seed: int) -> str:
    """A document with a title, sections, paragraphs and a table."""
    chance = random.Random(seed)
    lines = [".TL", f"Invoice {seed}", ".AU", "Carol Kern"]
    for section in range(chance.randrange(1, 8)):
        lines += [".NH", f"Section {section}"]
        for _ in range(chance.randrange(1, 6)):
            words = [chance.choice(WORDS) for _ in range(chance.randrange(5, 90))]
            lines += [".PP", " ".join(words) + "."]
        lines += [".TS", "tab(;);", "l n."]
        lines += [f"{chance.choice(WORDS)};{chance.randrange(10**6) / 100:.2f}" for _ in range(4)] + [".TE"]
    return "\n".join(lines) + "\n"


def words(text: str) -> collections.Counter:
    """The words of a text. A word that is divided at the end of a line is one: pdftotext joins it."""
    joined = re.sub(r"[-\u00ad\u2010]\n+", "", text)
    return collections.Counter(re.findall(r"\w+", joined))


def run(command: list[str], given: bytes) -> bytes:
    return subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True, timeout=30).stdout


def main(attache: str, folder: str) -> None:
    found = expected = 0
    for seed in range(20):
        pdf = run(["groff", "-k", "-t", "-ms", "-Tpdf"], source(seed).encode())
        path = f"{folder}/{seed}.pdf"
        with open(path, "wb") as file:
            file.write(pdf)
        theirs = words(run(["pdftotext", path, "-"], b"").decode())
        answer = json.loads(run([attache, "extract-worker", "application/pdf"], pdf))
        text = answer["Ok"]["text"]
        ours = words(text)
        hits = sum((ours & theirs).values())
        recall = hits / sum(theirs.values())
        if recall < RECALL_MIN:
            missing = (theirs - ours).most_common(10)
            sys.exit(f"FAILED: {seed}.pdf: recall {recall:.3f}, missing {missing}")
        if seed == 0:
            # The control: half of the text is noticed.
            half = words(text[: len(text) // 2])
            if sum((half & theirs).values()) / sum(theirs.values()) >= RECALL_MIN:
                sys.exit("FAILED: half a document counts as whole")
        found, expected = found + hits, expected + sum(theirs.values())
    print(f"ok: of {expected} words that pdftotext reads in 20 documents of groff, {found} are read ({found / expected:.4f})")


main(sys.argv[1], sys.argv[2])
