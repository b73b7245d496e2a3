"""The mangled names in runtime/intercept/*.def are those of libtorch.

What it proves: scripts/mangled_names.py finds both files as the libraries say;
a wrong, an empty and a missing name are found, the message says how to write
the files, and they are as before once that was done; a function that no library
has ends it with a sentence.

Usage: mangled_names_test.py PROJECT_FOLDER LIBRARY... -- [unittest arguments]
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROJECT = None
LIBRARIES = []
FOLDER = pathlib.Path("runtime/intercept")
FILES = ("direct_calls.def", "interposed.def")
ABS = "_ZN2at4_ops3abs4callERKNS_6TensorE"
HALF = "TJIT_TENSOR_MAKER(_ZN2at6tensorEN3c108ArrayRefINS0_4HalfEEERKNS0_13TensorOptionsE)\n"


def run(*arguments):
    script = PROJECT / "scripts" / "mangled_names.py"
    return subprocess.run([sys.executable, str(script), *arguments, *LIBRARIES],
                          text=True, capture_output=True, timeout=60,
                          check=False)


class MangledNamesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.copy = pathlib.Path(folder.name)
        (self.copy / FOLDER).mkdir(parents=True)
        for name in FILES:
            text = (PROJECT / FOLDER / name).read_text()
            (self.copy / FOLDER / name).write_text(text)

    def replace(self, name, old, new):
        file = self.copy / FOLDER / name
        text = file.read_text()
        self.assertIn(old, text)
        file.write_text(text.replace(old, new, 1))

    def test_the_files_are_as_the_libraries_say(self):
        done = run()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_differs_is_said_and_written(self):
        self.replace("direct_calls.def", ABS, ABS.replace("3abs", "3abc"))
        self.replace("direct_calls.def", "_ZN2at4_ops4gelu4callERKNS_6Tensor"
                     "ESt17basic_string_viewIcSt11char_traitsIcEE", "")
        self.replace("interposed.def", HALF, "")
        self.replace("interposed.def", "_ZN2at5printERSoRKNS_6TensorEl", "")
        found = run("--source", str(self.copy))
        self.assertEqual(found.returncode, 1, found.stderr)
        for line in ("direct_calls.def: not as the libraries say: "
                     "TJIT_DIRECT_UNARY(abs, _ZN2at4_ops3abc",
                     "direct_calls.def: not as the libraries say: "
                     "TJIT_DIRECT(at::Tensor, gelu, ,",
                     "interposed.def: missing: " + HALF.strip(),
                     "interposed.def: not as the libraries say: "
                     "TJIT_INTERPOSED_AS_IS()",
                     "scripts/mangled_names.py --write " + LIBRARIES[0]):
            self.assertIn(line, found.stdout)
        done = run("--write", "--source", str(self.copy))
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in FILES:
            self.assertEqual((self.copy / FOLDER / name).read_text(),
                             (PROJECT / FOLDER / name).read_text())

    def test_what_no_library_has_is_a_sentence(self):
        self.replace("direct_calls.def", "(abs,", "(absent,")
        done = run("--source", str(self.copy))
        self.assertEqual(done.returncode, 1)
        self.assertIn("at::_ops::absent::call is in no library", done.stderr)
        self.replace("direct_calls.def", "(absent,", "(abs,")
        self.replace("interposed.def", "// at::print(", "// at::prints(")
        done = run("--source", str(self.copy))
        self.assertEqual(done.returncode, 1)
        self.assertIn("at::prints(*, at::Tensor const&, long) is in no library",
                      done.stderr)


if __name__ == "__main__":
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    PROJECT = pathlib.Path(sys.argv[1]).resolve()
    LIBRARIES = sys.argv[2:end]
    unittest.main(argv=sys.argv[:1] + sys.argv[end + 1:])
