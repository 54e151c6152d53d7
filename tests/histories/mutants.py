"""Which of the simulator's mutants (tests/mutants/sim.txt) the histories find in a daemon that has one, and how.

A mutant is found if a history has no order, if a client notices (a state number that goes back, an answer that makes no
sense), or if a client waits for ever. For each there is a recipe: the settings, the faults and the mix of requests that can
show it. The same recipes are played without a mutant, and must not find anything then.

Not here, because no history of these clients can show them: bugs that need a commit that fails (FORGET_UNDO,
NLM_REFUSAL_UNSAID, NSM_FAILURE_UNSAID), a host that loses its disk cache (BOOT_ID_NOT_COMPARED, LOST_TAIL_*,
CLIENT_NOT_FLUSHED, ANSWER_BEFORE_WRITE, FLUSH_NEVER), message procedures (NLM_COOKIE_UNSWAPPED), a range beyond 4 GiB
(NLM_HOLDER_TRUNCATED), a monitor on the server (NSM_PRIV_LOST), hundreds of locks or waiters (SLICE_FORGETS_REST,
RELEASE_FORGETS_REST, RELEASING_*), a process that waits while it holds (DEADLOCK_*, CYCLE_STAYS),
a client that never cancels (GRANT_LOST_IN_FLIGHT: the answer to CANCEL tells of the lock). The simulator finds those.
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import history
from judge import VIOLATION
from nemesis import FILTER, NO_FILTER, Nemesis, from_host
from world import World

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "mutants"))
import blocks
from relink import Tree

TRIES = 8


# ---- faults that only a mutant minds ----

FORGE = """
import sys
from holdfast_test import nsm, rpc
server, source, name, state = sys.argv[1:]
with rpc.Udp(server, nsm.PORT, source=(source, 0), timeout=1) as client:
    client.send(rpc.call_message(rpc.new_xid(), nsm.PROG, 1, nsm.NOTIFY, nsm.stat_chge(name, int(state))))
    client.reply()
