"""Writes encodings.json: what scikit-learn, pandas and SciPy make of columns and targets, which `features` and
`eval::transform` must reproduce.

Run it from anywhere:

    python -m venv venv && venv/bin/pip install scikit-learn==1.9.1 pandas==3.1.1 scipy==1.17.1 numpy==2.4.6
    venv/bin/python tests/it/reference/make_encodings.py
"""

import json
import math
import pathlib

import numpy as np
import pandas as pd
from scipy import integrate, stats
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, TargetEncoder


def levels():
    rng = np.random.default_rng(11)
    names = [f"level {i}" for i in range(12)]
    codes = rng.integers(0, 12, 90)
    effects = rng.normal(0, 2, 12)
    y = np.round(effects[codes] + rng.normal(0, 1, 90), 6)
    return [names[c] for c in codes], y


def one_way(labels, y):
    """The variance within levels over that between them, by an analysis of variance (Searle, Casella & McCulloch)."""
    groups = pd.Series(y).groupby(pd.Series(labels))
    n, k = len(y), groups.ngroups
    sizes, means = groups.size(), groups.mean()
    within = ((y - groups.transform("mean")) ** 2).sum() / (n - k)
    between = (sizes * (means - y.mean()) ** 2).sum() / (k - 1)
    typical = (n - (sizes**2).sum() / n) / (k - 1)
    return within / ((between - within) / typical)


def target_means(labels, y):
    smoothing = one_way(labels, y)
    encoder = TargetEncoder(target_type="continuous", smooth=smoothing)
    encoder.fit(np.array(labels).reshape(-1, 1), y)
    known = list(encoder.categories_[0])
    folds = [(7 * i) % 5 for i in range(len(y))]
    out = np.empty(len(y))
    for fold in range(5):
        inside = np.array([f == fold for f in folds])
        rest = [label for label, i in zip(labels, inside) if not i]
        own = TargetEncoder(target_type="continuous", smooth=one_way(rest, y[~inside]))
        own.fit(np.array(rest).reshape(-1, 1), y[~inside])
        out[inside] = own.transform(np.array(labels)[inside].reshape(-1, 1))[:, 0]
    return {
        "labels": labels,
        "y": list(y),
        "levels": known,
        "smoothing": smoothing,
        "means": list(encoder.encodings_[0]),
        "unseen": encoder.transform([["never seen"]])[0, 0],
        "folds": folds,
        "out_of_fold": list(out),
    }


def one_hot():
    labels = ["north", "south", "west", "south", "north", "east"]
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(np.array(labels).reshape(-1, 1))
    asked = [*labels, "elsewhere"]
    rows = encoder.transform(np.array(asked).reshape(-1, 1))
    dummies = pd.get_dummies(pd.Series(labels)).to_numpy(dtype=float)
    assert (rows[:6] == dummies).all()
    return {"labels": labels, "asked": asked, "levels": list(encoder.categories_[0]), "rows": rows.tolist()}


def gaps():
    values = [3.0, math.nan, 1.5, 10.0, math.nan, 2.5, 4.0]
    column = np.array(values).reshape(-1, 1)
    made = {name: SimpleImputer(strategy=name).fit_transform(column)[:, 0].tolist() for name in ["mean", "median"]}
    both = SimpleImputer(strategy="mean", add_indicator=True).fit_transform(column)
    return {"values": [None if math.isnan(v) else v for v in values], **made, "indicator": both.tolist()}


