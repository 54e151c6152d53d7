#!/usr/bin/env python3
"""REST (ADM-01): every endpoint, filter and page, against what clients did; and its own description."""
import json
import os
import signal
import socket
import subprocess
import tempfile

from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon, wait_until
from holdfast_test.store import fill, small_disk
from schema import Description, Mismatch
from world import ADMIN_PORT, NLM, NSM, SOCKET, Host, Locker, ask, expect_problem, get, monitor

FILE_A, FILE_B = bytes.fromhex("00a1b2c3") + b"A" * 12, b"B" * 16


class Scene:
    """alpha holds file A; beta waits for it, gamma behind beta; gamma holds half of B, shared."""

    def __init__(self, *sets):
        self.daemon = Daemon("share projects.fh=0:00a1b2c3", *sets)

    def __enter__(self):
        self.daemon.start()
        self.alpha = Locker("alpha.example", "192.0.2.1")
        self.beta = Locker("beta.example", "192.0.2.2")
        self.gamma = Locker("gamma.example", "192.0.2.3")
        assert self.alpha.lock(FILE_A, svid=11) == "granted"
        assert self.gamma.lock(FILE_B, svid=33, offset=100, length=50, exclusive=False) == "granted"
        assert self.beta.lock(FILE_A, svid=22, block=True) == "blocked"
        assert self.gamma.lock(FILE_A, svid=33, offset=5, length=1, block=True) == "blocked"
        return self

    def __exit__(self, *failure):
        for locker in (self.alpha, self.beta, self.gamma):
            locker.client.close()
        self.daemon.__exit__(*failure)


def names(rows):
    return sorted(row["client"]["name"].split(".")[0] for row in rows)


@tap.test
def status_counts_what_is_there():
    """Given three clients, two locks and two waiters, status reports these numbers, with an odd state."""
    with Scene():
        status = get("status")
        assert status["name"] == "server.example" and status["state"] % 2 == 1
        assert status["counts"] | {"files": 2} == {
            "clients": 3, "registrations": 0, "locks": 2, "waiters": 2, "reservations": 0, "files": 2,
            "calls_in_flight": 0}, status["counts"]
        assert status["grace"]["active"] is False and status["store"]["up"] is True
        assert status["totals"]["requests"] == 4
        assert get("status", unix=True)["counts"] == status["counts"]


@tap.test
def locks_read_well():
    """A lock shows its client by name and address, its file in hex, its range and its owner."""
    with Scene():
        a, b = sorted(get("locks")["locks"], key=lambda lock: lock["file"])
        assert a["client"]["name"] == "alpha.example" and a["client"]["address"] == "192.0.2.1"
        assert a["file"] == FILE_A.hex() and a["share"] == "projects" and a["path"] is None
        assert a["range"] == {"first": "0", "last": None} and a["mode"] == "exclusive"
        assert a["owner"]["svid"] == 11 and a["owner"]["text"] == "11@alpha.example"
        assert a["waiters"] == 2 and a["durable"] and 0 <= a["held_seconds"] < 60
        assert b["range"] == {"first": "100", "last": "149"} and b["mode"] == "shared"


@tap.test
def filters_of_locks():
    """NLM-10: by client (id, part of name, address), file, share, owner (svid, part of the handle), waited."""
    with Scene():
        alpha_id = get("clients?client=alpha")["clients"][0]["id"]
        for query, expected in (
                ("client=ALPHA", ["alpha"]), (f"client={alpha_id}", ["alpha"]),
                ("client=192.0.2.3", ["gamma"]), ("client=nobody", []),
                (f"file={FILE_B.hex()}", ["gamma"]), ("file=00a1b2", ["alpha"]),
                ("share=projects", ["alpha"]), ("share=default", ["gamma"]), ("share=nix", []),
                ("owner=33", ["gamma"]), ("owner=11%40alpha", ["alpha"]),
                (f"owner={b'33@gam'.hex()}", []), ("owner=%40gam", ["gamma"]), ("waited=true", ["alpha"]),
                ("client=example&share=default", ["gamma"]), ("client=alpha&share=default", [])):
            found = names(get("locks?" + query)["locks"])
            assert found == expected, f"{query}: {found}"


