"""Letters to N nodes as a mail server brings them: to one of them, to another when that one does not say yes, and again until
one does. See nodes.sh."""

import collections
import random
import smtplib
import threading
import time

from first_letter import check
from nodes_cluster import FRUGAL, PERSONAS, RELAY
from nodes_judge import Letter

CLIENTS = 8
PER_THREAD = (2, 6)
# Every so many threads one is the frugal persona's.
FRUGAL_EVERY = 6
# Threads of one guest work on several nodes at once, and what one of them remembers is in the context of the others.
GUESTS = 7
REPLY_SECONDS = 5
RETRY_SECONDS = 0.05


def threads_of(letters, chance):
    """Threads of letters, as many letters as asked."""
    planned, others = [], [persona for persona in PERSONAS if persona != FRUGAL]
    while letters:
        number, count = len(planned), min(letters, chance.randint(*PER_THREAD))
        letters -= count
        persona = FRUGAL if number % FRUGAL_EVERY == 1 else chance.choice(others)
        planned.append([Letter(f"t{number}-{at}", persona, number, at) for at in range(count)])
    return planned


def guest(letter):
    return f"guest{letter.thread % GUESTS}@traveller.example"


def written(letter):
    """A letter that follows up on the one before of its thread, without waiting for an answer."""
    before = f"<t{letter.thread}-{letter.number - 1}@traveller.example>"
    follows = f"In-Reply-To: {before}\r\nReferences: {before}\r\n" if letter.number else ""
    return (f"Authentication-Results: {RELAY}; dkim=pass header.d=traveller.example\r\n"
            f"From: {guest(letter)}\r\nTo: {letter.persona}@guesthouse.example\r\nSubject: Stay {letter.thread}\r\n"
            f"Message-ID: <{letter.name}@traveller.example>\r\n{follows}\r\nQuestion {letter.name} for {letter.persona}.\r\n").encode()


class MailServer:
    """Brings all threads of letters to the nodes, each thread's one after the other; `due(share)` waits until that share of
    the letters may be on its way."""

    def __init__(self, nodes, threads, due, seed):
        self.nodes, self.due, self.lock = nodes, due, threading.Lock()
        self.left, self.total = collections.deque(threads), sum(map(len, threads))
        self.begun, self.taken, self.refusals, self.wrong = 0, [], collections.Counter(), []
        self.threads = [threading.Thread(target=self.work, args=(random.Random(f"{seed}-{at}"),), daemon=True) for at in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def work(self, chance):
        while True:
            with self.lock:
                if not self.left:
                    return
                thread = self.left.popleft()
            for letter in thread:
                with self.lock:
                    self.begun += 1
                    share = self.begun / self.total
                self.due(share)
                self.bring(letter, chance)

    def bring(self, letter, chance):
        text, port = written(letter), None
        while True:
            port = chance.choice([node.port for node in self.nodes if node.port != port] or [port])
            reply = self.offer(letter, text, port)
            if reply == 250:
                with self.lock:
                    self.taken.append(letter)
                return
            with self.lock:
                self.refusals[reply] += 1
                if reply >= 500:
                    return self.wrong.append(f"{letter.name} was refused with {reply}")
            time.sleep(RETRY_SECONDS)

    def offer(self, letter, text, port):
        """The code of the last reply; 0 where there was none."""
        try:
            with smtplib.SMTP("127.0.0.1", port, local_hostname="mail.traveller.example", timeout=REPLY_SECONDS) as session:
                session.sendmail(guest(letter), f"{letter.persona}@guesthouse.example", text)
            return 250
        except smtplib.SMTPRecipientsRefused as refused:
            return next(iter(refused.recipients.values()))[0]
        except smtplib.SMTPResponseException as refused:
            return refused.smtp_code
        except (OSError, smtplib.SMTPException):
            return 0

    def close(self, seconds):
        deadline = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(deadline - time.monotonic(), 0.1))
        check(f"every letter gets its yes in {seconds:.0f} s after the last fault", not any(thread.is_alive() for thread in self.threads),
              [len(self.taken), self.total, self.refusals])
