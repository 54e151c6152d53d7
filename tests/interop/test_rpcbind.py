#!/usr/bin/env python3
"""rpcbind, both ways (RPC-03): registered with the real one, or served by the daemon; queried by the real rpcinfo."""
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from holdfast_test import netns, rpc, rpcbind, tap
from holdfast_test.daemon import PORT, Daemon, wait_until

NSM, NLM = 100024, 100021
SERVED = {(NSM, 1), (NLM, 1), (NLM, 3), (NLM, 4)}
NETIDS = ("udp", "tcp", "udp6", "tcp6")
SOCKET = "/run/rpcbind.sock"
REMOTE = "192.0.2.1"  # not a loopback address
ROOT = ("127.0.0.1", 700)  # only root has a reserved port


def rpcinfo(*arguments):
    """Runs rpcinfo; its output, or an exception if it fails or hangs."""
    if not shutil.which("rpcinfo"):
        raise tap.Skip("rpcinfo is not installed")
    done = subprocess.run(["rpcinfo", *arguments], stdin=subprocess.DEVNULL, timeout=30,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"rpcinfo {arguments}: {done.stdout.decode()}"
    return done.stdout.decode()


def ours(registrations):
    """Of a dump: (program, version, netid) of NSM and NLM, all at our port."""
    mine = [r for r in registrations if r[0] in (NSM, NLM)]
    for *_, addr in mine:
        assert addr.endswith(f".{PORT >> 8}.{PORT & 255}"), addr
    return {r[:3] for r in mine}


def expect_all_registered(host="127.0.0.1"):
    found = ours(rpcbind.dump(host))
    assert found == {(*service, netid) for service in SERVED for netid in NETIDS}, found


def ask_with_rpcinfo(host="127.0.0.1", host6="::1"):
    """What the README promises: every program, version and transport answers rpcinfo."""
    for prog, vers in sorted(SERVED):
        for option in ("-t", "-u"):
            out = rpcinfo(option, host, str(prog), str(vers))
            assert f"program {prog} version {vers} ready and waiting" in out, out
        for netid in NETIDS:
            out = rpcinfo("-T", netid, host6 if netid.endswith("6") else host, str(prog), str(vers))
            assert "ready and waiting" in out, out


def list_with_rpcinfo(*host):
    """-p, -s and -l name every program. Without a host rpcinfo asks by the local socket."""
    table = {tuple(line.split()[:3]) for line in rpcinfo("-p", *host).splitlines()[1:]}
    for prog, vers in SERVED:
        for transport in ("tcp", "udp"):
            assert (str(prog), str(vers), transport) in table, table
    short = {line.split()[0]: line.split() for line in rpcinfo("-s", *host).splitlines()[1:]}
    assert set(short[str(NLM)][1].split(",")) == {"1", "3", "4"}
    assert set(short[str(NLM)][2].split(",")) == set(NETIDS)
    assert set(short[str(NSM)][2].split(",")) == set(NETIDS)
    assert str(rpcbind.PROG) in short


def list_addresses(host):
    """-l: the addresses of one program and version, as the asker can use them."""
    rows = [line.split() for line in rpcinfo("-l", host, str(NLM), "4").splitlines()[1:]]
    found = {row[2]: row[3] for row in rows}
    assert found["inet/udp/clts"] == found["inet/tcp/cots_ord"] == rpcbind.uaddr(host, PORT), rows
    assert {"inet6/udp/clts", "inet6/tcp/cots_ord"} <= found.keys()


@tap.test
def what_make_run_says_to_try_works_without_an_rpcbind():
    """Given no rpcbind, as for an ordinary user, the commands that name the port find the daemon (rpcinfo -n
    would not)."""
    script = (Path(__file__).parents[2] / "scripts/run").read_text()
    commands = re.findall(r"^    (rpcinfo -a .*?)  ", script, re.M)
    assert len(commands) == 2, commands
    with Daemon("rpcbind.mode=none"):
        for command in commands:
            words = command.replace("$here", f"127.0.0.1.{PORT >> 8}.{PORT & 255}").split()
            assert "ready and waiting" in rpcinfo(*words[1:])


# ---- embedded ----

@tap.test
def embedded_every_program_answers_rpcinfo():
    """Given rpcbind.mode=embedded, rpcinfo -t, -u and -T reach every program on every transport."""
    with Daemon("rpcbind.mode=embedded"):
        expect_all_registered()
        ask_with_rpcinfo()
        ask_with_rpcinfo(REMOTE, "2001:db8::1")


@tap.test
def embedded_rpcinfo_lists_all():
    """rpcinfo -p, -s and -l, asked over the network and over the local socket."""
    with Daemon("rpcbind.mode=embedded"):
        assert os.path.exists(SOCKET)
        list_with_rpcinfo()
        list_with_rpcinfo("127.0.0.1")
        list_with_rpcinfo(REMOTE)
        list_addresses("127.0.0.1")
        list_addresses(REMOTE)
    assert not os.path.exists(SOCKET), "its socket is left behind"


@tap.test
def embedded_answers_name_the_address_asked():
    """GETADDR of a service on all addresses names the one the question came to (RFC 1833, 2.2.1)."""
    with Daemon("rpcbind.mode=embedded"):
        for host in ("127.0.0.1", *netns.ADDRESSES, "::1"):
            for transport in rpc.TRANSPORTS.values():
                with transport(host, rpcbind.PORT) as client:
                    for version in (3, 4):
                        addr = rpcbind.getaddr(client, NLM, 4, version)
                        assert addr == rpcbind.uaddr(host, PORT), addr
                    assert rpcbind.getaddr(client, 100005, 3) == ""


@tap.test
def embedded_getport_gives_the_port_or_zero():
    """Version 2, which clients ask first: the port; 0 for a program that is not registered."""
    with Daemon("rpcbind.mode=embedded"):
        for transport in rpcbind.PROTOCOLS:
            assert rpcbind.getport(NLM, 4, transport) == PORT
            assert rpcbind.getport(100005, 3, transport) == 0
            # Another version of a program that is there: its port, where PROG_MISMATCH is told.
            assert rpcbind.getport(NLM, 2, transport) == PORT


@tap.test
def embedded_another_service_can_register():
    """Given an NFS server on this host, SET from loopback registers it, and UNSET takes it away."""
    nfs = (100003, 3)
    with Daemon("rpcbind.mode=embedded"), rpc.Udp("127.0.0.1", rpcbind.PORT, source=ROOT) as client:
        def change(version, proc, args):
            return client.call(rpcbind.PROG, version, proc, args).decode().bool()

        assert change(2, rpcbind.SET, rpcbind.pmap(*nfs, "tcp", 2049))
        assert not change(2, rpcbind.SET, rpcbind.pmap(*nfs, "tcp", 2050)), "set twice"
        assert change(4, rpcbind.SET, rpcbind.rpcb(*nfs, "tcp6", "::.8.1"))
        assert rpcbind.getport(*nfs, "tcp", REMOTE) == 2049
        with rpc.Tcp("2001:db8::1", rpcbind.PORT) as other:
            assert rpcbind.getaddr(other, *nfs) == rpcbind.uaddr("2001:db8::1", 2049)
        assert "100003" in rpcinfo("-p", "127.0.0.1")
        assert change(4, rpcbind.UNSET, rpcbind.rpcb(*nfs))
        assert not change(2, rpcbind.UNSET, rpcbind.pmap(*nfs, "tcp"))
        assert rpcbind.getport(*nfs, "tcp") == 0


@tap.test
def embedded_rpcinfo_deletes_what_is_not_ours():
    """Given rpcinfo -d as root: another program's registration is deleted, ours stays."""
    with Daemon("rpcbind.mode=embedded"), rpc.Udp("127.0.0.1", rpcbind.PORT, source=ROOT) as client:
        args = rpcbind.pmap(100003, 3, "tcp", 2049)
        assert client.call(rpcbind.PROG, 2, rpcbind.SET, args).decode().bool()
        rpcinfo("-d", "100003", "3")
        assert rpcbind.getport(100003, 3, "tcp") == 0
        subprocess.run(["rpcinfo", "-d", str(NLM), "4"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=30)
        expect_all_registered()


@tap.test
def embedded_keeps_our_programs_registered():
    """SET and UNSET of what we serve are FALSE even for root on loopback."""
    with Daemon("rpcbind.mode=embedded"):
        with rpc.Udp("127.0.0.1", rpcbind.PORT, source=ROOT) as root:
            for prog, vers in (*SERVED, (rpcbind.PROG, 2), (rpcbind.PROG, 4)):
                for proc in (rpcbind.SET, rpcbind.UNSET):
                    v2 = rpcbind.pmap(prog, vers, "tcp", 2049)
                    assert not root.call(rpcbind.PROG, 2, proc, v2).decode().bool()
                    v4 = rpcbind.rpcb(prog, vers, "tcp", "0.0.0.0.8.1")
                    assert not root.call(rpcbind.PROG, 4, proc, v4).decode().bool()
        expect_all_registered()


@tap.test
def embedded_refuses_set_from_other_hosts():
    """SET and UNSET from or to an address that is not loopback: FALSE, and the table is as before."""
    with Daemon("rpcbind.mode=embedded"):
        with rpc.Udp("127.0.0.1", rpcbind.PORT, source=ROOT) as client:
            args = rpcbind.pmap(200001, 1, "tcp", 2049)
            assert client.call(rpcbind.PROG, 2, rpcbind.SET, args).decode().bool()
        before = rpcbind.dump()
        for host, source in ((REMOTE, "192.0.2.2"), ("127.0.0.1", "192.0.2.2"), (REMOTE, "127.0.0.1"),
                             ("2001:db8::1", "2001:db8::2"), ("::1", "2001:db8::2")):
            for transport in rpc.TRANSPORTS.values():
                with transport(host, rpcbind.PORT, source=(source, 0)) as client:
                    for prog in (200001, 200002):
                        for proc in (rpcbind.SET, rpcbind.UNSET):
                            v2 = rpcbind.pmap(prog, 1, "tcp", 2049)
                            assert not client.call(rpcbind.PROG, 2, proc, v2).decode().bool()
                            v4 = rpcbind.rpcb(prog, 1, "tcp", "0.0.0.0.8.1")
                            assert not client.call(rpcbind.PROG, 4, proc, v4).decode().bool()
        assert rpcbind.dump() == before


@tap.test
def embedded_users_cannot_undo_what_root_did():
    """Given a port that is not reserved, its user is not known, and can neither register nor remove."""
    with Daemon("rpcbind.mode=embedded"), \
            rpc.Udp("127.0.0.1", rpcbind.PORT, source=ROOT) as root, \
            rpc.Udp("127.0.0.1", rpcbind.PORT) as user:
        def change(client, proc, port=2049):
            args = rpcbind.pmap(200001, 1, "tcp", port)
            return client.call(rpcbind.PROG, 2, proc, args).decode().bool()

        assert not change(user, rpcbind.SET)
        assert change(root, rpcbind.SET, 600)
        assert not change(user, rpcbind.UNSET)
        assert change(root, rpcbind.UNSET)


@tap.test
def embedded_bad_registrations_are_refused():
    """Unknown transports, addresses that are none, ports out of range, a table that is full."""
    bad = (rpcbind.rpcb(200001, 1, "ticlts", "x"), rpcbind.rpcb(200001, 1, "tcp", "localhost"),
           rpcbind.rpcb(200001, 1, "tcp", "1.2.3.4"), rpcbind.rpcb(200001, 1, "tcp", "1.2.3.4.256.1"),
           rpcbind.rpcb(200001, 1, "tcp", "0.0.0.0.0.0"), rpcbind.rpcb(200001, 1, "", "0.0.0.0.8.1"),
           rpcbind.rpcb(200001, 1, "tcp6", "0.0.0.0.8.1"), rpcbind.rpcb(200001, 1, "tcp", "198.51.100.1.8.1"))
    with Daemon("rpcbind.mode=embedded"), rpc.Tcp("127.0.0.1", rpcbind.PORT, source=ROOT) as client:
        before = rpcbind.dump()
        for args in bad:
            assert not client.call(rpcbind.PROG, 4, rpcbind.SET, args).decode().bool()
        for port in (0, 65536, 0xffffffff):
            args = rpcbind.pmap(200001, 1, "tcp", port)
            assert not client.call(rpcbind.PROG, 2, rpcbind.SET, args).decode().bool()
        assert rpcbind.dump() == before
        taken = [client.call(rpcbind.PROG, 2, rpcbind.SET, rpcbind.pmap(200000 + i, 1, "udp", 2049))
                 .decode().bool() for i in range(300)]
        assert 0 < sum(taken) < 300 and taken == sorted(taken, reverse=True)
        assert len(rpcbind.dump()) == 256  # and the whole of it still fits an answer
        rpcinfo("-p", "127.0.0.1")


# ---- the system's ----

@tap.test
def system_every_program_answers_rpcinfo():
    """Given the real rpcbind, all programs are registered there, rpcinfo finds them, and they are removed at
    the stop."""
    with rpcbind.System():
        with Daemon("rpcbind.mode=system"):
            expect_all_registered()
            ask_with_rpcinfo()
            list_with_rpcinfo()
            list_with_rpcinfo("127.0.0.1")
        assert ours(rpcbind.dump()) == set(), "still registered after the end"


@tap.test
def system_a_stale_registration_is_replaced():
    """Given a daemon that was killed, its registration stays; the next start, elsewhere, replaces it."""
    with rpcbind.System():
        killed = Daemon("rpcbind.mode=system", "server.port=5045").start()
        assert killed.stop(signal.SIGKILL) == -signal.SIGKILL
        assert rpcbind.getport(NLM, 4, "tcp") == 5045
        with Daemon("rpcbind.mode=system"):
            expect_all_registered()
        killed = Daemon("rpcbind.mode=system").start()
        killed.stop(signal.SIGKILL)
        with Daemon("rpcbind.mode=system"):  # and on the same port
            expect_all_registered()


def expect_refusal(prog, *words):
    daemon = Daemon("rpcbind.mode=system").start(wait=False)
    assert daemon.wait() not in (0, 2)
    line = daemon.wait_for_log("cannot register with rpcbind")
    for word in (str(prog), *words):
        assert word in line, line
    daemon.check_sanitizers()


@tap.test
def system_another_lock_manager_is_not_pushed_aside():
    """Given a process that serves 100021, its registration stays; the daemon exits, names it and says what to
    do."""
    with rpcbind.System(), rpcbind.Service(NLM, (1, 3, 4)) as lockd:
        lockd.register()
        expect_refusal(NLM, str(lockd.port), "lockd")
        assert rpcbind.getport(NLM, 4, "tcp") == lockd.port
        assert rpcbind.getport(NSM, 1, "tcp") == 0, "a part of it stays registered"


@tap.test
def system_another_lock_manager_on_one_transport_only_counts():
    """Given a process that serves only version 4 and only UDP, it is found too."""
    with rpcbind.System(), rpcbind.Service(NLM, (4,)) as lockd:
        with rpc.Udp("127.0.0.1", rpcbind.PORT) as client:
            args = rpcbind.pmap(NLM, 4, "udp", lockd.port)
            assert client.call(rpcbind.PROG, 2, rpcbind.SET, args).decode().bool()
        expect_refusal(NLM, str(lockd.port))


@tap.test
def system_rpc_statd_is_not_pushed_aside():
    """Given the real rpc.statd, the daemon exits, names 100024 and says how to stop it."""
    if not shutil.which("rpc.statd"):
        raise tap.Skip("rpc.statd is not installed")
    os.makedirs("/var/lib/nfs/sm", exist_ok=True)
    os.makedirs("/var/lib/nfs/sm.bak", exist_ok=True)
    with rpcbind.System():
        statd = subprocess.Popen(["rpc.statd", "-F", "--no-notify"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: rpcbind.getport(NSM, 1, "udp"), "rpc.statd is registered")
            port = rpcbind.getport(NSM, 1, "udp")
            expect_refusal(NSM, "rpc.statd", "systemctl stop rpc-statd")
            assert rpcbind.getport(NSM, 1, "udp") == port
        finally:
            statd.terminate()
            statd.wait()


# ---- the system's, restarted ----

AGAIN = "registered with the system's rpcbind again"
TAKEN = "another process has registered our program with rpcbind"


@tap.test
def system_restarted_gets_our_registrations_again():
    """Given an rpcbind that is killed and a fresh one without registrations: after SIGHUP ours are there
    again."""
    with rpcbind.System() as system:
        with Daemon("rpcbind.mode=auto") as daemon:
            system.stop()
            system.start()
            assert ours(rpcbind.dump()) == set(), "it has not forgotten"
            daemon.send_signal(signal.SIGHUP)
            assert "services=16" in daemon.wait_for_log(AGAIN)
            expect_all_registered()
            ask_with_rpcinfo()
        assert ours(rpcbind.dump()) == set(), "still registered after the end"


@tap.test
def system_back_again_gets_our_registrations():
    """Given a daemon that found rpcbind not answering, it asks more often, and registers again by itself."""
    with rpcbind.System() as system, Daemon("rpcbind.mode=system") as daemon:
        system.stop()
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_log("rpcbind does not answer")
        with rpc.Tcp("127.0.0.1", PORT) as client:
            client.call(NSM, 1, 0)  # it serves all the same
        system.start()
        daemon.wait_for_log(AGAIN)
        expect_all_registered()
        daemon.wait_for_log("rpcbind answers again")
        assert daemon.log().count("rpcbind does not answer") == 1


@tap.test
def system_one_lost_registration_comes_back():
    """Given rpcinfo -d for one version, only that version is registered again."""
    with rpcbind.System(), Daemon("rpcbind.mode=system") as daemon:
        rpcinfo("-d", str(NLM), "4")
        assert rpcbind.getport(NLM, 1, "tcp") == PORT
        daemon.send_signal(signal.SIGHUP)
        assert "services=4" in daemon.wait_for_log(AGAIN)
        expect_all_registered()


@tap.test
def system_registration_of_a_live_process_is_left_alone():
    """Given a live process that took our registration: logged once, not replaced, not unregistered; NLM can
    still be found."""
    with rpcbind.System(), rpcbind.Service(NSM, (1,)) as statd:
        with Daemon("rpcbind.mode=system") as daemon:
            rpcinfo("-d", str(NSM), "1")
            rpcinfo("-d", str(NLM), "4")
            statd.register()
            daemon.send_signal(signal.SIGHUP)
            line = daemon.wait_for_log(TAKEN)
            assert str(statd.port) in line and "systemctl stop rpc-statd" in line, line
            daemon.wait_for_log(AGAIN)
            assert rpcbind.getport(NLM, 4, "tcp") == PORT
            rpcinfo("-d", str(NLM), "4")
            daemon.send_signal(signal.SIGHUP)
            daemon.wait_for_log(AGAIN, 2)
            assert daemon.log().count(TAKEN) == 1
        assert rpcbind.getport(NSM, 1, "tcp") == statd.port, "taken away from the other"
        assert rpcbind.getport(NLM, 4, "tcp") == 0


@tap.test
def system_registration_of_a_dead_process_is_replaced():
    """Given a registration of a process that no longer runs, it is replaced, as at the start."""
    with rpcbind.System(), Daemon("rpcbind.mode=system") as daemon:
        with rpcbind.Service(NSM, (1,)) as statd:
            rpcinfo("-d", str(NSM), "1")
            statd.register()
            daemon.send_signal(signal.SIGHUP)
            daemon.wait_for_log(TAKEN)
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_log(AGAIN)
        expect_all_registered()


@tap.test
def system_stopped_while_it_registers_again_leaves_nothing():
    """Given a stop at any moment of a check or of registering, nothing of ours stays at rpcbind."""
    with rpcbind.System() as system:
        for pause_ms in (0, 1, 2, 3, 5, 8, 13, 21):
            with Daemon("rpcbind.mode=system") as daemon:
                system.stop()
                system.start()
                daemon.send_signal(signal.SIGHUP)
                daemon.wait_for_log("configuration reloaded")
                time.sleep(pause_ms / 1000)
            assert ours(rpcbind.dump()) == set(), f"stopped after {pause_ms} ms: still registered"


@tap.test
def system_without_an_rpcbind_is_an_error():
    """Given mode=system and no rpcbind: the daemon exits and says so."""
    daemon = Daemon("rpcbind.mode=system").start(wait=False)
    assert daemon.wait() not in (0, 2)
    assert "rpcbind" in daemon.wait_for_log("cannot register with rpcbind")
    daemon.check_sanitizers()


@tap.test
def embedded_beside_a_running_rpcbind_is_an_error():
    """Given mode=embedded and port 111 taken: the daemon exits and says what to set."""
    with rpcbind.System():
        daemon = Daemon("rpcbind.mode=embedded").start(wait=False)
        assert daemon.wait() not in (0, 2)
        assert "rpcbind.mode" in daemon.wait_for_log("cannot serve rpcbind")
        daemon.check_sanitizers()
        assert "100000" in rpcinfo("-p"), "its socket is gone"


@tap.test
def auto_takes_the_systems_if_there_is_one():
    """Given one that answers: registered there. Given none: the daemon is it."""
    with rpcbind.System():
        with Daemon("rpcbind.mode=auto") as daemon:
            expect_all_registered()
            assert "registered with the system's rpcbind" in daemon.log()
        assert ours(rpcbind.dump()) == set()
    with Daemon("rpcbind.mode=auto") as daemon:
        expect_all_registered()
        assert "serving rpcbind" in daemon.log()


@tap.test
def none_registers_nothing():
    """Given mode=none, the daemon neither registers with rpcbind nor serves it."""
    with rpcbind.System():
        with Daemon("rpcbind.mode=none"):
            assert ours(rpcbind.dump()) == set()
    with Daemon("rpcbind.mode=none"):
        try:
            rpcbind.dump()
        except ConnectionRefusedError:
            return
        raise AssertionError("something answers on port 111")


if __name__ == "__main__":
    netns.enter()
    tap.main()
