"""TJIT_CONFIG on whole programs: a file of options, right and wrong.

What it proves: what the file says works without a line of code and stands
below what the program says, which stands below the environment; `tjit run
--config` and --print-config; each wrong file is said once, with its place, the
value and what is accepted, and changes nothing of what the program does; a
yaml-cpp of another version in the process gets in nobody's way.

Usage: config_test.py SMALL_LOOP TJIT_COMMAND OTHER_YAML [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = TJIT = OTHER_YAML = None


class ConfigTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "tjit.yaml"

    def run_loop(self, *mode, command=(), **variables):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("TJIT_")}
        env.update(OMP_NUM_THREADS="1", TJIT_PROFILE="off", **variables)
        done = subprocess.run([*command, PROGRAM, *mode], env=env,
                              cwd=self.folder, text=True, capture_output=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 7, done.stderr)
        return done

    def counters(self, name="s.json"):
        return json.loads((self.folder / name).read_text())

    def configured(self, text, **variables):
        """With that file: stderr. Output is that of the program alone."""
        self.file.write_text(text)
        done = self.run_loop(TJIT_CONFIG="tjit.yaml", **variables)
        self.assertEqual(done.stdout, self.run_loop().stdout)
        return done.stderr

    def test_the_file_alone_does_it(self):
        said = self.configured("auto_compile: true\nhot_threshold: 3\n"
                               "stats_path: s.json\n")
        self.assertEqual(said, "")
        self.assertGreater(self.counters()["ops_replayed"], 300)
        # Of a threshold that is never reached nothing is replayed.
        self.configured("auto_compile: true\nhot_threshold: 1000\n"
                        "stats_path: s.json\n")
        self.assertEqual(self.counters()["ops_replayed"], 0)
        self.assertGreater(self.counters()["ops_seen"], 300)

    def test_the_environment_wins(self):
        said = self.configured("auto_compile: true\nhot_threshold: 1000\n"
                               "stats_path: file.json\n",
                               TJIT_HOT_THRESHOLD="3", TJIT_STATS="s.json")
        self.assertEqual(said, "")
        self.assertGreater(self.counters()["ops_replayed"], 300)
        self.assertFalse((self.folder / "file.json").exists())
        said = self.configured("auto_compile: true\n", TJIT_AUTO_COMPILE="0",
                               TJIT_PRINT_CONFIG="1")
        self.assertIn("[CONFIG] auto_compile = false (TJIT_AUTO_COMPILE)\n",
                      said)

    def test_the_program_wins_over_the_file(self):
        # It passes hot_threshold = 10, which is also the default.
        self.file.write_text("hot_threshold: 1000\nstats_path: s.json\n")
        self.run_loop("ten", TJIT_CONFIG="tjit.yaml")
        self.assertGreater(self.counters()["ops_replayed"], 300)
        # ... but not over the environment.
        self.run_loop("ten", TJIT_CONFIG="tjit.yaml",
                      TJIT_HOT_THRESHOLD="1000")
        self.assertEqual(self.counters()["ops_replayed"], 0)

    def test_printed_on_request(self):
        self.file.write_text("# ours\nhot_threshold: 12\ncompile_all: false\n"
                             "max_trace_steps: 2000\n")
        done = self.run_loop("ten", TJIT_CONFIG="tjit.yaml",
                             TJIT_PRINT_CONFIG="1", TJIT_STATS="s.json",
                             XDG_CACHE_HOME=str(self.folder))
        self.assertEqual(
            done.stderr.splitlines(),
            ["[CONFIG] auto_compile = false (default)",
             "[CONFIG] backend = llvm (default)",
             "[CONFIG] backward = own (default)",
             f'[CONFIG] cache_dir = "{self.folder}/tjit" (default)',
             "[CONFIG] compile_all = false (tjit.yaml:3:14)",
             "[CONFIG] debug_compile = false (default)",
             "[CONFIG] dump = none (default)",
             '[CONFIG] dump_file = "" (default)',
             "[CONFIG] fast_math = false (default)",
             "[CONFIG] hot_threshold = 10 (set by the program)",
             '[CONFIG] instruction_log = "" (default)',
             "[CONFIG] instruction_log_mb = unbounded (default)",
             "[CONFIG] max_memory_mb = 0 (default)",
             "[CONFIG] max_trace_mb = 32 (default)",
             "[CONFIG] max_trace_steps = 2000 (tjit.yaml:4:18)",
             "[CONFIG] nan = false (default)",
             "[CONFIG] perf_map = false (default)",
             "[CONFIG] products = own (default)",
             '[CONFIG] profile = "off" (TJIT_PROFILE)',
             "[CONFIG] random = own (default)",
             "[CONFIG] shadow = false (default)",
             '[CONFIG] stats_path = "s.json" (TJIT_STATS)',
             "[CONFIG] stress = none (default)",
             "[CONFIG] strict = false (default)"])

    def test_tjit_run(self):
        self.file.write_text("hot_threshold: 3\nstats_path: s.json\n")
        done = self.run_loop(command=[TJIT, "run", "--config=tjit.yaml",
                                      "--print-config", "--"])
        self.assertIn(f"[CONFIG] hot_threshold = 3 ({self.folder}/tjit.yaml:"
                      "1:16)\n", done.stderr)
        self.assertIn("[CONFIG] auto_compile = true (TJIT_AUTO_COMPILE)\n",
                      done.stderr)
        self.assertGreater(self.counters()["ops_replayed"], 300)

    def check_said(self, path, text):
        done = self.run_loop(TJIT_CONFIG=str(path), TJIT_AUTO_COMPILE="1",
                             TJIT_STATS="s.json")
        self.assertEqual(done.stdout, self.run_loop().stdout)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("tjit: TJIT_CONFIG: " + text, done.stderr)
        # It went on.
        self.assertGreater(self.counters()["ops_replayed"], 300)

    def test_files_that_cannot_be_read(self):
        (self.folder / "folder").mkdir()
        for path, why in (("none.yaml", "No such file or directory"),
                          ("folder", "Is a directory"),
                          ("tjit.yaml/x", "No such file or directory"),
                          ("/dev/zero", "it is longer than a file of options "
                           "can be (1 MiB)")):
            with self.subTest(path):
                self.check_said(path, f'cannot read "{path}": {why}; no option '
                                "is taken from it\n")

    def test_bad_contents(self):
        for text, said in (
                ("hot_threshold: [5\n", "tjit.yaml:2:1: "),
                ("just words\n", "tjit.yaml:1:1: this is no `key: value`"),
                ("hot_treshold: 5\n", 'tjit.yaml:1:15: "hot_treshold" is not '
                 "an option of tjit, did you mean hot_threshold? (known: "),
                ("hot_threshold: ten\n", "tjit.yaml:1:16: hot_threshold: ten "
                 "is not used, accepted is a whole number from 2 to 1000000"),
                ("regions: {solve: {treshold: 3}}\n", 'tjit.yaml:1:29: '
                 '"treshold" is not an option of a region, did you mean '
                 "threshold? (known: backend, compile, exclude, shapes, strict, "
                 "threshold)\n"),
                ("regions:\n  a:\n    threshold: 1\n", "tjit.yaml:3:16: "
                 "regions.a.threshold: 1 is not used, accepted is a whole "
                 "number from 2 to 1000000\n"),
                ("debug_compile: 2\n", "tjit.yaml:1:16: debug_compile: 2 is "
                 "not used, accepted is 0, n, no, off, false, 1, y, yes, on or "
                 "true\n")):
            with self.subTest(text):
                self.file.write_text(text)
                self.check_said("tjit.yaml", said)

    def test_options_of_regions(self):
        def replayed(options, *mode):
            self.file.write_text("stats_path: s.json\nhot_threshold: 1000\n"
                                 f"regions:\n  loop: {{{options}}}\n")
            done = self.run_loop(*mode, TJIT_CONFIG="tjit.yaml",
                                 TJIT_AUTO_COMPILE="1")
            self.assertEqual(done.stdout, self.run_loop().stdout)
            self.assertEqual(done.stderr, "")
            return self.counters()["ops_replayed"]

        # The rule is for the regions inside, too. In the first step x is y,
        # and that is another body.
        self.assertEqual(replayed("threshold: 2", "regions"), 3 * 197)
        self.assertEqual(replayed("strict: true", "regions"), 0)
        self.assertEqual(replayed("threshold: 2"), 0)
        self.assertEqual(replayed("threshold: 2, exclude: on", "regions"), 0)
        (region,) = self.counters()["regions"]
        self.assertEqual((region["name"], region["excluded"],
                          region["ops_eager"]), ("loop/step", True, 600))
        # The program wins.
        self.assertEqual(replayed("threshold: 2, exclude: on", "asks"),
                         3 * 197)
        self.assertEqual(
            replayed('threshold: 2, exclude: ["aten::tan*"]', "regions"),
            2 * 197)
        (region,) = self.counters()["regions"]
        self.assertEqual(region["at_call"], {"aten::tanh": "excluded"})

    def test_options_of_regions_are_printed(self):
        self.file.write_text("regions:\n  'a/b*': {exclude: [aten::add, "
                             "'my::'], threshold: 7}\n")
        done = self.run_loop(TJIT_CONFIG="tjit.yaml", TJIT_PRINT_CONFIG="1",
                             TJIT_AUTO_COMPILE="1")
        self.assertIn("[CONFIG] regions.a/b*.exclude = [aten::add, my::] "
                      "(tjit.yaml:2:21)\n[CONFIG] regions.a/b*.threshold = 7 "
                      "(tjit.yaml:2:53)\n", done.stderr + "\n")

    def test_an_empty_file_is_no_mistake(self):
        self.assertEqual(self.configured(""), "")

    def test_another_yaml_cpp_in_the_process(self):
        # Its functions end the process if they are called.
        said = self.configured("auto_compile: true\nhot_threshold: 3\n"
                               "stats_path: s.json\n",
                               LD_PRELOAD=str(OTHER_YAML))
        self.assertEqual(said, "")
        self.assertGreater(self.counters()["ops_replayed"], 300)

    def test_yaml_cpp_is_not_loaded_unasked(self):
        for variables, loaded in (({}, False),
                                  ({"TJIT_CONFIG": "tjit.yaml"}, True)):
            self.file.write_text("auto_compile: true\n")
            done = self.run_loop(LD_DEBUG="files", TJIT_AUTO_COMPILE="1",
                                 **variables)
            self.assertEqual("libyaml-cpp" in done.stderr, loaded)


if __name__ == "__main__":
    PROGRAM, TJIT, OTHER_YAML = (pathlib.Path(p).resolve()
                                 for p in sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main()
