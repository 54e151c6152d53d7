#!/usr/bin/env python3
"""check_references.py [--count] [ROOT]

Keeps documents, code and tests in step. Prints TAP; each failing case lists file, line and what is wrong:

- every requirement id (NLM-03) that is named anywhere is defined, once, in docs/SPEC.md;
- every id that docs/SPEC.md calls implemented is named by a test case (in its docstring, or in the comment above it; what the
  header of a file promises does not count), or its text has "(not tested: REASON)";
- code and tests name documents that exist: docs/SPEC.md, "SPEC section 4", "SPEC NLM-03", docs/STORE.md;
- links in Markdown files lead to a file, and to a heading where they name one;
- the tables of files in docs/ARCHITECTURE.md name the source files that exist, and no others.

Before it looks at the tree, it plants each kind of mistake in a small tree of its own and must find it.
With --count it prints the number of references that lead nowhere, and nothing else.
"""
import ast
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIXES = "NSM|TRK|CRS|STO|NOT|NLM|GRC|RPC|CFG|ADM|HA|SEC|NAM|DUR|PKG"
ID = re.compile(rf"(?<![A-Za-z0-9-])({PREFIXES})-(\d\d)(?:\.\.(\d\d))?(?![\d])")
DEFINITION = re.compile(rf"^\| ((?:{PREFIXES})-\d\d) \| (\w+) \| (.*) \|$", re.M)
STATUSES = ("implemented", "planned")
NOT_TESTED = re.compile(r"\(not tested: [^)]{10,}\)")
TEXT_FOLDERS = ("src", "tests", "docs", "proto", "bench", "scripts", "packaging", "man")
CODE_FOLDERS = ("src", "tests", "proto", "bench", "scripts")
SUFFIXES = {".c", ".h", ".x", ".py", ".mjs", ".js", ".html", ".css", ".md", ".build", ".json", ".yml", ".sql", ".in", ""}
SOURCES = {".c", ".h", ".py", ".sql", ".json", ".html", ".js", ".css"}
OURSELVES = "tests/docs/"  # names documents and ids that must not exist


def text_files(root, folders):
    """Each file of these folders, and of the root itself, that people write: its path in the tree, and its text."""
    found = [path for path in root.iterdir() if path.is_file()]
    for folder in folders:
        found += (root / folder).rglob("*")
    for path in sorted(found):
        name = path.relative_to(root).as_posix()
        if not path.is_file() or path.suffix not in SUFFIXES or "node_modules" in name or "__pycache__" in name:
            continue
        try:
            yield name, path.read_text()
        except UnicodeDecodeError:
            continue


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def ids_in(text):
    """Each id that is named, with its offset; NOT-01..03 names three."""
    for match in ID.finditer(text):
        prefix, first, last = match.groups()
        for number in range(int(first), int(last or first) + 1):
            yield f"{prefix}-{number:02}", match.start()


def defined_ids(root):
    path = root / "docs/SPEC.md"
    return DEFINITION.findall(path.read_text()) if path.exists() else []


# ---- the checks: each returns a list of sentences about what is wrong ----

def ids_are_defined_once_with_a_status(root):
    wrong, seen = [], set()
    rows = defined_ids(root)
    if not rows:
        return ["docs/SPEC.md: defines no id"]
    for name, status, _ in rows:
        if name in seen:
            wrong.append(f"docs/SPEC.md: {name} is defined twice")
        if status not in STATUSES:
            wrong.append(f"docs/SPEC.md: {name} has status {status!r}, not one of {', '.join(STATUSES)}")
        seen.add(name)
    return wrong


def named_ids_are_defined(root):
    defined = {name for name, _, _ in defined_ids(root)}
    return [f"{path}:{line_of(text, at)}: {name} is not defined in docs/SPEC.md"
            for path, text in text_files(root, TEXT_FOLDERS) if not path.startswith(OURSELVES)
            for name, at in ids_in(text) if name not in defined]


def stories(path, text):
    """What each test case of a file says of itself: the docstring of a function that a decorator makes a test, or the
    comment above a test function of cmocka."""
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                yield ast.get_docstring(node) or ""
    elif path.endswith(".c"):
        yield from re.findall(r"/\*((?:(?!\*/).)*)\*/\s*static void \w+\(void \*\*state\)", text, re.S)


def implemented_ids_are_tested(root):
    tested = {name for path, text in text_files(root, ["tests"])
              if path.startswith("tests/") and not path.startswith(OURSELVES)
              for story in stories(path, text) for name, _ in ids_in(story)}
    return [f"docs/SPEC.md: {name} is implemented, but no test case names it"
            for name, status, what in defined_ids(root)
            if status == "implemented" and name not in tested and not NOT_TESTED.search(what)]


def headings(text):
    return re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)


