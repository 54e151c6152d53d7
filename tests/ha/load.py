"""Clients that lock and unlock all the time, and a witness of what they were promised.

Each client has files of its own, which it locks and unlocks; and all clients compete for a few files. What was acknowledged
is written down with its time: no two clients hold one file at the same time, and what a client holds, the service knows.
"""
import random
import socket
import threading
import time

from holdfast_test import nlm, rpc
from holdfast_test.daemon import PORT, WAIT_S, wait_until
from wires import CLIENT, CLIENT6
from world import Host

CONTESTED = [b"contested %d" % n for n in range(3)]
ANSWER_S = 0.4  # then the request is repeated, as clients do


class Client(threading.Thread):
    """One client host, by its name. A request is repeated, with the same xid, until it is answered, over a new connection
    if the old one is dead: as the Linux client does. A connection that is new to the client means that the server may
    have restarted: the client reclaims what it holds, before anything else."""

    def __init__(self, load, number):
        super().__init__(daemon=True)
        self.load, self.number = load, number
        self.caller = b"client%d" % number
        self.random = random.Random(number)
        self.connection = None
        self.held = {}      # file: since when, by acknowledged LOCKs that were not unlocked
        self.in_doubt = set()  # files whose LOCK or UNLOCK is in flight
        self.answers = []   # (time, what): every answer
        self.errors = []
        self.slowest = 0
        self.mutex = threading.Lock()

    # ---- requests ----

    def _connect(self):
        self.connection = rpc.Tcp(self.load.server, PORT, source=(CLIENT6 if ":" in self.load.server else CLIENT, 0),
                                  timeout=ANSWER_S)

    def _drop(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def _once(self, proc, args, xid):
        if not self.connection:
            self._connect()
            self.load.reconnects += 1
            if not self.load.unnoticed:
                self._reclaim()
        self.connection.send(rpc.call_message(xid, nlm.PROG, 4, proc, args))
        while True:
            reply = self.connection.reply()
            if reply.xid == xid:
                return nlm.decode_result(proc, 4, reply.results).stat

    def _reclaim(self):
        """DENIED_GRACE_PERIOD: the server did not restart, and knows the lock."""
        for fh in sorted(self.held):
            xid = rpc.new_xid()
            args = nlm.lock_args(4, b"r", self._lock(fh), reclaim=True)
            self.connection.send(rpc.call_message(xid, nlm.PROG, 4, nlm.LOCK, args))
            reply = self.connection.reply_to(xid)
            stat = nlm.decode_result(nlm.LOCK, 4, reply.results).stat
            if stat not in ("GRANTED", "DENIED_GRACE_PERIOD"):
                self.errors.append(("reclaim", fh, stat))

    def _lock(self, fh):
        return nlm.Lock(caller=self.caller, fh=fh, oh=b"1@" + self.caller)

    def call(self, proc, fh, **options):
        """The answer, however long it takes; None if the load ends first."""
        args = nlm.ARGS[proc](4, b"%d" % self.random.getrandbits(32), self._lock(fh), **options)
        xid, began = rpc.new_xid(), time.monotonic()
        while not self.load.ending.is_set() or time.monotonic() - began < WAIT_S:
            try:
                stat = self._once(proc, args, xid)
            except (OSError, EOFError):
                self._drop()
                time.sleep(0.01)
                continue
            if stat == "DENIED_GRACE_PERIOD" and not self.load.unnoticed:
                time.sleep(0.02)
                xid = rpc.new_xid()
                continue
            now = time.monotonic()
            self.slowest = max(self.slowest, now - began)
            self.answers.append((now, stat))
            return stat
        return None

    # ---- work ----

    def lock(self, fh):
        with self.mutex:
            self.in_doubt.add(fh)
        stat = self.call(nlm.LOCK, fh)
        now = time.monotonic()
        with self.mutex:
            self.in_doubt.discard(fh)
            if stat == "GRANTED":
                self.held[fh] = now
        if stat not in ("GRANTED", "DENIED", None):
            self.errors.append((nlm.LOCK, fh, stat))
        return stat == "GRANTED"

    def unlock(self, fh):
        """The lock may be another's as soon as the request has left."""
        with self.mutex:
            self.in_doubt.add(fh)
            since = self.held.pop(fh)
        if fh in CONTESTED:
            self.load.note(fh, self.number, since, time.monotonic())
        stat = self.call(nlm.UNLOCK, fh)
        with self.mutex:
            self.in_doubt.discard(fh)
        if stat not in ("GRANTED", None):
            self.errors.append((nlm.UNLOCK, fh, stat))

    def step(self):
        own = b"own %d %d" % (self.number, self.random.randrange(20))
        fh = self.random.choice(CONTESTED) if self.random.random() < 0.3 else own
        if fh in self.held:
            self.unlock(fh)
        else:
            self.lock(fh)

    def run(self):
        try:
            while not self.load.ending.is_set():
                self.step()
        except Exception as error:  # the test looks at it
            self.errors.append(repr(error))

    def known(self):
        """(held for certain, in doubt)"""
        with self.mutex:
            return set(self.held), set(self.in_doubt)


class Load:
    """unnoticed: its clients are not told of restarts. They reclaim nothing, and a grace period is an error."""

    def __init__(self, server, clients=6, first=0, unnoticed=False):
        self.server, self.unnoticed = server, unnoticed
        self.ending = threading.Event()
        self.clients = [Client(self, number) for number in range(first, first + clients)]
        self.intervals = []  # (file, client, from, to) of contested files
        self.mutex = threading.Lock()
        self.reconnects = 0
        # Their status monitor, which takes crash notices: clients that cannot be told are given up as crashed.
        self.host = Host(CLIENT6 if ":" in server else CLIENT)

    def note(self, fh, number, since, until):
        with self.mutex:
            self.intervals.append((fh, number, since, until))

    def __enter__(self):
        self.host.__enter__()
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        finally:
            self.host.__exit__()

    def stop(self):
        self.ending.set()
        for client in self.clients:
            client.join(2 * WAIT_S)
            assert not client.is_alive(), "a client got no answer"

    # ---- verdicts ----

    def answers(self):
        return sum(len(client.answers) for client in self.clients)

    def wait_for_more(self, answers):
        """Until there is load, whatever happened before."""
        seen = self.answers()
        wait_until(lambda: self.answers() > seen + answers, "answers to the load")

    def check_no_errors(self):
        errors = [(client.number, error) for client in self.clients for error in client.errors]
        assert not errors, errors[:5]

    def check_no_two_holders(self):
        """Of every contested file, no two intervals of different clients overlap. The one that is open now counts."""
        now = time.monotonic()
        with self.mutex:
            intervals = list(self.intervals)
        for client in self.clients:
            with client.mutex:
                intervals += [(fh, client.number, since, now) for fh, since in client.held.items() if fh in CONTESTED]
        for fh in CONTESTED:
            mine = sorted((since, until, number) for name, number, since, until in intervals if name == fh)
            for (_, until, first), (since, _, second) in zip(mine, mine[1:]):
                assert first == second or until <= since, f"{fh} held by {first} and {second} at once"
        return len(intervals)

    def check_nothing_lost(self, server_locks):
        """server_locks: the set of (client, file) that the service has, read after the load has stopped."""
        for client in self.clients:
            held, doubt = client.known()
            missing = {fh for fh in held if (client.caller, fh) not in server_locks}
            assert not missing, f"{client.caller} holds, and the service does not know: {missing}"
            extra = {fh for name, fh in server_locks if name == client.caller} - held - doubt
            assert not extra, f"{client.caller} does not hold, and the service says so: {extra}"


class Prober(threading.Thread):
    """Asks every few milliseconds, by UDP, each time with a new request: when is the first answer after a moment?"""

    def __init__(self, server, every_s=0.01):
        super().__init__(daemon=True)
        self.server, self.every_s = server, every_s
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((CLIENT, 0))
        self.sock.settimeout(every_s)
        self.ending = False
        self.answers = []  # (time, stat)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ending = True
        self.join()
        self.sock.close()

    def run(self):
        number = 0
        sent = 0
        while not self.ending:
            number += 1
            now = time.monotonic()
            if now - sent >= self.every_s:
                sent = now
                lock = nlm.Lock(caller=b"prober", fh=b"probed", oh=b"1@prober", offset=number % 50, length=1)
                proc = nlm.LOCK if number % 2 else nlm.UNLOCK
                args = nlm.ARGS[proc](4, b"p", lock)
                with_send = rpc.call_message(rpc.new_xid(), nlm.PROG, 4, proc, args)
                try:
                    self.sock.sendto(with_send, (self.server, PORT))
                except OSError:
                    pass  # the neighbour is not known now
            try:
                reply = rpc.parse_reply(self.sock.recv(4096))
                self.answers.append((time.monotonic(), nlm.decode_result(nlm.LOCK, 4, reply.results).stat))
            except (TimeoutError, OSError):
                pass

    def first_after(self, moment, stats=None):
        """When the first answer came; None: not yet."""
        for at, stat in list(self.answers):
            if at > moment and (not stats or stat in stats):
                return at
        return None
