#!/usr/bin/env python3
"""player.py HOST LIFE OUR_ADDRESS SERVER_ADDRESS SEED LOG [--files N] [--processes N] [--change-modes] [--false-reclaims]

One client host of a history: some processes that test, lock, wait, cancel and unlock at random, over one TCP
connection each, as a kernel would: a request is repeated until it is answered, locks are reclaimed when the server
says that it has restarted. Every request is written down before it is sent, and again when its answer has arrived
(history.py reads that). Ends at SIGTERM, when all requests under way are answered.
"""
import argparse
import os
import random
import re
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "interop"))

from holdfast_test import host, nlm, nsm, rpc  # noqa: E402
from holdfast_test.xdr import Encoder  # noqa: E402

CELLS = 8  # of a file; each is one byte, and the last goes to the end
ANSWER_S = 3          # then the request is repeated on a new connection
BUSY = ("DENIED_GRACE_PERIOD", "DENIED_NOLOCKS")  # not an answer to the question: asked again
BUSY_PAUSE_S = 0.05


def last_cell(lock):
    return CELLS - 1 if lock.length == 0 else lock.offset + lock.length - 1


class Log:
    """Written by one system call a line, so that what a killed process knew is there."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.count, self.guard = 0, threading.Lock()

    def write(self, *words):
        os.write(self.file, (" ".join(map(str, words)) + "\n").encode())

    def invoked(self, process, file, kind, cells, exclusive, at=None):
        with self.guard:
            self.count += 1
            number = self.count
        self.write("i", number, process, file, kind, cells[0], cells[1], "x" if exclusive else "s",
                   at or time.monotonic_ns())
        return number

    def completed(self, number, result, *holder, at=None):
        self.write("c", number, at or time.monotonic_ns(), result, *holder)


class Client:
    """The host: what its processes hold, its status monitor and its lock manager."""

    def __init__(self, arguments):
        self.number, self.server = arguments.host, arguments.server
        self.name = f"host{arguments.host}.example".encode()
        self.address, self.state = arguments.address, 2 * arguments.life + 1
        self.log = Log(arguments.log)
        self.host = host.Host(arguments.address, answer=self.answer)
        self.news = threading.Condition()
        self.restarts = 0         # of the server, as far as we were told
        self.server_state = 0
        self.reclaiming = False
        self.stopping = False
        self.dice = random.Random(f"{arguments.seed}/{arguments.host}/{arguments.life}")
        self.false_reclaims = arguments.false_reclaims
        self.processes = [Process(self, number, arguments) for number in range(arguments.processes)]

    def answer(self, call):
        if (call.prog, call.proc) == (nsm.PROG, nsm.STAT):
            return rpc.success_message(call.xid, Encoder().int(nsm.STAT_SUCC, self.state).bytes())
        if (call.prog, call.proc) == (nsm.PROG, nsm.NOTIFY):
            d = call.decode()
            self.told_of_restart((d.opaque(), d.int())[1])
        elif (call.prog, call.proc) == (nlm.PROG, nlm.GRANTED):
            cookie, exclusive, lock = nlm.decode_test_args(4, call.args)
            taken = lock.svid < len(self.processes) and self.processes[lock.svid].granted(lock, exclusive)
            return rpc.success_message(call.xid, nlm.res(cookie, "GRANTED" if taken else "DENIED"))
        return host.answer_void(call)

    def told_of_restart(self, state):
        """The same notice may come twice; a number that is smaller than one before is a fault (NSM-06)."""
        with self.news:
            if state < self.server_state:
                self.log.write("x", "state", state, "after", self.server_state)
            self.restarts += state != self.server_state
            self.server_state = state
            self.news.notify_all()

    def reclaim_for_ever(self):
        """As a kernel's reclaimer: no process begins a request that changes something meanwhile."""
        connection, told = Connection(self), 0
        while True:
            with self.news:
                self.news.wait_for(lambda: self.restarts > told)
                told = self.restarts
                self.reclaiming = True
                held = [(p, file, cells, exclusive) for p in self.processes for file, cells, exclusive in p.runs()]
            for process, file, cells, exclusive in held:
                self.reclaim(connection, process, file, cells, exclusive)
            if self.false_reclaims:
                self.reclaim_falsely(connection)
            with self.news:
                self.reclaiming = self.restarts > told
                self.news.notify_all()

    def reclaim(self, connection, process, file, cells, exclusive):
        number = self.log.invoked(process.number, file, "reclaim", cells, exclusive)
        stat = connection.ask(nlm.LOCK, nlm.lock_args(4, b"r", process.lock(file, cells), exclusive=exclusive, reclaim=True),
                              busy=())
        with self.news:
            process.set_held(file, cells, exclusive if stat == "GRANTED" else None)
        self.log.completed(number, "granted" if stat == "GRANTED" else "denied")

    def reclaim_falsely(self, connection):
        """One cell that the process does not hold, at random."""
        process = self.dice.choice(self.processes)
        free = [(file, (cell, cell)) for file, modes in process.held.items() for cell in range(CELLS) if modes[cell] is None]
        if free:
            self.reclaim(connection, process, *self.dice.choice(free), True)

    def run(self):
        with self.host:
            if self.state > 1:
                self.tell_of_our_crash()
            threading.Thread(target=self.reclaim_for_ever, daemon=True).start()
            threads = [threading.Thread(target=process.run) for process in self.processes]
            for thread in threads:
                thread.start()
            print("ready", flush=True)
            for thread in threads:
                thread.join()

    def tell_of_our_crash(self):
        number = self.log.invoked("*", "*", "crash", (0, CELLS - 1), True)
        message = rpc.call_message(rpc.new_xid(), nsm.PROG, 1, nsm.NOTIFY, nsm.stat_chge(self.name.decode(), self.state))
        while True:
            try:
                with rpc.Udp(self.server, nsm.PORT, source=(self.address, 0), timeout=0.5) as client:
                    client.send(message)
                    client.reply()
                    break
            except OSError:
                continue
        self.log.completed(number, "granted")


