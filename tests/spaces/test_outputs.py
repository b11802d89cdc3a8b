"""Outputs replace nothing that they may not, and sets of files are whole: local or remote, with or without --force."""

import os
import time

import numpy as np
import pytest

from relatent._files import FileError
from relatent.spaces import Fingerprint, Space, check_new, read_space, space_writer, write_space
from relatent.spaces.chunks import Chunk, empty_others
from relatent.spaces.io.mapping import passed


@pytest.fixture
def one():
    return Space(np.ones((4, 3), np.float32), keys=list("abcd"), fingerprint=Fingerprint(3, model="one"))


def test_shards_of_two_models_are_not_one_space(tmp_path, one):
    write_space(one, tmp_path / "a.parquet")
    write_space(Space(one.vectors, one.keys, fingerprint=Fingerprint(3, model="two")), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet and .*b\.parquet are of two spaces.*'one'.*'two'"):
        read_space(tmp_path)


def lose(folder):
    (folder / "part-00001.parquet").unlink()


def add(folder):
    write_space(Space(np.ones((4, 3), np.float32), list("abcd")), folder / "more.parquet")


def mix(folder):
    (folder / "part-00001.parquet").write_bytes((folder / "part-00000.parquet").read_bytes())


@pytest.mark.parametrize(
    ("change", "says"),
    [(lose, r"lacks part-00001\.parquet"), (add, r"holds more\.parquet"), (mix, "of another run")],
    ids=["lost", "added", "mixed"],
)
def test_a_folder_is_what_was_written(tmp_path, one, change, says, monkeypatch):
    monkeypatch.setattr("relatent.spaces.io.formats.parquet.ROWS_PER_FILE", 2)
    with space_writer(tmp_path / "out", fingerprint=one.fingerprint) as out:
        for chunk in one.chunks(rows=2):
            out.write(chunk)
    assert len(read_space(tmp_path / "out")) == 4
    change(tmp_path / "out")
    with pytest.raises(FileError, match=says):
        read_space(tmp_path / "out")


@pytest.mark.parametrize("name", ["x.vec", "x.jsonl"])
def test_a_users_file_under_the_name_of_a_sidecar_stays(tmp_path, one, name):
    users = tmp_path / f"{name}.relatent.json"
    users.write_text("mine")
    with pytest.raises(FileExistsError, match=r"relatent\.json exists"):
        write_space(one, tmp_path / name, overwrite=False)
    assert users.read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == [users.name]
    write_space(one, tmp_path / name, overwrite=True)
    assert read_space(tmp_path / name).fingerprint.model == "one"


@pytest.mark.parametrize("name", ["x.parquet", "x.npy", "x.vec", "x.jsonl"])
def test_a_space_written_through_a_link_is_read_through_it(tmp_path, one, name):
    (tmp_path / "data").mkdir()
    (tmp_path / name).symlink_to(f"data/{name}")
    for model in ("one", "two"):
        written = Space(one.vectors, one.keys, fingerprint=Fingerprint(3, model=model))
        write_space(written, tmp_path / name, overwrite=True)
        assert {read_space(at / name).fingerprint.model for at in (tmp_path, tmp_path / "data")} == {model}
    assert (tmp_path / name).is_symlink()


def test_no_output_destroys_an_input(tmp_path, one):
    source, translator = tmp_path / "old.parquet", tmp_path / "t.safetensors"
    write_space(one, source)
    translator.write_bytes(b"fitted")
    os.link(translator, tmp_path / "linked.safetensors")
    (tmp_path / "there.parquet").touch()
    space = read_space(source)
    for out in (source, translator, tmp_path / "linked.safetensors", tmp_path, f"file://{source}"):
        with pytest.raises(FileError, match="nothing is written in place"):
            check_new(out, space, translator, overwrite=True)
    with pytest.raises(FileExistsError, match=r"there\.parquet exists.*overwrite=True"):
        check_new(tmp_path / "there.parquet", space)
    check_new(tmp_path / "there.parquet", space, overwrite=True)


@pytest.mark.parametrize("name", ["x.parquet", "x.npy", "x.vec", "folder"])
@pytest.mark.parametrize("root", ["memory://bucket", "file://"])
def test_remote_outputs_follow_the_same_rules(tmp_path, one, name, root):
    fsspec = pytest.importorskip("fsspec")
    base = f"{root}{tmp_path}"
    fs, inside = fsspec.core.url_to_fs(base)
    fs.makedirs(inside, exist_ok=True)

    def listed():
        return sorted({path.removeprefix(inside).strip("/").split("/")[0] for path in fs.find(inside)})

    with pytest.raises(RuntimeError, match="power"), space_writer(f"{base}/{name}") as out:  # noqa: PT012
        out.write(next(one.chunks()))
        raise RuntimeError("power cut")
    assert listed() == []
    write_space(one, f"{base}/{name}")
    assert read_space(f"{base}/{name}").fingerprint.model == "one"
    before = listed()
    with pytest.raises((FileExistsError, FileError), match=r"(exists: write to another path|not empty)"):
        write_space(one, f"{base}/{name}", overwrite=False)
    with pytest.raises(FileExistsError, match="exists"):
        check_new(f"{base}/{name}", overwrite=False)
    with pytest.raises(FileError, match="nothing is written in place"):
        check_new(f"{base}/{name}", read_space(f"{base}/{name}"), overwrite=True)
    if name != "folder":
        write_space(
            Space(one.vectors, one.keys, fingerprint=Fingerprint(3, model="two")), f"{base}/{name}", overwrite=True
        )
        assert read_space(f"{base}/{name}").fingerprint.model == "two"
    assert listed() == before
    with pytest.raises(FileExistsError, match="appeared"), space_writer(f"{base}/late-{name}") as out:  # noqa: PT012
        out.write(next(one.chunks()))
        if name == "folder":
            fs.makedirs(f"{inside}/late-{name}", exist_ok=True)
        fs.pipe_file(f"{inside}/late-{name}" + ("/theirs" if name == "folder" else ""), b"theirs")
    assert listed() == sorted([*before, f"late-{name}"])
    fs.rm(inside, recursive=True)


def test_hidden_remote_files_are_not_data(tmp_path, one):
    pytest.importorskip("fsspec")
    for name in ("a.parquet", ".relatent-abcdefgh.part/a.parquet", "_temporary/0/a.parquet", "deep/b.parquet"):
        write_space(one, f"memory://hidden{tmp_path}/{name}")
    assert len(read_space(f"memory://hidden{tmp_path}")) == 8
    assert len(read_space(f"memory://hidden{tmp_path}/**/*.parquet")) == 8


# Chunks that several threads make while others are read and written.


def numbered(count):
    return [Chunk(i, np.full((1, 1), i, np.float32), empty_others(1)) for i in range(count)]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_chunks_are_written_in_order_and_few_are_held(workers):
    read, written = [], []

    def reading():
        for chunk in numbered(50):
            read.append(chunk.start)
            assert len(read) - len(written) <= workers + 2
            yield chunk

    def make(chunk):
        time.sleep(0.002 * (chunk.start % 3))  # the first to begin is not the first to end
        return chunk.with_vectors(2 * chunk.vectors)

    assert sum(passed(reading(), make, written.append, workers)) == 50
    assert [chunk.vectors.item() for chunk in written] == list(range(0, 100, 2))


@pytest.mark.parametrize("where", ["read", "make", "write"])
def test_an_error_ends_a_pass_with_nothing_written_behind_it(where):
    written = []

    def broken(chunk, here):
        if where == here and chunk.start == 3:
            raise ValueError(f"broken in {where}")
        return chunk

    def reading():
        for chunk in numbered(20):
            yield broken(chunk, "read")

    with pytest.raises(ValueError, match=f"broken in {where}"):
        list(passed(reading(), lambda c: broken(c, "make"), lambda c: written.append(broken(c, "write").start), 2))
    assert written == list(range(len(written)))
    assert len(written) <= 3
