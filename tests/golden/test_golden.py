"""The golden files, read by this library and by another reader, which follows docs/translator-file.md."""

from __future__ import annotations

import hashlib
import json
import math
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from tests.golden.make import CASES, fitted

import relatent as rl
from relatent._files import FileError
from relatent._saved import FORMAT_VERSION, Saved, from_bytes, to_bytes
from relatent.steps import STEPS

FOLDER = Path(__file__).parent / str(FORMAT_VERSION)
GOLDEN = json.loads((FOLDER / "vectors.json").read_text("utf8"))
SIDES = {"map.": ("source", "translated"), "target.": ("target", "prepared")}
DTYPES = {"F32": "<f4", "F64": "<f8", "U64": "<u8"}


def error(found, expected):
    """The largest error of a row, in units of its norm."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected)
    assert found.shape == expected.shape
    norms = np.linalg.norm(expected, axis=1)
    return float(np.max(np.linalg.norm(found - expected, axis=1) / np.where(norms > 0, norms, 1)))


def test_there_is_a_golden_file_for_every_case_and_step():
    assert {path.stem for path in FOLDER.glob("*.safetensors")} == set(CASES)
    assert set(GOLDEN) == {*CASES, "fingerprint"}
    assert {step for _, steps in CASES.values() for step in steps.replace(",", "").split()} == set(STEPS)


@pytest.mark.parametrize("name", CASES)
def test_the_golden_vectors(name):
    t, known = rl.load(FOLDER / f"{name}.safetensors"), GOLDEN[name]
    assert t.metric_ == known["metric"]
    # In single precision, the large coefficients of a kernel map cancel, and so do rows and a mean that is far away.
    single = 1e-3 if t.map_.features is not None or name == "far" else 1e-5
    for dtype, limit in (("float64", 1e-11), ("float32", single)):
        assert error(t.transform(np.asarray(known["source"], dtype)), known["translated"]) < limit
        assert error(t.transform_target(np.asarray(known["target"], dtype)), known["prepared"]) < limit


@pytest.mark.parametrize("name", CASES)
def test_the_format_is_enough_to_read_it(name):
    metadata, arrays = read(FOLDER / f"{name}.safetensors")
    about, known = json.loads(metadata["about"]), GOLDEN[name]
    for prefix, (given, expected) in SIDES.items():
        entry = about.get("map" if prefix == "map." else "target")
        found = known[given] if entry is None else [mapped(row, entry, arrays, prefix) for row in known[given]]
        assert error(found, known[expected]) < 1e-11


def read(path):
    """Split a file, and check its checksum."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    metadata = header.pop("__metadata__")
    assert (metadata["format"], metadata["format_version"], metadata["kind"]) == ("relatent", "2", "translator")
    hashed = {key: value for key, value in metadata.items() if key != "sha256"}
    digest, arrays = hashlib.sha256(json.dumps(hashed, sort_keys=True).encode("ascii")), {}
    for name in sorted(header):
        dtype, (begin, end) = DTYPES[header[name]["dtype"]], header[name]["data_offsets"]
        digest.update(f"\n{name} {dtype} {tuple(header[name]['shape'])}\n".encode() + data[begin:end])
        arrays[name] = np.frombuffer(data[begin:end], dtype).reshape(header[name]["shape"]).astype(float)
    assert digest.hexdigest() == metadata["sha256"]
    return metadata, arrays


def mapped(x, about, arrays, prefix):
    """Take one row through a map, number by number."""
    a = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    if about["before"]:
        name = about["before"]["name"]
        if name not in ("none", "l2"):
            x = [v - m for v, m in zip(x, a["before.mean"], strict=True)]
        if name in ("iso", "standard"):
            x = [v * s for v, s in zip(x, a["before.scale"], strict=True)]
        if name == "whiten":
            x = product(x, a["before.scale"])
        x = unit(x) if about["before"]["unit"] else x
    if "basis" in a:
        x = product(x, a["basis"])
    if about["width"] is not None:
        squares = [math.fsum((v - c) ** 2 for v, c in zip(x, center, strict=True)) for center in a["centers"]]
        x = [*x, *(math.exp(-s / about["width"]) for s in squares)]
    x = [v + o for v, o in zip(product(x, a["matrix"]), a["offset"], strict=True)]
    if "bias" in a:
        bias = math.fsum(w * v * v for w, v in zip(a["bias"], x, strict=True))
        if about["bank"]:
            weight, k = about["bank"]["weight"], about["bank"]["neighbors"]
            scores = [dot(x, q) + o for q, o in zip(a["bank.queries"], a["bank.offsets"], strict=True)]
            bias -= weight * (bias + math.fsum(sorted(scores)[-k:]) / k)
        x = [*x, bias]
    if "lengths" in about:
        ends, size = about["lengths"], math.sqrt(dot(x, x)) or 1.0
        x = [v * (ends["length"] / size) ** ends["power"] + c for v, c in zip(x, a["center"], strict=True)]
        x = unit(x) if ends["unit"] else x
    return x


def dot(x, y):
    return math.fsum(v * w for v, w in zip(x, y, strict=True))


