from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import relatent as rl
from relatent.cli import app
from relatent.search.mixed import MERGES

N, K = 900, 200


@pytest.fixture(scope="module")
def spaces():
    """Two models' views of the same items: shared directions of unequal weight, and noise of their own."""
    rng = np.random.default_rng(3)
    items = rng.normal(size=(N, 12)) * np.geomspace(3, 0.3, 12)
    old = items @ rng.normal(size=(12, 16)) + 0.5 * rng.normal(size=(N, 16)) + 2.0
    new = items @ rng.normal(size=(12, 16)) + 0.2 * rng.normal(size=(N, 16))
    return old, new


@pytest.fixture(scope="module")
def translator(spaces):
    old, new = spaces
    return rl.Translator(goal="retrieval", frozen_target=True).fit(new[:K], old[:K])


def index(spaces, translator, is_new, **options):
    old, new = (side[2 * K :] for side in spaces)
    rows = np.flatnonzero(~is_new), np.flatnonzero(is_new)
    anchors = tuple(side[:K] for side in spaces)
    return rl.search.MixedIndex(old[rows[0]], new[rows[1]], translator, anchors, rows=rows, **options)


def overlap(found, truth):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.indices, truth.indices, strict=True)])


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("goal", [{"frozen_target": True}, {}])
def test_one_part_alone_is_the_plain_search(spaces, merge, goal):
    old, new = spaces
    t = rl.Translator(goal="retrieval", **goal).fit(new[:K], old[:K])
    queries, size = new[K : 2 * K], N - 2 * K
    all_new = index(spaces, t, np.ones(size, bool)).search(queries, 10, merge=merge)
    assert (all_new.indices == rl.evaluate.nearest(queries, new[2 * K :], 10).indices).all()
    all_old = index(spaces, t, np.zeros(size, bool)).search(queries, 10, merge=merge)
    plain = rl.evaluate.nearest(t.transform(queries), t.transform_target(old[2 * K :]), 10, t.metric_)
    assert (all_old.indices == plain.indices).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_asking_each_part_in_its_own_space_beats_ignoring_the_mixture(spaces, translator, share):
    old, new = spaces
    is_new = np.random.default_rng(1).random(N - 2 * K) < share
    queries = new[K : 2 * K]
    truth = rl.evaluate.nearest(queries, new[2 * K :], 10)
    found = {
        merge: overlap(index(spaces, translator, is_new).search(queries, 10, merge=merge), truth) for merge in MERGES
    }
    ignored = rl.evaluate.nearest(queries, np.where(is_new[:, None], new[2 * K :], old[2 * K :]), 10)
    assert found["calibrated"] > overlap(ignored, truth)
    assert found["calibrated"] > found["rank"]


def test_an_offset_that_lifts_all_scores_of_one_part_changes_nothing(spaces, translator):
    """Inner products with a shifted gallery rise by a number per query, which the anchors show."""
    old, new = spaces
    is_new = np.arange(N - 2 * K) % 2 == 0
    shifted = [old, new + 40.0]
    anchors = [(old[:K], side[:K]) for side in (new, shifted[1])]
    found = []
    for side, pair in zip((new, shifted[1]), anchors, strict=True):
        rows = np.flatnonzero(~is_new), np.flatnonzero(is_new)
        part = rl.search.MixedIndex(
            old[2 * K :][rows[0]], side[2 * K :][rows[1]], translator, pair, rows=rows, metric="inner"
        )
        found.append(part.search(new[K : K + 50], 10).indices)
    assert (found[0] == found[1]).mean() > 0.99


def test_a_collection_is_told_apart_by_the_anchors(spaces, translator):
    old, new = spaces
    is_new = np.random.default_rng(2).random(N - 2 * K) < 0.3
    vectors = np.where(is_new[:, None], new[2 * K :], old[2 * K :])
    anchors = (old[:K], new[:K])
    told = rl.search.MixedIndex.of_collection(vectors, translator, anchors)
    assert (told.rows[1] == np.flatnonzero(is_new)).all()
    given = index(spaces, translator, is_new)
    queries = new[K : 2 * K]
    assert (told.search(queries, 5).indices == given.search(queries, 5).indices).all()


def test_what_does_not_fit_is_refused(spaces, translator):
    old, new = spaces
    anchors = (old[:K], new[:K])
    with pytest.raises(ValueError, match="at least 50"):
        rl.search.MixedIndex(old, new, translator, (old[:9], new[:9]))
    with pytest.raises(ValueError, match="expected one row per vector"):
        rl.search.MixedIndex(old, new, translator, anchors, rows=(range(3), range(4)))
    with pytest.raises(ValueError, match="calibrated"):
        rl.search.MixedIndex(old, new, translator, anchors).search(new[:3], merge="calibrate")


def test_the_command_lists_every_row(spaces, tmp_path):
    old, new = spaces
    rl.write_space(rl.Space(old[:K]), tmp_path / "old.parquet")
    rl.write_space(rl.Space(new[:K]), tmp_path / "new.parquet")
    keys = [f"k{i}" for i in range(100)]
    mixture = np.concatenate([old[K : K + 60], new[K : K + 40]])
    rl.write_space(rl.Space(mixture, keys=keys), tmp_path / "mixed.parquet")
    samples = [str(tmp_path / "old.parquet"), str(tmp_path / "new.parquet")]
    out = tmp_path / "rows.csv"
    ran = CliRunner().invoke(
        app, ["monitor", "origin", str(tmp_path / "mixed.parquet"), *samples, "-o", str(out), "--json"]
    )
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["old"] == 60
    lines = out.read_text().splitlines()
    assert lines[0] == '"key","space","log_likelihood_ratio"'
    assert [line.split(",")[1] for line in lines[1:]] == ['"old"'] * 60 + ['"new"'] * 40
    odd = CliRunner().invoke(
        app, ["monitor", "origin", str(tmp_path / "mixed.parquet"), *samples, "-o", str(tmp_path / "x.txt")]
    )
    assert odd.exit_code == 1
