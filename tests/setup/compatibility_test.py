"""scripts/compatibility.py, without building: cmake, ctest and pip are
stand-ins in PATH.

What it proves: the table of docs/compatibility.md says what came out, of a
build that fails too; a row is replaced by that of the same libtorch and LLVM,
the others stay; the document in the tree is what the script writes; what cannot
be had ends it with a sentence.

Usage: compatibility_test.py PROJECT_FOLDER [unittest arguments]
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROJECT = None
CTEST = """#!/bin/sh
for test in $TESTS; do
  echo " 1/7 Test  #12: $test ...........   Passed    1.39 sec"
done
echo " 7/7 Test  #12: digits_test ......***Failed    1.39 sec"
"""
CMAKE = """#!/bin/sh
case "$1" in $BREAK) exit 1 ;; esac
case "$*" in *-B*)
  mkdir -p "$4/bin"
  printf '#!/bin/sh\\necho tjit 1\\necho LLVM 19.1.7\\n' >"$4/bin/tjit"
  chmod +x "$4/bin/tjit" ;;
esac
"""


class CompatibilityTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.document = self.folder / "compatibility.md"
        self.torch = self.folder / "torch"
        (self.torch / "lib").mkdir(parents=True)
        (self.torch / "lib" / "libtorch_cpu.so").write_bytes(b"")
        (self.folder / "bin").mkdir()
        for name, text in (("cmake", CMAKE), ("ctest", CTEST)):
            (self.folder / "bin" / name).write_text(text)
            (self.folder / "bin" / name).chmod(0o755)
        spec = importlib.util.spec_from_file_location(
            "compatibility", PROJECT / "scripts" / "compatibility.py")
        self.script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.script)

    def version(self, text):
        (self.torch / "version.py").write_text(f"__version__ = '{text}'\n")

    def run_script(self, *arguments, tests=(), fails="none"):
        env = dict(os.environ, TESTS=" ".join(tests), BREAK=fails,
                   PATH=f"{self.folder}/bin:{os.environ['PATH']}")
        return subprocess.run(
            [sys.executable, PROJECT / "scripts" / "compatibility.py",
             f"--folder={self.folder}", f"--document={self.document}",
             *arguments], env=env, text=True, capture_output=True, timeout=60,
            check=False)

    def rows(self):
        return [line for line in self.document.read_text().splitlines()
                if self.script.ROW.match(line)]

    def test_all_is_well(self):
        self.version("2.13.0+cpu")
        done = self.run_script(str(self.torch), tests=self.script.TESTS)
        self.assertEqual(done.returncode, 0, done.stderr)
        row, = self.rows()
        self.assertTrue(row.startswith("| 2.13.0+cpu | `` | no | 19.1.7 | "))
        self.assertIn("| yes | 7 of 7 |", row)

    def test_what_fails_is_said(self):
        self.version("2.14.1+cu130")
        (self.torch / "lib" / "libtorch_cuda.so").write_bytes(b"")
        done = self.run_script(str(self.torch), tests=self.script.TESTS[:2])
        self.assertEqual(done.returncode, 1)
        rest = ", ".join(self.script.TESTS[2:])
        self.assertIn(f"| yes | 2 of 7; not {rest} |", self.rows()[0])
        self.assertIn("| yes | 19.1.7 |", self.rows()[0])
        for fails, text in (("-S", "no: cmake failed"),
                            ("--build", "no: the compiler stopped")):
            self.document.unlink()
            done = self.run_script(str(self.torch), fails=fails)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"| newest | {self.script.system()} | {text} | none "
                          "|", self.rows()[0])

    def test_rows_are_replaced_and_kept(self):
        for version in ("2.14.1", "2.13.0+cpu", "2.14.1"):
            self.version(version)
            self.run_script(str(self.torch), tests=self.script.TESTS)
        self.version("2.14.1")
        self.assertEqual([row.split(" | ")[0] for row in self.rows()],
                         ["| 2.13.0+cpu", "| 2.14.1"])
        first = self.document.read_text()
        self.run_script(str(self.torch), tests=self.script.TESTS[:1])
        self.assertNotEqual(self.document.read_text(), first)
        self.assertIn("1 of 7", self.rows()[1])

    def test_the_document_is_the_script_s(self):
        document = PROJECT / "docs" / "compatibility.md"
        self.document.write_text(document.read_text())
        self.assertGreaterEqual(len(self.rows()), 1)
        self.script.write([], self.document)
        self.assertEqual(self.document.read_text(), document.read_text())

    def test_what_cannot_be_had(self):
        done = self.run_script(str(self.torch))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.torch} does not say its version", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    PROJECT = pathlib.Path(sys.argv[1]).resolve()
    del sys.argv[1]
    unittest.main()
