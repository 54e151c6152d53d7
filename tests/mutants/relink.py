"""Programs with a mutant in them, made from a build tree that is there already.

Only the changed files are compiled, with the flags of the tree, and only the programs that contain them are linked, into a
folder of the caller's: a second or two for each. The object stands in front of the static library that has the original, so
the linker never takes that; a program that takes nothing of the original is left alone. Neither the sources nor the tree are
touched.
"""
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

from blocks import ROOT


class DoesNotBuild(Exception):
    pass


def without(words, *options):
    """Leaves out options that are followed by a value."""
    kept, skip = [], False
    for word in words:
        if not skip and word not in options:
            kept.append(word)
        skip = word in options
    return kept


class Tree:
    def __init__(self, build):
        self.build = Path(build).resolve()
        self.compiles = defaultdict(list)  # path below the root: [(object, command)]
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            path = (self.build / entry["file"]).resolve()
            if path.is_relative_to(ROOT):
                self.compiles[str(path.relative_to(ROOT))].append((entry["output"], shlex.split(entry["command"])))
        self.programs = {Path(file) for target in self.introspect("--targets") if target["type"] == "executable"
                         for file in target["filename"]}
        self.links, self.traces = {}, {}

    def introspect(self, what):
        return json.loads(subprocess.run(["meson", "introspect", what, self.build], check=True, stdout=subprocess.PIPE).stdout)

    def is_up_to_date(self):
        """A changed file would be compiled against newer headers than the rest of its program."""
        said = subprocess.run(["ninja", "-C", self.build, "-n"], check=True, stdout=subprocess.PIPE, text=True).stdout
        return "no work to do" in said

    def link(self, program):
        """The words of the command that links a program."""
        if program not in self.links:
            said = subprocess.run(["ninja", "-C", self.build, "-t", "commands", "-s", os.path.relpath(program, self.build)],
                                  check=True, stdout=subprocess.PIPE, text=True).stdout
            self.links[program] = shlex.split(said.splitlines()[-1])
        return self.links[program]

    def make(self, command):
        done = subprocess.run(command, cwd=self.build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise DoesNotBuild(done.stdout[-2000:])

    def compile(self, command, name, text, folder):
        source, target = folder / (name.replace("/", "_")), folder / (name.replace("/", "_") + ".o")
        source.write_text(text)
        words = [word for word in without(command, "-o", "-MF", "-MQ", "-c") if word not in ("-MD", "-Werror", "-g")]
        self.make([*words, "-w", "-iquote", str((ROOT / name).parent), "-c", str(source), "-o", str(target)])
        return str(target)

    def parts(self, mutant, program):
        """Which of the mutant's files the program contains: [(file, object, command)]."""
        words = self.link(program)
        return [(name, made, command) for name in mutant.files() for made, command in self.compiles[name]
                if made in words or (os.path.dirname(made).removesuffix(".p") in words and made in self.taken(program))]

    def taken(self, program):
        """The objects that the linker takes from libraries, as it tells them."""
        if program not in self.traces:
            words = self.link(program)
            at = words.index("-o")
            with tempfile.NamedTemporaryFile(prefix="holdfast-trace-") as target:
                said = subprocess.run([*words[:at], "-o", target.name, *words[at + 2:], "-Wl,-t", "-fno-lto"], cwd=self.build, check=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
            self.traces[program] = {os.path.normpath(line.replace("(", "/").rstrip(")")).replace(".a/", ".a.p/")
                                    for line in said.splitlines()}
        return self.traces[program]

    def contains(self, mutant, program):
        return bool(self.parts(mutant, program))

    def program(self, mutant, program, folder):
        """Links a program that contains the mutant; returns its path."""
        folder.mkdir(parents=True, exist_ok=True)
        words, target = self.link(program), folder / program.name
        texts, first = mutant.files(), []
        for name, made, command in self.parts(mutant, program):
            object_file = self.compile(command, name, texts[name], folder)
            if made in words:
                words = [object_file if word == made else word for word in words]
            else:
                first.append(object_file)
        at = words.index("-o")
        self.make([*words[:at], "-o", str(target), *first, *words[at + 2:], "-fno-lto"])
        return target

    def copy(self, program, folder):
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(program, folder / program.name))
