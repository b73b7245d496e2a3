#!/usr/bin/env python3
"""What tjit costs a process before it can win anything, and what it keeps.

How: a short program (examples/unmodified, 0.2 s) or one given on the command
line runs alone (*E*) and under `tjit run`: *off* with TJIT_DISABLE=1, *replay*
by library calls without any file, *cold* with an empty cache folder, *warm*
with the folder that an earlier process has left. They take turns, --rounds
times. Wall time, processor time of all threads and peak resident memory of the
process; differences to *E* and ratios are taken within a round, median over the
rounds. What tjit itself says its start took (`start_ns` of TJIT_STATS) stands
beside them. All must print the same.

  bench/start.py --build build/release           twenty rounds
  bench/start.py -- ./program argument
  bench/start.py --check                         exit status 1 if a target is
                                                 missed
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLD_TARGET = 1.02  # wall time against eager's, at most
START_TARGET_MS = 20  # processor time more than eager's, at most
PEERS = ("E", "off", "replay", "cold", "warm")


def run(command, env):
    """(wall ms, processor ms, peak resident kB, what it printed)."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE,
                               text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with status "
                 f"{process.returncode}")
    return (1e3 * took, 1e3 * (usage.ru_utime + usage.ru_stime),
            usage.ru_maxrss, out)


def measure(options, folder):
    """{peer: [(wall ms, processor ms, kB)]}, and of one more warm process what
    tjit says its start took, and the whole processor time, in ms."""
    eager = {k: v for k, v in os.environ.items() if not k.startswith("TJIT_")}
    tjit = [str(options.build / "bin/tjit"), "run"]
    stats = folder / "stats.json"
    samples, printed = {peer: [] for peer in PEERS}, set()

    def once(peer):
        env, command = dict(eager), list(options.program)
        if peer != "E":
            command = [*tjit, "--", *command]
        if peer == "off":
            env["TJIT_DISABLE"] = "1"
        elif peer == "replay":
            env.update(TJIT_CACHE_DIR="off", TJIT_PROFILE="off",
                       TJIT_BACKEND="replay")
        elif peer == "cold":
            shutil.rmtree(folder / "cold", ignore_errors=True)
            env["TJIT_CACHE_DIR"] = str(folder / "cold")
        elif peer == "warm":
            env["TJIT_CACHE_DIR"] = str(folder / "warm")
        *sample, out = run(command, env)
        printed.add(out)
        return sample

    for peer in PEERS:
        once(peer)
    for _ in range(options.rounds):
        for peer in PEERS:
            samples[peer].append(once(peer))
    _, whole_ms, *_ = run(
        [*tjit, f"--stats={stats}", "--", *options.program],
        {**eager, "TJIT_CACHE_DIR": str(folder / "warm")})
    if len(printed) != 1:
        sys.exit(f"the peers print different things: {sorted(printed)}")
    start_ms = json.loads(stats.read_text())["start_ns"] / 1e6
    return samples, start_ms, whole_ms


def main():
    parser = argparse.ArgumentParser(description="The start of a process.")
    parser.add_argument("--build", default=ROOT / "build/release",
                        type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("program", nargs="*")
    options = parser.parse_args()
    if not options.program:
        options.program = [str(options.build / "bin/unmodified")]
    with tempfile.TemporaryDirectory() as folder:
        samples, start_ms, whole_ms = measure(options, pathlib.Path(folder))
    print("| peer | wall ms | of E | processor ms | more than E | resident MB "
          "| more than E |\n|---|---|---|---|---|---|---|")
    missed = []
    for peer in PEERS:
        pairs = list(zip(samples[peer], samples["E"]))
        wall, cpu, kb = (statistics.median(s[i] for s in samples[peer])
                         for i in range(3))
        ratio = statistics.median(s[0] / e[0] for s, e in pairs)
        more = statistics.median(s[1] - e[1] for s, e in pairs)
        more_kb = statistics.median(s[2] - e[2] for s, e in pairs)
        print(f"| {peer} | {wall:.1f} | {ratio:.3f} | {cpu:.1f} | {more:+.1f} "
              f"| {kb / 1024:.0f} | {more_kb / 1024:+.0f} |")
        if peer == "cold" and ratio > COLD_TARGET:
            missed.append(f"{peer}: {ratio:.3f}x of eager's wall time, target "
                          f"{COLD_TARGET}")
        if peer == "replay" and more > START_TARGET_MS:
            missed.append(f"{peer}: {more:.1f} ms of processor time more than "
                          f"eager, target {START_TARGET_MS}")
    print(f"tjit says that its start took {start_ms:.1f} ms of processor time, "
          f"of {whole_ms:.1f} ms of that process")
    for sentence in missed:
        print(sentence)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
