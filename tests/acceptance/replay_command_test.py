"""`tjit replay` on sequences that TJIT_SHADOW has found to differ from eager.

What it proves: for each planted defect that a sequence can show, a program with
it writes a file; that file differs with the defect in each backend that has it
and not without; minimised it has at most five ops and still fails alone; the
pass is named where the defect is one of a pass. Figures of the table are those
that can be counted otherwise. A process that crashes or has no end is a finding.
Bad files, folders and words are said in one line.

Usage: replay_command_test.py TJIT PROGRAMS [unittest arguments]
"""
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from clean_environment import environment, heed_modes

TJIT = LOOP = REPLAY = None
BACKENDS = ["replay", "interpreter", "llvm", "torchscript"]
SAME, DIFFERS, USAGE = 0, 1, 2
SOURCES = pathlib.Path(__file__).parents[2]
# Ops that are left must be no more.
MOST_OPS = 5
# Runs of a sequence that does not differ, in two halves; the first of each half
# is recorded and runs eagerly.
RUNS, HALVES = 96, 2

# Each defect, what runs the program, and the backends whose replays have it.
# What is left of them needs more than a sequence: docs/replay.md.
COMPILER = {
    "skipped_scalar_guard": ("interpreter", {"interpreter", "llvm",
                                             "torchscript"}),
    "missed_overlap": ("interpreter", {"interpreter"}),
    "swapped_operands": ("interpreter", {"interpreter", "llvm"}),
    "lost_sign": ("interpreter", {"interpreter", "llvm"}),
    "wrong_common": ("interpreter", {"interpreter", "llvm"}),
    "dead_write_back": ("interpreter", {"interpreter", "llvm"}),
    "lost_offset": ("interpreter", {"interpreter", "llvm"}),
    "stale_kernel_scalar": ("interpreter", {"interpreter", "llvm",
                                            "torchscript"}),
    "lost_write_back": ("interpreter", {"interpreter", "llvm",
                                        "torchscript"}),
    "early_publication": ("interpreter", {"interpreter", "llvm",
                                          "torchscript"}),
    "wrong_tail": ("llvm", {"llvm"}),
    "two_roundings": ("llvm", {"llvm"}),
    "unrounded_half": ("llvm", {"llvm"}),
    "lost_nan": ("llvm", {"llvm"}),
    "wrong_cast": ("llvm", {"llvm"}),
}
RECORDER = {
    "stale_scalar": ("replay", set(BACKENDS)),
    "lost_alias": ("replay", set(BACKENDS)),
    "wrong_live_out": ("replay", set(BACKENDS)),
    "no_execute": ("replay", set(BACKENDS)),
    "skipped_guard": ("replay", set(BACKENDS)),
    "lost_shift": ("replay", set(BACKENDS)),
    "shared_place": ("replay", set(BACKENDS)),
    "frozen_constant": ("replay", set(BACKENDS)),
}


def run(*words, status=None, **variables):
    done = subprocess.run(list(map(str, words)), text=True,
                          capture_output=True, timeout=300,
                          env=environment(**variables))
    if status is not None:
        assert done.returncode == status, (words, done.returncode, done.stdout,
                                           done.stderr)
    return done


