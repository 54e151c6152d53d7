#!/usr/bin/env python3
"""Names of files with a real Ganesha (NAM-01, NAM-02): its own handles, of several exports and file systems, through
lock requests to holdfastd, shown by path; renames and deletions by its clients."""
import contextlib
import json
import socket
import tempfile
from pathlib import Path

from holdfast_test import netns, nlm, rpc, tap
from holdfast_test.daemon import PORT, Daemon, wait_until
from holdfast_test.ganesha import Ganesha
from holdfast_test.names import Namesd, ganesha as made_by_us, resolve
from holdfast_test.xdr import Encoder

NFS, RENAME, REMOVE = 100003, 14, 12
ADMIN = "/run/holdfast/admin.sock"


def get(path):
    """GET over the unix socket."""
    with socket.socket(socket.AF_UNIX) as http:
        http.connect(ADMIN)
        http.sendall(f"GET /api/v1/{path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        with http.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0], head
    return json.loads(body)


def lock(fh, svid=1):
    """LOCK of the whole file, over TCP."""
    with rpc.Tcp("127.0.0.1", PORT) as client:
        args = nlm.ARGS[nlm.LOCK](4, b"cook", nlm.Lock(b"client.example", fh, b"%d@client" % svid, svid, 0, 0), state=1)
        reply = client.call(100021, 4, nlm.LOCK, args).decode()
        reply.opaque()
        return nlm.STATS[reply.uint()].lower()


def nfs(procedure, args):
    with rpc.Tcp("127.0.0.1", 2049, timeout=5) as client:
        status = client.call(NFS, 3, procedure, args, cred=rpc.auth_sys()).decode().uint()
        assert status == 0, f"NFS procedure {procedure}: {status}"


class Scene:
    """Ganesha with an export on a disk, one in a directory below another name, and one on tmpfs; holdfastd;
    holdfast-namesd for all three."""

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-ganesha-")))
        self.other = self.folder / "other"
        (self.other / "deep/er").mkdir(parents=True)
        (self.other / "deep/er/plan.txt").touch()
        self.memory = self.folder / "memory"
        self.memory.mkdir()
        netns.run("mount", "-t", "tmpfs", "tmpfs", self.memory)
        self.stack.callback(netns.run, "umount", self.memory)
        (self.memory / "fast.db").touch()
        self.ganesha = self.stack.enter_context(
            Ganesha(self.folder, apart=False, port=4046, files=3, more=(self.other, self.memory)))
        self.export = self.folder / "export"
        self.files = {
            str(self.export / "file0"): self.ganesha.fhs[0],
            str(self.other / "deep/er/plan.txt"): self.ganesha.handle(self.other, "deep/er/plan.txt"),
            str(self.memory / "fast.db"): self.ganesha.handle(self.memory, "fast.db"),
        }
        self.daemon = self.stack.enter_context(Daemon())
        self.stack.enter_context(Namesd(self.export, self.other, self.memory))
        return self

    def __exit__(self, *failure):
        self.stack.__exit__(*failure)


def paths():
    return sorted(str(row["path"]) for row in get("locks")["locks"])


@tap.test
def locks_through_ganesha_s_handles_show_their_paths():
    """NAM-01, NAM-02: three exports, two file systems; each file is found by its path and by no other."""
    with Scene() as scene:
        for path, fh in scene.files.items():
            tap.comment(f"{fh.hex()} {path}")
            assert lock(fh) == "granted"
        assert paths() == sorted(scene.files)
        for path, fh in scene.files.items():
            row, = get(f"locks?path={path}")["locks"]
            assert row["file"] == fh.hex() and row["path_status"] == "named", row


@tap.test
def what_its_clients_rename_and_delete_is_seen():
    """NAM-01: RENAME and REMOVE by NFS; the new name is shown, then that the file is gone or deleted."""
    with Scene() as scene:
        root = scene.ganesha.handle(scene.other, "deep")
        old = str(scene.other / "deep/er/plan.txt")
        assert lock(scene.files[old]) == "granted"
        assert paths() == [old]
        directory = Encoder().opaque(scene.ganesha.handle(scene.other, "deep/er")).string("plan.txt").bytes()
        nfs(RENAME, directory + Encoder().opaque(root).string("moved").bytes())
        wait_until(lambda: paths() == [str(scene.other / "deep/moved")], "the new name")
        nfs(REMOVE, Encoder().opaque(root).string("moved").bytes())
        wait_until(lambda: {row["path_status"] for row in get("locks")["locks"]} <= {"deleted", "unnamed"}, "it is gone")
        assert get(f"locks?path={scene.other}/deep/moved")["locks"] == []


@tap.test
def our_own_way_to_make_its_handles_is_right():
    """The handles that other tests make are byte for byte those of Ganesha; and an export that holdfast-namesd was not
    told of has no names."""
    with Scene() as scene:
        for number, (path, fh) in enumerate(scene.files.items(), 1):
            assert made_by_us(path, export_id=number) == fh, path
            assert resolve(fh, scene.export, scene.other, scene.memory) == path
        assert resolve(scene.files[str(scene.memory / "fast.db")], scene.export, scene.other) is None
        assert resolve(scene.ganesha.fhs[0], scene.other, scene.memory) is None


if __name__ == "__main__":
    netns.enter()
    tap.main()
