import json
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.numpy import save_file

import relatent as rl
from relatent._files import FileError, atomic_write
from relatent._saved import FORMAT_VERSION, Saved, _checksum, read_saved, write_saved

SAVED = Saved(
    "thing",
    {"matrix": np.arange(6.0).reshape(2, 3), "rows": np.asarray([3, 1], dtype=np.int64), "empty": np.zeros((0, 2))},
    {"name": "größe", "nested": {"a": [1, None, True]}},
)
# A test that writes below looks at its own file only.
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "thing.safetensors"
    write_saved(path, SAVED)
    return path


def same(a: Saved, b: Saved) -> bool:
    return (a.kind, a.about, sorted(a.arrays)) == (b.kind, b.about, sorted(b.arrays)) and all(
        a.arrays[name].dtype == b.arrays[name].dtype and np.array_equal(a.arrays[name], b.arrays[name])
        for name in a.arrays
    )


def forge(path, kind="thing", arrays=None, about="{}", **changed):
    """Write a file with a right checksum and something else wrong."""
    arrays = {"matrix": np.eye(2)} if arrays is None else arrays
    metadata = {"format": "relatent", "format_version": str(FORMAT_VERSION), "kind": kind, "about": about}
    metadata["sha256"] = _checksum(metadata, arrays)
    save_file(arrays, path, metadata={k: v for k, v in (metadata | changed).items() if v is not None})


def test_what_is_written_is_read(path):
    assert same(read_saved(path), SAVED)
    assert same(read_saved(path, "thing"), SAVED)


def test_arrays_of_any_order_are_written(tmp_path):
    views = {"f": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "s": np.arange(10.0)[::-2]}
    write_saved(tmp_path / "v", Saved("thing", views))
    read = read_saved(tmp_path / "v").arrays
    assert all(np.array_equal(read[name], views[name]) for name in views)


def test_anyone_can_read_it_without_relatent(path):
    length = int.from_bytes(path.read_bytes()[:8], "little")
    metadata = json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"]
    assert metadata["kind"] == "thing"
    assert metadata["library_version"] == rl.__version__
    assert json.loads(metadata["about"]) == SAVED.about


@same_folder
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_refused(path, share):
    whole = path.read_bytes()
    cut = path.with_name("cut")
    cut.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(FileError, match=r"cut (is damaged|is not a safetensors file)"):
        read_saved(cut)


@settings(same_folder, max_examples=400)
@given(data=st.data())
def test_no_flipped_byte_changes_what_is_read(path, data):
    raw = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(raw) - 1))
    raw[position] ^= data.draw(st.integers(1, 255))
    flipped = path.with_name("flipped")
    flipped.write_bytes(raw)
    with suppress(FileError):  # or else the byte carries nothing: white space, the note of who wrote it
        assert same(read_saved(flipped), SAVED)


@same_folder
@given(raw=st.binary(max_size=200))
@example(raw=b"")
@example(raw=b"\x80\x04.")  # a pickle
@example(raw=(2).to_bytes(8, "little") + b"{}")
@example(raw=(2).to_bytes(8, "little") + b"[]")
@example(raw=(2**63).to_bytes(8, "little") + b"{}")
@example(raw=(100).to_bytes(8, "little") + b"[" * 100)
def test_foreign_bytes_are_refused(tmp_path, raw):
    path = tmp_path / "foreign"
    path.write_bytes(raw)
    with pytest.raises(FileError, match="foreign"):
        read_saved(path)


def test_a_safetensors_file_of_someone_else_is_refused(tmp_path):
    save_file({"weight": np.eye(2)}, tmp_path / "model.safetensors")
    with pytest.raises(FileError, match="was not written by relatent"):
        read_saved(tmp_path / "model.safetensors")


LARGE = 64 * 2**20