def table(text):
    """By backend: runs, ops replayed, ops fused, result."""
    rows = re.findall(r"^(replay|interpreter|llvm|torchscript) +(\d+) +(\d+) "
                      r"+(\d+)  (.*)$", text, re.M)
    return {row[0]: (int(row[1]), int(row[2]), int(row[3]), row[4])
            for row in rows}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def find(self, defect, backend, *command, folder=None, **variables):
        return self.found(defect, backend, *command,
                          folder=folder or self.folder / "found", **variables)

    @staticmethod
    def found(defect, backend, *command, folder, **variables):
        """The loop of that defect, with it: what is said, and the files."""
        variables = {"TJIT_AUTO_COMPILE": "1", "TJIT_COMPILE": "1",
                     "TJIT_SHADOW": "1", "TJIT_BACKEND": backend,
                     "TJIT_CACHE_DIR": "off", "TJIT_TRACE_TRIALS": "0",
                     "TJIT_THREAD_TRIALS": "0", "TJIT_REPRO_DIR": str(folder),
                     "TJIT_PLANTED_DEFECT": defect} | variables
        done = run(*command, LOOP, defect, status=0, **variables)
        assert done.stdout == "done\n", done.stdout
        files = sorted(folder.glob("*.tjitseq")) if folder.is_dir() else []
        return done.stderr, files

    def replay(self, file, *words, status, defect=None):
        planted = {"TJIT_PLANTED_DEFECT": defect} if defect else {}
        return run(TJIT, "replay", *words, file, status=status,
                   **planted).stdout

    def ops(self, file):
        return self.ops_of(file)[0]

    def ops_of(self, *files):
        """Of each file, by one process."""
        texts = self.replay(files[-1], "--print", *files[:-1],
                            status=SAME).split("\n\n")
        self.assertEqual(len(texts), len(files))
        all_ops = []
        for text in texts:
            last = text[text.index("the run that differed:\n"):]
            all_ops.append(re.findall(r"^  %\d+ (\S+)\(", last, re.M))
            self.assertEqual(
                int(re.search(r": (\d+) ops?, written by", text)[1]),
                len(all_ops[-1]))
        return all_ops

    @staticmethod
    @functools.cache
    def one_file():
        """Of "lost_sign", found once for all tests that only look at it."""
        folder = tempfile.TemporaryDirectory()
        unittest.addModuleCleanup(folder.cleanup)
        _, files = Case.found("lost_sign", "interpreter",
                              folder=pathlib.Path(folder.name))
        return files[0]


class DefectTest(Case):
    def check(self, defect, engine, backends):
        said, files = self.find(defect, engine)
        self.assertTrue(files, said)
        self.assertIn(f"; `tjit replay {files[0]}` runs it again", said)
        rows = table(self.replay(files[0], status=DIFFERS, defect=defect))
        self.assertEqual({b for b, row in rows.items()
                          if row[3] != "the same bits as eager"}, backends)
        for backend, (runs, replayed, fused, _) in rows.items():
            self.assertGreater(replayed, 0, backend)
            if backend not in backends:
                self.assertEqual(runs, RUNS)
                self.assertEqual(fused > 0, backend != "replay")
        rows = table(self.replay(files[0], status=SAME))
        self.assertEqual(list(rows), BACKENDS)
        self.minimise(files[0], defect, engine)

    def minimise(self, file, defect, engine):
        small = self.folder / "small.tjitseq"
        text = self.replay(file, "--minimise", "-o", small, status=DIFFERS,
                           defect=defect)
        left, of = re.search(r": (\d+) of (\d+) ops? left", text).groups()
        ops, all_ops = self.ops_of(small, file)
        self.assertEqual((int(left), int(of)), (len(ops), len(all_ops)))
        self.assertLessEqual(len(ops), MOST_OPS)
        # Alone: of the small one, in processes of their own.
        alone = f"--backend={engine}"
        self.replay(small, alone, status=DIFFERS, defect=defect)
        self.replay(small, alone, status=SAME)


def add(defect, engine, backends):
    setattr(DefectTest, f"test_{defect}",
            lambda self: self.check(defect, engine, backends))


for name, (engine, backends) in (COMPILER | RECORDER).items():
    add(name, engine, backends)


class ListTest(unittest.TestCase):
    def test_each_defect_is_shown_or_said_not_to_be(self):
        planted = SOURCES / "tests/differential/planted_defect_test.cpp"
        all_of_them = set(re.findall(r'\{"(\w+)", Engine::k', planted.read_text()))
        self.assertEqual(len(all_of_them), 29)
        text = (SOURCES / "docs/replay.md").read_text()
        paragraph = re.search(r"these six are\n(.*?)The other 23 are", text,
                              re.S)[1]
        not_shown = set(re.findall(r"`(\w+)`", paragraph))
        self.assertEqual(len(not_shown), 6)
        self.assertEqual(set(COMPILER | RECORDER) | not_shown, all_of_them)
        self.assertFalse(set(COMPILER | RECORDER) & not_shown)


