#!/usr/bin/env python3
"""Measures tjit beside AOTInductor (A), torch.compile (I) and jax.jit (J).

How: as bench/run.py, each figure is measured in processes of their own,
interleaved round by round (E, E+, tjit, A, I, J, ... , E, E+, ...), with one
thread. Peers have settings, called variants; each is measured, and the
table has the best. Each peer's numbers are compared with eager's first. Results
are kept as they come. bench/README.md says how to read the table.

  bench/peers/install.sh                once
  bench/peers/run.py                    all rows; half an hour a round
  bench/peers/run.py --rows 18,poly     some rows, by number or name
  bench/peers/run.py --resume           goes on with the run that was stopped
  bench/peers/run.py --print            the table of what there is so far
  bench/peers/run.py --print --least    of the least sample of each process
"""
import argparse
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import table

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(1, str(HERE.parent))


def load_suite():
    """bench/run.py, which has the same name as this file."""
    spec = importlib.util.spec_from_file_location("suite",
                                                  HERE.parent / "run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["suite"] = module
    spec.loader.exec_module(module)
    return module


suite = load_suite()
import samples  # noqa: E402  pylint: disable=wrong-import-position

# The rows, in order, with their variants: E+, tjit and jit have them all. "fz" packs
# constant weights, "512" asks for wide vectors, "loop" has all calls in one.
INFERENCE = ("A", "I", "J", "J 512")
WEIGHTS = ("A", "A fz", "I", "I fz", "J", "J 512")
LOOP = (*INFERENCE, "J loop", "J 512 loop")
TRAINING = ("A-train", "I", "I-train", "J", "J 512")
ROWS = {
    **dict.fromkeys((
        "chain10-64", "chain10-64k", "chain10-4M", "add4", "poly", "transc-64k",
        "transc-1M", "bf16-gelu", "softmax-mask-s", "softmax-mask-l",
        "ln-gelu-res-4096", "reduce-sum", "reduce-meanvar"), INFERENCE),
    **dict.fromkeys(("mlp-tiny", "mlp-mnist-64", "lstm-ops", "decode-tok"),
                    WEIGHTS),
    **dict.fromkeys(("rate-triple-1", "rate-triple-1024", "rate-triple-64k"),
                    INFERENCE),
    **dict.fromkeys(("elasticity-1", "elasticity-1024", "elasticity-32768"),
                    LOOP),
    **dict.fromkeys(("radial-return-1024", "cahn-hilliard-200", "lbm-10",
                     "lbm-512"), INFERENCE),
    **dict.fromkeys(("pinn", "mlp-adam", "mlp-gt", "mlp-large", "adam-100x1k",
                     "mnist-cnn", "block"), TRAINING),
}
PREPARE_S = 900  # a package
PROCESS_S = 600


def suite_peers(point):
    """E, E+ and tjit with machine code, the program unchanged; and tjit with
    the step's function wrapped, where the row has one."""
    tjit = suite.Peer("tjit", True, suite.TJIT_LLVM.env, suite.TJIT_LLVM.flags)
    fused = [suite.E_FUSED] if point.fused else []
    jit = [suite.TJIT_JIT] if point.row in suite.JIT_ROWS else []
    return [suite.E, suite.E_PLUS, *fused, tjit, *jit]


def run_json(command, what, seconds, env=None):
    """The line of JSON that a command ends with, or {error}."""
    try:
        done = subprocess.run(command, text=True, capture_output=True,
                              timeout=seconds, check=False, env=env)
    except subprocess.TimeoutExpired:
        return {"missing": f"{what} did not end in {seconds} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        return {"error": f"{what} ended with status {done.returncode}: "
                         f"{done.stderr.strip()[-300:]}"}
    return json.loads(lines[-1])


class Peers:
    """Runs a row as A, I or J; keeps packages."""

    def __init__(self, options):
        self.options = options
        self.folder = options.build / "peers"
        self.runner = options.programs / "bench_aoti"
        self.env = {**{k: v for k, v in os.environ.items()
                       if not k.startswith(("TJIT_", "XLA_", "JAX_"))},
                    "GLIBC_TUNABLES": suite.TUNABLES,
                    "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor")}

    def key_of(self, point):
        """Of what the packages of a row depend on: sources and programs."""
        sources = [HERE / "install.sh", HERE / "by_torch.py",
                   HERE / "ops_torch.py", HERE / "rows" / "row.py"]
        sources += [path for path in sorted(HERE.glob("rows/*.py"))
                    if f'"{point.label}"' in path.read_text()]
        sources += [self.options.programs / f"bench_{point.program}_plain",
                    self.runner]
        return hashlib.sha256(b"".join(
            path.read_bytes() for path in sources)).hexdigest()

    def run(self, point, name):
        """One process, as suite.run_once() gives it."""
        if not self.options.peers_python.exists():
            return {"missing": f"{self.options.peers_python} is not there: "
                               "run bench/peers/install.sh"}
        program = self.options.programs / f"bench_{point.program}_plain"
        if not program.exists():
            return {"missing": f"{program} is not built"}
        folder = self.folder / point.label
        folder.mkdir(parents=True, exist_ok=True)
        family, _, variant = name.partition(" ")
        if family == "I-train":
            variant = "step"
        command = [self.options.peers_python, HERE / "measure.py", point.label,
                   "--peer", family[0], "--variant", variant,
                   "--eager", program, "--benchmark", point.benchmark,
                   "--expected", folder / "expected.bin",
                   *self.timing()]
        what = f"{point.label} as {name}"
        if family[0] != "A":
            return self.whole(run_json(command, what, PROCESS_S, self.env))
        if not self.runner.exists():
            return {"missing": f"{self.runner} is not built"}
        package = folder / name.replace(" ", "-")
        made = self.package(package, command, what, self.key_of(point))
        if "prepared" not in made:
            return made
        return self.whole(run_json([self.runner, package, *self.timing()],
                                   what, PROCESS_S, self.env))

    def timing(self):
        """What measure.py and bench_aoti are told about it."""
        return ["--repetitions", str(self.options.repetitions),
                "--min-time", str(self.options.min_time),
                "--clock", self.options.clock]

    @staticmethod
    def whole(got):
        """With what suite.collect() looks at."""
        return {**got, "bits": "", "less": False, "counters": {},
                "context": {}} if "samples" in got else got

    def package(self, package, command, what, key):
        """{prepared: seconds}, once for these sources."""
        note = package / "made.json"
        if note.exists():
            made = json.loads(note.read_text())
            if made.get("key") == key and "prepared" in made:
                return made
        shutil.rmtree(package, ignore_errors=True)
        package.mkdir(parents=True)
        made = run_json([*command, "--package", package, "--runner",
                         self.runner], f"the package of {what}", PREPARE_S,
                        self.env)
        note.write_text(json.dumps({**made, "key": key}))
        return made


