#!/usr/bin/env python3
"""What is in the way of a start and goes away (PKG-03): the daemon is restarted as its unit says until it serves.
What cannot mend itself ends with a status after which the unit does not restart it."""
import contextlib
import glob
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from holdfast_test import netns, rpcbind, tap
from holdfast_test.daemon import Daemon, wait_until
from holdfast_test.store import fill, small_disk

UNIT = Path(__file__).parents[2] / "packaging/holdfastd.service.in"
NSM = 100024
LIMIT_S = 60


class Service:
    """As systemd runs the unit: Restart=always, RestartSec=, RestartPreventExitStatus=, and the status line."""

    def __init__(self, *sets):
        unit = UNIT.read_text()
        assert re.search("^StartLimitIntervalSec=0$", unit, re.M), "systemd gives up after a few attempts"
        assert re.search("^Restart=always$", unit, re.M)
        self.pause = int(re.search(r"^RestartSec=(\d+)$", unit, re.M)[1])
        self.final = {int(word) for word in re.search("^RestartPreventExitStatus=(.*)$", unit, re.M)[1].split()}
        self.sets = sets
        self.attempts = 0
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notices.bind("\0holdfast-test-obstacles")
        self.notices.setblocking(False)
        self.status = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.notices.close()

    def _read_status(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                for line in self.notices.recv(4096).decode().splitlines():
                    if line.startswith("STATUS="):
                        self.status = line[7:]

    def attempt(self):
        """One start: the daemon, serving, or its exit status."""
        self.attempts += 1
        daemon = Daemon(*self.sets, env={"NOTIFY_SOCKET": "@holdfast-test-obstacles"}).start(wait=False)
        wait_until(lambda: daemon.process.poll() is not None or " ready" in daemon.log(), "it serves or ends")
        if daemon.process.poll() is None:
            return daemon
        result = daemon.wait()
        daemon.check_sanitizers()
        self._read_status()
        return result

    def expect_waiting(self, *words):
        """Two attempts fail, may be repeated, and the status line names the obstacle."""
        for _ in range(2):
            result = self.attempt()
            assert isinstance(result, int), "it serves in spite of the obstacle:\n" + result.log()
            assert result not in self.final, f"exit status {result}: systemd would not restart it"
            assert self.status.startswith("waits to start again: "), self.status
            for word in words:
                assert word in self.status, self.status

    def expect_serving(self):
        end = time.monotonic() + LIMIT_S
        while isinstance(result := self.attempt(), int):
            assert result not in self.final and time.monotonic() < end, self.status
            time.sleep(self.pause)
        status = result.stop()
        assert status == 0, result.log()
        result.check_sanitizers()

    def expect_final(self, status, *words):
        assert self.attempt() == status and status in self.final, self.status
        for word in words:
            assert word in self.status, self.status


@tap.test
def a_port_that_another_process_has():
    """PKG-03: the start fails with status 1 and names the port; the next attempt succeeds once it is free."""
    with Service("server.port=5045") as service:
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("0.0.0.0", 5045))
            other.listen()
            service.expect_waiting("5045", "in use")
        service.expect_serving()


@tap.test
def rpc_statd_that_is_being_stopped():
    """As after a boot in which an rpc.statd came first."""
    if not shutil.which("rpc.statd"):
        raise tap.Skip("rpc.statd is not installed")
    os.makedirs("/var/lib/nfs/sm", exist_ok=True)
    os.makedirs("/var/lib/nfs/sm.bak", exist_ok=True)
    with rpcbind.System(), Service("rpcbind.mode=auto") as service:
        statd = subprocess.Popen(["rpc.statd", "-F", "--no-notify"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: rpcbind.getport(NSM, 1, "udp"), "rpc.statd is registered")
            service.expect_waiting("100024")
        finally:
            statd.terminate()
            statd.wait()
        service.expect_serving()


@tap.test
def rpcbind_that_comes_later():
    with Service("rpcbind.mode=system") as service:
        service.expect_waiting("rpcbind")
        with rpcbind.System():
            service.expect_serving()


@contextlib.contextmanager
def postgres(folder):
    tools = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
    server = subprocess.Popen(["runuser", "-u", "nobody", "--", f"{tools}/postgres", "-D", f"{folder}/data",
                               "-c", f"unix_socket_directories={folder}", "-c", "listen_addresses=", "-c", "fsync=off"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        subprocess.run(["runuser", "-u", "nobody", "--", f"{tools}/pg_ctl", "-D", f"{folder}/data", "-m", "fast", "stop"],
                       check=True, stdout=subprocess.DEVNULL)
        server.wait()


@tap.test
def postgresql_that_comes_later():
    """It is not waited for: the daemon is up within seconds after PostgreSQL."""
    if not glob.glob("/usr/lib/postgresql/*/bin/initdb"):
        raise tap.Skip("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        shutil.chown(folder, "nobody")
        netns.run("runuser", "-u", "nobody", "--", sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))[-1],
                  "-A", "trust", "-N", "-D", f"{folder}/data")
        with Service("store.backend=postgres", f"store.dsn=host={folder} user=nobody dbname=postgres") as service:
            service.expect_waiting("the store: cannot be reached")
            with postgres(folder):
                service.expect_serving()


@tap.test
def a_disk_that_is_full():
    with small_disk(8) as disk, Service("store.backend=lmdb", f"store.path={disk}/store") as service:
        fill(f"{disk}/other")
        service.expect_waiting("the store: no space left")
        os.unlink(f"{disk}/other")
        service.expect_serving()


@tap.test
def what_cannot_mend_itself_is_not_tried_again():
    """PKG-03: A wrong configuration: 2. A store that is damaged or not ours: 3, and the status line says so."""
    with Service("server.port=0") as service:
        assert service.attempt() == 2 and 2 in service.final
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        Path(folder, "data.mdb").write_bytes(b"another program's file\n" * 1000)
        with Service("store.backend=lmdb", f"store.path={folder}") as service:
            service.expect_final(3, "until an operator repairs it", "the store")


if __name__ == "__main__":
    netns.enter()
    tap.main()
