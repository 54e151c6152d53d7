"""What serves the locks of a history: daemons and what they store in, each on a host of its own at one switch.

    lmdb         one daemon, its store on a small disk
    postgres     one daemon and one PostgreSQL server
    pair         two daemons with a service address, PostgreSQL with a synchronous standby (tests/ha)

All offer the same: `address`, which the clients use; `members`, the daemons; `hosts`, where they and databases are;
`databases`; `disks`; and restarts().
"""
import contextlib
import os
import signal
import struct
import tempfile
import time
from pathlib import Path

from cluster import SERVICE, Cluster
from holdfast_test.daemon import Daemon, program
from holdfast_test.keeper import Keeper
from holdfast_test.names import ganesha
from holdfast_test.store import fill, small_disk
from postgres import Single
from wires import Node, Switch

from history import Restart

FILES_MAX = 32  # player.h
PRELOADS = os.environ.get("HOLDFAST_PRELOADS", "")  # libslow_sync.so:libclock_jump.so
# Where only clients are durable, the server cannot know when all is reclaimed: grace lasts to its end.
FORGETFUL, FORGETFUL_CLIENT_S = ("locks.durable=no", "grace.seconds=12"), 3.0
# Longer than the nemesis keeps a client away, with the pauses of its TCP connections: no client loses its locks.
PATIENCE = ("grace.seconds=120", "notify.timeout=5", "notify.on_failure=keep")


class Dials:
    """How slow the flushes of a host are and how far its clocks have jumped: two files that its programs have mapped."""

    def __init__(self, folder, name):
        self.flush, self.clock = f"{folder}/{name}.flush", f"{folder}/{name}.clock"
        for path in (self.flush, self.clock):
            with open(path, "wb") as file:
                file.write(bytes(24))
            os.chmod(path, 0o644)
        self.wall_s, self.boot_s, self.behind_ns = 0.0, 0.0, 0

    def env(self):
        return {"LD_PRELOAD": PRELOADS, "HOLDFAST_FLUSH_FILE": self.flush, "HOLDFAST_CLOCK_FILE": self.clock}

    @staticmethod
    def _set(path, data):
        with open(path, "r+b", buffering=0) as file:
            file.write(data)

    def set_flush(self, seconds):
        self._set(self.flush, struct.pack("=q", int(seconds * 1e6)))

    def jump(self, wall_s, boot_s=0.0):
        self.wall_s, self.boot_s = self.wall_s + wall_s, self.boot_s + boot_s
        self._set_clock()

    def stand_still(self, ns):
        """Its clocks do not show the time for which its processes were stopped."""
        self.behind_ns += ns
        self._set_clock()

    def _set_clock(self):
        self._set(self.clock, struct.pack("=qqq", int(self.wall_s * 1e9), int(self.boot_s * 1e9), self.behind_ns))


class Disk:
    """A small file system; server: the PostgreSQL server on it, which may stop when there is no room."""

    def __init__(self, path, server=None):
        self.path, self.server = path, server

    def fill(self):
        fill(self.path + "/filler")

    def free(self):
        os.unlink(self.path + "/filler")
        self.revive()

    def revive(self):
        if self.server and self.server.process.poll() is not None:
            self.server.start()


class Alone:
    """A daemon without standbys: as cluster.Member, but it serves whenever it runs."""

    def __init__(self, node, sets, env):
        self.node, self.name, self.sets, self.env, self.changed = node, node.name, sets, env, ()

    def start(self):
        self.daemon = Daemon(*self.sets, *self.changed, env=self.env, under=self.node.inside).start()

    def kill(self):
        self.daemon.kill()

    def stop(self):
        self.daemon.end()

    def continued(self):
        """Whether this run goes on where the one before ended."""
        notify = [one for one in (*self.sets, *self.changed) if one.startswith("recovery.notify=")]
        return notify[-1:] == ["recovery.notify=needed"] and "not " not in self.daemon.wait_for_log("continuing")


