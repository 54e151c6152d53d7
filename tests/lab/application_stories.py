"""Programs of others lock from two guests while the service is killed, stopped and moved between its nodes:
SQLite, flock(1) and procmail. Each leaves a result that is wrong if a lock was held twice, or lost, only once.
"""
import contextlib
import os
import re
import sqlite3

import failover_stories
from failover_stories import guests
from holdfast_lab import story, worker as lab_worker
from holdfast_lab.worker import check_counter, enough
from holdfast_test import tap

GUESTS = ("alpha", "beta")
JOBS = 5000  # more than can be taken
ALL = os.environ.get("HOLDFAST_LAB") == "all"


class Worker(lab_worker.Worker):
    explain = staticmethod(failover_stories.explain_hang)


# Each is a fault while its block runs, and over after it.

@contextlib.contextmanager
def killed(pair):
    owner = pair.owner()
    owner.crash()
    yield
    owner.revive()


@contextlib.contextmanager
def paused(pair):
    owner = pair.owner()
    owner.pause()
    try:
        yield
    finally:
        owner.resume()  # also if the story fails: a process that is stopped cannot end


@contextlib.contextmanager
def moved(pair):
    pair.move()
    yield


# Through which the applications go; the last leaves the service where it was at first.
FAULTS = (killed, paused, moved, killed, moved, paused) if ALL else (killed, moved)


def go_through_faults(workers, faults=FAULTS):
    """Each fault happens while all work, is over when all have results from the other node, and leaves two nodes: the longest
    seconds from a fault until each guest had a result."""
    pair, longest = failover_stories.lab.pair, 0
    for fault in faults:
        for worker in workers:
            worker.wait_for_more()
        owner = pair.ready()
        watch = story.Watch()
        with fault(pair):
            for worker in workers:
                worker.wait_for_more(2)  # the first may have been in flight
            longest = max(longest, watch.took)
        pair.ready()
        assert pair.owner() is not owner, "the service has not moved"
    for worker in workers:
        worker.wait_for_more()
    return longest


def tell(what, faults, longest):
    tap.note(f"applications: {what}, through {len(faults)} faults; longest time for a result of each guest {longest:.1f} s")


@tap.test
def sqlite_counts_exactly():
    """Given a counter in a database with a rollback journal, when both guests add to it through faults, then it is the number of
    acknowledged transactions, each is there, and the database is sound."""
    export = failover_stories.lab.export
    with sqlite3.connect(export / "counter.db") as database:
        database.executescript("CREATE TABLE counter(total); INSERT INTO counter VALUES(0); CREATE TABLE added(guest, number);")
    workers = [Worker(guest, f"add-with-sqlite /mnt/counter.db {guest.name}") for guest in guests(*GUESTS)]
    longest = go_through_faults(workers)
    enough(workers)
    acknowledged = {(worker.guest.name, number) for worker in workers for number in worker.done("added")}
    check_counter(export / "counter.db", acknowledged)
    assert sum(len(worker.lines) for worker in workers) == len(acknowledged), "an error, or an answer given twice"
    tell(f"SQLite: {len(acknowledged)} transactions", FAULTS, longest)


