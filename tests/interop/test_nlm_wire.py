#!/usr/bin/env python3
"""NLM on the wire (NLM-01..06, NLM-08, NLM-11, NOT-04): one table of stories, each run in every version, over every
transport, by procedures and by messages, between hosts that have their own rpcbind, NLM and NSM; and tshark, which
must be able to read every packet of it."""
import itertools
import os
import threading
import time
from dataclasses import dataclass

from holdfast_test import netns, nlm, rpc, rpcbind, tap
from holdfast_test.capture import Capture
from holdfast_test.daemon import PORT, Daemon
from holdfast_test.nlm import CANCEL, GRANTED, LOCK, MSG, NM_LOCK, RES, SHARE, TEST, UNLOCK, UNSHARE
from holdfast_test.peer import NSM, SERVER, SERVERS, SILENCE, Network, add_addresses

END32, END64 = 2**32 - 1, 2**64 - 1
TIMEOUT_S = 1  # of a callback's attempt, as configured


@dataclass
class Way:
    """How a request is sent: version, transport, procedure or message form."""
    vers: int
    transport: str
    msg: bool = False
    server: str = SERVER

    def __str__(self):
        return f"v{self.vers}_{self.transport}" + "_msg" * self.msg + "_ipv6" * (":" in self.server)

    def how(self):
        return {"vers": self.vers, "transport": self.transport, "msg": self.msg, "server": self.server}

    @property
    def end(self):
        return END64 if self.vers == 4 else END32

    def refusal(self, stat):
        """The answer of versions 1 and 3, which know only five, where version 4 has another."""
        return stat if self.vers == 4 else "DENIED"


WAYS = [Way(vers, transport, msg) for vers, transport, msg in
        itertools.product(nlm.VERSIONS, rpc.TRANSPORTS, (False, True))]
IPV6 = [Way(vers, transport, msg, SERVERS[2]) for vers, transport, msg in
        ((4, "tcp", False), (4, "udp", True), (3, "udp", False), (1, "tcp", True))]
OTHER_ADDRESS = [Way(4, "tcp", False, SERVERS[1]), Way(4, "udp", False, SERVERS[1]),
                 Way(3, "udp", True, SERVERS[1])]
PROCEDURES_ONLY = [way for way in WAYS if not way.msg]
EXTENDED = [way for way in PROCEDURES_ONLY if way.vers >= 3]  # where procedures 20 to 23 exist

cast = {}  # the hosts, by address family


class Stage:
    """Three hosts, a fresh file, and a way to send requests."""

    def __init__(self, way):
        self.way = way
        self.hosts = cast["ipv6" if ":" in way.server else "ipv4"]
        self.fh = os.urandom(28)

    def ask(self, host, proc, offset=0, length=0, svid=1, fh=None, oh=None, cookie=None, **fields):
        lock = host.lock(fh=fh or self.fh, offset=offset, length=length, svid=svid,
                         oh=b"%d@" % svid + host.name if oh is None else oh)
        return host.ask(proc, lock, cookie=cookie, **self.way.how(), **fields)

    def stat(self, *arguments, **fields):
        return self.ask(*arguments, **fields).stat

    def holds(self, host, other, offset=0, length=0):
        """True if a TEST by the other host finds that lock."""
        result = self.ask(other, TEST, offset, length, svid=99)
        return result.holder is not None and result.holder.oh.endswith(b"@" + host.name)

    def wait_for_grant(self, host, before):
        """The next GRANTED, which must use the version, transport and form of the LOCK."""
        proc = GRANTED + (MSG if self.way.msg else 0)
        call = host.wait_for(proc, before + 1)
        assert (call.vers, call.transport) == (self.way.vers, self.way.transport), call
        assert call.source[0] == self.way.server, f"from {call.source[0]}, not {self.way.server}"
        return call

    def grants(self, host):
        return len(host.received(GRANTED + (MSG if self.way.msg else 0)))

    def __enter__(self):
        self.before = {host: self.grants(host) for host in self.hosts}
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            host.answers = "GRANTED"
            host.free_all(server=self.way.server)


