"""Machines that behave as Linux kernels do, over real sockets, and what their processes believe to hold.

The histories (hf-player) write down what the server says. Here is written down what a client *believes*, with its habits: a GRANTED
is matched by file handle, range and svid, and not by mode; a waiting request is polled by a new LOCK; a CANCEL may overtake such a
LOCK; after a boot svids begin at 0 again, LOCKs are sent before the crash notice arrives, and reclaims carry state 0; each mount (of one of our
addresses, by one transport) numbers its processes for itself. All machines are in this process, so that at each moment all beliefs are
known: two that conflict are a violation (Beliefs).
"""
import random
import threading
import time
import traceback
from dataclasses import dataclass, field

from holdfast_test import nlm, rpc
from holdfast_test.daemon import PORT
from holdfast_test.nlm import CANCEL, GRANTED, LOCK, UNLOCK
from holdfast_test.peer import NSM, SM_NOTIFY, Host, parse_call
from holdfast_test.xdr import Decoder, Encoder

CELLS = 8  # bytes of a file that are locked
SM_STAT = 1
AGAIN_S = 1  # then a request is repeated


class Died(Exception):
    """The machine of this thread was killed."""


@dataclass(frozen=True)
class Span:
    """Cells of a file, to the end if the last is among them."""
    fh: bytes
    first: int
    last: int

    def cells(self):
        return [(self.fh, cell) for cell in range(self.first, self.last + 1)]

    def length(self):
        return 0 if self.last == CELLS - 1 else self.last - self.first + 1


class Beliefs:
    """Of every process: (file, cell) -> {owner: exclusive}. An owner is (machine, mount, svid)."""

    def __init__(self):
        self.guard = threading.Lock()
        self.held, self.violations, self.gained = {}, [], 0
        self.late, self.excused = [], 0  # shared LOCKs that are late: each with the violations that it may have caused

    def gain(self, owner, span, exclusive, how):
        with self.guard:
            self.gained += 1
            for cell in span.cells():
                others = self.held.setdefault(cell, {})
                for other, is_exclusive in others.items():
                    if other != owner and (is_exclusive or exclusive):
                        self.violation(cell, other, exclusive,
                                       f"{time.monotonic():.3f} {cell}: {owner} believes to hold it "
                                       f"({'exclusive' if exclusive else 'shared'}, {how}), and so does {other}")
                others[owner] = exclusive

    def violation(self, cell, other, exclusive, text):
        for late in self.late:
            if late.owner == other and cell in late.span.cells() and not exclusive:
                late.violations.append(text)
                return
        self.violations.append(text)

    def sends_late(self, owner, span):
        """A shared LOCK of a wait that is over arrives late. If it is granted at once, it weakens what its owner has locked exclusively since:
        no server can tell it from a new request. From now until its answer others may get a shared lock there."""
        late = Late(owner, span)
        with self.guard:
            self.late.append(late)
        return late

    def was_late(self, late, blocked):
        """blocked: the late LOCK only waits, and so has weakened nothing."""
        with self.guard:
            self.late.remove(late)
            if blocked:
                self.violations += late.violations
            else:
                self.excused += len(late.violations) + self.weaken(late.owner, late.span)

    def lose(self, owner, span):
        with self.guard:
            for cell in span.cells():
                self.held.get(cell, {}).pop(owner, None)

    def soften(self, owner, span):
        """A process that asks for a shared lock over its own exclusive one has given that up."""
        with self.guard:
            self.weaken(owner, span)

    def weaken(self, owner, span):
        """Under the guard: makes shared what the owner holds; returns how many cells were exclusive."""
        mine = [self.held[cell] for cell in span.cells() if owner in self.held.get(cell, {})]
        exclusive = sum(others[owner] for others in mine)
        for others in mine:
            others[owner] = False
        return exclusive

    def lose_machine(self, machine):
        with self.guard:
            for others in self.held.values():
                for owner in [owner for owner in others if owner[0] == machine]:
                    del others[owner]

    def runs(self, wanted):
        """[(owner, Span, exclusive)] of the owners for which wanted() is true: runs of cells in one mode."""
        with self.guard:
            cells = sorted((owner, cell[0], cell[1], exclusive) for cell, others in self.held.items()
                           for owner, exclusive in others.items() if wanted(owner))
        runs = []
        for owner, fh, cell, exclusive in cells:
            before = runs[-1] if runs else None
            if before and before[0] == owner and before[2] == exclusive and before[1].fh == fh and before[1].last == cell - 1:
                runs[-1] = owner, Span(fh, before[1].first, cell), exclusive
            else:
                runs.append((owner, Span(fh, cell, cell), exclusive))
        return runs


@dataclass(eq=False)
class Late:
    owner: tuple
    span: Span
    violations: list = field(default_factory=list)


@dataclass
class Blocked:
    """An entry of the kernel's list of waiting requests."""
    mount: int
    svid: int
    span: Span
    granted: threading.Event = field(default_factory=threading.Event)


