"""Reports: the measurements are right, every format tells the same, and nothing unsafe gets into the page."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

import relatent as rl
from relatent._files import FileError
from relatent.decide import Decision, Relevance
from relatent.migrate import Check, Verification
from relatent.report import command_line, make_report, write_report
from relatent.report.answer import limits
from relatent.report.render import to_html, to_markdown
from relatent.report.sections import document_of
from relatent.spaces import held_out, key_hashes
from relatent.translate import Translator

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
SECRET = "a confidential text"
ROWS, DIM = 400, 6


def held_out_rows(keys):
    return np.flatnonzero(held_out(key_hashes(keys), 0.2))


@pytest.fixture(scope="module")
def world():
    """Three spaces of the same items: the second a noisy rotation of the first; names and keys that attack a page."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(ROWS, DIM)) * np.linspace(2, 0.5, DIM)
    y = x @ np.linalg.qr(rng.normal(size=(8, 8)))[0][:DIM] + 0.2 * rng.normal(size=(ROWS, 8))
    keys = [f"item {i}" for i in range(ROWS)]
    row = held_out_rows(keys)[0]
    keys[row] = next(f"{HOSTILE}{i}" for i in range(99) if held_out(key_hashes([f"{HOSTILE}{i}"]), 0.2)[0])
    y[row] *= -1  # the one item that no map can translate
    others = {"kind": [f"<b>{i % 2}|*x*" for i in range(ROWS)], "text": [SECRET] * ROWS}
    spaces = [
        rl.Space(v.astype(np.float32), keys, name, others=others)
        for v, name in ((x, HOSTILE), (y, "new"), (x[:, ::-1], "turned"))
    ]
    return spaces, row


@pytest.fixture(scope="module")
def found(world):
    spaces, _ = world
    return make_report(Translator(), *spaces, slices="kind", command="relatent report a b", max_rows=200)


