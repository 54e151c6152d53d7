"""Puts together what all clients of a run wrote down (player.h), and what was done to the server, as one history for
hf-check-history.

What no client knows becomes an operation with the result `maybe`: a request in flight when its host was killed, and
that its GRANTED callback was then refused; of a LOCK that was in flight while the server was killed, that the first
copy of the request was granted before the crash, and that the server took the lock back at the end of grace because
it was not reclaimed; of a shared lock that is reclaimed, that it was exclusive; of a waiter that could not be called back
for long, that the server gave it up; of a LOCK that the store refused, that it was held until its commit failed; of an
UNLOCK that the server did not answer at once, that it was undone because the store refused it or the server crashed.

A start that continues (recovery.notify=needed) makes hardly anything uncertain: the queue goes on over it in its order, and nothing
lapses. Only the first copy of a blocking LOCK may have waited before the restart, and may have been granted meanwhile.
"""
import bisect
from dataclasses import dataclass
from typing import NamedTuple

NEVER = 2**63 - 1
ALL = "0 7 x"
GIVEN_UP_NS = 8 * 10**9  # a callback is given up after three attempts of 5 s, the first of which began some time before


class Noticed(AssertionError):
    """A client itself noticed a fault of the server."""


class Restart(NamedTuple):
    """Of the server, in nanoseconds: nothing of the old process takes effect after ended, nothing of the new one before began."""
    began: int
    ended: int
    continued: bool = False


@dataclass(slots=True)
class Op:
    owner: str
    file: str
    kind: str
    cells: str     # FIRST LAST MODE
    invoked: int
    completed: int = NEVER
    result: str = "maybe"
    holder: str = ""
    refused: tuple = ()       # when a LOCK was; it was then sent again
    unanswered: bool = False  # an UNLOCK; it was then sent again
    answered: int = 0         # when the callback of a grant was

    def line(self):
        return f"{self.file} {self.owner} {self.kind} {self.cells} {self.invoked} {self.completed} {self.result} {self.holder}\n"

    def meets(self, other):
        """At the same time, of another owner, and both cannot have their range."""
        first, last, mode = self.cells.split()
        other_first, other_last, other_mode = other.cells.split()
        return (self.owner != other.owner and self.invoked <= other.completed and other.invoked <= self.completed
                and first <= other_last and other_first <= last and "x" in (mode, other_mode))


def read_life(path, host):
    """The operations of one life of a host, in order of invocation."""
    ops = {}
    with open(path, encoding="ascii") as lines:
        for line in lines:
            words = line.split()
            if words[0] == "i" and len(words) == 9:
                number, process, file, kind, first, last, mode, at = words[1:]
                ops[number] = Op(f"{host}.{process}", file, kind, f"{first} {last} {mode}", int(at))
            elif words[0] == "c" and len(words) >= 4:
                op = ops[words[1]]
                op.completed, op.result, op.holder = int(words[2]), words[3], " ".join(words[4:])
                if op.result == "blocked":
                    op.kind = "wait"
            elif words[0] == "r":
                ops[words[1]].refused += (int(words[2]),)
            elif words[0] == "u":
                ops[words[1]].unanswered = True
            elif words[0] == "a":
                ops[words[1]].answered = int(words[2])
            elif words[0] == "x":
                raise Noticed(f"host {host}: {line.strip()}")
    return list(ops.values())


# What a request of a killed process may have done besides: a LOCK may wait, a CANCEL may have ended that, and a callback
# may reach the new life, which refuses it.
KILLED = {"enter": "wait", "cancel": "leave", "grant": "lapse"}


def join_lives(lives):
    """A request that a killed process had in flight can take effect until its host has said that it restarted."""
    for life, following in zip(lives, [*lives[1:], []]):
        end = next((op.completed for op in following if op.kind == "crash"), NEVER)
        for op in life:
            if op.completed == NEVER:
                op.completed = end
                if op.kind in KILLED:
                    yield Op(op.owner, op.file, KILLED[op.kind], op.cells, op.invoked, end)
        yield from (op for op in life if not (op.kind in ("test", "reclaim", "cancel") and op.result == "maybe"))


