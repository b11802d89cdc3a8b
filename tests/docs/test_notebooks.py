"""Notebooks run from top to bottom, and are committed without outputs."""

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.docs


def read(path):
    nbformat = pytest.importorskip("nbformat", reason="pip install 'relatent[docs]'")
    return nbformat.read(path, as_version=4)


def test_there_is_a_notebook():
    assert "quickstart" in {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # from the kernel
def test_a_notebook_runs(path, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="pip install 'relatent[docs]'")
    done = nbclient.NotebookClient(read(path), timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    assert any(cell.get("outputs") for cell in done.cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs(path):
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells)
