"""What is written is whole or absent, and replaces nothing that it may not."""

import os
import threading

import pytest

from relatent._files import FileError, atomic_write, is_leftover


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(path, text="new", **options):
    with atomic_write(path, **options) as aside:
        aside.write_text(text)


def test_a_file_is_replaced_only_if_allowed(tmp_path):
    write(tmp_path / "x", "old")
    with pytest.raises(FileExistsError, match=r"x exists: write to another path.*overwrite=True"):
        write(tmp_path / "x", overwrite=False)
    assert (tmp_path / "x").read_text() == "old"
    write(tmp_path / "x")
    assert (tmp_path / "x").read_text() == "new"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("links", [True, False])
def test_what_appeared_meanwhile_is_kept(tmp_path, overwrite, links, monkeypatch):
    if not links:  # as on a file system without hard links
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(95, "no links")))
    path = tmp_path / "x"
    with (  # noqa: PT012
        pytest.raises(FileExistsError, match="appeared while it was being written, and is kept"),
        atomic_write(path, overwrite=overwrite) as aside,
    ):
        aside.write_text("ours")
        path.write_text("theirs")
    assert path.read_text() == "theirs"
    assert names(tmp_path) == ["x"]


def test_a_folder_replaces_only_an_empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    with atomic_write(tmp_path / "empty") as aside:
        aside.mkdir()
        (aside / "a").write_text("a")
    assert names(tmp_path / "empty") == ["a"]
    with pytest.raises(FileError, match="not empty"), atomic_write(tmp_path / "empty"):
        pass
    with pytest.raises(FileExistsError, match="appeared"), atomic_write(tmp_path / "late") as aside:  # noqa: PT012
        aside.mkdir()
        (tmp_path / "late").mkdir()
        (tmp_path / "late" / "theirs").touch()
    assert names(tmp_path / "late") == ["theirs"]


def test_pipes_are_not_written(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="a device or a pipe"):
        write(tmp_path / "pipe")


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path):
    dead, users = tmp_path / ".relatent-abcdefgh.part", tmp_path / ".relatent-notes.part"
    for folder in (dead, users):
        folder.mkdir()
        (folder / "x").touch()
    with atomic_write(tmp_path / "a") as aside:
        aside.touch()
        write(tmp_path / "b")
        assert aside.exists()
        assert is_leftover(aside.parent.name)
        assert not dead.exists()
    assert names(tmp_path) == [".relatent-notes.part", "a", "b"]


def test_sidecars_of_two_writers_never_mix(tmp_path):
    """Each writer puts its own number into a file and its sidecar; both are always those of one writer."""
    mixed = []

    def prepare(new, path):
        """Stand in for the merge of sidecars: by then the folder is locked."""
        sidecar = path.with_name("x.about")
        if path.exists() and sidecar.exists() and path.read_text() != sidecar.read_text():
            mixed.append(path.read_text())

    def writer(number):
        for _ in range(20):
            with atomic_write(tmp_path / "x", prepare=prepare) as aside:
                aside.write_text(str(number))
                aside.with_name("x.about").write_text(str(number))

    write(tmp_path / "x", "0")
    (tmp_path / "x.about").write_text("0")
    threads = [threading.Thread(target=writer, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mixed == []
    assert names(tmp_path) == ["x", "x.about"]
