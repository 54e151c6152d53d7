#!/usr/bin/env python3
"""NLM and what it must not believe (NLM-07, NLM-09): handles, names, cookies and ranges at their ends and beyond,
limits, and hosts that use another host's name."""
import itertools
import os
import time

from holdfast_test import netns, nlm, nsm, rpc, tap
from holdfast_test.daemon import PORT, Daemon, wait_until
from holdfast_test.nlm import CANCEL, GRANTED, LOCK, MSG, NM_LOCK, SHARE, TEST, UNLOCK, UNSHARE
from holdfast_test.peer import SERVER, SILENCE, Network, add_addresses
from holdfast_test.store import fill, small_disk

END = 2**64 - 1
WAYS = [{"vers": vers, "transport": transport} for vers in nlm.VERSIONS for transport in rpc.TRANSPORTS]


def expect(got, wanted):
    assert got == wanted, f"{got}, not {wanted}"


class World:
    def __init__(self, *settings):
        self.network = Network()
        self.daemon = Daemon("notify.timeout=1", *settings)

    def __enter__(self):
        self.network.__enter__()
        self.daemon.__enter__()
        return [self.network.host(f"10.2.0.{i}", name) for i, name in enumerate(("alice", "bob", "carol"), 1)]

    def __exit__(self, *failure):
        try:
            self.daemon.__exit__(*failure)
        finally:
            self.network.__exit__(*failure)


def refused(vers, proc, stat):
    """The answer of versions 1 and 3 where version 4 says stat: DENIED, or DENIED_NOLOCKS to a TEST, whose
    DENIED must name a holder."""
    if vers == 4:
        return stat
    return "DENIED_NOLOCKS" if proc == TEST else "DENIED"


def procs(vers):
    return (TEST, LOCK, CANCEL, UNLOCK, *((NM_LOCK, SHARE, UNSHARE) if vers > 1 else ()))


@tap.test
def handles_of_any_size():
    """Empty handles, and those longer than NFSv3 has (64), are stale; up to 64 they are files of their own;
    beyond 1024 the arguments do not decode."""
    with World() as (a, b, _):
        for way in WAYS:
            for proc in procs(way["vers"]):
                for size in (0, 65, 255, 1024):
                    expect(a.stat(proc, a.lock(fh=os.urandom(size)), **way), refused(way["vers"], proc, "STALE_FH"))
                args = nlm.ARGS[proc](way["vers"], b"cookie", a.lock(fh=bytes(1025)))
                expect(a.client(way["transport"]).call(nlm.PROG, way["vers"], proc, args).status, rpc.GARBAGE_ARGS)
            for size in range(1, 65):
                expect(a.stat(LOCK, a.lock(fh=b"h" * size), **way), "GRANTED")
            expect(b.stat(LOCK, b.lock(fh=b"h" * 33), **way), "DENIED")
            a.free_all()


@tap.test
def names_of_any_kind():
    """A caller without a name, or with a NUL in it, is refused; any other name of up to 1024 bytes is
    accepted."""
    with World() as (a, b, _):
        for way in WAYS:
            for proc in procs(way["vers"]):
                for name in (b"", b"\0", b"a\0b"):
                    expect(a.stat(proc, a.lock(caller=name), **way), refused(way["vers"], proc, "FAILED"))
                args = nlm.ARGS[proc](way["vers"], b"cookie", a.lock(caller=b"n" * 1025))
                expect(a.client(way["transport"]).call(nlm.PROG, way["vers"], proc, args).status, rpc.GARBAGE_ARGS)
            for name in (b"n" * 1024, b"../../etc/passwd", b"%s%n%x", b"\xff\xfe\n\x1b[2J", b" "):
                expect(a.stat(LOCK, a.lock(caller=name), **way), "GRANTED")
                expect(b.stat(LOCK, **way), "DENIED")
                expect(a.stat(UNLOCK, a.lock(caller=name), **way), "GRANTED")


