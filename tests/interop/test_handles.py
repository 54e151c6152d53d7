#!/usr/bin/env python3
"""holdfastctl doctor --server (ADM-04): are the file handles of an NFS server fit for locks? A real Ganesha, and played servers
whose handles change where they must not."""
import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

from holdfast_test import host, netns, rpc, tap
from holdfast_test.ganesha import Ganesha
from holdfast_test.xdr import Encoder

CTL = os.environ["HOLDFASTCTL"]
MOUNT, NFS = 100005, 100003
MNT, GETATTR, LOOKUP, CREATE, REMOVE, RENAME = 1, 1, 3, 8, 12, 14
STALE, MISSING, DENIED = 70, 2, 13
OK, USAGE, TROUBLE = 0, 2, 5
WELL = {check: "ok" for check in ("server", "lookups", "two files", "rename", "restart", "new file")}


class Server(host.Host):
    """An NFS server with one directory. kind says what its handles are made of."""

    def __init__(self, kind):
        super().__init__("127.0.0.1", programs=(MOUNT, NFS), answer=self._answer)
        self.kind, self.files, self.boot, self.made = kind, {}, 0, 0
        self.given = {}  # handle: number of its file

    def restart(self):
        self.boot += 1
        if self.kind == "memory":
            self.given.clear()

    def _on_rpcbind(self, call):
        return host.answer_void(call) if call.proc == 0 else super()._on_rpcbind(call)

    def _handle(self, name):
        self.made += self.kind == "fresh"
        handle = {"stable": b"%d" % self.files[name], "memory": b"%d.%d" % (self.boot, self.files[name]), "one": b"one",
                  "fresh": b"f%d" % self.made, "path": name}[self.kind]
        self.given[handle] = self.files[name]
        return handle

    def _answer(self, call):
        if call.proc == 0:
            return host.answer_void(call)
        d, reply = call.decode(), Encoder()
        if call.prog == MOUNT:
            return rpc.success_message(call.xid, reply.uint(0).opaque(b"root").uint(1, 1).bytes())
        handle = d.opaque()
        {GETATTR: self._getattr, LOOKUP: self._lookup, CREATE: self._create, REMOVE: self._remove, RENAME: self._rename}[
            call.proc](d, reply, handle)
        return rpc.success_message(call.xid, reply.bytes())

    def _getattr(self, d, reply, handle):
        known = handle in self.files if self.kind == "path" else self.given.get(handle) in self.files.values()
        reply.uint(0, 1, *[0] * 20) if known else reply.uint(STALE)

    def _lookup(self, d, reply, _):
        name = d.opaque()
        reply.uint(0).opaque(self._handle(name)).uint(0, 0) if name in self.files else reply.uint(MISSING, 0)

    def _create(self, d, reply, _):
        if self.kind == "closed":
            reply.uint(DENIED, 0, 0)
            return
        self.made += 1
        self.files[d.opaque()] = self.made
        reply.uint(0, 0, 0, 0, 0)

    def _remove(self, d, reply, _):
        del self.files[d.opaque()]
        reply.uint(0, 0, 0)

    def _rename(self, d, reply, _):
        name = d.opaque()
        d.opaque()
        self.files[d.opaque()] = self.files.pop(name)
        reply.uint(0, 0, 0, 0, 0)


def doctor(server, restart=None):
    """(exit status, findings by check). restart: what the operator does when asked for it."""
    more = ["--after-restart"] if restart else []
    with subprocess.Popen([CTL, "doctor", "--json", "--server", server, *more], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        if restart:
            asked = process.stderr.read(len("Restart"))
            assert asked == b"Restart", asked + process.stderr.read()
            restart()
        out, said = process.communicate(b"\n" if restart else b"", timeout=60)
    assert out, said
    return process.returncode, {row["check"]: row for row in json.loads(out)}


def levels(found):
    return {check: row["level"] for check, row in found.items()}


@tap.test
def stable_handles_are_well():
    """All checks are ok, and the test file is gone; without a restart, that is said."""
    with Server("stable") as server:
        status, found = doctor("127.0.0.1:/export", server.restart)
        assert (status, levels(found)) == (OK, WELL), found
        assert server.files == {}, server.files
        status, found = doctor("127.0.0.1:/export")
        assert (status, levels(found)) == (OK, WELL | {"restart": "warn"}), found


@tap.test
def each_way_to_change_is_named():
    """Handles made anew at each lookup, lost at a restart, made of the path, one for all: each is found by its own check."""
    for kind, wanted in (("fresh", {"lookups": "FAIL", "rename": "warn", "restart": "FAIL"}), ("memory", {"restart": "FAIL"}),
                         ("path", {"rename": "warn", "new file": "warn"}), ("one", {"two files": "FAIL", "new file": "warn"})):
        with Server(kind) as server:
            status, found = doctor("127.0.0.1:/export", server.restart)
            assert levels(found) == WELL | wanted, (kind, found)
            assert status == (TROUBLE if "FAIL" in wanted.values() else OK), (kind, found)
            assert all(bool(row["advice"]) == (row["level"] != "ok") for row in found.values()), found
            assert server.files == {}, server.files
            if "FAIL" in wanted.values():
                said = " ".join(row["finding"] for row in found.values())
                assert "two clients get one lock" in said or "denies the other" in said, said


@tap.test
def what_cannot_be_asked_is_said_so():
    """No server there; a directory that cannot be written; no directory in the argument; --after-restart alone."""
    status, found = doctor("127.0.0.1:/export")
    assert (status, levels(found)) == (TROUBLE, {"server": "FAIL"}), found
    with Server("closed"):
        status, found = doctor("127.0.0.1:/export")
        assert (status, levels(found)) == (TROUBLE, {"server": "ok", "test file": "FAIL"}), found
        assert "ACCES" in found["test file"]["finding"], found
    for bad in (["--server", "127.0.0.1"], ["--server", ":/export"], ["--server", "[]:/export"], ["--after-restart"]):
        done = subprocess.run([CTL, "doctor", *bad], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.returncode == USAGE and b"HOST:/DIRECTORY" in done.stderr, (bad, done)


@tap.test
def ganesha_is_well():
    """Its handles, of a directory on a disk, over a restart by an operator."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-ganesha-")))
        ganesha = stack.enter_context(Ganesha(folder, apart=False, port=4046))
        export = folder / "export"
        status, found = doctor(f"127.0.0.1:{export}", ganesha.restart)
        assert (status, levels(found)) == (OK, WELL), found
        assert sorted(path.name for path in export.iterdir()) == ["file0"]


if __name__ == "__main__":
    netns.enter()
    tap.main()
