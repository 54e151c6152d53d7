"""Played NFS clients: each has a name, an address, an rpcbind and a lock manager of its own, and a story
it repeats: lock, wait, unlock, crash, reboot, come back. They speak the real protocols with the daemon,
so what the page and holdfastctl show is what they would show with real clients."""
import random
import sys
import threading
import time
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "interop"), str(TESTS / "admin")]

from holdfast_test import nlm, nsm, rpc  # noqa: E402
from world import NLM, Host, Locker  # noqa: E402

SERVER = "127.0.0.1"

PATHS = {name: path for name, path in (
    (b"build.lock", "/export/ci/build.lock"), (b"ledger", "/export/finance/ledger.db"),
    (b"notes", "/export/home/alice/notes.odt"), (b"inbox", "/export/mail/alice/inbox.mbox"),
    *((b"frame%d" % n, f"/export/render/night-train/scene-04/frame-{n:04}.exr") for n in range(1, 9)))}


class Stopped(Exception):
    """The demonstration ends."""


class DeadServer(Exception):
    """The connection broke: the daemon died, or is not up yet."""


class Client(Locker):
    """One client host. What it holds it reclaims when it is told that the daemon has restarted."""

    def __init__(self, name, address, stage):
        self.name, self.address, self.stage = name.encode(), address, stage
        self.state, self.held, self.client, self.host = 1, [], None, None
        self.news = threading.Condition()
        self.granted, self.restarted = set(), False

    # ---- its network ----

    def boot(self):
        self.host = Host(self.address)
        self.host.answer = self.answer
        self.host.__enter__()

    def crash(self):
        """As if the power went: it tells no host, and forgets what it held."""
        self.host.__exit__(None)
        self.host = None
        self.hang_up()
        self.held = []

    def reboot(self):
        self.boot()
        self.state += 2
        while True:
            try:
                with nsm.connect(SERVER, source=self.address, port=self.stage.port) as monitor:
                    monitor.notify(self.name.decode(), self.state)
                    return
            except (OSError, EOFError):  # the daemon is down at this moment
                self.pause(1)

    def answer(self, call):
        with self.news:
            if (call.prog, call.proc) == (NLM, nlm.GRANTED):
                cookie, _, lock = nlm.decode_test_args(4, call.args)
                self.granted.add((lock.fh, lock.svid))
                self.news.notify_all()
                return rpc.success_message(call.xid, nlm.res(cookie, "GRANTED"))
            if (call.prog, call.proc) == (nsm.PROG, nsm.NOTIFY):
                self.restarted = True
                self.news.notify_all()
        return rpc.success_message(call.xid)

    # ---- its wishes ----

    def ask(self, lock, **options):
        """LOCK: the daemon's answer in words."""
        fh, svid, offset, length, exclusive = lock
        try:
            if not self.client:
                self.client = rpc.Tcp(SERVER, self.stage.port, source=(self.address, 0))
            return self._call(nlm.LOCK, self._lock(fh, svid, offset, length), exclusive=exclusive,
                              state=self.state, **options)
        except (OSError, EOFError) as error:
            self.hang_up()
            raise DeadServer from error

    def hang_up(self):
        if self.client:
            self.client.close()
        self.client = None

    def acquire(self, fh, svid=1, offset=0, length=0, exclusive=True):
        """Until the lock is held, however often the daemon dies meanwhile."""
        lock = (fh, svid, offset, length, exclusive)
        while True:
            try:
                said = self.ask(lock, block=True)
                if said == "blocked":
                    said = "granted" if self.wait_for_grant(fh, svid) else said
            except DeadServer:
                said = "no answer"
            if said == "granted":
                self.held.append(lock)
                return
            self.pause(1)

    def wait_for_grant(self, fh, svid):
        """False: the daemon restarted, and knows nothing of waiters any more."""
        with self.news:
            while (fh, svid) not in self.granted and not self.restarted:
                self.stage.check()
                self.news.wait(0.5)
            came = (fh, svid) in self.granted
            self.granted.discard((fh, svid))
            return came

    def release_all(self):
        while self.held:
            fh, svid, offset, length, _ = self.held[-1]
            try:
                if not self.client:
                    raise EOFError
                self.unlock(fh, svid, offset, length)
                self.held.pop()
            except (OSError, EOFError):
                self.hang_up()
                self.pause(1)
                self.reclaim()

    def reclaim(self):
        with self.news:
            self.restarted = False
        for lock in list(self.held):
            try:
                if self.ask(lock, reclaim=True) != "granted":
                    self.held.remove(lock)
            except DeadServer:
                return

    def pause(self, seconds):
        """Does nothing, but answers a notice of the daemon's restart at once."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.stage.check()
            with self.news:
                if not self.restarted:
                    self.news.wait(min(left, 0.5))
                told = self.restarted
            if told:
                self.reclaim()


# ---- stories ----

def builds(me):
    me.pause(me.stage.dice.uniform(0, 2))
    me.acquire(b"build.lock", svid=me.stage.dice.randrange(2000, 30000))
    me.pause(me.stage.dice.uniform(4, 7))
    me.release_all()
    me.pause(me.stage.dice.uniform(0.5, 2))


def delivers_mail(me):
    for _ in range(me.stage.dice.randrange(1, 5)):
        me.acquire(b"inbox", svid=812, offset=me.stage.dice.randrange(0, 1 << 20, 4096), length=4096)
    me.pause(me.stage.dice.uniform(0.2, 0.8))
    me.release_all()


def keeps_accounts(me):
    me.acquire(b"ledger", svid=4711, offset=0, length=8192)
    me.pause(me.stage.dice.uniform(5, 8))
    me.release_all()
    me.pause(1)


def reads_accounts(me):
    me.acquire(b"ledger", svid=99, offset=4096, length=8192, exclusive=False)
    me.pause(me.stage.dice.uniform(2, 4))
    me.release_all()
    me.pause(2)


def renders_and_crashes(me):
    for number in range(1, 9):
        me.acquire(b"frame%d" % number, svid=7000 + number)
    me.pause(14)
    me.stage.tell(f"{me.name.decode()} crashes with {len(me.held)} locks; they stay held, and a client waits for one")
    me.crash()
    me.pause(8)
    me.stage.tell(f"{me.name.decode()} is back and says so (SM_NOTIFY): its locks are freed, the waiter is granted")
    me.reboot()
    me.pause(6)


def looks_at_frames(me):
    me.acquire(b"frame3", svid=31, exclusive=False)
    me.pause(3)
    me.release_all()
    me.pause(4)


def edits(me):
    me.acquire(b"notes", svid=1500, offset=0, length=4096)
    me.pause(25)
    me.release_all()
    me.pause(3)


def sleeps_with_a_lock(me):
    """A laptop that was closed: it holds a lock, and cannot be reached."""
    if me.host:
        me.host.__exit__(None)
        me.host = None
    me.acquire(b"notes", svid=640, offset=1 << 20, length=512)
    me.hang_up()
    me.pause(30)


CAST = (("build-1.example", builds), ("build-2.example", builds), ("build-3.example", builds), ("build-4.example", builds),
        ("mail.example", delivers_mail), ("accounts.example", keeps_accounts), ("audit.example", reads_accounts),
        ("render-7.example", renders_and_crashes), ("viewer.example", looks_at_frames), ("alice.example", edits),
        ("closed-laptop.example", sleeps_with_a_lock))


class Stage:
    """All clients, each in a thread of its own, until it is closed."""

    def __init__(self, port, tell, seed=1):
        self.port, self.tell, self.dice = port, tell, random.Random(seed)
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self.play, args=(Client(name, f"127.0.1.{number}", self), story))
                        for number, (name, story) in enumerate(CAST, 1)]

    def check(self):
        if self.ended.is_set():
            raise Stopped

    def play(self, client, story):
        try:
            client.boot()
            while True:
                story(client)
        except Stopped:
            pass
        finally:
            client.hang_up()
            if client.host:
                client.host.__exit__(None)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()
