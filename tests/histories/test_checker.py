#!/usr/bin/env python3
"""The checker itself: histories that break a rule are rejected, and the same without the fault are accepted.

Each story is a history (history.h) in which one line, marked with !, is the fault; without that line, or with the
line marked with = in its place, the history is sound.
"""
import os
import subprocess
import tempfile

from holdfast_test import tap

import history

CHECKER = os.environ.get("HOLDFAST_CHECK_HISTORY", "hf-check-history")
YES, NO, NOT_A_HISTORY, UNDECIDED = range(4)


def check(text, *options):
    done = subprocess.run([CHECKER, *options], input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=60)
    return done.returncode, done.stdout.decode()


def expect(story, fault_in=""):
    """Rejected with the lines marked !, accepted with those marked = instead. fault_in: a part of the explanation."""
    lines = [line.strip() for line in story.strip().splitlines()]
    bad = "\n".join(line.lstrip("! ") for line in lines if not line.startswith("=")) + "\n"
    good = "\n".join(line.lstrip("= ") for line in lines if not line.startswith("!")) + "\n"
    status, said = check(bad)
    assert status == NO and "violation" in said and fault_in in said, said
    status, said = check(good)
    assert status == YES, said
    return bad


@tap.test
def two_holders():
    """A lock is granted while another owner holds it; beside it, or after an unlock, it may be."""
    expect("""f 1.1 lock 0 3 x 10 20 granted
              ! f 2.1 lock 3 5 x 30 40 granted
              = f 2.1 lock 4 5 x 30 40 granted""")
    expect("""f 1.1 lock 0 3 s 10 20 granted
              f 2.1 lock 3 5 s 30 40 granted
              ! f 3.1 lock 2 2 x 50 60 granted
              = f 3.1 lock 2 2 s 50 60 granted""")


@tap.test
def the_order_of_overlapping_requests_is_free():
    """Two requests at the same time may take effect in either order; one after the other may not."""
    expect("""f 1.1 lock 0 0 x 10 20 granted
              ! f 1.1 unlock 0 0 x 40 50 granted
              = f 1.1 unlock 0 0 x 25 50 granted
              f 2.1 lock 0 0 x 30 35 granted""")


@tap.test
def a_lost_lock():
    """Granted, never released, and another owner gets it after a restart of the server; or it cannot be reclaimed."""
    expect("""f 1.1 lock 0 7 x 10 20 granted
              f *.* restart 0 7 x 30 40 granted
              ! f 1.1 reclaim 0 7 x 50 60 denied
              = f 1.1 reclaim 0 7 x 50 60 granted""")
    expect("""f 1.1 lock 0 7 x 10 20 granted
              f *.* restart 0 7 x 30 40 granted
              ! f 2.1 lock 5 6 s 50 60 granted
              = f 2.1 lock 5 6 s 50 60 denied""")


@tap.test
def a_refusal_without_a_reason():
    """Denied though no lock is held; waiting requests are no reason (NLM-03)."""
    expect("""f 1.1 lock 0 1 x 10 20 granted
              f 2.1 wait 1 3 x 30 40 blocked
              ! f 3.1 lock 3 3 x 50 60 denied
              = f 3.1 lock 3 3 x 50 60 granted""")


@tap.test
def a_stale_test():
    """TEST names a lock that was released before it was asked, or an owner that does not hold it."""
    expect("""f 1.1 lock 2 4 x 10 20 granted
              f 1.1 unlock 2 4 x 30 40 granted
              ! f 2.1 test 3 3 s 50 60 denied 1.1 2 4 x
              = f 2.1 test 3 3 s 35 60 denied 1.1 2 4 x""")
    expect("""f 1.1 lock 2 4 x 10 20 granted
              ! f 2.1 test 3 3 s 50 60 denied 3.1 2 4 x
              = f 2.1 test 3 3 s 50 60 denied 1.1 2 4 x""")
    expect("""f 1.1 lock 2 4 x 10 20 granted
              ! f 2.1 test 3 3 s 50 60 granted
              = f 2.1 test 5 5 s 50 60 granted""")


