"""Mutants as data: small faults in the sources, read from the text files beside this one (mutants.txt says how they are written)."""
import hashlib
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(Path(__file__).parent.glob("*.txt"))
NAMED = re.compile(r"([A-Z][A-Z0-9_]+): (.+)")


@dataclass
class Change:
    file: str
    old: str = ""
    new: str = ""

    def count(self, root=ROOT):
        path = root / self.file
        return path.read_text().count(self.old) if path.exists() else 0


@dataclass
class Mutant:
    number: int
    name: str = ""
    text: str = ""
    suites: list = field(default_factory=list)
    short: bool = False
    why: str = ""
    seed: int = 1
    changes: list = field(default_factory=list)
    result: str = field(default="", compare=False)
    judged: bool = field(default=False, compare=False)

    @property
    def file(self):
        return self.changes[0].file

    def key(self):
        parts = [part for change in self.changes for part in (change.file, change.old, change.new)]
        return hashlib.sha256("\0".join((*self.suites, *parts)).encode()).hexdigest()[:16]

    def lost(self):
        """What is not there exactly once; '' if all is."""
        return next((f"its text is there {change.count()} times in {change.file}" for change in self.changes if change.count() != 1), "")

    def files(self):
        """The changed files, {path below the root: text}."""
        texts = {}
        for change in self.changes:
            text = texts.get(change.file) or (ROOT / change.file).read_text()
            texts[change.file] = text.replace(change.old, change.new)
        return texts

    def __str__(self):
        return f"{self.name} ({self.text})" if self.name else f"{self.number} {self.file}: {self.changes[0].old.strip().splitlines()[0]}"


def add_line(mutant, line, state):
    """state: the file that the lines belong to, and the sign of the line before."""
    sign, rest = line[0], line[1:]
    if sign == "-":
        if state["sign"] != "-":
            mutant.changes.append(Change(state["file"]))
        mutant.changes[-1].old += rest + "\n"
    else:
        mutant.changes[-1].new += rest + "\n"
    state["sign"] = sign


def read_block(lines, number, where):
    mutant = Mutant(number)
    named = NAMED.fullmatch(lines[0])
    if named:
        mutant.name, mutant.text = named.groups()
        lines = lines[1:]
    name, *words = lines[0].split()
    mutant.suites, mutant.short = [w for w in words if w != "short"], "short" in words
    state = {"file": name, "sign": "+"}
    for line in lines[1:]:
        if line.startswith("why:"):
            mutant.why = line[4:].strip()
        elif line.startswith("seed:"):
            mutant.seed = int(line[5:])
        elif line.startswith("@ "):
            state = {"file": line[2:].strip(), "sign": "+"}
        elif line[0] == "-" or (line[0] == "+" and mutant.changes):
            add_line(mutant, line, state)
        else:
            sys.exit(f"{where}: not understood: {line}")
    if not mutant.changes or not mutant.suites:
        sys.exit(f"{where}: a mutant of {name} has no suite or no old text")
    for change in mutant.changes:  # the last line may be the beginning of a line
        change.old, change.new = change.old.removesuffix("\n"), change.new.removesuffix("\n")
    return mutant


def read():
    mutants = []
    for path in FILES:
        for block in re.split(r"\n\s*\n", path.read_text()):
            lines = [line for line in block.splitlines() if not line.startswith("#")]
            if lines:
                mutants.append(read_block(lines, len(mutants) + 1, path.name))
    return mutants


def set_seed(name, seed):
    for path in FILES:
        text = re.sub(rf"(?ms)^({name}: .*?)(?:\nseed: \d+)?(?=\n\s*\n|\s*\Z)", rf"\1\nseed: {seed}", path.read_text(), count=1)
        path.write_text(text)


def named(name):
    return next(mutant for mutant in read() if mutant.name == name)
