#!/usr/bin/env python3
"""test_failover.py [standby|applications|continue|keepalived|disk] [WORD...]: two file servers, one service address, Linux clients.

failover_stories.py has what happens to the nodes, application_stories.py has programs that lock meanwhile,
continue_stories.py programs that may not notice. Without words, and without
HOLDFAST_LAB=all in the environment (make lab), only a few stories are run.
"""
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "interop"), str(HERE.parent / "admin"), str(HERE.parent / "ha"), str(HERE)]
BUILD = HERE.parents[1] / "build"  # by hand; and always what is installed, not what is sanitized
os.environ.setdefault("HOLDFASTCTL", str(BUILD / "src/ctl/holdfastctl"))
os.environ.setdefault("HOLDFAST_HOOK", str(BUILD / "packaging/addresses"))
os.environ.setdefault("HOLDFAST_ANNOUNCE", str(BUILD / "src/addresses/holdfast-announce"))

from holdfast_lab import pair  # noqa: E402
from holdfast_lab.lab import Lab, main  # noqa: E402
from holdfast_test import tap  # noqa: E402
import application_stories  # noqa: E402,F401 (their stories follow those of the nodes)
import continue_stories  # noqa: E402,F401
import failover_stories  # noqa: E402

# Each with a pair, and the stories (words of their names) that `make lab` and `make test` run with it. A daemon that keepalived starts
# on one node only has no log that a story can wait for; and keepalived drops no address of a daemon that was stopped.
WAYS = {
    "standby": (pair.Standby, ["node", "service"], ["same_handle", "a_node_is_killed", "sqlite_counts"]),
    "applications": (pair.Standby, ["sqlite", "flock", "mail"], None),
    "continue": (pair.Unnoticed, ["takeovers_that_no"], None),
    "keepalived": (pair.Keepalived, ["a_node_is_killed", "the_service_is_moved", "fails_back"], None),
    "disk": (pair.SharedDisk, ["a_node_is_killed", "the_service_is_moved", "fails_back"], None),
}


class FailoverLab(Lab):
    def __init__(self, way):
        super().__init__("failover-" + way, server=False)
        for name in ("alpha", "beta"):
            self.guest(name).boot(wait=False)
        self.pair = WAYS[way][0](self).__enter__()

    def close(self):
        for guest in self.guests.values():
            guest.stop()
        self.pair.__exit__(None, None, None)
        super().close()


def opened(way):
    lab = FailoverLab(way)
    failover_stories.lab = lab
    return lab


if __name__ == "__main__":
    words = sys.argv[1:]
    way = words.pop(0) if words[:1] and words[0] in WAYS else "standby"
    words = words or WAYS[way][1 if os.environ.get("HOLDFAST_LAB") == "all" else 2]
    if not words:
        tap.skip_all("a part of make lab")
    main(lambda: opened(way), words)