def measure(options, chosen, where, kept):
    """Runs what is not in the samples yet; the report is written after each
    row of the first round, then after each round."""
    done = {(r["benchmark"], r["peer"], r["round"]) for r in kept.records}
    failed = set()
    peers = Peers(options)
    for number in range(options.rounds):
        for point in chosen:
            runs = [(peer.name,
                     lambda peer=peer: run_suite(options, point, peer))
                    for peer in suite_peers(point)]
            runs += [(name, lambda name=name: peers.run(point, name))
                     for name in variants(point, options.peers)]
            for name, run in runs:
                key = (point.label, name)
                if key in failed or (*key, number) in done:
                    continue
                got = run()
                if "samples" not in got:
                    failed.add(key)
                kept.add({"benchmark": point.label, "peer": name,
                          "round": number, **got})
            write_report(options, chosen, where, kept.records)
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr,
              flush=True)


def variants(point, letters):
    """The variants of a row's peers, of those that are asked for."""
    return [name for name in ROWS[point.label] if name[0] in letters]


def write_report(options, chosen, where, records):
    """Writes results.md and results.json of the rows in which all have been
    measured. Returns (report, lines)."""
    results, _ = suite.collect(records)
    lines = []
    for point in chosen:
        of = {peer: result for (label, peer), result in results.items()
              if label == point.label}
        wanted = [peer.name for peer in suite_peers(point)]
        wanted += variants(point, options.peers)
        if all(name in of for name in wanted):
            lines.append(table.evaluate(f"{point.row} {point.label}", of))
    report = table.markdown(lines, where, len(chosen))
    (options.out / "results.md").write_text(report)
    (options.out / "results.json").write_text(json.dumps(
        {"machine": where, "rows": lines}, indent=1))
    return report, lines