def story(*ways):
    """Registers a function (stage, a, b, c) once for each way."""
    def register(function):
        for way in itertools.chain(*ways):
            def run(way=way):
                with Stage(way) as stage:
                    function(stage, *stage.hosts)
            run.__name__ = f"{function.__name__}_{way}"
            run.__doc__ = function.__doc__
            tap.test(run)
        return function
    return register


def expect(got, wanted):
    assert got == wanted, f"{got}, not {wanted}"


# ---- byte ranges ----

@story(WAYS, IPV6)
def conflict(s, a, b, c):
    """NLM-01, NLM-02: an exclusive lock excludes all others, a shared lock excludes exclusive ones; ranges that do not
    overlap are free."""
    expect(s.stat(a, LOCK, 10, 10), "GRANTED")
    expect(s.stat(b, LOCK, 19, 1), "DENIED")
    expect(s.stat(b, LOCK, 10, 1, exclusive=False), "DENIED")
    expect(s.stat(b, LOCK, 0, 0), "DENIED")
    expect(s.stat(b, LOCK, 20, 10), "GRANTED")
    expect(s.stat(b, LOCK, 9, 1), "GRANTED")
    expect(s.stat(a, LOCK, 40, 10, exclusive=False), "GRANTED")
    expect(s.stat(b, LOCK, 45, 10, exclusive=False), "GRANTED")
    expect(s.stat(c, LOCK, 49, 1), "DENIED")
    expect(s.stat(c, LOCK, 0, 0, fh=os.urandom(28)), "GRANTED")
    expect(s.stat(a, LOCK, 10, 10, svid=2), "DENIED")        # another owner of the same host
    expect(s.stat(a, LOCK, 10, 10, oh=b"another"), "DENIED")
    expect(s.stat(a, LOCK, 10, 10), "GRANTED")               # what it holds already


@story(WAYS)
def split_and_merge(s, a, b, c):
    """Unlocking the middle leaves two; locking the gap again makes one of three."""
    expect(s.stat(a, LOCK, 0, 30), "GRANTED")
    expect(s.stat(a, UNLOCK, 10, 10), "GRANTED")
    expect(s.ask(b, TEST, 9, 1).holder, nlm.Holder(True, 1, b"1@" + a.name, 0, 10))
    expect(s.ask(b, TEST, 20, 1).holder, nlm.Holder(True, 1, b"1@" + a.name, 20, 10))
    expect(s.stat(b, LOCK, 10, 10), "GRANTED")
    expect(s.stat(b, UNLOCK, 0, 0), "GRANTED")
    expect(s.stat(a, LOCK, 10, 10), "GRANTED")
    expect(s.ask(b, TEST, 15, 1).holder, nlm.Holder(True, 1, b"1@" + a.name, 0, 30))


@story(WAYS)
def upgrade_and_downgrade(s, a, b, c):
    """A part of a shared lock becomes exclusive and shared again; the rest keeps its mode."""
    expect(s.stat(a, LOCK, 0, 30, exclusive=False), "GRANTED")
    expect(s.stat(a, LOCK, 10, 10), "GRANTED")
    expect(s.stat(b, LOCK, 0, 10, exclusive=False), "GRANTED")
    expect(s.stat(b, LOCK, 10, 1, exclusive=False), "DENIED")
    expect(s.stat(a, LOCK, 5, 1), "DENIED")  # b reads there
    expect(s.stat(a, LOCK, 10, 10, exclusive=False), "GRANTED")
    expect(s.stat(b, LOCK, 0, 30, exclusive=False), "GRANTED")