@tap.test
def cookies_and_owner_handles_at_their_ends():
    """33 and 1024 bytes are echoed; 1025 do not decode."""
    with World() as (a, _, _):
        for way, size in itertools.product(WAYS, (33, 1024)):
            for proc in procs(way["vers"]):
                a.stat(proc, a.lock(oh=os.urandom(size)), cookie=os.urandom(size), **way)  # ask() compares
        for way in WAYS:
            client = a.client(way["transport"])
            for args in (nlm.lock_args(way["vers"], bytes(1025), a.lock()),
                         nlm.lock_args(way["vers"], b"cookie", a.lock(oh=bytes(1025)))):
                expect(client.call(nlm.PROG, way["vers"], LOCK, args).status, rpc.GARBAGE_ARGS)


@tap.test
def ranges_at_their_ends():
    """Every pair of offsets and lengths around 0, 2^31, 2^32, 2^63 and 2^64: a range that fits is locked,
    found and unlocked, and one that does not is NLM4_FBIG (NLM-02)."""
    edges = sorted({edge + d for edge in (0, 2**31, 2**32, 2**63, 2**64) for d in (-2, -1, 0, 1)} - {-2, -1, 2**64, 2**64 + 1})
    edges = [edge for edge in edges if 0 <= edge <= END]
    with World() as (a, b, _):
        for offset, length in itertools.product(edges, edges):
            fits = length == 0 or offset + length - 1 <= END
            lock, other = a.lock(offset=offset, length=length), b.lock(offset=offset, length=1)
            for proc in (LOCK, TEST, UNLOCK, CANCEL):
                stat = a.stat(proc, lock)
                if proc == CANCEL or not fits:
                    expect(stat, "GRANTED" if fits else "FBIG")
                else:
                    expect(stat, "GRANTED")
                if proc == LOCK and fits:
                    holder = b.ask(TEST, other).holder
                    last = END if length == 0 else offset + length - 1
                    got = END if holder.length == 0 else holder.offset + holder.length - 1
                    expect((holder.offset, got), (offset, last))
            expect(b.stat(TEST, b.lock()), "GRANTED")
        for vers, (offset, length) in itertools.product((1, 3), itertools.product(edges, edges)):
            if max(offset, length) < 2**32:
                expect(a.stat(LOCK, a.lock(offset=offset, length=length), vers=vers), "GRANTED")
                expect(a.stat(UNLOCK, a.lock(offset=offset, length=length), vers=vers), "GRANTED")
        expect(b.stat(TEST, b.lock()), "GRANTED")


@tap.test
def every_argument_cut_short():
    """Arguments cut at every word, or with one word too many, do not decode; modes beyond 3 are refused."""
    with World() as (a, b, _):
        for vers in nlm.VERSIONS:
            client = a.client("tcp")
            for proc in (*procs(vers), GRANTED):
                args = nlm.ARGS[proc](vers, b"cookie", a.lock())
                for form in (proc, proc + MSG) if proc <= GRANTED else (proc,):
                    for end in range(0, len(args), 4):
                        expect(client.call(nlm.PROG, vers, form, args[:end]).status, rpc.GARBAGE_ARGS)
                    expect(client.call(nlm.PROG, vers, form, args + bytes(4)).status, rpc.GARBAGE_ARGS)
        for vers, access in ((3, 4), (4, 2**31), (4, 2**32 - 1)):
            expect(a.stat(SHARE, mode=access, access=0, vers=vers), refused(vers, SHARE, "FAILED"))
            expect(a.stat(SHARE, mode=0, access=access, vers=vers), refused(vers, SHARE, "FAILED"))
        expect(b.stat(LOCK), "GRANTED")


# ---- limits ----

