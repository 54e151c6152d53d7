#!/usr/bin/env python3
"""What an operator must see without reading the log (ADM-06, ADM-07): locks lost after a restart (GRC-03, NOT-03), limits that refuse
requests (NLM-09), and an rpcbind that does not lead to us (RPC-03): in holdfastctl, REST, metrics and /readyz."""
import os
import re
import signal
import subprocess
import time

from holdfast_test import netns, rpcbind, tap
from holdfast_test.daemon import Daemon, wait_until
from holdfast_test.store import Server
from world import Locker, ask, expect_problem, get

NLM, NSM = 100021, 100024
FAST = ("notify.timeout=1", "notify.attempts=1", "notify.retry_for=0")


def ctl(*arguments):
    done = subprocess.run([os.environ["HOLDFASTCTL"], *arguments], stdin=subprocess.DEVNULL, timeout=30,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def metric(name, **labels):
    """The value of one sample."""
    text = ask("GET", "/metrics").body.decode()
    wanted = "{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}" if labels else ""
    return float(re.search(rf"^{re.escape(name + wanted)} (\S+)$", text, re.M)[1])


def hold(n, name="alpha.example", address="192.0.2.2"):
    with Locker(name, address) as client:
        for i in range(n):
            assert client.lock(b"file %d of %s" % (i, name.encode())) == "granted"


# ---- rpcbind ----

@tap.test
def without_an_rpcbind_and_without_root_it_is_not_ready():
    """ADM-10: given a user that may not serve port 111, and no rpcbind, clients do not find us: /readyz, the status and the
    metric say so, not only the log."""
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
    with Daemon("rpcbind.mode=auto", "server.user=", "admin.socket=", under=as_nobody) as daemon:
        assert "clients will not find us" in daemon.log()
        assert "clients cannot find us" in expect_problem(ask("GET", "/readyz"), 503)
        seen = get("status")["rpcbind"]
        assert seen["up"] is False and seen["state"] == "missing", seen
        assert metric("holdfast_rpcbind_up") == 0


# ---- losses ----

def expect_loss(server, reason, locks, clients, client="alpha.example"):
    """Log, status, list and metric agree on the number."""
    wait_until(lambda: get("status")["losses"]["clients"] == clients, "the loss is in the status")
    assert get("status")["losses"] == {"clients": clients, "locks": locks}
    listed = get("losses")
    assert (listed["clients"], listed["locks"]) == (clients, locks)
    assert sum(row["locks"] for row in listed["losses"]) == locks and len(listed["losses"]) == clients
    row = next(row for row in listed["losses"] if row["client"] == client)
    assert row["reason"] == reason and row["address"] == "192.0.2.2" and row["time"], row
    assert metric("holdfast_locks_lost_total", reason=reason) == locks
    status, out, _ = ctl("status")
    assert status == 0 and f"{locks} locks of {clients} clients" in out, out
    status, out, _ = ctl("losses")
    assert status == 0 and client in out and "192.0.2.2" in out and "losses ack" in out, out


@tap.test
def locks_that_no_client_reclaims_are_reported_until_acknowledged():
    """GRC-03: given 20 locks of two clients that do not reclaim: named at warn, counted, shown, acknowledged."""
    with Server("notify.on_failure=keep", *FAST) as server:
        hold(15)
        hold(5, "beta.example", "192.0.2.3")
        server.kill()
        server.start("grace.seconds=1", "notify.on_failure=keep", *FAST)
        expect_loss(server, "unreclaimed", 20, 2)
        line = server.daemon.wait_for_log("did not reclaim its locks in time client=alpha.example")
        assert " warn " in line and "locks_lost=15" in line, line
        line = server.daemon.wait_for_log("grace period is over")
        assert " warn " in line and "released=20" in line, line
        status, out, _ = ctl("losses", "ack")
        assert status == 0 and "20 locks of 2 clients" in out, out
        assert "acknowledge losses" in server.daemon.wait_for_log("operator who=")
        assert get("losses") == {"clients": 0, "locks": 0, "losses": []}
        assert "LOST" not in ctl("status")[1] and "No lock was lost" in ctl("losses")[1]
        assert metric("holdfast_locks_lost_total", reason="unreclaimed") == 20, "a counter never goes back"


@tap.test
def a_client_given_up_as_crashed_is_reported():
    """NOT-03: given a client that cannot be notified: its name, address and number of locks, at warn."""
    with Server(*FAST) as server:
        hold(7)
        server.kill()
        server.start(*FAST)
        expect_loss(server, "unreachable", 7, 1)
        line = server.daemon.wait_for_log("client given up as crashed client=alpha.example")
        assert " warn " in line and "locks_lost=7" in line, line


@tap.test
def the_list_of_losses_is_bounded_and_the_numbers_are_exact():
    """Given 300 clients with a lock each: 256 are listed, the others counted."""
    with Server("notify.on_failure=keep", *FAST) as server:
        for i in range(300):
            hold(1, f"c{i}.example")
        server.kill()
        server.start("grace.seconds=1", "notify.on_failure=keep", *FAST)
        wait_until(lambda: get("status")["losses"] == {"clients": 300, "locks": 300}, "all are counted")
        assert len(get("losses")["losses"]) == 256
        assert "and 44 more clients" in ctl("losses")[1]


@tap.test
def a_loss_survives_a_restart_until_it_is_acknowledged():
    """Given a loss, and another restart: it is still reported, with new ones added; an acknowledgement lasts as well."""
    quick = ("grace.seconds=1", "notify.on_failure=keep", *FAST)

    def restart(how):
        how()
        server.start(*quick)
        server.daemon.wait_for_log("ready")

    with Server(*quick) as server:
        hold(4)
        restart(server.kill)
        wait_until(lambda: get("status")["losses"] == {"clients": 1, "locks": 4}, "lost")
        wait_until(lambda: os.path.exists(server.path + "/losses"), "the list is kept")
        restart(server.kill)
        assert get("status")["losses"] == {"clients": 1, "locks": 4}
        assert [row["client"] for row in get("losses")["losses"]] == ["alpha.example"]
        hold(2, "beta.example", "192.0.2.3")
        restart(server.kill)
        wait_until(lambda: get("status")["losses"] == {"clients": 2, "locks": 6}, "both are counted")
        assert [row["client"] for row in get("losses")["losses"]] == ["alpha.example", "beta.example"]
        assert ctl("losses", "ack")[0] == 0
        restart(server.stop)
        assert get("losses") == {"clients": 0, "locks": 0, "losses": []}
        for damaged in ("nonsense", "holdfast losses 1 clients 99999999999999999999 locks 1\n",
                        "holdfast losses 1 clients 0 locks 0\n1 0 -1 192.0.2.2 -\n"):
            with open(server.path + "/losses", "w") as file:
                file.write(damaged)
            restart(server.stop)
            server.daemon.wait_for_log("cannot read the list of losses")
            assert get("losses") == {"clients": 0, "locks": 0, "losses": []}, damaged


@tap.test
def nothing_lost_is_not_reported():
    """Given a client that reclaims all it had: no loss, no warning."""
    with Server("grace.seconds=30", *FAST) as server:
        hold(3)
        server.kill()
        server.start("grace.seconds=30", "notify.on_failure=keep", *FAST)
        with Locker("alpha.example", "192.0.2.2") as client:
            for i in range(3):
                assert client.lock(b"file %d of alpha.example" % i, reclaim=True) == "granted"
        line = server.daemon.wait_for_log("grace period is over")
        assert " info " in line and "released=0" in line, line
        assert get("status")["losses"] == {"clients": 0, "locks": 0} and "LOST" not in ctl("status")[1]


@tap.test
def no_grace_period_is_warned_of_at_the_start():
    """Given grace.seconds=0: the daemon says at once that a restart drops every lock."""
    with Daemon("grace.seconds=0") as daemon:
        line = daemon.wait_for_log("a restart drops every lock")
        assert " warn " in line and "grace.seconds=0" in line, line
    with Daemon() as daemon:
        assert "drops every lock" not in daemon.log()


@tap.test
def acknowledging_needs_the_right_to_make_changes():
    """SEC-10: over TCP without a token it is refused."""
    with Daemon():
        expect_problem(ask("DELETE", "/api/v1/losses", unix=False), 403)


# ---- limits ----

@tap.test
def a_limit_that_is_hit_names_the_limit_and_the_client():
    """NLM-09: given a client with too many locks: the log, status and metrics say which limit and which client."""
    with Daemon("limits.locks_per_client=2") as daemon:
        with Locker("greedy.example", "192.0.2.2") as client:
            for i, answer in enumerate(["granted"] * 2 + ["denied_nolocks"] * 50):
                assert client.lock(b"file %d" % i) == answer
        line = daemon.wait_for_log("a limit is reached")
        assert " warn " in line and "client=greedy.example" in line and "limit=locks_per_client" in line, line
        hit, = get("status")["limits"]
        assert (hit["limit"], hit["hits"], hit["client"], hit["address"]) == \
            ("locks_per_client", 50, "greedy.example", "192.0.2.2"), hit
        assert metric("nlm_limit_hits_total", limit="locks_per_client") == 50
        out = ctl("status")[1]
        assert "locks_per_client: 50 refused, last greedy.example (192.0.2.2)" in out, out
        assert ask("GET", "/readyz").status == 200, "other clients are served"


# ---- rpcbind ----

def rpcinfo_delete(prog, vers):
    subprocess.run(["rpcinfo", "-d", str(prog), str(vers)], check=True, timeout=30, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def expect_rpcbind(state, reason):
    """Status, metrics, /readyz and holdfastctl say so, without a SIGHUP."""
    wait_until(lambda: get("status")["rpcbind"]["state"] == state, f"rpcbind: {state}")
    told = get("status")["rpcbind"]
    assert not told["up"] and reason in told["reason"], told
    assert metric("holdfast_rpcbind_up") == 0
    answer = ask("GET", "/readyz")
    expect_problem(answer, 503)
    assert reason in answer.json["detail"], answer.body
    assert f"{state}: " in ctl("status")[1] and reason in ctl("status")[1]


def expect_registered():
    wait_until(lambda: get("status")["rpcbind"]["state"] == "registered", "registered again")
    assert get("status")["rpcbind"] == {"up": True, "state": "registered", "reason": None}
    assert metric("holdfast_rpcbind_up") == 1 and ask("GET", "/readyz").status == 200
    assert rpcbind.getport(NLM, 4, "tcp") == 4045


@tap.test
def a_lock_manager_that_takes_our_registration_is_seen_at_once():
    """RPC-03: as the kernel's lockd does at an NFSv3 mount on the server: said within seconds, with what to do; taken
    back within seconds of its end, without a signal."""
    with rpcbind.System(), Daemon("rpcbind.mode=system") as daemon:
        expect_registered()
        with rpcbind.Service(NLM, (1, 3, 4)) as lockd:
            for vers in (1, 3, 4):
                rpcinfo_delete(NLM, vers)
            lockd.register()
            began = time.monotonic()
            expect_rpcbind("taken", "nolock")
            tap.note(f"seen after {time.monotonic() - began:.1f} s")
            assert "NFSv3" in daemon.wait_for_log("another process has registered our program")
            assert rpcbind.getport(NLM, 4, "tcp") == lockd.port, "a registration of a living process is not replaced"
            assert rpcbind.getport(NSM, 1, "tcp") == 4045
            for vers in (1, 3, 4):  # lockd unregisters itself when the last mount goes
                rpcinfo_delete(NLM, vers)
        expect_registered()


@tap.test
def an_rpcbind_that_is_gone_and_comes_back_is_seen():
    """Given an rpcbind that stops: not ready, and why; when it is back, we are registered again, and that is counted."""
    with rpcbind.System() as system, Daemon("rpcbind.mode=system"):
        system.stop()
        expect_rpcbind("silent", "systemctl start rpcbind")
        system.start()
        expect_registered()
        assert metric("holdfast_rpcbind_registrations_lost_total") == 1


@tap.test
def an_rpcbind_that_hangs_is_seen():
    """Given an rpcbind that takes connections and answers nothing, as when it is overloaded: not ready."""
    with rpcbind.System() as system, Daemon("rpcbind.mode=system"):
        system.process.send_signal(signal.SIGSTOP)
        try:
            expect_rpcbind("silent", "does not answer")
        finally:
            system.process.send_signal(signal.SIGCONT)
        expect_registered()


@tap.test
def without_the_systems_rpcbind_the_status_says_how_clients_find_us():
    """Embedded, or none at all by the operator's choice: both are well."""
    for mode in ("embedded", "none"):
        with Daemon(f"rpcbind.mode={mode}"):
            assert get("status")["rpcbind"] == {"up": True, "state": mode, "reason": None}
            assert ask("GET", "/readyz").status == 200


if __name__ == "__main__":
    netns.enter()
    tap.main()