@tap.test
def a_search_looks_at_every_field():
    """ADM-05b: search finds a row by its id or its client's, by name, address, owner and, for root, the file; other filters
    narrow it further. The same for clients, waiters and reservations."""
    with Scene():
        alpha = get("clients?client=alpha")["clients"][0]
        lock = get("locks?client=gamma")["locks"][0]
        for query, expected in (
                ("search=alpha", ["alpha"]), (f"search={alpha['id']}", ["alpha"]), (f"search={lock['id']}", ["gamma"]),
                ("search=192.0.2.3", ["gamma"]), ("search=33%40gam", ["gamma"]), (f"search={FILE_B.hex()}", ["gamma"]),
                ("search=nothing", []), ("search=example&share=projects", ["alpha"])):
            found = names(get("locks?" + query)["locks"])
            assert found == expected, f"{query}: {found}"
        assert names(get("waiters?search=192.0.2.2")["waiters"]) == names(get("waiters?client=192.0.2.2")["waiters"]) != []
        assert [c["id"] for c in get("clients?search=alpha")["clients"]] == [alpha["id"]]
        assert get("reservations?search=nothing")["reservations"] == []


@tap.test
def filters_of_waiters():
    """The same filters; a waiter names the lock in its way, or none if only another waiter is before it."""
    with Scene():
        waiters = {w["client"]["name"]: w for w in get("waiters")["waiters"]}
        lock = get("locks?client=alpha")["locks"][0]
        assert waiters["beta.example"]["blocked_by"] == lock["id"]
        assert not waiters["beta.example"]["granting"]
        for query, expected in (("client=beta", ["beta"]), ("share=default", []),
                                ("owner=33", ["gamma"]), (f"file={FILE_A.hex()}", ["beta", "gamma"])):
            assert names(get("waiters?" + query)["waiters"]) == expected, query


@tap.test
def paths_come_from_the_map():
    """Given admin.fh_map, a handle has its path, and can be found by it; SIGHUP reads it again."""
    with tempfile.NamedTemporaryFile("w", suffix=".map") as file:
        file.write(f"# names\n{FILE_A.hex()} /export/projects/plan.txt\n")
        file.flush()
        with Scene(f"admin.fh_map={file.name}") as scene:
            assert get("locks?file=plan")["locks"][0]["path"] == "/export/projects/plan.txt"
            assert names(get("waiters?file=PROJECTS/plan")["waiters"]) == ["beta", "gamma"]
            file.write(f"{FILE_B.hex()} /export/other\n")
            file.flush()
            scene.daemon.send_signal(signal.SIGHUP)
            scene.daemon.wait_for_log("configuration reloaded")
            assert get("locks?file=other")["locks"][0]["path"] == "/export/other"


@tap.test
def one_client_by_id():
    """GET clients/{id} shows it; an unknown id is a problem, as is one that is no number."""
    with Scene():
        beta = get("clients?client=beta")["clients"][0]
        one = get(f"clients/{beta['id']}")
        assert one["name"] == "beta.example" and one["waiters"] == 1 and one["locks"] == 0
        assert one["local_address"] == "192.0.2.1" and one["transport"] == "tcp"
        for wrong in ("12345", "beta", "-1", "99999999999999999999999"):
            expect_problem(ask("GET", f"/api/v1/clients/{wrong}"), 404)


@tap.test
def registrations_and_reservations_are_listed():
    """An SM_MON shows its callback; a SHARE shows what it denies."""
    with Scene() as scene:
        assert monitor("server.example", source="192.0.2.2", server="192.0.2.1") == 0
        scene.beta.share(FILE_B)
        found = [c for c in get("clients")["clients"] if c["protocol"] == "nsm"]
        assert len(found) == 1 and found[0]["callback"]["program"] == 100024, found
        assert found[0]["callback"]["address"] == "192.0.2.2"
        reservation, = get("reservations")["reservations"]
        assert reservation["denies"] == "read" and reservation["access"] == "write", reservation
        assert not get("reservations?client=alpha")["reservations"]


