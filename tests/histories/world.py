"""A run of random lock requests under faults: client hosts in network namespaces of their own, the daemon, and a
nemesis that kills, pauses, cuts and reboots, all from one seed. What the clients saw is then checked.
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from holdfast_test import netns
from holdfast_test.store import Server

import history

HERE = Path(__file__).resolve().parent
PLAYER = os.environ.get("HOLDFAST_PLAYER", "hf-player")
CHECKER = os.environ.get("HOLDFAST_CHECK_HISTORY", "hf-check-history")
FILES = 6


class Client:
    """A host in a namespace of its own, with its lives one after the other."""

    def __init__(self, number, seed, folder, options):
        self.number, self.seed, self.folder, self.options = number, seed, folder, options
        self.server, self.address = f"10.9.{number}.1", f"10.9.{number}.2"
        self.neighbour = netns.Neighbour(self.server, self.address, f"host{number}")
        self.logs, self.process = [], None

    def __enter__(self):
        self.neighbour.__enter__()
        self.boot()
        return self

    def __exit__(self, *_):
        self.neighbour.__exit__()

    def boot(self):
        life = len(self.logs)
        self.logs.append(f"{self.folder}/host{self.number}.{life}")
        self.process = self.neighbour.start(PLAYER, *self.options, str(self.number), str(life), self.address,
                                            self.server, self.seed, self.logs[-1], stdout=subprocess.PIPE)

    def wait_until_up(self):
        assert self.process.stdout.readline() == b"ready\n", f"host {self.number} does not start"

    def crash(self):
        self.process.kill()
        self.process.wait()
        time.sleep(0.3)  # what it had sent has arrived by then
        self.boot()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(120) == 0, f"host {self.number} ended with {self.process.returncode}"

    def cut(self, is_cut):
        netns.run("ip", "link", "set", f"hf{self.neighbour.process.pid}", "down" if is_cut else "up")


class Run:
    """sets: the daemon's settings. pause_s: between two faults, on average; 0: none."""

    def __init__(self, seed, *sets, hosts=3, options=(), faults=None, pause_s=0.5, env=None):
        self.dice, self.faults, self.pause_s = random.Random(seed), faults or FAULTS, pause_s
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-history-")
        # Longer than the nemesis keeps a client away, with the pauses of its TCP connections: no client loses its locks.
        self.server = Server("grace.seconds=30", "notify.timeout=5", *sets, env=env)
        self.clients = [Client(n, seed, self.folder.name, ("--files", str(FILES), *options)) for n in range(1, hosts + 1)]
        self.restarts, self.counts = [], {}

    def play(self, seconds):
        """Plays, ends all clients, and leaves the history in self.path: how many operations were completed."""
        with ExitStack() as stack:
            stack.enter_context(self.server)
            for client in self.clients:
                stack.enter_context(client)
            for client in self.clients:
                client.wait_until_up()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(self.dice.expovariate(1 / self.pause_s) if self.pause_s else seconds)
                if self.pause_s:
                    self.strike()
            for client in self.clients:
                client.stop()
        self.path = self.folder.name + "/history"
        return history.write(self.path, {c.number: c.logs for c in self.clients}, self.restarts, [f"f{n}" for n in range(FILES)])

    def check(self, picture=None):
        """(exit status of the checker, what it said)."""
        done = subprocess.run([CHECKER, *(["--picture", picture] if picture else []), self.path],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        return done.returncode, done.stdout.decode()

    def close(self):
        self.folder.cleanup()

    # ---- faults ----

    def strike(self):
        fault = self.dice.choice(self.faults)
        self.counts[fault.__name__] = self.counts.get(fault.__name__, 0) + 1
        fault(self)

    def restart_server(self, stop):
        began = time.monotonic_ns()
        stop()
        self.restarts.append((began, time.monotonic_ns()))
        self.server.start()

    def kill_server(self):
        self.restart_server(self.server.kill)

    def stop_server(self):
        self.restart_server(self.server.stop)

    def pause_server(self):
        self.server.daemon.send_signal(signal.SIGSTOP)
        time.sleep(self.dice.choice((0.1, 0.5, 2)))
        self.server.daemon.send_signal(signal.SIGCONT)

    def crash_client(self):
        client = self.dice.choice(self.clients)
        client.crash()
        client.wait_until_up()

    def cut_client(self):
        client = self.dice.choice(self.clients)
        client.cut(True)
        time.sleep(self.dice.choice((0.2, 1)))
        client.cut(False)

    def cut_client_and_kill_server(self):
        client = self.dice.choice(self.clients)
        client.cut(True)
        self.kill_server()
        time.sleep(0.5)
        client.cut(False)


FAULTS = (Run.kill_server, Run.stop_server, Run.pause_server, Run.crash_client, Run.cut_client, Run.cut_client_and_kill_server)