@tap.test
def sqlite_survives_a_guest_that_loses_power():
    """The same with a guest that loses power within its transactions, while the service is killed: its journal is rolled
    back by the other; one transaction may be there without the guest having said so."""
    pair, export = failover_stories.lab.pair, failover_stories.lab.export
    with sqlite3.connect(export / "power.db") as database:
        database.executescript("CREATE TABLE counter(total); INSERT INTO counter VALUES(0); CREATE TABLE added(guest, number);")
    alpha, beta = guests(*GUESTS)
    workers = [Worker(alpha, "add-with-sqlite /mnt/power.db alpha"), Worker(beta, "add-with-sqlite /mnt/power.db beta")]
    for worker in workers:
        worker.wait_for_more()
    owner = pair.ready()
    beta.crash()
    owner.crash()
    watch = story.Watch()
    beta.boot()
    lost = workers.pop()
    workers[0].wait_for_more(2)
    took = watch.took
    guests("beta")
    workers.append(Worker(beta, "add-with-sqlite /mnt/power.db beta-again"))
    for worker in workers:
        worker.wait_for_more()
    owner.revive()
    enough(workers)
    names = ("alpha", "beta-again")
    acknowledged = {(name, number) for name, worker in zip(names, workers) for number in worker.done("added")}
    acknowledged |= {("beta", number) for number in lost.done("added")}
    check_counter(export / "power.db", acknowledged, [("beta", len(lost.done("added")) + 1)])
    tap.note(f"applications: SQLite: {len(acknowledged)} transactions; node and guest killed together: the other guest "
             f"went on {took:.1f} s later")


@tap.test
def flock_pipelines_take_each_job_once():
    """Given a queue of jobs in a file, when both guests take from it under flock(1) through faults, then each job is done
    once, in the order of the queue."""
    export = failover_stories.lab.export
    (export / "queue").write_text("".join(f"job-{number}\n" for number in range(JOBS)))
    (export / "done").write_text("")
    workers = [Worker(guest, f"take-jobs /mnt/queue /mnt/done {guest.name}") for guest in guests(*GUESTS)]
    longest = go_through_faults(workers)
    enough(workers)
    done = [line.split() for line in (export / "done").read_text().splitlines()]
    left = (export / "queue").read_text().splitlines()
    assert all(line == "took one" for worker in workers for line in worker.lines), [worker.lines[-5:] for worker in workers]
    count = sum(len(worker.lines) for worker in workers)
    assert sorted(job for job, _ in done) == sorted(f"job-{number}" for number in range(count)), "a job taken twice, or lost"
    assert left == [f"job-{number}" for number in range(count, JOBS)], left[:3]
    assert {name for _, name in done} == set(GUESTS)
    tell(f"flock(1): {count} jobs", FAULTS, longest)


def messages(text):
    """Each message of a mailbox, as (guest, number); fails if it is not whole."""
    for part in re.split(r"^(?=From )", text, flags=re.MULTILINE)[1:]:
        guest, number = re.search(r"^Subject: (\S+) (\d+)$", part, re.MULTILINE).groups()
        wanted = [f"{guest} {number}: line {line} {'.' * 63}" for line in range(1, 61)]
        assert part.partition("\n\n")[2].rstrip("\n").splitlines() == wanted, f"not whole: {part[:300]}"
        yield guest, int(number)


def deliver(mailbox, way):
    export = failover_stories.lab.export
    workers = [Worker(guest, f"deliver-mail /mnt/{mailbox} {guest.name} {way}") for guest in guests(*GUESTS)]
    longest = go_through_faults(workers)
    enough(workers)
    text = (export / mailbox).read_text()
    found = list(messages(text))
    wanted = [(worker.guest.name, number) for worker in workers for number in worker.done("delivered")]
    again = sum(len(worker.done("again")) for worker in workers)
    assert sorted(found) == sorted(wanted), f"{len(found)} in the mailbox, {len(wanted)} delivered"
    assert text.startswith("From "), text[:100]
    assert not (export / f"{mailbox}.lock").exists(), "a lock file was left"
    tell(f"procmail, {way}: {len(found)} messages, {again} tried again", FAULTS, longest)


@tap.test
def mail_is_delivered_once_with_dot_locks_and_fcntl():
    """Given a mailbox, when procmail delivers into it from both guests through faults, with a lock file and fcntl, then each
    message is there once and whole."""
    deliver("mail-both", "dotlock")


@tap.test
def mail_is_delivered_once_with_fcntl_alone():
    """The same without lock files: only the service's locks keep messages apart."""
    deliver("mail-fcntl", "fcntl")
