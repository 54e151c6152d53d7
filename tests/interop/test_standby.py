#!/usr/bin/env python3
"""A service with standbys (SPEC HA-01 to HA-08, HA-11): the owner is killed, paused, moved, cut off; its standby takes
over, nothing granted is lost, and the state number grows."""
import json
import os
import re
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from holdfast_test import daemon, netns, nlm, nsm, rpcbind, tap
from holdfast_test.cluster import Cluster, now_ms
from holdfast_test.daemon import WAIT_S, wait_until
from holdfast_test.nlm import LOCK, NM_LOCK, SHARE, TEST, UNLOCK, UNSHARE, Lock

ROOT = Path(__file__).parents[2]
ROUNDS = 5
PLAIN = ("cluster.require_sync=no", "notify.timeout=1", "notify.attempts=1", "notify.on_failure=keep")


def lock(number, **more):
    return Lock(caller=b"client", fh=b"file %d" % number, oh=b"owner", **more)


def lock_until_granted(node, wanted):
    wait_until(lambda: node.nlm(LOCK, wanted, timeout=1) == "GRANTED", f"{wanted} is granted")


def first_answer(node):
    """Waits until the node answers a TEST, whatever it says; the moment."""
    end = time.monotonic() + WAIT_S
    while node.nlm(TEST, lock(1), timeout=0.02) is None:
        assert time.monotonic() < end, f"{node.name} does not answer\n{node.daemon.log()}"
    return now_ms()


def expect_held(node, numbers):
    """Another owner is denied each of these locks."""
    for number in numbers:
        other = lock(number).but(oh=b"other", caller=b"stranger")
        wait_until(lambda: node.nlm(TEST, other, timeout=1) in ("DENIED", "DENIED_GRACE_PERIOD"), f"lock {number} held")


def figures(name, times):
    tap.note(f"{name}: {len(times)} takeovers, median {statistics.median(times):.0f} ms, "
             f"maximum {max(times):.0f} ms from the fault to the first answer")


@tap.test
def one_node_serves_and_the_other_waits():
    """HA-01, HA-11: given two nodes, then one is active and the other a standby, and each says so; the standby answers
    no client."""
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        nodes = [cluster.node(name, database.dsn) for name in ("left", "right")]
        owner = cluster.wait_for_owner()
        standby = next(node for node in nodes if node is not owner)
        assert standby.role() == "standby"
        assert owner.ask("GET", "/readyz") == (200, "ready\n")
        status, body = standby.ask("GET", "/readyz")
        assert status == 503 and "standby" in body, body
        lock_until_granted(owner, lock(1))
        assert standby.nlm(LOCK, lock(2)) is None
        wait_until(lambda: {n["name"] for n in owner.cluster()["nodes"]} == {"left", "right"}, "both nodes are seen")
        assert standby.cluster()["owner"] == owner.name
        assert standby.move("move")[0] == 409
        status, body = standby.ask("GET", "/metrics")
        assert "holdfast_cluster_active 0\n" in body and "holdfast_cluster_active 1\n" in owner.ask("GET", "/metrics")[1]
        known = set(re.findall(r"^# TYPE (holdfast_cluster_\w+)", body, re.M))
        told = set(re.findall(r"`(holdfast_cluster_\w+)", (ROOT / "docs/reference/METRICS.md").read_text()))
        assert told == known, told ^ known
        schemas = json.loads(owner.ask("GET", "/api/v1/openapi.json")[1])["components"]["schemas"]
        shown = owner.cluster()
        assert set(schemas["Cluster"]["required"]) == set(schemas["Cluster"]["properties"]) == set(shown)
        assert set(schemas["Cluster"]["properties"]["nodes"]["items"]["properties"]) == set(shown["nodes"][0])
        for node in nodes:
            node.stop()


