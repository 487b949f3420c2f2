"""Permutation importance of a published model by scikit-learn, which only sees the scores that the program writes.

    python permutation.py PROGRAM MODEL ROWS.parquet TARGET FEATURE...

Prints one line per feature: name, mean and standard deviation of the loss of R².
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.inspection import permutation_importance

program, model, rows, target, *features = sys.argv[1:]


class Scores(RegressorMixin, BaseEstimator):
    """What the program scores."""

    fitted_ = True

    def fit(self, x, y):
        return self

    def predict(self, x):
        with tempfile.TemporaryDirectory() as place:
            source, scores = pathlib.Path(place, "rows.parquet"), pathlib.Path(place, "scores.parquet")
            pq.write_table(pa.table({name: x[:, i] for i, name in enumerate(features)}), source)
            command = [program, "score", "--model", model, "--input", source, "--output", scores, "--no-variance", "--quiet"]
            subprocess.run(command, check=True, capture_output=True)
            return pq.read_table(scores)["y_mean"].to_numpy()


table = pq.read_table(rows)
x = np.column_stack([table[name].to_numpy().astype(float) for name in features])
found = permutation_importance(Scores(), x, table[target].to_numpy().astype(float), n_repeats=5, random_state=1)
for name, mean, std in zip(features, found.importances_mean, found.importances_std):
    print(name, mean, std)
