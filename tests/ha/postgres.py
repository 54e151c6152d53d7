"""PostgreSQL on hosts of its own: a primary and a synchronous standby, real servers, each in its namespace (wires.py).

    with Pair(db1, db2) as pair:
        pair.dsn                    # both hosts, read-write
        pair.primary.kill()         # kill -9 of every process of it
        pair.promote()              # the standby becomes the primary
"""
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from holdfast_test import tap
from holdfast_test.daemon import wait_until

PORT = 5432
DATABASE, USER = "holdfast", "holdfast"

SETTINGS = """
listen_addresses = '*'
port = {port}
unix_socket_directories = '{sockets}'
max_connections = 40
shared_buffers = 16MB
fsync = {fsync}
wal_level = replica
max_wal_senders = 8
hot_standby = on
synchronous_commit = on
synchronous_standby_names = '*'
wal_retrieve_retry_interval = 100ms
wal_receiver_timeout = 2s
wal_sender_timeout = 2s
tcp_keepalives_idle = 1
tcp_keepalives_interval = 1
tcp_keepalives_count = 2
log_min_messages = warning
max_wal_size = 128MB
min_wal_size = 32MB
"""


def programs():
    """Those of HOLDFAST_PG_BINDIR (scripts/databases), else the newest that is installed."""
    chosen = os.environ.get("HOLDFAST_PG_BINDIR")
    found = [chosen] if chosen else sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not found:
        raise tap.Skip("PostgreSQL is not installed")
    return Path(found[-1])