def versions(python):
    """What of the peers is installed."""
    program = ("import importlib.metadata as m, json\n"
               "def of(n):\n"
               "    try: return m.version(n)\n"
               "    except m.PackageNotFoundError: return 'missing'\n"
               "print(json.dumps({n: of(n) for n in ('torch', 'jax')}))")
    if not python.exists():
        return {"torch": "missing", "jax": "missing"}
    return run_json([python, "-c", program], "versions", 60)


def choose(parser, rows):
    """The points of the suite that are asked for, in the order of ROWS."""
    known = {p.label: p for p in suite.points(False, True) if p.label in ROWS}
    points = [known[label] for label in ROWS]
    if not rows:
        return points
    wanted = rows.split(",")
    for row in wanted:
        if row not in ROWS and row not in {p.row for p in points}:
            parser.error(f"row {row} is not known; rows: {', '.join(ROWS)}, or "
                         "their numbers")
    return [p for p in points if p.label in wanted or p.row in wanted]


def run_suite(options, point, peer):
    """As suite.run_once(). tjit compiles on a thread beside the program, so it
    may use the other cores, too; the program itself has one thread."""
    os.sched_setaffinity(0, options.cores if peer.linked else {options.core})
    try:
        return suite.run_once(options.programs, point, peer, options)
    finally:
        os.sched_setaffinity(0, {options.core})


def least_sample(record):
    """`record` with the least of its samples alone, if it has some."""
    if "samples" not in record:
        return record
    return {**record, "samples": [min(record["samples"])]}


def parse_options():
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--peers-python", type=pathlib.Path,
                        default=ROOT / ".venv-peers" / "bin" / "python",
                        help="that of install.sh")
    parser.add_argument("--rows", help="18,19 or pinn,poly (default: all)")
    parser.add_argument("--peers", default="AIJ", help="A, I, J (default: AIJ)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--min-time", type=float, default=0.04,
                        dest="min_time")
    parser.add_argument("--core", type=int,
                        default=max(os.sched_getaffinity(0)),
                        help="the core that all but tjit's compiler run on "
                        "(default: the last)")
    parser.add_argument("--least", action="store_true",
                        help="the least sample of each process stands for it, "
                        "not the median: for a busy machine")
    samples.add_options(parser, "peers-results")
    options = parser.parse_args()
    samples.check_options(parser, options)
    options.threads = 1
    options.cores = os.sched_getaffinity(0)
    if not re.fullmatch("[AIJ]*", options.peers):
        parser.error(f"--peers {options.peers}: known are A, I and J")
    if not options.only_print and options.core not in options.cores:
        parser.error(f"--core {options.core}: this process may not run there")
    return parser, options


def main():
    """Returns the exit status: 1 if a peer's results were wrong."""
    parser, options = parse_options()
    stopped = False
    try:
        if options.only_print:
            head, records = samples.read(options.out)
            where, shape = head["machine"], head["shape"]
            options.rows, options.peers = shape["rows"], shape["peers"]
            chosen = choose(parser, options.rows)
        else:
            chosen = choose(parser, options.rows)
            os.sched_setaffinity(0, {options.core})
            os.environ["OMP_NUM_THREADS"] = "1"
            where = {**suite.machine(options),
                     **versions(options.peers_python)}
            head = {"run": {name: where[name] for name in
                            (*suite.MUST_AGREE, "torch", "jax")},
                    "shape": {"rows": options.rows, "peers": options.peers},
                    "machine": where}
            kept = samples.SamplesFile(options.out, head, options.resume)
            records = kept.records
            stopped = samples.run_until_stopped(
                kept, lambda: measure(options, chosen, where, kept))
    except samples.BadSamples as error:
        parser.error(str(error))
    if options.least:
        where = {**where, "samples": "the least of each process"}
        records = [least_sample(record) for record in records]
    report, lines = write_report(options, chosen, where, records)
    print(report)
    if stopped:
        print(f"stopped: {options.out / samples.NAME} has {len(records)} "
              "samples; the same command with --resume goes on behind them",
              file=sys.stderr)
        return suite.STOPPED
    return 1 if any(line["failed"] for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
