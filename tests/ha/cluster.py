"""A service with two nodes over a real PostgreSQL primary and its synchronous standby, five hosts on one network; and what
happens to its owner.

    with Cluster() as cluster, Load(cluster) as load:
        fault = FAULTS["kill"](cluster)         # happens now
        ...
        fault.heal()                            # the node is a standby again
"""
import contextlib
import http.client
import json
import os
import signal
import time

from holdfast_test.daemon import WAIT_S, Daemon, program, wait_until
from postgres import DATABASE, Pair
from wires import Node, Switch, address4, address6

SERVICE, SERVICE6 = address4(100), address6(100)
ADMIN_PORT = 8049
HOOK = os.environ["HOLDFAST_HOOK"]
# As packaging/holdfastd@.service starts it: an ordinary user with three capabilities, two of them for the hook alone.
CAPABILITIES = ",".join("+" + name for name in ("net_bind_service", "net_admin", "net_raw"))
AS_UNIT = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--no-new-privs",
           f"--inh-caps=-all,{CAPABILITIES}", f"--ambient-caps=-all,{CAPABILITIES}", f"--bounding-set=-all,{CAPABILITIES}"]


class Member:
    """A node of the service: a host with a daemon."""

    def __init__(self, cluster, node, admin_port=ADMIN_PORT):
        self.cluster, self.node, self.name, self.daemon = cluster, node, node.name, None
        self.admin_port = admin_port
        self.run_directory = f"/run/holdfast/{cluster.service}"

    def migrate(self):
        """The schema, once, before the daemons start."""
        self.node.run(program(), "--set", "store.backend=postgres", "--set", f"store.dsn={self.cluster.pair.dsn}",
                      "--set", "cluster.mode=standby", "--set", f"cluster.service={self.cluster.service}", "--migrate", "up")

    def start(self):
        """Returns once it is a standby, or active."""
        self.daemon = self.new_daemon(
            "store.backend=postgres", f"store.dsn={self.cluster.pair.dsn}", "cluster.mode=standby",
            f"cluster.service={self.cluster.service}", f"cluster.node={self.name}",
            f"cluster.addresses={','.join(self.cluster.addresses)}", f"cluster.hook={self.cluster.hook}",
            "server.name=files.example", "grace.mode=conflict",
            f"admin.listen={self.node.address}:{self.admin_port}", *self.cluster.sets,
            env={"HOLDFAST_ANNOUNCE": os.environ["HOLDFAST_ANNOUNCE"],
                 "RUNTIME_DIRECTORY": f"/run/holdfast:{self.run_directory}", **self.cluster.envs.get(self.name, {})},
            under=[*self.node.inside, *AS_UNIT])
        self.node.run("mkdir", "-p", self.run_directory)
        self.node.run("chown", "nobody", "/run/holdfast", self.run_directory)
        self.daemon.start(wait=False)
        wait_until(self._runs, f"{self.name} runs")

    def new_daemon(self, *sets, **options):
        """The daemon, not started yet; the lab has one of its own."""
        return Daemon(*sets, **options)

    def _runs(self):
        """As systemd does, starts it again if it could not start yet (a busy database)."""
        if self.daemon.process.poll() is not None:
            self.daemon.wait()
            assert self.daemon.process.returncode == 1, self.daemon.log()
            self.daemon.start(wait=False)
        return self.role() is not None

    def get(self, path, timeout=2):
        """The answer of its REST interface, as (status, object); (0, None) if it cannot be asked."""
        try:
            connection = http.client.HTTPConnection(self.node.address, self.admin_port, timeout=timeout)
            with contextlib.closing(connection):
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read() or b"null")
        except (OSError, http.client.HTTPException, ValueError):
            return 0, None

    def ctl(self, *words):
        """holdfastctl, by root on that host."""
        return self.node.run(os.environ["HOLDFASTCTL"], "--socket", f"{self.run_directory}/admin.sock", *words)

    def locks(self):
        """Every lock of the service, as root sees them: a set of (client, file)."""
        return {(row["client"]["name"].encode(), bytes.fromhex(row["file"])) for row in json.loads(self.ctl("--json", "locks"))}

    def role(self):
        """active, standby, ...; None if it cannot be asked."""
        status, said = self.get("/api/v1/cluster")
        return said["role"] if status == 200 else None

    def sees(self, other):
        """Whether the daemon knows that the other node is there: a service is not moved to a node that is not."""
        _, said = self.get("/api/v1/cluster")
        return said and any(node["name"] == other.name and node["seen_seconds_ago"] < 2 for node in said["nodes"])

    def kill(self):
        self.daemon.kill()

    def stop(self):
        if self.daemon and self.daemon.process.poll() is None:
            status = self.daemon.stop()
            assert status == 0, f"exit status {status}\n{self.daemon.log()}"
        if self.daemon:
            self.daemon.check_sanitizers()


