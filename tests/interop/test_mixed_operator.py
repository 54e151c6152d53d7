#!/usr/bin/env python3
"""What operators see and do where the kernel holds locks for us: holders outside (COH-08), new locks held back while a neighbour's
clients reclaim (GRC-04), and exports that are let go so that they can be unmounted (COH-07)."""
import contextlib
import http.client
import json
import os
import socket
import subprocess
import tempfile
from pathlib import Path

from holdfast_test import keeper as k
from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon, wait_until
from holdfast_test.keeper import Keeper, Outside
from holdfast_test.names import ganesha
from holdfast_test.nlm import GRANTED, LOCK, UNLOCK
from holdfast_test.peer import Network, add_addresses

READY = "the kernel holds what clients hold"
CTL = os.environ.get("HOLDFASTCTL", str(Path(__file__).parents[2] / "build-asan/src/ctl/holdfastctl"))


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


class Scene:
    """An export on a file system of its own, a keeper, a daemon with administration, and two NLM clients."""

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.where = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-mixed-")))
            self.export = self.where / "export"
            self.export.mkdir()
            image = self.where / "image"
            with open(image, "wb") as file:
                file.truncate(16 << 20)
            netns.run("mkfs.ext4", "-q", str(image))
            netns.run("mount", "-o", "loop", str(image), str(self.export))
            stack.callback(lambda: subprocess.run(["umount", "-l", self.export], stderr=subprocess.DEVNULL))
            self.path = self.export / "file"
            self.path.write_text("0")
            self.fh = ganesha(str(self.path))
            network = stack.enter_context(Network())
            self.keeper = Keeper(self.export, path=str(self.where / "keeper"))
            self.keeper.__enter__()
            stack.callback(lambda: self.keeper.__exit__(None, None, None))
            self.daemon = stack.enter_context(Daemon(
                "store.backend=lmdb", f"store.path={self.where}/store", f"keeper.socket={self.where}/keeper", "notify.timeout=1",
                f"admin.socket={self.where}/admin", "admin.listen=127.0.0.1:8049"))
            self.daemon.wait_for_log(READY)
            self.hosts = [network.host(f"10.2.0.{i}", name) for i, name in enumerate(("alice", "bob"), 1)]
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *rest):
        self.stack.__exit__(*rest)

    def lock(self, host, **fields):
        return host.lock(fh=self.fh, **fields)

    def ask(self, method, path, body=None, tcp=False):
        connection = http.client.HTTPConnection("127.0.0.1", 8049, timeout=20) if tcp else Unix(str(self.where / "admin"))
        with contextlib.closing(connection):
            connection.request(method, "/api/v1/" + path, json.dumps(body) if body is not None else None)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def ctl(self, *words, status=0):
        done = subprocess.run([CTL, "--socket", self.where / "admin", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, text=True)
        assert done.returncode == status, (words, done.returncode, done.stdout)
        return done.stdout


def expect(got, wanted):
    assert got == wanted, f"{got}, not {wanted}"


@tap.test
def a_holder_outside_is_named():
    """COH-08: range, mode, process and program, where a client waits; which file it is only to callers who may know (ADM-09)."""
    with Scene() as s, Outside(s.path) as outside:
        a, _ = s.hosts
        assert outside.lock(k.EXCLUSIVE, 3, 7)
        expect(a.stat(LOCK, s.lock(a, offset=0, length=5), block=True), "BLOCKED")
        pid = outside.process.pid

        def waits():
            rows = s.ask("GET", "waiters")[1]["waiters"]
            return rows and rows[0]["outside"] == {"range": {"first": "3", "last": "9"}, "mode": "exclusive", "pid": pid} and rows[0]

        wait_until(waits, "the holder is named")
        assert waits()["file"] == s.fh.hex() and waits()["blocked_by"] is None
        row = s.ask("GET", "waiters", tcp=True)[1]["waiters"][0]
        assert row["outside"]["pid"] == pid and row["path_status"] == "hidden" and s.fh.hex() not in json.dumps(row)
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        for words in (["waiters"], ["locks"], ["why", "alice"]):
            said = s.ctl("--wide", *words)
            assert f"outside: pid {pid}, {name}" in said, (words, said)
        outside.unlock()
        a.wait_for(GRANTED)
        assert "outside" not in s.ctl("--wide", "locks")
        with Outside(s.path, posix=False) as ofd:
            assert ofd.lock(k.SHARED, 100, 1)
            expect(a.stat(LOCK, s.lock(a, offset=100, length=1), block=True), "BLOCKED")
            wait_until(lambda: "outside (NFSv4, SMB or local)" in s.ctl("--wide", "waiters"), "a description has no process")


@tap.test
def new_locks_are_held_back():
    """GRC-04: new locks and waiters wait, what is held stays, UNLOCK works; it ends by itself, and at the operator's word."""
    with Scene() as s, Outside(s.path) as outside:
        a, b = s.hosts
        expect(a.stat(LOCK, s.lock(a, offset=0, length=5)), "GRANTED")
        assert outside.lock(k.EXCLUSIVE, 50, 10)
        expect(b.stat(LOCK, s.lock(b, offset=50, length=10), block=True), "BLOCKED")
        s.ctl("grace", "hold", "600")
        assert 590 < s.ask("GET", "grace")[1]["held_seconds"] <= 600 and "held back" in s.ctl("status")
        expect(b.stat(LOCK, s.lock(b, offset=100, length=5)), "DENIED_GRACE_PERIOD")
        expect(a.stat(LOCK, s.lock(a, offset=0, length=5)), "GRANTED")  # a repeat of what it holds
        outside.unlock(50, 10)
        wait_until(lambda: outside.lock(k.EXCLUSIVE, 50, 10), "the neighbour's client gets its lock back")
        assert not b.received(GRANTED)
        expect(a.stat(UNLOCK, s.lock(a, offset=0, length=5)), "GRANTED")
        assert outside.lock(k.EXCLUSIVE, 0, 5)
        outside.unlock()
        s.ctl("grace", "hold", "0")
        b.wait_for(GRANTED)
        s.ctl("grace", "hold", "1")
        wait_until(lambda: a.stat(LOCK, s.lock(a, offset=0, length=5)) == "GRANTED", "it ends by itself")
        for words in (["grace", "hold"], ["grace", "hold", "x"], ["grace", "hold", "-1"]):
            s.ctl(*words, status=2)
        assert s.ask("POST", "grace/hold", {"seconds": 3601})[0] == 400 and s.ask("POST", "grace/hold", {})[0] == 400
        assert s.ask("POST", "grace/hold", {"seconds": 1}, tcp=True)[0] in (401, 403)


@tap.test
def an_export_is_let_go_and_taken_back():
    """COH-07: the file system can be unmounted although clients hold locks there, which stay recorded; also with a keeper that is
    started again; taken back, they are in the kernel again."""
    with Scene() as s:
        a, b = s.hosts
        expect(a.stat(LOCK, s.lock(a, offset=0, length=5)), "GRANTED")
        path = str(s.export)
        expect(s.ask("GET", "exports")[1], {"exports": [{"path": path, "files": 1, "ranges": 1, "released": False}]})
        assert path in s.ctl("--wide", "exports")
        assert subprocess.run(["umount", path], stderr=subprocess.DEVNULL).returncode != 0, "busy"
        s.ctl("--yes", "exports", "release", path)
        netns.run("umount", path)
        assert s.ask("GET", "exports")[1]["exports"][0] == {"path": path, "files": 0, "ranges": 0, "released": True}
        netns.run("mount", "-o", "loop", str(s.where / "image"), path)
        s.keeper.kill()
        os.unlink(s.where / "keeper")
        s.keeper = Keeper(s.export, path=str(s.where / "keeper"))
        s.keeper.__enter__()
        wait_until(lambda: s.ask("GET", "exports")[0] == 200, "the keeper is there again")
        assert s.ask("GET", "exports")[1]["exports"][0]["released"], "and was told"
        expect(b.stat(LOCK, s.lock(b, offset=50, length=5)), "DENIED_GRACE_PERIOD")
        with Outside(s.path) as outside:
            s.ctl("exports", "take-back", path)
            wait_until(lambda: not outside.lock(k.SHARED, 0, 5), "claimed again")
            outside.unlock()
        wait_until(lambda: b.stat(LOCK, s.lock(b, offset=50, length=5)) == "GRANTED", "locks are granted again")
        assert s.ask("GET", "exports", tcp=True)[0] in (401, 403), "paths are for callers who may see files"
        assert s.ask("POST", "exports/release", {"path": "relative"})[0] == 400
        s.ctl("exports", "release", "relative", status=2)


@tap.test
def doctor_knows_the_keeper():
    """COH-09: it recommends the keeper where Samba runs; with it, it says what is held, which exports are busy or released, and that the
    keeper is away."""
    def findings(s, env=None):
        done = subprocess.run([CTL, "--socket", s.where / "admin", "--json", "doctor"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=60, text=True, env=os.environ | (env or {}))
        return [(row["check"], row["level"], row["finding"] + " " + (row["advice"] or "")) for row in json.loads(done.stdout)
                if row["check"] in ("mixed access", "exports")]

    with Scene() as s:
        a, _ = s.hosts
        expect(a.stat(LOCK, s.lock(a, offset=0, length=5)), "GRANTED")
        found = findings(s)
        assert found[0] == ("mixed access", "ok", "the kernel holds 1 ranges of 1 files for clients "), found
        assert found[1][:2] == ("exports", "ok") and f"exports release {s.export}" in found[1][2], found
        s.ctl("--yes", "exports", "release", str(s.export))
        assert findings(s)[-1][:2] == ("exports", "warn") and "take-back" in findings(s)[-1][2]
        s.keeper.kill()
        wait_until(lambda: findings(s)[0][:2] == ("mixed access", "FAIL"), "the keeper is missed")
        os.unlink(s.where / "keeper")
        s.keeper = Keeper(s.export, path=str(s.where / "keeper"))
        s.keeper.__enter__()
    with tempfile.TemporaryDirectory(prefix="holdfast-mixed-") as where, \
            Daemon(f"admin.socket={where}/admin") as daemon:
        daemon.where = Path(where)
        Path(where, "proc/7").mkdir(parents=True)
        Path(where, "proc/7/comm").write_text("bash\n")
        assert findings(daemon, {"HOLDFAST_PROC": f"{where}/proc"}) == []
        Path(where, "proc/7/comm").write_text("smbd\n")
        found, = findings(daemon, {"HOLDFAST_PROC": f"{where}/proc"})
        assert found[:2] == ("mixed access", "warn") and "holdfast-keeper" in found[2]


if __name__ == "__main__":
    netns.enter()
    add_addresses()
    tap.main()