@story(WAYS)
def ends_of_the_range(s, a, b, c):
    """Length 0 is to the end; the last byte can be locked; beyond it is NLM4_FBIG."""
    end = s.way.end
    expect(s.stat(a, LOCK, end, 1), "GRANTED")
    expect(s.ask(b, TEST, 5, 0).holder, nlm.Holder(True, 1, b"1@" + a.name, end,
                                                   0 if s.way.vers == 4 else 1))
    expect(s.stat(b, LOCK, 0, end), "GRANTED")  # all but the last byte
    expect(s.stat(b, UNLOCK, 1, 0), "GRANTED")
    expect(s.stat(a, LOCK, 1, end), "GRANTED")
    expect(s.ask(b, TEST, 7, 1).holder, nlm.Holder(True, 1, b"1@" + a.name, 1,
                                                   0 if s.way.vers == 4 else end))
    if s.way.vers == 4:
        for proc in (LOCK, TEST, UNLOCK, CANCEL):
            expect(s.stat(c, proc, END64, 2), "FBIG")
            expect(s.stat(c, proc, 2, END64), "FBIG")


@story(WAYS, IPV6)
def the_true_holder(s, a, b, c):
    """NLM-04: TEST names the holder in the way: mode, svid, owner handle and range. The caller's own locks are
    not in the way."""
    oh = bytes(range(256)) * 2
    expect(s.stat(a, LOCK, 100, 50, svid=-7, oh=oh, exclusive=False), "GRANTED")
    expect(s.stat(b, TEST, 100, 50, exclusive=False), "GRANTED")
    expect(s.stat(a, TEST, 100, 50, svid=-7, oh=oh), "GRANTED")
    # By UDP an answer has at most three times the size of its question (SEC-03), so this one is long, too.
    expect(s.ask(b, TEST, 149, 1, oh=oh[::-1]).holder, nlm.Holder(False, -7, oh, 100, 50))
    expect(s.ask(a, TEST, 0, 0, svid=-8, oh=oh).holder, nlm.Holder(False, -7, oh, 100, 50))
    expect(s.stat(b, TEST, 150, 0), "GRANTED")


@story([way for way in WAYS if way.vers < 4])
def a_holder_beyond_32_bits(s, a, b, c):
    """A lock that a version 4 client holds beyond 32 bits is clamped, not truncated, in answers to versions 1
    and 3."""
    far = a.lock(fh=s.fh, offset=2**40 + 5, length=50)
    near = a.lock(fh=s.fh, offset=2**32 - 10, length=2**33)
    expect(a.stat(LOCK, far, server=s.way.server), "GRANTED")
    expect(s.ask(b, TEST, 7, 0).holder, nlm.Holder(True, 1, far.oh, END32, 0))
    expect(a.stat(LOCK, near, server=s.way.server), "GRANTED")
    expect(s.ask(b, TEST, END32, 1).holder, nlm.Holder(True, 1, far.oh, 2**32 - 10, 0))
    expect(s.stat(b, LOCK, END32, 2), "DENIED")
    expect(s.stat(b, LOCK, 0, 2**32 - 10), "GRANTED")


@story(WAYS)
def cookies_and_owners_are_echoed(s, a, b, c):
    """Cookies of 0 to 1024 bytes come back byte for byte, and owner handles of 0 to 1024 bytes."""
    for size in (0, 1, 3, 4, 8, 32, 33, 255, 1024):
        for proc in (LOCK, TEST, CANCEL, UNLOCK):
            s.stat(a, proc, cookie=os.urandom(size))
        oh = os.urandom(size)
        expect(s.stat(a, LOCK, oh=oh), "GRANTED")
        # By UDP an answer has at most three times the size of its question (SEC-03), so this one is long, too.
        expect(s.ask(b, TEST, oh=os.urandom(size)).holder.oh, oh)
        expect(s.stat(a, UNLOCK, oh=oh), "GRANTED")


@story(WAYS)
def nothing_to_do_is_granted(s, a, b, c):
    """NLM-08: UNLOCK of nothing and CANCEL of nothing are GRANTED, also on a file without any lock."""
    expect(s.stat(a, UNLOCK), "GRANTED")
    expect(s.stat(a, CANCEL), "GRANTED")
    expect(s.stat(b, LOCK, 0, 10), "GRANTED")
    expect(s.stat(a, UNLOCK, 0, 10), "GRANTED")
    expect(s.stat(a, CANCEL, 0, 10), "GRANTED")
    assert s.holds(b, a, 0, 10), "another owner's lock is gone"