@tap.test
def pages_cover_everything_once():
    """Given 250 locks, pages of 100 by cursor show each exactly once; so does one long answer."""
    with Daemon(), Locker("many.example", "192.0.2.1") as many:
        for number in range(250):
            assert many.lock(b"file-%04d" % number) == "granted"
        seen, cursor, pages = [], "0", 0
        while cursor is not None:
            page = get(f"locks?limit=100&cursor={cursor}")
            assert len(page["locks"]) <= 100
            seen += [lock["id"] for lock in page["locks"]]
            cursor, pages = page["next"], pages + 1
        assert len(seen) == len(set(seen)) == 250 and pages == 3
        assert len(get("locks?limit=1000000")["locks"]) == 250
        filtered = get("locks?limit=10&file=" + b"-02".hex())
        assert len(filtered["locks"]) == 10 and filtered["next"]


@tap.test
def bad_pages_and_filters_are_problems():
    """A limit of 0, beyond the bound or no number, a cursor that is none, a filter of 300 bytes."""
    with Daemon():
        for query in ("limit=0", "limit=1000001", "limit=ten", "limit=-5", "cursor=x", "cursor=-1",
                      "client=" + "c" * 300, "owner=" + "o" * 256):
            expect_problem(ask("GET", "/api/v1/locks?" + query), 400)
        expect_problem(ask("GET", "/api/v1/nothing"), 404)
        expect_problem(ask("GET", "/page/../admin"), 404)


@tap.test
def a_method_that_is_not_there_is_told_which_are():
    """RFC 9110, 15.5.6: a 405 has Allow, with every method of that path."""
    with Daemon():
        for method, path, allowed in (("DELETE", "locks", "GET, HEAD"), ("PUT", "status", "GET, HEAD"),
                                      ("POST", "clients/1", "GET, HEAD, DELETE"), ("GET", "locks/1", "DELETE"),
                                      ("PUT", "notifications", "GET, HEAD, POST"), ("GET", "grace/end", "POST")):
            answer = ask(method, "/api/v1/" + path)
            expect_problem(answer, 405)
            assert answer.headers["Allow"] == allowed, (method, path, answer.headers)


@tap.test
def a_mistyped_key_does_not_pass_for_none():
    """Given ?clinet=x: 400, naming it and the valid keys, which are those of the description."""
    with tempfile.TemporaryDirectory() as directory, Scene(f"history.path={directory}"):
        for path, item in get("openapi.json")["paths"].items():
            if not path.startswith("/api/"):
                continue
            for method, operation in item.items():
                query = [p for p in operation.get("parameters", ()) if p["in"] == "query"]
                keys = [p["name"] for p in query]
                real = path.replace("{id}", "1").replace("{file}", "00")
                said = expect_problem(ask(method.upper(), real + "?clinet=x", unix="security" in operation), 400)
                told = said.partition("there are ")[2].rstrip(".").split(", ") if keys else []
                assert '"clinet"' in said and sorted(told) == sorted(keys), (method, path, said)
                for p in query:
                    usual = "2026-11-18T03:12:00Z" if p["schema"].get("format") == "date-time" else "1"
                    asked = f"{p['name']}={p['schema'].get('enum', [usual])[0]}"
                    if p["name"] == "path":  # no names are configured here: tests/admin/test_names.py
                        expect_problem(ask(method.upper(), f"{real}?path=/x"), 409)
                        continue
                    if p["name"] == "offset":
                        asked += "&sort=client&limit=1"
                    assert ask("GET", f"{real}?{asked}").status == 200, (path, asked)
        assert '"?<x"' in expect_problem(ask("GET", "/api/v1/locks?%ff%3Cx=1"), 400)
        for odd in ("c", "clients", "file,", ",", "client,%20file"):
            expect_problem(ask("GET", f"/api/v1/locks?{odd}=x"), 400)
        assert ask("GET", "/?x=1").status == ask("GET", "/healthz?x=1").status == 200


