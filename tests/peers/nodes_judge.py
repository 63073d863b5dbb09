"""What must hold of letters, runs and answers after N nodes have worked on one database. Pure: from values to complaints."""

import collections
import copy
import dataclasses

# States of a run that is in a node's hands; whatever follows it in the feed says that it no longer is.
AT_WORK = "run.running"
# Letters of a thread in the evidence that the self-test makes up.
OF_A_THREAD = 3

Letter = collections.namedtuple("Letter", "name persona thread number")
Stored = collections.namedtuple("Stored", "name persona thread seq disposition")
Run = collections.namedtuple("Run", "id name persona thread state error_class seq")
Answer = collections.namedtuple("Answer", "message_id run state possible_duplicate seq")
Event = collections.namedtuple("Event", "kind thread run")
Copy = collections.namedtuple("Copy", "message_id replies_to sha256")
# A request to the model: about which letter, and whose answers of its thread were shown to it.
Request = collections.namedtuple("Request", "name answers")


@dataclasses.dataclass
class Evidence:
    """Each by a witness of its own: `taken` by those who wrote, `copies` by the mail server behind, `requests` and `billed`
    by the model, the rest by rows. `bounds`: account -> micro-dollars, an account being a persona, or empty for all of
    them; `short`: the account that is to be used up, `frugal`: the personas who pay from it."""

    taken: list
    stored: list
    runs: list
    answers: list
    events: list
    copies: list
    requests: list
    billed: dict
    accounts: dict
    bounds: dict
    short: str
    frugal: set


def complaints(evidence):
    """One line for each thing that is wrong."""
    found = [*letters(evidence), *runs(evidence), *answers(evidence), *order(evidence), *history(evidence), *money(evidence)]
    return [f"{what}: {len(rows)}, such as {sorted(map(str, rows))[:3]}" for what, rows in found if rows]


def twice(values):
    return [value for value, count in collections.Counter(values).items() if count > 1]


def letters(evidence):
    stored = {row.name: row for row in evidence.stored}
    yield "letters with a yes that are lost", [letter.name for letter in evidence.taken if letter.name not in stored]
    yield "letters stored twice", twice(row.name for row in evidence.stored)
    yield "letters that nobody wrote", set(stored) - {letter.name for letter in evidence.taken}
    yield "letters kept from their run", [row for row in evidence.stored if row.disposition != "run"]
    threads = collections.defaultdict(set)
    for letter in evidence.taken:
        if letter.name in stored:
            threads[letter.persona, letter.thread].add(stored[letter.name].thread)
    yield "threads torn apart", [thread for thread, found in threads.items() if len(found) > 1]
    yield "letters out of order in their thread", [
        after.name for before, after in neighbours(evidence.taken)
        if before.name in stored and after.name in stored and stored[before.name].seq > stored[after.name].seq]


def neighbours(taken):
    """Each letter with the one before it in its thread."""
    by_thread = collections.defaultdict(list)
    for letter in taken:
        by_thread[letter.thread].append(letter)
    for thread in by_thread.values():
        thread.sort(key=lambda letter: letter.number)
        yield from zip(thread, thread[1:])


def waiting_for_money(evidence):
    """Runs that are parked until tomorrow, and those that stand behind them."""
    parked = {run.thread: run for run in evidence.runs
              if run.persona in evidence.frugal and (run.state, run.error_class) == ("waiting_retry", "budget")}
    return {run.id for run in evidence.runs if run.thread in parked
            and (run == parked[run.thread] or (run.state == "queued" and run.seq > parked[run.thread].seq))}


def runs(evidence):
    waits = waiting_for_money(evidence)
    names = collections.Counter(run.name for run in evidence.runs)
    yield "letters without a run", [row.name for row in evidence.stored if row.name not in names]
    yield "letters with more than one run", [name for name, count in names.items() if count > 1]
    yield "runs that did not succeed", [run for run in evidence.runs
                                        if run.state != "succeeded" and run.id not in waits]


