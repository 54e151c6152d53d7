#!/usr/bin/env python3
"""holdfastd and holdfast-namesd against each other: what code that has taken over one of them can do to the other, by its
socket and by its rights (SEC-12, NAM-01, NAM-02). Programs that confine themselves by the code of each run in its place
(attempts.h); what is said over the socket is said by a program without scruples."""
import contextlib
import os
import pwd
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon
from holdfast_test.names import GREETING, SOCKET, Asker, Namesd, PlayedNamer, ganesha
from world import Locker, ask, get

CONFINED, CONFINED_NAMESD = os.environ["HOLDFAST_CONFINED"], os.environ["HOLDFAST_CONFINED_NAMESD"]
INSTRUMENTED = os.environ["HOLDFAST_INSTRUMENTED"] == "yes"
RELEASE = Path(__file__).parents[2] / "build/tests/hostile"
if INSTRUMENTED and (RELEASE / "confined-namesd").exists():
    CONFINED, CONFINED_NAMESD, INSTRUMENTED = str(RELEASE / "confined"), str(RELEASE / "confined-namesd"), False
NAMES_USER = 12345  # as holdfast-names: a user of its own
NOBODY = pwd.getpwnam("nobody")
REFUSED = "Function not implemented"  # by the filter of system calls
DENIED = "Permission denied"


def as_names_user():
    """As the unit starts holdfast-namesd: its own user, the daemon's group, one capability."""
    wanted = "-all,+dac_read_search"
    return ["setpriv", f"--reuid={NAMES_USER}", f"--regid={NOBODY.pw_gid}", "--clear-groups", "--no-new-privs",
            f"--inh-caps={wanted}", f"--ambient-caps={wanted}", f"--bounding-set={wanted}"]


@contextlib.contextmanager
def namesd_as_its_user(export):
    os.makedirs(os.path.dirname(SOCKET), exist_ok=True)
    os.chown(os.path.dirname(SOCKET), NAMES_USER, NOBODY.pw_gid)
    os.chmod(os.path.dirname(SOCKET), 0o750)
    namesd = Namesd(export)
    namesd.command = [*as_names_user(), *namesd.command]
    with namesd:
        yield namesd


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="holdfast-") as path:
        os.chmod(path, 0o755)
        yield Path(path)


def said_by(command):
    """(exit status, what was printed) of one attempt."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
    return done.returncode, done.stdout.decode().strip()


def skip_with_sanitizers():
    if INSTRUMENTED:
        raise tap.Skip("a build with sanitizers")


# ---- by rights ----

@tap.test
def a_daemon_that_was_taken_over_against_holdfast_namesd():
    """SEC-12: it can connect to the socket, as its group may. It cannot read, change, trace or end that process, nor take its
    socket's place."""
    skip_with_sanitizers()
    with folder() as where, namesd_as_its_user(where) as namesd:
        pid = str(namesd.process.pid)
        store = where / "store"

        def attempt(*words):
            store.mkdir(exist_ok=True)
            return said_by([CONFINED, str(store), "nobody", *words])

        for words in (["read", f"/proc/{pid}/mem"], ["write", f"/proc/{pid}/mem"], ["read", f"/proc/{pid}/environ"],
                      ["remove", SOCKET], ["write", SOCKET], ["write", os.path.dirname(SOCKET) + "/other"]):
            assert attempt(*words) == (0, DENIED), (words, attempt(*words))
        for words in (["ptrace", pid], ["kill", pid]):
            assert attempt(*words)[0] == -signal.SIGSYS, (words, attempt(*words))
        with Asker() as asker:
            assert asker.ask(b"path 1 00\n") == b"1 unknown\n"


@tap.test
def a_holdfast_namesd_that_was_taken_over_against_the_daemon():
    """NAM-02: although its capability opens every directory, it reads no content: not the store, the token, the configuration, nor
    the daemon's memory. It cannot connect to the daemon, signal or trace it, pass it a file, run a program, or write code."""
    skip_with_sanitizers()
    with folder() as where:
        store, token = where / "store", where / "token"
        store.mkdir(mode=0o700)
        token.write_text("sesame-sesame-sesame-sesame\n")
        os.chmod(token, 0o600)
        os.chown(token, NOBODY.pw_uid, NOBODY.pw_gid)
        os.chown(store, NOBODY.pw_uid, NOBODY.pw_gid)
        with Daemon("store.backend=lmdb", f"store.path={store}", "server.user=nobody", f"admin.token_file={token}") as daemon, \
                Locker("alpha.example", "192.0.2.2") as alpha:
            assert alpha.lock(b"file") == "granted"
            pid = str(daemon.process.pid)
            data = str(next(store.glob("*.mdb")))

            def attempt(*words):
                return said_by([*as_names_user(), CONFINED_NAMESD, *words])

            for words in (["read", str(token)], ["read", data], ["empty", data], ["write", data], ["write", str(store / "new")],
                          ["read-by-handle", str(token)], ["read", f"/proc/{pid}/mem"], ["read", f"/proc/{pid}/environ"],
                          ["write", f"/proc/{pid}/mem"]):
                assert attempt(*words) == (0, DENIED), (words, attempt(*words))
            for words in (["connect", "/run/holdfast/admin.sock"], ["kill", pid], ["ptrace", pid], ["remove", data],
                          ["chmod", data], ["execve", "/bin/true"], ["clone"], ["setuid"], ["mount", str(where)], ["packet-socket"],
                          ["pass-file"], ["writable-code"], ["make-executable"]):
                assert attempt(*words) == (0, REFUSED), (words, attempt(*words))
            assert attempt("list", str(store)) == (0, "done"), "names are its trade: what remains, in docs/operating/SECURITY.md"
            assert get("locks")["locks"], "the daemon serves on"