class TrainingTest(Case):
    """A step of a training program: 80 ops on two threads."""

    def test_minimise(self):
        program = pathlib.Path(LOOP).with_name("digits")
        if not program.exists():
            self.skipTest("the example digits is not built")
        defect, folder = "stale_kernel_scalar", self.folder / "found"
        run(program, SOURCES / "examples/data/digits.csv", status=0,
            OMP_NUM_THREADS="2", TJIT_AUTO_COMPILE="1", TJIT_COMPILE="1",
            TJIT_SHADOW="1", TJIT_CACHE_DIR="off", TJIT_REPRO_DIR=str(folder),
            TJIT_PLANTED_DEFECT=defect)
        file = max(folder.glob("*-1.tjitseq"))
        ops = len(self.ops(file))
        self.assertGreater(ops, 40)
        self.assertIn(", 2 threads\n", self.replay(file, "--print", status=SAME))
        rows = table(self.replay(file, "--backend=replay", status=SAME))
        self.assertEqual(rows["replay"][:2], (RUNS, (RUNS - HALVES) * ops))
        small = self.folder / "small.tjitseq"
        self.replay(file, "--minimise", "-o", small, status=DIFFERS,
                    defect=defect)
        self.assertLessEqual(len(self.ops(small)), MOST_OPS)
        self.replay(small, status=DIFFERS, defect=defect)
        self.replay(small, status=SAME)


class FileTest(Case):
    def setUp(self):
        super().setUp()
        self.file = self.one_file()

    def test_figures(self):
        rows = table(self.replay(self.file, status=SAME))
        ops = len(self.ops(self.file))
        self.assertEqual(rows["replay"][:3],
                         (RUNS, (RUNS - HALVES) * ops, 0))
        # The log of what ran counts the same, op by op.
        for backend in ("replay", "interpreter"):
            done = run(REPLAY, "one", self.file, backend, "60", status=0,
                       TJIT_CACHE_DIR="off", TJIT_LOG="flush")
            said = done.stdout + done.stderr
            logged = sum(map(int, re.findall(r"\[FLUSH\] (\d+) ops? from",
                                             said)))
            self.assertEqual(rows[backend][1], logged)
            self.assertLessEqual(rows[backend][2], logged)

    def test_what_did_nothing_says_so(self):
        _, files = self.find("no_execute", "replay",
                              folder=self.folder / "single")
        small = self.folder / "small.tjitseq"
        self.replay(files[0], "--minimise", "-o", small, status=DIFFERS,
                    defect="no_execute")
        self.assertEqual(len(self.ops(small)), 1)
        rows = table(self.replay(small, status=SAME))
        self.assertEqual(rows["replay"][3], "the same bits as eager")
        self.assertEqual(rows["llvm"][1:],
                         (RUNS - HALVES, 0, "the same bits as eager, but "
                          "nothing was compiled"))

    def test_a_backend_alone(self):
        text = self.replay(self.file, "--backend=llvm", status=DIFFERS,
                           defect="lost_sign")
        self.assertEqual(list(table(text)), ["llvm"])
        self.assertRegex(text, r"op 7 aten::div.Tensor, result 0 at \[0,0\]: "
                         r"-inf \(0xff800000\), eager has inf \(0x7f800000\)")
        self.assertIn("found: TJIT_SHADOW: trace ", text)

    def test_the_callers_options_do_not_matter(self):
        for variables in ({"TJIT_BACKEND": "torchscript"},
                          {"TJIT_DISABLE": "1"}, {"TJIT_OPT_LIMIT": "0"}):
            run(TJIT, "replay", self.file, status=DIFFERS,
                TJIT_PLANTED_DEFECT="lost_sign", **variables)

    def test_print(self):
        text = self.replay(self.file, "--print", status=SAME)
        self.assertNotIn("as it was recorded:\n", text)
        self.assertIn("  %0 aten::mul.Scalar(s0 float[8,16], 1.5) -> "
                      "s1 float[8,16]\n", text)
        self.assertIn("  s0: 512 bytes, given\n", text)
        self.assertIn("  s1: 512 bytes, made, dropped\n", text)
        self.assertEqual(len(self.ops(self.file)), 8)
        _, files = self.find("stale_scalar", "replay",
                              folder=self.folder / "scalars")
        first, last = self.replay(files[0], "--print", status=SAME).split(
            "the run that differed:\n")
        self.assertIn("as it was recorded:\n", first)
        op = r"aten::mul.Scalar\(s4 float\[8,16\], (\S+)\)"
        self.assertEqual(re.findall(op, first), ["1."])
        self.assertEqual(re.findall(op, last), ["2."])

    def test_nothing_to_look_for(self):
        for words in (["--bisect"],
                      ["--minimise", "-o", self.folder / "small"]):
            self.assertIn("the same bits as eager, nothing to look for",
                          self.replay(self.file, *words, status=SAME))
        self.assertFalse((self.folder / "small").exists())

    def child(self, send):
        """Sends a signal to the first process that runs the sequence."""
        with subprocess.Popen(
                [TJIT, "replay", "--backend=replay", "--seconds=2", self.file],
                text=True, stdout=subprocess.PIPE, env=environment()) as parent:
            children = pathlib.Path(
                f"/proc/{parent.pid}/task/{parent.pid}/children")
            until = time.monotonic() + 60
            pids = []
            while not pids and time.monotonic() < until:
                pids = children.read_text().split()
            os.kill(int(pids[0]), send)
            text = parent.communicate(timeout=60)[0]
            self.assertEqual(parent.returncode, DIFFERS, text)
            return table(text)["replay"]

    def test_a_crash(self):
        self.assertEqual(self.child(signal.SIGSEGV),
                         (0, 0, 0, "was ended by a signal: Segmentation fault"))

    def test_no_end(self):
        self.assertEqual(self.child(signal.SIGSTOP),
                         (0, 0, 0, "does not end within 2 s"))


