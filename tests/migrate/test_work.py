"""The records of a migration: checked, never outside its folder, and without passwords."""

import json
import warnings
from contextlib import suppress
from dataclasses import fields, replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatent._files import FileError, dump_checked, load_checked
from relatent.migrate.digest import BUCKETS, Digest
from relatent.migrate.state import Manifest, Plan, Status, Work, work_folder
from relatent.stores import Address, Field, Shard, StoreError

STORE = "postgresql://ann@db/shop/items"
PLAN = Plan(
    "a name", STORE, "hash", "source", Field("old", 8), Field("new", 12, provenance={"model": "m"}), (Shard(),), 10
)


def manifest(shard=0, **changes):
    read = Digest(3, (1, 2**63), (5, 0) * (BUCKETS // 2))
    return replace(Manifest("a name", shard, read, 2, 1, ("'k': no vector",)), **changes)


@pytest.fixture
def work(tmp_path):
    folder = Work(tmp_path / "work")
    folder.begin(replace(PLAN, shards=(Shard(None, 5), Shard(5, None))))
    return folder


@pytest.mark.parametrize("bound", [0, -5, 2**60, "", "ключ", UUID(int=7), b"\x00\xff"])
def test_bounds_of_shards_come_back_as_they_were(bound):
    plan = replace(PLAN, shards=(Shard(None, bound), Shard(bound, None)))
    back = Plan.from_json(load_checked(dump_checked(plan.to_json())))
    assert back == plan
    assert type(back.shards[0].high) is type(bound)


def test_a_key_that_cannot_be_kept_is_refused():
    with pytest.raises(ValueError, match="a float: expected integers, text, UUIDs or bytes"):
        replace(PLAN, shards=(Shard(None, 1.5),)).to_json()


def test_manifests_come_back_as_they_were():
    assert Manifest.from_json(load_checked(dump_checked(manifest().to_json()))) == manifest()


def test_a_manifest_of_an_earlier_version_is_read():
    """It held two sums over all rows, and a checksum of what was written."""
    new = manifest()
    read, zero = new.read.to_json()[:3], "0" * 16
    found = Manifest.from_json(new.to_json() | {"read": read, "written": [2, zero, zero]})
    assert found.written == 2
    assert not found.read.changed(new.read)
    assert len(found.read.changed(Digest())) == BUCKETS
    assert found.read.updated(new.read, frozenset({1})) == new.read


@given(at=st.integers(0, 10_000), by=st.integers(1, 255))
def test_no_changed_record_is_believed(at, by):
    text = dump_checked(manifest().to_json()).encode()
    place = at % len(text)
    changed = text[:place] + bytes([text[place] ^ by]) + text[place + 1 :]
    with suppress(FileError, UnicodeDecodeError):
        # White space between the values says nothing.
        assert Manifest.from_json(load_checked(changed.decode())) == manifest()


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"rows": 1}', "\x00" * 50])
def test_a_damaged_manifest_gives_a_warning_and_its_shard_is_not_finished(work, damage):
    plan = work.plan()
    for shard in (0, 1):
        work.done(manifest(shard))
    (work.folder / "shards" / "000001.json").write_text(damage)
    with pytest.warns(UserWarning, match=r"000001\.json is damaged: .* So shard 1 starts over"):
        assert work.manifests(plan) == [manifest(0), None]


def test_a_manifest_of_another_plan_or_shard_is_not_believed(work):
    plan = work.plan()
    work.done(manifest(0, migration="an earlier one"))
    work.done(manifest(1))
    (work.folder / "shards" / "000001.json").rename(work.folder / "shards" / "000000.json")
    assert work.manifests(plan) == [None, None]


def test_a_damaged_plan_gives_a_warning(work):
    path = work.folder / "plan.json"
    path.write_text(path.read_text().replace("hash", "hush"))
    with pytest.warns(UserWarning, match="checksum does not match. So the whole migration starts over"):
        assert work.plan() is None


def test_what_was_noted_holds_for_one_state_only(work):
    plan = work.plan()
    assert work.state(plan) is None
    work.done(manifest(0))
    work.done(manifest(1))
    work.note("verified", {"passed": True}, plan)
    assert work.noted("verified", plan) == {"passed": True}
    work.undo(1)
    assert work.noted("verified", plan) is None
    work.done(manifest(1, written=1))
    assert work.noted("verified", plan) is None
    work.done(manifest(1))
    assert work.noted("verified", plan) == {"passed": True}


def test_no_record_leads_out_of_the_folder(work, tmp_path):
    """Whatever a record says, files are found by numbers: a shard named as a path is not read or written."""
    (tmp_path / "stolen.json").write_text(dump_checked(manifest(0).to_json()))
    record = manifest(0).to_json() | {"shard": "../../stolen"}
    (work.folder / "shards").mkdir(exist_ok=True)
    (work.folder / "shards" / "000000.json").write_text(dump_checked(record))
    assert work.manifests(work.plan()) == [None, None]
    plan = work.plan().to_json() | {"migration": "../../stolen", "store": "../x", "side": "../../y"}
    (work.folder / "plan.json").write_text(dump_checked(plan))
    followed = work.plan()
    work.done(manifest(0, migration=followed.migration))
    work.forget()
    assert {path.name for path in tmp_path.iterdir()} == {"work", "stolen.json"}


def test_a_record_that_is_whole_and_lacks_something_is_damaged_too(work):
    (work.folder / "plan.json").write_text(dump_checked({"store": STORE}))
    with pytest.warns(UserWarning, match="is damaged"):
        assert work.plan() is None


def test_one_process_at_a_time(work):
    address = Address.parse(STORE)
    with work.locked(address):
        assert work.is_busy(STORE)
        with pytest.raises(StoreError, match="Another migration"), Work(work.folder).locked(address):
            pass
    assert not work.is_busy(STORE)


def test_the_folder_of_a_store_tells_no_password_and_does_not_depend_on_it():
    with_password = work_folder("postgresql://ann:secret@db/shop/items?vector=a/b")
    assert with_password == work_folder("postgresql://ann@db/shop/items?vector=a/b")
    assert with_password != work_folder("postgresql://ann@db/shop/items?vector=c")
    assert "secret" not in str(with_password)
    assert len(work_folder("faiss:///x/" + "y" * 300 + "%2F..%2F.faiss").parts) == 2


def test_records_are_json_that_a_person_can_read(work):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        work.done(manifest(0))
    assert json.loads((work.folder / "shards" / "000000.json").read_text())["read"][0] == 3


def test_a_status_tells_of_a_store_that_could_not_be_read_only_then():
    status = Status(
        **dict.fromkeys([one.name for one in fields(Status)], 1)
        | {"provenance": {}, "written_since": {}, "problem": None, "skipped": 0}
    )
    assert "could not be read" not in str(status)
    assert "could not be read: it is down" in str(replace(status, problem="it is down"))
