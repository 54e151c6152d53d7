#!/usr/bin/env python3
"""check_references.py [--count] [ROOT]

Keeps documents, code and tests in step. Prints TAP; each failing case lists file, line and what is wrong:

- every requirement id (NLM-03) that is named anywhere is defined, once, in docs/reference/SPEC.md;
- every clause of a requirement that docs/reference/SPEC.md does not mark as (planned) is named by a test case: in the docstring of a function
  that tap.test registers, or in the comment above a function that cmocka runs; what the header of a file promises does not count. Clauses are
  marked (a), (b) in the text of the requirement, and named NLM-03a, or NLM-03ac for two of them; a requirement without marks is one clause.
  A clause whose text has "(not tested: REASON)" needs none;
- code and tests name documents that exist: docs/reference/SPEC.md, "SPEC section 4", "SPEC NLM-03", docs/internals/STORE.md;
- links in Markdown files lead to a file, and to a heading where they name one;
- the README.md of each folder of src/ names the source files that the folder has, and no others;
- no cell of a table in a Markdown file has more than 40 words.

Before it looks at the tree, it plants each kind of mistake in a small tree of its own and must find it.
With --count it prints the number of references that lead nowhere, and nothing else.
"""
import ast
import json
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIXES = "NSM|TRK|CRS|STO|NOT|NLM|GRC|RPC|CFG|ADM|HA|SEC|NAM|DUR|PKG|COH"
ID = re.compile(rf"(?<![A-Za-z0-9-])({PREFIXES})-(\d\d)(?:\.\.(\d\d)|([a-j]+)\b)?(?![\d])")
CLAUSE = re.compile(r"\(([a-j])\) ")
DEFINITION = re.compile(rf"^- \*\*((?:{PREFIXES})-\d\d)\*\*(?: \((\w+)\))?: (.*(?:\n {{2,}}\S.*)*)$", re.M)
STATUSES = ("", "planned")
NOT_TESTED = re.compile(r"\(not tested: [^)]{10,}\)")
TEXT_FOLDERS = ("src", "tests", "docs", "proto", "bench", "scripts", "packaging", "man")
CODE_FOLDERS = ("src", "tests", "proto", "bench", "scripts")
SUFFIXES = {".c", ".h", ".x", ".py", ".mjs", ".js", ".html", ".css", ".md", ".build", ".json", ".yml", ".sql", ".in", ""}
SOURCES = {".c", ".h", ".py", ".sql", ".json", ".html", ".js", ".css"}
CELL_WORDS = 40
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
        prefix, first, last, _ = match.groups()
        for number in range(int(first), int(last or first) + 1):
            yield f"{prefix}-{number:02}", match.start()


def clauses_in(text):
    """Each clause that is named, with its offset: an id, or an id and a letter."""
    for match in ID.finditer(text):
        letters = match[4]
        for name, at in ids_in(match[0]):
            yield from ((name + letter, match.start() + at) for letter in letters or [""])


def clauses_of(name, text):
    """The clauses of a requirement, {NLM-03a: its text}; {NLM-03: the whole} if none is marked."""
    marks = list(CLAUSE.finditer(text))
    if not marks:
        return {name: text}
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return {name + mark[1]: text[mark.end():end] for mark, end in zip(marks, ends)}


def defined_ids(root):
    path = root / "docs/reference/SPEC.md"
    return DEFINITION.findall(path.read_text()) if path.exists() else []


# ---- the checks: each returns a list of sentences about what is wrong ----

def ids_are_defined_once_with_a_status(root):
    wrong, seen = [], set()
    rows = defined_ids(root)
    if not rows:
        return ["docs/reference/SPEC.md: defines no id"]
    for name, status, _ in rows:
        if name in seen:
            wrong.append(f"docs/reference/SPEC.md: {name} is defined twice")
        if status not in STATUSES:
            wrong.append(f"docs/reference/SPEC.md: {name} is marked {status!r}; only 'planned' is known")
        seen.add(name)
    return wrong


