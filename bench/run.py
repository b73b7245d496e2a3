#!/usr/bin/env python3
"""Runs the benchmark suite and writes one table (Markdown) and JSON.

How: every figure is measured in processes of their own, interleaved round by
round (E, E+, tjit, ... , E, E+, tjit, ...), so that a machine that slows down
slows all peers. A process makes its row's workload, warms up, and times it a
few times; samples of all rounds give median and p10-p90, ratios are taken
within a round. bench/README.md says how to read the table.

  bench/run.py                   everything, about six minutes
  bench/run.py --rows 9,18,19    some rows
  bench/run.py --rows W          programs after the habits of users
  bench/run.py --compiled        machine code too
  bench/run.py --full            longer, more rounds, more variants
  bench/run.py --check           exit status 1 if a target is missed
  bench/run.py --resume          goes on with the run that was stopped
  bench/run.py --print           the table of what a run has measured so far
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import rows_w
import samples

ROOT = pathlib.Path(__file__).resolve().parent.parent
TUNABLES = ("glibc.malloc.mmap_threshold=4294967296:"
            "glibc.malloc.trim_threshold=17179869184")
# What a process does must not depend on those before it.
ON = {"TJIT_AUTO_COMPILE": "1", "TJIT_PROFILE": "off",
      "TJIT_BACKEND": "replay"}
LOG = pathlib.Path(tempfile.gettempdir()) / f"tjit-bench-{os.getpid()}.log"
NOTHING_RUNS = {**ON, "TJIT_PLANTED_DEFECT": "no_execute"}

# Targets of the first release.
MEAN_TARGET = 1.15  # geometric mean of rows 9, 18, 19, 25 against best E+
ROW_TARGET = 0.95  # each of them
BLOCK_TARGET = 1.0  # row 24 against best E+
NEVER_TARGET = 0.97  # row 27 against E, mean of its counts
TEN_ADDS_TARGET = 0.65  # time of ten adds as one segment, against E
RECORDING_TARGET_NS = 30  # per typed op of a stream that never repeats
STOPPED = 130  # exit status, as of a shell
LOG_TARGET = 1.3  # time of row 19 with the instruction log, against without
MEAN_ROWS = ("9", "18", "19", "25")
TABLES = ("26", rows_w.ROW)  # rows with a table of their own

# Targets of machine code: times of the best E+, by the lines' names; those of
# a row where a name has none.
COMPILED_TARGETS = {
    "chain10-64": 6, "chain10-64k": 12, "chain10-4M": 9, "add4": 3.5,
    "poly": 9.5, "transc-64k": 2.0, "transc-1M": 2.24, "bf16-gelu": 1.2,
    "softmax-mask-s": 1.12, "softmax-mask-l": 1.44, "ln-gelu-res-128": 1.12,
    "ln-gelu-res-4096": 1.44, "reduce-sum": 3, "reduce-meanvar": 30,
    "rate-triple-1": 4, "rate-triple-1024": 3.5, "rate-triple-64k": 3,
    "elasticity-1": 4.5, "elasticity-1024": 3.4, "elasticity-32768": 9,
    "lbm-10": 7, "lbm-512": 8}
COMPILED_ROW_TARGETS = {"16": 1.3, "17": 1.0, **dict.fromkeys(
    ("9", "10", "11", "12", "15", "18", "19", "20", "21", "22", "23", "24",
     "25"), 1.0)}
# Rows whose step is a function of tensors and numbers, or a whole training step,
# which tjit::jit() replays. Of their steps so many must have been replayed.
JIT_ROWS = tuple(str(row) for row in range(1, 26))
JIT_SHARE = 0.5
# Lines that bench_hand has, too.
BY_HAND = ("chain10-64k", "chain10-4M", "add4", "poly", "softmax-mask-l",
           "reduce-sum", "reduce-meanvar", "rate-triple-1024",
           "rate-triple-64k")

# (row, program, names): without variants, measured as E, E+ and tjit.
SIMPLE_ROWS = (
    ("2", "kernels", "add4"),
    ("3", "kernels", "poly"),
    ("4", "kernels", "transc-64k transc-1M"),
    ("5", "kernels", "bf16-gelu"),
    ("6", "kernels", "softmax-mask-s softmax-mask-l"),
    ("7", "kernels", "ln-gelu-res-128 ln-gelu-res-4096"),
    ("8", "kernels", "reduce-sum reduce-meanvar"),
    ("10", "dense", "mlp-mnist-64 mlp-mnist-sweep"),
    ("11", "dense", "lstm-ops"),
    ("12", "dense", "decode-tok prefill-32"),
    ("13", "science", "rate-triple-1 rate-triple-1024 rate-triple-64k"),
    ("14", "science",
     "elasticity-1 elasticity-1024 elasticity-32768"),
    ("15", "science", "radial-return-1024"),
    ("16", "science",
     "cahn-hilliard-20 cahn-hilliard-200 cahn-hilliard-100^3"),
    ("17", "science", "lbm-10 lbm-512 lbm-mrt-10 lbm-mrt-512"),
    ("29", "kernels", "langevin-64k dropout"),
)
TRAINING_ROWS = (
    ("18", "training", "pinn"),
    ("19", "training", "mlp-adam"),
    ("20", "products", "mlp-gt"),
    ("21", "products", "mlp-large"),
    ("22", "products", "adam-100x1k"),
    ("22", "products", "adam-4x1M"),
    ("23", "products", "mnist-cnn"),
    ("23", "products", "mnist-cnn-norm"),
    ("24", "training", "block"),
    ("25", "training", "deep"),
)


def is_passed_on(name):
    """Of the caller's variables: no TJIT_ one but that by which the smoke test
    switches off trials, whose steps run eagerly."""
    return not name.startswith("TJIT_") or name == "TJIT_TRACE_TRIALS"


@dataclass
class Peer:
    """A way to run a row: which program, flags and environment."""
    name: str
    linked: bool
    env: dict = field(default_factory=dict)
    flags: tuple = ()
    fused: bool = False  # the row's fused-by-hand variant


@dataclass
class Point:
    """One line of the table."""
    row: str
    label: str
    program: str
    benchmark: str
    peers: list
    fused: str = ""  # benchmark of the fused-by-hand variant
    once: bool = False  # never repeated within a process
    per_step: int = 1  # ops in a step, where the figure is per op


E = Peer("E", False)
E_PLUS = Peer("E+", False, {"GLIBC_TUNABLES": TUNABLES})
E_FUSED = Peer("E+ fused", False, {"GLIBC_TUNABLES": TUNABLES}, fused=True)
TJIT = Peer("tjit", True, ON)
TJIT_FUSED = Peer("tjit fused", True, ON, fused=True)
TJIT_LLVM = Peer("tjit llvm", True, {**ON, "TJIT_BACKEND": "llvm"},
                 ("--settle_ms=3000",))
# On for the wrapped functions alone.
TJIT_JIT = Peer("jit", True, {"TJIT_PROFILE": "off", "TJIT_BACKEND": "llvm"},
                ("--settle_ms=3000", "--jit"))
MARKED = Peer("tjit+mark", True, ON, ("--mark_step",))
LOGGED = Peer("tjit+log", True, {**ON, "TJIT_INSTRUCTION_LOG": str(LOG)})
LOGGED_OFF = Peer("E+log", True, {"TJIT_INSTRUCTION_LOG": str(LOG)})
HAND = Peer("by hand", False)
FLOOR = Peer("floor", True, NOTHING_RUNS)
OFF = Peer("off", True)
DISABLED = Peer("disabled", True, {}, ("--enable_disable",))
RECORDING = Peer("recording", True, ON)
DEFERRED = Peer("deferred", True, NOTHING_RUNS)
REPLAYED = Peer("replayed", True, ON)
# Rows W, as users run a program for the first time: machine code, no files.
AS_USED = Peer("tjit", True, {"TJIT_AUTO_COMPILE": "1", "TJIT_PROFILE": "off",
                              "TJIT_CACHE_DIR": "off"})


def points(full, compiled, threads=1):
    """All lines of the table, in order."""
    more = ([MARKED] if full else []) + ([TJIT_LLVM] if compiled else [])
    floor = [E, E_PLUS, TJIT, FLOOR] + more
    # What the program itself takes says how far machine code can get.
    plain = floor if compiled else [E, E_PLUS, TJIT] + more
    train = [E, E_PLUS, E_FUSED, TJIT, TJIT_FUSED, FLOOR] + more
    states = [E, OFF, DISABLED, DEFERRED, REPLAYED]
    never = [E, OFF, DISABLED, RECORDING]
    wrapped = ["typed-fmax", "boxed-coo-to-csr", "boxed-triangular-solve"]
    if full:
        wrapped[1:1] = ["typed-pad", "typed-median", "typed-inverse"]
    out = [
        Point("1", f"chain10-{n}", "inference", f"row1/chain10-{n}", plain)
        for n in ("64", "64k", "4M")
    ]
    for row, program, names in SIMPLE_ROWS:
        out += [Point(row, name, program, f"row{row}/{name}", plain)
                for name in names.split()]
    out.append(Point("9", "mlp-tiny", "inference", "row9/mlp-tiny", floor))
    out += [
        Point("K2", name, "inference", f"rowK2/{name}", plain, once=True)
        for name in ("chain10-sizes-100", "chain10-sizes-8",
                     "mlp-tiny-sizes-100", "mlp-tiny-sizes-8")
    ]
    for row, program, name in TRAINING_ROWS:
        out.append(Point(row, name, program, f"row{row}/{name}/optim",
                         train + ([LOGGED, LOGGED_OFF] if row == "19" else []),
                         fused=f"row{row}/{name}/fused"))
    out += [
        Point("26", "ten-adds", "dispatch_overhead", "row26/ten-adds", states,
              per_step=10),
        Point("26", "random-adds", "dispatch_overhead", "row26/random-adds",
              [E, OFF, RECORDING], per_step=10),
        Point("26", "ten-addmm", "dispatch_overhead", "row26/ten-addmm",
              states, per_step=10),
    ]
    out += [
        Point("26", name, "dispatch_overhead", f"row26/{name}", never,
              per_step=10) for name in wrapped
    ]
    out += [
        Point("27a", "random-stream", "never", "row27a/random-stream", plain),
        Point("27b", "growing-shapes", "never", "row27b/growing-shapes", plain,
              once=True),
        Point("27c", "fibonacci", "never", "row27c/fibonacci", plain),
        Point("27d", "variants", "never", "row27d/variants", plain),
    ]
    if compiled:
        for point in out:
            if point.row in JIT_ROWS:
                point.peers = point.peers + [TJIT_JIT]
    if compiled and threads == 1:  # as loops by hand have
        for point in out:
            if point.label in BY_HAND:
                point.peers = point.peers + [HAND]
    return out


def habits():
    """The lines of rows W."""
    return [Point(rows_w.ROW, name, "habits", f"rowW/{name}", [E_PLUS, AS_USED])
            for name in rows_w.NAMES] + [
            Point(rows_w.ROW, f"py/{name}", rows_w.PYTHON, f"rowW/py/{name}",
                  [E_PLUS, AS_USED]) for name in rows_w.PYTHON_NAMES]


def run_python(point, peer, options):
    """One process of a row in Python, see run_once()."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("TJIT_") and k != "GLIBC_TUNABLES"}
    env.update(peer.env)
    # `tjit run` switches it on.
    env.pop("TJIT_AUTO_COMPILE", None)
    with tempfile.TemporaryDirectory() as folder:
        stats = pathlib.Path(folder) / "stats.json"
        command = [str(options.python), "-W", "ignore",
                   str(ROOT / "bench" / point.program),
                   point.label.removeprefix("py/"),
                   f"--threads={options.threads}",
                   f"--repetitions={options.repetitions}"]
        if peer.linked:
            command = [str(options.programs / "tjit"), "run",
                       f"--stats={stats}", "--", *command]
        got = run_command(command, env, f"{point.benchmark} as {peer.name}")
        if peer.linked and "samples" in got:
            if not stats.exists():
                return {"error": f"{point.benchmark} as {peer.name}: tjit did "
                                 "not serve this Python, see --python"}
            # Of the whole process: tjit counts nothing else of Python's.
            counted = json.loads(stats.read_text())
            seen, dead = counted["ops_seen"], counted["steps_dead"]
            got["counters"].update(
                replayed=counted["ops_replayed"] / max(seen, 1),
                fused=counted["steps_fused"] / max(seen - dead, 1))
    return got


