"""A world in which histories are played: client hosts, a service (services.py) and a nemesis (nemesis.py).

    with World("lmdb", "seed") as world:
        world.play(20).judge()      # as often as wanted
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

from wires import Node

import services
from judge import Round
from nemesis import Nemesis

PLAYER = os.environ.get("HOLDFAST_PLAYER", "hf-player")
OUTSIDE_PLAYER = str(Path(__file__).with_name("outside.py"))
OUTSIDE = 100  # programs of the server are hosts from this number on
HOSTS, PROCESSES, FILES = 3, 8, 12
AT_ONCE = 0.25     # how often a fault strikes before the last one is over
RECOVERY_S = 15.0  # for how long it is waited for otherwise
POLL_S = 0.1       # the time to recovery itself is read off the history; to look more often takes a tenth of the machine
END_S = 120  # for all requests in flight to be answered


class Client:
    """A host with its lives, one after the other."""

    def __init__(self, number, service, seed, options):
        self.number, self.server, self.seed, self.options = number, service.address, seed, options
        self.node = Node(service.hosts[0].switch, f"client{number}", 30 + number)
        self.life, self.process, self.logs = 0, None, []

    def begin(self, folder):
        """A new history, which begins at go()."""
        self.folder, self.logs = folder, []
        self.boot(stdin=subprocess.PIPE)

    def boot(self, **options):
        self.logs.append(f"{self.folder}/host{self.number}.{self.life}")
        self.process = self.node.start(PLAYER, *self.options, str(self.number), str(self.life), self.node.address, self.server,
                                       self.seed, self.logs[-1], stdout=subprocess.PIPE, **options)
        self.life += 1

    def wait_until_up(self):
        assert self.process.stdout.readline() == b"ready\n", f"host {self.number} does not start"

    def go(self):
        self.process.stdin.close()

    def crash(self):
        self.process.kill()
        self.process.wait()
        time.sleep(0.3)  # what it had sent has arrived by then
        self.boot()
        self.wait_until_up()

    def was_granted_a_lock(self, since):
        """Whether the end of its log says so."""
        with open(self.logs[-1], "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 16384))
            lines = [line.split() for line in log.read().splitlines()]
        locks = {words[1] for words in lines if len(words) == 9 and words[0] == b"i" and words[4] in (b"lock", b"enter")}
        return any(words[0] == b"c" and words[3] == b"granted" and words[1] in locks and int(words[2]) > since
                   for words in lines if len(words) == 4)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, meanwhile):
        end = time.monotonic() + END_S
        while self.process.poll() is None:
            assert time.monotonic() < end, f"host {self.number}: a request is not answered for {END_S} s after the last fault"
            meanwhile()
            time.sleep(POLL_S)
        assert self.process.returncode == 0, f"host {self.number} ended with {self.process.returncode}"


class Program:
    """A program of the server that locks the same files (outside.py)."""

    def __init__(self, folder, export, files, number, seed):
        self.log = f"{folder}/outside{number}"
        self.process = subprocess.Popen([sys.executable, OUTSIDE_PLAYER, str(export), str(files), str(number), self.log, seed])

    def stop(self):
        self.process.terminate()
        assert self.process.wait(END_S) == 0, "a program outside has failed"


class World:
    """config: a name of services.CONFIGURATIONS. pause_s: between two faults, on average; 0: no faults. options: of the
    players. sets, env: of the daemon. outside: how many programs of the server lock the same files."""

    def __init__(self, config, seed, hosts=HOSTS, processes=PROCESSES, files=FILES, options=None, kinds=None, pause_s=0.5,
                 longest_s=30.0, sets=(), env=None, outside=0):
        self.config, self.seed, self.pause_s, self.files = config, seed, pause_s, files
        self.longest_s, self.kinds, self.dice = longest_s, kinds, random.Random(seed)
        self.service = services.make(config, sets, env)
        if self.service.forgets_locks:  # a client that is away for longer than grace loses its locks
            self.longest_s = min(longest_s, services.FORGETFUL_CLIENT_S)
            processes = min(processes, 4)  # all wait until grace is over: too much at a time to decide otherwise
        if options is None:  # where only clients are durable, a reclaim is checked client by client
            options = () if self.service.forgets_locks else ("--false-reclaims",)
        self.player_options = ("--files", str(files), "--processes", str(processes), *options)
        self.n_hosts, self.rounds, self.outside = hosts, 0, outside

    def __enter__(self):
        with ExitStack() as stack:
            stack.enter_context(self.service)
            if hasattr(self.service, "handles"):
                self.player_options += ("--handles", self.service.handles)
            self.clients = [Client(number, self.service, self.seed, self.player_options)
                            for number in range(1, self.n_hosts + 1)]
            for client in self.clients:
                stack.enter_context(client.node)
            self.nemesis = Nemesis(self.seed, self.service, self.clients, self.longest_s, self.kinds)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *failure):
        self.stack.__exit__(*failure)

    def wait_for_recovery(self, fault):
        if self.dice.random() < AT_ONCE:
            return
        fault.is_timed, end = True, time.monotonic() + RECOVERY_S
        concerned = [client for client in self.clients if client.number in fault.clients]
        while time.monotonic() < end and not any(client.was_granted_a_lock(fault.since) for client in concerned):
            time.sleep(POLL_S)

    def play(self, seconds):
        """A Round, to be judged."""
        self.rounds += 1
        folder = tempfile.mkdtemp(prefix="holdfast-history-")
        self.service.restarts()  # those between two rounds do not count
        self.nemesis.faults = []
        for step in (lambda client: client.begin(folder), Client.wait_until_up, Client.go):
            for client in self.clients:
                step(client)
        programs = [Program(folder, self.service.export, self.files, n, f"{self.seed}-{self.rounds}") for n in range(self.outside)]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.dice.expovariate(1 / self.pause_s) if self.pause_s else seconds)
            self.service.revive()
            if self.pause_s:
                self.wait_for_recovery(self.nemesis.strike())
        for one in programs:
            one.stop()  # before the clients, which may wait for what it has
        for client in self.clients:
            client.stop()
        for client in self.clients:
            client.wait(self.service.revive)
        logs = {c.number: c.logs for c in self.clients} | {OUTSIDE + n: [one.log] for n, one in enumerate(programs)}
        return Round(self.config, f"{self.seed}-{self.rounds}", folder, logs,
                     self.service.restarts(), self.nemesis.faults, [f"f{n}" for n in range(self.files)],
                     {one.process.pid: f"{OUTSIDE + n}.{n}" for n, one in enumerate(programs)})
