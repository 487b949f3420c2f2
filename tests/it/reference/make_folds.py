"""Writes folds.json: what scikit-learn's splitters make of a few rows, for tests/it/folds.rs.

    python -m venv venv && venv/bin/pip install scikit-learn
    venv/bin/python tests/it/reference/make_folds.py

Which group goes to which fold is drawn differently; how large the folds are is not, and in time nothing is drawn at all.
"""

import json
import pathlib
from collections import Counter

import numpy as np
from sklearn.model_selection import GroupKFold, StratifiedKFold, TimeSeriesSplit


def groups(rng, rows, count, folds):
    keys = np.minimum(rng.geometric(1.5 / count, rows) - 1, count - 1)
    keys = np.unique(keys, return_inverse=True)[1]
    sizes = [len(test) for _, test in GroupKFold(folds).split(keys, groups=keys)]
    return {"groups": keys.tolist(), "folds": folds, "sizes": sorted(sizes)}


def times(rng, rows, folds, gap):
    order = rng.permutation(rows)
    listed = lambda part: sorted(order[part].tolist())
    windows = [[listed(train), listed(test)] for train, test in TimeSeriesSplit(folds, gap=gap).split(order)]
    when = np.empty(rows, dtype=int)
    when[order] = np.arange(rows)
    return {"times": when.tolist(), "folds": folds, "gap": gap, "windows": windows}


def strata(rng, rows, count, folds):
    keys = rng.choice(count, rows, p=np.arange(1, count + 1) / (count * (count + 1) / 2))
    keys = np.unique(keys, return_inverse=True)[1]
    tests = [Counter(keys[test].tolist()) for _, test in StratifiedKFold(folds).split(keys, keys)]
    shares = [sorted(test[key] for test in tests) for key in range(keys.max() + 1)]
    return {"strata": keys.tolist(), "folds": folds, "shares": shares}


def main():
    rng = np.random.default_rng(24)
    found = {
        "groups": [groups(rng, 90, 12, 4), groups(rng, 60, 20, 5), groups(rng, 40, 4, 3)],
        "times": [times(rng, 43, 4, 0), times(rng, 60, 5, 3), times(rng, 29, 2, 2)],
        "strata": [strata(rng, 80, 3, 4), strata(rng, 61, 4, 5)],
    }
    path = pathlib.Path(__file__).with_name("folds.json")
    path.write_text("{\n" + ",\n".join(f'"{name}": {json.dumps(cases)}' for name, cases in found.items()) + "\n}\n")


main()