@tap.test
def a_released_lock_goes_to_the_next_waiter():
    """DELETE of a lock names the waiter that is granted in turn, and that client is called back."""
    with Host("192.0.2.2") as beta_host, Scene() as scene:
        lock = get("locks?client=alpha")["locks"][0]
        answer = ask("DELETE", f"/api/v1/locks/{lock['id']}").json
        assert answer["released"] == 1 and names(answer["granted"]) == ["beta"], answer
        beta_host.wait_for(lambda call: (call.prog, call.proc) == (NLM, 5))
        wait_until(lambda: names(get("waiters")["waiters"]) == ["gamma"], "beta no longer waits")
        assert "does=\"release lock\"" in scene.daemon.wait_for_log("operator")
        expect_problem(ask("DELETE", f"/api/v1/locks/{lock['id']}"), 404)
        expect_problem(ask("DELETE", "/api/v1/locks/x"), 404)


@tap.test
def a_released_client_has_nothing_left():
    """DELETE of a client releases its locks and removes its waiting requests."""
    with Host("192.0.2.2"), Scene():
        gamma = get("clients?client=gamma")["clients"][0]
        answer = ask("DELETE", f"/api/v1/clients/{gamma['id']}", unix=True).json
        assert answer["released"] == 2, answer
        assert names(get("locks")["locks"]) == ["alpha"] and names(get("waiters")["waiters"]) == ["beta"]
        expect_problem(ask("DELETE", "/api/v1/clients/1"), 404)


@tap.test
def a_released_file_has_no_locks_or_waiters_left():
    """DELETE of a file by its handle releases its locks and empties its queue."""
    with Scene():
        answer = ask("DELETE", f"/api/v1/files/{FILE_A.hex()}").json
        assert answer["released"] == 3 and answer["granted"] == [], answer
        assert names(get("locks")["locks"]) == ["gamma"] and get("waiters")["waiters"] == []
        for wrong in ("abc", "zz", b"nobody".hex()):
            expect_problem(ask("DELETE", f"/api/v1/files/{wrong}"), 404)


@tap.test
def grace_is_shown_and_ended():
    """Given a restart that had locks, grace counts down, counts reclaims, and ends on request."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        store = ("store.backend=lmdb", f"store.path={folder}", "notify.on_failure=keep")
        with Daemon(*store), Locker("alpha.example", "192.0.2.1") as alpha:
            assert alpha.lock(FILE_A) == "granted" and alpha.lock(FILE_B) == "granted"
        with Daemon(*store), Locker("alpha.example", "192.0.2.1") as alpha:
            grace = get("grace")
            assert grace["active"] and grace["unreclaimed"] == 2 and grace["reclaimed"] == 0
            assert 60 < grace["remaining_seconds"] <= 90
            assert all(lock["unreclaimed"] for lock in get("locks")["locks"])
            assert alpha.lock(FILE_A, reclaim=True) == "granted"
            assert get("grace")["reclaimed"] == 1
            assert [n["client"]["name"] for n in get("notifications")["notifications"]] == ["alpha.example"]
            assert get("notifications?status=delivered")["notifications"] == []
            assert ask("POST", "/api/v1/grace/end").json == {"ended": True, "released": 1}
            assert not get("grace")["active"] and len(get("locks")["locks"]) == 1
            assert ask("POST", "/api/v1/grace/end").json == {"ended": False, "released": 0}


@tap.test
def notices_are_sent_again():
    """NOT-05: given a restart, POST notifications notifies one client or all again; a bad body is a
    problem."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, Host("192.0.2.2") as host:
        store = ("store.backend=lmdb", f"store.path={folder}")
        with Daemon(*store), Locker("beta.example", "192.0.2.2") as beta:
            assert beta.lock(FILE_A) == "granted"
        with Daemon(*store):
            def delivered():
                return get("notifications?status=delivered")["notifications"]
            wait_until(delivered, "beta was told")
            before = host.count(NSM, 6)
            client = delivered()[0]["client"]["id"]
            answer = ask("POST", "/api/v1/notifications", json.dumps({"client": client}))
            assert answer.status == 202 and answer.json == {"client": client}
            wait_until(lambda: host.count(NSM, 6) > before, "beta was told again")
            assert ask("POST", "/api/v1/notifications").status == 202
            for body in ("[]", "{", '{"client": 5}', '{"client": "x"}', '{"client": "0"}'):
                expect_problem(ask("POST", "/api/v1/notifications", body), 400)
            expect_problem(ask("POST", "/api/v1/notifications", '{"client": "7"}'), 404)