@tap.test
def a_host_at_the_limit_of_its_locks():
    """NLM-09: a host that holds as many locks as it may gets DENIED_NOLOCKS; other hosts are served as before,
    on the same file too."""
    with World("limits.locks_per_client=200") as (a, b, _):
        for i in range(200):
            expect(a.stat(LOCK, a.lock(offset=10 * i, length=5)), "GRANTED")
            expect(a.stat(LOCK, a.lock(fh=b"by the other mount", offset=10 * i, length=5), transport="udp"), "GRANTED")
        for way in WAYS:
            expect(a.stat(LOCK, a.lock(offset=10000, length=5), **way), "DENIED_NOLOCKS")
            expect(a.stat(LOCK, a.lock(fh=b"another"), **way), "DENIED_NOLOCKS")
            expect(b.stat(LOCK, b.lock(offset=10005, length=5), **way), "GRANTED")
            expect(b.stat(UNLOCK, b.lock(offset=10005, length=5), **way), "GRANTED")
        expect(a.stat(LOCK, a.lock(length=5)), "GRANTED")  # what it has
        expect(a.stat(UNLOCK, a.lock(offset=2, length=1)), "GRANTED")  # two of one: never refused
        expect(a.stat(UNLOCK, a.lock(offset=10, length=5)), "GRANTED")
        expect(a.stat(LOCK, a.lock(fh=b"another")), "DENIED_NOLOCKS")
        expect(a.stat(UNLOCK, a.lock(length=5)), "GRANTED")
        expect(a.stat(LOCK, a.lock(fh=b"another")), "GRANTED")


@tap.test
def a_file_at_its_limits():
    """NLM-09: locks and waiters per file: DENIED_NOLOCKS on that file, and other files are served as
    before."""
    with World("limits.locks_per_file=100", "limits.waiters_per_file=3") as (a, b, c):
        for i in range(100):
            expect(a.stat(LOCK, a.lock(offset=10 * i, length=5)), "GRANTED")
        expect(b.stat(LOCK, b.lock(offset=5000, length=1)), "DENIED_NOLOCKS")
        expect(b.stat(LOCK, b.lock(fh=b"another")), "GRANTED")
        for svid in range(3):
            expect(c.stat(LOCK, c.lock(fh=b"another", svid=svid), block=True), "BLOCKED")
        expect(c.stat(LOCK, c.lock(fh=b"another", svid=3), block=True), "DENIED_NOLOCKS")
        expect(c.stat(LOCK, c.lock(fh=b"another", svid=2), block=True), "BLOCKED")  # its place is its place
        expect(b.stat(LOCK, b.lock(fh=b"third")), "GRANTED")
        expect(c.stat(LOCK, c.lock(fh=b"third"), block=True), "BLOCKED")


@tap.test
def all_clients_and_all_locks():
    """NLM-09: given a host that uses up the number of clients, or of locks in all, the clients that are known
    are still served."""
    with World("limits.clients=20") as (a, b, c):
        expect(b.stat(LOCK, b.lock(fh=b"mine")), "GRANTED")
        for i in range(19):
            expect(a.stat(LOCK, a.lock(caller=b"name%d" % i, fh=b"f%d" % i)), "GRANTED")
        expect(a.stat(LOCK, a.lock(caller=b"name19", fh=b"f19")), "DENIED_NOLOCKS")
        expect(c.stat(LOCK, c.lock(fh=b"f19")), "DENIED_NOLOCKS")
        expect(c.stat(TEST, c.lock(fh=b"f19")), "GRANTED")
        expect(b.stat(LOCK, b.lock(fh=b"f19")), "GRANTED")
    with World("limits.locks=50") as (a, b, _):
        expect(b.stat(LOCK, b.lock(fh=b"mine")), "GRANTED")
        for i in range(49):
            expect(a.stat(LOCK, a.lock(offset=10 * i, length=5)), "GRANTED")
        expect(a.stat(LOCK, a.lock(offset=10000, length=5)), "DENIED_NOLOCKS")
        expect(b.stat(LOCK, b.lock(fh=b"mine")), "GRANTED")
        expect(b.stat(UNLOCK, b.lock(fh=b"mine")), "GRANTED")
        expect(b.stat(LOCK, b.lock(fh=b"mine")), "GRANTED")


# ---- in another's name ----