# ---- blocking ----

@story(WAYS, IPV6, OTHER_ADDRESS)
def blocked_then_granted(s, a, b, c):
    """NLM-03, NOT-04: BLOCKED; when the lock is free GRANTED comes by the version and transport of the LOCK
    and echoes all of its arguments."""
    end = s.way.end
    for offset, length, exclusive in ((0, 0, True), (5, end - 4, False), (end, 1, True), (7, 3, False)):
        before = s.grants(b)
        expect(s.stat(a, LOCK, 0, 0), "GRANTED")
        expect(s.stat(b, LOCK, offset, length, svid=77, oh=b"\0\xffhandle", exclusive=exclusive,
                      block=True), "BLOCKED")
        expect(s.stat(a, UNLOCK, 0, 0), "GRANTED")
        call = s.wait_for_grant(b, before)
        _, got_exclusive, got = call.granted()
        expect((got, got_exclusive), (b.lock(fh=s.fh, oh=b"\0\xffhandle", svid=77, offset=offset,
                                             length=length), exclusive))
        result = s.ask(c, TEST)
        assert result.holder and result.holder.oh == b"\0\xffhandle", (offset, length, result, b.calls[-3:])
        expect(s.stat(b, UNLOCK, svid=77, oh=b"\0\xffhandle"), "GRANTED")
        expect(s.grants(b), before + 1)


@story(WAYS)
def first_come_first_served(s, a, b, c):
    """NLM-03: two clients wait: each unlock serves the next; a repeated LOCK keeps its place; no waiter
    overtakes another."""
    expect(s.stat(a, LOCK), "GRANTED")
    expect(s.stat(b, LOCK, block=True), "BLOCKED")
    expect(s.stat(c, LOCK, block=True), "BLOCKED")
    expect(s.stat(b, LOCK, block=True), "BLOCKED")
    expect(s.stat(a, UNLOCK), "GRANTED")
    s.wait_for_grant(b, s.before[b])
    expect(s.stat(a, LOCK), "DENIED")
    expect(s.stat(b, UNLOCK), "GRANTED")
    s.wait_for_grant(c, s.before[c])
    assert s.holds(c, a)
    expect(s.stat(c, UNLOCK), "GRANTED")
    expect((s.grants(b) - s.before[b], s.grants(c) - s.before[c]), (1, 1))


def call_back(s, a, b, c, answer):
    """a gives its lock to b, and c waits behind it: the callback, to which b answers so."""
    b.answers = answer
    expect(s.stat(a, LOCK), "GRANTED")
    expect(s.stat(b, LOCK, block=True), "BLOCKED")
    expect(s.stat(c, LOCK, block=True), "BLOCKED")
    expect(s.stat(a, UNLOCK), "GRANTED")
    return s.wait_for_grant(b, s.before[b])


@story(WAYS)
def denied_frees_at_once(s, a, b, c):
    """NOT-04: a GRANTED that is answered with DENIED gives the lock to the next waiter at once."""
    refused = call_back(s, a, b, c, "DENIED")
    granted = s.wait_for_grant(c, s.before[c])
    assert granted.at - refused.at < TIMEOUT_S / 2, f"only after {granted.at - refused.at} s"
    assert s.holds(c, a)


@story([Way(4, "tcp"), Way(3, "udp"), Way(4, "udp", True), Way(1, "tcp", True)])
def asked_again_during_the_callback(s, a, b, c):
    """NLM-08: a LOCK repeated while its callback is in flight is GRANTED, and the callback is stopped."""
    b.answers = SILENCE
    expect(s.stat(a, LOCK), "GRANTED")
    expect(s.stat(b, LOCK, block=True), "BLOCKED")
    expect(s.stat(a, UNLOCK), "GRANTED")
    s.wait_for_grant(b, s.before[b])
    expect(s.stat(b, LOCK, block=True), "GRANTED")
    expect(s.stat(c, LOCK, block=True), "BLOCKED")
    expect(s.stat(b, UNLOCK), "GRANTED")
    s.wait_for_grant(c, s.before[c])


