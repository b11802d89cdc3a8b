import json
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score
from torch import nn

import relatent as rl
from relatent.stitching import METHODS

N, ANCHORS, TRAIN, TEST = 300, np.arange(0, 80), np.arange(0, 220), np.arange(220, 300)


@pytest.fixture
def spaces(rng, orthogonal):
    x = rng.normal(size=(N, 6)) * np.linspace(2, 0.5, 6)
    return {
        "a": x,
        "b": 2 * x @ orthogonal(6) + 1 + 0.05 * rng.normal(size=x.shape),
        "wide": x @ rng.normal(size=(6, 9)) + 0.05 * rng.normal(size=(N, 9)),
    }


@pytest.fixture
def labels(spaces):
    return np.asarray(["low", "middle", "high"])[np.digitize(spaces["a"][:, 0] + spaces["a"][:, 1], [-1, 1])]


ROWS = {"anchors": ANCHORS, "train": TRAIN, "test": TEST}


def by_hand(spaces, labels, encoder, decoder, method):
    """One stitch, with nothing shared and no stitch called."""
    x, y = spaces[encoder], spaces[decoder]
    if method == "relative":
        x, y = (rl.RelativeProjection().fit(v[ANCHORS]).transform(v) for v in (x, y))
    head = LogisticRegression().fit(y[TRAIN], labels[TRAIN])
    translators = {
        "orthogonal": rl.Translator(map="orthogonal"),
        "least_squares": rl.Translator(map="least_squares"),
        "stitching": rl.Translator("stitching"),
        "inverse_relative": rl.RelativeTranslator("cosine", omega=8, delta=0.7),
        "dual_codes": rl.RelativeTranslator(),
    }
    if method in translators and encoder != decoder:
        x = translators[method].fit(x[ANCHORS], y[ANCHORS]).transform(x)
    if x.shape[1] != y.shape[1]:
        return None
    return np.mean(head.predict(x[TEST]) == labels[TEST])


def test_every_cell_is_the_stitch_made_by_hand(spaces, labels):
    matrix = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS)
    assert matrix.methods == METHODS
    assert (matrix.encoders, matrix.decoders) == (("a", "b", "wide"), ("a", "b", "wide"))
    assert len(matrix.pairs) == 6 * len(METHODS) + 3 * 2
    for pair in matrix:
        assert pair.value == by_hand(spaces, labels, pair.encoder, pair.decoder, pair.method), pair
        kind = "relative" if pair.method == "relative" else "absolute"
        assert pair.own == by_hand(spaces, labels, pair.decoder, pair.decoder, kind)
        assert pair.kept == (None if pair.value is None else pair.value / pair.own)


def test_absolute_is_not_available_where_widths_differ(spaces, labels):
    matrix = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS, methods=["absolute", "orthogonal"])
    missing = {(p.encoder, p.decoder) for p in matrix if p.value is None}
    assert missing == {("a", "wide"), ("b", "wide"), ("wide", "a"), ("wide", "b")}
    assert matrix["a", "wide", "absolute"].note == "dimensions differ"
    assert "absolute is not available for 4 of 6 pairs: dimensions differ." in str(matrix)
    assert np.isnan(matrix.values("absolute")).sum() == 4
    assert matrix.mean("absolute") == np.mean([matrix[e, d, "absolute"].value for e, d in (("a", "b"), ("b", "a"))])


def test_a_rotated_and_rescaled_space_is_read_as_the_own(rng, orthogonal):
    x = rng.normal(size=(N, 6))
    spaces = {"a": x, "b": 5 * x @ orthogonal(6) + 2}
    methods = ["absolute", "relative", "orthogonal", "least_squares", "dual_codes"]
    matrix = rl.stitching_matrix(spaces, LogisticRegression(), x[:, 0] > 0, **ROWS, methods=methods)
    for method, survives in zip(methods, (False, True, True, True, True), strict=True):
        kept = [matrix[e, d, method].kept for e, d in (("a", "b"), ("b", "a"))]
        assert (min(kept) > 0.97) is survives, method


def test_work_is_shared(spaces, labels):
    encoded, fitted = [], []

    def encoder(name):
        return lambda rows: encoded.append(name) or spaces[name][rows]

    def fit(x, y):
        fitted.append(x.shape)
        return LogisticRegression().fit(x, y)

    matrix = rl.stitching_matrix({name: encoder(name) for name in spaces}, fit, labels, samples=np.arange(N), **ROWS)
    assert encoded == list(spaces)
    widths = [x.shape[1] for x in spaces.values()]
    assert sorted(fitted) == sorted((len(TRAIN), w) for w in (*widths, *[len(ANCHORS)] * 3))
    assert matrix.pairs == rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS).pairs