class Service:
    """Common to all. sets: settings of the daemons. env: for the daemons."""

    world = {}  # what a World of this kind is like, for the long version

    def __init__(self, sets=(), env=None):
        self.sets, self.more_env = (*PATIENCE, *sets), env or {}
        self.stack, self.dials, self.databases, self.disks = contextlib.ExitStack(), {}, [], []
        self.intervals, self.keeper = [], None
        self.is_preloaded, self.forgets_locks = bool(PRELOADS), "locks.durable=no" in sets

    def __enter__(self):
        with self.stack as stack:
            self.folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-dials-"))
            os.chmod(self.folder, 0o755)
            self.open(stack)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, failure, *_):
        try:
            self.close(failure)
        finally:
            self.stack.close()

    def env(self, name):
        self.dials[name] = Dials(self.folder, name)
        return {**(self.dials[name].env() if PRELOADS else {}), **self.more_env}

    def open_alone(self, stack, node, sets):
        self.members, self.address = [Alone(node, (*self.sets, *sets), self.env(node.name))], node.address
        self.members[0].start()
        stack.callback(self.kill_all)

    def revive(self):
        """A database server that found no room on its disk may end some time after there is room again."""
        for disk in self.disks:
            disk.revive()

    def kill_all(self):
        for member in self.members:
            if member.daemon.process.poll() is None:
                member.daemon.stop(signal.SIGKILL)

    def close(self, failure):
        if not failure:
            self.owner().stop()
        else:
            print("\n".join("# " + line for line in self.owner().daemon.lines[-25:]), flush=True)
            self.show_databases()

    def show_databases(self):
        for server in self.databases:
            print(f"# PostgreSQL on {server.node.name}, {'ended' if server.process.poll() is not None else 'running'}:", flush=True)
            for line in Path(server.log).read_text(errors="replace").splitlines()[-10:]:
                print("#   " + line, flush=True)

    def primary(self):
        """The server that the daemons write to."""
        return self.databases[0]

    def tables(self):
        """Of the service, in its database."""
        return self.primary().sql("SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
                                  " WHERE schemaname NOT IN ('pg_catalog', 'information_schema') AND tablename <> 'takes'",
                                  "holdfast").split()

    def changes(self):
        """Settings that a restart may change, each with its values; the locks of a history survive each of them."""
        notify = (("recovery.notify=always", *(["recovery.notify=needed"] * 3)),) if "recovery.notify=needed" in self.sets else ()
        return () if self.forgets_locks else (("grace.mode=strict", "grace.mode=conflict"), *notify)

    def restarts(self):
        """Each Restart since the last call."""
        found, self.intervals = self.intervals, []
        return found

    def check(self):
        for member in self.members:
            assert member.daemon.process.poll() is None, f"{member.name} has ended\n{member.daemon.log()}"
            member.daemon.check_sanitizers()

    def owner(self):
        return self.members[0]

    def restart(self, stop):
        """By stop(), and started again. Nothing that the old process did takes effect after that; what PostgreSQL had got
        from it may, until the new process has its fence."""
        began = time.monotonic_ns()
        stop()
        gone = time.monotonic_ns()
        self.owner().start()
        ended = time.monotonic_ns() if self.databases else gone
        self.intervals.append(Restart(began, ended, self.owner().continued()))
        return gone


class Lmdb(Service):
    def open(self, stack):
        disk = stack.enter_context(small_disk(16))
        node = stack.enter_context(Node(stack.enter_context(Switch()), "alpha", 11))
        self.disks = [Disk(disk)]
        self.hosts = [node]
        self.open_alone(stack, node, ("store.backend=lmdb", f"store.path={disk}/store"))

    def changes(self):
        durable = () if self.forgets_locks else (("locks.durable=yes", "locks.durable=process"),)
        return (*super().changes(), *durable)


class Kept(Lmdb):
    """Programs of the server lock the same files: what clients hold is locked in the kernel, by holdfast-keeper (SPEC section 15)."""

    world = {"processes": 6, "files": 6, "outside": 4}

    def open(self, stack):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-kept-")))
        self.export, self.handles = folder / "export", str(folder / "handles")
        self.export.mkdir()
        for n in range(FILES_MAX):
            (self.export / f"f{n}").touch()
        Path(self.handles).write_text("".join(ganesha(str(self.export / f"f{n}")).hex() + "\n" for n in range(FILES_MAX)))
        self.keeper = stack.enter_context(Keeper(self.export, path=str(folder / "keeper")))
        self.sets = (f"keeper.socket={folder}/keeper", *self.sets)
        super().open(stack)


class Postgres(Service):
    def open(self, stack):
        disk = stack.enter_context(small_disk(300))
        switch = stack.enter_context(Switch())
        self.hosts = [stack.enter_context(Node(switch, name, number)) for name, number in (("alpha", 11), ("db1", 21))]
        node, host = self.hosts
        self.env("db1")
        database = stack.enter_context(Single(host, disk + "/data", fsync="on", env=database_env(self.dials["db1"])))
        self.databases, self.disks = [database.primary], [Disk(disk, database.primary)]
        dsn = f"store.dsn={database.dsn}"
        node.run(program(), "--set", "store.backend=postgres", "--set", dsn, "--migrate", "up")
        self.open_alone(stack, node, ("store.backend=postgres", dsn))


