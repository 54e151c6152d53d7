"""What goes wrong during a history, all from one seed. Each fault happens, lasts, and is healed before the next.

    nemesis = Nemesis(seed, service, clients, longest_s=30)
    nemesis.strike()        # one fault at random, of those that the service can have
    nemesis.faults          # Fault(kind, from when recovery counts, which clients it concerned)
"""
import contextlib
import math
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast_test import tap

from delay import QUEUE

DELAY = Path(__file__).resolve().parent / "delay.py"
LOSS, DELAY_MS = 0.2, 200

# What a host receives: rules of its own firewall.
FILTER, NO_FILTER = ("iptables", "-w", "-A", "INPUT"), ("iptables", "-w", "-F", "INPUT")
LOSE = ("-m", "statistic", "--mode", "random", "--probability", str(LOSS), "-j", "DROP")
HOLD_BACK = ("-j", "NFQUEUE", "--queue-num", str(QUEUE), "--queue-bypass")


END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'holdfastd-%'"
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_tables; SELECT pg_sleep(60)"
MESSAGES = 40  # so many packets come from the database from one poll to the end of a takeover, and more


def reset_at(n):
    """The n-th packet from the database from now on ends its connection."""
    return ("-p", "tcp", "--sport", "5432", "-m", "statistic", "--mode", "nth", "--every", "1000000", "--packet", str(n - 1),
            "-j", "REJECT", "--reject-with", "tcp-reset")


