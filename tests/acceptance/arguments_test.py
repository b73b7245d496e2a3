"""The command lines of tjit's subcommands, as far as they have one form.

What it proves: a value stands behind "=" only, so no file is taken for one; what
follows "--" is no option; a help names each option that "accepted are" names;
of several mistakes an option that is unknown is said.

Usage: arguments_test.py TJIT_COMMAND [unittest arguments]
"""
import re
import subprocess
import sys
import tempfile
import unittest

USAGE, TJIT = 2, None
COMMANDS = {"run": "[options] -- program [arguments]",
            "doctor": "[-- program [arguments]]",
            "explain": "[options] FILE", "graph": "[options] FILE",
            "log": "[options] FILE",
            "cache": "list|verify|clear [--json] [DIR]"}


def run(*words):
    return subprocess.run([TJIT, *words], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, check=False, timeout=60)


class ArgumentsTest(unittest.TestCase):
    def refused(self, said, *words):
        done = run(*words)
        self.assertEqual((done.returncode, done.stdout), (USAGE, ""))
        self.assertEqual(done.stderr, f"tjit {words[0]}: {said}\n")

    def test_help_lists_what_is_accepted(self):
        for command, words in COMMANDS.items():
            with self.subTest(command):
                done = run(command, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(run(command, "-h").stdout, done.stdout)
                lines = done.stdout.splitlines()
                self.assertEqual(lines[0], f"usage: tjit {command} {words}")
                listed = re.findall(r"^  (-\S+)", done.stdout, re.M)
                refused = run(command, "--nonsense").stderr
                accepted = refused.strip().split("accepted are ")[1]
                named = [word for word in re.split(", | and ", accepted)
                         if word.startswith("-")]
                self.assertEqual(listed, named)

    def test_help_comes_before_what_is_wrong(self):
        for words in (["log", "--nonsense", "--help"], ["log", "a", "b", "-h"],
                      ["log", "--from=x", "--help"], ["graph", "--help"]):
            done = run(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"usage: tjit {words[0]} ", done.stdout)

    def test_value_stands_behind_an_equals_sign(self):
        self.refused("--op needs a value: --op=GLOB", "log", "--op", "mm",
                     "no.log")
        self.refused("--op needs a value: --op=GLOB", "log", "--op=", "no.log")
        self.refused("--pick needs a value: --pick=N", "graph", "--pick", "1")
        self.refused("--stats needs a value: --stats=FILE", "run", "--stats",
                     "true")
        self.refused("--stats needs a value: --stats=FILE", "run", "--stats=",
                     "true")
        self.refused("--svg takes no value", "graph", "--svg=a", "b")
        self.refused("-v,--verbose takes no value", "explain", "--verbose=1",
                     "a")

    def test_words_behind_the_mark_are_no_options(self):
        self.refused("cannot read --op=a: No such file or directory", "log",
                     "--", "--op=a")
        self.refused("cannot read --: No such file or directory", "explain",
                     "--", "--")
        self.refused("one file at a time, not a and b", "log", "a", "--", "b")

    def test_unknown_option_is_the_first_news(self):
        for words in (["log", "--all"], ["log", "a", "b", "--all=3"],
                      ["cache", "--all"], ["run", "--all"],
                      ["run", "--debug", "--all", "--", "true"],
                      ["doctor", "--all", "true"]):
            with self.subTest(words):
                done = run(*words)
                self.assertEqual((done.returncode, done.stdout), (USAGE, ""))
                self.assertRegex(done.stderr, f"^tjit {words[0]}: unknown "
                                 "option --all; accepted are [^\n]*\n$")
        self.assertIn("unknown option -z;", run("explain", "-vz", "a").stderr)
        self.assertIn("unknown option -;", run("run", "-", "a").stderr)

    def test_options_stand_anywhere(self):
        with tempfile.TemporaryDirectory() as folder:
            said = [run("cache", *words).stdout for words in (
                ("list", "--json", folder), ("--json", "list", folder),
                ("list", folder, "--json"))]
        self.assertIn('"entries"', said[0])
        names = [re.findall(r'"(\w+)":', text) for text in said]
        self.assertEqual(names, [names[0]] * 3)


if __name__ == "__main__":
    TJIT = sys.argv.pop(1)
    unittest.main()