def answers(evidence):
    """An answer for each run that succeeded, out of the house once, or oftener if that was announced."""
    by_run = collections.Counter(answer.run for answer in evidence.answers)
    done = {run.id: run for run in evidence.runs if run.state == "succeeded"}
    yield "runs without an answer", [run for run in done if run not in by_run]
    yield "runs with more than one answer", twice(answer.run for answer in evidence.answers)
    yield "answers of no run that succeeded", [run for run in by_run if run not in done]
    yield "answers that are not out", [answer for answer in evidence.answers if answer.state != "done"]
    came = collections.defaultdict(list)
    for mail in evidence.copies:
        came[mail.message_id].append(mail)
    known = {answer.message_id: answer for answer in evidence.answers}
    yield "mails that are in no outbox", set(came) - set(known)
    yield "answers that never came", [name for name in known if name not in came]
    yield "second copies without a flag", [name for name, mails in came.items() if len(mails) > 1
                                           and not (name in known and known[name].possible_duplicate)]
    yield "copies with other bytes", [name for name, mails in came.items() if len({mail.sha256 for mail in mails}) > 1]
    yield "answers to another letter than their run's", [
        name for name, mails in came.items() if name in known and known[name].run in done
        and {mail.replies_to for mail in mails} != {done[known[name].run].name}]
    replies = collections.defaultdict(set)
    for mail in evidence.copies:
        replies[mail.replies_to].add(mail.message_id)
    yield "letters with two different answers", [name for name, mails in replies.items() if len(mails) > 1]


def order(evidence):
    """Runs of a thread one after the other, in the order of their letters; no instant of any clock is compared."""
    at_work, ran, overlaps, doubled = {}, collections.defaultdict(list), [], []
    for event in evidence.events:
        before = at_work.get(event.thread)
        if event.kind == AT_WORK:
            if before == event.run:
                doubled.append(event.run)
            elif before:
                overlaps.append(f"{event.run} beside {before}")
            at_work[event.thread] = event.run
            if event.run not in ran[event.thread]:
                ran[event.thread].append(event.run)
        elif before == event.run:
            del at_work[event.thread]
    yield "runs of one thread at the same time", overlaps
    yield "runs claimed twice", doubled
    names = {run.id: run for run in evidence.runs}
    seqs = {row.name: row.seq for row in evidence.stored}
    by_letter = lambda run: seqs.get(names[run].name, 0) if run in names else 0
    yield "threads whose runs were out of order", [thread for thread, found in ran.items() if found != sorted(found, key=by_letter)]
    yield "runs that were at work in no event", [run.id for run in evidence.runs if run.state == "succeeded"
                                                 and run.id not in ran[run.thread]]
    queued = collections.defaultdict(list)
    for answer in sorted(evidence.answers, key=lambda answer: answer.seq):
        if answer.run in names:
            queued[names[answer.run].thread].append(by_letter(answer.run))
    yield "threads whose answers were out of order", [thread for thread, found in queued.items() if found != sorted(found)]


def overtaken(evidence):
    """Answers whose first copy came after that of a later letter of their thread."""
    place = {letter.name: letter for letter in evidence.taken}
    latest, count, seen = collections.Counter(), 0, set()
    for mail in evidence.copies:
        letter = place.get(mail.replies_to)
        if letter and mail.message_id not in seen:
            seen.add(mail.message_id)
            count += letter.number < latest[letter.thread]
            latest[letter.thread] = max(letter.number, latest[letter.thread])
    return count


def history(evidence):
    """No model was asked about a letter before it could be shown the answers to all earlier ones of the thread."""
    place = {letter.name: letter for letter in evidence.taken}
    earlier = collections.defaultdict(set)
    for letter in evidence.taken:
        earlier[letter.thread].add(letter)
    yield "letters that were worked on before the one before them was answered", {
        request.name for request in evidence.requests if request.name in place
        and not {letter.name for letter in earlier[place[request.name].thread]
                 if letter.number < place[request.name].number} <= request.answers}
    yield "requests about letters that nobody wrote", {request.name for request in evidence.requests if request.name not in place}


def money(evidence):
    yield "accounts above their bound", [(account, evidence.accounts[account], bound) for account, bound in evidence.bounds.items()
                                         if evidence.accounts.get(account, 0) > bound]
    whole = {"": sum(evidence.billed.values()), **evidence.billed}
    yield "bills above their bound", [(account, whole.get(account, 0), bound) for account, bound in evidence.bounds.items()
                                      if whole.get(account, 0) > bound]
    bound, spent = evidence.bounds[evidence.short], evidence.accounts.get(evidence.short, 0)
    if any(letter.persona in evidence.frugal for letter in evidence.taken):
        yield "bounds that nobody reached, so that nothing is shown", [] if waiting_for_money(evidence) else [bound]
        # A bound is proven by spending up to it, not by spending nothing.
        yield "bounds of which less than a quarter was spent", [(spent, bound)] if spent < bound / 4 else []


