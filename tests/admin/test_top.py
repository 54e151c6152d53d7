#!/usr/bin/env python3
"""holdfastctl top (ADM-04): in a pipe, and on a terminal with keys."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from ctl_program import CTL, OK, UNREACHABLE, USAGE, ctl, ctl_ok
from holdfast_test import netns, tap
from holdfast_test.daemon import WAIT_S, Daemon
from world import Locker


class Scene:
    """Two clients wait for alpha's first file, one for its second."""

    def __enter__(self):
        self.daemon = Daemon().start()
        self.alpha, self.beta, self.gamma = (Locker(f"{name}.example", f"192.0.2.{n}")
                                             for n, name in enumerate(("alpha", "beta", "gamma"), 1))
        assert self.alpha.lock(b"popular") == "granted" and self.alpha.lock(b"other", svid=2) == "granted"
        assert self.beta.lock(b"other", svid=3, block=True) == "blocked"
        for svid, locker in ((4, self.beta), (5, self.gamma)):
            assert locker.lock(b"popular", svid=svid, block=True) == "blocked"
        return self

    def __exit__(self, *failure):
        for locker in (self.alpha, self.beta, self.gamma):
            locker.client.close()
        self.daemon.__exit__(*failure)


class Terminal:
    """top on a terminal of 24 lines and 100 columns: what it shows now, and keys for it."""

    def __init__(self, *arguments):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen([CTL, "top", *arguments], stdin=slave, stdout=slave, stderr=slave,
                                        env=os.environ | {"NO_COLOR": "1", "LC_ALL": "C.UTF-8"}, start_new_session=True)
        self.slave, self.text = slave, ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.slave)
        os.close(self.master)

    def press(self, keys):
        self.text = ""
        os.write(self.master, keys.encode())

    def read(self):
        if select.select([self.master], [], [], 0.1)[0]:
            with contextlib.suppress(OSError):
                self.text += os.read(self.master, 65536).decode(errors="replace")

    def expect(self, pattern):
        """Waits for a picture that matches; the picture."""
        end = time.monotonic() + WAIT_S
        while True:
            self.read()
            for picture in self.text.split("\033[H\033[2J"):
                if re.search(pattern, picture, re.S):
                    return picture
            assert time.monotonic() < end, f"no {pattern!r} in {self.text[-3000:]!r}"

    def ends(self):
        end = time.monotonic() + WAIT_S
        while self.process.poll() is None:
            self.read()  # it must not wait for a reader
            assert time.monotonic() < end
        self.read()
        assert termios.tcgetattr(self.slave)[3] == self.before[3], "the terminal is as before"
        assert self.text.endswith("\033[?25h\033[?1049l"), self.text[-100:]
        return self.process.returncode


@tap.test
def in_a_pipe_it_prints_once():
    """The most waited-for file comes first, then the longest waits, then the busiest clients; rates; JSON."""
    with Scene():
        out = ctl_ok("top")
        assert re.match(r"server.example: \d+ requests, \d+ commits, \d+ callbacks a second\n2 locks on 2 files, 3 waiting, "
                        r"3 clients; longest wait \d+s\n", out), out
        files = out.partition("files that are waited for:\n")[2].splitlines()
        assert files[0].split()[:3] == ["FILE", "WAITING", "LONGEST"], files
        assert re.match(rf"{b'popular'.hex()} +2 +\d+s +alpha.example \(192.0.2.1\) +\d+s", files[1]), files
        assert re.match(rf"{b'other'.hex()} +1 ", files[2]), files
        assert len(re.findall(r"^(?:beta|gamma).example \(192.0.2.\d\) +\d+s +[0-9a-f]+ +alpha", out, re.M)) == 3, out
        assert "REQUESTS/S" in out and "alpha.example (192.0.2.1)" in out.partition("busiest clients")[2], out
        found = json.loads(ctl_ok("top", "--json"))
        assert [row["waiters"] for row in found["files"]] == [2, 1] and found["waits"][0]["blocker"]["client"]["name"] == "alpha.example"
        assert "gamma" not in ctl_ok("top", "--client", "beta").partition("longest waits")[2]
        assert len(re.findall(r"^beta.example", ctl_ok("top", "--limit", "1"), re.M)) <= 2
        assert ctl("top", "--sort", "colour")[0] == USAGE and ctl("top", "x")[0] == USAGE
        assert ctl("top", "--socket", "/nonexistent")[0] == UNREACHABLE


@tap.test
def busy_clients_are_seen():
    """Given a client that asks and asks, its requests a second are shown."""
    with Scene() as scene:
        watching = subprocess.Popen([CTL, "top", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        while watching.poll() is None and not select.select([watching.stdout], [], [], 0)[0]:
            assert scene.gamma.lock(b"mine", svid=9) == "granted" and scene.gamma.unlock(b"mine", svid=9) == "granted"
        clients = {row["name"]: row for row in json.loads(watching.communicate()[0])["clients"]}
        assert clients["gamma.example"]["rate"] > 5 > clients["alpha.example"]["rate"] == 0, clients


@tap.test
def keys_choose_sort_filter_and_look():
    """On a terminal: views by key, another order, a filter, one file looked at as `why` does, and q leaves the terminal as it was."""
    with Scene(), Terminal() as top:
        top.expect(rf"by waiters, largest first: 2.*> {b'popular'.hex()}.*\n  {b'other'.hex()}")
        top.press("r")
        top.expect(rf"smallest first.*> {b'other'.hex()}.*\n  {b'popular'.hex()}")
        top.press("rj")
        top.expect(rf"largest first.*  {b'popular'.hex()}.*\n> {b'other'.hex()}")
        top.press("\033[A\n")
        picture = top.expect(r"what you can do.*any key: back")
        assert picture.startswith(b"popular".hex()) and "1  beta.example" in picture, picture
        top.press("x")
        top.expect("by waiters, largest first")
        top.press("w")
        picture = top.expect(r"the longest waits, by waited.*q quit")
        assert picture.count("beta.example") == 2 and picture.count("gamma.example") == 1, picture
        top.press("s")
        top.expect("the longest waits, by client")
        top.press("/gamma\n")
        picture = top.expect(r"longest waits.*: 1\r?\n.*filter: gamma")
        assert "beta" not in picture, picture
        top.press("c")
        top.expect("the busiest clients, by rate, largest first: 1")
        top.press("/\033")
        top.expect("the busiest clients, by rate, largest first: 3")
        top.press("p")
        top.expect("PAUSED.*p go on")
        top.press("q")
        assert top.ends() == OK


@tap.test
def it_goes_on_looking():
    """The picture follows the daemon without a key; an interrupt and a daemon that goes away leave the terminal as it was."""
    with Scene() as scene, Terminal() as top:
        top.expect("2 locks on 2 files, 3 waiting")
        assert scene.alpha.lock(b"more", svid=6) == "granted"
        top.expect("3 locks on 3 files, 3 waiting")
        top.process.send_signal(signal.SIGINT)
        assert top.ends() == OK
    daemon = Daemon().start()
    with Terminal() as top:
        top.expect("0 locks on 0 files")
        daemon.end()
        assert top.ends() == UNREACHABLE


if __name__ == "__main__":
    netns.enter()
    tap.main()
