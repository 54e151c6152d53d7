#!/usr/bin/env python3
"""Several services on one host (HA-10): one port on different addresses, addresses that come and go, one registration
with rpcbind."""
import os
import shutil
import signal
import tempfile

from holdfast_test import netns, nlm, nsm, rpc, rpcbind, tap
from holdfast_test.daemon import PORT, Daemon, run, wait_until
from holdfast_test.store import Server

ONE, TWO, ABSENT, ABSENT6 = "192.0.2.1", "192.0.2.2", "198.51.100.7", "2001:db8:7::7"
BIND_SERVICE = 1 << 10
WANTED = {(prog, netid) for prog in (nlm.PROG, nsm.PROG) for netid in ("udp", "tcp")}


def address(verb, text):
    netns.run("ip", "address", verb, text + ("/128" if ":" in text else "/32"), "dev", "lo",
              *(["nodad"] if ":" in text and verb == "add" else []))


def answers(host, timeout=2):
    """True if the service answers there, by UDP and TCP."""
    try:
        for kind in (rpc.Udp, rpc.Tcp):
            with kind(host, PORT, timeout=timeout) as client:
                client.call(nlm.PROG, 4, 0)
        return True
    except OSError:
        return False


def lock(server, name, fh=b"file"):
    """The answer to a LOCK of this client."""
    with rpc.Tcp(server, PORT) as client:
        reply = client.call(nlm.PROG, 4, nlm.LOCK, nlm.lock_args(4, b"c", nlm.Lock(caller=name, fh=fh)))
        return nlm.decode_result(nlm.LOCK, 4, reply.results).stat


def service(name, *addresses, **more):
    return Daemon(f"cluster.service={name}", f"cluster.addresses={','.join(addresses)}", "grace.seconds=0", **more)


def registering(name):
    """A service that is started, and registers with the system's rpcbind."""
    daemon = service(name, {"one": ONE, "two": TWO}[name])
    daemon.command += ["--set", "rpcbind.mode=system"]
    return daemon.start()


def registered():
    """The registrations of our programs: (program, netid, address)."""
    return {(prog, netid, where) for prog, _, netid, where in rpcbind.dump() if prog in (nlm.PROG, nsm.PROG)}


def check_registered():
    found = registered()
    assert {(prog, netid) for prog, netid, _ in found} == WANTED, found
    assert {where for _, _, where in found} == {rpcbind.uaddr("0.0.0.0", PORT)}, found
    assert rpcbind.getport(nlm.PROG, 4, "tcp") == PORT


@tap.test
def a_service_waits_for_addresses_that_are_not_there_yet():
    """Given addresses that the host does not have, the daemon starts; it serves them once they are there, each time
    they come back, and a connection from before is used again."""
    with service("files", ABSENT, ABSENT6) as daemon:
        assert not answers(ABSENT, timeout=0.3)
        for _ in range(3):
            for text in (ABSENT, ABSENT6):
                address("add", text)
                wait_until(lambda text=text: answers(text), f"an answer from {text}")
                address("del", text)
        assert "cannot listen" not in daemon.log()


@tap.test
def without_cluster_addresses_a_missing_address_is_an_error():
    """Given server.listen with an address of another host, the start fails and says so."""
    status, _, said = run("--set", f"server.listen={ABSENT}", "--set", "store.backend=memory", "--set", "rpcbind.mode=none",
                          "--set", "server.user=")
    assert status == 1 and "not an address of this host" in said, said


@tap.test
def two_services_share_a_port():
    """Given two services on one host, the same file is locked at both: each has its own locks. When one ends, the
    other goes on."""
    with service("two", TWO, "2001:db8::2"):
        with service("one", ONE, "2001:db8::1"):
            for host in (ONE, TWO, "2001:db8::1", "2001:db8::2"):
                assert answers(host), host
            assert not answers("192.0.2.3", timeout=0.3)
            assert lock(ONE, b"here") == "GRANTED"
            assert lock(ONE, b"there") == "DENIED"
            assert lock(TWO, b"there") == "GRANTED"
        assert not answers(ONE, timeout=0.3)
        assert lock(TWO, b"here") == "DENIED"


