#!/usr/bin/env python3
"""Metrics (ADM-02): the names of SPEC section 7, what promtool says of them, and what they count."""
import os
import re
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from holdfast_test import netns, rpc, tap
from holdfast_test.daemon import PORT, Daemon, wait_until
from holdfast_test.store import Server
from holdfast_test.xdr import Encoder
from world import NLM, NSM, Host, Locker, ask, monitor

ROOT = Path(__file__).parents[2]

# Name, type and labels of each metric in SPEC section 7.
SPEC = """
nsm_requests_total counter procedure,result
nsm_request_duration_seconds histogram procedure
nsm_clients_registered gauge
nsm_notifications_total counter result
nsm_notification_duration_seconds histogram
nsm_crashes_detected_total counter
nsm_crash_cleanups_total counter
nsm_locks_cleaned_on_crash_total counter
nlm_requests_total counter procedure,result
nlm_request_duration_seconds histogram procedure
nlm_locks_held gauge
nlm_blocked gauge
nlm_oldest_wait_seconds gauge
nlm_waits gauge share
nlm_lock_held_seconds histogram
nlm_lock_wait_seconds histogram
nlm_callbacks_total counter result
nlm_callback_duration_seconds histogram
nlm_reclaims_total counter result
nlm_limit_hits_total counter limit
nlm_deadlocks_total counter
holdfast_grace_active gauge
holdfast_grace_remaining_seconds gauge
holdfast_store_commit_seconds histogram
holdfast_store_batch_size histogram
holdfast_store_up gauge
"""


def scrape():
    answer = ask("GET", "/metrics")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return answer.body.decode()


def samples(text):
    """{(name, labels): value}"""
    found = re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.M)
    return {(name, labels): float(value) for name, labels, value in found}


def traffic():
    """A lock, a waiter, a refused request, a registration: something for each metric."""
    with Locker("alpha.example", "192.0.2.1") as alpha, Locker("beta.example", "192.0.2.2") as beta:
        assert alpha.lock(b"file") == "granted"
        assert beta.lock(b"file", block=True) == "blocked"
        assert beta.lock(b"file", svid=9) == "denied"
        assert monitor("gamma.example") == 0
        assert alpha.unlock(b"file") == "granted"


@tap.test
def every_metric_of_the_spec_is_there():
    """ADM-02: Given some traffic, each has its name, type and labels."""
    with Host("192.0.2.2"), Daemon():
        traffic()
        text = scrape()
        labels_of = {}
        for name, labels in samples(text):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            keys = set(re.findall(r'(\w+)="', labels)) - {"le"}
            labels_of.setdefault(name, keys)
            labels_of.setdefault(base, keys)
        for line in SPEC.split("\n"):
            if not line:
                continue
            name, kind, *labels = line.split()
            assert f"# TYPE {name} {kind}\n" in text, name
            assert labels_of[name] == set(labels[0].split(",") if labels else []), (name, labels_of[name])