@pytest.fixture(scope="module")
def pages(found, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    texts = {}
    for suffix in ("html", "md", "json"):
        write_report(found, folder / f"r.{suffix}")
        texts[suffix] = (folder / f"r.{suffix}").read_text("utf8")
    return texts


# What is measured.


def test_cosines_are_those_of_held_out_rows_and_the_worst_is_named(world, found):
    (source, target, _), row = world
    unseen = held_out_rows(source.keys)
    translator = Translator()
    translator.fit(source, target, held_out=0.2)
    moved, true = translator.transform(source.vectors[unseen]), target.vectors[unseen]
    cosines = np.sum(moved * true, axis=1) / np.linalg.norm(moved, axis=1) / np.linalg.norm(true, axis=1)
    assert found.closeness.rows == len(unseen)
    assert found.closeness.fidelity["cosine"].value == pytest.approx(np.mean(cosines), abs=1e-5)
    worst = found.closeness.worst
    assert [row.key for row in worst] == [source.keys[i] for i in unseen[np.argsort(cosines)[: len(worst)]]]
    assert worst[0].key == source.keys[row]
    assert worst[0].value < 0


def test_queries_that_lose_most_are_named(found):
    kept, before = (found.verdict.query_scores(option) for option in ("translate", "stay"))
    assert np.mean(before) == pytest.approx(found.verdict["stay"][found.verdict.deciding].value)
    lost = dict(zip(found.verdict.keys, before - kept, strict=True))
    named = [lost[row.key] for row in found.worst_queries]
    assert named == sorted(named, reverse=True)
    assert min(named) > 0
    assert max(lost.values()) == named[0]


def test_the_curve_ends_at_the_translator_itself(world, found):
    (source, target, _), _ = world
    unseen = held_out_rows(source.keys)
    translator = Translator()
    translator.fit(source, target, held_out=0.2)
    moved, true = translator.transform(source.vectors[unseen]), target.vectors[unseen]
    scores = (moved / np.linalg.norm(moved, axis=1)[:, None]) @ (true / np.linalg.norm(true, axis=1)[:, None]).T
    ranks = 1 + np.sum(scores > np.diag(scores)[:, None], axis=1)
    assert found.curve.pairs[-1] == translator.n_pairs_ == ROWS - len(unseen)
    assert found.curve.mrr[-1].value == pytest.approx(np.mean(1 / ranks))
    assert list(found.curve.pairs) == sorted(found.curve.pairs)
    assert all(e.low <= e.value <= e.high for e in found.curve.mrr)
    assert found.curve.mrr[-1].value + found.curve.twice.high <= 1


def test_a_loaded_translator_has_no_curve_and_everything_else(world, tmp_path):
    (source, target, _), _ = world
    translator = Translator(map="ridge")
    translator.fit(source, target, held_out=0.2)
    translator.save(tmp_path / "t.safetensors")
    made = make_report(rl.load(tmp_path / "t.safetensors"), source, target)
    assert made.curve is None
    assert (made.anchors.known, made.closeness.rows) == (translator.n_pairs_, ROWS - translator.n_pairs_)
    assert "pairs" not in {section.name for section in document_of(made).sections}


def test_singular_values_anchors_and_similarity(world, found):
    (source, target, turned), _ = world
    rows = held_out_rows(source.keys)
    for space in (source, target):
        centered = space.vectors[rows] - space.vectors[rows].mean(axis=0)
        values = np.linalg.svd(centered, compute_uv=False)
        np.testing.assert_allclose(found.geometry.singular[space.name], values / values[0], rtol=1e-4)
    anchors = np.delete(source.vectors, rows, axis=0)
    values = np.linalg.svd(anchors - anchors.mean(axis=0), compute_uv=False)
    assert found.anchors.diagnosis.conditioning.condition_number == pytest.approx(values[0] / values[-1], rel=1e-4)
    for square in (np.asarray(m) for m in found.similarity.measures.values()):
        np.testing.assert_allclose(square, square.T)
        np.testing.assert_allclose(np.diag(square), 1)
        assert square[0, 2] == pytest.approx(1)  # a space whose coordinates are turned around is the same
        assert square[0, 1] < 0.99
    assert found.similarity.names == (source.name, target.name, turned.name)


def test_a_two_sided_translator_has_no_cosines(world):
    (source, target, _), _ = world
    with pytest.warns(UserWarning, match="into a shared space") as warned:
        made = make_report(Translator("retrieval"), target, source, max_rows=100)
    assert len(warned) == 1
    assert made.closeness is None
    assert set(made.thresholds) == {"new model"}
    assert made.verdict.scores.items == min(100, len(held_out_rows(source.keys)))


def test_an_unfitted_translator_is_fitted_and_a_fitted_one_is_not(world):
    (source, target, _), _ = world
    translator = Translator(map="ridge")
    made = make_report(translator, source, target, max_rows=50)
    before = translator.map_
    assert made.fit.pairs == translator.n_pairs_
    again = make_report(translator, source, target, max_rows=50)
    assert translator.map_ is before
    assert again.fit is None
    assert again.verdict.decision == made.verdict.decision


def test_judged_items_are_held_out_unless_most_are_judged(world):
    (source, target, _), _ = world
    for judged, pairs in ((150, ROWS - 150), (300, ROWS - len(held_out_rows(source.keys)))):
        keys = source.keys[:judged].tolist()
        made = make_report(Translator(), source, target, relevant=Relevance(keys, keys[1:] + keys[:1]), max_rows=150)
        assert made.fit.pairs == pairs


def test_an_index_that_is_larger_is_told(world):
    (source, target, _), _ = world
    keys = source.keys[:150].tolist()
    made = make_report(Translator(), source, target, relevant=Relevance(keys, keys[1:] + keys[:1]), max_rows=150)
    told = "\n".join(map(str, document_of(made).sections))
    assert f"Expected in an index of {ROWS} items" in told
    assert f"{ROWS} will be served" in told
    assert "Rows to migrate that resemble neither" in told


def test_a_known_result_is_told_and_not_measured_again(world, found):
    (source, target, _), _ = world
    translator = Translator(map="ridge")
    fit = translator.fit(source, target, held_out=0.2).fit_report_
    assert make_report(translator, source, target, fit=fit).verdict is None
    assert make_report(translator, source, target, verdict=found.verdict).verdict is found.verdict
    alone = make_report(found.verdict)
    assert alone.verdict is found.verdict
    assert alone.worst_queries == found.worst_queries
    assert [section.name for section in document_of(alone).sections][:2] == ["options", "limits"]
    assert document_of(make_report(fit)).headline.word == "Fitted"


def test_other_inputs_are_refused(world):
    (source, target, _), _ = world
    with pytest.raises(ValueError, match=r"1 spaces were given with a translator: expected its source and its target"):
        make_report(Translator(), source)
    with pytest.raises(ValueError, match=r"A Space was given: expected a Translator, or one of FitReport, Verdict"):
        make_report(source, target)


def test_rows_are_bounded(world):
    (source, target, _), _ = world
    made = make_report(Translator(), source, target, max_rows=50, max_pairs=60)
    assert (made.closeness.rows, made.verdict.scores.items, made.fit.pairs) == (50, 50, 60)


# What is reported.


def test_every_form_tells_the_same(found, pages):
    data = json.loads(pages["json"])
    assert data["verdict"]["verdict"] == found.verdict.decision.verdict == "no verdict"
    cosine = found.closeness.fidelity["cosine"]
    for text in (pages["html"], pages["md"]):
        assert "No verdict" in text
        assert f"{cosine.value:.3f} ({cosine.low:.3f} – {cosine.high:.3f})" in text
        for section in document_of(found).sections:
            assert section.title.replace("?", "") in text
    recorded = {
        (line["slice"], line["measure"]): line["estimate"]["value"] for line in data["closeness"]["fidelity"]["lines"]
    }
    assert recorded["all", "cosine"] == cosine.value


def test_every_section_is_there(found):
    names = [section.name for section in document_of(found).sections]
    assert names == [
        *("options", "limits", "slices", "worst", "pairs", "cosines", "thresholds", "anchors", "similarity"),
        *("geometry", "provenance"),
    ]


def test_provenance(found, pages):
    assert [(s.role, s.rows, s.dim) for s in found.provenance.spaces] == [
        *(("source", ROWS, DIM), ("target", ROWS, 8), ("other 1", ROWS, DIM))
    ]
    for text in pages.values():
        assert "relatent report a b" in text
        assert rl.__version__ in text
        assert found.provenance.spaces[1].fingerprint in text
    assert len({s.fingerprint for s in found.provenance.spaces}) == 3


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["fit", "a b.npy"], "relatent fit 'a b.npy'"),
        (["report", "postgresql://ann:pw@db/shop/items"], "relatent report postgresql://ann@db/shop/items"),
        (["report", "postgresql://db/shop/items?password=pw"], "relatent report postgresql://db/shop/items"),
        (["fit", "--out=s3://id:pw@bucket/x?signature=pw"], "relatent fit --out=s3://bucket/x"),
        (["fit", "https://host/file.npy?token=pw"], "relatent fit https://host/file.npy"),
    ],
)
def test_a_command_is_shown_without_passwords(words, shown):
    assert command_line(words) == shown


