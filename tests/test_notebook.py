"""The notebook runs from its first cell to its last on a corpus that the pipeline made."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "explore.ipynb"


def test_the_notebook_explores_a_corpus_and_plots_the_funnel(quickstart_corpus, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("MUSADATA_CORPUS", str(quickstart_corpus))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert any("nn/modules" in str(output) or "nnsmith" in str(output) for output in outputs)


def test_the_notebook_was_executed_before_it_was_committed():
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert not any(output.output_type == "error" for cell in notebook.cells for output in cell.get("outputs", []))
