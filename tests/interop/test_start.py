#!/usr/bin/env python3
"""A daemon without standbys starts as a takeover does: it listens, loads its store on another thread, and serves when the new
epoch is durable. held_load.c keeps it loading for as long as a file exists."""
import http.client
import json
import os
import signal
import socket
import tempfile

from holdfast_test import netns, nlm, nsm, rpc, tap
from holdfast_test.daemon import PORT, WAIT_S, Daemon
from holdfast_test.nlm import LOCK


class Start:
    """A store, daemons on it one after the other, and the file that holds the next one up."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-")
        self.hold = os.path.join(self.folder.name, "hold")
        self.socket = os.path.join(self.folder.name, "admin.sock")
        return self

    def daemon(self):
        return Daemon("store.backend=lmdb", f"store.path={self.folder.name}", "server.listen=127.0.0.1", "admin.listen=",
                      f"admin.socket={self.socket}", env={"LD_PRELOAD": os.environ["HELD_LOAD_LIBRARY"],
                                                          "HELD_LOAD": self.hold})

    def state(self):
        """The state number of a whole run, from start to clean stop."""
        with self.daemon():
            with nsm.connect("127.0.0.1", transport="udp") as monitor:
                return monitor.stat().state

    def load(self):
        """A daemon that is loading, and stays so until go_on()."""
        with open(self.hold, "w"):
            pass
        daemon = self.daemon().start(wait=False)
        daemon.wait_for_log("confined")
        return daemon

    def go_on(self):
        os.unlink(self.hold)

    def get(self, path):
        """(status, body), from the administration interface."""
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(WAIT_S)
        connection.sock.connect(self.socket)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    def __exit__(self, *_):
        self.folder.cleanup()


@tap.test
def what_arrives_while_the_store_is_loaded_is_answered_afterwards():
    """NSM-06: given LOCKs, by UDP and TCP, that arrive while the store is still being loaded, no packet leaves before the new
    epoch is durable. Then they are granted: they are neither lost nor refused."""
    with Start() as start:
        daemon = start.load()
        with rpc.Udp("127.0.0.1", PORT) as udp, rpc.Tcp("127.0.0.1", PORT) as tcp:
            for number, client in enumerate((udp, tcp)):
                lock = nlm.Lock(offset=100 * number, length=10)
                client.send(rpc.call_message(number, nlm.PROG, 4, LOCK, nlm.ARGS[LOCK](4, b"cookie", lock)))
            assert udp.is_silent() and tcp.is_silent()
            start.go_on()
            for number, client in enumerate((udp, tcp)):
                stat = nlm.decode_result(LOCK, 4, client.reply_to(number).results).stat
                assert stat == "GRANTED", (client.transport, stat)
        daemon.end()


@tap.test
def operators_are_told_that_it_loads():
    """ADM-01: given a store that is still being loaded, the administration interface lists nothing as if there were nothing, and
    the daemon is not ready."""
    with Start() as start:
        daemon = start.load()
        for path in ("/readyz", "/api/v1/locks"):
            status, body = start.get(path)
            assert status == 503 and "loads its store" in body, (path, status, body)
        assert json.loads(start.get("/api/v1/status")[1])["state"] is None
        start.go_on()
        daemon.wait_for_log("ready version=")
        for path in ("/readyz", "/api/v1/locks"):
            assert start.get(path)[0] == 200, path
        assert json.loads(start.get("/api/v1/status")[1])["state"] == 1
        daemon.end()


@tap.test
def a_stop_while_the_store_is_loaded_begins_no_epoch():
    """NSM-06: given SIGTERM, or a reload and then SIGTERM, while the store is still being loaded, the daemon ends with status 0,
    and the next start has the state number that this one would have had."""
    with Start() as start:
        before = start.state()
        for signals in ((signal.SIGTERM,), (signal.SIGHUP, signal.SIGTERM)):
            daemon = start.load()
            for number in signals:
                daemon.send_signal(number)
                daemon.wait_for_log("stopping" if number == signal.SIGTERM else "configuration reloaded")
            start.go_on()
            assert daemon.wait() == 0, daemon.log()
            daemon.check_sanitizers()
            assert "ready version=" not in daemon.log() and "durable at the end" not in daemon.log(), daemon.log()
        assert start.state() == before + 2


if __name__ == "__main__":
    netns.enter()
    tap.main()
