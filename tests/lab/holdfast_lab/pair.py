"""Two file servers with one service address. On each node: rpcbind, Ganesha without its lock manager on the same directory, and
Holdfast; what is in tests/ha moves the service. Four ways:

    Standby(lab)      holdfastd on both nodes over PostgreSQL; its hook has the address
    Unnoticed(lab)    the same, with recovery.notify=needed
    Keepalived(lab)   the same, but keepalived has the address
    SharedDisk(lab)   holdfastd on one node at a time, with LMDB on a disk that both see; keepalived starts it

A story asks a pair for its owner(), lets a node crash() or pause(), and has it back by revive() or resume().
"""
import os
import signal

import cluster
import keepalived
import wires
from holdfast_test import rpcbind
from holdfast_test.daemon import wait_until

from . import network, servers, story
from .unnoticed import NEEDED

SERVICE = cluster.SERVICE
HOSTS = (("left", 31), ("right", 32))


class Bridge:
    """The lab's, in the place of tests/ha's own."""
    bridge = network.BRIDGE


class Files:
    """What makes a node a file server."""

    def open_files(self, lab):
        """A /var/lib/nfs of its own, rpcbind and Ganesha."""
        self.node.run("mount", "-t", "tmpfs", "tmpfs", "/var/lib/nfs")
        self.node.start("rpcbind", "-f", stdout=open(lab.directory / f"rpcbind-{self.name}.log", "ab"))
        wait_until(self._has_rpcbind, f"rpcbind on {self.name}")
        self.ganesha = servers.Ganesha(lab.directory, lab.export, self.node)

    def _has_rpcbind(self):
        try:
            return rpcbind.getport(rpcbind.PROG, 2, "tcp", self.node.address) == rpcbind.PORT
        except OSError:
            return False

    def kill_files(self):
        self.ganesha.stop()

    def tell(self, what):
        story.tell(self.name, what)


class Log(servers.Told):
    def __init__(self, lab, name, *sets, **options):
        super().__init__(*sets, **options)
        self.who, self.file = name, lab.directory / f"holdfastd-{name}.log"


# ---- over PostgreSQL ----

class StandbyNode(cluster.Member, Files):
    ganesha = None

    def new_daemon(self, *sets, **options):
        return Log(self.cluster.lab, self.name, *sets, **options)

    def start(self):
        if not self.ganesha:
            self.open_files(self.cluster.lab)
        elif self.ganesha.process.poll() is not None:
            self.ganesha.start()
        super().start()
        self.ganesha.wait()

    def processes(self):
        return self.daemon.process.pid, self.ganesha.process.pid

    def crash(self):
        self.tell("kill -9 of holdfastd and Ganesha")
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)

    def revive(self):
        self.tell("starts again")
        self.daemon.wait()
        self.ganesha.process.wait()
        self.start()

    def pause(self):
        self.tell("SIGSTOP of holdfastd and Ganesha")
        for pid in self.processes():
            os.kill(pid, signal.SIGSTOP)

    def resume(self):
        self.tell("SIGCONT of holdfastd and Ganesha")
        for pid in self.processes():
            os.kill(pid, signal.SIGCONT)

    def serves(self):
        return self.role() == "active"


class Standby(cluster.Cluster):
    hosts, member = HOSTS, StandbyNode

    def __init__(self, lab, *sets, hook=cluster.HOOK):
        super().__init__("rpcbind.mode=system", "log.level=debug", *sets, hook=hook)
        self.lab = lab

    def open_switch(self, stack):
        return Bridge()

    def ready(self):
        return self.wait_for_pair()

    def move(self):
        """A planned move: from now on the service is on the other node."""
        owner = self.ready()
        wait_until(lambda: owner.sees(self.other(owner)), "the owner knows of the other node")
        owner.tell("holdfastctl cluster move")
        owner.ctl("cluster", "move")

    def __exit__(self, *failure):
        for member in self.members:
            member.kill_files()
        super().__exit__(*failure)


class Unnoticed(Standby):
    """Takeovers that no client notices."""

    def __init__(self, lab):
        super().__init__(lab, *NEEDED)


# ---- with keepalived ----