class Machine(Host):
    """A client. mounts: [(server address, transport)]; each has n processes."""

    def __init__(self, network, address, name, beliefs, mounts, n, files, seed):
        super().__init__(network, address, name, True)
        network.hosts.append(self)
        self.beliefs, self.mounts, self.n, self.files = beliefs, mounts, n, files
        self.dice = random.Random(seed)
        self.guard = threading.RLock()
        self.news = threading.Condition(self.guard)
        self.life, self.running, self.reclaiming = 0, True, 0
        self.blocked, self.server_states, self.threads = [], {}, []

    @property
    def nsm_state(self):
        return 2 * self.life + 1

    # ---- what the server asks ----

    def _serve(self, message, transport, source, send):
        call = parse_call(message)
        if self.mute or call is None:
            return
        xid, prog, vers, proc, args = call
        if prog == nlm.PROG and proc == GRANTED:
            cookie, _, lock = nlm.decode_test_args(vers, args)
            send(rpc.success_message(xid, nlm.res(cookie, self.granted(lock, source[0], transport))))
        elif prog == NSM and proc == SM_STAT:
            send(rpc.success_message(xid, Encoder().uint(0).int(self.nsm_state).bytes()))
        elif prog == NSM and proc == SM_NOTIFY:
            d = Decoder(args)
            d.opaque()
            self.server_restarted(source[0], d.int())
            send(rpc.success_message(xid))
        else:
            super()._serve(message, transport, source, send)

    def granted(self, lock, server, transport):
        """Neither the mode nor the cookie is looked at. (Nor is the transport, by a kernel: that no server can mend.)"""
        with self.guard:
            found = [entry for entry in self.blocked
                     if (entry.svid, entry.span.fh, entry.span.first, entry.span.length()) ==
                     (lock.svid, lock.fh, lock.offset, lock.length) and self.mounts[entry.mount] == (server, transport)]
            for entry in found:
                entry.granted.set()
        return "GRANTED" if found else "DENIED"

    def server_restarted(self, server, state):
        with self.guard:
            if self.server_states.get(server) == state:
                return
            self.server_states[server] = state
            self.reclaiming += 1
        self.start(self.reclaim, server, state)

    def reclaim(self, life, server, state):
        """From the list of what is held, with state 0; what is not given back is dropped without a word."""
        wire = {}
        try:
            mine = self.beliefs.runs(lambda owner: owner[0] == self.address and self.mounts[owner[1]][0] == server)
            for owner, span, exclusive in mine:
                if self.server_states.get(server) != state:
                    break  # it restarted again: from the beginning
                wire.setdefault(owner[1], Wire(self, life, self.mounts[owner[1]]))
                stat = wire[owner[1]].ask(LOCK, self.lock_of(owner, span), exclusive=exclusive, reclaim=True)
                if stat != "GRANTED":
                    self.beliefs.lose(owner, span)
        finally:
            with self.news:
                self.reclaiming -= life == self.life
                self.news.notify_all()

    def lock_of(self, owner, span):
        return self.lock(fh=span.fh, svid=owner[2], oh=b"%d@%s" % (owner[2], self.name), offset=span.first, length=span.length())

    # ---- life ----

    def start(self, target, *args):
        def run(life):
            try:
                target(life, *args)
            except Died:
                pass
            except Exception:  # the network's end reports it
                self.network.faults.append(traceback.format_exc())
        with self.guard:
            thread = threading.Thread(target=run, args=(self.life,), daemon=True)
            self.threads.append(thread)
        thread.start()

    def boot(self):
        self.mute = False
        for mount in range(len(self.mounts)):
            for svid in range(self.n):
                self.start(lambda life, mount=mount, svid=svid: Process(self, life, mount, svid).run())

    def kill(self):
        """It forgets everything; what it has sent is on its way."""
        with self.news:
            self.mute = True
            self.life += 1
            self.blocked, self.server_states, self.reclaiming = [], {}, 0
            self.beliefs.lose_machine(self.address)
            self.news.notify_all()

    def tell_of_boot(self, life):
        """sm-notify, some time after the boot: the machine has locked already."""
        time.sleep(self.dice.random() * 0.8)
        for server in {server for server, _ in self.mounts}:
            args = Encoder().opaque(self.name).int(self.nsm_state).bytes()
            Wire(self, life, (server, "udp")).call(NSM, 1, SM_NOTIFY, args)

    def unlock_all(self):
        for mount in range(len(self.mounts)):
            for svid in range(self.n):
                for fh in self.files:
                    Process(self, self.life, mount, svid).unlock(Span(fh, 0, CELLS - 1))

    def stop(self):
        self.running = False
        with self.news:
            self.news.notify_all()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), f"{self.name}: a request is never answered"