@tap.test
def in_another_hosts_name():
    """NLM-05b: NLM-07c: UNLOCK, CANCEL, LOCK, UNSHARE and FREE_ALL with the name and owner of another host, from another
    address, change nothing of that host."""
    with World() as (a, b, c):
        for way in WAYS:
            expect(a.stat(LOCK, **way), "GRANTED")
            expect(b.stat(LOCK, block=True, **way), "BLOCKED")
            expect(c.stat(UNLOCK, a.lock(), **way), "GRANTED")   # of nothing: it holds nothing
            expect(c.stat(LOCK, a.lock(), **way), "DENIED")      # another owner
            expect(c.stat(CANCEL, b.lock(), **way), "GRANTED")
            if way["vers"] > 1:
                expect(a.stat(SHARE, a.lock(fh=b"s"), mode=3, access=3, **way), "GRANTED")
                expect(c.stat(UNSHARE, a.lock(fh=b"s"), **way), "GRANTED")
                expect(c.stat(SHARE, c.lock(fh=b"s"), mode=0, access=1, **way), "DENIED")
                c.free_all(a.name, **way)
                c.free_all(b.name, **way)
            expect(c.ask(TEST, **way).holder.oh, a.lock().oh)
            before = len(b.received(GRANTED))
            expect(a.stat(UNLOCK, **way), "GRANTED")
            b.wait_for(GRANTED, before + 1)                      # it still waited
            a.free_all()
            b.free_all()


@tap.test
def granted_res_from_another_host():
    """SEC-07c: NOT-04: an answer to GRANTED_MSG counts only from the host that was called: neither a refusal nor a
    consent of another host counts, nor an answer with a cookie that was never sent."""
    with World() as (a, b, c):
        b.answers = SILENCE
        expect(a.stat(LOCK), "GRANTED")
        expect(b.stat(LOCK, block=True, msg=True, transport="udp"), "BLOCKED")
        expect(a.stat(UNLOCK), "GRANTED")
        cookie = b.wait_for(GRANTED + MSG).granted()[0]
        for wrong in (b"", b"x", cookie[:-1], cookie + b"\0", bytes(1024)):
            b.send_granted_res(wrong, "DENIED")
        c.send_granted_res(cookie, "DENIED")
        time.sleep(0.1)
        expect(a.ask(TEST).holder.oh, b.lock().oh)
        c.send_granted_res(cookie, "GRANTED")
        b.wait_for(GRANTED + MSG, 2)  # it is asked again: the stranger's consent is not its own
        b.send_granted_res(cookie, "GRANTED")
        wait_until(lambda: b.stat(CANCEL, transport="udp") == "DENIED", "it has the lock")
        expect(b.stat(UNLOCK, transport="udp"), "GRANTED")
        expect(a.stat(LOCK), "GRANTED")
        expect(b.stat(LOCK, block=True, msg=True, transport="udp"), "BLOCKED")
        expect(a.stat(UNLOCK), "GRANTED")
        b.send_granted_res(b.wait_for(GRANTED + MSG, 3).granted()[0], "DENIED")  # and its refusal is
        wait_until(lambda: a.stat(TEST) == "GRANTED", "the lock is free")


@tap.test
def granted_res_from_a_client_in_grace():
    """A client that answers DENIED_GRACE_PERIOD is restarting: it keeps the lock and is called again."""
    with World() as (a, b, _):
        b.answers = "DENIED_GRACE_PERIOD"
        expect(a.stat(LOCK), "GRANTED")
        expect(b.stat(LOCK, block=True, msg=True, transport="udp"), "BLOCKED")
        expect(a.stat(UNLOCK), "GRANTED")
        b.wait_for(GRANTED + MSG)
        time.sleep(0.1)
        expect(a.stat(TEST), "DENIED")
        b.answers = "GRANTED"
        b.wait_for(GRANTED + MSG, 2)
        expect(a.ask(TEST).holder.oh, b.lock().oh)


@tap.test
def a_client_in_grace_answers_at_once():
    """The same for a GRANTED that is answered in the same call: DENIED_GRACE_PERIOD is no refusal."""
    with World() as (a, b, _):
        for transport in rpc.TRANSPORTS:
            b.answers = "DENIED_GRACE_PERIOD"
            expect(a.stat(LOCK), "GRANTED")
            expect(b.stat(LOCK, block=True, transport=transport), "BLOCKED")
            before = len(b.received(GRANTED))
            expect(a.stat(UNLOCK), "GRANTED")
            b.wait_for(GRANTED, before + 1)
            b.answers = "GRANTED"
            b.wait_for(GRANTED, before + 2)  # called again, so its first answer has been read
            expect(a.ask(TEST).holder.oh, b.lock().oh)
            expect(b.stat(UNLOCK, transport=transport), "GRANTED")