def named_ids_are_defined(root):
    defined = {clause for name, _, text in defined_ids(root) for clause in (name, *clauses_of(name, text))}
    return [f"{path}:{line_of(text, at)}: {name} is not defined in docs/reference/SPEC.md"
            for path, text in text_files(root, TEXT_FOLDERS) if not path.startswith(OURSELVES)
            for name, at in clauses_in(text) if name not in defined]


def clauses_are_marked_in_order(root):
    wrong = []
    for name, _, text in defined_ids(root):
        letters = CLAUSE.findall(text)
        if letters != [chr(ord("a") + i) for i in range(len(letters))] or len(letters) == 1:
            wrong.append(f"docs/reference/SPEC.md: the clauses of {name} are {', '.join(letters)}, not a, b, ...")
    return wrong


def is_test(decorator):
    return ast.unparse(decorator).split("(")[0] in ("tap.test", "story")


def stories(path, text):
    """What each test case of a file says of itself: the docstring of a function that tap.test registers (or as a story for several
    versions), or the comment above a test function that cmocka runs."""
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and any(map(is_test, node.decorator_list)):
                yield ast.get_docstring(node) or ""
    elif path.endswith(".c"):
        for comment, name in re.findall(r"/\*((?:(?!\*/).)*)\*/\s*static void (\w+)\(void \*\*state\)", text, re.S):
            if re.search(rf"\b\w+\(\s*{name}\s*[,)]", text):  # in the list of tests
                yield comment


def implemented_clauses_are_tested(root):
    tested = {name for path, text in text_files(root, ["tests"])
              if path.startswith("tests/") and not path.startswith(OURSELVES)
              for story in stories(path, text) for name, _ in clauses_in(story)}
    return [f"docs/reference/SPEC.md: {clause} is not marked as planned, and no test case names it"
            for name, status, what in defined_ids(root) if not status
            for clause, text in clauses_of(name, what).items() if clause not in tested and not NOT_TESTED.search(text)]


def headings(text):
    return re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)


def slug(heading):
    """The anchor that GitHub makes of a heading."""
    plain = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def spec_sections(root):
    path = root / "docs/reference/SPEC.md"
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
            places = [root / match[0], (root / path).parent / match[0], *root.glob(f"docs/*/{match[0]}")]
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
    """The files that a README lists: the names in the first column of each table. `name.[ch]` stands for both."""
    listed = set()
    for line in text.splitlines():
        if line.startswith("| `"):
            for name in re.findall(r"`([^`]+)`", line.split("|")[1]):
                listed |= {name.replace("[ch]", suffix) for suffix in "ch"} if name.endswith(".[ch]") else {name}
    return listed


def source_files_are_described(root):
    wrong, folders = [], {}
    for file in (root / "src").rglob("*"):
        if file.is_file() and file.suffix in SOURCES and "__pycache__" not in file.parts:
            folders.setdefault(file.parent, set()).add(file.name)
    for readme in (root / "src").rglob("README.md"):
        folders.setdefault(readme.parent, set())
    for folder, there in sorted(folders.items()):
        name = (folder / "README.md").relative_to(root).as_posix()
        listed = listed_sources((root / name).read_text()) if (root / name).exists() else set()
        wrong += [f"{name}: does not say what {file} does" for file in sorted(there - listed)]
        wrong += [f"{name}: there is no {file}" for file in sorted(listed - there)]
    return wrong


def cells_are_short(root):
    return [f"{path}:{number}: a cell of {len(cell.split())} words; make it a paragraph, or a list"
            for path, text in text_files(root, TEXT_FOLDERS) if path.endswith(".md")
            for number, line in enumerate(text.splitlines(), 1) if line.startswith("|")
            for cell in re.split(r"(?<!\\)\|", line) if len(cell.split()) > CELL_WORDS]