def family(pid):
    """A process and its children: the daemon, and the process that runs its hook."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def from_host(hardware):
    return ("-m", "mac", "--mac-source", hardware, "-j", "DROP")


@dataclass
class Fault:
    kind: str
    since: int       # recovery is counted from here: a crash, or the end of a fault that lasts
    clients: list    # numbers of the clients that it concerned
    is_timed: bool = False  # the next fault waits until this one is over


class Nemesis:
    def __init__(self, seed, service, clients, longest_s=30.0, kinds=None):
        self.dice = random.Random(seed)
        self.service, self.clients, self.longest_s = service, clients, longest_s
        self.kinds = kinds or [kind for kind in kinds_of(service) if kernel_can(clients[0].node, kind)]
        # The first fault kills the daemon that serves, unless a test chose other kinds: however short a run is, it has a restart.
        crash = CRASHES[len(service.members) > 1]
        self.first = crash if crash in self.kinds else None
        self.faults, self.nth, self.dump = [], self.dice.randrange(MESSAGES), None

    def strike(self):
        kind = self.first or self.dice.choice(self.kinds)
        self.first = None
        since, clients = (kind(self) or (None, None))
        self.faults.append(Fault(kind.__name__, since or time.monotonic_ns(),
                                 [client.number for client in clients or self.clients]))
        self.service.check()
        return self.faults[-1]

    def wait(self, low, high):
        """Short ones are more frequent: as many from 0.1 to 1 s as from 1 to 10 s."""
        high = min(high, self.longest_s)
        time.sleep(math.exp(self.dice.uniform(math.log(min(low, high)), math.log(high))))

    def hosts(self):
        return [*self.service.hosts, *(client.node for client in self.clients)]

    # ---- processes ----

    def kill_node(self):
        return self.service.restart(self.service.owner().kill), None

    def kill_keeper(self):
        """Its worker; the guard has what is locked."""
        self.service.keeper.kill_worker()

    def stop_node(self):
        return self.service.restart(self.service.owner().stop), None

    def pause_node(self):
        """In a pair the other node takes over meanwhile, if it lasts."""
        daemon = self.service.owner().daemon
        daemon.send_signal(signal.SIGSTOP)
        self.wait(0.1, 30)
        daemon.send_signal(signal.SIGCONT)

    def pause_machine(self):
        """A virtual machine is paused: no clock of it shows the time. In a pair the other node takes over, if it lasts; then this
        one goes on, and believes in its lease."""
        owner = self.service.owner()
        pids = family(owner.daemon.process.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        began = time.monotonic_ns()
        self.wait(0.1, 30)
        self.service.dials[owner.name].stand_still(time.monotonic_ns() - began)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def fill_stderr(self):
        """What reads the daemon's log hangs."""
        with self.service.owner().daemon.unread():
            self.wait(0.2, 10)

    def restart_changed(self):
        """Killed or stopped, and started with another configuration; perhaps before its address is there."""
        owner = self.service.owner()
        owner.changed = tuple(self.dice.choice(values) for values in self.service.changes())
        late = self.dice.random() < 0.5 and not self.service.databases  # without its address it reaches none
        if late:
            owner.node.run("ip", "address", "del", owner.node.address + "/24", "dev", "eth0")
        since = self.service.restart(self.dice.choice((owner.kill, owner.stop)))
        if late:
            self.wait(0.1, 3)
            owner.node.run("ip", "address", "add", owner.node.address + "/24", "dev", "eth0")
            since = time.monotonic_ns()
        return since, None

    def kill_client(self):
        client = self.dice.choice(self.clients)
        client.crash()
        return time.monotonic_ns(), [client]

    def pause_client(self):
        client = self.dice.choice(self.clients)
        client.process.send_signal(signal.SIGSTOP)
        self.wait(0.1, 30)
        client.process.send_signal(signal.SIGCONT)
        return None, [client]

    # ---- the network ----

    @contextlib.contextmanager
    def cut(self, one, other):
        """One way, the other, or both: what arrives from that host is dropped."""
        ways = self.dice.choice(([(one, other)], [(other, one)], [(one, other), (other, one)]))
        for sender, receiver in ways:
            receiver.run(*FILTER, *from_host(sender.hardware()))
        yield
        for _, receiver in ways:
            receiver.run(*NO_FILTER)

    def cut_client(self):
        client = self.dice.choice(self.clients)
        with self.cut(client.node, self.service.owner().node):
            self.wait(0.2, 10)
        return None, [client]

    def cut_client_and_kill_node(self):
        client = self.dice.choice(self.clients)
        with self.cut(client.node, self.service.owner().node):
            since, _ = self.kill_node()
            time.sleep(0.5)
        return since, [other for other in self.clients if other is not client]

    def cut_database(self):
        database = self.dice.choice(self.service.databases)
        with self.cut(self.service.owner().node, database.node):
            self.wait(0.2, 10)

    def cut_standby_database(self):
        with self.cut(*(server.node for server in self.service.databases)):
            self.wait(0.2, 10)

    def victims(self):
        """One host, or all of them."""
        return self.dice.choice(([self.dice.choice(self.hosts())], self.hosts()))

    def lose_packets(self):
        victims = self.victims()
        for node in victims:
            node.run(*FILTER, *LOSE)
        self.wait(0.5, 10)
        for node in victims:
            node.run(*NO_FILTER)

    def delay_packets(self):
        victims, delays = self.victims(), []
        for node in victims:
            delays.append(node.start(sys.executable, str(DELAY), str(DELAY_MS), stdout=subprocess.PIPE))
        for node, process in zip(victims, delays):
            assert process.stdout.readline() == b"ready\n"
            node.run(*FILTER, *HOLD_BACK)
        self.wait(0.5, 10)
        for node, process in zip(victims, delays):
            node.run(*NO_FILTER)
            process.terminate()
            process.wait()

    # ---- disks and clocks ----

    def fill_disk(self):
        disk = self.dice.choice(self.service.disks)
        disk.fill()
        self.wait(0.2, 5)
        disk.free()

    def slow_disk(self):
        """Every flush of one host takes so much longer."""
        names = [server.node.name for server in self.service.databases] or [self.service.owner().name]
        dials = self.service.dials[self.dice.choice(names)]
        dials.set_flush(self.dice.choice((0.005, 0.05, 0.3)))
        self.wait(0.5, 5)
        dials.set_flush(0)

    def jump_clock(self):
        """The wall clock of a daemon, back or forth, for good; or its host seems to have been suspended."""
        dials = self.service.dials[self.dice.choice(self.service.members).name]
        if self.dice.random() < 0.5:
            dials.jump(self.dice.choice((-1, 1)) * self.dice.choice((0.5, 5, 3600, 86400)))
        else:
            dials.jump(0, self.dice.choice((0.3, 1, 60)))

    # ---- databases ----

    def kill_database(self):
        database = self.dice.choice(self.service.databases)
        database.kill()
        database.start()

    def pause_database(self):
        database = self.dice.choice(self.service.databases)
        database.pause()
        self.wait(0.1, 30)
        database.resume()

    def lock_table(self):
        """As VACUUM FULL, REINDEX and ALTER do."""
        table, seconds = self.dice.choice(self.service.tables()), min(self.dice.uniform(0.05, 3), self.longest_s)
        self.service.primary().session(f"BEGIN; LOCK TABLE {table}; SELECT pg_sleep({seconds})", "holdfast").wait()

    def end_sessions(self):
        """Those of the daemons, once or several times."""
        for _ in range(self.dice.choice((1, 1, 3))):
            self.service.primary().sql(END_SESSIONS)
            self.wait(0.01, 0.5)

    def hold_snapshot(self):
        """A dump that takes long: it goes on during the faults that follow. One at a time."""
        if not self.dump or self.dump.poll() is not None:
            self.dump = self.service.primary().session(SNAPSHOT, "holdfast")

    # ---- a service with standbys ----

    def cut_takeover(self):
        """The owner is killed, and the node that takes over loses its connection to the database at the n-th packet from there; n
        grows from fault to fault."""
        owner = self.service.owner()
        other = self.service.cluster.other(owner)
        self.nth = self.nth % MESSAGES + 1
        other.node.run(*FILTER, *reset_at(self.nth))
        owner.kill()
        since = time.monotonic_ns()
        self.wait(1.5, 4)
        other.node.run(*NO_FILTER)
        owner.start()
        return since, None

    def kill_owner_unheard(self):
        """With a full standard error: the process that drops its addresses shares it, and must not wait for it."""
        owner = self.service.owner()
        with owner.daemon.unread():
            owner.daemon.send_signal(signal.SIGKILL)
            since = time.monotonic_ns()
            self.wait(0.5, 3)
        owner.daemon.wait()
        owner.daemon.check_sanitizers()
        owner.start()
        return since, None

    def kill_owner(self):
        owner = self.service.owner()
        owner.kill()
        since = time.monotonic_ns()
        self.wait(0.05, 3)  # shorter or longer than the other node waits
        owner.start()
        return since, None

    def stop_owner(self):
        owner = self.service.owner()
        owner.stop()
        since = time.monotonic_ns()
        owner.start()
        return since, None

    def move_service(self):
        owner = self.service.owner()
        other = self.service.cluster.other(owner)
        if owner.sees(other):
            since = time.monotonic_ns()
            owner.ctl("cluster", "move")
            return since, None
        return None

    def unplug_owner(self):
        owner = self.service.owner()
        owner.node.unplug()
        since = time.monotonic_ns()
        self.wait(0.2, 10)
        owner.node.plug()
        return since, None

    def fail_over_database(self):
        """The primary is killed, its standby promoted, and a new standby made."""
        self.service.owner()
        self.service.pair.primary.kill()
        since = time.monotonic_ns()
        self.service.pair.promote()
        self.wait(0.1, 3)
        self.service.pair.rebuild()
        return since, None