def judged_pairs(space):
    """For each held-out key, the nearest other one of a space."""
    rows = held_out_rows(space.keys)
    near = rl.evaluate.nearest(space.vectors[rows], space.vectors[rows], 1, exclude_self=True).indices[:, 0]
    keys = [space.keys[i] for i in rows]
    return Relevance(keys, [keys[i] for i in near])


def sentences(found):
    """The limitations of a translation, as plain text."""
    return ["".join(parts) for parts in limits(found)]


def test_limits_are_about_what_was_found(world):
    (source, target, _), _ = world
    same = rl.Space(source.vectors, source.keys, "same")
    no_gain = sentences(make_report(Translator(), source, same, relevant=judged_pairs(source)))
    # An offset that all vectors share brings every two of them closer.
    shifted = rl.Space(target.vectors + 2, target.keys, "shifted")
    nothing_judged = sentences(make_report(Translator(), source, shifted))
    for words, here, elsewhere in (
        ("No relevance judgments were given", nothing_judged, no_gain),
        ("Similarity thresholds do not carry over", nothing_judged, no_gain),
        ("More pairs will hardly help", no_gain, []),
    ):
        assert any(words in sentence for sentence in here), here
        assert not any(words in sentence for sentence in elsewhere), elsewhere
    assert any("degrades silently" in sentence for sentence in no_gain)


def test_limits_are_about_all_rows_of_a_store(found):
    few, many = sentences(found), sentences(replace(found, plan=SimpleNamespace(rows=10**9)))
    simpler = "re-embedding is simpler"
    assert any(simpler in sentence for sentence in few)
    assert not any(simpler in sentence for sentence in many)
    assert any("there are 1,000,000,000 in all" in sentence for sentence in many)


def decided(found, verdict, recommended):
    return replace(found, verdict=replace(found.verdict, decision=Decision(verdict, recommended, ("so it is.",))))


