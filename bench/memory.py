#!/usr/bin/env python3
"""Memory of the rows: peak of tensor bytes, resident memory, code's share.

How: a process per row and peer makes the row's workload, warms it up (with
machine code: after another workload of the row has had its code compiled) and
runs a fixed number of steps. Counted is the largest sum of live bytes at
libtorch's CPU allocator during these steps, parameters and inputs included:
for *E* by an allocator that counts, in front of libtorch's own; for tjit by
its own, which counts blocks that a tensor, a deferred op or a running segment
holds (its arena is such a block), but no value that has an address only and no
memory that is kept for later. The latter is in the resident memory, which is
the whole process at the end of the steps.

  bench/memory.py --build build/release              all rows
  bench/memory.py --build build/release --rows 7,24  some
  bench/memory.py --build build/release --check      exit status 1 if a target
                                                     is missed
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

import run

LIMIT = 1.05  # of eager's peak, on every row
LOWER = {"7": 0.8, "24": 0.8}  # on these
# Rows without a figure of their own: streams that only measure overhead.
LEFT_OUT = ("26",)
PEERS = (
    ("E", False, {}),
    ("tjit", True, run.ON),
    ("tjit llvm", True, {**run.ON, "TJIT_BACKEND": "llvm"}),
)


def measure(options, point, peer):
    """What one process prints, or {"error": why}."""
    name, linked, extra = peer
    program = f"bench_{point.program}" + ("" if linked else "_plain")
    env = {k: v for k, v in os.environ.items() if run.is_passed_on(k)}
    env.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive", **extra)
    command = [options.programs / program, "--memory",
               f"--row={point.benchmark}", f"--steps={options.steps}"]
    if name == "tjit llvm":
        command.append(f"--settle_ms={options.settle_ms}")
    done = subprocess.run(command, env=env, text=True, capture_output=True,
                          timeout=600, check=False)
    if done.returncode != 0:
        return {"error": f"{program} {point.benchmark} as {name} ended with "
                         f"status {done.returncode}: "
                         f"{done.stderr.strip()[-300:]}"}
    return json.loads(done.stdout)


def above(peer):
    """What the steps need beside what lives between them, in bytes."""
    if "peak_bytes" not in peer:
        return None
    return peer["peak_bytes"] - peer["kept_bytes"]


def evaluate(point, of):
    """One line of the table as a dictionary."""
    line = {"row": point.row, "label": point.label, "peers": of,
            "notes": [p["error"] for p in of.values() if "error" in p]}
    eager = of["E"].get("peak_bytes")
    line["of_eager"] = {
        name: peer["peak_bytes"] / eager for name, peer in of.items()
        if name != "E" and eager and "peak_bytes" in peer}
    line["of_eager_above"] = {
        name: above(peer) / above(of["E"]) for name, peer in of.items()
        if name != "E" and above(of["E"]) and above(peer) is not None}
    labels = {peer.get("label") for peer in of.values()}
    line["same_bits"] = len(labels) == 1
    return line


def check(lines):
    """The targets that are missed, as sentences."""
    missed = []
    for line in lines:
        name = f"row {line['row']} {line['label']}"
        missed += [f"{name}: {note}" for note in line["notes"]]
        if not line["same_bits"]:
            missed.append(f"{name}: tjit's bits differ from eager's")
        limit = LOWER.get(line["row"], LIMIT)
        missed += [f"{name}: {peer} needs {value:.2f}x of eager's peak, "
                   f"target {limit}"
                   for peer, value in line["of_eager"].items()
                   if value > limit and (peer == "tjit llvm" or
                                         limit == LIMIT)]
    return missed


def size(peer, key):
    """Megabytes (or kilobytes) for people."""
    if key not in peer:
        return "missing"
    value = peer[key]
    if value < 100_000:
        return f"{value / 1e3:,.1f} kB"
    return f"{value / 1e6:,.1f} MB"


def render(lines, missed):
    """The whole report as Markdown."""
    out = ["# Memory of the rows", "",
           "Peak of tensor bytes at the allocator; *above*: the same without "
           "what lives between the steps (parameters, inputs, the last "
           "result), of E's; resident memory of the process; *generator*: "
           "resident pages of libtjit_llvm.so and of machine code, a part "
           "of it.", "",
           "| row | E | tjit | of E | tjit llvm | of E | above | resident E | "
           "tjit | tjit llvm | generator | bits |",
           "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for line in lines:
        of = line["peers"]
        e, tjit, llvm = of["E"], of["tjit"], of["tjit llvm"]
        times = {name: run.times(line["of_eager"].get(name)) for name in of}
        over = run.times(line["of_eager_above"].get("tjit llvm"))
        code = {"sum": llvm.get("generator", 0) + llvm.get("code", 0)}
        out.append(
            f"| {line['row']} {line['label']} | {size(e, 'peak_bytes')} | "
            f"{size(tjit, 'peak_bytes')} | {times['tjit']} | "
            f"{size(llvm, 'peak_bytes')} | {times['tjit llvm']} | "
            f"{over} | {size(e, 'resident')} | {size(tjit, 'resident')} | "
            f"{size(llvm, 'resident')} | {size(code, 'sum')} | "
            f"{'same' if line['same_bits'] else 'DIFFERENT'} |")
    out += ["", "Targets missed:" if missed else "All targets are met.", ""]
    out += [f"- {sentence}" for sentence in missed]
    return "\n".join(out) + "\n"


def parse_options():
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path,
                        default=run.ROOT / "build" / "release",
                        help="build folder (default: build/release)")
    parser.add_argument("--out", type=pathlib.Path,
                        help="where memory.md and memory.json go "
                        "(default: <build>/bench-results)")
    parser.add_argument("--rows", help="7,24 (default: all)")
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--settle-ms", type=int, default=1500,
                        dest="settle_ms")
    parser.add_argument("--check", action="store_true",
                        help="exit status 1 if a target is missed")
    options = parser.parse_args()
    options.programs = options.build / "bin"
    options.out = options.out or options.build / "bench-results"
    if not options.programs.is_dir():
        parser.error(f"{options.programs} is not there: build first, or name "
                     "the build folder with --build")
    options.points = [p for p in run.points(False, False)
                      if p.row not in LEFT_OUT]
    if options.rows:
        wanted = options.rows.split(",")
        known = {p.row for p in options.points}
        for row in wanted:
            if row not in known:
                parser.error(f"row {row} is not known; rows: "
                             f"{', '.join(sorted(known))}")
        options.points = [p for p in options.points if p.row in wanted]
    return options


def main():
    """Returns the exit status."""
    options = parse_options()
    lines = []
    for point in options.points:
        of = {peer[0]: measure(options, point, peer) for peer in PEERS}
        lines.append(evaluate(point, of))
        print(f"row {point.row} {point.label} done", file=sys.stderr,
              flush=True)
    missed = check(lines)
    options.out.mkdir(parents=True, exist_ok=True)
    report = render(lines, missed)
    (options.out / "memory.md").write_text(report)
    (options.out / "memory.json").write_text(
        json.dumps({"rows": lines, "missed": missed}, indent=1))
    print(report)
    failed = any(line["notes"] for line in lines)
    return 1 if failed or (options.check and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