def product(x, matrix):
    return [dot(x, column) for column in matrix.T]


def unit(x):
    size = math.sqrt(dot(x, x)) or 1.0
    return [v / size for v in x]


# What a reader refuses ---------------------------------------------------------------------------------------------


@pytest.fixture
def saved():
    return from_bytes((FOLDER / "kernel.safetensors").read_bytes())


def written(tmp_path, saved, **changed):
    path = tmp_path / "t.safetensors"
    path.write_bytes(to_bytes(Saved(saved.kind, saved.arrays | changed, saved.about)))
    return path


def test_what_changes_a_map_and_is_unknown_is_refused(tmp_path, saved):
    with pytest.raises(FileError, match=r"does not know map\.warp"):
        rl.load(written(tmp_path, saved, **{"map.warp": np.ones(4)}))
    saved.about["map"]["curve"] = {"power": 2}
    with pytest.raises(FileError, match="does not know curve"):
        rl.load(written(tmp_path, saved))


def test_an_unknown_normalization_is_refused(tmp_path, saved):
    saved.about["map"]["before"]["name"] = "sphere"
    with pytest.raises(FileError, match="normalization 'sphere'"):
        rl.load(written(tmp_path, saved))


def test_what_does_not_change_a_map_is_passed_over(tmp_path, saved):
    saved.about["note"] = "of a later version"
    t = rl.load(written(tmp_path, saved, **{"later.array": np.ones(3)}))
    assert error(t.transform(np.asarray(GOLDEN["kernel"]["source"])), GOLDEN["kernel"]["translated"]) < 1e-11


# The fingerprint -----------------------------------------------------------------------------------------------------


def signs(dim):
    """The random directions as the page describes them: PCG64 with its state written out, in Python's integers."""
    mask, rows = 2**128 - 1, []
    state, increment = 0xC1294BE02FBFFF6079EE4F7B9BB009FE, 0x0C3B9AA909AAEF91748B23DE4BECFDBB
    for _ in range(dim):
        bits = []
        for _ in range(8):
            state = (state * 0x2360ED051FC65DA44385DF649FCCF645 + increment) & mask
            low, turn = ((state >> 64) ^ state) & (2**64 - 1), state >> 122
            word = (low >> turn | low << (64 - turn)) & (2**64 - 1)
            bits += [(byte >> bit) & 1 for byte in word.to_bytes(8, "little") for bit in range(7, -1, -1)]
        rows.append([2 * bit - 1 for bit in bits])
    return np.asarray(rows, float)


@pytest.fixture(scope="module")
def known():
    return np.asarray(GOLDEN["fingerprint"]["rows"]), json.loads(GOLDEN["fingerprint"]["fingerprint"])


def test_the_profile_of_a_fingerprint(known):
    rows, recorded = known
    directions = signs(rows.shape[1])
    directions = (directions - directions.mean(axis=0)) / math.sqrt(rows.shape[1])
    seen, probe = rows @ directions, recorded["probe"]
    assert (recorded["dim"], probe["rows"]) == (rows.shape[1], len(rows))
    np.testing.assert_allclose(probe["mean"], seen.mean(axis=0), rtol=6e-4, atol=1e-12)
    np.testing.assert_allclose(probe["std"], seen.std(axis=0), rtol=6e-4, atol=1e-7)
    norms = np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose([probe["norm"], probe["norm_std"]], [norms.mean(), norms.std()], rtol=6e-4)


def test_the_quiet_directions_of_a_fingerprint(known):
    rows, recorded = known
    rows, quiet = rows / np.linalg.norm(rows, axis=1, keepdims=True), recorded["quiet"]
    held = np.arange(len(rows)) % 4 == 3
    codes = np.frombuffer(b64decode(quiet["codes"]), np.int8).reshape(-1, quiet["coordinates"]).astype(float)
    directions = codes / np.linalg.norm(codes, axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(np.cov(rows[~held].T))
    assert np.all(np.diff(values[: len(codes) + 1]) > 1e-3)  # else the vectors are not determined
    np.testing.assert_allclose(np.abs(np.vecdot(directions, vectors[:, : len(codes)].T)), 1, atol=1e-3)
    mean_variance = rows[held].var(axis=0).mean()
    levels = np.log((rows[held] @ directions.T).var(axis=0) / mean_variance + 1e-4)
    np.testing.assert_allclose(quiet["levels"], levels, atol=6e-4)
    assert quiet["spread"] == pytest.approx(rows[held].var(axis=0).sum(), abs=1e-6)


def test_a_fingerprint_is_read_and_measured_again(known):
    rows, recorded = known
    text = json.dumps(recorded)
    read = rl.Fingerprint.from_json(text)
    assert json.loads(read.to_json()) == recorded
    assert read.matches(rl.Fingerprint.of(rows)).outcome == "same"
    assert read.id == hashlib.sha256(json.dumps({k: recorded[k] for k in ("dim", "probe")}).encode()).hexdigest()[:16]


# The command that writes them ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_the_files_can_be_made_again(name):
    """The steps are still those that each file is there for; ``fitted`` checks them."""
    assert fitted(name).endpoints_.source_name == "old"