"""


def forge(sender, victim):
    """SM_NOTIFY in the name of a host that has not restarted; its monitor says so when it is asked."""
    with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):  # no answer
        sender.node.run(sys.executable, "-c", FORGE, sender.server, sender.node.address, f"host{victim.number}.example",
                        str(2 * victim.life + 101))


def forge_from_another_host(nemesis):
    """The victim does not hear the server for a while, so it cannot say that it has not restarted."""
    sender, victim = nemesis.dice.sample(nemesis.clients, 2)
    victim.node.run(*FILTER, *from_host(nemesis.service.owner().node.hardware()))
    forge(sender, victim)
    time.sleep(3)  # a notice that cannot be verified counts after 2 s
    victim.node.run(*NO_FILTER)


def forge_from_the_same_host(nemesis):
    victim = nemesis.dice.choice(nemesis.clients)
    forge(victim, victim)


# ---- recipes ----

KILL = (Nemesis.kill_node,)
CRASH = (Nemesis.kill_client,)


def recipe(seconds, *sets, faults=None, pause_s=0.5, options=(), false_reclaims=True, slow_disk_us=0, config="lmdb"):
    return {"seconds": seconds, "slow_disk_us": slow_disk_us, "config": config,
            "how": {"sets": sets, "kinds": faults, "pause_s": pause_s, "longest_s": 2.0, "processes": 4, "files": 6,
                    "options": (*options, *(("--false-reclaims",) if false_reclaims else ()))}}


def recipes():
    quiet = recipe(2, pause_s=0)
    patient = recipe(3, pause_s=0, options=("--patient",))
    kills = recipe(6, faults=KILL)
    crashes = recipe(6, faults=CRASH)
    continued = recipe(6, faults=KILL, config="lmdb-needed")
    modes = recipe(3, pause_s=0, options=("--change-modes",))
    return {
        # found without any fault
        "RANGE_OFF_BY_ONE": quiet, "SHARED_IS_EXCLUSIVE_BLIND": quiet, "OVERTAKE_WAITER": quiet, "UNLOCK_WHOLE": quiet,
        "QUEUE_DENIES": quiet, "SKIPS_WHOLE_CLIENT": quiet, "DROP_SECOND_WAITER": patient,
        "FORGET_WAKE": patient,
        "SPLIT_LOSES_REST": quiet, "TEST_IGNORES_SHARED": quiet, "CANCEL_IGNORED": quiet, "UPGRADE_UNCHECKED": modes,
        "QUOTA_NOT_RETURNED": recipe(3, "limits.locks_per_host=100", pause_s=0),
        # by restarts of the server
        "GRACE_ENDS_EARLY": kills, "RECLAIM_UNCHECKED": kills, "RECLAIM_AFTER_GRACE": kills, "REUSE_STATE_NUMBER": kills,
        "LOAD_FORGETS_SHARED": kills, "UPGRADE_NOT_RECORDED": recipe(6, faults=KILL, options=("--upgrades",)),
        "GRANT_BEFORE_DURABLE": recipe(6, faults=KILL, slow_disk_us=20000),
        "NLM_ANSWER_AT_ONCE": recipe(6, faults=KILL, slow_disk_us=20000),
        "ANY_CRASH_LOSES": recipe(6, "locks.durable=process", faults=KILL),
        # by crashes of clients, and by forged ones
        "CRASH_KEEPS_WAITERS": crashes, "CRASH_FREES_ANOTHER": crashes,
        "NOTIFY_ANY_ADDRESS": recipe(10, faults=(forge_from_another_host,)),
        "VERIFY_IGNORED": recipe(6, faults=(forge_from_the_same_host,)),
        # by restarts that no client notices
        "WAITER_ORDER_LOST": continued, "CANCEL_NOT_RECORDED": continued, "PASSES_AFTER_RESTART": continued,
        "BLOCKED_ANSWERED_EARLY": continued,
        # by what is repeated
        "DUPLICATE_WAITER": recipe(6, faults=(Nemesis.cut_client, Nemesis.pause_node)),
        "REPEAT_DENIED": recipe(10, "notify.timeout=1", pause_s=0, options=("--forgetful",)),
    }


QUICK = ("SHARED_IS_EXCLUSIVE_BLIND", "QUEUE_DENIES", "UNLOCK_WHOLE")  # a few seconds together


def look(recipe, attempt):
    """What is wrong in this run; '' if nothing is, or if the history cannot be decided."""
    try:
        with World(recipe["config"], f"mutant-{attempt}", **recipe["how"]) as world:
            world.service.dials["alpha"].set_flush(recipe["slow_disk_us"] / 1e6)
            verdict = world.play(recipe["seconds"]).judge()
        return verdict.said.splitlines()[0] if verdict.status == VIOLATION else ""
    except subprocess.TimeoutExpired:
        return "a client does not end"
    except history.Noticed as noticed:
        return str(noticed)


def is_found(name, recipe, tries=TRIES):
    """(how, in which run); ('', tries): not found."""
    with daemon_with(name):
        for attempt in range(tries):
            how = look(recipe, attempt)
            if how:
                return how, attempt + 1
    return "", tries


@contextlib.contextmanager
def daemon_with(name):
    """The worlds that begin in this block get a daemon with the mutant in it."""
    shipped = pathlib.Path(os.environ["HOLDFASTD"])
    with tempfile.TemporaryDirectory(prefix="holdfast-mutant-") as folder:
        os.chmod(folder, 0o755)
        made = Tree(os.environ["HOLDFAST_BUILD"]).program(blocks.named(name), shipped, pathlib.Path(folder))
        os.environ["HOLDFASTD"] = str(made)
        try:
            yield
        finally:
            os.environ["HOLDFASTD"] = str(shipped)


def find(names=()):
    """All mutants, or the named ones, then as many runs of the same recipes without one."""
    wanted = {name: r for name, r in recipes().items() if not names or name in names}
    found, false = 0, 0
    for name, how in wanted.items():
        began = time.monotonic()
        sign, runs = is_found(name, how)
        found += bool(sign)
        print(f"{'found ' if sign else 'MISSED'} {name}, run {runs}, {time.monotonic() - began:.0f} s: {sign}", flush=True)
    for name, how in wanted.items():
        sign = look(how, 0)
        false += bool(sign)
        if sign:
            print(f"FALSE: without a mutant, recipe of {name}: {sign}", flush=True)
    print(f"{found} of {len(wanted)} mutants found; without a mutant {false} of {len(wanted)} runs found something", flush=True)
    return 0 if found == len(wanted) and not false else 1
