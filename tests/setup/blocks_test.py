"""Every block of code in README.md and docs/*.md works after the quick start.

What it proves: a reader who has run scripts/quickstart.sh can paste the blocks
of a document in their order, in the project's folder, with a program of his own
at hand. `sh` blocks are run; they must end with status 0 and without a line of
tjit's on stderr, and what they say tjit did must have been done. `cmake` and
`cpp` blocks are compiled, together, against an installed tjit, and the program
run. `python` blocks are programs, and what they switch on must have replayed.
`yaml` blocks are files of options that tjit must accept. `text` is not run: what programs print, and what cannot be run here, with the reason beside
it. There is no other language.

The folder of a document holds the project's folders, ./program (own_program.cpp),
train.py, and in build/release what the targets of
scripts/quickstart.sh leave and nothing else. The script itself is run for real,
in the build folder under test, where that is one of a preset.

Usage: blocks_test.py PROJECT_FOLDER BUILD_FOLDER TORCH_FOLDER TJIT_TORCH
                      [unittest arguments]
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "acceptance"))
from clean_environment import environment  # noqa: E402
from torch_python import torch_python  # noqa: E402

PROJECT = BUILD = TORCH = CHOICE = None
FOLDERS = ("bench", "cmake", "compiler", "docs", "examples", "recorder",
           "runtime", "tests", "tools")
LANGUAGES = ("sh", "cmake", "cpp", "python", "yaml", "text")

# What the C++ blocks take for granted.
PRELUDE = """#include <torch/torch.h>

static std::vector<torch::Tensor> data(30, torch::ones({8, 8}));
static void train(torch::Tensor& batch) { batch.mul_(0.5).add_(1).relu_(); }
"""
# And the Python blocks.
PYTHON_PRELUDE = """import torch
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
data = [torch.ones(4, 8)] * 800

def train(batch):
    sgd.zero_grad()
    model(batch).pow(2).sum().backward()
    sgd.step()