class BisectTest(Case):
    def bisect(self, defect, engine):
        _, files = self.find(defect, engine, folder=self.folder / defect)
        return self.replay(files[0], "--bisect", status=DIFFERS, defect=defect)

    def test_a_pass(self):
        for defect, name in (("lost_sign", "peephole"),
                             ("wrong_common", "cse")):
            text = self.bisect(defect, "interpreter")
            limit = re.search(r": interpreter differs from TJIT_OPT_LIMIT=(\d+)"
                              rf" on, when pass {name} has run", text)
            self.assertTrue(limit, text)
            self.check_limit(defect, int(limit[1]))

    def check_limit(self, defect, limit):
        """One pass less, and it does not differ."""
        file = next((self.folder / defect).glob("*.tjitseq"))
        for n, is_same in ((limit - 1, True), (limit, False)):
            done = run(REPLAY, "one", file, "interpreter", "60", status=0,
                       TJIT_CACHE_DIR="off", TJIT_PLANTED_DEFECT=defect,
                       TJIT_OPT_LIMIT=str(n))
            self.assertEqual('"difference":""' in done.stdout, is_same)
            self.assertIn(f"tjit: TJIT_OPT_LIMIT={n}: the last pass that runs "
                          "is ", done.stderr)

    def test_no_pass(self):
        for defect, engine in (("swapped_operands", "interpreter"),
                               ("stale_scalar", "replay")):
            self.assertIn("differs without any pass (TJIT_OPT_LIMIT=0)",
                          self.bisect(defect, engine))


class WriteTest(Case):
    def test_without_a_folder_nothing_is_written(self):
        said, _ = self.find("lost_sign", "interpreter", TJIT_REPRO_DIR="")
        self.assertIn("; TJIT_REPRO_DIR=FOLDER writes it there for `tjit "
                      "replay`\n", said)

    def test_a_sample(self):
        _, files = self.find("no_execute", "replay", TJIT_SHADOW="sample:8")
        self.assertTrue(files)
        self.replay(files[0], "--backend=replay", status=DIFFERS,
                    defect="no_execute")

    def test_tjit_run(self):
        said, files = self.find("lost_sign", "interpreter", TJIT, "run",
                                 "--shadow", f"--repro-dir={self.folder}/own",
                                 "--", folder=self.folder / "own")
        self.assertEqual(len(files), 1, said)

    def test_a_folder_that_cannot_be_written_to(self):
        locked = self.folder / "locked"
        locked.mkdir(mode=0o500)
        nowhere = self.folder / "no" / "where"
        for folder, why in ((locked, "Permission denied"),
                            (nowhere, "No such file or directory")):
            done = subprocess.run(
                [LOOP, "lost_sign"], text=True, capture_output=True,
                preexec_fn=heed_modes, env=environment(
                    TJIT_AUTO_COMPILE="1", TJIT_COMPILE="1", TJIT_SHADOW="1",
                    TJIT_BACKEND="interpreter", TJIT_CACHE_DIR="off",
                    TJIT_REPRO_DIR=str(folder),
                    TJIT_PLANTED_DEFECT="lost_sign"))
            self.assertEqual((done.returncode, done.stdout), (0, "done\n"))
            self.assertRegex(done.stderr,
                             f"; no file is written: tjit::save_sequence: "
                             rf"{folder}/sequence-\d+-1.tjitseq: cannot be "
                             f"written: {why}\n")


