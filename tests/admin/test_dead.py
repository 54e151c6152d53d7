#!/usr/bin/env python3
"""Clients that are known to be dead (ADM-12): holdfastctl client dead, REST, and the alert agent for Pacemaker."""
import os
import pathlib
import subprocess
import tempfile
import time

from holdfast_test import netns, nlm, tap
from holdfast_test.daemon import wait_until
from holdfast_test.store import Server
from world import ADMIN_PORT, NLM, Host, Locker, ask, expect_problem, get

CTL = os.environ["HOLDFASTCTL"]
AGENT = pathlib.Path(__file__).parents[2] / "packaging/pacemaker/holdfast-fenced"
QUICK = ("history.longer_than=0", "notify.timeout=1", "notify.attempts=1")
FILE = b"nightly.db"
TOKEN = "0123456789abcdef-fencing"


def ctl(*arguments):
    done = subprocess.run([CTL, *arguments], stdin=subprocess.DEVNULL, timeout=30, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def holders():
    return sorted((row["client"]["name"], bytes.fromhex(row["file"])) for row in get("locks")["locks"])


@tap.test
def a_dead_client_loses_its_locks_at_once():
    """ADM-12: given a client of two of our addresses that holds a file another one waits for: `client dead` with its short name releases
    what both have and grants the waiter; log and history name the operator; what the client gets afterwards is its own."""
    with Server(*QUICK, "server.listen=192.0.2.1,127.0.0.1") as server, Host("192.0.2.3"), \
            Locker("alpha.example", "192.0.2.2") as alpha, Locker("alpha.example", "127.0.0.2", server="127.0.0.1") as other, \
            Locker("beta.example", "192.0.2.3") as beta, Locker("alphabet.example", "192.0.2.1") as stranger:
        assert alpha.lock(FILE) == "granted" and other.lock(b"other") == "granted" and stranger.lock(b"third") == "granted"
        assert beta.lock(FILE, block=True) == "blocked"
        status, out, err = ctl("client", "dead", "alpha")
        assert status == 1 and "--yes" in err and len(holders()) == 3, err
        status, out, err = ctl("client", "dead", "alpha", "--yes")
        assert status == 0 and "Released 2." in out and "Granted to: beta.example" in out, (out, err)
        assert holders() == [("alphabet.example", b"third"), ("beta.example", FILE)], holders()
        server.daemon.wait_for_log("client declared dead client=alpha.example address=192.0.2.2")
        history = lambda: get("history")["entries"]
        wait_until(lambda: sum(e["what"] == "declare client dead" for e in history()) == 2, "the history")
        notes = [e["text"] for e in history() if e["what"] == "declare client dead"]
        assert any("alpha.example (192.0.2.2), by uid 0" in text for text in notes), notes
        assert [e["what"] for e in history() if e["kind"] == "lock" and e["client"]["name"] == "alpha.example"] == ["client crashed"] * 2
        assert alpha.lock(b"new") == "granted" and ("alpha.example", b"new") in holders()


@tap.test
def one_that_was_heard_from_since_is_not_dead():
    """ADM-12: given a client that has locked again since the time of its death: nothing is released, and 409."""
    with Server(*QUICK), Locker("alpha.example", "192.0.2.2") as alpha:
        died = int(time.time())
        while time.time() < died + 2:  # --since has seconds
            time.sleep(0.1)
        assert alpha.lock(FILE) == "granted"
        status, _, err = ctl("client", "dead", "alpha.example", "--yes", "--since", f"@{died}")
        assert status == 1 and "runs again" in err and len(holders()) == 1, err
        client = get("clients")["clients"][0]["id"]
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(died))
        expect_problem(ask("POST", f"/api/v1/clients/{client}/dead", f'{{"since": "{moment}"}}'), 409)
        for body in ("{}", "[]", '{"since": "soon"}', '{"since": 1}', '{"when": "x"}', "x"):
            expect_problem(ask("POST", f"/api/v1/clients/{client}/dead", body), 400)
        expect_problem(ask("POST", "/api/v1/clients/4711/dead"), 404)
        expect_problem(ask("POST", f"/api/v1/clients/{client}/dead", unix=False), 403)
        assert len(holders()) == 1
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))
        answer = ask("POST", f"/api/v1/clients/{client}/dead", f'{{"since": "{moment}"}}')
        assert answer.status == 200 and answer.json == {"released": 1, "granted": []}, answer.body
        assert holders() == []


