#!/usr/bin/env python3
"""Attacks with the status monitor's protocol: to free another client's locks, to aim our packets, to fill our
table, to end the registrations of others (SEC-01, SEC-04).

Every host of these tests is an address of this one, so a packet with another host's source address is sent by
binding to it.
"""
import os
import re
import subprocess
import sys
import time

from holdfast_test import netns, nsm, rpc, rpcbind, tap
from holdfast_test.daemon import wait_until
from holdfast_test.host import Host, answer_void, never
from holdfast_test.store import Server
from holdfast_test.xdr import Encoder

US = "server.example"
SERVER, CLIENT, OTHER = "192.0.2.1", "192.0.2.2", "192.0.2.3"
NOBODY = 65534
FREE_ALL = 23
FAST = ("notify.timeout=1",)
KERNEL = {"my_name": "localhost", "prog": nsm.NLM, "vers": 3, "proc": nsm.NLM_SM_NOTIFY}


def as_nobody(script):
    """Runs Python as an unprivileged user of this host; what it printed."""
    setup = f"import os, time; from holdfast_test import nsm, rpc; os.setgid({NOBODY}); os.setuid({NOBODY})\n"
    done = subprocess.run([sys.executable, "-c", setup + script], stdout=subprocess.PIPE, timeout=60, check=True)
    return done.stdout.decode().split()


def is_held(fh=b"file"):
    with nsm.connect(SERVER, OTHER) as other:
        return other.test("other.example", fh) == nsm.DENIED


def monitor_says(state):
    """A way to answer: SM_STAT with this state number, everything else with void."""
    def answer(call):
        if (call.prog, call.proc) == (nsm.PROG, nsm.STAT):
            return rpc.success_message(call.xid, Encoder().int(nsm.STAT_SUCC, state).bytes())
        return answer_void(call)

    return answer


def is_question(call):
    return (call.prog, call.proc) == (nsm.PROG, nsm.STAT)


def forge(state, name="victim.example", source=CLIENT, transport="udp", answered=True):
    """Repeated until it is answered, as sm-notify does: where our question has used up what the notice pays for, the first is not."""
    message = rpc.call_message(rpc.new_xid(), nsm.PROG, 1, nsm.NOTIFY, nsm.stat_chge(name, state))
    with nsm.connect(SERVER, source, transport) as forger:
        for _ in range(10 if answered else 3):
            forger.client.send(message)
            if not forger.client.is_silent(1.5):
                return
    assert not answered, "no answer"


def free_all(source, state, transport="udp"):
    with rpc.TRANSPORTS[transport](SERVER, nsm.PORT, source=source if isinstance(source, tuple) else (source, 0)) as client:
        args = Encoder().string("victim.example").int(state).bytes()
        assert client.call(nsm.NLM, 4, FREE_ALL, args).status == rpc.SUCCESS


class Victim:
    """A client that holds a lock, with a status monitor that answers as told."""

    def __init__(self, answer, state=3, **host):
        self.host = Host(CLIENT, answer=answer, **host)
        self.state = state

    def __enter__(self):
        self.host.__enter__()
        with nsm.connect(SERVER, CLIENT) as client:
            assert client.lock("victim.example", state=self.state) == nsm.GRANTED
        return self

    def __exit__(self, *_):
        self.host.__exit__()

    def questions(self):
        return [call for call in self.host.calls_now() if is_question(call)]


# ---- a user of this host ----

@tap.test
def a_local_user_has_our_own_callback_free_a_lock():
    """SEC-01: SM_MON about "victim.anything", which resolves to this host, with our own procedure 16 as callback,
    then SM_NOTIFY from loopback: the lock of "victim" elsewhere stays."""
    with rpcbind.System(), netns.names("127.0.0.1 victim.anything"), \
            Server("rpcbind.mode=system", *FAST) as server:
        with nsm.connect(SERVER, CLIENT) as victim:
            assert victim.lock("victim", state=3) == nsm.GRANTED
        answers = as_nobody("""
with nsm.connect(transport="udp") as m:
    print(m.mon("victim.anything", prog=nsm.NLM, vers=4, proc=16).ok)
    print(m.mon("127.0.0.1", prog=nsm.NLM, vers=4, proc=16).ok)
    time.sleep(0.5)
    for name in ("victim.anything", "victim", "127.0.0.1"):
        m.notify(name, 7)
""")
        assert answers == ["False", "False"], answers
        time.sleep(2)
        assert is_held(), "the lock of another host was released"
        assert "reserved port" in server.daemon.wait_for_log("refused: SM_MON")


