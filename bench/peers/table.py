"""The table of tjit beside its peers: arithmetic and Markdown, no measuring.

A peer has variants, e.g. "J" and "J 512"; the variant with the least median
stands for it. What is missing has its reason under the table: a row without one
of the peers is in no mean over all peers, so a missing peer never is a win.
"""
import statistics

EAGER = ("E+", "E+ fused")
NAMED = ("A", "I", "J")
# Peers whose training steps were rewritten by hand, as one function without
# autograd: they stand beside the table's best peer, not in its place.
BY_HAND = ("A-train", "I-train")


def median(result):
    """Of all samples in us, or None."""
    if not result or "error" in result or "missing" in result:
        return None
    samples = [s for one in result["rounds"] for s in one]
    return statistics.median(samples) if samples else None


def ratio(base, other):
    """Median over the rounds that both have of base's time by other's, or
    None."""
    if median(base) is None or median(other) is None:
        return None
    return statistics.median(
        statistics.median(b) / statistics.median(o)
        for b, o in zip(base["rounds"], other["rounds"]))


def best_of(results):
    """(name, result) of the least median of {name: result}, or None."""
    there = [(name, r) for name, r in results.items() if median(r) is not None]
    return min(there, key=lambda pair: median(pair[1])) if there else None


def family(name):
    """"A" of "A fz"."""
    return name.split(" ", maxsplit=1)[0]


def evaluate(label, results):
    """One line of the table, from {peer with variant: result}. What a run has
    not come to yet is not in `results`."""
    tjit = results.get("tjit")
    eager = best_of({n: r for n, r in results.items() if n in EAGER})
    jit = results.get("jit")
    line = {"label": label, "tjit": median(tjit), "has_jit": jit is not None,
            "jit": median(jit), "E": median(results.get("E")),
            "E+": median(eager[1]) if eager else None,
            "E+ fused": bool(eager) and eager[0] == "E+ fused",
            "times": ratio(eager[1], tjit) if eager else None,
            "peers": {}, "notes": [], "failed": []}
    for name, result in results.items():
        reason = result.get("error") or result.get("missing")
        if reason:
            line["notes"].append(f"{name}: {reason}")
        if "error" in result:
            line["failed"].append(name)
    for name in ("tjit", "jit"):
        if len(set().union(*(set(results.get(n, {}).get("bits", ()))
                             for n in ("E", "E+", name)))) > 1:
            line["notes"].append(f"{name}: other bits than eager")
            line["failed"].append(name)
    candidates = dict([eager] if eager else [])
    for peer in NAMED + BY_HAND:
        best = best_of({n: r for n, r in results.items() if family(n) == peer})
        if best is None:
            continue
        line["peers"][peer] = {"variant": best[0], "us": median(best[1])}
        if peer in NAMED:
            candidates[best[0]] = best[1]
    line["missing"] = missing_peers(line["peers"])
    best = best_of(candidates)
    if best and line["peers"]:
        line["best"] = best[0]
        line["against_best"] = ratio(tjit, best[1])
    by_hand = best_of({**candidates, **{
        n: r for n, r in results.items() if family(n) in BY_HAND}})
    if best and line["peers"]:
        line["best_by_hand"] = by_hand[0]
        line["against_by_hand"] = ratio(tjit, by_hand[1])
        line["jit_against_best"] = ratio(jit, by_hand[1])
    return line


def missing_peers(there):
    """The named peers without any figure; a step by hand stands for A."""
    return [peer for peer in NAMED if peer not in there and
            not (peer == "A" and "A-train" in there)]


def geometric_mean(values):
    """None of none, and None if one is missing."""
    values = list(values)
    if not values or any(value is None for value in values):
        return None
    return statistics.geometric_mean(values)


def means(lines):
    """The geometric means, as (what, rows, value)."""
    whole = [line for line in lines if line["times"] is not None]
    complete = [line for line in whole
                if not line["missing"] and line.get("against_best")]
    partly = [line for line in whole if line.get("against_best")]
    out = [("times as fast as the best E+", len(whole),
            geometric_mean(line["times"] for line in whole)),
           ("of the best peer's speed, rows that have all peers",
            len(complete),
            geometric_mean(1 / line["against_best"] for line in complete)),
           ("the same, with steps rewritten by hand", len(complete),
            geometric_mean(1 / line["against_by_hand"] for line in complete))]
    wrapped = [line for line in complete if line.get("jit_against_best")]
    out.append((
        "of the best peer's speed by tjit::jit(), with steps rewritten by hand",
        len(wrapped),
        geometric_mean(1 / line["jit_against_best"] for line in wrapped)))
    if len(partly) > len(complete):
        out.append(("of the best peer's speed, of those that are there",
                    len(partly),
                    geometric_mean(1 / line["against_best"]
                                   for line in partly)))
    return out


def show(value):
    """A time in us, or "missing"."""
    if value is None:
        return "missing"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(peer, line):
    """The time of the best variant, with its name."""
    got = line["peers"].get(peer)
    if got is None:
        return "missing"
    variant = got["variant"].removeprefix(peer).strip()
    return show(got["us"]) + (f" {variant}" if variant else "")


def by_hand_cell(line):
    """The best of the steps rewritten by hand, or "-" in rows without."""
    there = [(got["us"], got["variant"]) for peer, got in line["peers"].items()
             if peer in BY_HAND]
    return f"{show(min(there)[0])} {min(there)[1]}" if there else "-"


def jit_cells(line):
    """The time of the wrapped function, and by that of the best peer."""
    if not line["has_jit"]:
        return "- | -"
    return f"{show(line['jit'])} | {times(line.get('jit_against_best'))}"


def times(value):
    """'1.23' or 'missing'."""
    return "missing" if value is None else f"{value:.2f}"


def markdown(lines, where, rows):
    """The whole report; `rows` is how many there are to measure."""
    out = ["# tjit beside its peers", ""]
    out += [f"- {key}: {value}" for key, value in where.items()]
    if len(lines) < rows:
        out.append(f"- not measured yet: {rows - len(lines)} of {rows} rows")
    out += ["", "Microseconds a step, medians. *tjit/best*: tjit's time by "
            "that of the best of E+, A, I and J, median over rounds; below 1 "
            "tjit is faster. *f*: the fused optimizer, called by hand. *By "
            "hand*: the step rewritten as one function without autograd. "
            "*jit*: the step's function wrapped by tjit::jit(); *jit/best*: its "
            "time by that of the best of all, steps by hand among them.", "",
            "| row | E+ | tjit | times E+ | A | I | J | best | tjit/best | "
            "by hand | tjit/best with it | jit | jit/best |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for line in lines:
        fused = " f" if line["E+ fused"] else ""
        out.append(
            f"| {line['label']} | {show(line['E+'])}{fused} | "
            f"{show(line['tjit'])} | {times(line['times'])} | "
            + " | ".join(cell(peer, line) if peer not in "A" or
                         "A-train" not in line["peers"] else "-"
                         for peer in NAMED)
            + f" | {line.get('best', 'missing')} | "
            f"{times(line.get('against_best'))}"
            + (f" ({', '.join(line['missing'])} missing)"
               if line["missing"] else "")
            + f" | {by_hand_cell(line)} | "
            f"{times(line.get('against_by_hand'))} | {jit_cells(line)} |")
    out.append("")
    for what, count, value in means(lines):
        out.append(f"- Geometric mean over {count} of {rows} rows: "
                   f"{times(value)} {what}.")
    notes = [f"- {line['label']}, {note}" for line in lines
             for note in line["notes"]]
    if notes:
        out += ["", "Missing:", "", *notes]
    return "\n".join(out) + "\n"