@story([Way(4, "tcp"), Way(3, "udp"), Way(4, "udp", True), Way(1, "tcp", True)])
def unlock_waits_for_the_callback_it_overtakes(s, a, b, c):
    """NLM-08: given a GRANTED that has not been answered, an UNLOCK gives the lock to the next waiter at once, but is
    answered only when the callback is no longer in flight: a client that waited for the same range again meanwhile would
    take the late callback for its second grant."""
    call = call_back(s, a, b, c, SILENCE)
    answers = []
    unlocking = threading.Thread(target=lambda: answers.append(s.stat(b, UNLOCK)))
    unlocking.start()
    s.wait_for_grant(c, s.before[c])
    time.sleep(TIMEOUT_S / 10)
    early = list(answers)
    if time.monotonic() - call.at < TIMEOUT_S / 2:  # else the machine stood still, and the callback's time may be over
        expect(early, [])
    if s.way.msg:
        b.send_granted_res(call.granted()[0], "DENIED", s.way.vers, s.way.transport)
    unlocking.join()
    expect(answers, ["GRANTED"])


@story([Way(4, "tcp"), Way(4, "udp", True)])
def a_silent_client_loses_its_turn(s, a, b, c):
    """NOT-04: three attempts of a callback without an answer, then the next waiter gets the lock."""
    first = call_back(s, a, b, c, SILENCE)
    granted = s.wait_for_grant(c, s.before[c])
    waited = granted.at - first.at
    assert 2.9 * TIMEOUT_S <= waited <= 4.5 * TIMEOUT_S, f"after {waited:.2f} s"
    attempts = b.received(GRANTED + MSG * s.way.msg)[s.before[b]:] if s.way.vers == 4 else []
    cookies = {call.granted()[0] for call in attempts if call.granted()[2].fh == s.fh}
    expect(len(cookies), 1)  # the same outcall each time


@story(WAYS)
def cancel(s, a, b, c):
    """NLM-08: CANCEL takes back exactly the request it names; if the owner already holds that lock: DENIED."""
    expect(s.stat(a, LOCK, 0, 10), "GRANTED")
    expect(s.stat(b, LOCK, 0, 10, block=True), "BLOCKED")
    expect(s.stat(b, CANCEL, 0, 9), "GRANTED")                  # another range,
    expect(s.stat(b, CANCEL, 0, 10, exclusive=False), "GRANTED")  # mode,
    expect(s.stat(b, CANCEL, 0, 10, svid=2), "GRANTED")         # owner,
    expect(s.stat(c, CANCEL, 0, 10), "GRANTED")                 # host,
    expect(s.stat(b, CANCEL, 0, 10, fh=os.urandom(28)), "GRANTED")  # or file: it waits on
    expect(s.stat(c, LOCK, 0, 10, block=True), "BLOCKED")
    expect(s.stat(a, UNLOCK, 0, 10), "GRANTED")
    s.wait_for_grant(b, s.before[b])
    expect(s.stat(b, CANCEL, 0, 10), "DENIED")
    expect(s.stat(c, CANCEL, 0, 10), "GRANTED")
    expect(s.stat(b, UNLOCK, 0, 10), "GRANTED")
    expect(s.stat(a, LOCK, 0, 10), "GRANTED")  # c waits no longer
    expect(s.grants(c), s.before[c])


@story(WAYS)
def deadlock(s, a, b, c):
    """NLM-06: the blocking request that would close a cycle of held locks is refused, with two and with three
    owners."""
    files = [os.urandom(28) for _ in range(3)]
    for host, fh in zip((a, b, c), files):
        expect(s.stat(host, LOCK, fh=fh), "GRANTED")
    expect(s.stat(a, LOCK, fh=files[1], block=True), "BLOCKED")
    expect(s.stat(b, LOCK, fh=files[0], block=True), s.way.refusal("DEADLCK"))
    expect(s.stat(b, LOCK, fh=files[2], block=True), "BLOCKED")
    expect(s.stat(c, LOCK, fh=files[0], block=True), s.way.refusal("DEADLCK"))
    expect(s.stat(c, LOCK, fh=files[0]), "DENIED")
    expect(s.stat(a, CANCEL, fh=files[1]), "GRANTED")
    expect(s.stat(b, CANCEL, fh=files[2]), "GRANTED")


