"""A workspace whose letters a model server answers: letters with and without a picture, a thread, an answer by a schema."""

import base64
import json
import os
import struct
import subprocess
import zlib
from email.utils import formatdate

import guest_house
from first_letter import GUEST, HOUSE, check

SCHEMA = {"type": "object", "required": ["guests"], "additionalProperties": False,
          "properties": {"guests": {"type": "array", "items": {"type": "string"}}}}
DUTY = '---\nname: Arrivals\nschedule: "0 9 * * *"\noutput_schema: schemas/arrivals.json\ndeliver_to: store\n---\nWho comes?\n'


def picture(size=96):
    """A grey PNG, large enough to be no ornament."""
    def piece(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + bytes([at % 256] * size) for at in range(size))
    return b"\x89PNG\r\n\x1a\n" + piece(b"IHDR", head) + piece(b"IDAT", zlib.compress(rows)) + piece(b"IEND", b"")


def scan():
    """A PDF file of one page without text."""
    pieces = (b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
              b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] >>")
    file, places = b"%PDF-1.4\n", []
    for number, piece in enumerate(pieces, 1):
        places.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, piece)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return file + b"xref\n0 4\n0000000000 65535 f \n%strailer\n<< /Size 4 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (table, len(file))


def letter(name, text, answers=None, image=None, pdf=None):
    fields = (f"From: Bert Halm <{GUEST}>\r\nTo: {HOUSE}\r\nSubject: Arrival\r\nMessage-ID: <{name}@traveller.example>\r\n"
              f"Date: {formatdate()}\r\nMIME-Version: 1.0\r\n")
    if answers:
        fields += f"In-Reply-To: {answers}\r\n"
    if image is None and pdf is None:
        return fields + f"Content-Type: text/plain\r\n\r\n{text}\r\n"
    named = "image/png; name=room.png" if image else "application/pdf; name=scan.pdf"
    data = base64.encodebytes(image or pdf).decode().replace("\n", "\r\n")
    return fields + (
        f"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n{text}\r\n--b\r\n"
        f"Content-Type: {named}\r\nContent-Disposition: attachment; filename={named.split('=')[1]}\r\n"
        f"Content-Transfer-Encoding: base64\r\n\r\n{data}\r\n--b--\r\n")


class ModelHouse:
    """The repository's workspace with one provider, driven from the command line."""

    def __init__(self, binary, folder, provider, block, model="stub-1", **settings):
        self.binary, self.folder, self.patience = binary, folder, 120  # seconds of one command
        guest_house.write(folder)
        file = folder / "configs" / "inference.json"
        changed = {"provider": provider, "model": model, "providers": {provider: block}, **settings}
        file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))
        # A key of no vendor, and nothing else of this machine.
        keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "XAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "HOUSE_KEY")
        self.environment = {"PATH": os.environ["PATH"], **dict.fromkeys(keys, "sk-house-0123456789abcdef")}

    def attache(self, *words, succeeds=True):
        command = [self.binary, "--workspace", str(self.folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=self.patience, env=self.environment)
        check(f"`attache {' '.join(words)}` succeeds", done.returncode == 0 or not succeeds, done.stdout + done.stderr)
        return done.stdout

    def receive(self, *letter_parts, succeeds=True, **more):
        """Takes a letter in and answers it; the run need not succeed if `succeeds` is false."""
        path = self.folder / "letter.eml"
        path.write_bytes(letter(*letter_parts, **more).encode())
        self.attache("ingest", str(path))
        self.attache("drain", succeeds=succeeds)

    def with_duty(self, schema=SCHEMA):
        persona = self.folder / "personas" / "concierge"
        (persona / "schemas").mkdir(exist_ok=True)
        (persona / "schemas" / "arrivals.json").write_text(json.dumps(schema))
        (persona / "responsibilities" / "arrivals.md").write_text(DUTY)

    def mails(self):
        return [path.read_text() for path in sorted((self.folder / "data" / "outbox").rglob("*.eml"))]

    def runs(self):
        return json.loads(self.attache("runs", "list", "--json"))