def run_once(programs, point, peer, options):
    """One process. Returns {samples, bits, counters, context} or {error}."""
    if point.program == rows_w.PYTHON:
        return run_python(point, peer, options)
    program = "hand" if peer is HAND else point.program
    name = f"bench_{program}" + ("" if peer.linked else "_plain")
    path = programs / name
    if not path.exists():
        return {"missing": f"{path} is not built"}
    benchmark = point.fused if peer.fused else point.benchmark
    env = {k: v for k, v in os.environ.items()
           if is_passed_on(k) and k != "GLIBC_TUNABLES"}
    env.update(peer.env)
    command = [
        str(path), f"--benchmark_filter=^{re.escape(benchmark)}/",
        "--benchmark_format=json",
        f"--benchmark_repetitions={1 if point.once else options.repetitions}",
        f"--benchmark_min_time={options.min_time}",
        f"--threads={options.threads}", *peer.flags
    ]
    what = f"{name} {benchmark} as {peer.name}"
    got = run_command(command, env, what, options.clock)
    return replayed_function(got, what) if peer is TJIT_JIT else got


def replayed_function(got, what):
    """`got` of a wrapped function; missing if it ran instead of being
    replayed, as its time would be eager's."""
    if "samples" not in got:
        return got
    share = got["counters"].get("functions", 0)
    if share >= JIT_SHARE:
        return got
    return {"missing": f"{what}: {share:.2f} calls a step were replayed: "
                       "see `tjit explain`"}