# Clients that are never heard of, with locks each on a file of its own. Their addresses lead nowhere.
CROWD = 100
FILL = """
SET search_path = holdfast_{service};
UPDATE server_state SET epoch = 1, clean = true;
INSERT INTO nsm_client_registrations (id, protocol, transport, mon_name, addresses, local_address, nsm_state, ttl_ms,
        registered_at_ms, server_epoch, my_name, callback_prog, callback_vers, callback_proc, priv, callback_host)
    SELECT (1::int8 << 40) + n, 1, 2, ('crowd' || n)::bytea, '203.0.113.' || n, '', 0, 0,
        0, 1, '', 0, 0, 0, decode(repeat('00', 16), 'hex'), ''
    FROM generate_series(1, {crowd}) n;
INSERT INTO nlm_locks (id, client_id, share, file_handle, owner_handle, svid, first_byte, last_byte, exclusive,
        acquired_at_ms, server_epoch)
    SELECT (1::int8 << 40) + 1000 + n, (1::int8 << 40) + 1 + n % {crowd}, 'default', decode(md5(n::text), 'hex'),
        (n % 1000 || '@crowd' || 1 + n % {crowd})::bytea, n % 1000, 0, 18446744073709551615, true, 0, 1
    FROM generate_series(1, {locks}) n;
"""


class Cluster:
    """folders: of the PostgreSQL servers (postgres.Pair). envs: for a host by name, what its daemon or server finds in
    its environment besides. held: so many locks are in the store from the beginning."""

    hosts = (("alpha", 11), ("beta", 12))
    member = Member

    def __init__(self, *sets, fsync="off", synchronous=True, ipv6=False, hook=HOOK, folders=None, envs=None, held=0):
        self.folders, self.envs = folders, envs or {}
        self.sets, self.fsync, self.synchronous, self.held = sets, fsync, synchronous, held
        self.service, self.hook = "files", hook
        self.addresses = [SERVICE] + ([SERVICE6] if ipv6 else [])

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            switch = self.open_switch(stack)
            self.nodes = nodes = [stack.enter_context(Node(switch, name, number))
                                  for name, number in (*self.hosts, ("db1", 21), ("db2", 22))]
            self.pair = stack.enter_context(Pair(*nodes[2:], fsync=self.fsync, synchronous=self.synchronous,
                                                 folders=self.folders, envs=self.envs))
            self.members = [self.member(self, node) for node in nodes[:2]]
            self.members[0].migrate()
            if self.held:
                self.pair.primary.sql(FILL.format(service=self.service, locks=self.held, crowd=CROWD), DATABASE)
            stack.callback(self._kill_all)
            for member in self.members:
                member.start()
            if self.hook:
                self.wait_for_pair()
            self.stack = stack.pop_all()
        return self

    def open_switch(self, stack):
        """The network of all hosts."""
        return stack.enter_context(Switch())

    def _kill_all(self):
        for member in self.members:
            if member.daemon and member.daemon.process.poll() is None:
                member.daemon.send_signal(signal.SIGCONT)
                member.daemon.stop(signal.SIGKILL)

    def __exit__(self, failure, *_):
        try:
            if not failure:
                for member in self.members:
                    member.stop()
            else:
                for member in self.members:
                    print("\n".join("# " + member.name + ": " + line for line in member.daemon.lines[-25:]), flush=True)
        finally:
            self.stack.close()

    # ---- roles ----

    def owner(self):
        found = [member for member in self.members if member.daemon.process.poll() is None and member.role() == "active"]
        assert len(found) <= 1, "two owners"
        return found[0] if found else None

    def other(self, member):
        return self.members[1 - self.members.index(member)]

    def wait_for_pair(self):
        """One is active and the other standby: ready for the next fault."""
        wait_until(lambda: sorted(member.role() or "" for member in self.members) == ["active", "standby"],
                   "one node active, the other standby")
        return self.owner()


# ---- faults: each happens to the owner when it is made, and can be healed ----

class Kill:
    def __init__(self, cluster):
        self.owner = cluster.owner()
        self.at = time.monotonic()
        os.kill(self.owner.daemon.process.pid, signal.SIGKILL)

    def heal(self):
        self.owner.daemon.wait()
        self.owner.daemon.check_sanitizers()
        self.owner.start()


class Stop:
    """Longer than its lease."""

    def __init__(self, cluster):
        self.owner = cluster.owner()
        self.at = time.monotonic()
        self.owner.daemon.send_signal(signal.SIGSTOP)

    def heal(self):
        self.owner.daemon.send_signal(signal.SIGCONT)


class Cut:
    """Its cable: it reaches neither clients nor the database."""

    def __init__(self, cluster):
        self.owner = cluster.owner()
        self.at = time.monotonic()
        self.owner.node.unplug()

    def heal(self):
        self.owner.node.plug()


FAULTS = {"kill": Kill, "stop": Stop, "cut": Cut}
