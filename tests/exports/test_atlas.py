import numpy as np
import pytest
from pyarrow import parquet
from scipy.spatial.distance import cdist

import relatent as rl
from relatent.exports import atlas, export


@pytest.fixture(scope="module")
def spaces():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(60, 3)) * [4.0, 2.0, 0.5]
    old = rl.Space(hidden @ rng.normal(size=(3, 5)), [f"k{i}" for i in range(60)], "old", others={"text": ["t"] * 60})
    new = rl.Space(hidden + 1.0, [f"k{i}" for i in range(60)], "new")
    return old, new


@pytest.fixture(scope="module")
def translator(spaces):
    return rl.Translator(map="affine", normalize="center").fit(*spaces)


def test_both_spaces_lie_on_one_map(spaces, translator, tmp_path):
    done = export(translator, tmp_path / "a.parquet", "atlas", space=spaces[0], target=spaces[1])
    table = parquet.read_table(done.out)
    assert table.column_names == ["key", "space", "text", "x", "y", "neighbors"]
    assert table["space"].to_pylist() == ["old"] * 60 + ["new"] * 60
    assert table["text"].to_pylist() == ["t"] * 60 + [None] * 60
    places = np.stack([table["x"].to_numpy(), table["y"].to_numpy()], axis=1)
    np.testing.assert_allclose(places[:60], places[60:], atol=1e-4)  # an affine relation is recovered exactly
    # Principal axes: uncorrelated, the first with the larger spread.
    covariance = np.cov(places[60:].T)
    assert abs(covariance[0, 1]) < 1e-5
    assert covariance[0, 0] > covariance[1, 1] > 0


def test_neighbors_are_those_of_brute_force(spaces, translator, tmp_path):
    export(translator, tmp_path / "a.parquet", "atlas", space=spaces[0], target=spaces[1])
    found = parquet.read_table(tmp_path / "a.parquet")["neighbors"].to_pylist()
    vectors = np.concatenate([translator.transform(spaces[0]).vectors, spaces[1].vectors])
    distances = cdist(vectors, vectors, "cosine")
    np.fill_diagonal(distances, np.inf)
    for row, one in enumerate(found):
        assert row not in one["ids"]
        np.testing.assert_allclose(one["distances"], np.sort(distances[row])[: atlas.NEIGHBORS], atol=1e-5)
        np.testing.assert_allclose(distances[row][one["ids"]], one["distances"], atol=1e-5)


def test_a_space_alone_and_from_a_file(spaces, translator, tmp_path):
    rl.write_space(spaces[0], tmp_path / "old.parquet")
    export(translator, tmp_path / "a.parquet", "atlas", space=tmp_path / "old.parquet")
    assert parquet.read_table(tmp_path / "a.parquet").num_rows == 60


def test_without_neighbors_where_there_are_too_many(spaces, translator, tmp_path, monkeypatch):
    monkeypatch.setattr(atlas, "NEIGHBOR_ROWS", 59)
    export(translator, tmp_path / "a.parquet", "atlas", space=spaces[0])
    assert "neighbors" not in parquet.read_table(tmp_path / "a.parquet").column_names


def test_what_an_atlas_needs_is_said(spaces, translator, tmp_path):
    with pytest.raises(ValueError, match="No space was given"):
        export(translator, tmp_path / "a.parquet", "atlas")
    with pytest.raises(ValueError, match="side was given"):
        export(translator, tmp_path / "a.parquet", "atlas", side="target", space=spaces[0])
    clashing = rl.Space(spaces[0].vectors, spaces[0].keys, "old", others={"x": range(60)})
    with pytest.raises(ValueError, match="has a column 'x'"):
        export(translator, tmp_path / "a.parquet", "atlas", space=clashing)
    assert not list(tmp_path.iterdir())