def has_ended(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Server:
    """One server: its host and its directory. env: more for its environment."""

    def __init__(self, node, folder, env=None):
        self.node, self.folder, self.process = node, folder, None
        self.env = os.environ | (env or {})
        self.bin = programs()
        self.log = str(folder) + ".log"
        self.sockets = Path(str(folder) + ".sockets")
        for path in (folder, self.sockets):
            self.make_folder(path)

    @staticmethod
    def make_folder(path):
        path.mkdir(mode=0o700)
        shutil.chown(path, "postgres", "postgres")

    def run(self, program, *arguments):
        return self.node.run("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "env", "LC_ALL=C",
                             str(self.bin / program), *arguments)

    def sql(self, text, database="postgres"):
        return self.run("psql", "-h", str(self.sockets), "-p", str(PORT), "-U", "postgres", "-d", database, "-qAt",
                        "-v", "ON_ERROR_STOP=1", "-c", text).strip()

    def session(self, text, database):
        """Begins to run SQL, and returns the process of its client."""
        return self.node.start("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "psql", "-h", str(self.sockets),
                               "-p", str(PORT), "-U", "postgres", "-d", database, "-qAt", "-v", "ON_ERROR_STOP=1", "-c", text,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def init(self, fsync):
        self.run("initdb", "-D", str(self.folder), "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8")
        with open(self.folder / "postgresql.conf", "a") as file:
            file.write(SETTINGS.format(port=PORT, sockets=self.sockets, fsync=fsync))
            if int(self.run("postgres", "--version").split()[2].split(".")[0]) >= 14:
                file.write("client_connection_check_interval = 500ms\n")
        with open(self.folder / "pg_hba.conf", "a") as file:
            for database in ("all", "replication"):
                file.write(f"host {database} all 192.0.2.0/24 trust\n")

    def copy_from(self, primary):
        """Becomes the standby of another server."""
        self.run("pg_basebackup", "-h", primary.node.address, "-p", str(PORT), "-U", "postgres", "-D", str(self.folder),
                 "-R", "-X", "stream", "-c", "fast", "--no-sync")
        with open(self.folder / "postgresql.conf", "a") as file:
            file.write(f"unix_socket_directories = '{self.sockets}'\n")

    def start(self):
        with open(self.log, "ab") as log:
            self.process = self.node.start("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups",
                                           str(self.bin / "postgres"), "-D", str(self.folder), stdout=log, stderr=log,
                                           env=self.env)
        wait_until(self.is_ready, f"PostgreSQL on {self.node.name}")

    def make_database(self):
        self.sql(f"CREATE ROLE {USER} LOGIN")
        self.sql(f"CREATE DATABASE {DATABASE} OWNER {USER}")

    def is_ready(self):
        assert self.process.poll() is None, Path(self.log).read_text()
        try:
            return self.sql("SELECT 1") == "1"
        except AssertionError:
            return False

    def pids(self):
        """The postmaster and its children."""
        found = [self.process.pid]
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            return found + [int(word) for word in file.read().split()]

    def signal(self, number):
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def kill(self):
        """As a crash of the host: every process at once, with its connections."""
        pids = []
        if self.process.poll() is None:
            self.signal(signal.SIGSTOP)  # so that no process sees another's end
            pids = self.pids()
            self.signal(signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: all(map(has_ended, pids)), "the end of all processes, which share memory")

    def pause(self):
        """As a host that hangs: no process of it does anything."""
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.resume()
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()


def dsn(*nodes):
    """For libpq: one of these hosts, the one that can write."""
    return (f"host={','.join(node.address for node in nodes)} port={','.join([str(PORT)] * len(nodes))} user={USER} "
            f"dbname={DATABASE} target_session_attrs=read-write connect_timeout=4")


class Single:
    """A server without a standby, in a new directory."""

    def __init__(self, node, folder, fsync="off", env=None):
        self.node, self.folder, self.fsync, self.env, self.dsn = node, folder, fsync, env, dsn(node)

    def __enter__(self):
        self.primary = Server(self.node, Path(self.folder), self.env)
        self.primary.init(self.fsync)
        with open(self.primary.folder / "postgresql.auto.conf", "a") as file:
            file.write("synchronous_standby_names = ''\n")
        self.primary.start()
        self.primary.make_database()
        return self

    def __exit__(self, *_):
        self.primary.stop()


class Pair:
    """folders: for each server a directory that is made; otherwise temporary ones. envs: as in cluster.Cluster."""

    def __init__(self, first, second, fsync="off", synchronous=True, folders=None, envs=None):
        self.nodes, self.fsync, self.synchronous = (first, second), fsync, synchronous
        self.folders, self.envs, self.dsn = folders, envs or {}, dsn(first, second)

    def __enter__(self):
        self.root = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
        os.chmod(self.root, 0o755)
        self.servers = []
        for node, folder in zip(self.nodes, self.folders or [self.root / node.name for node in self.nodes]):
            self.servers.append(Server(node, Path(folder), self.envs.get(node.name)))
        self.primary, self.standby = self.servers
        try:
            self.primary.init(self.fsync)
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        with open(self.primary.folder / "postgresql.auto.conf", "a") as file:
            file.write("synchronous_standby_names = ''\n")  # until the standby is there
        self.primary.start()
        self.primary.make_database()
        self.standby.copy_from(self.primary)
        self.standby.start()
        if self.synchronous:
            self.make_synchronous()

    def make_synchronous(self):
        self.primary.sql("ALTER SYSTEM RESET synchronous_standby_names")
        self.primary.sql("SELECT pg_reload_conf()")
        wait_until(lambda: self.primary.sql("SELECT sync_state FROM pg_stat_replication") in ("sync", "quorum"),
                   "a synchronous standby")

    def promote(self):
        """The standby becomes the primary, alone: what a failover manager does. Seconds that it took."""
        began = time.monotonic()
        with open(self.standby.folder / "postgresql.auto.conf", "a") as file:
            file.write("synchronous_standby_names = ''\n")
        self.standby.sql("SELECT pg_reload_conf()")
        # Not waiting in the server: a query in progress there holds up the replay that promotion waits for.
        assert self.standby.sql("SELECT pg_promote(false)") == "t"
        wait_until(lambda: self.standby.sql("SELECT pg_is_in_recovery()") == "f", "promotion")
        self.primary, self.standby = self.standby, self.primary
        return time.monotonic() - began

    def rebuild(self):
        """The former primary becomes the synchronous standby of the new one, from a fresh copy."""
        subprocess.run(["rm", "-rf", str(self.standby.folder)], check=True)
        self.standby.make_folder(self.standby.folder)
        self.standby.copy_from(self.primary)
        self.standby.start()
        if self.synchronous:
            self.make_synchronous()

    def __exit__(self, *_):
        for server in self.servers:
            server.stop()
        subprocess.run(["rm", "-rf", str(self.root)], check=True)