def slug(heading):
    """The anchor that GitHub makes of a heading."""
    plain = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def spec_sections(root):
    path = root / "docs/SPEC.md"
    return set(re.findall(r"^## (\d+)\.", path.read_text(), re.M)) if path.exists() else set()


def unwrap(text):
    """The text with a comment's line breaks as blanks, of the same length, so that offsets stay true."""
    return re.sub(r"\n[ \t]*(?:\*(?!/)|#|//)?[ \t]*", lambda match: " " * len(match[0]), text)


def documents_exist(root):
    wrong = []
    sections = spec_sections(root)
    for path, original in text_files(root, CODE_FOLDERS):
        if path.startswith(OURSELVES):
            continue
        text = unwrap(original)
        for match in re.finditer(r"[\w./-]*\b[A-Z][A-Z-]*\.md\b", text):
            places = [root / match[0], root / "docs" / match[0], (root / path).parent / match[0]]
            if not any(place.exists() for place in places):
                wrong.append(f"{path}:{line_of(original, match.start())}: there is no {match[0]}")
        if path.endswith(".md"):
            continue
        for match in re.finditer(r"(?<![\w/.-])(SPEC|PROTOCOL|ARCHITECTURE|PROTOCOL-NOTES)\b(?!\.md|[\w-]|\s*=|\.split)", text):
            after = text[match.end():match.end() + 60]
            numbers = re.match(r" +(?:sections? +)?(\d+(?:(?:,| and| to|, and) +\d+)*)\b", after)
            if match[1] == "SPEC" and numbers:
                missing = set(re.findall(r"\d+", numbers[1])) - sections
                if missing:
                    wrong.append(f"{path}:{line_of(original, match.start())}: SPEC has no section {', '.join(missing)}")
            elif not (match[1] == "SPEC" and re.match(r" +" + ID.pattern[len(r'(?<![A-Za-z0-9-])'):], after)):
                wrong.append(f"{path}:{line_of(original, match.start())}: {match[1]} is no document; "
                             "name docs/NAME.md, or a section or id of SPEC")
    return wrong


def links_resolve(root):
    wrong = []
    for path, text in text_files(root, TEXT_FOLDERS):
        if not path.endswith(".md"):
            continue
        shown = re.sub(r"^```.*?^```", lambda match: "\n" * match[0].count("\n"), text, flags=re.M | re.S)
        for match in re.finditer(r"\]\(([^)\s]+)\)", shown):
            target, _, anchor = match[1].partition("#")
            if re.match(r"\w+:", target):
                continue
            place = (root / path).parent / target if target else root / path
            if not place.exists():
                wrong.append(f"{path}:{line_of(shown, match.start())}: {match[1]} leads nowhere")
            elif anchor and anchor not in [slug(heading) for heading in headings(place.read_text())]:
                wrong.append(f"{path}:{line_of(shown, match.start())}: {target or path} has no heading #{anchor}")
    return wrong


def listed_sources(text):
    """The files that ARCHITECTURE lists: under a heading that names a folder of src/, the names in the first
    column of each table. `name.[ch]` stands for both."""
    folder, listed = None, set()
    for line in text.splitlines():
        if line.startswith("#"):
            match = re.search(r"`(src(?:/[\w/]+)?)/?`", line)
            folder = match[1] if match else None
        elif folder and line.startswith("| `"):
            for name in re.findall(r"`([^`]+)`", line.split("|")[1]):
                for suffix in "ch" if name.endswith(".[ch]") else [None]:
                    listed.add(f"{folder}/" + (name.replace("[ch]", suffix) if suffix else name))
    return listed


def source_files_are_described(root):
    path = root / "docs/ARCHITECTURE.md"
    listed = listed_sources(path.read_text()) if path.exists() else set()
    there = {file.relative_to(root).as_posix() for file in (root / "src").rglob("*")
             if file.is_file() and file.suffix in SOURCES and "__pycache__" not in file.parts}
    return ([f"docs/ARCHITECTURE.md: does not say what {name} does" for name in sorted(there - listed)] +
            [f"docs/ARCHITECTURE.md: there is no {name}" for name in sorted(listed - there)])


CHECKS = [ids_are_defined_once_with_a_status, named_ids_are_defined, implemented_ids_are_tested, documents_exist,
          links_resolve, source_files_are_described]


# ---- the checks, checked: a small tree that is right, and each mistake in turn ----

