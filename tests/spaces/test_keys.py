"""One key is one text, whatever type a file keeps it in."""

import datetime
import decimal
import hashlib
import unicodedata
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatent.spaces import Space, held_out, key_hashes, match_keys
from relatent.spaces.keys import is_key_type, key_texts, key_values, rows_of

SOME_UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")
NOON = datetime.datetime(2026, 11, 17, 12, 0, 0, 500_000)
ROME = datetime.timezone(datetime.timedelta(hours=1))

SAME = {
    "integers of any width": [np.asarray([7], np.int8), np.asarray([7], np.uint64), [7], ["7"]],
    "whole floats": [[7.0], np.asarray([7.0], np.float32), [7], [decimal.Decimal("7.00")]],
    "negative zero": [[-0.0], [0]],
    "floats of any width": [[0.5], np.asarray([0.5], np.float16), np.asarray([0.5], np.float32), ["0.5"]],
    "large whole floats": [[float(2**52)], [2**52]],
    "decimals": [[decimal.Decimal("7.10")], pa.array([decimal.Decimal("7.1")], pa.decimal128(9, 4)), ["7.1"]],
    "text of any layout": [
        ["é"],
        ["e\N{COMBINING ACUTE ACCENT}"],
        np.asarray(["é"]),
        pa.array(["é"], pa.large_string()),
        pa.array(["é"], pa.string_view()),
        pa.array(["é"]).dictionary_encode(),
        pa.chunked_array([["é"]]),
    ],
    "bytes of text": [[b"key"], np.asarray([b"key"]), pa.array([b"key"], pa.binary(3)), ["key"]],
    "bytes of no text": [[b"\xff\x00"], pa.array([b"\xff\x00"], pa.binary_view()), ["0xff00"]],
    "UUIDs": [[SOME_UUID], pa.array([SOME_UUID.bytes], pa.uuid()), [str(SOME_UUID)]],
    "dates": [[NOON.date()], pa.array([NOON.date()], pa.date64()), ["2026-11-17"]],
    "times of any unit": [[NOON], pa.array([NOON], pa.timestamp("ms")), ["2026-11-17 12:00:00.5"]],
    "times of any zone": [
        [NOON.replace(tzinfo=datetime.UTC)],
        [NOON.replace(hour=13, tzinfo=ROME)],
        ["2026-11-17 12:00:00.5Z"],
    ],
    "integers beyond 64 bits": [[2**70], [str(2**70)]],
    "dictionary of integers": [pa.array([7, 7]).dictionary_encode()[:1], [7]],
}


@pytest.mark.parametrize("ways", SAME.values(), ids=SAME)
def test_one_key_in_many_types_is_one_text_one_hash_and_joins(ways):
    texts = {key_texts(way)[0].as_py() for way in ways}
    assert len(texts) == 1
    text = texts.pop()
    expected = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    assert [int(key_hashes(way)[0]) for way in ways] == [expected] * len(ways)
    spaces = [Space(np.zeros((1, 2)), keys=way) for way in ways]
    assert all(len(match_keys(spaces[0], space)) == 1 for space in spaces)
    assert all(rows_of(way, ways[0]).tolist() == [0] for way in ways)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([7], [70]),
        ([7.5], [7]),
        (["a"], ["A"]),
        (["é"], ["e"]),
        ([b"\xff"], [b"\xfe"]),
        (["7"], ["07"]),
        (["7"], [" 7"]),
    ],
)
def test_different_keys_stay_different(a, b):
    assert key_texts(a)[0] != key_texts(b)[0]
    assert key_hashes(a)[0] != key_hashes(b)[0]


@pytest.mark.parametrize("keys", [[True], [[1]], [{"a": 1}], [datetime.timedelta(1)]])
def test_what_names_no_row_is_refused(keys):
    with pytest.raises(ValueError, match="cannot be a key: expected integers, text"):
        key_texts(keys)
    assert not is_key_type(pa.array(keys).type)


def test_keys_of_several_types_at_once():
    assert key_texts([7, "x", 7.5, SOME_UUID]).to_pylist() == ["7", "x", "7.5", str(SOME_UUID)]


def test_integers_stay_integers_for_a_person():
    assert key_values(np.asarray([3, 1], np.int16)).to_pylist() == [3, 1]
    assert key_values([1.0, 2.5]).to_pylist() == ["1", "2.5"]


def test_a_null_or_nan_is_no_key():
    for keys in ([None, "a"], [float("nan"), 1.5], [None, None]):
        with pytest.raises(ValueError, match="are null, first in row 0: give every row a key"):
            key_hashes(keys)


def test_no_keys_are_no_hashes():
    assert key_hashes([]).shape == (0,)


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_a_list_gives_what_each_of_its_keys_gives(keys):
    assert key_hashes(keys).tolist() == [int(key_hashes([key])[0]) for key in keys]


def test_rows_of_keys():
    assert rows_of(["a", "b", "c"], np.asarray(["c", "a"])).tolist() == [2, 0]
    with pytest.raises(KeyError, match="1 of the 2 wanted keys are not in the space, first 'z'"):
        rows_of(["a"], ["a", "z"])
    with pytest.raises(ValueError, match="1 of the 3 wanted keys are repeated"):
        rows_of(["a", "b"], ["a", "b", "a"])
    with pytest.raises(ValueError, match="1 wanted keys stand for several rows, first 'a'"):
        rows_of(["a", "a"], ["a"])


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_is_below_one(share):
    with pytest.raises(ValueError, match="share to hold out"):
        held_out(key_hashes(["a"]), share)


def test_accents_are_composed_before_they_are_hashed():
    """With every version of pyarrow: what is held out must not depend on it."""
    texts = ["cafe\N{COMBINING ACUTE ACCENT}", "a\N{COMBINING DOT BELOW}\N{COMBINING ACUTE ACCENT}", None, "plain"]
    composed = [None if text is None else unicodedata.normalize("NFC", text) for text in texts]
    assert key_texts(pa.array(texts)).to_pylist() == composed
    digest = hashlib.blake2b("caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), digest_size=8).digest()
    assert key_hashes(texts[:1])[0] == int.from_bytes(digest, "little")