# ---- the rest of the procedures ----

@story(EXTENDED)
def share_table(s, a, b, c):
    """NLM-11: SHARE: all 16 by 16 combinations of modes denied and accesses wanted; UNSHARE frees; SHARE again
    replaces."""
    def share(host, mode, access, proc=SHARE):
        result = host.ask(proc, host.lock(fh=s.fh), vers=s.way.vers, transport=s.way.transport,
                          server=s.way.server, mode=mode, access=access)
        return result.stat

    for mine in itertools.product(range(4), range(4)):
        expect(share(a, *mine), "GRANTED")
        for theirs in itertools.product(range(4), range(4)):
            clash = mine[0] & theirs[1] or mine[1] & theirs[0]
            expect(share(b, *theirs), "DENIED" if clash else "GRANTED")
            expect(share(b, *theirs, proc=UNSHARE), "GRANTED")
    expect(share(a, 3, 3), "GRANTED")  # instead of what it had
    expect(share(b, 0, 1), "DENIED")
    expect(share(a, 0, 0, proc=UNSHARE), "GRANTED")
    expect(share(b, 0, 1), "GRANTED")
    expect(s.stat(c, LOCK), "GRANTED")  # byte ranges are another matter


@story(EXTENDED)
def nm_lock(s, a, b, c):
    """NLM-11: NM_LOCK conflicts with locks of both kinds, and blocks, as LOCK does."""
    expect(s.stat(a, NM_LOCK, 0, 10), "GRANTED")
    expect(s.stat(b, LOCK, 0, 10), "DENIED")
    expect(s.stat(b, NM_LOCK, 5, 1), "DENIED")
    expect(s.stat(b, NM_LOCK, 5, 1, block=True), "BLOCKED")
    expect(s.stat(a, UNLOCK, 0, 10), "GRANTED")
    s.wait_for_grant(b, s.before[b])
    assert s.holds(b, c, 5, 1)


@story(EXTENDED)
def free_all(s, a, b, c):
    """NLM-05: FREE_ALL releases everything the calling host holds and serves waiters; the name alone, from
    another address, releases nothing."""
    other = os.urandom(28)
    expect(s.stat(a, LOCK, svid=1), "GRANTED")
    expect(s.stat(a, LOCK, svid=2, fh=other), "GRANTED")
    expect(s.stat(b, LOCK, block=True), "BLOCKED")
    c.free_all(a.name, s.way.vers, s.way.transport, s.way.server)
    assert s.holds(a, c), "freed in another host's name"
    a.free_all(None, s.way.vers, s.way.transport, s.way.server)
    s.wait_for_grant(b, s.before[b])
    expect(s.stat(c, LOCK, fh=other), "GRANTED")


@story(PROCEDURES_ONLY)
def host_restarted(s, a, b, c):
    """Procedure 16 is believed from loopback and a reserved port only."""
    def tell(host, source):
        with rpc.TRANSPORTS[s.way.transport](host, PORT, source) as client:
            return client.call(nlm.PROG, s.way.vers, nlm.SM_NOTIFY, nlm.sm_notify_args(a.name, a.state))

    expect(s.stat(a, LOCK), "GRANTED")
    a.state += 2
    for host, source in ((SERVER, (b.address, 0)), (SERVER, (b.address, 701)), ("127.0.0.1", None)):
        assert tell(host, source).status != rpc.SUCCESS, f"believed from {source}"
    assert s.holds(a, b), "freed by a stranger"
    expect(tell("127.0.0.1", ("127.0.0.1", 702)).status, rpc.SUCCESS)
    expect(s.stat(b, LOCK), "GRANTED")