class Connection:
    """To the server; made again when it breaks."""

    def __init__(self, client):
        self.client, self.tcp = client, None

    def ask(self, procedure, args, busy=BUSY, decode=False):
        """The answer, however often the server dies meanwhile."""
        xid = rpc.new_xid()
        while True:
            try:
                if not self.tcp:
                    self.tcp = rpc.Tcp(self.client.server, nsm.PORT, source=(self.client.address, 0), timeout=ANSWER_S)
                self.tcp.send(rpc.call_message(xid, nlm.PROG, 4, procedure, args))
                result = nlm.decode_result(procedure, 4, self.tcp.reply_to(xid).results)
            except (OSError, EOFError, AssertionError):
                if self.tcp:
                    self.tcp.close()
                self.tcp = None
                time.sleep(0.01)
                continue
            if result.stat not in busy:
                return result if decode else result.stat
            xid = rpc.new_xid()
            time.sleep(BUSY_PAUSE_S)


class Process:
    def __init__(self, client, number, arguments):
        self.client, self.number = client, number
        self.dice = random.Random(f"{arguments.seed}/{arguments.host}/{arguments.life}/{number}")
        self.files = [f"f{n}" for n in range(arguments.files)]
        self.change_modes = arguments.change_modes
        self.held = {file: [None] * CELLS for file in self.files}  # None, or exclusive: True or False
        self.connection = Connection(client)
        self.waits = None      # (file, cells, exclusive)
        self.granted_at = None

    # ---- what it holds ----

    def lock(self, file, cells):
        first, last = cells
        return nlm.Lock(caller=self.client.name, fh=file.encode(), oh=b"%d@%s" % (self.number, self.client.name),
                        svid=self.number, offset=first, length=0 if last == CELLS - 1 else last - first + 1)

    def set_held(self, file, cells, exclusive):
        for cell in range(cells[0], cells[1] + 1):
            self.held[file][cell] = exclusive

    def runs(self):
        """What it holds as the server sees it: the longest runs of one mode."""
        for file, modes in self.held.items():
            first = 0
            for cell in range(1, CELLS + 1):
                if cell == CELLS or modes[cell] != modes[first]:
                    if modes[first] is not None:
                        yield file, (first, cell - 1), modes[first]
                    first = cell

    def holds_any(self):
        return any(mode is not None for modes in self.held.values() for mode in modes)

    def granted(self, lock, exclusive):
        """A GRANTED callback: true if this process waits for just that, or has it."""
        cells = (lock.offset, last_cell(lock))
        wanted = (lock.fh.decode(), cells, exclusive)
        with self.client.news:
            if self.waits == wanted:
                self.granted_at = self.granted_at or time.monotonic_ns()
                self.client.news.notify_all()
                return True
            return all(mode == exclusive for mode in self.held[wanted[0]][cells[0]:cells[1] + 1])

    # ---- what it does ----

    def run(self):
        while not self.client.stopping:
            first = self.dice.randrange(CELLS)
            cells = (first, min(CELLS - 1, first + self.dice.choice((0, 0, 1, 1, 2, 5))))
            file, exclusive, chance = self.dice.choice(self.files), self.dice.random() < 0.6, self.dice.random()
            mine = any(mode is not None for mode in self.held[file][cells[0]:cells[1] + 1])
            if chance < 0.15:
                self.test(file, cells, exclusive)
            elif chance < 0.3 and not self.holds_any():
                self.wait(file, cells, exclusive)
            elif chance < 0.65 and (self.change_modes or not mine):
                self.try_lock(file, cells, exclusive)
            elif self.holds_any():
                file, (first, last), _ = self.dice.choice(list(self.runs()))
                self.unlock(file, sorted((self.dice.randint(first, last), self.dice.randint(first, last))))
        for file, cells, _ in list(self.runs()):
            self.unlock(file, cells)

    def test(self, file, cells, exclusive):
        number = self.client.log.invoked(self.number, file, "test", cells, exclusive)
        result = self.connection.ask(nlm.TEST, nlm.test_args(4, b"t", self.lock(file, cells), exclusive), decode=True)
        if result.stat == "GRANTED":
            self.client.log.completed(number, "granted")
            return
        h = result.holder
        host_number = re.fullmatch(rb"\d+@host(\d+)\.example", h.oh)[1].decode()
        self.client.log.completed(number, "denied", f"{host_number}.{h.svid}", h.offset, last_cell(h), "x" if h.exclusive else "s")

    def begin_change(self):
        """How many restarts of the server are known, when no reclaimer runs any more."""
        with self.client.news:
            self.client.news.wait_for(lambda: not self.client.reclaiming)
            return self.client.restarts

    def lock_until_sure(self, file, cells, exclusive, block):
        """LOCK. A server that restarted meanwhile may have forgotten the lock: asked again, as a kernel does."""
        args = nlm.lock_args(4, b"l", self.lock(file, cells), exclusive=exclusive, block=block, state=self.client.state)
        while True:
            before = self.begin_change()
            stat = self.connection.ask(nlm.LOCK, args)
            with self.client.news:
                if stat != "GRANTED" or self.client.restarts == before and not self.client.reclaiming:
                    if stat == "GRANTED":
                        self.set_held(file, cells, exclusive)
                    return stat

    def try_lock(self, file, cells, exclusive):
        number = self.client.log.invoked(self.number, file, "lock", cells, exclusive)
        stat = self.lock_until_sure(file, cells, exclusive, block=False)
        self.client.log.completed(number, "granted" if stat == "GRANTED" else "denied")

    def wait(self, file, cells, exclusive):
        """A blocking LOCK; after a while, or when the server has restarted, the process gives up and cancels."""
        with self.client.news:
            self.waits, self.granted_at = (file, cells, exclusive), None
            restarts = self.client.restarts
        began = time.monotonic_ns()
        asking = self.client.log.invoked(self.number, file, "enter", cells, exclusive, at=began)
        granting = self.client.log.invoked(self.number, file, "grant", cells, exclusive, at=began)
        stat = self.lock_until_sure(file, cells, exclusive, block=True)
        if stat != "BLOCKED":
            self.client.log.completed(asking, "granted" if stat == "GRANTED" else "denied")
            self.end_wait(granting, "maybe")
            return
        self.client.log.completed(asking, "blocked")
        with self.client.news:
            self.client.news.wait_for(lambda: self.granted_at or self.client.restarts != restarts,
                                      self.dice.choice((0.02, 0.2, 2)))
            sure = self.granted_at and self.client.restarts == restarts and not self.client.reclaiming
            if sure:
                self.set_held(file, cells, exclusive)
        if sure:
            self.end_wait(granting, "granted")
        else:
            self.cancel(granting, file, cells, exclusive)

    def cancel(self, granting, file, cells, exclusive):
        """CANCEL: denied says that we hold the lock; it is then given back."""
        self.begin_change()
        number = self.client.log.invoked(self.number, file, "cancel", cells, exclusive)
        stat = self.connection.ask(nlm.CANCEL, nlm.cancel_args(4, b"c", self.lock(file, cells), exclusive=exclusive))
        if stat == "DENIED":
            with self.client.news:
                self.set_held(file, cells, exclusive)  # or the callback, which may still come, would be refused
        self.end_wait(granting, "granted" if stat == "DENIED" else "maybe")
        self.client.log.completed(number, "granted" if stat == "GRANTED" else "denied")
        if stat == "DENIED":
            self.unlock(file, cells)

    def end_wait(self, granting, result):
        with self.client.news:
            at = self.granted_at if result == "granted" else None
            self.waits = self.granted_at = None
        self.client.log.completed(granting, result, at=at)

    def unlock(self, file, cells):
        self.begin_change()
        with self.client.news:
            self.set_held(file, cells, None)
        number = self.client.log.invoked(self.number, file, "unlock", cells, True)
        self.connection.ask(nlm.UNLOCK, nlm.unlock_args(4, b"u", self.lock(file, cells)))
        self.client.log.completed(number, "granted")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("host", type=int)
    parser.add_argument("life", type=int)
    parser.add_argument("address")
    parser.add_argument("server")
    parser.add_argument("seed")
    parser.add_argument("log")
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--change-modes", action="store_true", help="lock again, in another mode, what is held")
    parser.add_argument("--false-reclaims", action="store_true", help="after each restart reclaim something at random")
    client = Client(parser.parse_args())

    def stop(*_):
        client.stopping = True

    signal.signal(signal.SIGTERM, stop)
    client.run()
    os._exit(0)  # the reclaimer waits for ever


if __name__ == "__main__":
    main()