class Pair(Service):
    """The database writes down when the service is taken: a move between nodes is the restart of the service."""

    def open(self, stack):
        folders = [stack.enter_context(small_disk(300)) for _ in range(2)]
        envs = {name: self.env(name) for name in ("alpha", "beta")}
        for name in ("db1", "db2"):
            self.env(name)
            envs[name] = database_env(self.dials[name])
        self.cluster = Cluster("cluster.require_sync=no", *self.sets, fsync="on", envs=envs,
                               folders=[folder + "/data" for folder in folders])
        self.cluster.__enter__()
        self.address, self.members, self.hosts = SERVICE, self.cluster.members, self.cluster.nodes
        self.pair = self.cluster.pair
        self.databases = self.pair.servers
        self.disks = [Disk(folder, server) for folder, server in zip(folders, self.databases)]
        self.write_down_takes()
        self.seen = 0
        self.continues = "recovery.notify=needed" in self.sets
        self.number = self.state_number()

    def close(self, failure):
        if failure:
            self.show_databases()
        self.cluster.__exit__(failure)

    def primary(self):
        return self.pair.primary

    def owner(self):
        return self.cluster.wait_for_pair()

    def write_down_takes(self):
        schema = self.sql("SELECT schemaname FROM pg_tables WHERE tablename = 'server_state'")
        self.sql("CREATE TABLE takes (number bigserial, at timestamptz);"
                 "CREATE FUNCTION write_down_take() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
                 "INSERT INTO public.takes (at) VALUES (clock_timestamp()); RETURN NULL; END $$;"
                 f"CREATE TRIGGER write_down_take AFTER UPDATE ON \"{schema}\".server_state FOR EACH ROW "
                 "WHEN (OLD.fence IS DISTINCT FROM NEW.fence) EXECUTE FUNCTION write_down_take()")

    def sql(self, text):
        return self.pair.primary.sql(text, "holdfast")

    def state_number(self):
        return self.owner().get("/api/v1/status")[1]["state"]

    def restarts(self):
        """The old owner did nothing after the take, and the new one nothing before. With recovery.notify=needed each continues:
        nothing is lost, so the service keeps its state number."""
        assert not self.continues or self.state_number() == self.number, "a takeover has not continued"
        slack = 20_000_000  # nanoseconds: the wall clock may be adjusted
        offset = time.monotonic_ns() - time.time_ns()
        rows = self.sql(f"SELECT number, (extract(epoch FROM at) * 1000000)::bigint FROM takes WHERE number > {self.seen} "
                        "ORDER BY number").split()
        found = []
        for row in rows:
            number, microseconds = map(int, row.split("|"))
            self.seen = number
            found.append(Restart(microseconds * 1000 + offset - slack, microseconds * 1000 + offset + slack, self.continues))
        return found


def database_env(dials):
    """Its flushes can be slow; its clock is true."""
    preloads = [path for path in PRELOADS.split(":") if "slow_sync" in path]
    return {"LD_PRELOAD": ":".join(preloads), "HOLDFAST_FLUSH_FILE": dials.flush} if preloads else {}


CONFIGURATIONS = {
    "lmdb": (Lmdb, ("locks.durable=yes", "grace.mode=strict")),
    "lmdb-conflict": (Lmdb, ("locks.durable=yes", "grace.mode=conflict")),
    "lmdb-process": (Lmdb, ("locks.durable=process", "grace.mode=strict")),
    "lmdb-needed": (Lmdb, ("locks.durable=yes", "grace.mode=strict", "recovery.notify=needed")),
    "lmdb-process-needed": (Lmdb, ("locks.durable=process", "grace.mode=strict", "recovery.notify=needed")),
    "lmdb-process-conflict": (Lmdb, ("locks.durable=process", "grace.mode=conflict")),
    "lmdb-no": (Lmdb, FORGETFUL),
    "keeper": (Kept, ("locks.durable=yes", "grace.mode=conflict")),
    "postgres": (Postgres, ("locks.durable=yes", "grace.mode=strict")),
    "postgres-conflict": (Postgres, ("locks.durable=yes", "grace.mode=conflict")),
    "postgres-no": (Postgres, FORGETFUL),
    "pair": (Pair, ("grace.mode=conflict",)),
    "pair-strict": (Pair, ("grace.mode=strict",)),
    "pair-needed": (Pair, ("grace.mode=conflict", "recovery.notify=needed", "cluster.require_sync=yes")),
    "keeper-needed": (Kept, ("locks.durable=yes", "grace.mode=conflict", "recovery.notify=needed")),
}


def make(name, sets=(), env=None):
    kind, own = CONFIGURATIONS[name]
    return kind((*own, *sets), env)
