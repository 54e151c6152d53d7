"""Debian's keepalived on a host (wires.py), by an example of packaging/keepalived as it is; only addresses and places are the
test's. SharedDisk is a host whose holdfastd keepalived starts and stops.
"""
import os
import shlex
import shutil
import signal
from pathlib import Path

from holdfast_test import tap
from holdfast_test.daemon import DEFAULTS, SANITIZERS, program
from cluster import SERVICE

PACKAGING = Path(__file__).parents[2] / "packaging"
PID_FILES = "/run/keepalived-parent.pid", "/run/keepalived-vrrp.pid"

# What a host without systemd has instead: starts and stops one daemon, in this host's network. As the unit does, starts it again
# while something is in the way that may go away (exit status 1), such as a daemon that still stops on the other host.
SYSTEMCTL = """#!/bin/sh
# systemctl start|stop UNIT
pid=/run/holdfast/pid
case $1 in
start)
    while
        sh -c 'echo $$ >"$0"; exec "$@"' $pid {start}
        [ $? = 1 ]
    do
        sleep 2
        [ -e $pid ] || break
    done >>{log} 2>&1 </dev/null &
    ;;
stop) [ ! -e $pid ] || {{ kill $(cat $pid); while readlink /proc/$(cat $pid)/exe; do sleep 0.05; done; rm $pid; }} >/dev/null 2>&1 ;;
esac
"""


class Keepalived:
    """keepalived on one host, by an example of packaging/keepalived."""

    def __init__(self, node, folder, example, **replaced):
        self.node, self.log = node, folder / f"keepalived-{node.name}.log"
        notify = Path(f"/run/keepalived-notify-{node.name}")
        text = (PACKAGING / "keepalived" / example).read_text()
        text = text.replace("/usr/libexec/holdfast/keepalived-notify", str(notify)).replace("192.0.2.100", SERVICE)
        for old, new in replaced.items():
            assert old in text, old
            text = text.replace(old, new)
        self.config = folder / f"keepalived-{node.name}.conf"
        self.config.write_text(text)
        node.run("cp", str(PACKAGING / "keepalived/notify"), str(notify))
        self.path = f"{folder / node.name}:{os.environ['PATH']}"

    def start(self):
        """HOLDFAST_RUN and PATH lead its scripts to what the test has instead of installed programs."""
        with open(self.log, "ab") as log:
            self.begin = log.tell()
            self.process = self.node.start("env", "PATH=" + self.path, "keepalived", "-n", "-l", "-P", "-f", str(self.config),
                                           "-p", PID_FILES[0], "-r", PID_FILES[1],
                                           stdout=log, stderr=log)

    def has_state(self):
        """Whether it is master or backup since its start; before that it takes no address over."""
        return b"Entering" in self.log.read_bytes()[self.begin:]

    def kill(self):
        """As when the host crashes: keepalived and its child."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            children = [int(word) for word in file.read().split()]
        for pid in [self.process.pid, *children]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()


class SharedDisk:
    """A host with the address, if keepalived says so, and with holdfastd where the address is."""

    def __init__(self, node, folder, *more):
        self.node, self.log = node, folder / f"holdfastd-{node.name}.log"
        self.log.touch()
        tools = folder / node.name
        tools.mkdir()
        sets = [*DEFAULTS, "store.backend=lmdb", f"store.path={folder / 'disk'}", "cluster.service=files",
                f"cluster.addresses={SERVICE}", "server.name=files.example", "grace.mode=conflict", "admin.listen=",
                "admin.socket=", *more]
        start = shlex.join([program(), *(word for each in sets for word in ("--set", each))])
        (tools / "systemctl").write_text(SYSTEMCTL.format(start=start, log=self.log))
        (tools / "systemctl").chmod(0o755)
        self.keepalived = Keepalived(node, folder, "shared-disk.conf")

    def pid(self):
        said = self.node.run("cat", "/run/holdfast/pid", check=False)
        return int(said) if said.strip().isdigit() else None

    def crash(self):
        self.keepalived.kill()
        os.kill(self.pid(), signal.SIGKILL)
        self.node.unplug()
        self.node.run("rm", "-f", "/run/holdfast/pid", *PID_FILES)
        self.node.run("ip", "address", "flush", "dev", "eth0", "to", SERVICE)

    def boot(self):
        self.node.plug()
        self.keepalived.start()

    def check(self):
        text = self.log.read_text()
        assert not any(word in text for word in SANITIZERS), text


def need_keepalived():
    if not shutil.which("keepalived"):
        raise tap.Skip("keepalived is not installed")
