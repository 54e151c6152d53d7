#!/usr/bin/env python3
"""Sorted lists (ADM-01): order, pages by offset, and the number of rows that fit; compared with sorting here."""
import contextlib
import random
import select
import socket
import tempfile
from pathlib import Path

from holdfast_test import netns, tap
from holdfast_test.daemon import WAIT_S, Daemon
from schema import Description
from world import SOCKET, Locker, ask, expect_problem, get

FILES = 120
MAPPED = 40
MODES = ("exclusive", "shared")


def file(number):
    return b"sorted%04d" % number


class Scene:
    """Three clients with 120 locks on as many files, a third of them with a path; a few waiters."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-")
        order = random.Random(7).sample(range(FILES), FILES)
        mapping = Path(self.folder.name) / "map"
        mapping.write_text("".join(f"{file(n).hex()} /Export/{'bcA'[n % 3]}/{order[n]}\n" for n in range(MAPPED)))
        self.daemon = Daemon(f"admin.fh_map={mapping}")

    def __enter__(self):
        self.daemon.start()
        self.lockers = [Locker("beta", "192.0.2.1"), Locker("Alpha", "192.0.2.2"), Locker("gamma", "192.0.2.3")]
        for n in range(FILES):
            assert self.lockers[n % 3].lock(file(n), svid=(n * 37) % 101 - 50, exclusive=n % 5 > 0) == "granted"
        for n, waiters in ((17, 3), (50, 1), (3, 2)):
            for svid in range(waiters):
                assert self.lockers[(n + 1) % 3].lock(file(n), svid=1000 + svid, block=True) == "blocked"
        return self

    def __exit__(self, *failure):
        for locker in self.lockers:
            locker.client.close()
        self.daemon.__exit__(*failure)
        self.folder.cleanup()


LOCK_COLUMNS = {
    "client": lambda lock: lock["client"]["name"].lower(),
    "file": lambda lock: (lock["path"] or lock["file"]).lower(),
    "owner": lambda lock: lock["owner"]["svid"],
    "mode": lambda lock: MODES.index(lock["mode"]),
    "held": lambda lock: -ord_time(lock["acquired_at"]),
    "waiters": lambda lock: (lock["waiters"], -ord_time(lock["acquired_at"])),
}
CLIENT_COLUMNS = {
    "client": lambda client: client["name"].lower(),
    "locks": lambda client: client["locks"],
    "waiters": lambda client: client["waiters"],
    "idle": lambda client: -ord_time(client["last_seen"]),
    "notification": lambda client: client["notification"]["status"],
}


def ord_time(text):
    return int("".join(filter(str.isdigit, text)))


@tap.test
def every_column_orders_both_ways():
    """Given 120 locks of three clients, each column sorts them up and down as this program does."""
    with Scene():
        for name, columns in (("locks", LOCK_COLUMNS), ("clients", CLIENT_COLUMNS)):
            plain = get(name)[name]
            for column, key in columns.items():
                for sign, reverse in (("", False), ("-", True)):
                    answer = get(f"{name}?sort={sign}{column}")
                    seen = [key(row) for row in answer[name]]
                    assert seen == sorted(map(key, plain), reverse=reverse), f"{name} by {sign}{column}: {seen}"
                    assert answer["total"] == len(plain) and answer["next"] is None


@tap.test
def pages_join_to_the_whole():
    """Pages by offset, in a filtered list, are together the whole list once, and total honours the filter."""
    with Scene():
        whole = get("locks?sort=-held&client=beta")
        assert whole["total"] == len(whole["locks"]) == FILES // 3
        paged = []
        for offset in range(0, FILES // 3 + 9, 9):
            answer = get(f"locks?sort=-held&client=beta&limit=9&offset={offset}")
            assert answer["total"] == whole["total"]
            paged += answer["locks"]
        assert [lock["id"] for lock in paged] == [lock["id"] for lock in whole["locks"]]
        assert get("locks?sort=file&client=nobody")["total"] == 0
        assert get("locks?sort=held&waited=true")["total"] == 3


@tap.test
def released_rows_are_not_shown():
    """A row that goes away between two pages is missing, and its slot shows no stranger."""
    with Scene() as scene:
        before = get("locks?sort=client&client=Alpha")
        for n in range(1, FILES, 6):
            assert scene.lockers[n % 3].unlock(file(n), svid=(n * 37) % 101 - 50) == "granted"
        after = get("locks?sort=client&client=Alpha")
        assert 0 < after["total"] < before["total"]
        assert {lock["client"]["name"] for lock in after["locks"]} == {"Alpha"}


@tap.test
def nonsense_is_refused():
    """An unknown column, an offset without sort, a cursor with it, and too deep a page are told."""
    with Daemon():
        for query in ("sort=size", "sort=", "sort=-", "sort=--held", "offset=5", "sort=held&cursor=1", "sort=held&offset=x",
                      "sort=held&offset=9990&limit=11", "sort=held&offset=18446744073709551615"):
            assert expect_problem(ask("GET", f"/api/v1/locks?{query}"), 400)
        expect_problem(ask("GET", "/api/v1/waiters?sort=held"), 400)
        assert get("locks?sort=held&offset=9990&limit=10")["total"] == 0


@tap.test
def a_stop_ends_lists_that_are_being_made():
    """ADM-08: given sorted lists that are made piece by piece, when the daemon is stopped in the middle, then it ends in order:
    libmicrohttpd aborts if one of them waits for its turn again."""
    request = b"GET /api/v1/locks?sort=held&limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack, Daemon():
        alpha = stack.enter_context(Locker("alpha", "192.0.2.2"))
        for n in range(2000):
            assert alpha.lock(file(n)) == "granted"
        readers = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(8)]
        for reader in readers:
            reader.connect(SOCKET)
            reader.sendall(request)
        assert select.select(readers, [], [], WAIT_S)[0], "no list has begun"


@tap.test
def sorted_answers_are_described():
    """openapi.json describes the sorted answers and names exactly the columns there are."""
    with Scene():
        document = get("openapi.json")
        description = Description(document)
        for name, columns in (("locks", LOCK_COLUMNS), ("clients", CLIENT_COLUMNS)):
            operation = description.operation("GET", f"/api/v1/{name}")
            named = next(p for p in operation["parameters"] if p["name"] == "sort")["schema"]["enum"]
            assert sorted(named) == sorted([*columns, *("-" + column for column in columns)])
            schema = description.schema("GET", f"/api/v1/{name}", 200, "application/json")
            description.check(get(f"{name}?sort=-client&limit=2"), schema)


if __name__ == "__main__":
    netns.enter()
    tap.main()
