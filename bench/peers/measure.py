#!/usr/bin/env python3
"""Measures one row as one peer, or makes its package; prints a line of JSON.

Runs in the environment of install.sh; bench/peers/run.py calls it. A process
checks its results first: {"samples": [us a step]}, {"prepared": seconds},
{"missing": why the peer cannot do the row} or {"error": what is wrong}.

  measure.py ROW --peer I --eager PROGRAM --benchmark NAME --expected FILE
  measure.py ROW --peer A ... --package FOLDER --runner PROGRAM

PROGRAM has the row in C++ and writes its results to FILE, if they are not there
yet. Peer E is eager torch in Python: it tells whether the row itself is right.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
import traceback

import torch

from rows import ROWS
from rows.row import difference

WARM_UP_S = 0.3


def read_expected(path, like):
    """The tensors that the C++ row wrote, as bytes, with the types and sizes of
    `like`; None if they are of other sizes."""
    data = bytearray(path.read_bytes())
    tensors, at = [], 0
    for tensor in like:
        if at + tensor.nbytes > len(data):
            return None
        tensors.append(torch.frombuffer(
            data, dtype=tensor.dtype, count=tensor.numel(),
            offset=at).reshape(tensor.shape))
        at += tensor.nbytes
    return tensors if at == len(data) else None


def run_eager(row, options):
    """Writes the results of the C++ row, once for its program."""
    path, program = options.expected, options.eager
    if path.exists() and path.stat().st_mtime > program.stat().st_mtime:
        return
    beside = path.with_suffix(f".{os.getpid()}")
    subprocess.run(
        [program, f"--row={options.benchmark}", "--steps=1",
         f"--warm_up={row.check_steps}", f"--results={beside}"],
        stdout=subprocess.DEVNULL, check=True)
    beside.replace(path)


def wrong(row, got, options):
    """How the results are wrong, or None."""
    run_eager(row, options)
    expected = read_expected(options.expected, got)
    if expected is None:
        return ("results of other sizes or types than eager's: " +
                ", ".join(f"{tuple(t.shape)} {t.dtype}" for t in got))
    return difference(row, got, expected)


def calls_to_check(row):
    """As many as the C++ row makes."""
    count = row.check_steps * row.calls_per_step
    return [row.schedule[i % len(row.schedule)] for i in range(count)]


def sample(run_all, wait, steps, options):
    """Microseconds a step, once for each repetition."""
    # That of all threads of the process: XLA has some.
    now = (time.process_time if options.clock == "processor"
           else time.perf_counter)

    def take(rounds):
        start = now()
        for _ in range(rounds):
            run_all()
        wait()
        return now() - start
    rounds, end = 1, time.monotonic() + WARM_UP_S
    while time.monotonic() < end:
        lacking = options.min_time / max(take(rounds), 1e-9)
        if lacking > 1:
            rounds = int(rounds * min(10, lacking)) + 1
    return [1e6 * take(rounds) / rounds / steps
            for _ in range(options.repetitions)]


def measure(row, peer, variant, options):
    """The samples of a row in this process."""
    if peer == "J":
        import by_jax as by  # pylint: disable=import-outside-toplevel
        by.set_flags(variant)
    else:
        import by_torch as by  # pylint: disable=import-outside-toplevel
    if peer == "E":
        torch.set_grad_enabled(False)
        runner, wait = by.eager_row(row), lambda: None
    else:
        runner, wait = by.compiled_row(row, variant)
    is_loop = "loop" in variant

    def run_all():
        if is_loop:
            runner.call_all()
            return
        for call in row.schedule:
            runner.call(call)
    start = time.monotonic()
    if is_loop:
        runner.call_all()
    else:
        for call in calls_to_check(row):
            runner.call(call)
    wait()
    compile_s = time.monotonic() - start
    bad = wrong(row, runner.results(), options)
    if bad:
        return {"error": bad}
    return {"samples": sample(run_all, wait,
                              len(row.schedule) / row.calls_per_step, options),
            "compile_s": compile_s}


def prepare(row, variant, options):
    """A package that has run and whose results are right."""
    import by_torch  # pylint: disable=import-outside-toplevel
    options.package.mkdir(parents=True, exist_ok=True)
    took = by_torch.export(row, variant, options.package)
    results = options.package / "results.pt"
    done = subprocess.run(
        [options.runner, options.package, "--steps", str(row.check_steps),
         "--results", results], text=True, capture_output=True, check=False)
    if done.returncode != 0:
        return {"missing": f"the package does not run: {done.stderr[-300:]}"}
    state, *last = torch.load(results, weights_only=False)
    names = list(dict.fromkeys(c.function for c in calls_to_check(row)))
    bad = wrong(row, row.results(state, dict(zip(names, last))), options)
    results.unlink()
    return {"error": bad} if bad else {"prepared": took}


def main():
    """Always says what came of it; the exit status is 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("row", choices=ROWS)
    parser.add_argument("--peer", choices=("A", "E", "I", "J"), required=True)
    parser.add_argument("--variant", default="")
    for name in ("--eager", "--expected"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    parser.add_argument("--benchmark", required=True)
    parser.add_argument("--package", type=pathlib.Path)
    parser.add_argument("--runner", type=pathlib.Path)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--min-time", type=float, default=0.04)
    parser.add_argument("--clock", choices=("wall", "processor"),
                        default="wall")
    options = parser.parse_args()
    try:
        row = ROWS[options.row]()
        if options.peer == "A":
            did = prepare(row, options.variant, options)
        else:
            did = measure(row, options.peer, options.variant, options)
    except Exception as error:  # pylint: disable=broad-exception-caught
        traceback.print_exc()
        text = " ".join(str(error).split())[:200]
        did = {"missing": f"{type(error).__name__}: {text}"}
    print(json.dumps(did), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
