#!/usr/bin/env python3
"""The program that runs the tests (scripts/run-tests) fails when a result cannot be trusted.

Each story gives it a test program that behaves badly, and reads its exit status and last lines.
"""
import importlib.machinery
import importlib.util
import io
import pathlib
import re
import sys
import tempfile
from contextlib import redirect_stdout
from unittest import mock

from holdfast_test import tap

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "scripts/run-tests"


def load():
    loader = importlib.machinery.SourceFileLoader("run_tests", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


runner = load()


def run(script, suite="nlm", name="example", protocol="tap", timeout=20):
    """Runs one shell script as a test: the exit status of a whole run, and what it printed."""
    test = {"name": name, "suite": [suite], "protocol": protocol, "cmd": ["sh", "-c", script], "env": {}, "workdir": None,
            "timeout": timeout}
    expected = [("example", re.compile("^known reason$"))]
    total, said = runner.Tally(), io.StringIO()
    with redirect_stdout(said):
        runner.run_lanes([test], "/", total)
        status = runner.conclude(total, expected, False)
    return status, said.getvalue()


def fails(script, because, **kinds):
    status, said = run(script, **kinds)
    assert status == 1, said
    assert because in said, said


@tap.test
def a_test_that_reports_what_it_planned_passes():
    status, said = run("echo 1..2; echo ok 1 - a; echo ok 2 - b")
    assert status == 0 and said.endswith("2 passed, 0 failed, 0 skipped\n"), said


@tap.test
def two_plans_are_added_up():
    """cmocka prints a plan for each group of tests."""
    status, said = run("echo 1..1; echo ok 1 - a; echo 1..2; echo ok 1 - b; echo ok 2 - c")
    assert status == 0 and said.endswith("3 passed, 0 failed, 0 skipped\n"), said


@tap.test
def a_test_that_reports_fewer_cases_than_planned_fails():
    fails("echo 1..5; echo ok 1 - a", "it planned 5 cases and reported 1")


@tap.test
def a_test_that_prints_nothing_fails():
    fails("true", "it printed no plan")


@tap.test
def a_failed_case_fails_the_run_although_the_program_ends_well():
    fails("echo 1..1; echo not ok 1 - a", "0 passed, 1 failed")


@tap.test
def a_program_that_ends_badly_after_good_cases_fails():
    fails("echo 1..1; echo ok 1 - a; exit 3", "exit status 3 although no case failed")


@tap.test
def a_test_that_does_not_end_is_ended_and_fails():
    fails("echo 1..1; exec sleep 60", "ended because it printed nothing for 0.2 s", timeout=0.2)


@tap.test
def a_test_that_tells_of_its_cases_has_more_time():
    """On a busy machine a test takes longer, and still makes progress."""
    status, said = run("echo 1..2; sleep 1.5; echo ok 1 - a; sleep 1.5; echo ok 2 - b", timeout=2)
    assert status == 0, said


@tap.test
def a_test_that_prints_for_ever_is_ended_and_fails():
    fails("echo 1..1; while sleep 0.05; do echo; done", "ended because", timeout=0.2)


@tap.test
def a_skip_that_is_not_expected_fails():
    fails("echo '1..0 # SKIP needs root'", "example was skipped (needs root)")
    fails("echo 1..2; echo ok 1 - a; echo 'ok 2 - b # SKIP no network'", "example was skipped (b: no network)")
    fails("echo '1..0 # SKIP known reason'", "other was skipped", name="other")


@tap.test
def a_skip_that_is_expected_passes_beside_a_case_that_ran():
    """A run in which nothing but skips happened has tested nothing."""
    total = runner.Tally()
    total.passed, total.skips = 1, [("example", "known reason")]
    expected = [("example", re.compile("^known reason$"))]
    with redirect_stdout(io.StringIO()):
        assert runner.conclude(total, expected, False) == 0
        total.passed = 0
        assert runner.conclude(total, expected, False) == 1


@tap.test
def a_test_that_passes_only_when_repeated_fails_the_run():
    with tempfile.TemporaryDirectory() as folder:
        script = f"echo 1..1; if mkdir {folder}/second; then echo not ok 1 - a; else echo ok 1 - a; fi"
        fails(script, "example is unstable", suite="admin")


@tap.test
def suites_that_look_for_lost_locks_have_no_second_try():
    with tempfile.TemporaryDirectory() as folder:
        script = f"echo 1..1; if mkdir {folder}/second; then echo not ok 1 - a; else echo ok 1 - a; fi"
        fails(script, "0 passed, 1 failed")
    assert not runner.AGAIN & {"sim", "histories", "store", "nlm", "nsm", "ha", "fuzz", "differential"}


@tap.test
def only_what_the_chosen_tests_need_is_built():
    targets = [{"id": "a", "filename": ["/b/tests/a"]}, {"id": "c", "filename": ["/b/src/c.so", "/b/src/c.map"]},
               {"id": "fuzzer", "filename": ["/b/tests/fuzz/f"]}]
    for needed, built in ((["a", "c"], [["ninja", "-C", "/b", "tests/a", "src/c.so", "src/c.map"]]), ([], [])):
        called = []
        with mock.patch.object(runner, "introspect", lambda build, what: targets), \
                mock.patch.object(runner.subprocess, "run", lambda command, check: called.append(command)):
            runner.build_for([{"depends": needed}, {"depends": []}], "/b")
        assert called == built, called


@tap.test
def the_list_of_expected_skips_can_be_read():
    expected = runner.read_expected_skips()
    assert runner.is_expected("oci", "takes a minute: make boot", expected)
    assert not runner.is_expected("oci", "needs root", expected)


@tap.test
def a_program_without_tap_is_judged_by_its_exit_status():
    assert run("echo hello", protocol="exitcode")[0] == 0
    fails("exit 1", "0 passed, 1 failed", protocol="exitcode")


if __name__ == "__main__":
    sys.exit(tap.run())
