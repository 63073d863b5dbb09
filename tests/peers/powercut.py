"""Power cuts under an engine at work, and the control that must lose letters. See powercut.sh."""

import os
import pathlib
import random
import tempfile
import time

from disks import LoopDisk
from first_letter import check
from household import House, Smarthost, Writers, asked_binary

# How a build with debug assertions is told to commit without waiting for the disk.
CARELESS = {"ATTACHE_CHAOS_SYNCHRONOUS": "NORMAL"}


def missing(house, taken):
    """Letters that got a yes and are not in the database with their bytes and their run or rule."""
    kept = dict(house.rows(
        "SELECT l.sha256, m.message_id FROM messages m JOIN raw_letters l ON l.id = m.raw_id WHERE m.direction = 'inbound' "
        "AND (m.disposition <> 'run' OR EXISTS (SELECT 1 FROM runs r WHERE r.trigger_message_id = m.id))"))
    return [letter for letter in taken if kept.get(letter.sha256) != letter.name]


class Outage:
    """Cut after cut on one disk, the engine going on each time with what the last cut left it."""

    def __init__(self, binary, scratch, label, environment=None):
        self.disk, self.smarthost, self.label = LoopDisk(scratch), Smarthost(), label
        self.house = House(binary, self.disk.path / "house", self.smarthost, environment=environment)
        self.taken, self.cuts, self.lost, self.damage = [], 0, [], []
        # A cut is to strike an engine at work, not a database that is just being made.
        self.house.start()
        self.house.stop()
        os.sync()

    def cut(self, chance):
        self.cuts += 1
        self.house.start()
        writers = Writers(self.house, f"{self.label}-{self.cuts}", pause=0.005)
        # Among letters, however slow the machine is, and anywhere between two of them.
        letters, deadline = chance.randint(1, 30), time.monotonic() + 5
        while len(writers.taken()) < letters and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.03))
        self.house.freeze()
        self.disk.cut_power()
        self.house.kill()
        self.taken += writers.close()
        self.disk.power_again()
        lost, known = missing(self.house, self.taken), set(self.lost)
        self.lost += [letter for letter in lost if letter not in known]
        if wrong := self.house.books():
            self.damage.append(wrong)

    def close(self):
        self.house.close()
        self.disk.close()


def careful(binary, cuts):
    """With the engine as it ships nothing that got a yes is lost, and everything is worked off once."""
    with tempfile.TemporaryDirectory(prefix="attache-powercut-") as scratch:
        outage = Outage(binary, scratch, "cut")
        try:
            chance, began = random.Random(cuts), time.monotonic()
            for _ in range(cuts):
                outage.cut(chance)
            check("no letter that got a yes is lost", not outage.lost, [len(outage.lost), outage.lost[:3]])
            check("the database is whole after every cut", not outage.damage, outage.damage[:3])
            check("the cuts fell among letters", len(outage.taken) >= cuts, len(outage.taken))
            probed = outage.house.start().probe("after the last cut")
            outage.house.stop()
            outage.house.work_off()
            twice = outage.house.judge(outage.taken, "after all cuts")
            print(f"ok: {cuts} power cuts, {len(outage.taken)} letters with a yes, 0 lost, 0 damaged databases, every run once; "
                  f"{twice} answers came twice, announced; a letter is answered {probed:.1f} s after the last cut "
                  f"({time.monotonic() - began:.0f} s in all)", flush=True)
        finally:
            outage.close()


def careless(binary, cuts, to_the_end):
    """The control: an engine that says yes before the disk does must lose letters, or the cuts prove nothing."""
    if next(iter(CARELESS)).encode() not in pathlib.Path(binary).read_bytes():
        return print(f"SKIPPED: the control of powercut.sh: {binary} has no debug assertions, so it cannot be made careless")
    with tempfile.TemporaryDirectory(prefix="attache-powercut-") as scratch:
        outage = Outage(binary, scratch, "control", CARELESS)
        try:
            chance = random.Random(cuts)
            while outage.cuts < cuts and (to_the_end or not outage.lost):
                outage.cut(chance)
            check(f"the control (synchronous = NORMAL) loses letters in {cuts} cuts", outage.lost)
            print(f"ok: the control (synchronous = NORMAL) lost {len(outage.lost)} of {len(outage.taken)} letters with a yes "
                  f"in {outage.cuts} cuts", flush=True)
        finally:
            outage.close()


def main():
    binary = asked_binary()
    cuts = int(os.environ.get("POWER_CUTS", "20"))
    careful(binary, cuts)
    careless(binary, cuts, "POWER_CUTS" in os.environ)


if __name__ == "__main__":
    main()