@tap.test
def an_answer_to_a_callback_is_a_sign_of_life():
    """ADM-12, ADM-04: given a client that has sent nothing for seconds, and then takes a lock that it waited for: it was heard of at
    that moment."""
    with Server(*QUICK), Host("192.0.2.3") as host, Locker("alpha.example", "192.0.2.2") as alpha, Locker("beta.example", "192.0.2.3") as beta:
        assert alpha.lock(FILE) == "granted" and beta.lock(FILE, block=True) == "blocked"
        died = int(time.time())
        while time.time() < died + 2:  # --since has seconds
            time.sleep(0.1)
        assert alpha.unlock(FILE) == "granted"
        wait_until(lambda: host.count(NLM, nlm.GRANTED) == 1 and holders() == [("beta.example", FILE)], "beta takes it")
        status, _, err = ctl("client", "dead", "beta.example", "--yes", "--since", f"@{died}")
        assert status == 1 and "runs again" in err, err
        assert [c["idle_seconds"] < 2 for c in get("clients")["clients"] if c["name"] == "beta.example"] == [True]


@tap.test
def names_must_be_of_one_host():
    """ADM-12: a short name of two hosts, a name of none, and wrong usage release nothing."""
    with Server(*QUICK), Locker("alpha.example", "192.0.2.2") as alpha, Locker("alpha.test", "192.0.2.3") as other:
        assert alpha.lock(b"a") == "granted" and other.lock(b"b") == "granted"
        status, _, err = ctl("client", "dead", "alpha", "--yes")
        assert status == 4 and "more than one host" in err, err
        assert ctl("client", "dead", "gamma", "--yes")[0] == 4 and ctl("client", "dead", "alph", "--yes")[0] == 4
        for wrong in (["client"], ["client", "dead"], ["client", "alive", "alpha"], ["client", "dead", "a", "--client", "b"],
                      ["client", "dead", "alpha.test", "--since", "soon"]):
            assert ctl(*wrong, "--yes")[0] == 2, wrong
        assert len(holders()) == 2
        assert ctl("client", "dead", "192.0.2.3", "--yes")[0] == 0
        assert holders() == [("alpha.example", b"a")]


@tap.test
def grace_ends_when_the_missing_client_is_declared_dead():
    """ADM-12, GRC-03a: given a restart after which one client cannot be reached: the operator's word ends the grace period."""
    with Server(*QUICK, "notify.on_failure=keep") as server:
        with Locker("alpha.example", "192.0.2.2") as alpha:
            assert alpha.lock(FILE) == "granted"
        server.kill()
        server.start(*QUICK, "notify.on_failure=keep", "grace.seconds=600")
        assert get("grace")["active"] is True
        assert ctl("client", "dead", "alpha.example", "--yes")[0] == 0
        assert get("grace")["active"] is False and holders() == []


def fenced(**alert):
    """The agent as Pacemaker calls it: not as root, with the alert in its environment."""
    env = {"PATH": os.environ["PATH"], "holdfastctl": CTL, **alert}
    env |= {name: os.environ[name] for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
    done = subprocess.run([str(AGENT)], stdin=subprocess.DEVNULL, timeout=30, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=env, user=65534, group=65534, extra_groups=())
    return done.returncode, done.stdout.decode() + done.stderr.decode()


@tap.test
def pacemaker_tells_of_a_fenced_node():
    """ADM-12: the alert agent declares a fenced node dead, by a token; it does nothing for a fencing that failed, for other alerts and
    other operations, and for a node that is no client; a name that could be an option is refused."""
    with tempfile.TemporaryDirectory(prefix="holdfast-fencing-") as folder:
        os.chmod(folder, 0o755)
        token = pathlib.Path(folder, "token")
        token.write_text(TOKEN + "\n")
        os.chown(token, 65534, 65534)
        token.chmod(0o600)
        with Server(*QUICK, f"admin.token_file={token}", "server.user="), Locker("node-1", "192.0.2.2") as node:
            assert node.lock(FILE) == "granted"
            good = {"CRM_alert_kind": "fencing", "CRM_alert_rc": "0", "CRM_alert_task": "reboot", "CRM_alert_node": "node-1",
                    "CRM_alert_timestamp_epoch": str(int(time.time()) + 1), "holdfast_token_file": str(token),
                    "holdfast_url": f"http://127.0.0.1:{ADMIN_PORT}"}
            for change in ({"CRM_alert_rc": "1"}, {"CRM_alert_kind": "node"}, {"CRM_alert_task": "on"}, {"CRM_alert_node": "node-2"}):
                assert fenced(**good | change)[0] == 0 and len(holders()) == 1, change
            for change in ({"CRM_alert_node": "--socket=/tmp/x"}, {"CRM_alert_node": ""}, {"CRM_alert_timestamp_epoch": "1000"},
                           {"holdfast_token_file": ""}):
                assert fenced(**good | change)[0] != 0 and len(holders()) == 1, change
            assert fenced(**good)[0] == 0, fenced(**good)
            assert holders() == []


if __name__ == "__main__":
    netns.enter()
    tap.main()
