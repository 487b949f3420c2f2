"""The estimator keeps scikit-learn's rules, and computes what the program computes."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import stride_pipe as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.StrideWarning)
        yield


@pytest.fixture(scope="module")
def energy(place):
    frame = pq.read_table("rows.parquet").to_pandas()
    return frame.drop(columns=["row_id", "heating_load", "cooling_load"], errors="ignore"), frame["heating_load"]


ESTIMATORS = {
    "gp": sp.StrideRegressor(method="gp"),
    "sparse_gp": sp.StrideRegressor(method="sparse_gp", inducing=10),
    "ridge": sp.StrideRegressor(method="ridge"),
    "stride": sp.StrideRegressor(inducing=5, iterations=1, particles=1, options={"em": {"final_transitions": 2}}),
}


# It is for estimators that take arrays of other libraries, such as those on graphics cards; this one takes those of NumPy.
ALLOWED_SKIPS = {"check_array_api_input"}


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_scikit_learns_own_checks(name):
    """None of them is left out in silence."""
    done = check_estimator(ESTIMATORS[name], on_skip=None)
    other = {check["check_name"]: check["status"] for check in done if check["status"] != "passed"}
    assert len(done) > 40 and set(other) <= ALLOWED_SKIPS and set(other.values()) <= {"skipped"}, other


def test_same_bits_as_the_program(program, energy):
    X, y = energy
    options = {"inducing": 8, "iterations": 2, "particles": 2, "kernel": "matern52"}
    estimator = sp.StrideRegressor(**options, random_state=5).fit(X, y)
    # The pipeline that it says it ran, run by the program.
    frame = X.astype(float).assign(y=y)
    frame.to_parquet("estimator.parquet")
    pipeline = json.loads(json.dumps(estimator.pipeline_).replace("rows.parquet", "estimator.parquet"))
    assert pipeline["stages"]["model"]["train"]["em"] == {"iterations": 2, "particles": 2}
    pipeline["stages"]["model"]["train"]["publish"] = "models/estimator"
    (program.directory / "estimator.yaml").write_text(json.dumps(pipeline))
    program("run", "estimator.yaml", "--quiet")
    program("score", "--model", "models/estimator", "--input", "estimator.parquet", "--output", "estimated.parquet", "--quiet",
            "--intervals", "0.9")
    expected = pq.read_table("estimated.parquet")
    mean, std = estimator.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, expected["y_mean"].to_numpy())
    np.testing.assert_array_equal(std, expected["y_std"].to_numpy())
    np.testing.assert_array_equal(estimator.predict(X), mean)
    quantiles = estimator.predict_quantiles(X, [0.95, 0.05, 0.95])
    np.testing.assert_array_equal(quantiles[:, 1], expected["y_q05"].to_numpy())
    np.testing.assert_array_equal(quantiles[:, [0, 2]], np.column_stack([expected["y_q95"].to_numpy()] * 2))
    assert estimator.score(X, y) == pytest.approx(1 - ((mean - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    assert estimator.model_.features == list(X.columns)
    assert (estimator.sample_y(X, 2, random_state=None) != estimator.sample_y(X, 2, random_state=None)).any()
    assert (estimator.sample_y(X, 2, np.random.RandomState(3)) == estimator.sample_y(X, 2, np.random.RandomState(3))).all()
    samples = estimator.sample_y(X, 50, random_state=3)
    assert samples.shape == (len(X), 50) and ((samples < quantiles[:, [1]]).mean() == pytest.approx(0.05, abs=0.02))


def test_copies(energy):
    X, y = energy
    estimator = sp.StrideRegressor(method="sparse_gp", inducing=10, threads=1).fit(X, y)
    other = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(other.predict(X), estimator.predict(X))
    fresh = clone(estimator).set_params(threads=2)
    assert not hasattr(fresh, "model_") and fresh.get_params()["inducing"] == 10
    np.testing.assert_array_equal(fresh.fit(X, y).predict(X), estimator.predict(X))
    assert estimator.model_.predict(X)["y_mean"].tolist() == estimator.predict(X).tolist()


def test_seeds(energy):
    X, y = energy
    make = lambda seed: sp.StrideRegressor(inducing=5, iterations=1, particles=1, random_state=seed).fit(X, y).predict(X)
    first, other = make(1), make(None)
    assert (first == make(1)).all() and (first != make(2)).any() and (first != other).any()
    assert (make(np.random.RandomState(4)) == make(np.random.RandomState(4))).all()


def test_inside_of_scikit_learn(energy):
    X, y = energy
    chain = make_pipeline(StandardScaler(), sp.StrideRegressor(method="sparse_gp", inducing=15, threads=1))
    mixed = KFold(2, shuffle=True, random_state=0)
    assert cross_val_score(chain, X, y, cv=mixed).min() > 0.8
    search = GridSearchCV(chain, {"strideregressor__kernel": ["rbf", "matern32"]}, cv=mixed, n_jobs=2).fit(X, y)
    assert search.best_score_ > 0.8


def test_names_and_mistakes(energy):
    X, y = energy
    awkward = pd.DataFrame(X.to_numpy()[:, :3], columns=["a*", "${params.x}", "y"])
    estimator = sp.StrideRegressor(method="ridge").fit(awkward, y)
    assert estimator.model_.features == ["x0", "x1", "x2"] and len(estimator.predict(awkward)) == len(X)
    named = sp.StrideRegressor(method="ridge").fit(awkward.set_axis(["y", "y_", "ß"], axis=1), y)
    assert named.model_.features == ["y", "y_", "ß"]
    with pytest.raises(sp.PipelineError, match="stride"):
        sp.StrideRegressor(method="strde").fit(X, y)
    with pytest.raises(sp.PipelineError, match="particels"):
        sp.StrideRegressor(options={"em": {"particels": 2}}).fit(X, y)