@tap.test
def roots_registration_never_calls_ourselves():
    """SEC-01: the same registration by root, where rpcbind names this daemon for 100021: no callback arrives."""
    with rpcbind.System(), netns.names("127.0.0.1 victim.anything"), \
            Server("rpcbind.mode=system", "log.level=debug", *FAST) as server:
        with nsm.connect(SERVER, CLIENT) as victim:
            assert victim.lock("victim", state=3) == nsm.GRANTED
        with nsm.connect(source=nsm.reserved()) as root:
            assert root.mon("127.0.0.1", **KERNEL).ok
            assert root.mon("victim.anything", **KERNEL).ok
        with nsm.connect(source=nsm.reserved(), transport="udp") as root:
            root.notify("anything", 7)
        assert "not permitted" in server.daemon.wait_for_log("notice failed")
        assert is_held()


@tap.test
def procedure_16_for_another_host_with_the_same_short_name():
    """SEC-01: "victim.elsewhere" restarted, says a status monitor here: "victim" and "victim.example" did not."""
    with Server("notify.verify=no"):
        with nsm.connect(SERVER, CLIENT) as victim:
            assert victim.lock("victim", b"one", state=3) == nsm.GRANTED
            assert victim.lock("victim.example", b"two", state=3) == nsm.GRANTED
        with rpc.Udp("127.0.0.1", nsm.PORT, source=nsm.reserved()) as root:
            def restarted(name):
                args = Encoder().string(name).int(7).fixed(bytes(16)).bytes()
                assert root.call(nsm.NLM, 4, nsm.NLM_SM_NOTIFY, args).status == rpc.SUCCESS

            restarted("victim.elsewhere")
            assert is_held(b"one") and is_held(b"two")
            restarted("victim")
            assert not is_held(b"one") and is_held(b"two")
            restarted("VICTIM.example")
            assert not is_held(b"two")


@tap.test
def a_local_user_ends_the_kernels_registrations():
    """SEC-01: SM_UNMON and SM_UNMON_ALL with the kernel's own my_id, from an ordinary port: an error, and the
    kernel is called back all the same."""
    with Server(*FAST) as server, Host("127.0.0.1") as kernel:
        with nsm.connect(source=nsm.reserved()) as root:
            assert root.mon(OTHER, **KERNEL).ok
        answers = as_nobody(f"""
me = {KERNEL!r}
for transport in ("udp", "tcp"):
    with nsm.connect(transport=transport) as m:
        for proc, args in ((nsm.UNMON, nsm.mon_id({OTHER!r}, **me)), (nsm.UNMON_ALL, nsm.my_id(**me))):
            print(m.client.call(nsm.PROG, 1, proc, args).status == rpc.SUCCESS)
        print(m.mon({OTHER!r}, b"x" * 16, **me).ok)
""")
        assert answers == ["False"] * 6, answers
        with nsm.connect(SERVER, OTHER, "udp") as restarted:
            restarted.notify("other.example", 5)
        status = nsm.Status.decode(kernel.wait_for(lambda c: c.prog == nsm.NLM).decode())
        assert status == nsm.Status(OTHER.encode(), 5, bytes(16)), "neither ended nor changed"
        server.daemon.wait_for_log("refused: SM_UNMON")


# ---- another host: our packets, our table ----

@tap.test
def another_host_fills_the_table_and_aims_our_notices():
    """SEC-01: 9,999 registrations about a third host, from an ordinary port: each is STAT_FAIL, the kernel here can
    register, and a restart sends the third host nothing."""
    count = 9999
    with Server(*FAST, "limits.clients=10000") as server, Host(OTHER) as third, \
            rpc.Tcp(SERVER, nsm.PORT, source=(CLIENT, 0)) as attacker:
        for begin in range(0, count, 99):
            for number in range(begin, begin + 99):
                attacker.send(rpc.call_message(number, nsm.PROG, 1, nsm.MON, nsm.mon(OTHER, proc=number)))
            assert all(attacker.reply().decode().int() == nsm.STAT_FAIL for _ in range(99))
        with nsm.connect(SERVER, CLIENT) as monitor:
            for name in ("other.example", "192.0.2.9", "127.0.0.1", "server2.example"):
                assert not monitor.mon(name).ok, name
            for name in (US, "SERVER", SERVER):
                assert monitor.mon(name).ok, name
        with nsm.connect(source=nsm.reserved()) as root:
            assert root.mon("192.0.2.9", **KERNEL).ok
        assert len(re.findall("refused: SM_MON", server.daemon.log())) < 50
        with Host(CLIENT):
            server.restart().wait_for_log("clients told of our restart")
        assert not third.calls_now() and not third.lookups, "a packet to the third host"