def made_up():
    """Two threads in which all went well."""
    evidence = Evidence([], [], [], [], [], [], [], {"porter": 60, "miser": 40}, {"": 100, "miser": 40}, {"": 200, "miser": 50},
                        "miser", {"miser"})
    for seq in range(2 * OF_A_THREAD):
        thread, number = seq % 2, seq // 2
        persona, name = ("porter", "miser")[thread], f"t{thread}-{number}"
        evidence.taken.append(Letter(name, persona, thread, number))
        evidence.stored.append(Stored(name, persona, f"thread-{thread}", seq, "run"))
        if persona == "miser" and number == OF_A_THREAD - 1:
            evidence.runs.append(Run(f"r{seq}", name, persona, f"thread-{thread}", "waiting_retry", "budget", seq))
            continue
        evidence.runs.append(Run(f"r{seq}", name, persona, f"thread-{thread}", "succeeded", None, seq))
        evidence.events += [Event(kind, f"thread-{thread}", f"r{seq}") for kind in ("letter.run", AT_WORK, "run.queued", AT_WORK, "run.succeeded")]
        evidence.requests.append(Request(name, frozenset(f"t{thread}-{earlier}" for earlier in range(number))))
        evidence.answers.append(Answer(f"a{seq}", f"r{seq}", "done", seq == 0, seq))
        evidence.copies += [Copy(f"a{seq}", name, "same")] * (2 if seq == 0 else 1)
    return evidence


def changed(rows, at, **members):
    return [row._replace(**members) if place == at else row for place, row in enumerate(rows)]


# What is done to good evidence -> the complaint that must come of it.
DOCTORED = {
    "letters with a yes that are lost": lambda e: e.stored.pop(2),
    "letters stored twice": lambda e: e.stored.append(e.stored[0]),
    "letters that nobody wrote": lambda e: e.taken.pop(4),
    "threads torn apart": lambda e: setattr(e, "stored", changed(e.stored, 4, thread="thread-9")),
    "letters out of order in their thread": lambda e: setattr(e, "stored", changed(e.stored, 0, seq=9)),
    "letters kept from their run": lambda e: setattr(e, "stored", changed(e.stored, 0, disposition="filed:quota")),
    "letters without a run": lambda e: e.runs.pop(4),
    "letters with more than one run": lambda e: e.runs.append(e.runs[0]._replace(id="r9")),
    "runs that did not succeed": lambda e: setattr(e, "runs", changed(e.runs, 0, state="failed", error_class="crash")),
    "runs without an answer": lambda e: e.answers.pop(),
    "runs with more than one answer": lambda e: e.answers.append(e.answers[1]._replace(message_id="a9")),
    "answers that are not out": lambda e: setattr(e, "answers", changed(e.answers, 1, state="held")),
    "answers that never came": lambda e: e.copies.pop(),
    "mails that are in no outbox": lambda e: e.copies.append(Copy("a9", "t0-0", "same")),
    "second copies without a flag": lambda e: e.copies.append(e.copies[-1]),
    "copies with other bytes": lambda e: e.copies.append(e.copies[0]._replace(sha256="other")),
    "answers to another letter than their run's": lambda e: setattr(e, "copies", changed(e.copies, 3, replies_to="t0-2")),
    "letters with two different answers": lambda e: e.copies.append(Copy("a9", "t0-0", "same")),
    # The third letter of the first thread is begun while the second is at work.
    "runs of one thread at the same time": lambda e: e.events.insert(11, Event(AT_WORK, "thread-0", "r4")),
    "runs claimed twice": lambda e: e.events.insert(2, e.events[1]),
    "threads whose runs were out of order": lambda e: setattr(e, "events", e.events[20:] + e.events[:20]),
    "threads whose answers were out of order": lambda e: setattr(e, "answers", changed(e.answers, 0, seq=9)),
    "letters that were worked on before the one before them was answered":
        lambda e: e.requests.append(Request("t0-2", frozenset({"t0-0"}))),
    "accounts above their bound": lambda e: e.accounts.update({"miser": 51}),
    "bills above their bound": lambda e: e.billed.update({"miser": 51}),
    "bounds that nobody reached": lambda e: setattr(e, "runs", changed(e.runs, 5, error_class=None, state="queued")),
    "bounds of which less than a quarter was spent": lambda e: e.accounts.update({"miser": 1}),
}


def self_test():
    """The control: good evidence passes, and each way of spoiling it is seen. Returns how many there are."""
    if found := complaints(made_up()):
        raise SystemExit(f"FAILED: the judge complains of what is right\n{found}")
    for wanted, spoil in DOCTORED.items():
        evidence = copy.deepcopy(made_up())
        spoil(evidence)
        found = complaints(evidence)
        if not any(line.startswith(wanted) for line in found):
            raise SystemExit(f"FAILED: the judge does not see {wanted}\n{found}")
    return len(DOCTORED)


if __name__ == "__main__":
    print(self_test())
