#!/usr/bin/env python3
"""Attacks on the log: fill the disk with lines, or stop the daemon by a log that takes none (SEC-09)."""
import fcntl
import os
import re
import signal
import subprocess
import threading

from holdfast_test import netns, nlm, rpc, tap
from holdfast_test.daemon import PORT, WAIT_S, Daemon
from holdfast_test.xdr import Encoder

NLM = 100021
F_SETPIPE_SZ = 1031
LIMIT = 300  # lines: a hundred of a kind in ten seconds, and some seconds to spare

# Each FREE_ALL is to be obeyed, and logged, at once: without asking the client's status monitor first (SEC-04).
UNVERIFIED = "notify.verify=no"


def free_all(client, times, name=b"attacker.example"):
    """So often: takes a lock, so that there is something to release, and sends FREE_ALL."""
    lock = nlm.ARGS[nlm.LOCK](4, b"cook", nlm.Lock(name, b"file", b"1@attacker", 1, 0, 0), state=1)
    notice = Encoder().opaque(name).int(1).bytes()
    for _ in range(times // 100):
        for _ in range(100):
            client.send_raw(rpc.record(rpc.call_message(rpc.new_xid(), NLM, 4, nlm.LOCK, lock)) +
                            rpc.record(rpc.call_message(rpc.new_xid(), NLM, 4, nlm.FREE_ALL, notice)))
        for _ in range(200):
            client.receive()


@tap.test
def twenty_thousand_lines_from_one_peer():
    """Given 20,000 FREE_ALLs, at most some hundred lines are written, and the others are counted."""
    with Daemon(UNVERIFIED) as daemon, rpc.Tcp("192.0.2.1", PORT, source=("192.0.2.2", 0)) as client:
        free_all(client, 20000)
    lines = [line for line in daemon.lines if " client released " in line]
    left_out = [line for line in daemon.lines if "log lines left out" in line and "client released" in line]
    counted = sum(int(n) for line in lines for n in re.findall(r"held_back=(\d+)", line))
    counted += sum(int(n) for line in left_out for n in re.findall(r"lines=(\d+)", line))
    assert len(lines) <= LIMIT, f"{len(lines)} lines"
    assert len(lines) + counted == 20000, f"{len(lines)} lines and {counted} counted"


class Stalled:
    """A daemon whose standard error is a full pipe that no process reads."""

    def __init__(self, *sets):
        self.daemon = Daemon(*sets)

    def __enter__(self):
        self.end, end = os.pipe()
        fcntl.fcntl(end, F_SETPIPE_SZ, 4096)
        self.process = subprocess.Popen(self.daemon.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=end)
        text = b""
        while b" ready " not in text:
            text += os.read(self.end, 65536)
        os.set_blocking(end, False)
        try:
            while os.write(end, b"\n" * 512):
                pass
        except BlockingIOError:
            os.set_blocking(end, True)
        os.close(end)
        return self

    def read_on(self):
        """Someone reads again: all that was written, to the end."""
        self.text = b""

        def read():
            while part := os.read(self.end, 65536):
                self.text += part

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.end)


@tap.test
def a_log_that_takes_no_more_lines():
    """Given a standard error that is full, requests that log are answered all the same; when it is read again,
    the lines come, and a stop is complete with its last line."""
    with Stalled(UNVERIFIED) as stalled:
        with rpc.Tcp("192.0.2.1", PORT, source=("192.0.2.2", 0)) as client:
            free_all(client, 200)
        stalled.read_on()
        stalled.process.send_signal(signal.SIGTERM)
        assert stalled.process.wait(WAIT_S) == 0
        stalled.reader.join(WAIT_S)
        assert b"client released" in stalled.text and b" stopped" in stalled.text, stalled.text.strip()


@tap.test
def a_log_that_is_never_read_again():
    """Given a standard error that stays full, SIGTERM still ends the daemon, with status 0."""
    with Stalled(UNVERIFIED) as stalled:
        with rpc.Tcp("192.0.2.1", PORT, source=("192.0.2.2", 0)) as client:
            free_all(client, 200)
        stalled.process.send_signal(signal.SIGTERM)
        assert stalled.process.wait(WAIT_S) == 0


if __name__ == "__main__":
    netns.enter()
    tap.main()