@tap.test
def the_last_service_unregisters():
    """HA-10: given two services, rpcbind has one registration without an address; it survives the stop and the kill -9
    of one of them, in any order, and goes with the last."""
    with rpcbind.System():
        for first, second in (("one", "two"), ("two", "one")):
            daemons = {first: registering(first)}
            check_registered()
            daemons[second] = registering(second)
            check_registered()
            assert daemons[first].stop() == 0
            check_registered()
            daemons[first] = registering(first)
            daemons[first].stop(signal.SIGKILL)
            check_registered()
            daemons[first] = registering(first)
            daemons[second].stop(signal.SIGKILL)
            check_registered()
            assert daemons[first].stop() == 0
            assert not registered()


@tap.test
def what_a_killed_service_left_behind_goes_with_the_next_stop():
    """Given a service that was killed when it was alone, its registration stays until it is started and stopped."""
    with rpcbind.System():
        registering("one").stop(signal.SIGKILL)
        check_registered()
        assert registering("one").stop() == 0
        assert not registered()


@tap.test
def each_service_can_be_its_own_rpcbind():
    """Given no rpcbind on the host, two services each serve port 111 at their own address, as --mode=embedded says."""
    daemons = [service(name, where) for name, where in (("one", ONE), ("two", TWO))]
    for daemon in daemons:
        daemon.command += ["--set", "rpcbind.mode=embedded"]
        daemon.start()
    for where in (ONE, TWO):
        assert rpcbind.getport(nlm.PROG, 4, "tcp", where) == PORT
        with rpc.Tcp(where, rpcbind.PORT) as client:
            assert rpcbind.getaddr(client, nlm.PROG, 4) == rpcbind.uaddr(where, PORT)
    for daemon in daemons:
        assert daemon.stop() == 0
        daemon.check_sanitizers()


@tap.test
def services_on_one_host_have_stores_of_their_own():
    """Given two services with LMDB stores, each keeps its locks and its state number over restarts of the other."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        servers = {where: Server("cluster.service=" + name, "cluster.addresses=" + where, "grace.mode=conflict",
                                 path=os.path.join(folder, name))
                   for name, where in (("one", ONE), ("two", TWO))}
        with servers[ONE], servers[TWO]:
            assert lock(ONE, b"here") == "GRANTED"
            for _ in range(2):
                servers[TWO].restart()
            assert lock(ONE, b"there") == "DENIED"
            assert lock(TWO, b"there") == "GRANTED"


@tap.test
def a_unit_of_systemd_gives_each_service_its_directories():
    """As holdfastd@files.service has it: the store is in STATE_DIRECTORY, the administration's socket in the last part of
    RUNTIME_DIRECTORY, and the capabilities of the address hook are given up by the daemon itself."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        os.chmod(folder, 0o755)
        state, run_directory = os.path.join(folder, "state"), os.path.join(folder, "files")
        for path in (state, run_directory):
            os.mkdir(path)
            shutil.chown(path, "nobody")
        caps = ",".join("+" + name for name in ("net_bind_service", "net_admin", "net_raw"))
        with Daemon("store.backend=lmdb", "cluster.addresses=" + ONE, "cluster.service=files",
                    env={"STATE_DIRECTORY": state, "RUNTIME_DIRECTORY": f"/run/holdfast:{run_directory}"},
                    under=["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--no-new-privs",
                           f"--inh-caps=-all,{caps}", f"--ambient-caps=-all,{caps}", f"--bounding-set=-all,{caps}"]) as daemon:
            assert os.path.exists(os.path.join(state, "data.mdb"))
            assert os.path.exists(os.path.join(run_directory, "admin.sock"))
            with open(f"/proc/{daemon.process.pid}/status") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            for name in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
                assert int(status[name], 16) & ~BIND_SERVICE == 0, (name, status[name])
        assert not os.path.exists(os.path.join(run_directory, "admin.sock"))


if __name__ == "__main__":
    netns.enter()
    tap.main()