class BadInputTest(Case):
    def check(self, text, *words):
        self.check_regex(re.escape(text), *words)

    def check_regex(self, text, *words):
        done = run(TJIT, "replay", *words, status=USAGE)
        self.assertRegex(done.stderr, text)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_words(self):
        self.check("no file given", )
        self.check("--bisect takes one file at a time, not a and b", "--bisect",
                   "a", "b")
        self.check("--print, --minimise and --bisect do not go together",
                   "--print", "--bisect", "a")
        self.check("--minimise needs -o PATH", "--minimise", "a")
        self.check("-o PATH is for --minimise alone", "-o", "b", "a")
        self.check("--backend=cuda is not used, accepted are replay, "
                   "interpreter, llvm and torchscript", "--backend=cuda", "a")
        self.check("--seconds=0 is not used, accepted is a whole number from "
                   "1 to 999999", "--seconds=0", "a")

    def test_files(self):
        whole = self.one_file().read_bytes()
        changes = (
                (lambda b: b[:-40], r"is cut short: \d+ of \d+ bytes are"),
                (lambda b: b[:60], "is cut short: its header has no end"),
                (lambda b: b[:-40] + bytes([b[-40] ^ 1]) + b[-39:],
                 "is damaged: its checksum is wrong"),
                (lambda b: b.replace(b"sequence 1", b"sequence 7", 1),
                 "has format 7, and this tjit reads format 1"),
                (lambda b: b"import torch\n", "is no file of a sequence"),
                (lambda b: b"", "is empty"))
        files = [self.folder / f"bad{i}.tjitseq" for i in range(len(changes))]
        for file, (change, _) in zip(files, changes):
            file.write_bytes(change(whole))
        for words in ([], ["--print"]):
            done = run(TJIT, "replay", *words, *files, status=USAGE)
            lines = done.stderr.splitlines()
            self.assertEqual(len(lines), len(files), done.stderr)
            for line, file, (_, text) in zip(lines, files, changes):
                self.assertRegex(line, f"^tjit replay: .*{file.name} {text}")
        for file, (_, text) in zip(files, changes):
            self.check_regex(f"^tjit replay: .*{file.name} {text}", "--bisect",
                             file)
        self.check("cannot be read: No such file or directory",
                   self.folder / "none")
        self.check("cannot be read: it is a folder", self.folder)

    def test_a_place_that_cannot_be_written_to(self):
        done = run(TJIT, "replay", "--minimise", "-o",
                   self.folder / "no" / "where", self.one_file(), status=USAGE,
                   TJIT_PLANTED_DEFECT="lost_sign")
        self.assertIn("cannot be written: No such file or directory",
                      done.stderr)

    def test_a_file_of_the_users_is_left_alone(self):
        own = self.folder / "train.py"
        own.write_text("import torch\n")
        done = run(TJIT, "replay", "--minimise", "-o", own,
                   self.one_file(),
                   status=USAGE, TJIT_PLANTED_DEFECT="lost_sign")
        self.assertIn("it is no recorded sequence of tjit", done.stderr)
        self.assertEqual(own.read_text(), "import torch\n")


if __name__ == "__main__":
    TJIT, programs = sys.argv[1:3]
    LOOP = f"{programs}/differing_loop"
    REPLAY = f"{programs}/tjit-replay"
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
