#!/usr/bin/env python3
"""Row 28: whole processes, from start to exit, of rows 19 and 24.

How: the steps of a row are counted so that eager works for --seconds. Then the
peers run one after the other, --rounds times: *E* libtorch alone; *cold* tjit
with an empty cache folder; *warm* tjit with the folder that an earlier process
has left (compiled code and profile). Wall time of the process; ratios are taken
within a round, median over the rounds. All must print the same bits.

  bench/cold.py --build build/release            two rows, ten rounds
  bench/cold.py --build build/release --check    exit status 1 if a target is
                                                 missed
"""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = {"19": "row19/mlp-adam/optim", "24": "row24/block/optim"}
COLD_TARGET = 1.02  # time of a cold process against eager's, at most
WARM_TARGET = 1.0  # of one with a warm cache: less


def run(options, row, steps, cache=None, backend="llvm"):
    """(seconds, what it printed) of one process; eager without `cache`."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TJIT_")}
    env.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
    name = "bench_training_plain"
    if cache is not None:
        name = "bench_training"
        env.update(TJIT_AUTO_COMPILE="1", TJIT_BACKEND=backend,
                   TJIT_CACHE_DIR=str(cache))
    began = time.perf_counter()
    done = subprocess.run(
        [options.programs / name, f"--row={row}", f"--steps={steps}"], env=env,
        text=True, capture_output=True, timeout=600, check=False)
    took = time.perf_counter() - began
    if done.returncode != 0 or done.stderr:
        sys.exit(f"{name} {row} ended with status {done.returncode}: "
                 f"{done.stderr.strip()[-300:]}")
    return took, done.stdout


def count_steps(options, row):
    """The steps that take eager so many seconds, beside start and warm-up."""
    few, many = 10, 10
    base, _ = run(options, row, few)
    while True:
        many *= 4
        took, _ = run(options, row, many)
        if took - base > min(0.5, options.seconds):
            break
    return max(1, round(options.seconds * (many - few) / (took - base)))


def measure(options, row):
    """{peer: [seconds]} and the steps."""
    steps = options.steps or count_steps(options, row)
    times, printed = {}, set()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for backend in options.backends:
            run(options, row, steps, folder / f"warm-{backend}", backend)
        for number in range(options.rounds):
            peers = [("E", None, "")]
            for backend in options.backends:
                cold = folder / f"cold-{backend}"
                shutil.rmtree(cold, ignore_errors=True)
                peers += [(f"cold {backend}", cold, backend),
                          (f"warm {backend}", folder / f"warm-{backend}",
                           backend)]
            for name, cache, backend in peers:
                took, out = run(options, row, steps, cache, backend)
                times.setdefault(name, []).append(took)
                printed.add(out)
            print(f"{row}: round {number + 1} of {options.rounds} done",
                  file=sys.stderr, flush=True)
    if len(printed) != 1:
        sys.exit(f"{row}: the peers' bits differ: {sorted(printed)}")
    return times, steps


def table(row, steps, times):
    """Lines of Markdown, and the targets that were missed."""
    lines, missed = [], []
    for name, took in times.items():
        ratio = statistics.median(t / e for t, e in zip(took, times["E"]))
        lines.append(f"| {row} | {steps} | {name} | "
                     f"{statistics.median(took):.3f} ({min(took):.3f}-"
                     f"{max(took):.3f}) | {ratio:.3f} |")
        if name.startswith("cold") and ratio > COLD_TARGET:
            missed.append(f"row 28 of row {row}, {name}: {ratio:.3f}x of "
                          f"eager's time, target {COLD_TARGET}")
        if name.startswith("warm") and ratio >= WARM_TARGET:
            missed.append(f"row 28 of row {row}, {name}: {ratio:.3f}x of "
                          f"eager's time, target below {WARM_TARGET}")
    return lines, missed


def main():
    parser = argparse.ArgumentParser(description="Row 28: whole processes.")
    parser.add_argument("--build", default=ROOT / "build/release",
                        type=pathlib.Path)
    parser.add_argument("--rows", default="19,24")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--steps", type=int, help="instead of counting them")
    parser.add_argument("--backends", default="replay,llvm")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    options.programs = options.build / "bin"
    options.backends = options.backends.split(",")
    unknown = [r for r in options.rows.split(",") if r not in ROWS]
    if unknown:
        parser.error(f"--rows: {unknown[0]} is none of {', '.join(ROWS)}")
    print("| row | steps | peer | seconds, median (min-max) | of E |\n"
          "|---|---|---|---|---|")
    missed = []
    for row in options.rows.split(","):
        times, steps = measure(options, ROWS[row])
        lines, bad = table(row, steps, times)
        print("\n".join(lines), flush=True)
        missed += bad
    for sentence in missed:
        print(sentence)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