def run_command(command, env, what, clock="wall"):
    """The result of `command`, as run_once() gives it."""
    try:
        done = subprocess.run(command, env=env, text=True, capture_output=True,
                              timeout=600, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"{what} did not end in 600 s"}
    if done.returncode != 0:
        return {"error": f"{what} ended with status {done.returncode}: "
                         f"{done.stderr.strip()[-300:]}"}
    # A defect or option that this build does not know is said on stderr.
    if "TJIT_PLANTED_DEFECT" in env and "TJIT_PLANTED_DEFECT" in done.stderr:
        return {"missing": done.stderr.strip()[-200:]}
    return parse(done.stdout, clock)


def parse(text, clock):
    """Samples in us and counters from Google Benchmark's JSON. Its processor
    time is that of the program's thread."""
    report = json.loads(text)
    runs = [b for b in report["benchmarks"] if b["run_type"] == "iteration"]
    if not runs:
        return {"error": "no benchmark of that name"}
    skip = {"name", "family_index", "per_family_instance_index", "run_name",
            "run_type", "repetitions", "repetition_index", "threads",
            "iterations", "real_time", "cpu_time", "time_unit", "label"}
    counters = {key: statistics.median(run[key] for run in runs)
                for key in runs[0] if key not in skip}
    time = "cpu_time" if clock == "processor" else "real_time"
    return {"samples": [run[time] for run in runs],
            "less": "/less/" in runs[0]["name"],
            "bits": runs[0].get("label", ""), "counters": counters,
            "context": report["context"]}