@tap.test
def a_spoofed_registration_and_a_notice_make_us_flood_a_host():
    """SEC-01: 1,000 SM_MONs with the victim's address, about the attacker's own, then one SM_NOTIFY: the victim gets
    no packet, the log few lines."""
    with Server(*FAST) as server, Host(CLIENT) as victim:
        with rpc.Udp(SERVER, nsm.PORT, source=(CLIENT, 0)) as spoofed:
            for number in range(1000):
                spoofed.send(rpc.call_message(number, nsm.PROG, 1, nsm.MON, nsm.mon(OTHER, proc=number)))
                spoofed.receive()
        with nsm.connect(SERVER, OTHER, "udp") as attacker:
            attacker.notify("attacker", 5)
        time.sleep(1.5)
        assert not victim.calls_now() and not victim.lookups
        assert len(server.daemon.log().splitlines()) < 60


# ---- forged crash notices ----

@tap.test
def a_forged_notice_from_a_clients_address():
    """SEC-04: one UDP packet in the name and with the address of a client whose monitor answers: contradicted."""
    with Server() as server, Victim(monitor_says(3)) as victim:
        began = time.monotonic()
        forge(5)
        assert time.monotonic() - began < 1, "the answer waits for the monitor, no longer"
        assert is_held(), "a forged notice released a lock"
        line = server.daemon.wait_for_log("crash notice ignored")
        assert "client=victim.example" in line and "state=5" in line and "monitor_state=3" in line, line
        assert victim.questions()[0].source[0] == SERVER, "asked from the address that the client knows"
        forge(7, name=CLIENT)
        forge(9, name="victim")
        assert is_held()


@tap.test
def a_user_of_the_clients_host_sends_the_notice():
    """SEC-04: over TCP the address is genuine, but from an ordinary port it may be any user's: verified as well."""
    with Server(), Victim(monitor_says(3)) as victim:
        forge(5, transport="tcp")
        assert is_held() and victim.questions()


@tap.test
def a_forged_free_all():
    """SEC-04, NLM-05: FREE_ALL by UDP with any state, also the client's own, while its monitor says that it has not
    restarted since it locked: ignored. From root of that host, by TCP: obeyed, without a question."""
    with Server() as server, Victim(monitor_says(3)) as victim:
        for times, state in enumerate((0, 3, 5), 1):
            free_all(CLIENT, state)
            assert is_held(), f"state {state}"
            server.daemon.wait_for_log("crash notice ignored", times=times)
        asked = len(victim.questions())
        free_all(nsm.reserved(CLIENT), 3, "tcp")
        assert not is_held() and len(victim.questions()) == asked


@tap.test
def a_monitor_here_that_believed_a_forged_notice():
    """SEC-04: procedure 16 from a status monitor of this host is verified with the client, too."""
    with Server(), Victim(monitor_says(3)) as victim, \
            rpc.Udp("127.0.0.1", nsm.PORT, source=nsm.reserved()) as monitor:
        args = Encoder().string("victim.example").int(5).fixed(bytes(16)).bytes()
        assert monitor.call(nsm.NLM, 4, nsm.NLM_SM_NOTIFY, args).status == rpc.SUCCESS
        assert is_held() and victim.questions()


@tap.test
def a_flood_of_forged_notices():
    """SEC-04: 300 forged notices with different claims make at most one question a second, and do not keep out the
    true one, which is repeated as sm-notify does."""
    with Server(), Victim(monitor_says(3)) as victim:
        with rpc.Udp(SERVER, nsm.PORT, source=(CLIENT, 0)) as forger:
            began = time.monotonic()
            for number in range(300):
                forger.send(rpc.call_message(number, nsm.PROG, 1, nsm.NOTIFY,
                                             nsm.stat_chge("victim.example", 101 + 2 * number)))
                time.sleep(0.01)
            took = time.monotonic() - began
            assert len(victim.questions()) <= took + 2, f"{len(victim.questions())} questions in {took:.1f} s"
            assert is_held()
            victim.host.answer = monitor_says(5)  # now it restarts, and the attack goes on
            for number in range(300, 2000):
                forger.send(rpc.call_message(number, nsm.PROG, 1, nsm.NOTIFY,
                                             nsm.stat_chge("victim.example", 101 + 2 * number)))
                if number % 20 == 0:
                    forger.send(rpc.call_message(1 << 20, nsm.PROG, 1, nsm.NOTIFY,
                                                 nsm.stat_chge("victim.example", 5)))
                time.sleep(0.005)
                if not number % 100 and not is_held():
                    break
        wait_until(lambda: not is_held(), "the true notice is believed")


