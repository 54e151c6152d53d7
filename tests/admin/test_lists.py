#!/usr/bin/env python3
"""The lists of holdfastctl (ADM-04): sorted, filtered, cut, as CSV, at 80 columns; reservations; what a release would take; help."""
import csv
import io
import json
import re
import tempfile
from pathlib import Path

from ctl_program import NOT_FOUND, OK, REFUSED, USAGE, ctl, ctl_ok, on_terminal
from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon, wait_until
from world import Host, Locker

COMPLETION = Path(__file__).parents[2] / "packaging/completion"


def rows(*arguments):
    return json.loads(ctl_ok(*arguments, "--json"))


def names(*arguments):
    return [(row.get("client") or row)["name"] for row in rows(*arguments)]


class Scene:
    """alpha holds two files, and beta waits for one of them; gamma holds one that is not waited for. Two of them have paths."""

    def __enter__(self):
        self.map = tempfile.NamedTemporaryFile("w", suffix=".map")
        self.map.write(f"{b'one'.hex()} /export/build/one.lock\n{b'two'.hex()} /export/build/two.db\n")
        self.map.flush()
        self.daemon = Daemon(f"admin.fh_map={self.map.name}").start()
        self.alpha = Locker("alpha.example", "192.0.2.1")
        self.beta = Locker("beta.example", "192.0.2.2")
        self.gamma = Locker("gamma.example", "192.0.2.3")
        assert self.alpha.lock(b"one", svid=7) == "granted" and self.alpha.lock(b"two", svid=8) == "granted"
        assert self.gamma.lock(b"three", svid=70) == "granted"
        assert self.beta.lock(b"one", svid=9, block=True) == "blocked"
        return self

    def __exit__(self, *failure):
        for locker in (self.alpha, self.beta, self.gamma):
            locker.client.close()
        self.daemon.__exit__(*failure)
        self.map.close()


@tap.test
def lists_are_sorted():
    """--sort orders by a column, -COLUMN the other way; an unknown column is wrong usage, and --help names them."""
    with Scene():
        assert names("locks", "--sort", "client") == ["alpha.example", "alpha.example", "gamma.example"]
        assert names("locks", "--sort", "-client") == ["gamma.example", "alpha.example", "alpha.example"]
        assert [row["owner"]["svid"] for row in rows("locks", "--sort", "-owner")] == [70, 8, 7]
        assert [row["path"] or row["file"] for row in rows("locks", "--sort", "file")][:2] == ["/export/build/one.lock", "/export/build/two.db"]
        assert rows("locks", "--sort", "-waiters", "--limit", "1")[0]["owner"]["svid"] == 7
        assert names("clients", "--sort", "-locks")[0] == "alpha.example"
        assert names("clients", "--sort", "address") == ["alpha.example", "beta.example", "gamma.example"]
        held = [row["held_seconds"] for row in rows("locks", "--sort", "-held")]
        assert held == sorted(held, reverse=True)
        status, _, err = ctl("locks", "--sort", "colour")
        assert status == USAGE and "colour" in err, err
        assert re.search(r"COLUMN is one of:.* held .*waiters", ctl_ok("locks", "--help"))


