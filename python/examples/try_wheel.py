"""What an installed wheel must do without any other package: train from the quick start's file, read its numbers, score."""

import importlib.util
import pathlib

import stride_pipe as sp

assert importlib.util.find_spec("numpy") is None, "this is to be tried without other packages"
run = sp.run("hills.yaml", progress=False)
assert run.cached > 0 and len(run.metrics) > 0, run
print(run)

model = next(pathlib.Path("results/models").rglob("model.safetensors"))
model = sp.Model(model)
columns = sp._core.Batches.from_columns(model.features, 2, bytes(16 * len(model.features)))
scores = model.predict(columns, quantiles=[0.5], warn_if=[])
data, _ = scores._batches.column("y_mean")
assert len(scores) == 2 and data[:8] == data[8:]

for name in ["StrideRegressor", "results"]:
    try:
        getattr(sp, name)()
    except ImportError as error:
        assert "pip install" in str(error), error
    else:
        raise AssertionError(name)
print("stride_pipe", sp.__version__, "runs", sp._core.kernels()[0])
