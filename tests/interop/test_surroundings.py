#!/usr/bin/env python3
"""What containers and limits around the daemon forbid (SEC-12, SPEC section 5): it serves all the same, or it says what forbids it and
ends with status 1. It never dies by a signal, which would be a loop of restarts without a reason in the log."""
import os
import struct
import subprocess
import sys
import tempfile

from holdfast_test import netns, rpc, tap
from holdfast_test.daemon import PORT, Daemon, run
from holdfast_test.nlm import LOCK
from holdfast_test.peer import Network, add_addresses
from holdfast_test.store import Server

NSM = 100024
# Starts a program behind a filter of system calls, as engines of containers do: calls that a filter of 2019 does not know (their
# numbers are those of every architecture) get the answer that such filters gave, EPERM, or the one of today.
BEHIND_FILTER = """
import ctypes, errno, os, struct, sys
calls = [425, 426, 427, 434, 435, 436, 437, 438, 439, 441, 444, 445, 446]  # io_uring, pidfd_open, clone3, close_range, openat2,
answer = 0x50000 | getattr(errno, sys.argv[1])  # SECCOMP_RET_ERRNO           pidfd_getfd, faccessat2, epoll_pwait2, landlock
code = [(0x20, 0, 0, 0)]                        # the number of the call
code += [(0x15, len(calls) - i, 0, call) for i, call in enumerate(calls)]
code += [(6, 0, 0, 0x7fff0000), (6, 0, 0, answer)]
program = b"".join(struct.pack("HBBI", *each) for each in code)
class Filter(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("code", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(22, 2, ctypes.byref(Filter(len(code), program)), 0, 0) < 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
"""
STRANGER = 54321  # a user without any other process
LOCKS = 500  # more than one page of each size holds


def as_user(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def serves():
    for transport in rpc.TRANSPORTS.values():
        with transport("127.0.0.1", PORT) as client:
            assert client.call(NSM, 1, 0).status == rpc.SUCCESS


def refused(*words, under, settings=()):
    """The daemon ends by itself, with status 1, and its last words have these in them."""
    daemon = Daemon("admin.socket=", *settings, under=under).start(wait=False)
    status = daemon.wait()
    assert status == 1, f"exit status {status}\n{daemon.log()}"
    for word in words:
        assert word in daemon.log(), daemon.log()


@tap.test
def the_filter_of_an_old_container():
    """SEC-12: an engine of containers of 2019 knows no call that is newer, and answers EPERM where a library expects ENOSYS. The daemon
    serves as its own user from a store that root made, and the check of its configuration passes."""
    for answer in ("EPERM", "ENOSYS"):
        under = [sys.executable, "-c", BEHIND_FILTER, answer]
        with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            os.chmod(folder, 0o755)
            os.chmod(file.name, 0o644)
            with Daemon("store.backend=lmdb", f"store.path={folder}/store", "server.user=nobody", config=file.name, under=under) as daemon:
                serves()
                assert "system_calls=own" in daemon.wait_for_log("confined uid=")
            checked = Daemon("server.user=nobody", config=file.name, under=under)
            checked.command.append("--check-config")
            checked.start(wait=False)
            assert checked.wait() == 0, checked.log()


@tap.test
def a_limit_of_processes():
    """With few threads allowed, from none to as many as it needs: it serves, or it says that it has too few."""
    served = 0
    for limit in range(2, 14):
        daemon = Daemon("admin.socket=", under=["prlimit", f"--nproc={limit}", *as_user(STRANGER)]).start(wait=False)
        try:
            daemon.wait_for_log("ready")
        except AssertionError:  # it has ended
            assert daemon.wait() == 1 and "TasksMax" in daemon.log(), f"{limit}: {daemon.process.returncode}\n{daemon.log()}"
            continue
        serves()
        served += 1
        daemon.end()
    assert 0 < served < 12, served


@tap.test
def a_limit_of_the_size_of_files():
    """The store's files are larger than a file may be: said by the store, not told by SIGXFSZ."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        refused("cannot open the store", under=["prlimit", "--fsize=65536"], settings=("store.backend=lmdb", f"store.path={folder}/store"))


@tap.test
def a_user_namespace_without_the_daemons_user():
    """In a container that has one user only, a file cannot be given to another one: the daemon names the reason."""
    alone = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*alone, "true"], stderr=subprocess.DEVNULL).returncode:
        raise tap.Skip("no user namespaces here, as in a chroot")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        refused("user namespace has no such user", under=alone,
                settings=("store.backend=lmdb", f"store.path={folder}/store", "server.user=nobody"))


def on_pages_of(size):
    return {"LD_PRELOAD": os.environ["PAGE_SIZE_LIBRARY"], "PAGE_SIZE": str(size)}


@tap.test
def a_kernel_with_pages_of_another_size():
    """STO-02: given a store with locks, made on a kernel with small or large pages, a kernel with pages of another size loads it,
    writes to it, and its records are sound."""
    for first, second in ((4096, 16384), (16384, 4096), (4096, 65536), (65536, 4096)):
        with Server("grace.seconds=0", "notify.on_failure=keep", env=on_pages_of(first)) as server, Network() as network:
            alpha = network.host("192.0.2.2", "alpha.example")
            for number in range(LOCKS):
                assert alpha.stat(LOCK, alpha.lock(fh=b"%d" % number)) == "GRANTED"
            server.kill()
            with open(f"{server.path}/data.mdb", "rb") as file:  # the size is in the record of the first tree of the first page
                assert struct.unpack("=I", file.read(44)[40:])[0] == min(first, 32768), "LMDB did not take the kernel's size"
            server.env = on_pages_of(second)
            server.start()
            alpha.close_clients()
            assert f"locks={LOCKS}" in server.daemon.wait_for_log("store loaded")
            server.stop()
            status, said, log = run("--verify-store", "--set", f"store.path={server.path}", "--set", "store.backend=lmdb")
            assert status == 0, said + log
            server.start()


@tap.test
def a_host_without_ipv6():
    """An operator has turned IPv6 off: IPv4 is served, by the daemon as rpcbind too. The last case, because it takes addresses away."""
    netns.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
    with Daemon("rpcbind.mode=embedded"):
        serves()


if __name__ == "__main__":
    netns.enter()
    add_addresses()
    tap.main()
