#!/usr/bin/env python3
"""Real peers: libtirpc, libnfs; and tshark, which must find nothing malformed in what went by."""
import os
import subprocess

from holdfast_test import netns, rpc, rpcbind, tap
from holdfast_test.capture import Capture
from holdfast_test.daemon import PORT, Daemon
from holdfast_test.xdr import Encoder

NSM, NLM = 100024, 100021
HOSTS = ("127.0.0.1", "192.0.2.1", "::1")


def run_peer(variable, *arguments):
    """A program of the build, named by the environment: what it printed, line by line."""
    path = os.environ.get(variable)
    if not path:
        raise tap.Skip(f"{variable} was not built (its library is not installed)")
    done = subprocess.run([path, *arguments], stdin=subprocess.DEVNULL, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"})  # not ours to mend
    assert done.returncode == 0, f"{arguments}: {done.stderr.decode()}"
    return done.stdout.decode().splitlines()


def expect_stat(line):
    words = line.split()
    assert words[:5] == ["nsm", "stat", "result", "0", "state"], line
    assert int(words[5]) % 2 == 1, "a state number is odd while the server is up"


@tap.test
def libtirpc_calls_every_program():
    """Given libtirpc's own client, every program, version and transport answers it, with AUTH_SYS too."""
    with Daemon("rpcbind.mode=embedded"):
        for host in HOSTS:
            for nettype in ("tcp", "udp"):
                lines = run_peer("TIRPC_CLIENT", host, nettype)
                assert lines[:4] == [f"{NLM} 1 null", f"{NLM} 3 null", f"{NLM} 4 null",
                                     f"{NSM} 1 null"], lines
                expect_stat(lines[4])


@tap.test
def libnfs_calls_both_programs():
    """Given libnfs, with codecs of its own, NLM 4 and NSM 1 answer it, found through rpcbind."""
    with Daemon("rpcbind.mode=embedded"):
        for host in HOSTS[:2]:
            lines = run_peer("LIBNFS_CLIENT", host)
            assert lines[:4] == ["nlm connected", "nlm null", "nsm connected", "nsm null"], lines
            expect_stat(lines[4])


# ---- tshark ----

OURS = " || ".join(f"{kind}.port == {port}" for kind in ("tcp", "udp") for port in (PORT, rpcbind.PORT))
MALFORMED = f"({OURS}) && (_ws.malformed || _ws.expert.severity == error)"


def traffic(good):
    """Calls to every program on every transport; with good false, one that is cut short."""
    name = Encoder().string("client.example").bytes()
    for host in ("127.0.0.1", "::1"):
        for transport in rpc.TRANSPORTS.values():
            with transport(host, PORT) as client:
                for prog, vers in ((NSM, 1), (NLM, 1), (NLM, 3), (NLM, 4)):
                    client.call(prog, vers, 0, cred=rpc.auth_sys())
                client.call(NSM, 1, 1, name if good else name[:8])
                client.call(NSM, 2, 0)
                client.call(NLM, 4, 99)
            with transport(host, rpcbind.PORT) as client:
                client.call(rpcbind.PROG, 2, rpcbind.GETPORT, rpcbind.pmap(NLM, 4, "tcp"))
                rpcbind.getaddr(client, NLM, 4)
                client.call(rpcbind.PROG, 4, rpcbind.DUMP)
                client.call(rpcbind.PROG, 2, rpcbind.DUMP)
                client.call(rpcbind.PROG, 4, 11, rpcbind.rpcb(NLM, 4))  # GETADDRLIST


@tap.test
def tshark_finds_nothing_malformed():
    """Given calls of every kind and their answers, tshark decodes each, and complains of none."""
    with Daemon("rpcbind.mode=embedded"), Capture() as capture:
        traffic(good=True)
        for variable, arguments in (("TIRPC_CLIENT", ("127.0.0.1", "udp")),
                                    ("TIRPC_CLIENT", ("::1", "tcp")),
                                    ("LIBNFS_CLIENT", ("127.0.0.1",))):
            if variable in os.environ:
                run_peer(variable, *arguments)
        capture.stop()
        bad = capture.packets(MALFORMED, "_ws.expert.message", "_ws.col.Protocol", "_ws.col.Info",
                              "rpc.program", "rpc.msgtyp")
        assert not bad, bad
        replies = {}
        for prog in (NSM, NLM, rpcbind.PROG):
            for kind in ("udp", "tcp"):
                found = capture.packets(f"rpc.msgtyp == 1 && rpc.program == {prog} && {kind}")
                replies[prog, kind] = len(found)
        assert all(count >= 6 for count in replies.values()), replies
        assert capture.packets("stat && rpc.msgtyp == 1 && rpc.procedure == 1"), "no SM_STAT decoded"
        tap.note(f"tshark decoded {sum(replies.values())} answers, none malformed")


@tap.test
def tshark_would_find_what_is_malformed():
    """Given a call with its argument cut short, the same check by tshark finds it."""
    with Daemon("rpcbind.mode=embedded"), Capture() as capture:
        traffic(good=False)
        capture.stop()
        assert capture.packets(MALFORMED), "tshark sees no fault in a truncated call"


if __name__ == "__main__":
    netns.enter()
    tap.main()
