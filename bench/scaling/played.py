"""holdfast-clients: hosts by the hundred thousand, played by one process."""
import json
import subprocess
import time

from holdfast_test import crowd, netns
from holdfast_test.daemon import PORT

LIVING, MORTAL = "10.16.0.0/12", "10.32.0.0/12"


def join_addresses():
    """Makes two million addresses ours; those of MORTAL can be cut off."""
    crowd.join_addresses()
    for network in (LIVING, MORTAL):
        netns.run("ip", "route", "add", "local", network, "dev", "lo")


def cut_off():
    netns.run("ip", "route", "del", "local", MORTAL, "dev", "lo")
    netns.run("ip", "route", "add", MORTAL, "via", "10.254.0.1", "dev", "grave0", "onlink")


def join_again():
    netns.run("ip", "route", "del", MORTAL, "dev", "grave0")
    netns.run("ip", "route", "add", "local", MORTAL, "dev", "lo")


class Clients:
    """So many clients with so many locks each; each mortal-th of them can be cut off."""

    def __init__(self, bench, count, locks, mortal=0, port=PORT):
        self.count, self.locks = count, locks
        self.living = count - (count // mortal if mortal else 0)
        self.command = [bench.program("holdfast-clients"), "--server", crowd.SERVER, "--port", port,
                        "--clients", count, "--locks", locks, "--mortal", mortal]

    def __enter__(self):
        self.process = subprocess.Popen([str(word) for word in self.command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.next("ready")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(20)

    def say(self, word):
        self.process.stdin.write(word.encode() + b"\n")
        self.process.stdin.flush()

    def next(self, what):
        """The next line that it prints must be that one."""
        line = json.loads(self.process.stdout.readline())
        assert line["what"] == what, f"{line} instead of {what}"
        return line

    def lock(self):
        """Takes all locks: the seconds it took."""
        self.say("lock")
        line = self.next("locked")
        assert line["granted"] == self.count * self.locks and line["refused"] == 0, line
        return line["at"] - line["began"]

    def expect_restart(self):
        self.say(f"restart {self.living}")
        self.next("restart")

    def wait_until_reclaimed(self):
        """Until every living client has been told and has reclaimed all: both times, and the counts."""
        told = self.next("told")
        reclaimed = self.next("reclaimed")
        assert reclaimed["granted"] == self.living * self.locks and reclaimed["refused"] == 0, reclaimed
        return told["at"], reclaimed["at"], reclaimed

    def counts(self):
        self.say("?")
        return self.next("counts")


def wait_until_over(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)