# ---- a store that refuses ----

def locks_until_refused(host):
    for number in itertools.count():
        stat = host.stat(LOCK, host.lock(fh=b"%064d" % number))
        if stat != "GRANTED":
            return stat


def send(host, proc, args, port=0, server=SERVER):
    """A call that may remain unanswered: whether it was answered."""
    source = ("127.0.0.1" if server == "127.0.0.1" else host.address, port)
    with rpc.Udp(server, PORT, source) as client:
        client.send(rpc.call_message(rpc.new_xid(), nlm.PROG, 4, proc, args))
        return not client.is_silent(1)


@tap.test
def a_full_disk_is_a_refusal():
    """STO-04, SPEC section 5: LOCK, TEST, NM_LOCK and SHARE are refused; UNSHARE needs no promise and works. A
    procedure that cannot express a refusal, or whose client would forget the lock when refused, is left
    unanswered, so that the client asks again: UNLOCK, FREE_ALL, procedure 16. When the disk has room again,
    all of them work."""
    unlock = nlm.unlock_args(4, b"cookie", nlm.Lock(b"alice", oh=b"1@alice"))
    restarted = nlm.sm_notify_args(b"bob", 3)
    with small_disk(4) as disk, World("store.backend=lmdb", f"store.path={disk}/store") as (a, b, c):
        expect(a.stat(LOCK, transport="udp"), "GRANTED")
        expect(b.stat(LOCK, b.lock(fh=b"of bob")), "GRANTED")
        expect(a.stat(SHARE, a.lock(fh=b"shared"), mode=3, access=3), "GRANTED")
        fill(f"{disk}/ballast")
        expect(locks_until_refused(c), "DENIED_NOLOCKS")
        expect([c.stat(proc) for proc in (LOCK, TEST, NM_LOCK)], ["DENIED_NOLOCKS"] * 3)
        expect(c.stat(SHARE, c.lock(fh=b"other"), mode=3, access=3), "DENIED_NOLOCKS")
        expect(a.stat(UNSHARE, a.lock(fh=b"shared")), "GRANTED")
        expect([send(a, UNLOCK, unlock), send(c, nlm.FREE_ALL, nlm.free_all_args(b"carol")),
                send(b, nlm.SM_NOTIFY, restarted, 999, "127.0.0.1")], [False] * 3)
        os.unlink(f"{disk}/ballast")
        wait_until(lambda: c.stat(TEST) != "DENIED_NOLOCKS", "the store heals")
        expect(c.stat(TEST, c.lock(fh=b"of bob")), "DENIED")
        expect(c.stat(SHARE, c.lock(fh=b"shared"), mode=3, access=3), "GRANTED")
        expect([send(a, UNLOCK, unlock), send(b, nlm.SM_NOTIFY, restarted, 998, "127.0.0.1")], [True] * 2)
        expect([c.stat(TEST), c.stat(TEST, c.lock(fh=b"of bob"))], ["GRANTED"] * 2)


# ---- very many locks ----

def lock_many(host, count):
    """One lock for each of so many processes, all requests in one stream."""
    client = host.client("tcp")
    for i in range(count):
        args = nlm.lock_args(4, b"many", host.lock(svid=i, oh=b"%d@alice" % i, offset=2 * i, length=1), state=3)
        client.send(rpc.call_message(i + 1, nlm.PROG, 4, LOCK, args))
        if i % 50 == 49 or i == count - 1:
            for _ in range(i % 50 + 1):
                expect(nlm.decode_result(LOCK, 4, client.reply().results).stat, "GRANTED")


@tap.test
def a_large_release_is_answered_when_all_is_released():
    """SEC-05: what a client has is released in slices when it is much. FREE_ALL, a crash notice and the operator's release
    are answered after the last one, so all of it is free then, and was made durable."""
    count = 6000
    with small_disk(64) as disk, World("store.backend=lmdb", f"store.path={disk}/store") as (a, _, c):
        def released():
            return c.stat(TEST, c.lock(length=0))

        lock_many(a, count)
        expect(released(), "DENIED")
        a.free_all()
        expect(released(), "GRANTED")
        lock_many(a, count)
        a.sm_notify(5)  # by UDP: verified, and believed because no monitor contradicts it
        expect(released(), "GRANTED")


