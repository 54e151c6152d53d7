"""A service with standbys, in network namespaces of its own (SPEC section 8): nodes, PostgreSQL servers, one switch.

    with Cluster() as cluster, cluster.postgres() as database:
        left, right = cluster.node("left", database), cluster.node("right", database)
        owner = cluster.wait_for_owner()
        owner.kill()

The test itself is a client: it is at the switch, with the address CLIENT. Each node and each PostgreSQL server is a
host of its own behind a cable that can be cut. A node has the address that node.address says; services with addresses
of their own are added by the settings given to node().
"""
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from . import netns, nlm, rpc, tap
from .daemon import PORT, WAIT_S, Daemon, wait_until

NETWORK = "10.9.0."
CLIENT = NETWORK + "254"
ADMIN_PORT = 8049
SWITCH = "hfswitch"


def now_ms():
    return time.monotonic() * 1000


class Box:
    """A host: its own network, /run and name, joined to the switch by a cable."""

    def __init__(self, name, address):
        self.name, self.address = name, address
        script = (f"mount -t tmpfs tmpfs /run && ip link set lo up && hostname {name} && echo ready && "
                  "exec sleep infinity")
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--propagation", "private", "sh", "-c", script],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self.process.stdout.readline() == b"ready\n"
        self.inside = ["nsenter", "-t", str(self.process.pid), "--net", "--mount", "--uts"]
        self.cable = f"hf{self.process.pid}"
        netns.run("ip", "link", "add", self.cable, "type", "veth", "peer", "name", "eth0",
                  "netns", str(self.process.pid))
        netns.run("ip", "link", "set", self.cable, "master", SWITCH, "up")
        self.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def run(self, *command):
        done = subprocess.run([*self.inside, *command], stdin=subprocess.DEVNULL, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, f"{command}: {done.stdout.decode()}"
        return done.stdout.decode()

    def cut(self):
        """Pulls the cable."""
        netns.run("ip", "link", "set", self.cable, "down")

    def join(self):
        netns.run("ip", "link", "set", self.cable, "up")

    def close(self):
        self.process.kill()
        self.process.wait()


class Postgres:
    """A server on a host of its own; with a primary, its streaming standby, named "replica"."""

    def __init__(self, cluster, primary=None):
        base = "/usr/lib/postgresql"
        versions = sorted(os.listdir(base)) if os.path.isdir(base) else []
        self.programs = os.environ.get("HOLDFAST_PG_BINDIR") or (os.path.join(base, versions[-1], "bin") if versions else None)
        if not self.programs:
            raise tap.Skip("PostgreSQL is not installed")
        self.box = cluster.box("postgres", cluster.next_address())
        self.folder = tempfile.mkdtemp(prefix="holdfast-pg-")
        shutil.chown(self.folder, "postgres")
        self.data = os.path.join(self.folder, "data")
        if primary:
            self._run("pg_basebackup", "-D", self.data, "-R", "-X", "stream", "-N", "-c", "fast", "-d",
                      f"host={primary.box.address} user=postgres application_name=replica")
        else:
            self._run("initdb", "-D", self.data, "-A", "trust", "-N")
            with open(os.path.join(self.data, "pg_hba.conf"), "a") as hba:
                hba.write(f"host all all {NETWORK}0/24 trust\nhost replication all {NETWORK}0/24 trust\n")
        self.start()
        self.dsn = f"host={self.box.address} dbname=postgres user=postgres"

    def _run(self, program, *arguments):
        return self.box.run("runuser", "-u", "postgres", "--", os.path.join(self.programs, program), *arguments)

    def start(self):
        self._run("pg_ctl", "-D", self.data, "-w", "-l", os.path.join(self.folder, "log"), "-o",
                  f"-k {self.folder} -c listen_addresses={self.box.address} -c fsync=off -c shared_buffers=16MB "
                  "-c wal_retrieve_retry_interval=100ms", "start")

    def sql(self, text):
        """Runs it, and returns what it answers as text."""
        return self._run("psql", "-h", self.folder, "-At", "-c", text).strip()

    @contextlib.contextmanager
    def session(self, text):
        """A session that runs it meanwhile, and is ended then."""
        process = subprocess.Popen([*self.box.inside, "runuser", "-u", "postgres", "--", os.path.join(self.programs, "psql"), "-h",
                                    self.folder, "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)' AND pid <> pg_backend_pid()")
            process.wait()

    def stop(self, mode="immediate"):
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def require(self, replica):
        """Commits wait for the replica from now on."""
        self.sql("ALTER SYSTEM SET synchronous_standby_names = 'replica'")
        self.sql("SELECT pg_reload_conf()")
        wait_until(lambda: self.sql("SELECT sync_state FROM pg_stat_replication") == "sync", "synchronous replica")
        assert replica.box

    def promote(self):
        self._run("pg_ctl", "-D", self.data, "promote")

    def processes(self, number):
        """Sends a signal to the whole server: SIGSTOP and SIGCONT make the database stall."""
        with open(os.path.join(self.data, "postmaster.pid")) as file:
            postmaster = file.readline().strip()
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", postmaster], stdout=subprocess.PIPE).stdout.split()
        for pid in (int(postmaster), *map(int, children)):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def close(self):
        if os.path.exists(os.path.join(self.data, "postmaster.pid")):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Node(Box):
    def __init__(self, name, address, *sets):
        super().__init__(name, address)
        self.sets = (f"cluster.node={name}", "cluster.mode=standby", "store.backend=postgres",
                     f"admin.listen={address}:{ADMIN_PORT}", "admin.socket=/run/admin.sock", *sets)
        self.daemon = None

    # ---- life ----

    def start(self, *more, env=None):
        self.daemon = Daemon(*self.sets, *more, under=self.inside, env=env).start(wait=False)
        self.daemon.wait_for_log("standing by")
        return self

    def kill(self):
        self.daemon.kill()

    def pause(self):
        self.daemon.send_signal(signal.SIGSTOP)

    def resume(self):
        self.daemon.send_signal(signal.SIGCONT)

    def stop(self):
        self.daemon.end()

    def is_running(self):
        return self.daemon and self.daemon.process.poll() is None

    def close(self):
        if self.is_running():
            self.daemon.send_signal(signal.SIGCONT)
            self.daemon.stop(signal.SIGKILL)
        super().close()

    # ---- administration ----

    def ask(self, method, path):
        """(status, body) of the administration interface, over its unix socket, as root."""
        connection = http.client.HTTPConnection("localhost", timeout=WAIT_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(WAIT_S)
        connection.sock.connect(f"/proc/{self.process.pid}/root/run/admin.sock")
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    def ctl(self, *words):
        """(exit status, all that it printed) of holdfastctl on this node, as root."""
        done = subprocess.run([os.environ.get("HOLDFASTCTL", "build-asan/src/ctl/holdfastctl"), "--socket",
                               f"/proc/{self.process.pid}/root/run/admin.sock", *words], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT_S)
        return done.returncode, done.stdout.decode()

    def get(self, path):
        status, body = self.ask("GET", path)
        assert status == 200, body
        return json.loads(body)

    def cluster(self):
        return self.get("/api/v1/cluster")

    def status(self):
        return self.get("/api/v1/status")

    def role(self):
        return self.cluster()["role"]

    def move(self, word):
        return self.ask("POST", f"/api/v1/cluster/{word}")

    # ---- as a client sees it ----

    def nlm(self, proc, lock, timeout=0.05, address=None, version=4, **how):
        """The status of one request by UDP, or None without an answer in time."""
        args = nlm.ARGS[proc](version, b"cookie", lock, **how)
        try:
            with rpc.Udp(address or self.address, PORT, timeout=timeout) as client:
                reply = client.call(nlm.PROG, version, proc, args)
                return nlm.decode_result(proc, version, reply.results).stat
        except (OSError, TimeoutError):
            return None

    def state(self, timeout=0.2):
        """The state number that SM_STAT tells; None without an answer."""
        from . import nsm
        try:
            with nsm.connect(self.address, transport="udp", timeout=timeout) as monitor:
                return monitor.stat().state
        except (OSError, TimeoutError):
            return None


class Cluster:
    """The switch, and what is joined to it."""

    def __init__(self, *sets):
        self.sets = sets
        self.boxes, self.servers, self.nodes = [], [], []
        self.last = 9

    def __enter__(self):
        netns.run("ip", "link", "add", SWITCH, "type", "bridge", "forward_delay", "0")
        netns.run("ip", "address", "add", f"{CLIENT}/24", "dev", SWITCH)
        netns.run("ip", "link", "set", SWITCH, "up")
        return self

    def __exit__(self, *_):
        for thing in (*self.nodes, *self.servers, *self.boxes):
            thing.close()
        netns.run("ip", "link", "del", SWITCH)

    def next_address(self):
        self.last += 1
        return NETWORK + str(self.last)

    def box(self, name, address):
        box = Box(name, address)
        self.boxes.append(box)
        return box

    def postgres(self, primary=None):
        server = Postgres(self, primary)
        self.servers.append(server)
        return server

    def replicated(self):
        """A primary and its synchronous standby: (primary, replica, dsn of both)."""
        primary = self.postgres()
        replica = self.postgres(primary)
        primary.require(replica)
        return primary, replica, f"host={primary.box.address},{replica.box.address} dbname=postgres user=postgres"

    def node(self, name, dsn, *more, env=None):
        node = Node(name, self.next_address(), f"store.dsn={dsn}", *self.sets, *more).start(env=env)
        self.nodes.append(node)
        return node

    def owner(self, among=None):
        """The node that says it serves; None if there is none now."""
        for node in among or self.nodes:
            if node.is_running() and node.role() == "active":
                return node
        return None

    def wait_for_owner(self, among=None):
        found = []

        def look():
            found[:] = [self.owner(among)]
            return found[0]

        wait_until(look, "a node serves")
        return found[0]