# ---- by the socket ----

@tap.test
def a_daemon_that_floods_holdfast_namesd():
    """NAM-02: sixteen connections that ask without end and take no answer, and as many that come and go: its memory stays bounded,
    and an asker that reads is answered."""
    with folder() as where, Namesd(where) as namesd:
        (where / "a.txt").touch()
        line = b"path 1 " + ganesha(str(where / "a.txt")).hex().encode() + b"\n"

        def resident_kib():
            status = Path(f"/proc/{namesd.process.pid}/status").read_text()
            return int(status.split("VmRSS:")[1].split()[0])

        with contextlib.ExitStack() as stack:
            def flood_with(connections):
                for _ in range(connections):
                    deaf = stack.enter_context(Asker())
                    deaf.socket.setblocking(False)
                    with contextlib.suppress(BlockingIOError):
                        while True:
                            deaf.socket.send(line * 1000)
                with Asker() as asker:
                    assert asker.ask(line) == f"1 named {where}/a.txt\n".encode()

            flood_with(1)  # then it has all that it has once, libraries and a sanitizer's own memory
            before = resident_kib()
            flood_with(14)
            grown = resident_kib() - before
        tap.note(f"{grown} KiB for 14 askers more that take no answer")
        assert grown < 14 * 2 * (64 + 64), f"{grown} KiB"  # what was read and what was not taken, of each, with its buffer's slack


class Flooding(PlayedNamer):
    """Answers what is asked, and then more and more, as fast as it is taken."""

    def __init__(self, more):
        super().__init__(None)
        self.more = more
        self.flooded = threading.Event()

    def _serve(self, connection):
        with contextlib.suppress(OSError), connection, connection.makefile("rwb") as file:
            for line in file:
                if line == GREETING:
                    file.write(GREETING)
                    file.flush()
                    continue
                number = line.split()[1]
                with contextlib.suppress(OSError):
                    for _ in range(4000):
                        file.write(self.more(number) * 100)
                        file.flush()
                self.flooded.set()
                return


@tap.test
def a_holdfast_namesd_that_floods_the_daemon():
    """NAM-01: a namer that says more than it was asked, without end: it is cut off, the daemon's memory stays, and locks are
    granted meanwhile."""
    floods = {
        "the same answer again": lambda number: number + b" later\n",
        "errors": lambda number: b"0 error what?\n",
        "numbers never asked": lambda number: b"18446744073709551615 named /x\n",
        "one line without end": lambda number: b"x" * 1000,
        "greetings": lambda number: GREETING,
    }
    for what, more in floods.items():
        with Flooding(more) as namer, Daemon("server.listen=192.0.2.1,127.0.0.1") as daemon, Locker("alpha.example", "192.0.2.2") as alpha:
            assert alpha.lock(b"file") == "granted"
            before = daemon.memory_kib()
            assert [row["path"] for row in get("locks")["locks"]] == [None], what
            assert namer.flooded.wait(20), f"{what}: it is listened to without end"
            assert alpha.lock(b"other") == "granted"
            grown = daemon.memory_kib() - before
            assert grown < 16 << 10, f"{what}: {grown} KiB"
            assert ask("GET", "/healthz").status == 200, what


@tap.test
def a_namer_decides_about_no_lock():
    """NAM-01: a namer that gives every handle the same path. What it can cause: that the operator's release of that path releases
    other files' locks, and the answer says how many handles it was. No lock is refused or granted by what it says."""
    with PlayedNamer(lambda number, handle: number + b" named /srv/one\n"), Daemon("server.listen=192.0.2.1,127.0.0.1"), \
            Locker("alpha.example", "192.0.2.2") as alpha, Locker("beta.example", "192.0.2.3") as beta:
        for locker, fh in ((alpha, b"first"), (beta, b"second")):
            assert locker.lock(fh) == "granted"
        assert {row["path"] for row in get("locks")["locks"]} == {"/srv/one"}
        assert beta.lock(b"third") == "granted" and alpha.lock(b"second") == "denied"


if __name__ == "__main__":
    if INSTRUMENTED:
        tap.note("a build with sanitizers: rights are tried in a release build only")
    netns.enter()
    tap.main()