def collect(records):
    """{(benchmark, peer name): {rounds: [[us]], bits, counters} or text}."""
    results, context = {}, {}
    for record in records:
        key = (record["benchmark"], record["peer"])
        known = results.setdefault(key, {"rounds": [], "bits": set()})
        if "samples" not in record:
            known.update({k: record[k] for k in ("error", "missing")
                          if k in record})
            continue
        known["rounds"].append(record["samples"])
        known["less"] = record["less"]
        known["bits"].add(record["bits"])
        known["counters"] = record["counters"]
        context = record["context"]
    return results, context


def measure(options, chosen, where, kept):
    """Runs what is not in the samples yet; `options.out` has a report of what
    there is after each round."""
    done = {(r["benchmark"], r["peer"], r["round"]) for r in kept.records}
    failed = set()
    for number in range(options.rounds):
        for point in chosen:
            for peer in point.peers:
                key = (point.benchmark, peer.name)
                if key in failed or (*key, number) in done:
                    continue
                got = run_once(options.programs, point, peer, options)
                if "samples" not in got:
                    failed.add(key)
                kept.add({"benchmark": point.benchmark, "peer": peer.name,
                          "round": number, **got})
        print(f"round {number + 1} of {options.rounds} done",
              file=sys.stderr, flush=True)
        write_report(options.out, chosen, where, kept.records)


def quantile(samples, q):
    """The q-quantile, by linear interpolation."""
    ordered = sorted(samples)
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def summary(result):
    """Median and spread of all samples in us, or None."""
    samples = [s for r in result.get("rounds", []) for s in r]
    if not samples or "error" in result or "missing" in result:
        return None
    return {"median": quantile(samples, 0.5), "p10": quantile(samples, 0.1),
            "p90": quantile(samples, 0.9), "samples": len(samples)}


