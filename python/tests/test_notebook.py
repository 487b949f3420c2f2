"""The example notebook runs from beginning to end, and looks right."""

import pathlib

import nbformat
from nbclient import NotebookClient

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def outputs(notebook, kind):
    return [output for cell in notebook.cells for output in cell.get("outputs", []) if output.output_type == kind]


def test_energy():
    notebook = nbformat.read(EXAMPLES / "energy.ipynb", as_version=4)
    assert not outputs(notebook, "execute_result"), "it is kept without outputs"
    NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    streams = outputs(notebook, "stream")
    text = "".join(output.text for output in streams)
    # Nothing but the warning that the notebook speaks of.
    warned = [output.text for output in streams if output.name == "stderr"]
    assert len(warned) <= 1 and all("StrideWarning: model / fold 0 (of 1): the chains have not mixed" in text for text in warned), text
    # It predicts well, and intervals hold about what they say: 192 new rows.
    assert float(text.split("R² on new rows: ")[1].split()[0]) > 0.99
    assert 0.8 < float(text.split("within 90 % intervals: ")[1].split()[0]) < 0.98
    shown = outputs(notebook, "display_data")
    assert sum("image/png" in output.data for output in shown) == 1
    # The bar has made room for one line.
    bars = [output.data for output in shown if "image/png" not in output.data]
    assert len(bars) == 1 and bars[0]["text/plain"].startswith("run ") and "<progress" not in bars[0]["text/html"]
    assert "stride_pipe.Model(stride" in outputs(notebook, "execute_result")[-1].data["text/plain"]