def administration_is_listed(root):
    """SPEC section 7 names every command of holdfastctl and every path of REST, and no others."""
    spec, program, api = (root / name for name in ("docs/reference/SPEC.md", "src/ctl/main.c", "src/admin/openapi.json"))
    if not (program.exists() and api.exists()):
        return []
    rest = re.search(r"^- \*\*REST\*\*.*?(?=^- )", spec.read_text(), re.M | re.S)[0]
    commands = re.search(r"^- \*\*holdfastctl\*\*.*?;", spec.read_text(), re.M | re.S)[0]
    named = {"commands": set(re.findall(r"`([a-z]+)[^`]*`", commands)),
             "paths": {word for quoted in re.findall(r"`([^`]*)`", rest) for word in re.split(r"[\s,]+", quoted) if re.fullmatch(r"[a-z][\w{}/.-]*", word)}}
    there = {"commands": set(re.findall(r'^    \{"([a-z]+)", "', program.read_text(), re.M)),
             "paths": {path.removeprefix("/api/v1/") for path in json.loads(api.read_text())["paths"] if path.startswith("/api/")}}
    named["paths"].discard("src/admin/openapi.json")
    wrong = [f"docs/reference/SPEC.md: section 7 does not name {one!r} of the {kind}" for kind in there for one in sorted(there[kind] - named[kind])]
    return wrong + [f"docs/reference/SPEC.md: section 7 names {one!r}, which is none of the {kind}" for kind in there for one in sorted(named[kind] - there[kind])]


CHECKS = [ids_are_defined_once_with_a_status, named_ids_are_defined, clauses_are_marked_in_order,
          implemented_clauses_are_tested, documents_exist,
          links_resolve, source_files_are_described, cells_are_short, administration_is_listed]


# ---- the checks, checked: a small tree that is right, and each mistake in turn ----

GOOD = {
    "README.md": "See [the contract](docs/reference/SPEC.md), [locks](docs/reference/SPEC.md#2-locks-and-more).\n",
    "docs/reference/SPEC.md": ("# Spec\n## 1. First\n\n- **NLM-01**: one\n- **NLM-02** (planned): two\n"
                     "- **NLM-03**: three (not tested: needs another machine)\n"
                     "- **NLM-05**: (a) five; (b) six; (c) seven (not tested: needs another machine)\n\n## 2. Locks, and `more`\n"),
    "src/core/README.md": "# Map\n| file | does |\n|---|---|\n| `lock.[ch]` | locks |\n",
    "src/core/lock.c": "/* LOCK (NLM-01..03, SPEC sections 1 and 2; SPEC\n * section 2; SPEC NLM-02; docs/reference/SPEC.md) */\n",
    "src/core/lock.h": "/* UTF-8, CVE-2000-01, SHA-25 are no ids. */\n",
    "tests/test_lock.py": '@tap.test\ndef one():\n    """NLM-01, NLM-05ab."""\n',
    "tests/test_lock.c": "/* NLM-05a */\nstatic void one(void **state)\n{\n}\nT(one),\n",
}

SECTION_7 = {"docs/reference/SPEC.md": GOOD["docs/reference/SPEC.md"] +
             "\n- **REST** under `/api/v1`: `GET locks`.\n- **holdfastctl** (NLM-01): `status`; tables\n",
             "src/admin/openapi.json": '{"paths": {"/api/v1/locks": {}}}'}