def refused(op):
    """A LOCK that the store refused, and that was asked for again: while its commit was tried, others were told to wait for it.
    They were promised nothing."""
    began = op.invoked
    for ended in op.refused:
        for kind in ("lock", "lapse"):
            yield Op(op.owner, op.file, kind, op.cells, began, ended)
        began = ended + 1


def undone(ops, restarts):
    """An UNLOCK whose commit failed, or was cut off by a crash of the server, is not answered. What it released is held again until
    it takes effect for good. This shows only if a LOCK, undone with it, had the range meanwhile, and a third request was told to
    wait for that. (A request that is granted or denied waits for the commit, too.)"""
    unlocks = [op for op in ops if op.unanswered and op.kind == "unlock"]
    if not unlocks:
        return
    locks = [op for op in ops if op.refused or any(phantoms(op, restarts))]
    waits = [op for op in ops if op.kind == "wait"]
    for op in unlocks:
        had = [lock for lock in locks if lock.file == op.file and lock.meets(op)]
        if any(wait.file == op.file and wait.meets(lock) and wait.invoked <= op.completed and op.invoked <= wait.completed
               for lock in had for wait in waits if wait.owner != op.owner):
            for kind in ("release", "restore"):
                yield Op(op.owner, op.file, kind, op.cells, op.invoked, op.completed)


def given_up(op):
    """A waiter that was unreachable for long: what it was granted may have been taken back, and its place in the queue. That
    includes a host that stood still after it had taken the grant and before it answered the callback."""
    end = max(op.completed, op.answered)
    if op.kind == "grant" and end - op.invoked > GIVEN_UP_NS:
        for kind in ("lapse", "leave"):
            yield Op(op.owner, op.file, kind, op.cells, op.invoked + GIVEN_UP_NS, end)


def phantoms(op, restarts):
    """What a LOCK or a wait that was in flight at a restart of the server may have done besides."""
    if op.kind == "reclaim" and op.cells.endswith("s"):
        yield Op(op.owner, op.file, "weaken", op.cells, op.invoked, op.completed)
    if op.kind not in ("lock", "enter", "wait", "grant"):
        return
    for began, ended, continued in restarts[bisect.bisect_right(restarts, op.invoked, key=lambda restart: restart.ended):]:
        if began >= op.completed:
            return
        if continued:  # the first copy waited, and waits on
            if op.kind == "enter":
                yield Op(op.owner, op.file, "wait", op.cells, op.invoked, op.completed)
            continue
        if op.kind != "grant":
            yield Op(op.owner, op.file, "lock", op.cells, op.invoked, min(ended, op.completed))
        if op.kind in ("enter", "wait"):  # the first copy waited, until the restart forgot it
            yield Op(op.owner, op.file, "wait", op.cells, op.invoked, min(ended, op.completed))
        yield Op(op.owner, op.file, "lapse", op.cells, began, op.completed)


def write(path, hosts, restarts, files, programs=None):
    """hosts: for each host number the logs of its lives. restarts: each Restart of the server, in order. programs: of each program outside, which TEST names as process 0.PID, its owner. Returns how many operations clients completed, and of each host the moments at which a lock was granted."""
    count, grants = 0, {host: [] for host in hosts}
    with open(path, "w", encoding="ascii") as out:
        ops = []
        for host, logs in hosts.items():
            for op in join_lives([read_life(log, host) for log in logs]):
                if op.holder.startswith("0."):
                    by, held = op.holder.split(" ", 1)
                    op.holder = f"{programs[int(by[2:])]} {held}"
                ops.append(op)
                count += op.result != "maybe"
                if op.result == "granted" and op.kind in ("lock", "enter", "grant"):
                    grants[host].append(op.completed)
                if op.kind == "crash":
                    out.writelines(Op(f"{host}.*", file, "crash", ALL, op.invoked, op.completed, "granted").line() for file in files)
                    continue
                out.write(op.line())
                out.writelines(extra.line() for extra in phantoms(op, restarts))
                out.writelines(extra.line() for extra in (*given_up(op), *refused(op)))
        out.writelines(extra.line() for extra in undone(ops, restarts))
        for began, ended, continued in restarts:
            if not continued:
                out.writelines(Op("*.*", file, "restart", ALL, began, ended, "granted").line() for file in files)
    return count, {host: sorted(times) for host, times in grants.items()}