@tap.test
def promtool_accepts_them():
    """promtool check metrics has no complaint; and it would have one about a bad name."""
    if not shutil.which("promtool"):
        raise tap.Skip("promtool is not installed (Debian: prometheus)")
    with Host("192.0.2.2"), Daemon():
        traffic()
        for text, good in ((scrape(), True), (scrape() + "# TYPE bad_count gauge\nbad_count 1\n", False)):
            done = subprocess.run(["promtool", "check", "metrics"], input=text.encode(),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            assert (done.returncode == 0 and not done.stdout) == good, done.stdout.decode()


@tap.test
def they_count_what_happened():
    """Requests by outcome, their durations, locks, waiters, callbacks, commits."""
    with Host("192.0.2.2"), Daemon():
        traffic()
        with rpc.Tcp("192.0.2.1", PORT) as client:
            assert client.call(NSM, 1, 5).status == rpc.SYSTEM_ERR  # SM_SIMU_CRASH, which only root may ask for
        wait_until(lambda: samples(scrape())["nlm_callbacks_total", 'result="accepted"'] == 1, "beta was called")
        found = samples(scrape())
        for name, labels, value in (
                ("nlm_requests_total", 'procedure="LOCK",result="granted"', 1),
                ("nlm_requests_total", 'procedure="LOCK",result="blocked"', 1),
                ("nlm_requests_total", 'procedure="LOCK",result="denied"', 1),
                ("nlm_requests_total", 'procedure="UNLOCK",result="granted"', 1),
                ("nlm_request_duration_seconds_count", 'procedure="LOCK"', 3),
                ("nsm_requests_total", 'procedure="MON",result="success"', 1),
                ("nsm_requests_total", 'procedure="SIMU_CRASH",result="failure"', 1),
                ("nsm_request_duration_seconds_count", 'procedure="MON"', 1),
                ("nlm_locks_held", "", 1), ("nlm_blocked", "", 0), ("nsm_clients_registered", "", 3),
                ("nlm_callback_duration_seconds_count", "", 1),
                ("holdfast_store_up", "", 1), ("holdfast_grace_active", "", 0)):
            assert found[name, labels] == value, (name, labels, found.get((name, labels)))
        assert found["holdfast_store_commit_seconds_count", ""] >= 1
        assert found["holdfast_store_batch_size_sum", ""] >= 3
        assert 0 < found["nlm_request_duration_seconds_sum", 'procedure="LOCK"'] < 10


@tap.test
def they_tell_how_long_locks_are_held_and_waited_for():
    """ADM-02: given a request that waits for a file of an export: its age, and its export; when it has its lock, how long it waited and how
    long the lock before it was held."""
    with Host("192.0.2.2"), Daemon("share projects.fh=0:66"), \
            Locker("alpha.example", "192.0.2.1") as alpha, Locker("beta.example", "192.0.2.2") as beta:
        assert alpha.lock(b"file") == "granted" and beta.lock(b"file", block=True) == "blocked"
        wait_until(lambda: samples(scrape())["nlm_oldest_wait_seconds", ""] >= 1.1, "it has waited for a second")
        found = samples(scrape())
        assert (found["nlm_waits", 'share="projects"'], found["nlm_waits", 'share="default"']) == (1, 0), found
        assert found["nlm_lock_held_seconds_count", ""] == 0 and found["nlm_lock_wait_seconds_count", ""] == 0
        assert alpha.unlock(b"file") == "granted"
        found = samples(scrape())
        assert found["nlm_oldest_wait_seconds", ""] == 0 and found["nlm_waits", 'share="projects"'] == 0, found
        for name in ("nlm_lock_held_seconds", "nlm_lock_wait_seconds"):
            assert found[name + "_count", ""] == 1 and 1.1 <= found[name + "_sum", ""] < 60, (name, found[name + "_sum", ""])
            assert found[name + "_bucket", 'le="1.024"'] == 0 and found[name + "_bucket", 'le="+Inf"'] == 1


def clock_reads(requests, *sets):
    """How often a daemon measures time while it refuses so many LOCKs, one after the other."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(8))
        file.flush()
        env = {"LD_PRELOAD": os.environ["HOLDFAST_COUNT_HRTIME"], "HOLDFAST_COUNT_FILE": file.name}
        # Busy polling reads the clock in each turn, whether requests are timed or not.
        with Daemon("server.busy_poll=0", *sets, env=env), Locker("alpha.example", "192.0.2.1") as alpha:
            alpha.lock(b"file")
            before = struct.unpack("=Q", Path(file.name).read_bytes())[0]
            for svid in range(requests):
                assert alpha.lock(b"file", svid=2 + svid) == "denied"
            return struct.unpack("=Q", Path(file.name).read_bytes())[0] - before


@tap.test
def switched_off_no_request_is_timed():
    """ADM-02: without administration the daemon does not read the clock for a request; with it, each is timed."""
    assert clock_reads(100) >= 100
    assert clock_reads(100, "admin.listen=", "admin.socket=") < 50


def notify(name, state, source):
    """SM_NOTIFY, from a host that announces its restart."""
    with rpc.Udp("192.0.2.1", PORT, source=(source, 0)) as client:
        client.call(NSM, 1, 6, Encoder().string(name).int(state).bytes())


@tap.test
def each_notice_is_counted_once():
    """NSM-05: of a restart, its repeat, one from an unknown host and one with an invalid state, only the first
    is accepted."""
    with Daemon(), Locker("alpha.example", "192.0.2.2") as alpha:
        assert alpha.lock(b"file") == "granted"
        for name, state, source in (("alpha.example", 3, "192.0.2.2"), ("alpha", 3, "192.0.2.2"),
                                    ("alpha.example", 5, "192.0.2.3"), ("alpha.example", 0, "192.0.2.2")):
            notify(name, state, source)
        found = samples(scrape())
        for result in ("accepted", "repeated", "stranger", "bad"):
            assert found["nsm_notifications_received_total", f'result="{result}"'] == 1, result


@tap.test
def a_client_with_only_a_share_reservation_is_not_registered():
    """NLM-11: given a client with only a share reservation, which is neither durable nor monitored, no client
    counts as registered."""
    with Daemon(), Locker("alpha.example", "192.0.2.2") as alpha:
        assert alpha.share(b"file") == "granted"
        assert samples(scrape())["nsm_clients_registered", ""] == 0


@tap.test
def histograms_add_up():
    """Buckets never fall, and the last is the count."""
    with Daemon(), Locker("alpha.example", "192.0.2.1") as alpha:
        for number in range(50):
            alpha.lock(b"file %d" % number)
        buckets = [(float(le.replace("+Inf", "inf")), float(value)) for le, value in re.findall(
            r'nlm_request_duration_seconds_bucket\{procedure="LOCK",le="([^"]+)"\} (\d+)', scrape())]
        assert buckets == sorted(buckets) and buckets[-1] == (float("inf"), 50)


@tap.test
def busy_polling_is_measured():
    """RPC-04: given a client that asks again at once, the daemon looks for its next request instead of sleeping; when the
    client is silent it sleeps again, and with busy_poll 0 it always does."""
    def looked():
        return float(re.search(r"^holdfast_rpc_busy_poll_seconds_total (\S+)", scrape(), re.M)[1])

    def ask_often(client):
        for _ in range(200):
            client.lock(b"file")
        return looked() > 0

    with Daemon("server.busy_poll=1000", "locks.durable=no"), Locker("alpha.example", "192.0.2.1") as alpha:
        if os.cpu_count() > 1:
            wait_until(lambda: ask_often(alpha), "the daemon looks for input")
        before = looked()
        assert looked() == before, "it looks although nothing comes"
    with Daemon("server.busy_poll=0", "locks.durable=no"), Locker("alpha.example", "192.0.2.1") as alpha:
        assert not ask_often(alpha)


@tap.test
def the_process_is_measured():
    """ADM-02: memory, processor time and start of the process, as dashboards for any process want them."""
    with Server():
        figures = dict(re.findall(r"^(process_\w+) (\S+)$", scrape(), re.M))
        assert abs(float(figures["process_start_time_seconds"]) - time.time()) < 3600
        assert float(figures["process_resident_memory_bytes"]) > 1 << 20
        assert float(figures["process_cpu_seconds_total"]) > 0 and int(float(figures["process_max_fds"])) > 0


@tap.test
def packaging_names_only_what_is_there():
    """promtool accepts the alert rules; rules and dashboard use metrics that exist."""
    rules = ROOT / "packaging/prometheus/holdfast.rules.yml"
    dashboard = ROOT / "packaging/grafana/holdfast.json"
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "rules", rules], check=True, stdout=subprocess.PIPE)
    with Server():
        known = set(re.findall(r"^# TYPE (\w+)", scrape(), re.M))
    used = set(re.findall(r"\b((?:nlm|nsm|holdfast|process)_\w+)", rules.read_text() + dashboard.read_text()))
    # What only a service with standbys shows: from its source, in versions that have it.
    cluster = set(re.findall(r'"(holdfast_cluster_\w+)"', (ROOT / "src/daemon/metrics.c").read_text()))
    known.add("holdfast_backup_last_timestamp_seconds")  # test_keep.py makes a backup
    known |= cluster or {name for name in used if name.startswith("holdfast_cluster_")}
    unknown = {name for name in used if re.sub(r"_(bucket|sum|count)$", "", name) not in known}
    assert used and not unknown, unknown


@tap.test
def every_metric_is_explained():
    """docs/reference/METRICS.md explains each metric, and names none that does not exist. Those of a cluster are compared in
    tests/interop/test_standby.py, which has one."""
    with Server():
        known = set(re.findall(r"^# TYPE (\w+)", scrape(), re.M))
    known.add("holdfast_backup_last_timestamp_seconds")  # test_keep.py makes a backup
    told = set(re.findall(r"`((?:nlm|nsm|holdfast|process)_\w+)", (ROOT / "docs/reference/METRICS.md").read_text()))
    told = {name for name in told if not name.startswith("holdfast_cluster_")}
    assert told == known, told ^ known


def fields(header, struct):
    """The members of a C structure of counters."""
    body = (ROOT / "src" / header).read_text().split(f"struct {struct} {{")[1].split("};")[0]
    return re.findall(r"\w+(?=[,;])", re.sub(r"/\*.*?\*/", "", body, flags=re.S))


@tap.test
def every_counter_is_a_metric():
    """Every counter of the core and of RPC is exported; so are refused callers."""
    source = (ROOT / "src/daemon/metrics.c").read_text()
    counters = fields("core/view.h", "hf_counters") + fields("rpc/server.h", "hf_rpc_counters")
    assert len(counters) > 35, counters
    unseen = [name for name in (*counters, "refused_callers") if f"->{name}" not in source]
    assert not unseen, unseen


@tap.test
def refused_callers_are_counted():
    """Given procedure 16 from another host, the metric counts it."""
    args = Encoder().string("victim").int(3).fixed(b"p" * 16).bytes()
    with Daemon():
        with rpc.Tcp("192.0.2.1", PORT, source=("192.0.2.2", 0)) as client:
            client.call(NLM, 4, 16, args)
        assert samples(scrape())["nlm_refused_callers_total", ""] == 1


if __name__ == "__main__":
    netns.enter()
    tap.main()
