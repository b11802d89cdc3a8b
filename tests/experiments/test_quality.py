"""The quality experiment: baselines against independent implementations, promises that are met and missed."""

import hashlib
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from experiments.data import cache, groups, packages, texts
from experiments.latent_space_translation import baselines
from experiments.latent_space_translation.quality_parts import PARTS, Split, train_heads
from experiments.latent_space_translation.quality_report import PROMISES, Cell, Key, read_cells, write_cells
from scipy.linalg import orthogonal_procrustes
from sklearn.cross_decomposition import CCA


@pytest.fixture
def pair(rng):
    x = rng.normal(size=(160, 6))
    return x, x @ rng.normal(size=(6, 6)) + 0.1 * rng.normal(size=(160, 6))


def test_one_of_the_six_is_procrustes_on_standardized_rows(pair):
    x, y = pair
    a, b = ((s - s.mean(0)) / s.std(0, ddof=1) for s in (x, y))
    expected = a @ orthogonal_procrustes(a, b)[0] * y.std(0, ddof=1) + y.mean(0)
    assert np.allclose(next(baselines.best6(x, y, x)), expected, atol=1e-5)
    assert len(list(baselines.best6(x, y, x))) == 6


def test_kernel_ridge_predicts_and_is_moved_by_offsets_of_the_target(pair):
    x, y = pair
    found = baselines.kernel_ridge(x[:120], y[:120], x[120:])
    assert baselines.error(found, y[120:]) < 0.2
    assert np.allclose(baselines.kernel_ridge(x[:120], y[:120] + 7, x[120:]), found + 7)


def test_canonical_variables_are_those_of_scikit_learn(rng):
    x = rng.normal(size=(400, 3))
    y = (x + rng.normal(size=(400, 3)) * [0.1, 0.7, 2.0]) @ rng.normal(size=(3, 3))
    a, b = CCA(n_components=3, scale=False, max_iter=10_000, tol=1e-10).fit(x, y).transform(x, y)
    rho = np.asarray([np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(3)])
    expected = baselines.cosines(a / a.std(0) * rho, b / b.std(0) * rho)
    assert np.allclose(baselines._cca(x, y, x, y, 0.0), expected, atol=1e-4)


def test_csls_subtracts_the_mean_of_the_nearest_on_both_sides(rng):
    scores = rng.normal(size=(20, 30))
    i, j = 3, 5
    expected = 2 * scores[i, j] - np.sort(scores[i])[-10:].mean() - np.sort(scores[:, j])[-10:].mean()
    assert np.isclose(baselines.csls(scores)[i, j], expected)


@pytest.mark.parametrize("part", [p for p in PARTS if p not in ("few", "expected")])
def test_every_part_measures_ours_beside_the_others(pair, part):
    x, y = pair
    labels = (y[:, 0] > 0).astype(int)
    heads = train_heads(y[:100], labels[:100])
    split = Split(x[:60], y[:60], x[100:], y[100:], heads, labels[100:], 0, (x[:100], y[:100]))
    found = PARTS[part](split)
    assert any(name.startswith("ours") for name in found)
    assert all(np.isfinite(value) for value in found.values())
    cell = Cell(Key("development", "a → b", 60, 0, part), found, 0.0)
    assert all(isinstance(met, bool | np.bool_) for _, _, met in PROMISES[part]([cell]))


@pytest.mark.parametrize(("ours", "met"), [(0.90, True), (0.901, True), (0.92, False)])
def test_a_promise_is_missed_where_one_cell_falls_short(ours, met):
    values = {"ours": ours, "best6": 1.0, "kernel ridge": 0.9}
    (_, value, found), _ = PROMISES["vectors"]([Cell(Key("b", "p", 50, 0, "vectors"), values, 0.0)])
    assert found is met
    assert value.startswith("1 of 1" if met else "0 of 1 (not p at 50 by 0.01")


def test_cells_survive_a_file(tmp_path):
    cells = [Cell(Key("development", "a → b", 50, 0, "few"), {"said": 1.0}, 2.5)]
    write_cells(tmp_path / "out" / "cells.json", cells)
    assert read_cells(tmp_path / "out" / "cells.json") == cells
    assert read_cells(tmp_path / "missing.json") == []


WHEEL = packages.Package("pip", "toy==1.0", "toy-1.0-py3-none-any.whl", "")


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Stand in for a registry: a list holds what it delivers."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("toy/data.json", json.dumps([1, 2]))
    asked = []

    def deliver(command, purpose, **_):
        asked.append(command)
        (Path(command[command.index("--dest") + 1]) / WHEEL.file).write_bytes(packed.getvalue())

    monkeypatch.setattr(packages, "run_tool", deliver)
    return packed.getvalue(), asked


def test_a_package_is_downloaded_once_and_read(registry):
    content, asked = registry
    wheel = packages.Package(WHEEL.registry, WHEEL.requirement, WHEEL.file, hashlib.sha256(content).hexdigest())
    assert json.loads(wheel.read("toy/data.json")) == [1, 2]
    assert (wheel.unpacked() / "toy" / "data.json").is_file()
    assert len(asked) == 1
    assert "toy==1.0" in asked[0]


def test_a_package_of_another_checksum_is_refused(registry):
    with pytest.raises(SystemExit, match=r"has SHA-256 .* expected"):
        WHEEL.read("toy/data.json")
    with pytest.raises(SystemExit, match="SHA-256"):  # and does not count as downloaded
        WHEEL.read("toy/data.json")


def test_being_offline_is_reported():
    with pytest.raises(SystemExit, match=r"toy is needed\. .* is this computer offline\?"):
        packages.run_tool(["python", "-c", "raise SystemExit(1)"], "toy is needed")
    with pytest.raises(SystemExit, match="no-such-tool is not installed"):
        packages.run_tool(["no-such-tool"], "toy is needed")


def test_openings_are_short_and_plain():
    assert texts.opening("a " * 100).split() == ["a"] * texts.MAX_WORDS


def test_a_group_is_built_once(tmp_path, monkeypatch, rng):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    built = []

    def toy():
        built.append(1)
        return groups.Group({"a": rng.normal(size=(5, 2)), "b, other": rng.normal(size=(5, 3))}, np.arange(5))

    monkeypatch.setitem(groups.GROUPS, "toy", toy)
    first, second = groups.load_group("toy"), groups.load_group("toy")
    assert len(built) == 1
    assert list(second.spaces) == ["a", "b, other"]
    assert all(np.array_equal(first.spaces[name], second.spaces[name]) for name in first.spaces)
    assert second.labels.tolist() == [0, 1, 2, 3, 4]


def test_texts_are_encoded_in_batches_and_come_back_in_order(monkeypatch):
    monkeypatch.setattr(groups, "BATCH", 2)
    monkeypatch.setattr(
        groups, "load_encoder", lambda name, threads: lambda texts: np.asarray([[len(t)] for t in texts])
    )
    items = ["four", "a", "seven77", "bb", "ccc"]
    (name, vectors), *rest = groups.encoded(items, "toy")
    assert (name, rest) == ("toy", [])
    assert vectors.ravel().tolist() == [4, 1, 7, 2, 3]