# ---- the same once more ----

@tap.test
def a_repeat_is_not_a_second_request():
    """RPC-01a, NLM-08: the same call again, with its transaction id, gets the same answer and makes no second
    waiter."""
    with World() as (a, b, c):
        for transport in rpc.TRANSPORTS:
            expect(a.stat(LOCK), "GRANTED")
            client = b.client(transport)
            xid, args = rpc.new_xid(), nlm.lock_args(4, b"repeated", b.lock(), block=True)
            answers = {client.call(nlm.PROG, 4, LOCK, args, xid=xid).results for _ in range(3)}
            expect([nlm.decode_result(LOCK, 4, answer).stat for answer in answers], ["BLOCKED"])
            before = len(b.received(GRANTED))
            expect(a.stat(UNLOCK), "GRANTED")
            b.wait_for(GRANTED, before + 1)
            late = client.call(nlm.PROG, 4, LOCK, args, xid=xid).results
            expect(nlm.decode_result(LOCK, 4, late).stat, "BLOCKED")  # the same answer, once more
            expect(b.stat(UNLOCK, transport=transport), "GRANTED")
            expect(c.stat(LOCK), "GRANTED")  # nothing waits any more
            expect(c.stat(UNLOCK), "GRANTED")
            expect(len(b.received(GRANTED)), before + 1)


@tap.test
def a_repeated_unlock_frees_nothing_new():
    """RPC-01: an UNLOCK that arrives once more, after its owner has locked again, gets its old answer and frees
    nothing."""
    with World() as (a, _, c):
        for transport in rpc.TRANSPORTS:
            expect(a.stat(LOCK), "GRANTED")
            client = a.client(transport)
            xid, args = rpc.new_xid(), nlm.unlock_args(4, b"repeated", a.lock())
            first = client.call(nlm.PROG, 4, UNLOCK, args, xid=xid).results
            expect(a.stat(LOCK), "GRANTED")
            expect(client.call(nlm.PROG, 4, UNLOCK, args, xid=xid).results, first)
            expect(c.stat(TEST), "DENIED")
            expect(a.stat(UNLOCK), "GRANTED")


@tap.test
def a_simulated_crash_forgets_old_answers():
    """NSM-06: SM_SIMU_CRASH does what a restart does. An NM_LOCK that was granted before is gone with it, so its
    repeat must not get the old GRANTED."""
    with World() as (a, b, _):
        expect(a.stat(LOCK, a.lock(fh=b"durable")), "GRANTED")  # so that there is a grace period
        client, xid = b.client("udp"), rpc.new_xid()
        args = nlm.lock_args(4, b"repeated", b.lock())
        answer = client.call(nlm.PROG, 4, NM_LOCK, args, xid=xid).results
        expect(nlm.decode_result(NM_LOCK, 4, answer).stat, "GRANTED")
        with nsm.as_kernel() as kernel:
            kernel.simu_crash()
        answer = client.call(nlm.PROG, 4, NM_LOCK, args, xid=xid).results
        expect(nlm.decode_result(NM_LOCK, 4, answer).stat, "DENIED_GRACE_PERIOD")


@tap.test
def a_repeat_from_another_port_is_answered_there():
    """RPC-01c: a crash notice waits for its verification, which takes 2 s with a silent monitor. It is repeated from
    another port meanwhile: the answer goes to that port, and not to the first."""
    with World() as (a, _, c):
        expect(a.stat(LOCK, state=3), "GRANTED")
        a.mute = True
        message = rpc.call_message(rpc.new_xid(), nsm.PROG, 1, nsm.NOTIFY, nsm.stat_chge("alice", 5))
        with rpc.Udp(SERVER, PORT, (a.address, 0)) as first, rpc.Udp(SERVER, PORT, (a.address, 0), 10) as second:
            first.send(message)
            expect(first.is_silent(0.3), True)  # it is being verified
            second.send(message)
            assert second.receive()
            expect(first.is_silent(0.1), True)
        expect(c.stat(TEST), "GRANTED")


if __name__ == "__main__":
    netns.enter()
    add_addresses()
    tap.main()