def test_headlines(world, found):
    (source, target, _), _ = world
    comparison = rl.compare(source, target, permutations=2)
    check = Check("counts", False, "rows are missing")
    cases = {
        "GO: translate": decided(found, "GO", "translate"),
        "NO-GO: stay": decided(found, "NO-GO", "stay"),
        "Fitted": replace(found, verdict=None),
        f"CKA {comparison['cka'].value:.3f}": make_report(comparison, source, target),
        "Verified": make_report(Verification("store", (replace(check, passed=True),), (1, 1))),
        "Not verified": make_report(Verification("store", (check,), (2, 1))),
    }
    for word, made in cases.items():
        assert document_of(made).headline.word == word
        assert f"> **{word}** " in to_markdown(document_of(made))
        assert Reader(to_html(document_of(made))).tags


# What must not get into a page.


class Reader(HTMLParser):
    """Collect the elements of a page, and check that each is closed in its place."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_page_stands_alone_and_is_small(pages):
    page = Reader(pages["html"])
    assert {"script", "img", "link", "iframe", "object", "form"}.isdisjoint(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "xlink:href")]
    assert all(value.startswith("#") for name, value in page.attributes if name == "href")
    assert not re.search(r"https?:|@import|url\(", pages["html"])
    assert max(map(len, pages.values())) < 300_000


def test_commands_are_shown_as_code(pages):
    assert "<code>relatent monitor</code>" in pages["html"]
    assert "`relatent monitor`" in pages["md"]


def test_links_and_descriptions_point_to_what_is_there(pages):
    page = Reader(pages["html"])
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = [value[1:] for name, value in page.attributes if name == "href"]
    labels = [word for name, value in page.attributes if name == "aria-labelledby" for word in value.split()]
    assert set(targets + labels) <= set(ids)
    assert page.tags.count("svg") == page.tags.count("desc") >= 5


def test_hostile_names_are_shown_as_they_are(found, pages):
    shown = []

    class Text(HTMLParser):
        def handle_data(self, data):
            shown.append(data)

    Text().feed(pages["html"])
    assert any(text.startswith(HOSTILE) for text in shown)
    assert "<b>0|*x*" in shown
    cells = [line for line in pages["md"].splitlines() if line.startswith("| \\<b\\>0\\|\\*x\\*")]
    assert cells
    assert "<script>" not in pages["md"]


def holds(value, rows):
    """Whether a list somewhere in JSON is one of these vectors."""
    if isinstance(value, dict):
        return any(holds(one, rows) for one in value.values())
    if not isinstance(value, list):
        return False
    numbers = len(value) == rows.shape[1] and all(isinstance(v, int | float) for v in value)
    return (numbers and bool(np.isclose(rows, value).all(axis=1).any())) or any(holds(one, rows) for one in value)


def test_no_vectors_and_no_texts_unless_asked(world, pages):
    (source, target, _), _ = world
    data = json.loads(pages["json"])
    assert not holds(data, source.vectors)
    assert holds({"x": [source.vectors[0].tolist()]}, source.vectors)
    for text in pages.values():
        assert SECRET not in text
    assert "no texts" in pages["html"]
    asked = make_report(Translator(), source, target, texts="text", max_rows=60)
    page = to_html(document_of(asked))
    assert SECRET in page
    assert "no texts" not in page
    with pytest.raises(ValueError, match=r"no column 'txt' of texts\. Did you mean 'text'"):
        make_report(Translator(), source, target, texts="txt", max_rows=60)


def test_a_number_that_is_not_finite_is_null_in_json(tmp_path, world):
    source, target, _ = world[0]
    compared = rl.compare(source.vectors[:50], target.vectors[:50], permutations=2)
    lines = tuple(replace(line, value=float("nan"), null=float("inf")) for line in compared.scores)
    for suffix in ("json", "html", "md"):
        write_report(make_report(replace(compared, scores=lines)), tmp_path / f"r.{suffix}")

    def refuse(constant):
        raise AssertionError(constant)

    data = json.loads((tmp_path / "r.json").read_text(), parse_constant=refuse)
    assert {(line["value"], line["null"]) for line in data["comparison"]["scores"]} == {(None, None)}


def test_a_file_is_written_by_its_suffix_and_not_over_another(found, tmp_path):
    write_report(found, tmp_path / "r.md")
    with pytest.raises(FileExistsError):
        write_report(found, tmp_path / "r.md")
    write_report(found, tmp_path / "r.md", overwrite=True)
    with pytest.raises(FileError, match=r"r\.pdf is not the name of a report: expected .*\.html, \.md, \.json"):
        write_report(found, tmp_path / "r.pdf")
    assert [path.name for path in tmp_path.iterdir()] == ["r.md"]