"""
PROJECT_LINES = """cmake_minimum_required(VERSION 3.25)
project(program LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
add_executable(program main.cpp)
target_compile_options(program PRIVATE -include prelude.h)
target_include_directories(program PRIVATE .)
"""


def blocks_of(document):
    """(line, language, text) of each fenced block."""
    blocks, language = [], None
    for number, line in enumerate(document.read_text().splitlines(), 1):
        if language is not None and line.strip() == "```":
            blocks.append((first, language, "\n".join(lines) + "\n"))
            language = None
        elif language is not None:
            lines.append(line)
        elif line.lstrip().startswith("```"):
            language, first, lines = line.strip()[3:], number, []
    return blocks


def quickstart_targets():
    """Those that scripts/quickstart.sh builds."""
    text = (PROJECT / "scripts" / "quickstart.sh").read_text()
    first = re.search(r'^Build "\$PRESET" "\$JOBS" (.*)$', text, re.M).group(1)
    rest = re.search(r"REST_TARGETS=\((.*)\)", text).group(1)
    return first.split() + rest.split()


def left_by_quickstart():
    """The programs and shared libraries among what its targets need."""
    def told(*question):
        return subprocess.run(
            ["ninja", "-C", BUILD, "-t", *question, *quickstart_targets()],
            text=True, capture_output=True, check=True).stdout

    # Before 1.12 ninja does not count what a target stands for as its input.
    own = re.sub(r"(?m)^  outputs:\n(?:    .*\n?)*", "", told("query"))
    names = dict.fromkeys((told("inputs") + own).split())
    return [name for name in names
            if re.fullmatch(r"bin/[^/]+|lib/[^/]+\.so", name)]


class BlocksTest(unittest.TestCase):
    building = threading.Lock()

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.scratch = pathlib.Path(folder.name).resolve()
        cls.prefix = cls.scratch / "prefix"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix],
                       check=True, capture_output=True)
        cls.python = torch_python(TORCH)

    # ------------------------------------------------------------ the folder

    def reader(self, name):
        """What a reader of the document has; returns folder, environment."""
        folder = self.scratch / name
        folder.mkdir()
        # Blocks write files here: links to files would be written through.
        for entry in PROJECT.iterdir():
            if entry.is_dir() and entry.name in FOLDERS:
                (folder / entry.name).symlink_to(entry)
        for file in left_by_quickstart():
            copy = folder / "build" / "release" / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(BUILD / file, copy)
        shutil.copy(BUILD / "bin" / "own_program", folder / "program")
        shutil.copy(PROJECT / "examples" / "train.py", folder)
        self.add_quickstart(folder)
        path = [str(self.prefix / "bin"), os.environ["PATH"]]
        if self.python is not None:
            path.insert(0, str(pathlib.Path(self.python).parent))
        return folder, environment(PATH=":".join(path))

    @staticmethod
    def add_quickstart(folder):
        """The project's own, told which build to use."""
        script = folder / "scripts" / "quickstart.sh"
        script.parent.mkdir()
        command = "echo 'no build folder of a preset: not run'; exit 0"
        if BUILD.parent == PROJECT / "build":
            command = (f"exec {PROJECT}/scripts/quickstart.sh --torch={CHOICE} "
                       f'--preset={BUILD.name} "$@"')
        script.write_text(f"#!/bin/sh\n{command}\n")
        script.chmod(0o755)

    # ------------------------------------------------------------ the blocks

    def why_not_here(self, folder, text):
        """What a block needs and this machine lacks; "" if nothing."""
        if self.python is None and re.search(r"\bpython3? ", text):
            return "no Python imports the torch under test"
        if re.search(r"\bperf ", text):
            tried = ["perf", "record", "-o", folder / "tried", "true"]
            if shutil.which("perf") is None or subprocess.run(
                    tried, capture_output=True, check=False).returncode != 0:
                return "perf cannot record here"
        return ""

    def run_sh(self, folder, env, text):
        why_not = self.why_not_here(folder, text)
        if why_not:
            print(f"  not run: {why_not}", flush=True)
            return
        for stats in folder.glob("*.json"):
            stats.unlink()
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text],
                              cwd=folder, env=env, text=True, timeout=900,
                              errors="replace", capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotRegex(done.stderr, r"(?m)^(tjit|\[[A-Z])")
        for stats in re.findall(r"--stats=(\S+\.json)", text):
            did = json.loads((folder / stats).read_text())
            self.assertGreater(did["ops_replayed"], 1000, text)
        if "quickstart.sh" in text and BUILD.parent == PROJECT / "build":
            self.run_last_line(folder, env, done.stdout)

    def run_last_line(self, folder, env, said):
        """The quick start ends with a command for the reader's program."""
        label, command = said.splitlines()[-1].split(": ", 1)
        self.assertEqual(label, "Your own program")
        plain = subprocess.run(["./program"], cwd=folder, env=env,
                               capture_output=True, check=True)
        env = dict(env, TJIT_STATS=str(folder / "own.stats"))
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=env,
                              capture_output=True, check=True)
        self.assertEqual(done.stdout, plain.stdout)
        did = json.loads((folder / "own.stats").read_text())
        self.assertGreater(did["ops_replayed"], 1000)

    def run_yaml(self, folder, env, text):
        (folder / "tjit.yaml").write_text(text)
        done = subprocess.run(
            ["tjit", "run", "--config=tjit.yaml", "--print-config", "--",
             "./program"], cwd=folder, env=env, text=True, capture_output=True,
            check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in done.stderr.splitlines():
            self.assertTrue(line.startswith("[CONFIG] "), line)
        for number, line in enumerate(text.splitlines(), 1):
            key, value = line.split(": ")
            if key == "auto_compile":
                continue  # `tjit run` sets it
            self.assertRegex(done.stderr.replace('"', ""),
                             rf"\[CONFIG\] {key} = {value} \({folder}/"
                             rf"tjit.yaml:{number}:")

    def run_python(self, folder, env, text):
        if self.python is None:
            print("  not run: no Python imports the torch under test")
            return
        program, stats = folder / "block.py", folder / "python.stats"
        program.write_text(PYTHON_PRELUDE + text)
        done = subprocess.run(
            [self.python, "-W", "ignore", program], cwd=folder, text=True,
            env=dict(env, PYTHONPATH=str(BUILD / "python"),
                     TJIT_STATS=str(stats)),
            capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        did = json.loads(stats.read_text())
        self.assertGreater(did["ops_replayed"], 100, text)

    def run_project(self, folder, env, cmake, cpp):
        source = folder / "project"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PROJECT_LINES + cmake)
        (source / "main.cpp").write_text(cpp)
        (source / "prelude.h").write_text(PRELUDE)
        for command in (["cmake", "-S", source, "-B", source / "build", "-G",
                         "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                        ["cmake", "--build", source / "build"],
                        [source / "build" / "program"]):
            stats = folder / "project.stats"
            done = subprocess.run(command, text=True, capture_output=True,
                                  env=dict(env, TJIT_STATS=str(stats)),
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(json.loads(stats.read_text())["ops_replayed"], 0)

    # ------------------------------------------------------------ documents

    def run_block(self, language, folder, env, text):
        self.assertIn(language, LANGUAGES)
        if language == "sh" and "quickstart.sh" in text:
            with self.building:  # there is one build folder
                self.run_sh(folder, env, text)
        elif language == "sh":
            self.run_sh(folder, env, text)
        elif language == "yaml":
            self.run_yaml(folder, env, text)
        elif language == "python":
            self.run_python(folder, env, text)

    def check(self, document, folder, env):
        """What is wrong with its blocks, one text for each."""
        cmake, wrong = None, []
        for line, language, text in blocks_of(document):
            where = f"{document.relative_to(PROJECT)}:{line}"
            print(f"{where}: {language}", flush=True)
            try:
                if language == "cmake":
                    self.assertIsNone(cmake, "two cmake blocks for one of cpp")
                    cmake = text
                elif language == "cpp":
                    self.assertIsNotNone(cmake, "no cmake block before it")
                    self.run_project(folder, env, cmake, text)
                    cmake = None
                else:
                    self.run_block(language, folder, env, text)
            except Exception:  # another document goes on
                wrong.append(f"{where}: {traceback.format_exc()}")
        if cmake is not None:
            wrong.append(f"{document}: a cmake block without one of cpp")
        return wrong

    def test_readme(self):
        document = PROJECT / "README.md"
        languages = [language for _, language, _ in blocks_of(document)]
        for language in ("sh", "cmake", "cpp"):
            self.assertIn(language, languages)
        self.assertIn("scripts/quickstart.sh", document.read_text())
        wrong = self.check(document, *self.reader(document.stem))
        self.assertFalse(wrong, "\n".join(wrong))

    def test_docs(self):
        documents = sorted((PROJECT / "docs").glob("*.md"))
        self.assertTrue(documents)
        # Before a block builds what the readers get.
        readers = [self.reader(document.stem) for document in documents]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            wrong = sum(pool.map(lambda document, reader:
                                 self.check(document, *reader),
                                 documents, readers), [])
        self.assertFalse(wrong, "\n".join(wrong))


if __name__ == "__main__":
    PROJECT, BUILD, TORCH = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
    CHOICE = sys.argv[4]
    del sys.argv[1:5]
    unittest.main()