ALWAYS = (Nemesis.pause_node, Nemesis.kill_client, Nemesis.pause_client, Nemesis.cut_client, Nemesis.lose_packets,
          Nemesis.delay_packets, Nemesis.fill_disk, Nemesis.fill_stderr)
PRELOADED = (Nemesis.slow_disk, Nemesis.jump_clock, Nemesis.pause_machine)
ALONE = (Nemesis.kill_node, Nemesis.stop_node, Nemesis.cut_client_and_kill_node, Nemesis.restart_changed)
DATABASE = (Nemesis.cut_database, Nemesis.kill_database, Nemesis.pause_database, Nemesis.lock_table, Nemesis.end_sessions,
            Nemesis.hold_snapshot)
STANDBY = (Nemesis.kill_owner, Nemesis.stop_owner, Nemesis.move_service, Nemesis.unplug_owner, Nemesis.cut_standby_database,
           Nemesis.fail_over_database, Nemesis.cut_takeover, Nemesis.kill_owner_unheard)
CRASHES = (Nemesis.kill_node, Nemesis.kill_owner)  # of the daemon that serves: alone, and in a service with standbys


def kinds_of(service):
    return [*ALWAYS, *(PRELOADED if service.is_preloaded else ()), *(ALONE if len(service.members) == 1 else STANDBY),
            *(DATABASE if service.databases else ()), *([Nemesis.kill_keeper] if service.keeper else ())]


NEEDS = {Nemesis.lose_packets: LOSE, Nemesis.delay_packets: HOLD_BACK, Nemesis.cut_takeover: reset_at(1),
         **{kind: from_host("02:00:00:00:00:01")
            for kind in (Nemesis.cut_client, Nemesis.cut_client_and_kill_node, Nemesis.cut_database, Nemesis.cut_standby_database)}}


def kernel_can(node, kind):
    """Whether the kernel has what this fault needs. A rule for what no host sends; iptables says nothing if it can."""
    if kind not in NEEDS:
        return True
    said = node.run(*FILTER, "-s", "203.0.113.1", *NEEDS[kind], check=False)
    node.run(*NO_FILTER, check=False)
    if said:
        tap.note(f"no {kind.__name__}: {said.splitlines()[0]}")
    return not said