def times():
    stamps = ["1969-12-31T23:30:00", "2024-02-29T06:15:30", "2024-12-31T00:00:00", "2025-07-04T18:00:00"]
    times = pd.to_datetime(pd.Series(stamps))
    turn = 2 * np.pi
    hour = times.dt.hour / 24 + times.dt.minute / 1440 + times.dt.second / 86400
    columns = {
        "age": (times - times.min()) / pd.Timedelta(days=1),
        "month_sin": np.sin(turn * (times.dt.month - 1) / 12),
        "month_cos": np.cos(turn * (times.dt.month - 1) / 12),
        "weekday_sin": np.sin(turn * times.dt.day_of_week / 7),
        "weekday_cos": np.cos(turn * times.dt.day_of_week / 7),
        "hour_sin": np.sin(turn * hour),
        "hour_cos": np.cos(turn * hour),
    }
    micros = [int(t.value // 1000) for t in times]
    return {"micros": micros, "columns": {name: list(map(float, column)) for name, column in columns.items()}}


def yeo_johnson_inverse(z, lam):
    if z >= 0:
        return math.expm1(z) if lam == 0 else (lam * z + 1) ** (1 / lam) - 1
    return -math.expm1(-z) if lam == 2 else 1 - (1 - (2 - lam) * z) ** (1 / (2 - lam))


def moments(inverse, mean, std):
    def integral(f):
        def at(u):
            return f(inverse(mean + std * u)) * math.exp(-u * u / 2) / math.sqrt(2 * math.pi)

        kink = -mean / std
        edges = sorted({-38.0, -12.0, -5.0, 5.0, 12.0, 38.0, *([kink] if abs(kink) < 38 else [])})
        pieces = zip(edges, edges[1:])
        return sum(integrate.quad(at, a, b, epsabs=1e-14, epsrel=1e-12, limit=400)[0] for a, b in pieces)

    first = integral(lambda y: y)
    second = integral(lambda y: (y - first) ** 2)
    return first, math.sqrt(second)


def crps(inverse, forward, y, mean, std):
    at = (forward(y) - mean) / std
    slope = lambda u: (inverse(mean + std * (u + 1e-6)) - inverse(mean + std * (u - 1e-6))) / 2e-6
    low = integrate.quad(lambda u: stats.norm.cdf(u) ** 2 * slope(u), -12, at, epsrel=1e-10, limit=400)[0]
    high = integrate.quad(lambda u: stats.norm.sf(u) ** 2 * slope(u), at, 14, epsrel=1e-10, limit=400)[0]
    return low + high


def targets():
    rng = np.random.default_rng(5)
    y = np.round(rng.gamma(2.0, 3.0, 200) - 1.0, 6)
    fitted, lam = stats.yeojohnson(y)
    assert 0 < lam < 2
    cases = []
    for name, forward, inverse, lambdas in [
        ("log", math.log, math.exp, [None]),
        ("log1p", math.log1p, math.expm1, [None]),
        ("yeo_johnson", None, None, [0.0, 0.4, 1.0, 1.7, 2.0]),
    ]:
        for value in lambdas:
            if value is None:
                back, ahead = inverse, forward
            else:
                back = lambda z, value=value: yeo_johnson_inverse(z, value)
                ahead = lambda v, value=value: float(stats.yeojohnson(np.array([v]), value)[0])
            for mean, std in [(0.3, 0.2), (1.2, 0.9), (-0.4, 0.6)]:
                first, second = moments(back, mean, std)
                for at in [0.7, 2.5]:
                    h = 1e-5
                    slope = (ahead(at + h) - ahead(at - h)) / (2 * h)
                    density = stats.norm.logpdf(ahead(at), mean, std) + math.log(slope)
                    cases.append(
                        {
                            "transform": name,
                            "lambda": value,
                            "mean": mean,
                            "std": std,
                            "y": at,
                            "y_mean": first,
                            "y_std": second,
                            "nlpd": -density,
                            "crps": crps(back, ahead, at, mean, std),
                        }
                    )
    return {"y": list(y), "lambda": lam, "transformed": list(fitted), "cases": cases}


labels, y = levels()
figures = {
    "one_hot": one_hot(),
    "target_mean": target_means(labels, y),
    "gaps": gaps(),
    "times": times(),
    "targets": targets(),
}
path = pathlib.Path(__file__).with_name("encodings.json")
path.write_text(json.dumps(figures, indent=1) + "\n")
print(path)
