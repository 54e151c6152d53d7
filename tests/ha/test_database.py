#!/usr/bin/env python3
"""The database of a service fails over (HA-08): its primary is killed before, during and after COMMIT, and its standby is
promoted. Nothing that was granted is lost; a standby that lost commits is noticed."""
import os
import random
import threading
import time

from holdfast_test import netns, tap
from holdfast_test.daemon import take_release_build, wait_until
from cluster import SERVICE, Cluster
from load import Load, Prober
from wires import CLIENT
from world import Locker

MEASURING = "HOLDFAST_TAKEOVERS" in os.environ
ROUNDS = 20 if MEASURING else 2
ALONE = "cluster.require_sync=no"  # a promoted standby has no standby of its own yet


def lock(name, fh, **options):
    with Locker(name, CLIENT, SERVICE) as locker:
        return locker.lock(fh, **options)


def fail_over(cluster):
    """The primary is gone, at once and for good; the standby is promoted. Seconds that this took."""
    began = time.monotonic()
    cluster.pair.primary.kill()
    cluster.pair.promote()
    return time.monotonic() - began


def wait_for_service(since):
    """Until a node grants again: asked of the nodes, not of a clock."""
    with Prober(SERVICE) as prober:
        wait_until(lambda: prober.first_after(since, ("GRANTED",)), "grants after the failover")


@tap.test
def the_primary_is_killed_between_two_commits():
    """Given locks that were granted and no request in flight, they are there after the failover."""
    with Cluster(ALONE) as cluster:
        for number in range(20):
            assert lock("client", b"file %d" % number) == "granted"
        fail_over(cluster)
        wait_for_service(time.monotonic())
        cluster.wait_for_pair()
        for number in range(20):
            assert lock("other", b"file %d" % number) in ("denied", "denied_grace_period"), number
        assert len(cluster.owner().locks() & {(b"client", b"file %d" % number) for number in range(20)}) == 20


@tap.test
def the_primary_is_killed_during_commit():
    """Given a commit that waits for the synchronous standby, its lock is not granted as long as that hangs. When the primary
    is killed there and the standby promoted, the client that asks again gets one answer, and holds the lock alone."""
    with Cluster(ALONE) as cluster:
        assert lock("client", b"first") == "granted"
        cluster.pair.standby.pause()
        answers = []

        def ask():
            while not answers:
                try:
                    answers.append(lock("client", b"second"))
                except (OSError, EOFError):
                    time.sleep(0.05)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        wait_until(lambda: int(cluster.pair.primary.sql(waiting)) > 0, "a commit waits for the standby")
        assert not answers, "granted, though the standby has not acknowledged it"
        cluster.pair.primary.kill()
        cluster.pair.standby.resume()
        cluster.pair.promote()
        wait_until(lambda: answers, "an answer")
        thread.join()
        assert answers in (["granted"], ["denied_grace_period"]), answers
        cluster.wait_for_pair()
        held = {fh for name, fh in cluster.owner().locks() if name == b"client"}
        assert b"first" in held
        assert (b"second" in held) or answers != ["granted"]
        assert lock("other", b"first") in ("denied", "denied_grace_period")


@tap.test
def the_primary_is_killed_under_load():
    """At any moment of a commit: before, during, after. Again and again, each time with a new synchronous standby."""
    chance = random.Random(16)
    took = []
    with Cluster(ALONE) as cluster, Load(SERVICE) as load, Prober(SERVICE) as prober:
        for _ in range(ROUNDS):
            seen = load.answers()
            wait_until(lambda: load.answers() > seen + 300 + chance.randrange(100), "load")
            began = time.monotonic()
            promoted = fail_over(cluster)
            wait_until(lambda: prober.first_after(began + promoted, ("GRANTED",)), "grants after the failover")
            took.append((promoted, prober.first_after(began + promoted, ("GRANTED",)) - began))
            cluster.pair.rebuild()
            cluster.wait_for_pair()
        load.stop()
        load.check_no_errors()
        load.check_no_two_holders()
        load.check_nothing_lost(cluster.owner().locks())
        tap.note(f"{load.answers()} answers; kill of the primary to the first grant: "
                 + ", ".join(f"{granted:.2f} s (promoted after {promoted:.2f})" for promoted, granted in took))


@tap.test
def a_promoted_standby_that_lost_commits_is_noticed():
    """Given an asynchronous standby that lags, when it is promoted the locks granted last are gone: no node grants on such a
    database, and both say so."""
    with Cluster(ALONE, synchronous=False) as cluster:
        assert lock("client", b"replicated") == "granted"
        cluster.pair.standby.node.unplug()
        assert lock("client", b"lost") == "granted"
        cluster.pair.primary.kill()
        cluster.pair.primary.node.unplug()  # or its kernel would still deliver what the primary had sent
        cluster.pair.standby.node.plug()
        cluster.pair.promote()
        wait_until(lambda: any(member.role() == "alarm" for member in cluster.members), "an alarm")
        assert all(member.role() != "active" for member in cluster.members)
        try:
            with Locker("other", CLIENT, SERVICE) as locker:
                locker.client.sock.settimeout(1)
                assert locker.lock(b"lost") != "granted"
        except OSError:
            pass  # silent


if __name__ == "__main__":
    if MEASURING:
        take_release_build()
    netns.enter(addresses=())
    tap.main()