class ByKeepalived:
    """What pairs have in common whose address keepalived moves: each member has one."""
    stopped = None

    def move(self):
        """keepalived is stopped where the service is. The address goes at once; keepalived itself ends a second later."""
        self.stopped = self.ready()
        self.stopped.tell("keepalived is stopped")
        self.stopped.keepalived.process.terminate()
        wait_until(lambda: not self.stopped.node.has(SERVICE), "the address is gone")

    def have_keepalived(self):
        """It runs on both nodes, also where a move has stopped it, and can take over."""
        if self.stopped:
            self.stopped.keepalived.process.wait()
            self.stopped.keepalived.start()
            self.stopped = None
        for member in self.members:
            wait_until(member.keepalived.has_state, f"keepalived on {member.name} is master or backup")

    def stop_keepalived(self):
        for member in self.members:
            if member.keepalived and member.keepalived.process.poll() is None:
                member.keepalived.stop()


class KeepalivedNode(StandbyNode):
    keepalived = None

    def crash(self):
        """The whole host: its programs, keepalived and its cable."""
        self.keepalived.kill()
        super().crash()
        self.node.unplug()

    def revive(self):
        """It has booted: without the address, and keepalived starts last."""
        self.node.run("ip", "address", "flush", "dev", "eth0", "to", SERVICE)
        self.node.run("rm", "-f", *keepalived.PID_FILES)
        self.node.plug()
        super().revive()
        self.keepalived.start()


class Keepalived(ByKeepalived, Standby):
    member = KeepalivedNode

    def __init__(self, lab):
        super().__init__(lab, hook="")

    def __enter__(self):
        keepalived.need_keepalived()
        super().__enter__()
        for member in self.members:
            tools = self.lab.directory / member.name
            tools.mkdir()
            (tools / "holdfastctl").symlink_to(os.environ["HOLDFASTCTL"])
            member.keepalived = keepalived.Keepalived(member.node, self.lab.directory, "standby.conf")
            member.keepalived.start()
        self.ready()
        return self

    def ready(self):
        self.have_keepalived()
        wait_until(lambda: sorted(member.role() or "" for member in self.members) == ["active", "held"],
                   "one node active, the other held back")
        owner = self.owner()
        wait_until(lambda: owner.node.has(SERVICE), "the address is where the service is")
        return owner

    def __exit__(self, *failure):
        self.stop_keepalived()
        super().__exit__(*failure)


# ---- a store on a shared disk ----

class DiskNode(keepalived.SharedDisk, Files):
    def __init__(self, lab, node):
        self.name = node.name
        super().__init__(node, lab.directory, "rpcbind.mode=system", "log.level=debug")
        self.open_files(lab)
        self.ganesha.wait()

    def crash(self):
        self.tell("the host crashes: holdfastd, Ganesha, keepalived, its cable")
        self.kill_files()
        super().crash()

    def revive(self):
        self.tell("starts again")
        self.boot()
        self.ganesha.start()
        self.ganesha.wait()

    def serves(self):
        return self.node.has(SERVICE) and self.pid() is not None


class SharedDisk(ByKeepalived):
    def __init__(self, lab):
        self.lab, self.members, self.nodes = lab, [], []

    def __enter__(self):
        keepalived.need_keepalived()
        (self.lab.directory / "disk").mkdir()
        for name, number in HOSTS:
            self.nodes.append(wires.Node(Bridge(), name, number).__enter__())
            self.members.append(DiskNode(self.lab, self.nodes[-1]))
            self.members[-1].keepalived.start()
            wait_until(self.owner, "a node that serves")
        return self

    def owner(self):
        found = [member for member in self.members if member.serves()]
        assert len(found) <= 1, "two owners"
        return found[0] if found else None

    def other(self, member):
        return self.members[1 - self.members.index(member)]

    def ready(self):
        self.have_keepalived()
        wait_until(self.owner, "a node that serves")
        return self.owner()

    def __exit__(self, *_):
        self.stop_keepalived()
        for member in self.members:
            if member.pid():
                os.kill(member.pid(), signal.SIGKILL)
            member.kill_files()
        for member, node in zip(self.members, self.nodes):
            node.__exit__()
            member.check()