def ratio(base, other):
    """Median over the rounds of base's time by other's, or None."""
    if summary(base) is None or summary(other) is None:
        return None
    return statistics.median(
        statistics.median(b) / statistics.median(o)
        for b, o in zip(base["rounds"], other["rounds"]))


def evaluate(point, results):
    """One line of the table as a dictionary."""
    of = {p.name: results[point.benchmark, p.name] for p in point.peers}
    line = {"row": point.row, "label": point.label,
            "per_step": point.per_step,
            "us": {name: summary(r) for name, r in of.items()},
            "counters": {n: r.get("counters") for n, r in of.items()},
            "notes": [f"{n}: {r.get('error') or r.get('missing')}"
                      for n, r in of.items() if "error" in r or "missing" in r],
            "failed": [n for n, r in of.items() if "error" in r]}
    eager = [n for n in ("E+", "E+ fused") if line["us"].get(n)]
    if eager and "tjit" in of:
        best = min(eager, key=lambda n: line["us"][n]["median"])
        line["best"] = best
        line["against_best"] = ratio(of[best], of["tjit"])
        line["against_e_plus"] = ratio(of["E+"], of["tjit"])
        line["llvm_against_best"] = ratio(of[best], of.get("tjit llvm", {}))
        line["jit_against_best"] = ratio(of[best], of.get("jit", {}))
        line["floor_against_best"] = ratio(of[best], of.get("floor", {}))
        line["hand_against_best"] = ratio(of[best], of.get("by hand", {}))
        line["hand_is_less"] = of.get("by hand", {}).get("less", False)
    if "tjit llvm" in of:
        line["target"] = COMPILED_TARGETS.get(
            point.label, COMPILED_ROW_TARGETS.get(point.row))
    for name in of:
        line.setdefault("against_e", {})[name] = ratio(of.get("E", {}), of[name])
    line["log_costs"] = {
        logged: ratio(of[logged], of[plain])
        for logged, plain in (("tjit+log", "tjit"), ("E+log", "E"))
        if logged in of}
    line["same_bits"] = same_bits(point, of)
    counted = line["counters"].get("tjit") or line["counters"].get("replayed")
    line["replayed"] = (counted or {}).get("replayed")
    return line


def same_bits(point, of):
    """True if all peers that run the same program have the same result."""
    found = {False: set(), True: set()}
    for peer in point.peers:
        is_whole = not of[peer.name].get("less", False)
        if peer.env.get("TJIT_PLANTED_DEFECT") is None and is_whole:
            found[peer.fused] |= of[peer.name]["bits"]
    return len(found[False]) == 1 and len(found[True]) <= 1


def check(lines):
    """The targets that are missed, as sentences."""
    missed = []
    for line in lines:
        name = f"row {line['row']} {line['label']}"
        missed += [f"{name}: {note}" for note in line["notes"]]
        if not line["same_bits"]:
            missed.append(f"{name}: tjit's bits differ from eager's")
        if line["replayed"] is not None and not line["row"].startswith(
                ("27", rows_w.ROW)):
            if line["replayed"] < 0.5:
                missed.append(f"{name}: tjit is idle, {line['replayed']:.0%} "
                              "of the ops were replayed")
    ours = [line for line in lines if line["row"] in MEAN_ROWS]
    ratios = [line.get("against_best") for line in ours]
    for line, value in zip(ours, ratios):
        if value is not None and value < ROW_TARGET:
            missed.append(f"row {line['row']}: {value:.2f}x of the best E+, "
                          f"target {ROW_TARGET}")
    for line in lines:
        value = line.get("against_best")
        if line["row"] == "24" and value is not None and value < BLOCK_TARGET:
            missed.append(f"row 24: {value:.2f}x of the best E+, target "
                          f"{BLOCK_TARGET}")
    mean = geometric_mean(ratios)
    if len(ours) == len(MEAN_ROWS) and mean is not None and mean < MEAN_TARGET:
        missed.append(f"rows {', '.join(MEAN_ROWS)}: geometric mean "
                      f"{mean:.2f}x, target {MEAN_TARGET}")
    return (missed + check_never(lines) + check_overhead(lines) +
            check_log(lines) + check_compiled(lines) + rows_w.check(lines))