def test_fitted_decoders_have_no_relative_twin_unless_given(spaces, labels):
    heads = {name: LogisticRegression().fit(spaces[name][TRAIN], labels[TRAIN]) for name in ("a", "wide")}
    relative = rl.RelativeProjection().fit(spaces["a"][ANCHORS]).transform(spaces["a"])
    twin = LogisticRegression().fit(relative[TRAIN], labels[TRAIN])
    both = {"a": {"absolute": heads["a"], "relative": twin}, "wide": heads["wide"]}
    matrix = rl.stitching_matrix(spaces, both, labels, **ROWS)
    trained = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS)
    assert set(matrix.decoders) == {"a", "wide"}
    for pair in matrix:
        if pair.method == "relative" and pair.decoder == "wide":
            assert (pair.value, pair.own, pair.note) == (None, None, "no decoder of relative vectors was given")
        else:
            assert pair == trained[pair.encoder, pair.decoder, pair.method]
    with pytest.raises(ValueError, match=r"The decoder 'wyde' has no space of its name.*Did you mean 'wide'"):
        rl.stitching_matrix(spaces, {"wyde": heads["wide"]}, labels)


def test_methods_may_be_given_as_objects(spaces, labels):
    methods = {
        "paper": rl.Translator(map="orthogonal", normalize="standard"),
        "angles": rl.RelativeProjection("angular"),
        "nothing": None,
    }
    matrix = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS, methods=methods)
    t = clone(methods["paper"]).fit(spaces["a"][ANCHORS], spaces["b"][ANCHORS])
    head = LogisticRegression().fit(spaces["b"][TRAIN], labels[TRAIN])
    assert matrix["a", "b", "paper"].value == head.score(t.transform(spaces["a"][TEST]), labels[TEST])
    assert matrix["a", "b", "nothing"].value == head.score(spaces["a"][TEST], labels[TEST])
    assert matrix.own("b", "angles") == matrix["b", "b", "angles"].value
    assert not hasattr(methods["paper"], "map_")


def test_an_error_is_smaller_where_the_stitch_is_better(spaces, rng):
    images = spaces["a"] @ rng.normal(size=(6, 10))
    methods = ["absolute", "relative", "orthogonal"]
    matrix = rl.stitching_matrix({k: spaces[k] for k in "ab"}, Ridge(), images, **ROWS, methods=methods, metric="MSE")
    assert not matrix.larger_is_better
    assert matrix.mean("orthogonal") < 0.1 * matrix.mean("absolute")
    t = rl.Translator(map="orthogonal").fit(spaces["a"][ANCHORS], spaces["b"][ANCHORS])
    decoded = Ridge().fit(spaces["b"][TRAIN], images[TRAIN]).predict(t.transform(spaces["a"][TEST]))
    assert matrix["a", "b", "orthogonal"].value == pytest.approx(np.mean((decoded - images[TEST]) ** 2))
    assert "smaller is better" in str(matrix)


def test_any_metric(spaces, labels):
    weighted = partial(f1_score, average="weighted")
    named = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS, metric="weighted F1")
    given = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS, metric=weighted)
    assert named.pairs == given.pairs

    def wrong(truth, answer):
        return np.mean(truth != answer)

    errors = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS, metric=wrong, larger_is_better=False)
    right = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS)
    assert (errors.metric, errors.larger_is_better) == ("wrong", False)
    for e, r in zip(errors, right, strict=True):
        assert e.value is r.value is None or e.value == pytest.approx(1 - r.value)


def test_scores_of_classes_are_read_by_the_largest(spaces, labels):
    classes, numbers = np.unique(labels, return_inverse=True)

    def fit(x, y):
        fitted = LogisticRegression().fit(x, y)
        layer = nn.Linear(x.shape[1], len(classes))
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(fitted.coef_))
            layer.bias.copy_(torch.from_numpy(fitted.intercept_))
        return layer

    modules = rl.stitching_matrix(spaces, fit, numbers, **ROWS)
    estimators = rl.stitching_matrix(spaces, LogisticRegression(), numbers, **ROWS)
    for one, other in zip(modules, estimators, strict=True):
        assert one.value == (other.value if other.value is None else pytest.approx(other.value, abs=0.02))


def test_rows_are_drawn_where_they_are_not_given(spaces, labels):
    def run(**given):
        return rl.stitching_matrix(spaces, LogisticRegression(), labels, methods=["stitching"], **given)

    drawn = run(anchors=50)
    assert (drawn.n_anchors, drawn.n_test) == (50, 60)
    assert drawn == run(anchors=50)
    assert drawn != run(anchors=50, seed=1)
    masked = run(anchors=np.arange(N) < 80, train=np.arange(N) < 220, test=np.arange(N) >= 220)
    assert masked == run(**ROWS)