class Wire:
    """Requests by one mount: repeated, with the same id, until they are answered."""

    def __init__(self, machine, life, mount):
        self.machine, self.life, self.mount, self.client = machine, life, mount, None

    def call(self, prog, vers, proc, args):
        xid = rpc.new_xid()
        while True:
            if self.machine.life != self.life:
                raise Died
            try:
                if not self.client:
                    self.client = rpc.TRANSPORTS[self.mount[1]](self.mount[0], PORT, (self.machine.address, 0), AGAIN_S)
                self.client.send(rpc.call_message(xid, prog, vers, proc, args))
                reply = self.client.reply()
                while reply.xid != xid:
                    reply = self.client.reply()
                return reply.results
            except (OSError, EOFError):
                if self.client:
                    self.client.close()
                self.client = None
                time.sleep(0.02)

    def ask(self, proc, lock, **fields):
        args = nlm.ARGS[proc](4, b"cookie", lock, **fields)
        return nlm.decode_result(proc, 4, self.call(nlm.PROG, 4, proc, args)).stat

    def send_later(self, seconds, owner, span, lock, **fields):
        """A LOCK that other requests overtake, and whose answer no process waits for."""
        message = rpc.call_message(rpc.new_xid(), nlm.PROG, 4, LOCK, nlm.ARGS[LOCK](4, b"late", lock, **fields))

        def send():
            late, blocked = None if fields["exclusive"] else self.machine.beliefs.sends_late(owner, span), False
            try:
                with rpc.TRANSPORTS[self.mount[1]](self.mount[0], PORT, (self.machine.address, 0), AGAIN_S) as client:
                    client.send(message)
                    blocked = nlm.decode_result(LOCK, 4, client.reply().results).stat != "GRANTED"
            except (OSError, EOFError):
                pass
            if late:
                self.machine.beliefs.was_late(late, blocked)
        thread = threading.Timer(seconds, send)
        with self.machine.guard:
            self.machine.threads.append(thread)
        thread.start()


class Process:
    """What a process of a machine does, and how the kernel's lock call goes on until it ends (nlmclnt_lock())."""

    def __init__(self, machine, life, mount, svid):
        self.machine, self.life, self.owner = machine, life, (machine.address, mount, svid)
        self.wire = Wire(machine, life, machine.mounts[mount])
        self.server = machine.mounts[mount][0]
        self.dice = random.Random(f"{machine.dice.random()} {mount} {svid}")

    def run(self):
        while self.machine.running:
            self.act()
        for fh in self.machine.files:
            self.unlock(Span(fh, 0, CELLS - 1))

    def act(self):
        first = self.dice.randrange(CELLS)
        span = Span(self.dice.choice(self.machine.files), first, min(CELLS - 1, first + self.dice.choice((0, 0, 1, 3))))
        mine = self.machine.beliefs.runs(lambda owner: owner == self.owner)
        if self.dice.random() < 0.35 or len(mine) > 3:
            self.unlock(span if self.dice.random() < 0.5 or not mine else self.dice.choice(mine)[1])
        else:
            self.lock(span, self.dice.random() < 0.6, self.dice.random() < 0.5)
        time.sleep(self.dice.random() * 0.01)

    def begin_change(self):
        """Under the guard: the reclaimer holds back all that would change the list it walks."""
        while self.machine.reclaiming and self.machine.life == self.life:
            self.machine.news.wait(0.5)
        if self.machine.life != self.life:
            raise Died

    def unlock(self, span):
        with self.machine.guard:
            self.begin_change()
            self.machine.beliefs.lose(self.owner, span)
        self.wire.ask(UNLOCK, self.machine.lock_of(self.owner, span))

    def lock(self, span, exclusive, block):
        entry = Blocked(self.owner[1], self.owner[2], span)
        lock = self.machine.lock_of(self.owner, span)
        with self.machine.guard:
            self.begin_change()
            if block:
                self.machine.blocked.append(entry)
            if not exclusive:
                self.machine.beliefs.soften(self.owner, span)
        try:
            while self.machine.running or block:
                with self.machine.guard:
                    self.begin_change()
                    known = self.machine.server_states.get(self.server)
                stat = self.wire.ask(LOCK, lock, exclusive=exclusive, block=block, state=self.machine.nsm_state)
                if stat == "DENIED_GRACE_PERIOD":
                    time.sleep(0.1)
                elif stat == "BLOCKED" and not entry.granted.wait(self.dice.choice((0.01, 0.1, 0.6))):
                    if self.dice.random() < 0.4 or not self.machine.running:
                        self.cancel(span, lock, exclusive)
                        return
                elif stat not in ("GRANTED", "BLOCKED") or self.believe(span, exclusive, known, stat, entry):
                    return
        finally:
            with self.machine.guard:
                if entry in self.machine.blocked:
                    self.machine.blocked.remove(entry)

    def believe(self, span, exclusive, known, stat, entry):
        """False: the server has restarted since the process asked, so it asks again."""
        with self.machine.guard:
            if self.machine.life != self.life:
                raise Died
            if self.machine.reclaiming or self.machine.server_states.get(self.server) != known:
                entry.granted.clear()
                return False
            self.machine.beliefs.gain(self.owner, span, exclusive, "answered" if stat == "GRANTED" else "called back")
        return True

    def cancel(self, span, lock, exclusive):
        """A signal. The LOCK by which the wait was polled may be on its way still."""
        if self.dice.random() < 0.5:
            self.wire.send_later(self.dice.random() * 0.1, self.owner, span, lock, exclusive=exclusive, block=True,
                                 state=self.machine.nsm_state)
        if self.wire.ask(CANCEL, lock, exclusive=exclusive) != "GRANTED":
            self.unlock(span)