@tap.test
def a_flood_that_waits_for_one_monitor():
    """SEC-02: given a monitor that does not answer, and thousands of forged notices that all wait for it: they have the share of one
    account of what may wait, and the notice of another host is answered when its own monitor has spoken."""
    def deaf(call):
        return never(call) if is_question(call) else answer_void(call)

    with Server(), Victim(deaf), Host(OTHER, answer=monitor_says(5)):
        with nsm.connect(SERVER, OTHER) as client:
            assert client.lock("other.example", fh=b"other", svid=7, state=3) == nsm.GRANTED
        with rpc.Udp(SERVER, nsm.PORT, source=(CLIENT, 0)) as forger, nsm.connect(SERVER, OTHER, "udp") as other:
            for number in range(4500):
                forger.send(rpc.call_message(number, nsm.PROG, 1, nsm.NOTIFY, nsm.stat_chge("victim.example", 5)))
            time.sleep(0.3)
            other.client.send(rpc.call_message(rpc.new_xid(), nsm.PROG, 1, nsm.NOTIFY, nsm.stat_chge("other.example", 5)))
            assert not other.client.is_silent(1), "left unanswered"
        assert not is_held(b"other")


@tap.test
def what_a_true_notice_does():
    """SEC-04, NSM-05: the monitor names the claimed state: released at once, and what the client locks while it is
    verified stays."""
    with Server() as server, Victim(monitor_says(5)) as victim:
        began = time.monotonic()
        forge(5)
        took = time.monotonic() - began
        assert not is_held()
        tap.note(f"a true notice was verified and answered in {took * 1000:.1f} ms")
        assert took < 1
        victim.host.answer = never
        with nsm.connect(SERVER, CLIENT) as client, nsm.connect(SERVER, CLIENT, "udp") as booting:
            assert client.lock("victim.example", b"old", state=5) == nsm.GRANTED

            def asked_about_the_second_notice():
                # A client is asked once a second at most; until then its notice is left unanswered, and repeated.
                booting.client.send(rpc.call_message(1, nsm.PROG, 1, nsm.NOTIFY, nsm.stat_chge("victim.example", 7)))
                return len(victim.questions()) == 2

            wait_until(asked_about_the_second_notice, "the monitor is asked about the second notice")
            assert client.lock("victim.example", b"new") == nsm.GRANTED
            booting.client.receive()
        assert not is_held(b"old") and is_held(b"new")
        assert server.daemon.log().count("client has crashed") == 2


@tap.test
def a_forged_notice_behind_a_callback_that_hangs():
    """SEC-04: a forged LOCK by UDP in the client's name is granted, and its callback, to a lock manager that hears
    nothing by UDP, hangs. A forged notice now must not be believed because our question waits behind the callback."""
    def deaf_by_udp(call):
        return None if call.transport == "udp" else monitor_says(3)(call)

    with Server("grace.seconds=0"), Victim(deaf_by_udp) as victim, nsm.connect(SERVER, OTHER) as attacker, \
            nsm.connect(SERVER, CLIENT, "udp") as forger:
        assert attacker.lock("other.example", b"bait") == nsm.GRANTED
        assert forger.lock("victim.example", b"bait", block=True, state=3) == nsm.BLOCKED
        attacker.client.send(rpc.call_message(77, nsm.NLM, 4, 4, Encoder().opaque(b"c").raw(
            nsm.nlm_lock("other.example", b"bait", 1)).bytes()))
        victim.host.wait_for(lambda call: call.prog == nsm.NLM and call.transport == "udp")
        forge(5, answered=False)  # it is about two clients, by TCP and by UDP, and both are asked about each time
        assert is_held(), "a forged notice released a lock"
        assert victim.questions(), "the monitor was not asked"


@tap.test
def a_client_without_a_monitor_is_believed():
    """SEC-04: no rpcbind, no monitor at it, a monitor that is silent or answers nonsense: the notice counts, at once
    where the question is refused, else after two seconds."""
    cases = {"no rpcbind": (answer_void, {"rpcbind": ()}, 2),
             "no monitor": (answer_void, {"programs": (nsm.NLM,)}, 1),
             "nonsense": (answer_void, {}, 1),
             "state 0": (monitor_says(0), {}, 1),
             "silent": (never, {}, 4)}
    for name, (answer, offers, most) in cases.items():
        with Server(), Victim(answer, **offers):
            began = time.monotonic()
            forge(5)
            took = time.monotonic() - began  # with what the repeat of the notice takes
            assert not is_held(), name
            assert took < most, f"{name}: {took:.1f} s"
            tap.note(f"{name}: believed after {took * 1000:.0f} ms")


@tap.test
def what_is_not_verified():
    """A notice over TCP from a reserved port comes from root of the client's host; and notify.verify=no trusts all."""
    with Server(), Victim(monitor_says(3)) as victim:
        forge(5, source=nsm.reserved(CLIENT), transport="tcp")
        assert not is_held() and not victim.questions()
    with Server("notify.verify=no"), Victim(monitor_says(3)) as victim:
        forge(5)
        assert not is_held() and not victim.questions()


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    netns.enter()
    netns.run("ip", "address", "add", "192.0.2.9/32", "dev", "lo")
    tap.main()