@tap.test
def a_standby_shows_no_empty_table():
    """HA-11, ADM-10: given a node that stands by, then each list, grace and status says so and names the node that serves;
    holdfastctl exits with 6; and its time goes on."""
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        nodes = [cluster.node(name, database.dsn) for name in ("left", "right")]
        owner = cluster.wait_for_owner()
        standby = next(node for node in nodes if node is not owner)
        lock_until_granted(owner, lock(1))
        wait_until(lambda: standby.cluster()["owner"] == owner.name, "the standby has seen the owner")
        for path in ("locks", "waiters", "reservations", "clients", "clients/1", "grace", "losses", "notifications", "backup"):
            status, body = standby.ask("GET", "/api/v1/" + path)
            problem = json.loads(body)
            assert status == 503 and f'"{owner.name}" took it last' in problem["detail"], (path, body)
            assert (problem["role"], problem["node"], problem["active_node"]) == ("standby", standby.name, owner.name)
        seen = standby.status()
        assert (seen["role"], seen["node"], seen["active_node"], seen["state"]) == ("standby", standby.name, owner.name, None)
        wait_until(lambda: standby.status()["time"] > seen["time"], "its time goes on")
        served = owner.status()
        assert (served["role"], served["active_node"]) == ("active", owner.name) and served["state"] % 2 == 1
        for words in (["locks"], ["waiters"], ["clients"], ["grace"], ["grace", "--json"], ["losses"], ["status"]):
            status, told = standby.ctl(*words)
            assert status == 6 and owner.name in told, (words, status, told)
            status, told = owner.ctl(*words)
            assert status == 0, (words, status, told)
        for node in nodes:
            node.stop()


@tap.test
def a_standby_is_registered_with_rpcbind():
    """HA-10: given an rpcbind on the host of a standby, then it names both programs before that node serves them: clients
    look for them there right after a takeover."""
    with Cluster(*PLAIN) as cluster, rpcbind.System():
        database = cluster.postgres()
        owner = cluster.node("left", database.dsn)
        cluster.wait_for_owner([owner])
        standby = daemon.Daemon(*PLAIN, "cluster.mode=standby", "cluster.node=here", "store.backend=postgres",
                                f"store.dsn={database.dsn}", "rpcbind.mode=system").start(wait=False)
        standby.wait_for_log("standing by")
        for program, version in ((nlm.PROG, 4), (nlm.PROG, 1), (nsm.PROG, 1)):
            for transport in ("tcp", "udp"):
                assert rpcbind.getport(program, version, transport) == daemon.PORT, (program, version, transport)
        assert standby.stop() == 0
        standby.check_sanitizers()
        assert rpcbind.getport(nlm.PROG, 4, "tcp") == 0
        owner.stop()


@tap.test
def a_killed_owner_is_replaced():
    """HA-05, HA-06: given locks, when the owner is killed (kill -9), then the standby answers within seconds, has every
    lock, and tells a greater state number."""
    times = []
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        left, right = (cluster.node(name, database.dsn) for name in ("left", "right"))
        owner = cluster.wait_for_owner()
        held, state = [], 0
        for number in range(ROUNDS):
            lock_until_granted(owner, lock(number))
            held.append(number)
            told = owner.state()
            assert told % 2 == 1 and told > state, f"{told} after {state}"
            state = told
            other = right if owner is left else left
            fault = now_ms()
            owner.kill()
            times.append(first_answer(other) - fault)
            cluster.wait_for_owner([other])
            expect_held(other, held)
            owner.start()
            owner = other
        for node in (left, right):
            node.stop()
    figures("kill -9", times)


@tap.test
def while_it_loads_reclaims_are_left_unanswered():
    """HA-05c: given a new owner whose load is held up by a lock on the table, it tells a new LOCK to come again and leaves a reclaim
    unanswered, because a client would give up a lock whose reclaim is refused; when it has loaded, the reclaim is answered."""
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        left, right = (cluster.node(name, database.dsn) for name in ("left", "right"))
        owner = cluster.wait_for_owner()
        other = right if owner is left else left
        lock_until_granted(owner, lock(1))
        table = database.sql("SELECT quote_ident(schemaname) || '.' || relname FROM pg_stat_user_tables WHERE relname = 'nlm_locks'")
        with database.session(f"BEGIN; LOCK TABLE {table}; SELECT pg_sleep(60)"):
            wait_until(lambda: database.sql("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted") == "1",
                       "the table is locked")
            owner.kill()
            wait_until(lambda: other.nlm(LOCK, lock(2), timeout=1) == "DENIED_GRACE_PERIOD", "a LOCK is told to come again")
            assert other.role() == "loading", other.role()
            assert other.nlm(LOCK, lock(1), timeout=1, reclaim=True) is None
        wait_until(lambda: other.nlm(LOCK, lock(1), timeout=1, reclaim=True), "the reclaim is answered")


