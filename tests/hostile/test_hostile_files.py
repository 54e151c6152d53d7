#!/usr/bin/env python3
"""What the daemon's user could plant in the directories of the daemon, for root to fall over: root checks a store, or starts the
daemon, and a name there is a link to a file of root's (SEC-12)."""
import os
import stat
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from holdfast_test import netns, tap
from holdfast_test.daemon import DEFAULTS, Daemon, program, wait_until

NOBODY = 65534
STORE = ("data.mdb", "lock.mdb", "holdfast.lock", "journal", "journal.old", "journal.new", "data.mdb.new", "losses", "losses.new", "lost")
TEXT = "a file of root's, which nobody else may read or change\n" * 100


@contextmanager
def stores():
    """A directory of the user nobody with a store that he has used, and a file of root's beside it."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        os.chmod(folder, 0o755)
        store, precious = Path(folder, "store"), Path(folder, "precious")
        store.mkdir()
        os.chown(store, NOBODY, NOBODY)
        precious.write_text(TEXT)
        precious.chmod(0o600)
        with Daemon(*settings(store)):
            pass
        yield store, precious


def settings(store):
    return "store.backend=lmdb", f"store.path={store}", "server.user=nobody"


def look(path):
    found = os.lstat(path)
    return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_nlink, path.read_text()


def plant(store, name, target):
    (store / name).unlink(missing_ok=True)
    (store / name).symlink_to(target)
    os.lchown(store / name, NOBODY, NOBODY)


@tap.test
def root_checks_a_store_with_a_link():
    """`holdfastd --verify-store` as root, as docs/operating/OPERATORS.md has it: what a link in the directory leads to stays as it is, and the
    tool makes no file there that the daemon could not use."""
    for name in STORE:
        with stores() as (store, precious):
            before = look(precious)
            plant(store, name, precious)
            words = [word for each in (*DEFAULTS, *settings(store)) for word in ("--set", each)]
            subprocess.run([program(), *words, "--verify-store"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
            assert look(precious) == before, name
            assert all(os.lstat(path).st_uid == NOBODY for path in store.iterdir()), name


@tap.test
def root_starts_the_daemon_on_a_store_with_a_link():
    """The daemon is started as root and becomes its user: it opens the store as that user, and gives him nothing by a link."""
    for name in STORE:
        with stores() as (store, precious):
            before = look(precious)
            plant(store, name, precious)
            daemon = Daemon(*settings(store)).start(wait=False)
            wait_until(lambda daemon=daemon: daemon.process.poll() is not None or " ready " in daemon.log(), "it serves, or gives up")
            daemon.process.terminate()
            daemon.wait()
            assert look(precious) == before, name


@tap.test
def the_name_of_the_socket_becomes_a_link():
    """The directory of the administration's socket is the user's, and root opens it: what takes the place of its name meanwhile is
    not made readable and writable for all."""
    with stores() as (store, precious):
        before = look(precious)
        env = {"LD_PRELOAD": os.environ["HOLDFAST_SWAPS_SOCKET"], "HOLDFAST_SWAPPED_FOR": str(precious)}
        with Daemon(*settings(store), f"admin.socket={store}/admin.sock", env=env):
            assert (store / "admin.sock").is_symlink()
        assert look(precious) == before


@tap.test
def all_users_may_connect_to_the_socket():
    """... and the socket itself has the mode that it must have, whatever the daemon's umask is."""
    for mask in ("000", "077"):
        with stores() as (store, _), Daemon(*settings(store), f"admin.socket={store}/admin.sock",
                                            under=("sh", "-c", f'umask {mask}; exec "$@"', "sh")):
            assert stat.S_IMODE(os.lstat(store / "admin.sock").st_mode) == 0o666


if __name__ == "__main__":
    netns.enter()
    tap.main()
