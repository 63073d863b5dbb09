"""What happens to N nodes, their network and their database while they work. See nodes.sh."""

import collections
import random
import threading
import time

# Of the network, in turns: the answer to a COMMIT is what is lost most often.
CYCLE = ("swallow", "cut", "hang", "swallow", "deaf", "delay")
# So many faults at once, at most.
HANDS = 3
# Seconds between two of one hand, and what one takes beside its own time.
PAUSE, OVERHEAD = (0.1, 0.6), 1.0
# Shares of a lease: beyond it, so that others bury the node; and around it, so that a node ends by itself or does not.
BEYOND, AROUND = (2.5, 3.5), (0.2, 1.6)
WAKES_SECONDS = 6
SWALLOW_SECONDS = 3.0


def drawn(chance, lease, kills, freezes, restarts, cuts):
    """All faults with their seconds, in the order in which they strike."""
    planned = [("kill", 0.0)] * kills + [("restart", 0.0)] * restarts
    planned += [("freeze", lease * chance.uniform(*BEYOND)) for _ in range(freezes)]
    for number in range(cuts):
        kind = CYCLE[number % len(CYCLE)]
        planned.append((kind, SWALLOW_SECONDS if kind == "swallow" else lease * chance.uniform(*AROUND)))
    chance.shuffle(planned)
    return planned


class Faults:
    """Strikes a cluster with all that is drawn, a few at once."""

    def __init__(self, cluster, planned, seed):
        self.cluster, self.left, self.total = cluster, collections.deque(planned), len(planned)
        self.done, self.woken, self.buried, self.wrong, self.lock = 0, 0, 0, [], threading.Lock()
        self.unburied = []
        self.began = time.monotonic()
        self.seconds = sum(seconds + OVERHEAD + sum(PAUSE) / 2 for _, seconds in planned) / HANDS
        self.threads = [threading.Thread(target=self.work, args=(random.Random(f"{seed}-{at}"),), daemon=True) for at in range(HANDS)]
        for thread in self.threads:
            thread.start()

    def due(self, share):
        """Waits until that share of the faults may have struck: by the clock, and never far ahead of them."""
        while self.done < self.total:
            by_clock = (time.monotonic() - self.began) / self.seconds
            if share <= min(by_clock, (self.done + HANDS + 1) / self.total):
                return
            time.sleep(0.02)

    def work(self, chance):
        while True:
            with self.lock:
                if not self.left:
                    return
                kind, seconds = self.left.popleft()
            time.sleep(chance.uniform(*PAUSE))
            try:
                self.strike(kind, seconds, chance.choice(self.cluster.nodes))
            except BaseException as failure:  # SystemExit of a check, too: the story ends with it, not only this thread.
                self.wrong.append(f"{kind}: {failure!r}"[:2000])
                with self.lock:
                    self.left.clear()
            with self.lock:
                self.done += 1

    def strike(self, kind, seconds, node):
        for struck in self.cluster.nodes if kind == "restart" else [node]:
            struck.strikes += kind != "kill"
        if kind == "restart":
            self.cluster.database.restart()
        elif kind == "kill":
            with node.lock:
                node.kill()
                node.up()
        elif kind == "freeze":
            with node.lock:
                self.freeze(node, seconds)
        else:
            node.wire.strike(kind, seconds)
            time.sleep(seconds)

    def freeze(self, node, seconds):
        """Stops it beyond its lease: it finds itself buried when it wakes, and ends; unless the database was away meanwhile, so
        that nobody could tell who lives."""
        node.mourn()
        node.freeze()
        time.sleep(seconds)
        node.wake()
        self.woken += 1
        # A single node is buried by nobody.
        if len(self.cluster.nodes) > 1 and node.exit_code(WAKES_SECONDS) is None:
            self.unburied.append(f"{node.folder.name} was stopped for {seconds:.1f} s with a lease of {self.cluster.lease} s and did not end")
        self.buried += node.process.poll() is not None
        node.mourn()

    def close(self):
        for thread in self.threads:
            thread.join()
        if 3 * len(self.unburied) > self.woken:
            self.wrong += self.unburied