GOOD = {
    "README.md": "See [the contract](docs/SPEC.md), [locks](docs/SPEC.md#2-locks-and-more).\n",
    "docs/SPEC.md": ("# Spec\n## 1. First\n| id | status | text |\n|---|---|---|\n"
                     "| NLM-01 | implemented | one |\n| NLM-02 | planned | two |\n"
                     "| NLM-03 | implemented | three (not tested: needs another machine) |\n## 2. Locks, and `more`\n"),
    "docs/ARCHITECTURE.md": "# Map\n### `src/core`\n| file | does |\n|---|---|\n| `lock.[ch]` | locks |\n",
    "src/core/lock.c": "/* LOCK (NLM-01..03, SPEC sections 1 and 2; SPEC\n * section 2; SPEC NLM-02; docs/SPEC.md) */\n",
    "src/core/lock.h": "/* UTF-8, CVE-2000-01, SHA-25 are no ids. */\n",
    "tests/test_lock.py": '@tap.test\ndef one():\n    """NLM-01."""\n',
}

MISTAKES = [
    # what is done wrong; the file, its text; the check that must find it; a part of what it says
    ("an id is named that is not defined", "src/core/lock.h", "/* NLM-09 */", named_ids_are_defined, "lock.h:1: NLM-09"),
    ("a range of ids goes too far", "tests/test_lock.py", "\n# NLM-01..04", named_ids_are_defined, "py:2: NLM-04"),
    ("an id is defined twice", "docs/SPEC.md", GOOD["docs/SPEC.md"] + "| NLM-01 | planned | again |\n",
     ids_are_defined_once_with_a_status, "NLM-01 is defined twice"),
    ("a status is unknown", "docs/SPEC.md", GOOD["docs/SPEC.md"].replace("planned", "later"),
     ids_are_defined_once_with_a_status, "'later'"),
    ("SPEC is missing", "docs/SPEC.md", None, ids_are_defined_once_with_a_status, "defines no id"),
    ("an implemented id has no test", "tests/test_lock.py", '@tap.test\ndef one():\n    """Locks."""\n',
     implemented_ids_are_tested, "NLM-01"),
    ("only a file's header names an id", "tests/test_lock.py", '"""NLM-01."""\n@tap.test\ndef one():\n    """Locks."""\n',
     implemented_ids_are_tested, "NLM-01"),
    ("a reason for no test is empty", "docs/SPEC.md", GOOD["docs/SPEC.md"].replace("needs another machine", ""),
     implemented_ids_are_tested, "NLM-03"),
    ("a section does not exist", "src/core/lock.c", "/* SPEC section 7 */", documents_exist, "no section 7"),
    ("a second section does not exist", "src/core/lock.c", "/* SPEC sections 1 and\n * 9 */", documents_exist,
     "no section 9"),
    ("a document is named that does not exist", "src/core/lock.c", "/*\n * See docs/CODE.md. */", documents_exist,
     "lock.c:2: there is no docs/CODE.md"),
    ("SPEC alone is no reference", "tests/test_lock.py", "# NLM-01, as SPEC says", documents_exist, "SPEC is no document"),
    ("PROTOCOL is no document", "src/core/lock.c", "/* (PROTOCOL) */", documents_exist, "PROTOCOL is no document"),
    ("a link leads nowhere", "README.md", "[code](docs/CODE.md)", links_resolve, "docs/CODE.md leads nowhere"),
    ("a link names a heading that does not exist", "README.md", "\n[x](docs/SPEC.md#3-more)", links_resolve,
     "README.md:2: docs/SPEC.md has no heading #3-more"),
    ("a source file is not described", "src/core/new.c", "", source_files_are_described, "what src/core/new.c does"),
    ("a described file does not exist", "src/core/lock.c", None, source_files_are_described, "no src/core/lock.c"),
]


def plant(folder, tree):
    for name, text in tree.items():
        if text is not None:
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return pathlib.Path(folder)


def self_test():
    """(name of the case, what went wrong) for each mistake, and for the tree without one."""
    with tempfile.TemporaryDirectory() as folder:
        root = plant(folder, GOOD)
        yield "a tree without a mistake passes", [said for check in CHECKS for said in check(root)]
    for what, name, text, check, expected in MISTAKES:
        with tempfile.TemporaryDirectory() as folder:
            said = check(plant(folder, GOOD | {name: text}))
            yield f"found: {what}", [] if any(expected in line for line in said) else [
                f"expected {expected!r}, but it said {said}"]


def main(arguments):
    counting = "--count" in arguments
    roots = [argument for argument in arguments if argument != "--count"]
    root = pathlib.Path(roots[0]).resolve() if roots else ROOT
    if counting:
        print(len(named_ids_are_defined(root)) + len(documents_exist(root)) + len(links_resolve(root)))
        return 0
    results = list(self_test()) + [(check.__name__, check(root)) for check in CHECKS]
    print(f"1..{len(results)}")
    for number, (name, wrong) in enumerate(results, 1):
        print(f"{'not ok' if wrong else 'ok'} {number} - {name.replace('_', ' ')}")
        for line in wrong:
            print(f"# {line}")
    return 1 if any(wrong for _, wrong in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