@story(PROCEDURES_ONLY)
def a_client_restarts(s, a, b, c):
    """NSM-05, CRS-01: the client's SM_NOTIFY releases its locks and serves waiters; the same notice again
    changes nothing."""
    expect(s.stat(a, LOCK, 0, 10, state=a.state), "GRANTED")
    expect(s.stat(b, LOCK, 0, 10, block=True), "BLOCKED")
    a.state += 2
    c.sm_notify(a.state, a.name, server=s.way.server)  # in its name, but from elsewhere
    assert s.holds(a, c, 0, 10), "freed by a stranger's notice"
    a.sm_notify(a.state, server=s.way.server)
    s.wait_for_grant(b, s.before[b])
    expect(s.stat(a, LOCK, 20, 10, state=a.state), "GRANTED")
    a.sm_notify(a.state, server=s.way.server)
    assert s.holds(a, c, 20, 10), "freed by the same notice again"


@story([Way(4, "tcp"), Way(3, "udp"), Way(1, "udp", True)])
def another_state_in_a_lock_is_a_hint(s, a, b, c):
    """CRS-02: a LOCK with another state than the recorded one is logged, and nothing is released until the
    notice confirms it."""
    text = f"client may have restarted unnoticed client={a.name.decode()}"
    seen = cast["daemon"].log().count(text)
    expect(s.stat(a, LOCK, 0, 10, state=a.state), "GRANTED")
    expect(s.stat(a, LOCK, 20, 10, state=0), "GRANTED")  # unknown, not changed
    expect(cast["daemon"].log().count(text), seen)
    a.state += 2
    expect(s.stat(a, LOCK, 40, 10, svid=2, state=a.state), "GRANTED")
    line = cast["daemon"].wait_for_log(text, seen + 1)
    assert f"state={a.state} recorded_state={a.state - 2}" in line, line
    assert s.holds(a, b, 0, 10), "released on a hint"
    a.sm_notify(a.state, server=s.way.server)
    expect(s.stat(b, LOCK, 0, 10), "GRANTED")
    expect(s.stat(b, LOCK, 20, 10), "GRANTED")
    assert s.holds(a, b, 40, 10), "what it locked in its new life went with the old"


@story(WAYS)
def a_grant_for_us_is_denied(s, a, b, c):
    """Holdfast itself waits for no lock, so GRANTED sent to it is answered with DENIED: by procedure 5, or by
    10 and 15."""
    expect(s.stat(a, GRANTED), "DENIED")


@story(PROCEDURES_ONLY)
def answers_to_nothing_are_taken_note_of(s, a, b, c):
    """The _RES procedures, and NULL, are answered with void, whatever their arguments say."""
    client = a.client(s.way.transport, s.way.server)
    holder = rpc.Encoder().opaque(b"cookie").uint(1).bool(True).int(1).opaque(b"oh")
    holder = holder.uhyper(0, 0) if s.way.vers == 4 else holder.uint(0, 0)
    calls = {0: b"", TEST + RES: holder.bytes()}
    calls |= {proc + RES: nlm.res(b"cookie", "GRANTED") for proc in (LOCK, CANCEL, UNLOCK, GRANTED)}
    for proc, args in calls.items():
        reply = client.call(nlm.PROG, s.way.vers, proc, args)
        expect((reply.status, reply.results), (rpc.SUCCESS, b""))


@story([Way(4, "tcp"), Way(4, "udp")])
def what_is_not_served(s, a, b, c):
    """There is no version 2; version 1 ends at procedure 16; no version has 17 to 19, or more than 23."""
    client = a.client(s.way.transport, s.way.server)
    reply = client.call(nlm.PROG, 2, 0)
    expect((reply.status, reply.range), (rpc.PROG_MISMATCH, (1, 4)))
    for vers, procs in ((1, (17, 18, 19, 20, 21, 22, 23, 24)), (3, (17, 18, 19, 24)), (4, (17, 18, 19, 24))):
        for proc in procs:
            expect(client.call(nlm.PROG, vers, proc, b"").status, rpc.PROC_UNAVAIL)


# ---- tshark ----