MISTAKES = [
    ("a command is not in the list", "src/ctl/main.c", '    {"status", ""},\n    {"top", ""},\n', administration_is_listed, "does not name 'top'"),
    ("a command is in the list that is none", "src/ctl/main.c", '    {"locks", ""},\n', administration_is_listed, "names 'status', which is none"),
    # what is done wrong; the file, its text; the check that must find it; a part of what it says
    ("an id is named that is not defined", "src/core/lock.h", "/* NLM-09 */", named_ids_are_defined, "lock.h:1: NLM-09"),
    ("a range of ids goes too far", "tests/test_lock.py", "\n# NLM-01..04", named_ids_are_defined, "py:2: NLM-04"),
    ("an id is defined twice", "docs/reference/SPEC.md", GOOD["docs/reference/SPEC.md"] + "- **NLM-01** (planned): again\n",
     ids_are_defined_once_with_a_status, "NLM-01 is defined twice"),
    ("a mark is unknown", "docs/reference/SPEC.md", GOOD["docs/reference/SPEC.md"].replace("planned", "later"),
     ids_are_defined_once_with_a_status, "'later'"),
    ("SPEC is missing", "docs/reference/SPEC.md", None, ids_are_defined_once_with_a_status, "defines no id"),
    ("an implemented id has no test", "tests/test_lock.py", '@tap.test\ndef one():\n    """Locks."""\n',
     implemented_clauses_are_tested, "NLM-01"),
    ("a clause has no test", "tests/test_lock.py", '@tap.test\ndef one():\n    """NLM-01, NLM-05a."""\n',
     implemented_clauses_are_tested, "NLM-05b"),
    ("the whole stands for a clause", "tests/test_lock.py", '@tap.test\ndef one():\n    """NLM-01, NLM-05."""\n',
     implemented_clauses_are_tested, "NLM-05b"),
    ("a clause is named that is not there", "tests/test_lock.py", "# NLM-05ad", named_ids_are_defined, "NLM-05d"),
    ("a function that is no test names an id", "tests/test_lock.py",
     '@property\ndef one():\n    """NLM-01, NLM-05ab."""\n', implemented_clauses_are_tested, "NLM-01"),
    ("clauses are out of order", "docs/reference/SPEC.md", GOOD["docs/reference/SPEC.md"].replace("(b) six", "(d) six"),
     clauses_are_marked_in_order, "NLM-05"),
    ("clauses of a list are out of order", "docs/reference/SPEC.md", GOOD["docs/reference/SPEC.md"].replace("; (b) six", "\n  - (d) six"),
     clauses_are_marked_in_order, "NLM-05 are a, d, c"),
    ("only a file's header names an id", "tests/test_lock.py", '"""NLM-01."""\n@tap.test\ndef one():\n    """Locks."""\n',
     implemented_clauses_are_tested, "NLM-01"),
    ("a reason for no test is empty", "docs/reference/SPEC.md", GOOD["docs/reference/SPEC.md"].replace("needs another machine", ""),
     implemented_clauses_are_tested, "NLM-03"),
    ("a section does not exist", "src/core/lock.c", "/* SPEC section 7 */", documents_exist, "no section 7"),
    ("a second section does not exist", "src/core/lock.c", "/* SPEC sections 1 and\n * 9 */", documents_exist,
     "no section 9"),
    ("a document is named that does not exist", "src/core/lock.c", "/*\n * See docs/CODE.md. */", documents_exist,
     "lock.c:2: there is no docs/CODE.md"),
    ("SPEC alone is no reference", "tests/test_lock.py", "# NLM-01, as SPEC says", documents_exist, "SPEC is no document"),
    ("PROTOCOL is no document", "src/core/lock.c", "/* (PROTOCOL) */", documents_exist, "PROTOCOL is no document"),
    ("a link leads nowhere", "README.md", "[code](docs/CODE.md)", links_resolve, "docs/CODE.md leads nowhere"),
    ("a link names a heading that does not exist", "README.md", "\n[x](docs/reference/SPEC.md#3-more)", links_resolve,
     "README.md:2: docs/reference/SPEC.md has no heading #3-more"),
    ("a source file is not described", "src/core/new.c", "", source_files_are_described,
     "src/core/README.md: does not say what new.c does"),
    ("a described file does not exist", "src/core/lock.c", None, source_files_are_described, "no lock.c"),
    ("a folder has no description", "src/core/README.md", None, source_files_are_described, "what lock.c does"),
    ("a cell is a paragraph", "README.md", "| a |\n|---|\n| " + "word " * 41 + "|\n", cells_are_short, "README.md:3: a cell of 41"),
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
            said = check(plant(folder, GOOD | (SECTION_7 if check is administration_is_listed else {}) | {name: text}))
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