def check_compiled(lines):
    """What machine code has to reach, with what any could."""
    missed = []
    for line in lines:
        value, target = line.get("llvm_against_best"), line.get("target")
        if value is None or target is None or value >= target:
            continue
        bounds = [f"{times(line[key])} {what}" for key, what in (
            ("hand_against_best", "as a loop written by hand" +
             (", of less work" if line["hand_is_less"] else "")),
            ("floor_against_best", "if no kernel were executed"))
            if line.get(key) is not None]
        missed.append(f"row {line['row']} {line['label']}: {times(value)} of "
                      f"the best E+ by machine code, target {times(target)}" +
                      (f" ({', '.join(bounds)})" if bounds else ""))
    return missed


def check_log(lines):
    """Row 19 with the instruction log, tjit on and off."""
    missed = []
    for line in lines:
        for name, value in line.get("log_costs", {}).items():
            if value is not None and value > LOG_TARGET:
                missed.append(f"row {line['row']} {name}: {value:.2f}x of the "
                              f"time without the log, target {LOG_TARGET}")
    return missed


def check_never(lines):
    """Row 27: the mean of its counts against E."""
    missed = []
    for name in ("tjit", "tjit llvm"):
        ratios = [line["against_e"].get(name) for line in lines
                  if line["row"].startswith("27")]
        ratios = [value for value in ratios if value is not None]
        if ratios and statistics.mean(ratios) < NEVER_TARGET:
            missed.append(f"row 27 as {name}: {statistics.mean(ratios):.3f}x "
                          f"of E in the mean, target {NEVER_TARGET}")
    return missed


def check_overhead(lines):
    """Row 26: ten adds as one segment, and what recording costs."""
    missed = []
    for line in lines:
        us = line["us"]
        replayed = line["against_e"].get("replayed")
        if line["label"] == "ten-adds" and replayed is not None:
            if 1 / replayed > TEN_ADDS_TARGET:
                missed.append(f"row 26 ten adds: {1 / replayed:.2f}x of "
                              f"eager's time, target {TEN_ADDS_TARGET}")
        boxed = line["label"].startswith("boxed")
        if us.get("recording") and us.get("off") and not boxed:
            extra = 1000 * (us["recording"]["median"] - us["off"]["median"])
            if extra / line["per_step"] > RECORDING_TARGET_NS:
                missed.append(
                    f"row 26 recording: {extra / line['per_step']:.0f} ns per "
                    f"op, target {RECORDING_TARGET_NS}")
    return missed


def geometric_mean(values):
    """None if one is missing: a missing figure is never a win."""
    if not values or any(value is None for value in values):
        return None
    return statistics.geometric_mean(values)


def cell(stats):
    """'12.3 (12.1-12.9)' in us, or 'missing'."""
    if stats is None:
        return "missing"

    def show(value):
        if value >= 100:
            return f"{value:,.0f}"
        return f"{value:.1f}" if value >= 10 else f"{value:.2f}"

    return (f"{show(stats['median'])} "
            f"({show(stats['p10'])}-{show(stats['p90'])})")


def times(value):
    """'1.23x' or 'missing'."""
    return "missing" if value is None else f"{value:.2f}x"


def asked(line):
    """' (9.50x)', or nothing."""
    return f" ({times(line['target'])})" if line.get("target") else ""