def every_packet_is_understood():
    """Given the traffic of all stories, tshark reads every packet as RPC, NLM and NSM without a complaint."""
    capture = cast["capture"]
    if isinstance(capture, tap.Skip):
        raise capture
    capture.stop()
    check_capture(capture)


def check_capture(capture):
    ports = sorted({PORT, rpcbind.PORT, *(host.port for key in ("ipv4", "ipv6") for host in cast[key])})
    look = lambda condition, *fields: capture.packets(condition, *fields, ports=ports)
    knocks = "!(udp.port == 9) && !icmp && !icmpv6"
    bad = look(f"({knocks}) && (_ws.malformed || _ws.expert.severity == error || _ws.short)",
               "_ws.expert.message", "_ws.col.Info")
    assert not bad, (len(bad), bad[:5])
    strange = look(f"({knocks}) && (udp || tcp.len > 0) && !rpc", "_ws.col.Info", "udp.port", "tcp.port")
    assert not strange, ("not RPC", len(strange), strange[:5])
    undecoded = look(f"rpc.program == {nlm.PROG} && !nlm && rpc.procedure != 0 && rpc.state_accept == 0",
                     "_ws.col.Info")
    assert not undecoded, ("not NLM", len(undecoded), undecoded[:5])
    beyond = look(f"data && rpc && !(rpc.program == {nlm.PROG} && rpc.procedure == 16)", "_ws.col.Info",
                  "data.data")  # 16 is Linux's own, and unknown to tshark
    assert not beyond, ("bytes that belong to nothing", len(beyond), beyond[:5])
    counts = {}
    for packet in look("nlm", "rpc.programversion", "rpc.procedure", "rpc.msgtyp"):
        fields = [packet.get(key, [""]) for key in ("rpc.programversion", "rpc.procedure", "rpc.msgtyp")]
        for key in zip(*fields):
            counts[key] = counts.get(key, 0) + 1
    for vers in nlm.VERSIONS:
        for proc in (*range(1, 16), *((20, 21, 22, 23) if vers > 1 else ())):
            for kind in ("0", "1"):
                assert (str(vers), str(proc), kind) in counts, \
                    f"version {vers} {nlm.name(proc)} {'answer' if kind == '1' else 'call'} not seen"
    nsm = look(f"rpc.program == {NSM}", "_ws.col.Info")
    tap.note(f"tshark decoded {sum(counts.values())} NLM messages ({len(counts)} kinds: version, "
             f"procedure, call or answer) and {len(nsm)} of NSM; none malformed, no field unexpected")


def tshark_would_see_a_fault():
    """Given an answer cut short or a word too long, and a datagram that is no RPC: the same check finds a fault."""
    good = cast["ipv4"][0]
    for fault in (b"\0\0\0\x08cut", nlm.res(b"12345678", "GRANTED") + b"\0\0\0\x2a"):
        with Capture() as capture:
            good.udp.sendto(rpc.call_message(1, nlm.PROG, 4, LOCK + RES, fault), (SERVER, PORT))
            good.udp.sendto(b"this is not RPC at all, but long enough", (SERVER, PORT))
            capture.stop()
            try:
                check_capture(capture)
            except AssertionError:
                continue
            raise AssertionError(f"tshark sees no fault in {fault}")


def main():
    netns.enter()
    add_addresses()
    tap.test(every_packet_is_understood)
    tap.test(tshark_would_see_a_fault)
    with Network() as network, Daemon(f"notify.timeout={TIMEOUT_S}", "notify.verify=no") as cast["daemon"]:
        cast["ipv4"] = [network.host(f"10.2.0.{i}", name) for i, name in enumerate(("alice", "bob", "carol"), 1)]
        cast["ipv6"] = [network.host(f"fd00:2::{i}", name) for i, name in enumerate(("dave", "eve", "frank"), 1)]
        try:
            with Capture() as cast["capture"]:
                status = tap.run()
        except tap.Skip as why:
            cast["capture"] = why
            status = tap.run()
    raise SystemExit(status)


if __name__ == "__main__":
    main()