def test_a_table_for_people_and_programs(spaces, labels):
    matrix = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS)
    lines = str(matrix).splitlines()
    header = next(line for line in lines if line.startswith("encoder"))
    assert header.split()[:3] == ["encoder", "decoder", "own"]
    assert len([line for line in lines if line.startswith(("a ", "b ", "wide "))]) == 6
    assert next(line for line in lines if line.startswith("mean")).split()[1:3] == ["6", "pairs"]
    plain = json.loads(json.dumps(matrix.to_dict()))
    assert plain["n_anchors"] == 80
    assert len(plain["pairs"]) == len(matrix.pairs)
    pandas = pytest.importorskip("pandas")
    frame = matrix.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.columns.tolist() == ["encoder", "decoder", "method", "value", "own", "note", "kept"]
    with pytest.raises(KeyError, match="expected \\(encoder, decoder, method\\)"):
        _ = matrix["a", "b", "orthogonall"]
    with pytest.raises(ValueError, match="Did you mean 'orthogonal'"):
        matrix.values("orthogonall")


def test_pandas_is_not_needed(spaces, labels, monkeypatch):
    matrix = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS, methods=["absolute"])
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install pandas\. to_dict\(\) does without"):
        matrix.to_pandas()


def test_a_heatmap(spaces, labels, tmp_path, rng, monkeypatch):
    pytest.importorskip("matplotlib")
    accuracy = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS)
    images = spaces["a"] @ rng.normal(size=(6, 10))
    errors = rl.stitching_matrix(spaces, Ridge(), images, **ROWS, methods=["absolute", "relative"], metric="MSE")
    for matrix in (accuracy, errors):
        path = tmp_path / f"{matrix.metric}.png"
        axes = matrix.heatmap(path, title="Three spaces")
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert [ax.get_title().split(",")[0] for ax in axes] == [m.replace("_", " ") for m in matrix.methods]
    before = list(tmp_path.iterdir())
    assert len(accuracy.heatmap()) == len(accuracy.methods)
    assert list(tmp_path.iterdir()) == before
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match="matplotlib is needed to draw a heatmap"):
        accuracy.heatmap(tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"anchors": np.arange(210, 230)}, "10 of the 20 anchors are test rows too, first row 220"),
        ({"train": np.arange(0, 221)}, "1 of the 221 train rows are test rows too"),
        ({"anchors": 221}, "221 anchors were asked for but there are only 220 rows"),
        ({"test": [300]}, "test does not hold row numbers from 0 to 299"),
        ({"methods": ["orthogonl"]}, "There is no method 'orthogonl'. Did you mean 'orthogonal'"),
        ({"methods": []}, "No methods were given"),
        ({"metric": "acuracy"}, "There is no metric 'acuracy'. Did you mean 'accuracy'"),
        ({"labels": np.zeros(299)}, "a has 300 rows and there are 299 labels"),
        ({"spaces": {"a": np.eye(300)}}, "1 spaces were given: expected at least 2"),
        ({"spaces": {"a": len, "b": np.eye(300)}}, "a is an encoder and there is nothing to encode: give samples"),
    ],
)
def test_what_is_refused(spaces, labels, change, says):
    given = {"spaces": spaces, "decoders": LogisticRegression(), "labels": labels, **ROWS} | change
    given = given | ({"test": None} if "labels" in change else {})
    with pytest.raises(ValueError, match=says):
        rl.stitching_matrix(**given)


@pytest.mark.parametrize("decoders", [LogisticRegression, 3, "svm"])
def test_decoders_of_no_use(spaces, labels, decoders):
    with pytest.raises(TypeError, match="expected an unfitted scikit-learn estimator, a function"):
        rl.stitching_matrix(spaces, decoders, labels, **ROWS)


def test_spaces_with_keys_are_joined_on_them(spaces, labels, rng):
    keys, methods = [f"k{i}" for i in range(N)], ["relative", "orthogonal"]
    order = rng.permutation(N)
    keyed = {
        "a": rl.Space(spaces["a"], keys),
        "b": rl.Space(spaces["b"][order], [keys[i] for i in order]),
        "wide": rl.Space(spaces["wide"], keys),
    }
    by_key = rl.stitching_matrix(keyed, LogisticRegression(), labels, **ROWS, methods=methods)
    assert by_key.pairs == rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS, methods=methods).pairs
    with pytest.raises(ValueError, match="10 of the 300 keys of a are not in all other spaces"):
        rl.stitching_matrix({**keyed, "b": keyed["b"].subset(range(290))}, LogisticRegression(), labels, **ROWS)