def main_table(lines):
    """Rows 1 to 25 and 27."""
    out = ["| row | E | E+ | E+ fused | tjit | of best E+ | of E | "
           "tjit fused | floor | ops a step | replayed | segments a step | "
           "median segment | bits |",
           "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for line in lines:
        if line["row"] in TABLES:
            continue
        us = line["us"]
        did = line["counters"].get("tjit") or {}

        def of(name, us=us):
            return cell(us[name]) if name in us else "-"

        out.append(
            f"| {line['row']} {line['label']} | {of('E')} | {of('E+')} | "
            f"{of('E+ fused')} | {of('tjit')} | "
            f"{times(line.get('against_best'))} | "
            f"{times(line['against_e'].get('tjit'))} | {of('tjit fused')} | "
            f"{of('floor')} | {did.get('ops', 0):,.0f} | "
            f"{did.get('replayed', 0):.1%} | {did.get('segments', 0):.1f} | "
            f"{did.get('median_segment', 0):.0f} | "
            f"{'same' if line['same_bits'] else 'DIFFERENT'} |")
        if "tjit llvm" in us:
            ran = line["counters"].get("tjit llvm") or {}
            out.append(f"| {line['row']} with machine code | | | | "
                       f"{of('tjit llvm')} | "
                       f"{times(line.get('llvm_against_best'))}"
                       f"{asked(line)} | "
                       f"{times(line['against_e'].get('tjit llvm'))} | | | | "
                       f"{ran.get('fused', 0):.1%} fused, "
                       f"{ran.get('dead', 0):.1%} dead | "
                       f"{ran.get('segments', 0):.1f} | | |")
        if "jit" in us:
            ran = line["counters"].get("jit") or {}
            out.append(f"| {line['row']} by tjit::jit() | | | | {of('jit')} | "
                       f"{times(line.get('jit_against_best'))} | "
                       f"{times(line['against_e'].get('jit'))} | | | | "
                       f"{ran.get('fused', 0):.1%} fused | "
                       f"{ran.get('segments', 0):.1f} | | |")
        if "by hand" in us:
            less = ", less" if line.get("hand_is_less") else ""
            out.append(f"| {line['row']} by hand{less} | | | | "
                       f"{of('by hand')} | "
                       f"{times(line.get('hand_against_best'))} | "
                       f"{times(line['against_e'].get('by hand'))} | | | | "
                       "| | | |")
        if "tjit+mark" in us:
            out.append(f"| {line['row']} with mark_step | | | | "
                       f"{of('tjit+mark')} | | "
                       f"{times(line['against_e'].get('tjit+mark'))} | | | | "
                       "| | | |")
    return out if len(out) > 2 else []


def log_lines(lines):
    """What the instruction log costs, where it was measured."""
    out = []
    for line in lines:
        for name, value in line.get("log_costs", {}).items():
            out += [f"Row {line['row']} as {name}: {cell(line['us'][name])} us "
                    f"a step, {times(value)} of the time without the log", ""]
    return out


def overhead_table(lines):
    """Row 26, ns per op."""
    states = ["E", "off", "disabled", "recording", "deferred", "replayed"]
    out = ["| ns per op | not linked | linked, off | disabled after use | "
           "recording | deferred, not run | replayed |",
           "|---|---|---|---|---|---|---|"]
    for line in lines:
        if line["row"] != "26":
            continue
        cells = []
        for state in states:
            stats = line["us"].get(state)
            if state not in line["us"]:
                cells.append("-")
            elif stats is None:
                cells.append("missing")
            else:
                scale = 1000 / line["per_step"]
                cells.append(cell({k: scale * stats[k]
                                   for k in ("median", "p10", "p90")}))
        out.append(f"| {line['label']} | " + " | ".join(cells) + " |")
    return out if len(out) > 2 else []


def machine(options):
    """Where and with what this was measured."""
    cpu = "unknown"
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"model name\s*: (.*)", info.read_text())
        cpu = found.group(1) if found else cpu
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty",
         "--abbrev=12"], text=True, capture_output=True, check=False)
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime(
                "%Y-%m-%d %H:%M UTC"),
            "cpu": cpu, "cores": os.cpu_count(), "threads": options.threads,
            "load": os.getloadavg()[0], "system": platform.platform(),
            "libc": " ".join(platform.libc_ver()),
            "commit": commit.stdout.strip() or "unknown",
            "clock": options.clock,
            "rounds": options.rounds, "repetitions": options.repetitions,
            "min_time_s": options.min_time}


def render(where, lines, missed):
    """The whole report as Markdown."""
    mean_lines = [line for line in lines if line["row"] in MEAN_ROWS]
    out = ["# tjit benchmarks", ""]
    out += [f"- {key}: {value}" for key, value in where.items()]
    out += ["- peers A, I, J: see bench/peers/run.py; T: missing", "",
            "Microseconds a step, median (p10-p90). *of best E+*: time of the "
            "better of E+ and E+ fused by tjit's, median over rounds; higher "
            "is better.", ""]
    out += main_table(lines) + [""]
    if len(mean_lines) == len(MEAN_ROWS):
        for key, name in (("against_best", "the best E+"),
                          ("against_e_plus", "E+ with torch::optim"),
                          ("floor_against_best",
                           "the best E+ if no kernel were executed (floor)")):
            mean = geometric_mean([line.get(key) for line in mean_lines])
            out.append(f"Geometric mean of rows {', '.join(MEAN_ROWS)} against "
                       f"{name}: {times(mean)}")
            out.append("")
    out += log_lines(lines) + overhead_table(lines) + [""]
    out += rows_w.table(lines, cell)
    out += ["Targets missed:" if missed else "All targets are met.", ""]
    out += [f"- {sentence}" for sentence in missed]
    return "\n".join(out) + "\n"


