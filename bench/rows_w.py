"""Rows W of bench/run.py: programs after the habits of ordinary users.

The programs are in workloads_habits_*.cpp and, those in Python, in habits.py.
This module has their names, their table and their targets.
"""
import statistics

ROW = "W"
PYTHON = "habits.py"  # the program of the rows in Python
NAMES = (
    "shuffled-classifier", "pointer-regression", "blob-server",
    "epochs-evaluated", "clipped-schedule", "embedding-bags", "static-cache",
    "growing-cache", "lstm-lengths", "actor-critic", "graph-convolution",
    "graph-attention", "energy-forces", "pair-forces", "experts",
    "exact-process", "variational-process", "normalising-flow", "adversaries",
    "wasserstein")
PYTHON_NAMES = (
    "shuffled-classifier", "buffer-regression", "static-cache", "lstm-lengths",
    "actor-critic", "graph-convolution", "energy-forces", "experts",
    "exact-process", "adversaries")

# Targets.
REPLAYED_TARGET = 0.85  # share of the ops
RATIO_TARGET = 0.98  # of E+, each row
MEAN_TARGETS = {"C++": 1.5, "Python": 1.25}  # of E+, geometric mean
MORE_MB_TARGET, MORE_TARGET = 40, 1.15  # resident memory: either may do
GAIN = 0.97  # of E+'s time: what counts as the first gain


def of_row(lines):
    """The lines of rows W."""
    return [line for line in lines if line["row"] == ROW]


def language(line):
    """What the program is written in."""
    return "Python" if line["label"].startswith("py/") else "C++"


def first_gain(line):
    """Milliseconds from the first step to the part of the warm-up that wins,
    as does all that follows it; None if the row does not."""
    parts = {}
    for peer in ("E+", "tjit"):
        counted = line["counters"].get(peer) or {}
        parts[peer] = [counted[key] for key in sorted(counted)
                       if key.startswith("part")]
    ours, eager = parts["tjit"], parts["E+"]
    if not ours or (line.get("against_e_plus") or 0) * GAIN < 1:
        return None
    for i, (one, other) in enumerate(zip(ours, eager)):
        if one < GAIN * other and sum(ours[i:]) < GAIN * sum(eager[i:]):
            return sum(ours[:i])
    return None


def resident(line, peer):
    """Peak of resident memory in MB, or None."""
    return (line["counters"].get(peer) or {}).get("peak_mb")


def means(lines):
    """{language: geometric mean of the ratios} where no row is missing."""
    out = {}
    for name, count in (("C++", len(NAMES)), ("Python", len(PYTHON_NAMES))):
        ratios = [line.get("against_e_plus") for line in of_row(lines)
                  if language(line) == name]
        if len(ratios) == count and None not in ratios:
            out[name] = statistics.geometric_mean(ratios)
    return out


def check(lines):
    """The targets that are missed, as sentences."""
    missed = []
    for line in of_row(lines):
        name = f"row W {line['label']}"
        share, value = line["replayed"], line.get("against_e_plus")
        if share is not None and share < REPLAYED_TARGET:
            missed.append(f"{name}: {share:.1%} of the ops were replayed, "
                          f"target {REPLAYED_TARGET:.0%}")
        if value is not None and value < RATIO_TARGET:
            missed.append(f"{name}: {value:.2f}x of E+, target {RATIO_TARGET}")
        eager, ours = resident(line, "E+"), resident(line, "tjit")
        if eager and ours and ours > max(eager + MORE_MB_TARGET,
                                         eager * MORE_TARGET):
            missed.append(f"{name}: {ours - eager:.0f} MB more than E+, target "
                          f"{MORE_MB_TARGET} MB or {MORE_TARGET}x")
    missed += [f"rows W in {name}: geometric mean {mean:.2f}x of E+, target "
               f"{MEAN_TARGETS[name]}" for name, mean in means(lines).items()
               if mean < MEAN_TARGETS[name]]
    return missed


def table(lines, cell):
    """The table as lines of Markdown; `cell` shows microseconds."""
    if not of_row(lines):
        return []
    out = ["| row W | E+ | tjit | of E+ | replayed | fused | ops a step | "
           "resident MB, E+ | tjit | first gain, ms | bits |",
           "|---|---|---|---|---|---|---|---|---|---|---|"]

    def show(value, form):
        return "-" if value is None else format(value, form)

    for line in of_row(lines):
        did = line["counters"].get("tjit") or {}
        of_e_plus = show(line.get("against_e_plus"), ".2f")
        out.append(
            f"| {line['label']} | {cell(line['us']['E+'])} | "
            f"{cell(line['us']['tjit'])} | {of_e_plus} | "
            f"{show(line['replayed'], '.1%')} | "
            f"{show(did.get('fused'), '.1%')} | "
            f"{show(did.get('ops'), ',.0f')} | "
            f"{show(resident(line, 'E+'), '.0f')} | "
            f"{show(resident(line, 'tjit'), '.0f')} | "
            f"{show(first_gain(line), ',.0f')} | "
            f"{'same' if line['same_bits'] else 'DIFFERENT'} |")
    out.append("")
    for name, mean in means(lines).items():
        out += [f"Geometric mean of rows W in {name} against E+: {mean:.2f}x",
                ""]
    return out