def test_the_table_in_a_notebook_is_the_printed_one(labels):
    x = np.random.default_rng(0).normal(size=(N, 4))
    matrix = rl.stitching_matrix({"<a>": x, "b": x[:, :3]}, LogisticRegression(), labels, **ROWS, methods=["absolute"])
    html = matrix._repr_html_()
    assert "&lt;a&gt;" in html
    assert "<a>" not in html
    rows = ElementTree.fromstring(f"<div>{html}</div>").findall(".//tbody/tr")
    cells = [[cell.text for cell in row] for row in rows]
    assert [" ".join(line) for line in cells] == [" ".join(line.split()) for line in str(matrix).splitlines()[2:-1]]
    assert "absolute is not available for 2 of 2 pairs: dimensions differ." in html
    assert len(matrix.to_pandas()) == len(matrix.pairs)


# What a stitch reaches for the wrong reasons.


def test_controls_are_near_chance_where_the_task_needs_the_encoder(spaces, labels):
    methods = ["absolute", "orthogonal", "least_squares"]
    matrix = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS, methods=methods, controls=True)
    share = np.max(np.unique(labels[TEST], return_counts=True)[1]) / len(TEST)
    assert matrix.control("majority") == pytest.approx(share)
    assert matrix.mean("least_squares") > 0.9
    assert matrix.control("random encoder", "least_squares") < share + 0.1
    assert matrix.control("shuffled pairs", "least_squares") < share + 0.15
    plain = rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS, methods=methods)
    assert plain.pairs == matrix.pairs
    assert plain.controls == ()


def test_a_random_encoder_of_the_samples_succeeds_where_the_map_can_learn_the_task(rng, labels, spaces):
    """The wrong reason: samples that hold the answer linearly can be mapped to it, whatever the encoder learned."""
    samples = spaces["wide"]
    encoders = {"a": lambda s: spaces["a"], "b": lambda s: spaces["b"]}
    matrix = rl.stitching_matrix(
        encoders, LogisticRegression(), labels, samples=samples, **ROWS, methods=["least_squares"], controls=True
    )
    majority = matrix.control("majority")
    assert matrix.control("random encoder", "least_squares") > majority + 0.2
    assert matrix.control("shuffled pairs", "least_squares") < majority + 0.15


def test_shuffled_pairs_by_hand(spaces, labels):
    """The anchors of the encoder are permuted, and nothing else: not its test rows, not the decoder."""
    matrix = rl.stitching_matrix(
        {k: spaces[k] for k in "ab"}, LogisticRegression(), labels, **ROWS, methods=["least_squares"], controls=True
    )
    found = {(c.encoder, c.decoder): c.value for c in matrix.controls if c.control == "shuffled pairs"}
    drawn = np.random.default_rng(0)
    mixed = {name: spaces[name][drawn.permutation(ANCHORS)] for name in "ab"}
    for encoder, decoder in (("a", "b"), ("b", "a")):
        head = LogisticRegression().fit(spaces[decoder][TRAIN], labels[TRAIN])
        t = rl.Translator(map="least_squares").fit(mixed[encoder], spaces[decoder][ANCHORS], force=True)
        expected = np.mean(head.predict(t.transform(spaces[encoder][TEST])) == labels[TEST])
        assert found[encoder, decoder] == pytest.approx(expected)


def test_controls_of_a_reconstruction_and_of_relative_decoders(spaces):
    images = spaces["a"]
    matrix = rl.stitching_matrix(
        {k: spaces[k] for k in "ab"},
        Ridge(),
        images,
        **ROWS,
        methods=["relative", "orthogonal"],
        metric="MSE",
        controls=True,
    )
    for method in ("relative", "orthogonal"):
        assert matrix.mean(method) < 0.7 * matrix.control("shuffled pairs", method)
    assert matrix.control("majority") == pytest.approx(np.mean(np.var(images[TEST], axis=0)), rel=0.05)


def test_controls_are_lines_of_the_table_and_of_the_json(spaces, labels):
    matrix = rl.stitching_matrix(
        {k: spaces[k] for k in "ab"},
        LogisticRegression(),
        labels,
        **ROWS,
        methods=["absolute", "orthogonal"],
        controls=True,
    )
    lines = str(matrix).splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["random", "shuffled", "majority"]
    plain = json.loads(json.dumps(matrix.to_dict()))
    assert {one["control"] for one in plain["controls"]} == {"random encoder", "shuffled pairs", "majority"}
    assert not [one for one in plain["controls"] if one["control"] == "shuffled pairs" and one["method"] == "absolute"]
    with pytest.raises(ValueError, match=r"no control 'random'.*random encoder"):
        matrix.control("random")
    with pytest.raises(ValueError, match="Use controls=True"):
        rl.stitching_matrix(spaces, LogisticRegression(), labels, **ROWS, methods=["absolute"]).control("majority")