def write_report(out, chosen, where, records):
    """Writes results.md and results.json of the points whose peers have all
    been measured. Returns (report, lines, missed targets)."""
    results, context = collect(records)
    there = [point for point in chosen
             if all((point.benchmark, peer.name) in results
                    for peer in point.peers)]
    lines = [evaluate(point, results) for point in there]
    missed = check(lines)
    where = {**where, **{key: context.get(key, "unknown")
                         for key in ("libtorch", "compiler")}}
    if len(there) < len(chosen):
        where["not measured yet"] = (
            f"{len(chosen) - len(there)} of {len(chosen)} lines")
    report = render(where, lines, missed)
    (out / "results.md").write_text(report)
    (out / "results.json").write_text(json.dumps(
        {"machine": where, "rows": lines, "missed": missed}, indent=1))
    return report, lines, missed


def parse_options():
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--compiled", action="store_true",
                        help="machine code too: tjit llvm, and by tjit::jit()")
    samples.add_options(parser, "bench-results")
    parser.add_argument("--rows",
                        help="9,18,27a, 27 or W (default: all but W)")
    parser.add_argument("--python", type=pathlib.Path,
                        help="the interpreter of rows W in Python; its torch "
                        "is what tjit was built for (default: that of .venv, "
                        "else this one)")
    parser.add_argument("--full", action="store_true", help="longer")
    parser.add_argument("--check", action="store_true",
                        help="exit status 1 if a target is missed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--min-time", type=float, dest="min_time")
    options = parser.parse_args()
    samples.check_options(parser, options)
    defaults = (10, 5, 0.2) if options.full else (3, 5, 0.04)
    options.rounds = options.rounds or defaults[0]
    options.repetitions = options.repetitions or defaults[1]
    options.min_time = options.min_time or defaults[2]
    if options.python is None:
        own = ROOT / ".venv" / "bin" / "python"
        options.python = own if own.exists() else sys.executable
    return parser, options


def choose(parser, options):
    """The lines of the table that the options ask for."""
    chosen = points(options.full, options.compiled, options.threads)
    if not options.rows:
        return chosen
    wanted = options.rows.split(",")
    if rows_w.ROW in wanted:
        chosen += habits()
    known = {p.row for p in chosen} | {"27", rows_w.ROW}
    for row in wanted:
        if row not in known:
            parser.error(f"row {row} is not known; rows: "
                         f"{', '.join(sorted(known))}")
    return [p for p in chosen
            if p.row in wanted or p.row.rstrip("abcd") in wanted]


def run_all(options, chosen, where, kept):
    """Measures; true if a signal ended it before it was through."""
    try:
        return samples.run_until_stopped(
            kept, lambda: measure(options, chosen, where, kept))
    finally:
        for path in LOG.parent.glob(LOG.name + "*"):
            path.unlink()


# What samples must agree in to stand in one table.
MUST_AGREE = ("commit", "cpu", "system", "threads", "clock", "repetitions",
              "min_time_s")
# What says which lines the table of a run has.
SHAPES = ("rows", "full", "compiled", "threads")


def main():
    """Returns the exit status."""
    parser, options = parse_options()
    where = machine(options)
    stopped = False
    try:
        if options.only_print:
            head, records = samples.read(options.out)
            where = head["machine"]
            for name in SHAPES:
                setattr(options, name, head["shape"][name])
            chosen = choose(parser, options)
        else:
            chosen = choose(parser, options)
            head = {"run": {name: where[name] for name in MUST_AGREE},
                    "shape": {n: getattr(options, n) for n in SHAPES},
                    "machine": where}
            kept = samples.SamplesFile(options.out, head, options.resume)
            records = kept.records
            stopped = run_all(options, chosen, where, kept)
    except samples.BadSamples as error:
        parser.error(str(error))
    report, lines, missed = write_report(options.out, chosen, where, records)
    print(report)
    if stopped:
        print(f"stopped: {options.out / samples.NAME} has {len(records)} "
              "samples; the same command with --resume goes on behind them",
              file=sys.stderr)
        return STOPPED
    failed = any(line["failed"] for line in lines)
    return 1 if failed or (options.check and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