@tap.test
def a_paused_owner_never_answers_again():
    """HA-03, HA-04: given an owner stopped by SIGSTOP beyond its lease, when the standby has taken over and the old owner
    goes on (SIGCONT), then it answers nothing, writes nothing, and becomes a standby."""
    times = []
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        left, right = (cluster.node(name, database.dsn) for name in ("left", "right"))
        owner = cluster.wait_for_owner()
        for number in range(ROUNDS):
            lock_until_granted(owner, lock(number))
            other = right if owner is left else left
            fault = now_ms()
            owner.pause()
            times.append(first_answer(other) - fault)
            cluster.wait_for_owner([other])
            expect_held(other, range(number + 1))
            answers = []
            asking = threading.Thread(target=lambda who=owner, n=number: answers.extend(
                who.nlm(LOCK, lock(1000 + n), timeout=0.3) for _ in range(3)))
            asking.start()  # datagrams wait in its socket when it wakes
            time.sleep(0.05)
            owner.resume()
            asking.join()
            assert answers == [None] * 3, answers
            wait_until(lambda: owner.role() == "standby", "it is a standby again")
            owner = other
        for node in (left, right):
            node.stop()
    figures("SIGSTOP", times)


class Clock:
    """The clocks of a daemon, which can be set behind by as long as it stood still."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile()
        self.behind(0)
        self.env = {"LD_PRELOAD": os.environ["STOPPED_CLOCK"], "STOPPED_CLOCK_FILE": self.file.name}

    def behind(self, ns):
        self.file.seek(0)
        self.file.write(struct.pack("=q", ns))
        self.file.flush()


@tap.test
def a_machine_that_stood_still_with_its_clock_grants_nothing():
    """HA-03: given an owner whose virtual machine stands still together with its clocks until the standby has taken over,
    when it goes on with requests in its socket, then it grants none of them, recorded or not: only the database knows whose
    the service is."""
    requests = ((NM_LOCK, {}), (SHARE, {}), (LOCK, {}))
    for durable in ("yes", "no"):
        clock = Clock()
        with Cluster(*PLAIN, f"locks.durable={durable}", "grace.seconds=1") as cluster:
            database = cluster.postgres()
            left = cluster.node("left", database.dsn, env=clock.env)
            cluster.wait_for_owner([left])
            right = cluster.node("right", database.dsn)
            lock_until_granted(left, lock(1))  # its client is known
            left.pause()
            began = time.monotonic_ns()
            cluster.wait_for_owner([right])
            answers = []
            asking = [threading.Thread(target=lambda p=proc, n=number: answers.append(
                left.nlm(p, lock(2 + n), timeout=2))) for number, (proc, _) in enumerate(requests)]
            for thread in asking:
                thread.start()
            time.sleep(0.1)
            clock.behind(time.monotonic_ns() - began)
            left.resume()
            for thread in asking:
                thread.join()
            assert "GRANTED" not in answers, (durable, answers)
            wait_until(lambda: left.role() == "standby", "it is a standby again")
            lock_until_granted(right, lock(5))
            for node in (left, right):
                node.stop()


@tap.test
def a_backup_of_many_locks_does_not_cost_the_lease():
    """HA-02: given more locks in the database than can be read within a lease, when a backup is made on the owner, then
    its lease does not run out."""
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        owner = cluster.node("left", database.dsn)
        cluster.wait_for_owner([owner])
        lock_until_granted(owner, lock(1))
        database.sql("INSERT INTO nlm_locks SELECT n, 1, '', int8send(n), 'owner', 1, 0, 1, true, 0, 1 "
                     "FROM generate_series(1000000, 1300000) n")
        expiries = owner.cluster()["expiries"]
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(f"/proc/{owner.process.pid}/root/run/admin.sock")
            client.sendall(b"GET /api/v1/backup HTTP/1.0\r\nHost: localhost\r\n\r\n")
            size = 0
            while piece := client.recv(1 << 20):
                size += len(piece)
        assert size > 300000 * 40, size
        assert owner.role() == "active"
        assert owner.cluster()["expiries"] == expiries, owner.daemon.log()
        database.sql("DELETE FROM nlm_locks WHERE id >= 1000000")
        owner.stop()


@tap.test
def records_that_do_not_go_together_are_named_and_no_node_keeps_the_lease():
    """STO-02, HA-05: given two locks of one range in the database, when a node takes the service, then it names both, gives
    the lease up and waits; --verify-store names them, too; when the leftover is deleted, the service goes on with the other."""
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        node = cluster.node("left", database.dsn)
        cluster.wait_for_owner([node])
        lock_until_granted(node, lock(1))
        node.stop()
        database.sql("INSERT INTO nlm_locks SELECT id - 1, client_id, share, file_handle, 'another', 7, first_byte, last_byte, "
                     "exclusive, acquired_at_ms, server_epoch FROM nlm_locks")
        low, high = (int(database.sql(f"SELECT {which}(id) FROM nlm_locks")) for which in ("min", "max"))
        tools = subprocess.run([*node.inside, daemon.program(), "--set", "store.backend=postgres", "--set", f"store.dsn={database.dsn}",
                                "--set", "server.user=", "--verify-store"], capture_output=True, timeout=60, text=True)
        assert tools.returncode == 1 and str(low) in tools.stderr and str(high) in tools.stderr, tools
        node.start()
        node.daemon.wait_for_log("do not go together")
        log = node.daemon.log()
        assert str(low) in log and str(high) in log, log
        wait_until(lambda: node.role() == "held", "the node waits for an operator")
        assert database.sql("SELECT released FROM server_state") == "t"
        database.sql(f"DELETE FROM nlm_locks WHERE id = {low}")
        assert node.move("take")[0] == 202
        cluster.wait_for_owner([node])
        expect_held(node, [1])
        node.stop()


@tap.test
def an_owner_without_a_cable_is_replaced():
    """HA-04, HA-05: given an owner whose cable is pulled, then the standby takes over; with the cable back, the old owner
    is a standby."""
    times = []
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        left, right = (cluster.node(name, database.dsn) for name in ("left", "right"))
        owner = cluster.wait_for_owner()
        for number in range(3):
            lock_until_granted(owner, lock(number))
            other = right if owner is left else left
            fault = now_ms()
            owner.cut()
            times.append(first_answer(other) - fault)
            cluster.wait_for_owner([other])
            expect_held(other, range(number + 1))
            wait_until(lambda: owner.role() in ("suspended", "lost", "standby"), "the old owner is silent")
            owner.join()
            wait_until(lambda: owner.role() == "standby", "it is a standby again")
            owner = other
    figures("cut cable", times)


@tap.test
def a_service_moves_when_told():
    """HA-05, NSM-06: given two nodes, when an operator moves the service, then the other node has it within a moment, with
    all locks, and knows that it was stopped cleanly; and moves it back."""
    times = []
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        left, right = (cluster.node(name, database.dsn) for name in ("left", "right"))
        owner = cluster.wait_for_owner()
        assert not owner.status()["clean_start"]  # the first ever
        for number in range(ROUNDS):
            lock_until_granted(owner, lock(number))
            other = right if owner is left else left
            wait_until(lambda: owner.move("move")[0] == 202, "the other node is seen")
            fault = now_ms()
            times.append(first_answer(other) - fault)
            cluster.wait_for_owner([other])
            assert other.status()["clean_start"]
            expect_held(other, range(number + 1))
            wait_until(lambda: owner.role() == "standby", "the old owner is a standby")
            owner = other
        assert owner.move("release")[0] == 202
        other = right if owner is left else left
        cluster.wait_for_owner([other])
        assert other.status()["clean_start"]
        assert owner.role() == "held"
        other.kill()
        time.sleep(2)
        assert owner.role() == "held"  # an outside manager said so
        assert owner.move("take")[0] == 202
        cluster.wait_for_owner([owner])
        assert not owner.status()["clean_start"]  # the other node was killed
        owner.stop()
    figures("planned move", times)


@tap.test
def a_busy_owner_moves_too():
    """HA-05, HA-11: given an owner that commits without a pause, so that no renewal is sent by itself, then it still sees
    the standby, and the service moves under this load with no error for the client."""
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        left, right = (cluster.node(name, database.dsn) for name in ("left", "right"))
        owner = cluster.wait_for_owner()
        other = right if owner is left else left
        stop, stats, at = threading.Event(), set(), [owner]

        def work(number):
            while not stop.is_set():
                for proc in (LOCK, UNLOCK):
                    stats.add(at[0].nlm(proc, lock(number), timeout=0.2))

        workers = [threading.Thread(target=work, args=(100 + n,)) for n in range(4)]
        for worker in workers:
            worker.start()
        try:
            time.sleep(8)  # longer than what it saw when it was idle stays fresh
            seen = {node["name"]: node["seen_seconds_ago"] for node in owner.cluster()["nodes"]}
            assert seen[other.name] < 5, seen
            assert owner.move("move")[0] == 202
            at[0] = other
            cluster.wait_for_owner([other])
            wait_until(lambda: owner.role() == "standby", "the old owner is a standby")
        finally:
            stop.set()
            for worker in workers:
                worker.join()
        assert stats <= {"GRANTED", "DENIED_GRACE_PERIOD", None}, stats
        for node in (left, right):
            node.stop()


@tap.test
def a_database_that_stalls_moves_nothing():
    """HA-02: given a database that stands still for seconds, then no node answers meanwhile, and afterwards the same
    owner does, with the memory it had."""
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        nodes = [cluster.node(name, database.dsn) for name in ("left", "right")]
        owner = cluster.wait_for_owner()
        lock_until_granted(owner, lock(1))
        epoch = owner.cluster()["lease"]
        for _ in range(3):
            database.processes(signal.SIGSTOP)
            wait_until(lambda: owner.role() == "suspended", "the lease ran out")
            assert owner.nlm(TEST, lock(1), timeout=0.3) is None
            time.sleep(1.5)
            database.processes(signal.SIGCONT)
            cluster.wait_for_owner([owner])
            assert owner.cluster()["lease"] == epoch, "it was taken over"
            wait_until(lambda: owner.nlm(TEST, lock(1).but(oh=b"x", caller=b"y"), timeout=1) == "DENIED", "answers again")
        for node in nodes:
            node.stop()


@tap.test
def the_database_fails_over():
    """HA-08: given a synchronous replica, when the primary dies and the replica is promoted, then the owner goes on with
    everything it granted. A database without a synchronous replica is refused."""
    with Cluster("notify.timeout=1", "notify.attempts=1", "notify.on_failure=keep") as cluster:
        primary, replica, dsn = cluster.replicated()
        left, right = (cluster.node(name, dsn) for name in ("left", "right"))
        owner = cluster.wait_for_owner()
        for number in range(5):
            lock_until_granted(owner, lock(number))
        primary.stop()
        replica.sql("SELECT pg_promote(false)")
        owner = cluster.wait_for_owner()
        lock_until_granted(owner, lock(6))
        expect_held(owner, range(5))
        for node in (left, right):
            node.stop()
    with Cluster() as cluster:
        database = cluster.postgres()
        node = cluster.box("lonely", cluster.next_address())
        alone = daemon.Daemon("cluster.mode=standby", "store.backend=postgres", f"store.dsn={database.dsn}",
                              under=node.inside).start(wait=False)
        assert alone.wait() == 3
        assert "synchronous_standby_names" in alone.log()


@tap.test
def a_database_that_forgot_raises_the_alarm():
    """HA-08: given a replica that is not synchronous and lacks the last commits, when it is promoted, then no node grants
    anything on it, and each says so, until an operator accepts it."""
    with Cluster(*PLAIN) as cluster:
        primary = cluster.postgres()
        replica = cluster.postgres(primary)
        dsn = f"host={primary.box.address},{replica.box.address} dbname=postgres user=postgres"
        nodes = [cluster.node(name, dsn) for name in ("left", "right")]
        owner = cluster.wait_for_owner()
        lock_until_granted(owner, lock(1))
        replica.sql("SELECT pg_wal_replay_pause()")
        replica.box.cut()  # from here on it does not get what is committed
        for number in range(2, 6):
            lock_until_granted(owner, lock(number))
        primary.stop()
        primary.box.cut()  # else its kernel would still send what is in its buffers
        replica.box.join()
        replica.sql("SELECT pg_wal_replay_resume()")
        replica.promote()
        for node in nodes:
            node.daemon.wait_for_log("the database has lost acknowledged transactions")
            wait_until(lambda node=node: node.role() == "alarm", f"{node.name} raises the alarm")
            assert node.nlm(LOCK, lock(9)) is None
        assert "holdfast_cluster_alarm 1\n" in nodes[0].ask("GET", "/metrics")[1]
        assert nodes[0].move("take")[0] == 202
        lock_until_granted(cluster.wait_for_owner(), lock(9))


@tap.test
def two_nodes_of_one_name_are_refused():
    """ADM-10: given a node that serves, and one that stands by, then a second process with the name of either does not start and says
    why; one of another service may have the name; and a node that was killed starts again at once."""
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        alpha, beta = (cluster.node(name, database.dsn, "cluster.service=files") for name in ("alpha", "beta"))
        cluster.wait_for_owner([alpha, beta])

        def start(name, service):
            box = cluster.box(f"{name}-{service}-2", cluster.next_address())
            return daemon.Daemon(*PLAIN, "cluster.mode=standby", f"cluster.service={service}", f"cluster.node={name}",
                                 "store.backend=postgres", f"store.dsn={database.dsn}", under=box.inside).start(wait=False)

        for name in ("alpha", "beta"):
            second = start(name, "files")
            assert second.wait() == 1
            assert f'another node of this service is called \\"{name}\\" and runs' in second.log(), second.log()
        other = start("alpha", "other")
        other.wait_for_log("standing by")
        other.stop()
        standby = alpha if cluster.wait_for_owner([alpha, beta]) is beta else beta
        standby.kill()
        standby.start()
        for node in (alpha, beta):
            node.stop()


@tap.test
def an_export_belongs_to_one_service():
    """HA-09: given two services in one database, when a client locks, tests or shares a file of the one at the other, in any
    version, then it is refused, counted and logged; and a third that claims the same export does not start."""
    with Cluster(*PLAIN) as cluster:
        database = cluster.postgres()
        blue = cluster.node("blue", database.dsn, "cluster.service=blue", "share home.fh=0:aabb", "share work.fh=0:ccdd")
        green = cluster.node("green", database.dsn, "cluster.service=green", "share scratch.fh=0:eeff")
        for node in (blue, green):
            cluster.wait_for_owner([node])
        mine, foreign = lock(1).but(fh=b"\xee\xff1"), lock(1).but(fh=b"\xaa\xbb1")
        lock_until_granted(green, mine)
        wait_until(lambda: green.nlm(SHARE, mine) == "GRANTED", "grace ends")
        asked = [(4, LOCK), (4, NM_LOCK), (4, TEST), (4, SHARE), (3, LOCK), (3, TEST), (3, SHARE)]
        for version, proc in asked:
            assert green.nlm(proc, foreign, timeout=1, version=version) == "DENIED_NOLOCKS", (version, proc)
        assert green.nlm(UNSHARE, foreign, timeout=1) == "GRANTED"
        lock_until_granted(blue, foreign)
        assert blue.nlm(SHARE, foreign, timeout=1) == "GRANTED"
        green.daemon.wait_for_log("refused: a lock in an export of another service export=home")
        assert f"nlm_refused_foreign_total {len(asked)}\n" in green.ask("GET", "/metrics")[1]
        box = cluster.box("red", cluster.next_address())
        red = daemon.Daemon(*PLAIN, "cluster.mode=standby", "cluster.service=red", "store.backend=postgres",
                            f"store.dsn={database.dsn}", "share home.fh=0:aabb", under=box.inside).start(wait=False)
        assert red.wait() == 3
        assert 'the export \\"home\\" belongs to service \\"blue\\"' in red.log(), red.log()
        for node in (blue, green):
            node.stop()


if __name__ == "__main__":
    netns.enter()
    tap.main()
