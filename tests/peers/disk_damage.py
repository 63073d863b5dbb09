"""A database in which a byte was changed by somebody else: the engine does not start on it, or its audit says what is
wrong; what neither can see is counted and said. See disk.sh."""

import contextlib
import hashlib
import pathlib
import random
import sqlite3
import tempfile

from first_letter import check
from household import Client, House, Smarthost, asked_binary
from sinks import wait_for

# EX_DATAERR of sysexits.h.
BAD_DATA = 65
B_TREE_PAGES = (2, 5, 10, 13)


def furnish(house, letters):
    house.start()
    with Client(house.port) as client:
        for number in range(letters):
            # Of its own in each letter, so that no two are alike when they are packed.
            chance = random.Random(number)
            body = b"\r\n".join(chance.randbytes(30).hex().encode() for _ in range(50)) + b"\r\n"
            check("a letter is taken", client.send(f"damage-{number}@traveller.example", body).startswith("250"), client.replies)
    wait_for("all answers", lambda: len(house.smarthost.copies()) == letters, 60)
    house.stop()


def contents(path):
    """A hash of all that can be read, or nothing if it cannot be read."""
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    connection.text_factory = bytes
    try:
        tables = [name.decode() for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")]
        digest = hashlib.sha256()
        for table in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                digest.update(repr(row).encode())
        return digest.hexdigest()
    except sqlite3.Error:
        return None
    finally:
        connection.close()


class Damage:
    """Changes of single bytes, each in a copy of the whole database, and what is made of them. Whatever the test itself
    wants to know of the database is read here, while it is whole: a page that is damaged later cannot get in the way."""

    def __init__(self, house):
        self.house, self.whole = house, house.database.read_bytes()
        self.page = int.from_bytes(self.whole[16:18], "big")
        self.truth = contents(house.database)
        self.letters = house.column("SELECT bytes FROM raw_letters")

    def places_in_trees(self, chance, count):
        """Kind of page and number of its cells, by which SQLite finds its way."""
        numbers = set(range(1, len(self.whole) // self.page + 1)) - self.free_pages()
        starts = [(number - 1) * self.page + (100 if number == 1 else 0) for number in sorted(numbers)]
        starts = [start for start in starts if self.whole[start] in B_TREE_PAGES and self.whole[start + 3:start + 5] != b"\0\0"]
        return [start + chance.choice((0, 4)) for start in chance.sample(starts, min(count, len(starts)))]

    def free_pages(self):
        """Pages that belong to no tree but may still look like one (https://www.sqlite.org/fileformat2.html#the_freelist)."""
        word = lambda at: int.from_bytes(self.whole[at:at + 4], "big")
        free, trunk = set(), word(32)
        while trunk:
            start = (trunk - 1) * self.page
            free |= {trunk, *(word(start + 8 + 4 * leaf) for leaf in range(word(start + 4)))}
            trunk = word(start)
        return free

    def places_in_letters(self, chance, count):
        """One place in each of so many letters, at which a change is one of the letter and not of bytes that a row left behind."""
        found = []
        for letter in chance.sample(self.letters, len(self.letters)):
            # As it is stored, that is packed: sixteen bytes of the middle are those of no other.
            middle = len(letter) // 2
            mark = letter[middle - 8:middle + 8]
            found += [at + 8 for at in places(self.whole, mark) if self.is_of_a_letter(at + 8)][:1]
            if len(found) == count:
                break
        return found

    def is_of_a_letter(self, place):
        with self.byte_changed(place, 1):
            with contextlib.suppress(sqlite3.Error):
                return self.house.column("SELECT bytes FROM raw_letters") != self.letters
        return False

    @contextlib.contextmanager
    def byte_changed(self, place, bit):
        """The database with that one byte changed; whole again afterwards, so that no damage outlives its test."""
        damaged = bytearray(self.whole)
        damaged[place] ^= bit
        self.write(damaged)
        try:
            yield
        finally:
            self.house.kill()
            self.write(self.whole)

    def write(self, data):
        for suffix in ("-wal", "-shm"):
            pathlib.Path(f"{self.house.database}{suffix}").unlink(missing_ok=True)
        # What is put here is older than what the engine noted of its own.
        self.house.database.with_name("newest").unlink(missing_ok=True)
        self.house.database.write_bytes(data)

    def seen_at_start(self):
        """Whether the engine refuses to start; it must say so properly, and write nothing into what is damaged."""
        before = self.house.database.read_bytes()
        if self.house.start(may_fail=True) is not None:
            self.house.stop()
            return False
        code = self.house.exit_code(10)
        self.house.kill()
        said = self.house.said()
        self.house.log_path.write_text("")
        check("a damaged database is refused with 65", code == BAD_DATA and "damaged" in said, f"{code}\n{said}")
        check("nothing is written into a damaged database", self.house.database.read_bytes() == before)
        return True

    def seen_by_audit(self):
        code, out, err = self.house.ask("doctor", "--audit")
        check("the audit comes to a verdict", code in (0, 1, BAD_DATA), f"{code}\n{out}{err}")
        return code != 0, out + err

    def noticed_by(self):
        changes = contents(self.house.database) != self.truth
        if self.seen_by_audit()[0]:
            return "found by the audit"
        if not changes:
            return "nowhere that matters"
        return "refused at the start" if self.seen_at_start() else "seen by nobody"


def places(whole, piece):
    at = whole.find(piece)
    while at >= 0:
        yield at
        at = whole.find(piece, at + 1)


def story(binary, scratch):
    house = House(binary, pathlib.Path(scratch) / "house", Smarthost())
    try:
        furnish(house, 30)
        damage, chance = Damage(house), random.Random(14)
        trees = damage.places_in_trees(chance, 12)
        for place in trees:
            with damage.byte_changed(place, 1):
                check(f"a page that SQLite cannot follow is seen at the start (byte {place})", damage.seen_at_start())
        letters = damage.places_in_letters(chance, 4)
        check("the letters are found in the file", len(letters) >= 4, letters)
        for place in letters:
            with damage.byte_changed(place, 1):
                seen, said = damage.seen_by_audit()
            check(f"a changed letter is seen by the audit (byte {place})", seen, said)
        seen = {"refused at the start": 0, "found by the audit": 0, "nowhere that matters": 0, "seen by nobody": 0}
        for _ in range(16):
            with damage.byte_changed(chance.randrange(len(damage.whole)), 1 << chance.randrange(8)):
                seen[damage.noticed_by()] += 1
        house.start()
        house.probe("with the database as it was")
        house.stop()
        house.audit("with the database as it was")
        counted = ", ".join(f"{count} {how}" for how, count in seen.items() if count)
        print(f"ok: damaged pages: {len(trees)} of {len(trees)} refused at the start with {BAD_DATA}, nothing written; changed letters: "
              f"{len(letters)} of {len(letters)} found by the audit; 16 bytes anywhere: {counted}", flush=True)
    finally:
        house.close()


def main():
    binary = asked_binary()
    with tempfile.TemporaryDirectory(prefix="attache-damage-") as scratch:
        story(binary, scratch)


if __name__ == "__main__":
    main()