@tap.test
def a_grant_that_no_request_waits_for():
    """GRANTED without having waited, or after a CANCEL that was accepted."""
    expect("""f 1.1 lock 0 0 x 10 20 granted
              f 2.1 wait 0 0 x 30 40 blocked
              f 1.1 unlock 0 0 x 60 70 granted
              f 2.1 cancel 0 0 x 80 90 granted
              f 3.1 lock 0 0 x 100 110 granted
              ! f 2.1 grant 0 0 x 30 120 granted
              = f 2.1 grant 0 0 x 30 85 maybe""")


@tap.test
def an_overtaken_waiter():
    """The second waiter is granted while the first, which conflicts with it, still waits."""
    expect("""f 1.1 lock 0 0 x 10 20 granted
              f 2.1 wait 0 0 x 30 40 blocked
              f 3.1 wait 0 0 x 50 60 blocked
              f 1.1 unlock 0 0 x 70 80 granted
              ! f 3.1 grant 0 0 x 50 90 granted
              = f 2.1 grant 0 0 x 30 90 granted
              f 2.1 test 7 7 x 100 110 granted""")


@tap.test
def a_blocked_request_without_a_reason():
    """BLOCKED though nothing is held and no other request waits."""
    expect("""f 1.1 lock 0 0 x 10 20 granted
              f 1.1 unlock 0 0 x 30 40 granted
              ! f 2.1 wait 0 0 x 50 60 blocked
              = f 2.1 wait 0 0 x 35 60 blocked""")


@tap.test
def a_half_applied_unlock():
    """An unlock of a part releases that part and no more."""
    expect("""f 1.1 lock 0 7 x 10 20 granted
              f 1.1 unlock 2 3 x 30 40 granted
              ! f 2.1 lock 3 4 x 50 60 granted
              = f 2.1 lock 2 3 x 50 60 granted""")


@tap.test
def a_crash_frees_everything_of_that_host_and_no_more():
    """CRS-01: locks and waiting requests of a crashed host are gone, those of another are not."""
    expect("""f 1.1 lock 0 3 x 10 20 granted
              f 1.2 lock 4 4 x 10 21 granted
              f 2.1 lock 5 5 x 10 22 granted
              f 1.* crash 0 7 x 30 40 granted
              f 3.1 lock 0 4 x 50 60 granted
              ! f 3.1 lock 5 5 x 70 80 granted
              = f 3.1 lock 5 5 x 70 80 denied""")
    expect("""f 1.1 lock 0 3 x 10 20 granted
              f 1.* crash 0 7 x 30 40 granted
              ! f 3.1 lock 0 4 x 50 60 denied
              = f 3.1 lock 0 4 x 50 60 granted""")


@tap.test
def what_no_client_knows_may_have_happened_or_not():
    """A request whose host was killed explains a refusal, and need not; but not after it was closed by a crash."""
    expect("""f 1.1 lock 0 0 x 10 100 maybe
              f 2.1 lock 0 0 x 30 40 denied
              f 1.* crash 0 7 x 90 100 granted
              ! f 2.1 lock 0 0 x 110 120 denied
              = f 2.1 lock 0 0 x 110 120 granted""")


@tap.test
def a_shared_lock_that_is_reclaimed_may_have_been_exclusive():
    """An upgrade that the owner did not hear of is weakened by the reclaim; what is not held is not made by that."""
    expect("""f 1.1 lock 0 1 s 10 20 granted
              f 1.1 lock 0 1 x 30 100 maybe
              f 2.1 test 0 0 s 32 34 denied 1.1 0 1 x
              f *.* restart 0 7 x 40 50 granted
              f 1.1 reclaim 0 1 s 60 70 granted
              = f 1.1 weaken 0 1 s 60 70 maybe
              f 2.1 lock 0 0 s 80 90 granted""")
    expect("""f *.* restart 0 7 x 40 50 granted
              f 1.1 weaken 0 1 s 60 70 maybe
              ! f 2.1 lock 0 0 x 80 90 denied
              = f 2.1 lock 0 0 x 80 90 granted""")


