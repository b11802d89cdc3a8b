"""Every item of the papers from a hub: on a folder with a hub's layout, its models in their real classes, tiny."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.__main__ import run_item
from experiments.data import graphs, groups, hub, source
from experiments.data.words import read_vectors
from experiments.items import ITEMS
from experiments.page import render
from experiments.results import Record, Result, Setting, Table, read_record, write_record
from tests.experiments import mirror

# Items on data that a hub has nothing to do with.
OWN_DATA = {"rr-slides", "rr-supervision", "stitch-at", "judged", "geodesic", "rr-attempts", "rr-anchors", "asif"}
# Numbers of seeds, and how long is trained.
FEWER = {5: 2, 6: 2, 10: 2, 24: 8, 50: 2, 80: 2, 150: 10, 250: 2, 300: 2}
SOME, SOME_OF_ALL = ("fashion", "cifar100 coarse", "trec"), ("fashion, all encoders", "trec, all encoders")
SMALL = {"steps": 2, "graph_layers": 2, "anchors": 10, "images": 60}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("datasets")
    pytest.importorskip("transformers")
    pytest.importorskip("PIL")
    try:
        mirror.import_torchvision()
    except ImportError:
        pytest.skip("torchvision is not installed")
    pytest.importorskip("timm")
    return mirror.write(tmp_path_factory.mktemp("hub"), hub.MODELS)


@pytest.fixture
def on_hub(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Read from the hub, into one cache for all tests."""
    monkeypatch.setenv("RELATENT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setattr(source, "ORIGINS", set())
    token = source.SOURCE.set("hub")
    yield
    source.SOURCE.reset(token)


@dataclass(frozen=True)
class Tiny(Setting):
    """The quick size with two seeds and next to no training."""

    size: str = "smoke"

    def pick(self, quick: Any, full: Any, smoke: Any = None) -> Any:
        return tiny(quick if smoke is None else smoke)


def tiny(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(tiny, value))
    if isinstance(value, dict):
        return {key: tiny(one) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        found = {field.name: getattr(value, field.name) for field in fields(value)}
        return replace(
            value,
            **{
                name: SMALL.get(name) if _is_number(one) and name in SMALL else tiny(one) for name, one in found.items()
            },
        )
    return FEWER.get(value, value) if isinstance(value, int) else value


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, int)


def of_papers() -> list[str]:
    return [name for name, item in ITEMS.items() if item.paper in ("RR", "LST", "IRP") and name not in OWN_DATA]


@pytest.mark.filterwarnings("ignore")  # of few and degenerate rows
@pytest.mark.parametrize("name", of_papers())
def test_an_item_of_the_papers_runs_from_a_hub(name, folder, on_hub, tmp_path, monkeypatch) -> None:
    tokens = [hub.FOLDER.set(folder), hub.ROWS.set(None), hub.WORDS.set(mirror.word_files(tmp_path / "words"))]
    module = ITEMS[name].load()
    for constant, value in {"ANCHORS": 20, "COLUMNS_SHOWN": 2}.items():
        if isinstance(getattr(module, constant, None), int):
            monkeypatch.setattr(module, constant, value)
    if name == "lst-table1":
        monkeypatch.setattr(module, "COUNTS", (10, 20))
    names = getattr(module, "NAMES", ())
    if isinstance(names, source.BySource) and len(names) > len(SOME):  # of many data sets, pictures and texts
        of = {key: names[key] for key in SOME_OF_ALL if key in names} or SOME
        monkeypatch.setitem(names._values, "hub", of)
    try:
        record = run_item(ITEMS[name], Tiny(source="hub", models=tmp_path / "models"), tmp_path)
    finally:
        for variable, token in zip((hub.FOLDER, hub.ROWS, hub.WORDS), tokens, strict=True):
            variable.reset(token)
    assert record.result.tables[0].rows
    assert not record.result.stand_ins
    assert record.origins
    assert all("@" in one or "bytes" in one for one in record.origins)
    assert not any("unknown" in one for one in record.origins)
    assert (tmp_path / "hub" / f"{name}.smoke.json").is_file()
    assert read_record(tmp_path, name, "smoke") is None


def test_every_model_of_the_tables_is_read_in_its_own_class(folder, on_hub) -> None:
    token = hub.FOLDER.set(folder)
    try:
        for name, model in hub.MODELS.items():
            item = "who is it" if "text" in model.kind else np.zeros((20, 20, 3), np.uint8)
            assert model.load()([item]).shape[0] == 1, name
    finally:
        hub.FOLDER.reset(token)


def test_records_of_a_hub_have_their_own_section(tmp_path) -> None:
    result = Result([Table("t", ("a",), [["x"]])])
    record = Record("rr-table7", "quick", "c", 1.0, {}, result)
    write_record(tmp_path, record)
    assert "(rr-table7-hub)=" not in render(tmp_path)
    write_record(tmp_path, replace(record, source="hub", command="from the hub"))
    page = render(tmp_path)
    assert "(rr-table7)=" in page
    assert f"(rr-table7-hub)=\n### {ITEMS['rr-table7'].shows}, from a hub" in page
    assert "`from the hub`" in page


def test_titles_are_prefixes_with_a_full_stop_where_they_end_in_a_letter() -> None:
    row = {"review_title": "Great", "review_body": "Works.", "stars": 5}
    data = hub.DATA["Amazon reviews, en"]
    assert data.read_item(row) == "Great. Works."
    assert data.read_item(row | {"review_title": "Great!"}) == "Great! Works."
    assert data.read_item(row | {"review_title": None}) == "Works."


def test_sentences_of_wikipedia_are_those_that_english_shares_with_all_languages(tmp_path) -> None:
    import gzip

    folder = tmp_path / "datasets" / "WikiMatrix"
    folder.mkdir(parents=True)
    rows = {
        "es": ["1.10\tone\tuno", "1.05\ttwo\tdos", "1.20\tthree\ttres", "1.30\tthree\ttres, mejor", "1.2\tsame\tsame"],
        "fr": ["1.06\tone\tun", "1.10\ttwo\tdeux", "1.08\tthree\ttrois", "1.2\tsame\tautre"],
    }
    for language, lines in rows.items():
        with gzip.open(folder / f"WikiMatrix.en-{language}.tsv.gz", "wt", encoding="utf8") as file:
            file.write("\n".join(lines) + "\n")
    token = hub.FOLDER.set(tmp_path)
    try:
        found = hub.wiki_matrix(("es", "fr"))
        counts = hub.wiki_matrix_counts(("es", "fr"))
    finally:
        hub.FOLDER.reset(token)
    assert found == {"en": ["one", "three"], "es": ["uno", "tres, mejor"], "fr": ["un", "trois"]}
    assert counts == {"en, es": 2, "en, fr": 4, "en, es, fr": 2}


def test_what_no_hub_has_is_asked_for() -> None:
    with pytest.raises(SystemExit, match="N24News is on no hub: put it into FOLDER/datasets/N24News"):
        hub.DATA["N24News, texts"].read()
    with pytest.raises(SystemExit, match=r"--words A\.vec B\.bin"):
        hub.load_hub_group("words", ())


def test_word_vectors_are_read_as_text_and_as_binary(tmp_path) -> None:
    text, binary = mirror.word_files(tmp_path)
    first, second = read_vectors(text), read_vectors(binary)
    assert list(first) == list(reversed(second))
    assert len(read_vectors(text, most=7)) == 7
    assert list(read_vectors(binary, wanted={"doctor"})) == ["doctor"]
    x, y = (np.stack([of[word] for word in first]) for of in (first, second))
    residual = np.linalg.lstsq(x, y, rcond=None)[1]
    assert residual.sum() < 0.05 * np.sum(y**2)  # a rotation of each other, but for noise
    binary.write_bytes(binary.read_bytes()[:-10])
    with pytest.raises(SystemExit, match="ends before its"):
        read_vectors(binary)
    with pytest.raises(SystemExit, match="There is no file"):
        read_vectors(tmp_path / "none.vec")


def test_words_are_shared_frequent_and_of_four_letters(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RELATENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub, "SKIPPED", 3)
    token = hub.WORDS.set(mirror.word_files(tmp_path))
    try:
        group = hub.word_vectors()
    finally:
        hub.WORDS.reset(token)
    assert group.keys is not None
    assert {"it's", "of"}.isdisjoint(group.keys)
    assert list(group.keys) == [w for w in read_vectors(tmp_path / "fast.vec") if w.isalpha() and len(w) > 3][3:]


def test_planetoid_is_read_from_its_files(tmp_path, on_hub) -> None:
    mirror._planetoid(tmp_path / "datasets" / "Planetoid" / "pubmed" / "raw", "pubmed")
    token = hub.FOLDER.set(tmp_path)
    try:
        found = graphs.load_citations("pubmed")
    finally:
        hub.FOLDER.reset(token)
    assert found.words.shape == (400, 20)
    assert set(found.labels) == {0, 1, 2}
    same = found.labels[found.edges[:, 0]] == found.labels[found.edges[:, 1]]
    assert same.all()  # edges were drawn within classes, so that rows and labels belong together


def test_the_source_decides(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(hub, "load_hub_group", lambda name, spaces: groups.Group({name: np.zeros((2, 2), np.float32)}))
    roles = source.BySource(packages=("a",), hub={"b": 1})
    assert list(roles) == ["a"]
    token = source.SOURCE.set("hub")
    try:
        assert list(groups.load_group("trec").spaces) == ["trec"]
        assert dict(roles.items()) == {"b": 1}
    finally:
        source.SOURCE.reset(token)