@tap.test
def names_are_only_data():
    """A name full of markup, escapes and broken UTF-8 comes out as text in valid JSON."""
    evil = b'<script>alert("1")</script>\\\r\n\xff\xfe%s%n'
    with Daemon(), Locker(evil, "192.0.2.1") as client:
        assert client.lock(FILE_A) == "granted"
        name = get("locks")["locks"][0]["client"]["name"]
        assert name.startswith('<script>alert("1")</script>') and "\\xff\\xfe" in name, name


@tap.test
def health_and_readiness():
    """Alive and ready while all is well."""
    with Daemon():
        assert ask("GET", "/healthz").body == b"alive\n"
        assert ask("GET", "/readyz").body == b"ready\n"
        assert ask("HEAD", "/healthz").body == b""


@tap.test
def a_store_that_is_down_is_told_and_heals():
    """STO-04, SPEC section 5: with the disk full, readyz and status say so, and a release is refused and
    undone; with room again, everything works. A byte in the store's path that is not UTF-8 is quoted (ADM-08)."""
    with small_disk(4) as disk, Daemon("store.backend=lmdb", f"store.path={disk}/{'s' * 200}\udcff") as daemon, \
            Locker(b"n" * 1000, "192.0.2.1") as client:
        fill(f"{disk}/ballast")
        locked = next(number for number in range(5000) if client.lock(b"%064d" % number) != "granted")
        wait_until(lambda: ask("GET", "/readyz").status == 503, "it is not ready")
        why = expect_problem(ask("GET", "/readyz"), 503)
        assert "store is down" in why and why.endswith("free some space, nothing is lost"), why
        assert get("status")["store"]["up"] is False
        assert b"holdfast_store_up 0" in ask("GET", "/metrics").body
        lock = get("locks?limit=1")["locks"][0]["id"]
        assert "nothing was changed" in expect_problem(ask("DELETE", f"/api/v1/locks/{lock}"), 503)
        assert get("status")["counts"]["locks"] == locked
        undone = daemon.wait_for_log("operator's change undone")
        assert "does=\"release lock\"" in undone and f"to={lock}" in undone, undone
        assert "operator who=" not in daemon.log(), "a change is logged as done before it is durable"
        for _ in range(40):
            ask("DELETE", f"/api/v1/locks/{lock}")
        assert daemon.log().count("commit failed") < 30, "an outage floods the log"
        os.unlink(f"{disk}/ballast")
        wait_until(lambda: ask("GET", "/readyz").status == 200, "it is ready again")
        assert ask("DELETE", f"/api/v1/locks/{lock}").json["released"] == 1
        assert "released=1" in daemon.wait_for_log("operator who=")


@tap.test
def too_much_is_refused():
    """A body beyond the bound: 413, announced or not; headers beyond it: an error, no crash."""
    with Daemon():
        expect_problem(ask("POST", "/api/v1/notifications", "x" * 5000), 413)
        with socket.create_connection(("127.0.0.1", ADMIN_PORT)) as chunked:
            chunked.settimeout(20)
            chunked.sendall(b"POST /api/v1/notifications HTTP/1.1\r\nHost: localhost\r\n"
                            b"Transfer-Encoding: chunked\r\n\r\n")
            try:
                for _ in range(100):
                    chunked.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
                assert chunked.recv(100) == b"", "closed without an answer"
            except ConnectionError:
                pass
        with socket.create_connection(("127.0.0.1", ADMIN_PORT)) as long:
            long.settimeout(20)
            try:
                long.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200000 + b"\r\n\r\n")
                assert b" 431 " in long.recv(100)
            except ConnectionError:
                pass
        assert ask("GET", "/healthz").status == 200