@tap.test
def files_are_checked_one_by_one():
    """The same cells of two files have nothing to do with each other; the faulty file is named."""
    bad = expect("""f 1.1 lock 0 3 x 10 20 granted
                    g 2.1 lock 0 3 x 30 40 granted
                    ! g 1.1 lock 0 3 x 50 60 granted
                    = g 1.1 lock 0 3 x 50 60 denied""", "file g")
    assert "file f" not in check(bad)[1]


@tap.test
def the_smallest_part_is_shown():
    """Of a long history only what matters is printed, and drawn."""
    noise = "".join(f"f 3.1 lock 7 7 x {n * 10} {n * 10 + 2} granted\nf 3.1 unlock 7 7 x {n * 10 + 4} {n * 10 + 6} granted\n"
                    for n in range(1, 500))
    with tempfile.NamedTemporaryFile(suffix=".svg") as svg:
        status, said = check(noise + "f 1.1 lock 0 3 x 6000 6010 granted\nf 2.1 lock 2 5 s 6020 6030 granted\n",
                             "--picture", svg.name)
        assert status == NO and "1 of 1000 operations" in said and "cell 2 is held by 1.1" in said, said
        picture = open(svg.name, encoding="utf-8").read()
        assert picture.startswith("<svg") and picture.count("<rect") == 2 and "#d03030" in picture, picture


def written(restarts=(), **hosts):
    """The verdict on a history put together from what the lives of each host wrote down."""
    with tempfile.TemporaryDirectory() as folder:
        logs = {}
        for host, lives in hosts.items():
            logs[int(host[4:])] = [f"{folder}/{host}.{life}" for life in range(len(lives))]
            for path, lines in zip(logs[int(host[4:])], lives):
                with open(path, "w", encoding="ascii") as log:
                    log.write("".join(line + "\n" for line in lines))
        history.write(folder + "/history", logs, [history.Restart(*one) for one in restarts], ["f0"])
        with open(folder + "/history", encoding="ascii") as text:
            return check(text.read())


HOLDER = ["i 1 0 f0 lock 0 0 s 10", "c 1 20 granted"]
QUEUED = ["i 1 0 f0 enter 0 0 x 100", "i 2 0 f0 grant 0 0 x 100"]
BEHIND = ["i 1 0 f0 enter 0 0 s 200", "i 2 0 f0 grant 0 0 s 200", "c 1 210 blocked", "c 2 400 granted"]


@tap.test
def a_request_of_a_killed_process_may_wait():
    """A blocking LOCK whose host was killed before the answer came: another request waits behind it until the host is back."""
    crash = ["i 1 * * crash 0 7 x 300", "c 1 310 granted"]
    status, said = written(host1=[QUEUED, crash], host2=[BEHIND], host3=[HOLDER])
    assert status == YES, said
    status, said = written(host2=[BEHIND], host3=[HOLDER])
    assert status == NO, said


@tap.test
def a_cancel_of_a_killed_process_may_have_been_heard():
    """A waiter of a killed host, whose CANCEL was in flight, may be overtaken; one that had not been cancelled may not."""
    waits = [*QUEUED, "c 1 110 blocked"]
    cancel = "i 3 0 f0 cancel 0 0 x 120"
    crash = ["i 1 * * crash 0 7 x 300", "c 1 310 granted"]
    overtakes = ["i 1 0 f0 enter 0 0 s 200", "c 1 210 granted"]
    status, said = written(host1=[[*waits, cancel], crash], host2=[overtakes], host3=[HOLDER])
    assert status == YES, said
    status, said = written(host1=[waits, crash], host2=[overtakes], host3=[HOLDER])
    assert status == NO, said


