"""Writes are atomic and replace nothing that they may not; records are checked."""

import json
import os
import threading
import zlib
from contextlib import suppress

import pytest

from relatent._files import FileError, Records, atomic_write, dump_checked, is_leftover, load_checked


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(path, text="new", **options):
    with atomic_write(path, **options) as tmp:
        tmp.write_text(text)


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
        atomic_write(path, overwrite=overwrite) as tmp,
    ):
        tmp.write_text("ours")
        path.write_text("theirs")
    assert path.read_text() == "theirs"
    assert names(tmp_path) == ["x"]


def test_a_folder_replaces_only_an_empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    with atomic_write(tmp_path / "empty") as tmp:
        tmp.mkdir()
        (tmp / "a").write_text("a")
    assert names(tmp_path / "empty") == ["a"]
    with pytest.raises(FileError, match="not empty"), atomic_write(tmp_path / "empty"):
        pass
    with pytest.raises(FileExistsError, match="appeared"), atomic_write(tmp_path / "late") as tmp:  # noqa: PT012
        tmp.mkdir()
        (tmp_path / "late").mkdir()
        (tmp_path / "late" / "theirs").touch()
    assert names(tmp_path / "late") == ["theirs"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_new_file_has_the_mode_of_the_one_it_replaces(tmp_path, mode):
    for name in ("x", "x.about"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    with atomic_write(tmp_path / "x") as tmp:
        tmp.write_text("new")
        tmp.with_name("x.about").write_text("new")
    assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {oct(mode)}
    assert (tmp_path / "x").read_text() == "new"


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_replaced(tmp_path, there):
    target, link = tmp_path / "data" / "target", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to("data/target")
    if there:
        target.write_text("old")
        target.chmod(0o600)
    with pytest.raises(FileExistsError, match="link exists"):
        write(link, overwrite=False)
    with suppress(RuntimeError), atomic_write(link) as tmp:
        tmp.write_text("half")
        raise RuntimeError
    assert (target.exists(), not there or target.read_text() == "old") == (there, True)
    write(link)
    assert (link.readlink().as_posix(), target.read_text()) == ("data/target", "new")
    assert not there or target.stat().st_mode & 0o777 == 0o600
    assert (names(tmp_path), names(target.parent)) == (["data", "link"], ["target"])


def test_pipes_are_not_written(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="a device or a pipe"):
        write(tmp_path / "pipe")


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path):
    dead, users = tmp_path / ".relatent-abcdefgh.part", tmp_path / ".relatent-notes.part"
    for folder in (dead, users):
        folder.mkdir()
        (folder / "x").touch()
    with atomic_write(tmp_path / "a") as tmp:
        tmp.touch()
        write(tmp_path / "b")
        assert tmp.exists()
        assert is_leftover(tmp.parent.name)
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
            with atomic_write(tmp_path / "x", prepare=prepare) as tmp:
                tmp.write_text(str(number))
                tmp.with_name("x.about").write_text(str(number))

    write(tmp_path / "x", "0")
    (tmp_path / "x.about").write_text("0")
    threads = [threading.Thread(target=writer, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mixed == []
    assert names(tmp_path) == ["x", "x.about"]


RECORDS = [{}, {"rows": 3, "name": "ключ"}, {"nested": {"a": [1, None, 0.1]}, "flag": True}]


def first_format(record):
    """The format of the first files: the CRC-32 in front of the JSON."""
    text = json.dumps(record, ensure_ascii=False, sort_keys=True)
    return f"{zlib.crc32(text.encode()):08x} {text}"


@pytest.mark.parametrize("dump", [dump_checked, first_format])
@pytest.mark.parametrize("record", RECORDS)
def test_checked_json_comes_back_and_no_changed_byte_is_accepted(record, dump):
    text = dump(record)
    assert load_checked(text) == record
    raw = text.encode()
    for place in range(len(raw)):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        with suppress(FileError):  # white space between values says nothing
            assert load_checked(changed.decode(errors="replace")) == record


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "[]", "null", '{"rows": 3}', "00000000 ", "\x00" * 9, '{"a":' * 100_000]
)
def test_what_has_no_checksum_is_refused(text):
    with pytest.raises(FileError):
        load_checked(text)


def test_records_are_read_back_replaced_and_removed(tmp_path):
    records = Records(tmp_path / "work")
    assert records.read("a/1.json") is None
    records.write("a/1.json", {"rows": 1})
    records.write("a/1.json", {"rows": 2})
    assert records.read("a/1.json") == {"rows": 2}
    assert names(tmp_path / "work" / "a") == ["1.json"]
    (tmp_path / "work" / "a" / "1.json").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError):
        records.read("a/1.json")
    records.remove("a/1.json", "absent.json")
    assert records.read("a/1.json") is None