@tap.test
def lists_are_filtered():
    """By network, age, pattern, and whether somebody waits; each wrong value is named."""
    with Scene():
        assert names("locks", "--address", "192.0.2.3") == ["gamma.example"]
        assert names("locks", "--address", "192.0.2.0/31") == ["alpha.example"] * 2
        assert names("clients", "--address", "192.0.2.2/31", "--sort", "client") == ["beta.example", "gamma.example"]
        assert names("locks", "--waited") == ["alpha.example"] and names("clients", "--waited") == ["beta.example"]
        assert names("locks", "--held", "1h") == [] and len(names("locks", "--held", "0s")) == 3
        wait_until(lambda: names("waiters", "--waited=1s") == ["beta.example"], "it has waited for a second")
        assert names("waiters", "--waited=1h") == [] and len(names("locks", "--held", "1")) == 3
        assert [row["path"] for row in rows("locks", "--file", "/export/*/*.lock")] == ["/export/build/one.lock"]
        assert [row["owner"]["svid"] for row in rows("locks", "--file", b"th".hex() + "*")] == [70]
        assert len(rows("locks", "--file", "*/build/*")) == 2 and rows("locks", "--file", "*.txt") == []
        assert [row["owner"]["svid"] for row in rows("locks", "--owner", "7@")] == [7], "text is matched as text"
        assert rows("locks", "--owner", b"7@alpha".hex()) == [], "not by the hex digits of its text"
        assert rows("locks", "--owner", "37") == [], "37 is hex for 7, and owner 7 is not meant"
        for wrong in (("--address", "192.0.2.1/24"), ("--held", "soon"), ("--waited=1h",)):
            status, out, err = ctl("locks", *wrong)
            assert status == USAGE and not out and wrong[0].partition("=")[0] in err, (wrong, err)
        assert ctl("clients", "--held", "1s")[0] == USAGE and ctl("waiters", "--waited=x")[0] == USAGE


@tap.test
def a_list_that_is_cut_says_so():
    """--limit that leaves rows out says so, with and without --sort; one that does not says nothing."""
    with Scene():
        for more in ((), ("--sort", "client"), ("--csv",)):
            status, out, err = ctl("locks", "--limit", "2", *more)
            assert status == OK and "only the first 2 are shown" in err and len(out.splitlines()) == 3, (out, err)
        assert len(ctl_ok("locks", "--limit", "3").splitlines()) == 4
        assert len(rows("locks", "--limit", "2")) == 2  # a program counts itself


@tap.test
def lists_are_csv_too():
    """--csv has a line of titles and whole texts in quotes; a name that looks like a formula is no formula."""
    with Scene(), Locker('=cmd("x"),1', "192.0.2.3") as evil, Locker("@SUM(1)", "192.0.2.2") as other:
        assert evil.lock(b"evil") == other.lock(b"other") == "granted"
        out = ctl_ok("locks", "--csv", "--sort", "owner")
        found = list(csv.DictReader(io.StringIO(out, newline="")))
        assert len(found) == 5 and {row["CLIENT"] for row in found} > {"alpha.example (192.0.2.1)", "'=cmd(\"x\"),1 (192.0.2.3)",
                                                                       "'@SUM(1) (192.0.2.2)"}, found
        assert all(row["ID"].isdigit() for row in found)
        assert list(csv.DictReader(io.StringIO(ctl_ok("waiters", "--csv"))))[0]["HELD BY"] == "alpha.example (192.0.2.1)"


@tap.test
def eighty_columns_show_names():
    """At 80 columns ids and owners make room, names do not; a pipe and a wide terminal have all columns."""
    with Scene():
        for command, title in (("locks", "CLIENT"), ("waiters", "HELD BY"), ("clients", "NAME"), ("reservations", "CLIENT")):
            lines = on_terminal(80, command).splitlines()
            assert all(len(line) <= 80 for line in lines) and title in lines[0], "\n".join(lines)
        out = on_terminal(80, "locks")
        assert "ID" not in out.splitlines()[0].split() and "alpha.example" in out and "one.lock" in out, out
        out = on_terminal(80, "waiters")
        assert "beta.example" in out and "alpha.example" in out and "one.lock" in out, out
        assert on_terminal(250, "locks").split()[0] == "ID" and ctl_ok("locks").split()[0] == "ID"


@tap.test
def waits_are_a_tree():
    """--tree shows every file that is waited for, with its holder and queue; filters would cut chains, and are refused."""
    with Scene() as scene:
        assert scene.gamma.lock(b"two", svid=71, block=True) == "blocked"
        out = ctl_ok("waiters", "--tree")
        assert re.search(r"/export/build/one.lock\n  held:\n    lock \d+  alpha.example.*\n  waiting, .*\n    1  beta.example", out), out
        assert re.search(r"/export/build/two.db\n  held:\n    lock \d+  alpha.example.*\n  waiting, .*\n    1  gamma.example", out), out
        assert ctl("waiters", "--tree", "--client", "beta")[0] == USAGE