@tap.test
def the_first_copy_of_a_request_may_wait_until_a_restart():
    """A blocking LOCK that was asked again after a restart of the server: its first copy waited, and others behind it."""
    again = [*QUEUED, "c 1 500 granted", "c 2 500 maybe"]
    behind = ["i 1 0 f0 enter 0 0 s 200", "i 2 0 f0 grant 0 0 s 200", "c 1 210 blocked", "c 2 260 maybe"]
    gone = [*HOLDER, "i 2 0 f0 unlock 0 0 x 400", "c 2 410 granted"]
    status, said = written([(300, 310)], host1=[again], host2=[behind], host3=[gone])
    assert status == YES, said
    status, said = written([], host1=[again], host2=[behind], host3=[gone])
    assert status == NO, said


@tap.test
def a_wait_goes_on_over_a_start_that_continues():
    """1.0 waits for cell 0 when the server starts again. If the start continued, a later request that overtakes it has no order, and one
    that waits behind it needs no other reason; if it did not, it is the other way round."""
    waits = [*QUEUED, "c 1 110 blocked", "c 2 900 granted"]
    gone = [*HOLDER, "i 2 0 f0 unlock 0 0 x 320", "c 2 330 granted"]
    shared = ["i 1 0 f0 lock 0 0 s 15", "c 1 18 granted", "i 2 0 f0 unlock 0 0 s 800", "c 2 810 granted"]
    overtakes = ["i 1 0 f0 enter 0 0 s 400", "c 1 410 granted", "i 2 0 f0 unlock 0 0 s 420", "c 2 430 granted"]
    status, said = written([(300, 310, True)], host1=[waits], host2=[overtakes], host3=[gone])
    assert status == NO, said
    behind = ["i 1 0 f0 enter 0 0 s 400", "i 2 0 f0 grant 0 0 s 400", "c 1 410 blocked", "c 2 950 maybe"]
    queue = {"host1": [[*QUEUED, "c 1 110 blocked", "c 2 950 maybe"]], "host2": [behind], "host3": [gone], "host4": [shared]}
    status, said = written([(300, 310, True)], **queue)
    assert status == YES, said
    status, said = written([(300, 310, False)], **queue)
    assert status == NO, said


@tap.test
def the_first_copy_of_a_request_waits_on_over_a_start_that_continues():
    """A blocking LOCK that is sent again after the restart: its first copy waited, was granted meanwhile, and the second is told so."""
    again = [*QUEUED, "c 1 500 granted", "c 2 505 maybe"]
    behind = ["i 1 0 f0 enter 0 0 s 200", "i 2 0 f0 grant 0 0 s 200", "c 1 210 blocked", "c 2 950 maybe"]
    gone = [*HOLDER, "i 2 0 f0 unlock 0 0 x 400", "c 2 410 granted"]
    status, said = written([(300, 310, True)], host1=[again], host2=[behind], host3=[gone])
    assert status == YES, said
    status, said = written([], host1=[again], host2=[behind], host3=[gone])
    assert status == NO, said


def undone_together(unlock="u 2", other=("r 1 200", "c 1 350 denied"), seen=(280, 290)):
    """1.0 unlocks cell 0, so 2.0 locks cells 0 to 5, so 3.0 is told to wait for cell 5. Then their commit fails: 1.0, which is not
    answered, holds its lock again (4.0 sees it) until its second UNLOCK, and 3.0 is granted its own."""
    return written(host1=[["i 1 0 f0 lock 0 0 x 10", "c 1 20 granted", "i 2 0 f0 unlock 0 0 x 100", unlock, "c 2 500 granted"]],
                   host2=[["i 1 0 f0 lock 0 5 x 110", *other]],
                   host3=[["i 1 0 f0 enter 5 5 x 120", "i 2 0 f0 grant 5 5 x 120", "c 1 150 blocked", "c 2 250 granted"]],
                   host4=[[f"i 1 0 f0 test 0 0 x {seen[0]}", f"c 1 {seen[1]} denied 1.0 0 0 x"]])