@pytest.mark.parametrize("header", [b"", b'{"weight": {"dtype": "U8", "shape": [%d], "data_offsets": [0, %d]}}'])
def test_a_large_file_of_someone_else_is_refused_by_its_header(tmp_path, header):
    header = header % (LARGE, LARGE) if header else header
    with (tmp_path / "large.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + LARGE)
    tracemalloc.start()
    with pytest.raises(FileError, match=r"large\.safetensors (is not a safetensors file|was not written by relatent)"):
        rl.load(tmp_path / "large.safetensors")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < LARGE / 16


def test_the_arrays_are_read_once(tmp_path, monkeypatch):
    path, reads, read = tmp_path / "t.safetensors", [], Path.read_bytes
    rl.Translator(map="ridge").fit(np.eye(4), np.eye(4)[::-1]).save(path)
    monkeypatch.setattr(Path, "read_bytes", lambda self: reads.append(self) or read(self))
    rl.load(path)
    assert reads == [path]


def test_a_fingerprint_nested_too_deeply_is_named(tmp_path):
    deep = dict.fromkeys(("source", "target"), "[" * 100_000) | {"accepted": []}
    about = json.dumps({"parameters": {}, "endpoints": deep})
    forge(tmp_path / "deep", kind="translator", about=about)
    with pytest.raises(FileError, match=r"deep does not hold what its kind should \(maximum recursion depth"):
        rl.load(tmp_path / "deep")


def test_a_key_that_stands_twice_is_refused(path):
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = raw[8 : 8 + length].rstrip()
    twice = header[:-1] + b',"rows":' + json.dumps(json.loads(header)["rows"]).encode() + b"}"
    path.write_bytes(len(twice).to_bytes(8, "little") + twice + raw[8 + length :])
    with pytest.raises(FileError, match="a key stands twice"):
        read_saved(path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"format": "other"}, "was not written by relatent"),
        ({"format_version": "99"}, "has format version .99. and this library reads"),
        ({"format_version": None}, "has format version ''"),
        ({"sha256": "0" * 64}, "its checksum does not match"),
        ({"sha256": None}, "damaged"),
        ({"about": "[]"}, "damaged"),
        ({"about": "{"}, "damaged"),
        ({"about": "[" * 100_000}, r"damaged \(maximum recursion depth"),
        ({"arrays": {"matrix": np.asarray([[1.0, np.nan]])}}, "holds NaN or infinity in 'matrix'"),
        ({"arrays": {"matrix": np.asarray([[np.inf]])}}, "holds NaN or infinity in 'matrix'"),
    ],
)
def test_what_is_wrong_with_a_file_is_reported(tmp_path, wrong, message):
    forge(tmp_path / "forged", **wrong)
    with pytest.raises(FileError, match=message):
        read_saved(tmp_path / "forged", "thing")


def test_a_file_without_about_is_damaged(tmp_path):
    metadata = {"format": "relatent", "format_version": str(FORMAT_VERSION), "kind": "thing"}
    save_file({"matrix": np.eye(2)}, tmp_path / "bare", metadata=metadata)
    with pytest.raises(FileError, match="bare is damaged"):
        read_saved(tmp_path / "bare")


def test_another_kind_is_refused(path):
    with pytest.raises(FileError, match=r"holds a thing, not a relative_encoder: use relatent\.load"):
        rl.RelativeEncoder.load(path)
    with pytest.raises(FileError, match="holds a 'thing', which this version of relatent does not know"):
        rl.load(path)


@pytest.mark.parametrize("kind", ["relative_encoder", "relative_decoder", "relative_translator"])
@pytest.mark.parametrize("about", ["{}", '{"codes": "dual", "normalizer": 3}', '{"codes": "dual", "rescale": true}'])
def test_a_atomic_write_that_lacks_a_field_is_named(tmp_path, kind, about):
    forge(tmp_path / "lacking", kind=kind, about=about)
    with pytest.raises(FileError, match="lacking does not hold what its kind should"):
        rl.load(tmp_path / "lacking")


@pytest.mark.parametrize("read", [rl.load, rl.read_space])
@pytest.mark.parametrize("name", ["absent", "absent.safetensors"])
def test_every_reader_says_the_same_about_a_missing_file(tmp_path, read, name):
    with pytest.raises(FileNotFoundError, match=f"^There is no file .*{name}: check the path.$"):
        read(tmp_path / name)


def test_an_existing_file_is_replaced_only_when_asked(path):
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write_saved(path, Saved("other", {}))
    assert read_saved(path).kind == SAVED.kind
    write_saved(path, Saved("other", {}), overwrite=True)
    assert read_saved(path).kind == "other"


@pytest.mark.parametrize(
    "unwritable",
    [
        Saved("thing", {"matrix": np.asarray([np.nan])}),
        Saved("thing", {}, {"score": float("nan")}),
        Saved("thing", {}, {"score": object()}),
        Saved("thing", {"names": np.asarray(["a"])}),
    ],
)
def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_beside(path, unwritable):
    before = path.read_bytes()
    with pytest.raises((ValueError, TypeError, SafetensorError)):
        write_saved(path, unwritable, overwrite=True)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupted_write_leaves_no_file(tmp_path):
    def interrupted():
        with atomic_write(tmp_path / "new") as beside:
            beside.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_write_keeps_the_old_file(path):
    before = path.read_bytes()
    code = (
        "import os, sys, relatent._saved as files\n"
        "with files.atomic_write(sys.argv[1]) as beside:\n"
        "    beside.write_bytes(b'half')\n"
        "    os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 9
    assert path.read_bytes() == before
    assert same(read_saved(path), SAVED)


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    with atomic_write(tmp_path / "ours") as beside:
        beside.write_bytes(b"x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode
