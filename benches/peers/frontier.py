"""Accuracy against seconds: the cases of pipelines/frontier.yaml, pipelines/fashion-best.yaml and other methods on the same rows.

Usage: frontier.py RESULTS DATA. Trains what benches/peers/others.py knows and RESULTS/frontier-others.json lacks, prints a table
and draws benches/frontier.svg.
"""

import json
import math
import pathlib
import sys

import pyarrow.parquet as pq

import others

HERE = pathlib.Path(__file__).parent
# The families of models in pipelines/frontier.yaml, by the names of their stages: what they are called, and their colour.
FAMILIES = {
    "sparse": ("sparse process", "#8250df"),
    "inducing": ("STRIDE, inducing points", "#1f6feb"),
    "neighbours": ("STRIDE, neighbours in training", "#1a7f37"),
}
SHOWN = ("smse", "nlpd", "coverage_95")


def files(results, table, pipeline):
    """The files of a table, oldest run first."""
    found = sorted((results / table / f"pipeline={pipeline}").rglob("*.parquet"))
    return found or sys.exit(f"no results of pipelines/{pipeline}.yaml in {results}: run it first")


def measured(results, pipeline, place_of):
    """What `place_of` makes of a stage: metrics and seconds of training and prediction of the last run that has them all."""
    timings = {file.name: file for file in files(results, "timings", pipeline)}
    complete = {}
    for file in files(results, "metrics", pipeline):
        found = {}
        for row in pq.read_table(file).to_pylist():
            if row["metric"] in SHOWN and row["fold"] is not None and row["split"] == "test":
                found.setdefault(place_of(row["stage"]), {})[row["metric"]] = row["value"]
        for row in pq.read_table(timings[file.name]).to_pylist() if file.name in timings else ():
            if name := {"offline": "cpu_s", "online": "prediction_cpu_s"}.get(row["phase"]):
                found.setdefault(place_of(row["stage"]), {})[name] = row["cpu_s"]
        complete |= {place: at for place, at in found.items() if len(at) == len(SHOWN) + 2}
    return complete


def points(results):
    """(family, number of the step): what was measured, step by step."""
    place = lambda stage: tuple(stage.removesuffix("-model").removesuffix("-predictions").split("-"))
    found = measured(results, "frontier", place)
    found |= measured(results, "fashion-best", lambda stage: ("neighbours", "9"))
    return {key: at for key, at in sorted(found.items()) if key[0] in FAMILIES}


def table(ours, theirs):
    lines = ["| | SMSE | NLPD | 95 % coverage | training | prediction |", "|---|---:|---:|---:|---:|---:|"]
    optional = lambda at, name, digits: f"{at[name]:.{digits}f}" if name in at else ""
    rows = [(f"{FAMILIES[family][0]}, {step}", at) for (family, step), at in ours.items()]
    for name, at in [*rows, *theirs.items()]:
        figures = f"{at['smse']:.4f} | {optional(at, 'nlpd', 2)} | {optional(at, 'coverage_95', 3)}"
        lines.append(f"| {name} | {figures} | {at['cpu_s']:.0f} | {optional(at, 'prediction_cpu_s', 1)} |")
    return "\n".join(lines)


def picture(ours, theirs):
    width, height, left, right, top, bottom = 760, 420, 60, 200, 20, 50
    seconds = [at["cpu_s"] for at in [*ours.values(), *theirs.values()]]
    errors = [at["smse"] for at in [*ours.values(), *theirs.values()]]
    x0, x1 = math.log10(min(seconds)) - 0.1, math.log10(max(seconds)) + 0.1
    y0, y1 = math.floor(min(errors) * 50) / 50, math.ceil(max(errors) * 50) / 50
    at_x = lambda s: left + (math.log10(s) - x0) / (x1 - x0) * (width - left - right)
    at_y = lambda e: top + (y1 - e) / (y1 - y0) * (height - top - bottom)
    end = width - right
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{(left + end) / 2}" y="{height - 10}" text-anchor="middle">processor seconds of training</text>',
        f'<text transform="translate(16 {height / 2}) rotate(-90)" text-anchor="middle">SMSE</text>',
    ]
    for k in range(round((y1 - y0) * 50) + 1):
        e = y0 + k / 50
        out.append(f'<path d="M{left} {at_y(e):.1f}H{end}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{at_y(e) + 4:.1f}" text-anchor="end">{e:.2f}</text>')
    for s in (s * 10**k for k in range(6) for s in (1, 2, 5)):
        if x0 <= math.log10(s) <= x1:
            out.append(f'<path d="M{at_x(s):.1f} {top}V{height - bottom}" stroke="#eee"/>')
            out.append(f'<text x="{at_x(s):.1f}" y="{height - bottom + 16}" text-anchor="middle">{s}</text>')
    below = 0
    for name, at in sorted(theirs.items(), key=lambda item: -item[1]["smse"]):
        y = at_y(at["smse"])
        # Names keep apart where their lines do not.
        below = max(y + 4, below + 14)
        out.append(f'<path d="M{left} {y:.1f}H{end}" stroke="#555" stroke-dasharray="5 4"/>')
        out.append(f'<circle cx="{at_x(at["cpu_s"]):.1f}" cy="{y:.1f}" r="4" fill="#555"/>')
        out.append(f'<text x="{end + 6}" y="{below:.1f}" fill="#333">{name}</text>')
    for row, (family, (name, colour)) in enumerate(FAMILIES.items()):
        chosen = [(at_x(at["cpu_s"]), at_y(at["smse"])) for (of, _), at in ours.items() if of == family]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in chosen)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.extend(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in chosen)
        # On top, where nothing is as inaccurate and slow.
        out.append(f'<circle cx="{end - 190}" cy="{top + 14 + 18 * row}" r="4" fill="{colour}"/>')
        out.append(f'<text x="{end - 180}" y="{top + 18 + 18 * row}" fill="{colour}">{name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main(results, data):
    results = pathlib.Path(results)
    ours = points(results)
    predictions = files(results, "predictions", "frontier")[-1]
    known = results / "frontier-others.json"
    others.main(data, predictions, known)
    theirs = json.loads(known.read_text())
    print(table(ours, theirs))
    (HERE.parent / "frontier.svg").write_text(picture(ours, theirs))


if __name__ == "__main__":
    main(*sys.argv[1:])
