#!/usr/bin/env python3
"""Clients whose address changes, over real sockets (TRK-02): what they ask, what their old address is asked, what holdfastctl and
REST show, and what a killed daemon knows afterwards."""
import json
import os
import subprocess
import tempfile
import time

from holdfast_test import netns, nlm, rpc, tap
from holdfast_test.daemon import Daemon
from holdfast_test.nlm import GRANTED, LOCK, TEST, UNLOCK
from holdfast_test.peer import NSM, SILENCE, SM_NOTIFY, SM_STAT, Network, add_addresses

CTL = os.environ.get("HOLDFASTCTL", "build-asan/src/ctl/holdfastctl")
OLD, NEW, OTHER = "10.2.1.1", "10.2.1.2", "10.2.1.9"


class Story:
    """A daemon that vouches for `web` in 10.2.1.0/24, on a store of its own, and the hosts that call it."""

    def __init__(self, *more):
        self.more = more

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-")
        self.socket = os.path.join(self.folder.name, "admin")
        self.start()
        self.network = Network().__enter__()
        return self

    def start(self):
        self.daemon = Daemon("store.backend=lmdb", f"store.path={self.folder.name}/store", "notify.timeout=1", "log.level=info",
                             f"admin.socket={self.socket}", "client web.addresses=10.2.1.0/24", *self.more).start()

    def __exit__(self, failure, *_):
        self.network.__exit__(failure)
        self.daemon.__exit__(failure)
        self.folder.cleanup()

    def host(self, address, name="web"):
        return self.network.host(address, name)

    def ctl(self, *words):
        done = subprocess.run([CTL, "--socket", self.socket, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return done.stdout

    def clients(self):
        return json.loads(self.ctl("--json", "clients"))


def patiently(host, proc, **fields):
    """Asks as a Linux client does: again while the answer is DENIED_GRACE_PERIOD. (answer, seconds)"""
    began = time.monotonic()
    while (stat := host.stat(proc, **fields)) == "DENIED_GRACE_PERIOD":
        assert time.monotonic() < began + 20, "no decision"
        time.sleep(0.1)
    return stat, time.monotonic() - began


@tap.test
def a_client_comes_back_with_another_address():
    """TRK-02a: it finds its locks, others wait for it as before, it unlocks, and the callback finds it."""
    with Story() as story:
        old, other = story.host(OLD), story.host(OTHER, "other")
        assert old.stat(LOCK, state=3) == "GRANTED"
        old.vanish()
        new = story.host(NEW)
        stat, seconds = patiently(new, LOCK, state=3)
        assert stat == "GRANTED" and seconds < 5, (stat, seconds)
        line = story.daemon.wait_for_log("client comes from another address now")
        assert "client=web" in line and f"address={NEW}" in line, line
        assert other.stat(LOCK) == "DENIED"
        clients = [one for one in story.clients() if one["name"] == "web"]
        assert [one["addresses"] for one in clients] == [[NEW, OLD]], clients
        assert f"{NEW} +1" in story.ctl("clients")
        assert "web" in story.ctl("clients", "--client", OLD), "an operator who knows the old address finds it"
        other.stat(LOCK, other.lock(fh=b"another"))
        assert new.stat(LOCK, new.lock(fh=b"another"), block=True, state=3) == "BLOCKED"
        other.stat(UNLOCK, other.lock(fh=b"another"))
        new.wait_for(GRANTED)
        assert new.stat(UNLOCK) == "GRANTED"
        assert other.stat(LOCK) == "GRANTED"


@tap.test
def an_unlock_that_comes_first():
    """TRK-02a: it is not answered before it is known whose it is; sent again, it unlocks."""
    with Story() as story:
        old, other = story.host(OLD), story.host(OTHER, "other")
        assert old.stat(LOCK, state=3) == "GRANTED"
        old.vanish()
        new = story.host(NEW)
        client = new.client()
        client.send(rpc.call_message(rpc.new_xid(), nlm.PROG, 4, UNLOCK, nlm.ARGS[UNLOCK](4, b"cookie01", new.lock())))
        assert client.is_silent(), "an UNLOCK of a lock that is held here under another address was answered"
        story.daemon.wait_for_log("client comes from another address now")
        assert patiently(new, UNLOCK)[0] == "GRANTED"
        assert other.stat(LOCK) == "GRANTED"


@tap.test
def the_path_to_the_old_address_is_gone():
    """TRK-02b: given no route to the old address, as when the network of one of two paths is down, the client is answered soon."""
    with Story() as story:
        old = story.host(OLD)
        assert old.stat(LOCK, state=3) == "GRANTED"
        old.vanish()
        netns.run("ip", "route", "add", "unreachable", OLD, "table", "local")
        try:
            stat, seconds = patiently(story.host(NEW), LOCK, state=3)
            assert stat == "GRANTED" and seconds < 10, (stat, seconds)
        finally:
            netns.run("ip", "route", "del", "unreachable", OLD, "table", "local")


@tap.test
def two_hosts_with_one_name():
    """TRK-02b: while the first answers, they are two clients, and the log says so."""
    with Story() as story:
        one, two = story.host(OLD), story.host(NEW)
        one.monitor = two.monitor = 3
        assert one.stat(LOCK, state=3) == "GRANTED"
        assert patiently(two, LOCK, state=3)[0] == "DENIED"
        assert len(one.received(SM_STAT, NSM)) == 1
        line = story.daemon.wait_for_log("two hosts use the name of a client")
        assert f"address={NEW}" in line and "client=web" in line, line
        assert one.stat(UNLOCK) == "GRANTED"
        assert two.stat(LOCK, state=3) == "GRANTED"
        assert one.stat(LOCK, state=3) == "DENIED"


@tap.test
def strangers():
    """TRK-02c: another name, and another network, are other clients, at once."""
    with Story() as story:
        one, two, three = story.host(OLD), story.host(NEW, "mail"), story.host("10.2.2.1")
        assert one.stat(LOCK, state=3) == "GRANTED"
        assert two.stat(LOCK, state=3) == "DENIED" and three.stat(LOCK, state=3) == "DENIED"
        assert not one.received(SM_STAT, NSM)


@tap.test
def several_paths():
    """TRK-02d: one client by two addresses at once, in turn; nobody is asked."""
    with Story("client web.at_once=yes") as story:
        one, two = story.host(OLD), story.host(NEW)
        for _ in range(3):
            assert one.stat(LOCK, state=3) == "GRANTED" and two.stat(LOCK, state=3) == "GRANTED"
        assert two.stat(UNLOCK) == "GRANTED"
        assert one.stat(TEST) == "GRANTED"
        assert not one.received(SM_STAT, NSM) and not two.received(SM_STAT, NSM)
        assert len(story.clients()) == 1


def waits_by_one_path(story, transport="tcp", msg=False):
    """The client's two paths, another host, and the callback to the first path, which is not answered."""
    one, two, other = story.host(OLD), story.host(NEW), story.host(OTHER, "other")
    assert other.stat(LOCK) == "GRANTED"
    one.answers = SILENCE
    assert one.stat(LOCK, block=True, state=3, transport=transport, msg=msg) == "BLOCKED"
    assert other.stat(UNLOCK) == "GRANTED"
    return one, two, other, one.wait_for(GRANTED + nlm.MSG if msg else GRANTED)


@tap.test
def an_unlock_by_another_path_than_the_callback():
    """TRK-02d: the UNLOCK waits for the callback on the first path. If it did not, the client could wait for the range again, and take
    the late callback for its second grant, while another owner has the lock."""
    with Story("client web.at_once=yes") as story:
        one, two, other, _ = waits_by_one_path(story)
        client, xid = two.client(), rpc.new_xid()
        client.send(rpc.call_message(xid, nlm.PROG, 4, UNLOCK, nlm.ARGS[UNLOCK](4, b"cookie01", two.lock())))
        assert client.is_silent(), "the UNLOCK was answered while a callback is in flight"
        assert other.stat(LOCK) == "GRANTED", "the range is free at once"
        assert nlm.decode_result(UNLOCK, 4, client.reply_to(xid).results).stat == "GRANTED"


@tap.test
def an_answer_by_another_path_than_the_callback():
    """TRK-02d, SEC-07c: GRANTED_RES from any address of the client is the answer to GRANTED_MSG, whichever it used last; from another
    host it is none."""
    for path in 0, 1:
        with Story("client web.at_once=yes") as story:
            *paths, other, call = waits_by_one_path(story, "udp", msg=True)
            assert paths[1].stat(TEST, transport="udp") == "GRANTED", "it used the second path last"
            cookie = nlm.decode_test_args(4, call.args)[0]
            other.send_granted_res(cookie, "DENIED")
            paths[path].send_granted_res(cookie, "GRANTED")
            time.sleep(4)  # longer than three attempts to call
            assert other.stat(LOCK) == "DENIED", "the lock that the client has taken was given to another owner"
            assert sum(len(host.received(GRANTED + nlm.MSG)) for host in paths) == 1


@tap.test
def a_copy_by_another_path():
    """TRK-02d, RPC-01b: a copy of an UNLOCK that waited on a broken path does not take the lock that the client got since."""
    with Story("client web.at_once=yes") as story:
        one, two, other = story.host(OLD), story.host(NEW), story.host(OTHER, "other")
        assert two.stat(LOCK, state=3) == "GRANTED"
        xid = rpc.new_xid()
        unlock = rpc.call_message(xid, nlm.PROG, 4, UNLOCK, nlm.ARGS[UNLOCK](4, b"cookie01", two.lock()))
        two.client().send(unlock)
        first = two.client().reply_to(xid)
        assert two.stat(LOCK, state=3) == "GRANTED"
        one.client().send(unlock)
        assert one.client().reply_to(xid) == first
        assert other.stat(LOCK) == "DENIED"


@tap.test
def killed_after_the_move():
    """TRK-02e: the notice goes to the new address, and the client reclaims from there at once."""
    with Story() as story:
        old, other = story.host(OLD), story.host(OTHER, "other")
        assert old.stat(LOCK, state=3) == "GRANTED"
        old.vanish()
        new = story.host(NEW)
        assert patiently(new, LOCK, state=3)[0] == "GRANTED"
        story.daemon.kill()
        new.close_clients()
        story.start()
        new.wait_for(SM_NOTIFY, prog=NSM)
        assert new.stat(LOCK, reclaim=True) == "GRANTED"
        assert patiently(other, LOCK)[0] == "DENIED"
        assert [one["addresses"] for one in story.clients() if one["name"] == "web"] == [[NEW, OLD]]


@tap.test
def a_notice_from_a_new_address():
    """TRK-02f: a client that was booted and got another address: its notice counts where its monitor confirms it."""
    with Story() as story:
        old, other = story.host(OLD), story.host(OTHER, "other")
        assert old.stat(LOCK, state=3) == "GRANTED"
        new = story.host(NEW)
        old.monitor, new.monitor = 3, 7
        new.sm_notify(5)  # not the state that it names itself: forged
        assert other.stat(LOCK) == "DENIED"
        new.sm_notify(7)
        assert other.stat(LOCK) == "GRANTED"


if __name__ == "__main__":
    netns.enter()
    add_addresses()
    tap.main()