@tap.test
def slow_clients_delay_no_other():
    """Given many connections that send nothing, or read nothing of a long list, other clients are served."""
    with Daemon(), Locker("many.example", "192.0.2.1") as many:
        for number in range(500):
            many.lock(b"file-%04d" % number)
        slow = [socket.create_connection(("127.0.0.1", ADMIN_PORT)) for _ in range(40)]
        for connection in slow[:20]:
            connection.sendall(b"GET /api/v1/locks?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        for connection in slow[20:]:
            connection.sendall(b"GET /api")
        for _ in range(5):
            assert len(get("locks")["locks"]) == 500 and many.lock(b"one more") == "granted"
            many.unlock(b"one more")
        for connection in slow:
            connection.close()
        assert get("status")["counts"]["locks"] == 500


@tap.test
def a_stop_ends_what_still_waits():
    """Given checks in progress and half a request, SIGTERM stops the daemon cleanly, and pending requests are
    answered."""
    daemon = Daemon().start()
    with Locker("beta.example", "192.0.2.2") as beta, socket.create_connection(("127.0.0.1", ADMIN_PORT)) as half:
        assert beta.lock(FILE_A) == "granted"
        url = f"http://127.0.0.1:{ADMIN_PORT}/api/v1/clients/{get('clients')['clients'][0]['id']}/check"
        half.sendall(b"GET /api")
        checks = [subprocess.Popen(["curl", "-s", "--unix-socket", SOCKET, "-X", "POST", url],
                                   stdout=subprocess.PIPE) for _ in range(3)]
        daemon.wait_for_log("check client", times=3)
        assert daemon.stop() == 0, daemon.log()
        for check in checks:
            told = check.communicate(timeout=20)[0]
            assert b"stopping" in told or check.returncode, told
    daemon.check_sanitizers()


@tap.test
def checks_are_bounded():
    """Beyond sixteen at a time a check is refused with 429; when some have ended, new ones are accepted."""
    with Scene("notify.timeout=8"):  # none ends before the last begins, also on a busy machine
        client = get("clients?client=beta")["clients"][0]["id"]
        url = f"http://127.0.0.1:{ADMIN_PORT}/api/v1/clients/{client}/check"
        checks = [subprocess.Popen(["curl", "-s", "--unix-socket", SOCKET, "-o", "/dev/null", "-w", "%{http_code}",
                                    "-X", "POST", url], stdout=subprocess.PIPE) for _ in range(20)]
        codes = sorted(check.communicate(timeout=60)[0] for check in checks)
        assert codes == [b"200"] * 16 + [b"429"] * 4, codes
        assert ask("POST", f"/api/v1/clients/{client}/check").status == 200


# ---- the description ----

@tap.test
def answers_fit_the_description():
    """openapi.json names every path, and each answer, problems too, fits its schema."""
    with tempfile.TemporaryDirectory() as directory, Host("192.0.2.2"), \
            Scene(f"history.path={directory}", "history.longer_than=0") as scene:
        assert monitor("alpha.example") == 0
        scene.beta.share(FILE_B)
        described = Description(get("openapi.json"))
        client = get("clients?client=beta")["clients"][0]["id"]
        lock = get("locks?client=alpha")["locks"][0]["id"]
        asked = set()
        for method, template, path, body in (
                *(("GET", f"/api/v1/{name}", None, None) for name in (
                    "status", "clients", "locks", "waiters", "reservations", "grace", "losses", "notifications",
                    "backup", "openapi.json")),
                ("GET", "/healthz", None, None), ("GET", "/readyz", None, None), ("GET", "/metrics", None, None),
                ("GET", "/api/v1/locks", "/api/v1/locks?limit=0", None),
                ("GET", "/api/v1/clients/{id}", f"/api/v1/clients/{client}", None),
                ("GET", "/api/v1/clients/{id}", "/api/v1/clients/1", None),
                ("POST", "/api/v1/clients/{id}/check", f"/api/v1/clients/{client}/check", None),
                ("POST", "/api/v1/clients/{id}/check", "/api/v1/clients/1/check", None),
                ("POST", "/api/v1/check", None, '{"address": "192.0.2.2"}'),
                ("POST", "/api/v1/check", None, '{"address": "somewhere"}'),
                ("POST", "/api/v1/check", None, "nonsense"),
                ("POST", "/api/v1/session", None, None),
                ("POST", "/api/v1/session", None, "nonsense"),
                ("DELETE", "/api/v1/session", None, None),
                ("POST", "/api/v1/notifications", None, None),
                ("POST", "/api/v1/notifications", None, "nonsense"),
                ("POST", "/api/v1/notifications", None, "x" * 5000),
                ("DELETE", "/api/v1/locks/{id}", f"/api/v1/locks/{lock}", None),
                ("DELETE", "/api/v1/locks/{id}", "/api/v1/locks/1", None),
                ("DELETE", "/api/v1/files/{file}", f"/api/v1/files/{FILE_A.hex()}", None),
                ("DELETE", "/api/v1/files", "/api/v1/files?path=/x", None),
                ("GET", "/api/v1/locks", "/api/v1/locks?path=/x", None),
                ("POST", "/api/v1/clients/{id}/dead", f"/api/v1/clients/{client}/dead", '{"since": "2001-01-01T00:00:00Z"}'),
                ("POST", "/api/v1/clients/{id}/dead", f"/api/v1/clients/{client}/dead", None),
                ("POST", "/api/v1/clients/{id}/dead", "/api/v1/clients/1/dead", None),
                ("POST", "/api/v1/clients/{id}/dead", f"/api/v1/clients/{client}/dead", "nonsense"),
                ("DELETE", "/api/v1/clients/{id}", f"/api/v1/clients/{client}", None),
                ("DELETE", "/api/v1/losses", None, None),
                ("GET", "/api/v1/history", None, None),
                ("GET", "/api/v1/history", "/api/v1/history?limit=0", None),
                ("GET", "/api/v1/cluster", None, None),  # 404: tests/interop/test_standby.py has a cluster
                *(("POST", f"/api/v1/cluster/{word}", None, None) for word in ("take", "release", "move")),
                ("GET", "/api/v1/exports", None, None),  # 503: tests/interop/test_mixed_operator.py has a keeper
                *(("POST", f"/api/v1/exports/{word}", None, body) for word in ("release", "take-back") for body in ('{"path": "/x"}', "x")),
                ("POST", "/api/v1/grace/hold", None, '{"seconds": 1}'), ("POST", "/api/v1/grace/hold", None, '{"seconds": -1}'),
                ("POST", "/api/v1/grace/end", None, None)):
            answer = ask(method, path or template, body)
            content_type = answer.headers["Content-Type"].partition(";")[0]
            schema = described.schema(method, template, answer.status, content_type)
            described.check(answer.json if "json" in content_type else answer.body.decode(), schema)
            asked.add((method.lower(), template))
        all_of_them = {(method, path) for path, item in described.document["paths"].items() for method in item}
        assert asked == all_of_them, asked ^ all_of_them


@tap.test
def the_check_of_the_description_can_fail():
    """Given an answer with a missing, an extra or a mistyped member, the check reports it."""
    with Scene():
        described = Description(get("openapi.json"))
        good = get("status")
        schema = described.schema("GET", "/api/v1/status", 200, "application/json")
        described.check(good, schema)
        for bad in (good | {"extra": 1}, {k: v for k, v in good.items() if k != "grace"},
                    good | {"epoch": 7}, good | {"time": "yesterday"}):
            try:
                described.check(bad, schema)
            except Mismatch:
                continue
            raise AssertionError("not seen")


if __name__ == "__main__":
    netns.enter()
    tap.main()