@tap.test
def an_unlock_may_have_been_undone():
    """An UNLOCK whose commit failed took effect for a while, in which others were told to wait. One that was answered at once did not."""
    status, said = undone_together()
    assert status == YES, said
    status, said = undone_together(unlock="u 1")
    assert status == NO, said


@tap.test
def what_an_undone_unlock_gives_back_is_held_by_no_other():
    """2.0 was granted what 1.0 is said to hold again; and once the UNLOCK has been granted, 1.0 holds nothing."""
    status, said = undone_together(other=("c 1 190 granted",))
    assert status == NO, said
    status, said = undone_together(seen=(510, 520))
    assert status == NO, said


@tap.test
def only_what_was_released_is_restored():
    """An UNLOCK that is undone makes no lock, neither before it nor after; and it takes effect in the end."""
    expect("""f 1.1 lock 0 0 x 10 20 granted
              f 1.1 unlock 0 0 x 30 40 granted
              ! f 1.1 restore 0 0 x 30 100 maybe
              = f 1.1 lock 0 0 x 30 100 maybe
              f 2.1 lock 0 0 x 50 60 denied""")
    expect("""f 1.1 lock 0 0 x 10 20 granted
              f 1.1 unlock 0 0 x 30 100 granted
              f 1.1 release 0 0 x 30 100 maybe
              f 1.1 restore 0 0 x 30 100 maybe
              f 2.1 test 0 0 x 40 50 granted
              f 2.1 test 0 0 x 60 70 denied 1.1 0 0 x
              ! f 2.1 lock 0 0 x 110 120 denied
              = f 2.1 lock 0 0 x 110 120 granted""")


@tap.test
def bad_input_is_named():
    """A line that is not an operation, and a result that the kind cannot have."""
    for line in ("f 1.1 lock 0", "f 1.1 eat 0 0 x 1 2 granted", "f 1.1 lock 3 2 x 1 2 granted", "f 1.1 lock 0 8 x 1 2 granted",
                 "f 1.1 lock 0 0 x 2 1 granted", "f 1.1 lock 0 0 x 1 2 blocked", "f one lock 0 0 x 1 2 granted"):
        status, said = check(line + "\n")
        assert status == NOT_A_HISTORY and "line 1" in said, (line, said)
    assert check("".join(f"f 1.{n} lock 0 0 s 1 2 granted\n" for n in range(33)))[0] == NOT_A_HISTORY


@tap.test
def a_waiter_that_was_given_up():
    """A waiter is overtaken; unless the server may have given it up because it could not be called back."""
    expect("""f 1.1 lock 0 0 x 10 20 granted
              f 2.1 wait 0 0 x 30 40 blocked
              f 2.1 grant 0 0 x 30 200 maybe
              = f 2.1 leave 0 0 x 50 200 maybe
              f 1.1 unlock 0 0 x 60 70 granted
              f 3.1 enter 0 0 x 80 90 granted""")


@tap.test
def a_grant_that_was_answered_late():
    """1.0 took a grant, and its host stood still before it answered the callback: the server may have given the lock to 2.0."""
    def judged(answered):
        return written(host1=[["i 1 0 f0 enter 0 0 x 10", "i 2 0 f0 grant 0 0 x 10", "c 1 20 blocked", "c 2 30 granted", answered]],
                       host2=[["i 1 0 f0 lock 0 0 x 16000000000", "c 1 16000000100 granted"]],
                       host3=[["i 1 0 f0 lock 0 0 x 1", "c 1 5 granted", "i 2 0 f0 unlock 0 0 x 22", "c 2 25 granted"]])

    status, said = judged("a 2 25000000000")
    assert status == YES, said
    status, said = judged("a 2 40")
    assert status == NO, said


if __name__ == "__main__":
    tap.main()