@tap.test
def reservations_are_listed():
    """Share reservations: who, what, which access."""
    with Scene() as scene:
        assert scene.gamma.share(b"one") == "granted"
        head, row = ctl_ok("reservations").splitlines()
        assert head.split() == ["ID", "CLIENT", "FILE", "ACCESS", "DENIES", "OWNER"] and "gamma.example" in row and "one.lock" in row, row
        assert names("reservations", "--client", "alpha") == []


@tap.test
def a_release_can_be_tried_dry():
    """--dry-run names the locks, and changes nothing; the same without it takes just these. --owner takes those of one owner."""
    with Scene() as scene, Host("192.0.2.2"):
        for what, n in ((("--client", "alpha.example"), 2), (("--client", "alpha.example", "--owner", "7@alpha.example"), 1),
                        (("--client", "alpha.example", "--owner", "8"), 1), (("--file", b"three".hex()), 1)):
            out = ctl_ok("release", *what, "--dry-run")
            assert f"Would release {n} locks" in out and out.count("lock ") >= n and "Nothing was changed" in out, (what, out)
        status, out, _ = ctl("release", "--file", "/export/build/two.db", "--dry-run")
        assert status == OK and "Would release 1 locks" in out, out
        assert "1 waiting requests" in ctl_ok("release", "--file", b"one".hex(), "--dry-run")
        assert len(rows("locks")) == 3
        assert ctl("release", "--client", "alpha.example", "--owner", "7@alpha", "--yes")[0] == NOT_FOUND, "a part of an owner is none"
        assert ctl("release", "--client", "alpha.example", "--owner", "7")[0] == REFUSED, "it asks"
        assert ctl("release", "--owner", "7", "--yes")[0] == USAGE, "a number is an owner of each client"
        out = ctl_ok("release", "--client", "alpha.example", "--owner", "7", "--yes")
        assert "Released 1." in out and "Granted to: beta.example" in out, out
        assert sorted(row["owner"]["svid"] for row in rows("locks")) == [8, 9, 70]
        assert scene.alpha.unlock(b"two", svid=8) == "granted"


@tap.test
def every_command_has_help():
    """`COMMAND --help` and `help COMMAND` print usage, what it does, and just the options that it takes; no daemon is needed."""
    listed = re.findall(r"^  ([a-z]+) ", ctl_ok("--help").partition("\n\n")[2].partition("\n\n")[0], re.M)
    assert len(listed) == len(set(listed)) and {"top", "reservations", "client", "history", "backup"} < set(listed), listed
    for command in listed:
        out = ctl_ok(command, "--help")
        assert out.startswith(f"usage: holdfastctl {command}") and out == ctl_ok("help", command), out
        offered = set(re.findall(r"^  --([a-z-]+)", out, re.M))
        for option in offered:  # what is offered is taken
            err = ctl("--socket", "/nonexistent", command, f"--{option}=x")[2]
            assert "takes no --" not in err, (command, option, err)
    assert "--tree" in ctl_ok("waiters", "--help") and "--tree" not in ctl_ok("locks", "--help")
    assert "top takes no --tree" in ctl("top", "--tree")[2]


@tap.test
def completion_knows_every_command_and_option():
    """bash and zsh complete each command and each option that the help of a command names."""
    text = ctl_ok("--help")
    commands = re.findall(r"^  ([a-z]+) ", text.partition("\n\n")[2].partition("\n\n")[0], re.M)
    options = set(re.findall(r"^  --([a-z-]+)", text, re.M))
    for command in commands:
        options |= set(re.findall(r"^  --([a-z-]+)", ctl_ok(command, "--help"), re.M))
    bash, zsh = (COMPLETION / "holdfastctl.bash").read_text(), (COMPLETION / "_holdfastctl").read_text()
    for command in commands:
        assert re.search(rf"[ \"]{command}[ \"]", bash) and f"'{command}:" in zsh, command
    for option in options:
        assert f"--{option}" in bash and f"'--{option}" in zsh, option


if __name__ == "__main__":
    netns.enter()
    tap.main()
