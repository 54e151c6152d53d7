"""Runs a program's test functions and prints TAP. A function's docstring is its story.

    @tap.test
    def the_answer_comes_from_the_address_asked():
        '''Given ..., when ..., then ...'''

    tap.main()

A test fails by any exception, is skipped by raising Skip(reason). A line printed with note() is
shown by scripts/run-tests.
"""
import sys
import traceback


class Skip(Exception):
    pass


_tests = []


def test(function):
    _tests.append(function)
    return function


def note(text):
    print("# note: " + text, flush=True)


def comment(text):
    for line in text.splitlines():
        print("#   " + line, flush=True)


def _run(number, function):
    name = f"{number} - {function.__name__}"
    try:
        function()
    except Skip as why:
        print(f"ok {name} # SKIP {why}", flush=True)
        return True
    except Exception:
        print(f"not ok {name}", flush=True)
        comment((function.__doc__ or "").strip())
        comment(traceback.format_exc())
        return False
    print(f"ok {name}", flush=True)
    return True


def run(wanted=None):
    """Runs all tests, or those whose names contain a word of the command line: the exit status."""
    words = sys.argv[1:] if wanted is None else wanted
    chosen = [t for t in _tests if not words or any(word in t.__name__ for word in words)]
    print(f"1..{len(chosen)}", flush=True)
    passed = [_run(i + 1, function) for i, function in enumerate(chosen)]
    return 0 if all(passed) else 1


def main(wanted=None):
    sys.exit(run(wanted))


def skip_all(reason):
    print(f"1..0 # SKIP {reason}", flush=True)
    sys.exit(0)
