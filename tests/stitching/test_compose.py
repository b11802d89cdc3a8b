import itertools
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import relatent as rl
from relatent.stitching import StitchedModel

N, D_X, D_Y = 120, 6, 5


class Encodes:
    """Speaks as sentence encoders do."""

    def __init__(self, matrix):
        self.matrix = matrix

    def encode(self, samples):
        return np.asarray(samples) @ self.matrix


class Transforms(Encodes):
    """Speaks as scikit-learn does."""

    encode = property()

    def transform(self, samples):
        return np.asarray(samples) @ self.matrix


@pytest.fixture
def data(rng):
    samples = rng.normal(size=(N, 8))
    to_x, to_y = rng.normal(size=(8, D_X)), rng.normal(size=(8, D_Y))
    names = np.asarray(["cold", "mild", "warm"])[np.digitize(samples[:, 0], [-0.4, 0.4])]
    return samples, to_x, to_y, names


@pytest.fixture
def translator(data):
    samples, to_x, to_y, _ = data
    return rl.Translator("stitching").fit(samples @ to_x, samples @ to_y)


@pytest.fixture
def head(data):
    samples, _, to_y, names = data
    return LogisticRegression().fit(samples @ to_y, names)


def encoders(matrix):
    return [lambda samples: samples @ matrix, Encodes(matrix), Transforms(matrix)]


@pytest.mark.parametrize("kind", range(3))
def test_a_stitch_is_the_composition_of_its_parts(data, translator, head, kind):
    samples, to_x, _, names = data
    model = rl.stitch(encoders(to_x)[kind], translator, head)
    vectors = samples @ to_x @ translator.matrix_ + translator.offset_
    np.testing.assert_allclose(model.vectors(samples), vectors)
    np.testing.assert_allclose(model.predict_proba(samples), head.predict_proba(vectors))
    np.testing.assert_allclose(model.decision_function(samples), vectors @ head.coef_.T + head.intercept_)
    np.testing.assert_array_equal(model.predict(samples), head.predict(vectors))
    np.testing.assert_array_equal(model(samples), head.predict(vectors))
    assert model.score(samples, names) == np.mean(head.predict(vectors) == names)
    assert model.classes_.tolist() == ["cold", "mild", "warm"]


def test_without_an_encoder_samples_are_vectors(data, translator, head):
    samples, to_x, _, _ = data
    expected = rl.stitch(lambda s: s @ to_x, translator, head).predict(samples)
    np.testing.assert_array_equal(rl.stitch(None, translator, head).predict(samples @ to_x), expected)


def test_any_translator(data, head):
    samples, to_x, to_y, _ = data
    x, y = samples @ to_x, samples @ to_y
    hub = rl.Hub().fit({"x": x, "y": y})
    inverse = rl.RelativeTranslator().fit(x, y)
    matrix = np.linalg.lstsq(x, y)[0]
    for translator, given, expected in (
        (inverse, x, inverse.transform(x)),
        (partial(hub.translate, source="x", target="y"), x, hub.translate(x, "x", "y")),
        (lambda v: v @ matrix, x, x @ matrix),
        (StandardScaler().fit(y), y, (y - y.mean(0)) / y.std(0)),
        (None, y, y),
    ):
        found = rl.stitch(None, translator, head).decision_function(given)
        np.testing.assert_allclose(found, head.decision_function(expected))


def test_a_part_of_a_hub(data, head):
    samples, to_x, to_y, names = data
    x, y = samples @ to_x, samples @ to_y
    hub = rl.Hub().fit({"x": x, "y": y})
    into = hub.spokes_["x"].into
    reader = LogisticRegression().fit(hub.transform(y, "y"), names)
    np.testing.assert_array_equal(rl.stitch(None, into, reader).predict(x), reader.predict(hub.transform(x, "x")))
    with pytest.raises(ValueError, match="6 coordinates come from the translator and the decoder reads 5"):
        rl.stitch(None, into, head)
    back = partial(hub.spokes_["y"].out)
    np.testing.assert_allclose(rl.stitch(into, back, head).vectors(x), hub.translate(x, "x", "y"))


def test_a_decoder_of_relative_vectors_reads_any_encoder_that_is_a_rotation_away(data, orthogonal):
    samples, _, to_y, names = data
    y = samples @ to_y
    own = rl.RelativeProjection().fit(y[:20])
    decoder = RidgeClassifier().fit(own.transform(y), names)
    turned = 3 * y @ orthogonal(D_Y) + 1
    other = rl.RelativeProjection().fit(turned[:20])
    stitched = rl.stitch(None, other, decoder)
    np.testing.assert_allclose(
        stitched.decision_function(turned), decoder.decision_function(own.transform(y)), atol=1e-8
    )
    wrong = rl.stitch(None, own, decoder)  # anchors of the other space
    assert not np.allclose(wrong.decision_function(turned), decoder.decision_function(own.transform(y)), atol=1e-2)


@pytest.mark.parametrize(
    ("decoder", "has"),
    [
        (LogisticRegression(), {"predict", "predict_proba", "decision_function", "score", "classes_"}),
        (make_pipeline(StandardScaler(), RidgeClassifier()), {"predict", "decision_function", "score", "classes_"}),
        (LinearRegression(), {"predict", "score"}),
        (len, set()),
        (nn.Linear(D_Y, 2), set()),
    ],
)
def test_a_stitch_answers_exactly_as_its_decoder_can(data, translator, decoder, has):
    samples, _, to_y, names = data
    if hasattr(decoder, "fit"):
        decoder.fit(samples @ to_y, names == "warm")
    model = rl.stitch(None, translator, decoder)
    names = {"predict", "predict_proba", "decision_function", "score", "classes_"}
    assert {name for name in names if hasattr(model, name)} == has


def test_a_linear_head_reads_as_the_classifier_it_was_taken_from(data, head):
    samples, _, to_y, names = data
    y = samples @ to_y
    linear = rl.stitching.LinearHead(head.coef_, head.intercept_, head.classes_)
    np.testing.assert_allclose(linear.decision_function(y), head.decision_function(y))
    np.testing.assert_array_equal(linear.predict(torch.from_numpy(y)), head.predict(y))
    assert linear.score(y, names) == head.score(y, names)
    assert (linear.n_features_in_, linear.classes_.tolist()) == (D_Y, head.classes_.tolist())


# Torch


@pytest.fixture
def modules(data):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(8, 7), nn.Tanh(), nn.Linear(7, D_X)).eval()
    decoder = nn.Sequential(nn.LayerNorm(D_Y), nn.Linear(D_Y, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
    return encoder, decoder


@pytest.fixture
def between(data, modules):
    samples, _, to_y, _ = data
    with torch.no_grad():
        x = modules[0](torch.from_numpy(samples).float()).numpy()
    return {
        "translator": rl.Translator("stitching").fit(x, (samples @ to_y).astype(np.float32)),
        "unit rows": rl.Translator(map="orthogonal", normalize="center+l2").fit(x, (samples @ to_y).astype(np.float32)),
        "codes": rl.RelativeTranslator().fit(x, (samples @ to_y).astype(np.float32)),
        "relative": rl.RelativeProjection().fit(x[:D_Y]),
        "relative, standard": rl.RelativeProjection(normalize="standard", output="layer").fit(x[:D_Y]),
        "module": nn.Linear(D_X, D_Y),
        "function": lambda v: v[:, :D_Y] ** 2,
    }


@pytest.mark.parametrize(
    "name", ["translator", "unit rows", "codes", "relative", "relative, standard", "module", "function"]
)
def test_torch_modules_make_a_torch_module(data, modules, between, name):
    (encoder, decoder), translator = modules, between[name]
    samples = torch.from_numpy(data[0]).float()
    model = rl.stitch(encoder, translator, decoder)
    assert isinstance(model, nn.Module)
    assert (model.encoder, model.decoder) == (encoder, decoder)
    found = model(samples)
    with torch.no_grad():
        x = encoder(samples)
        y = translator.transform(x.numpy()) if hasattr(translator, "transform") else translator(x).numpy()
        expected = decoder(torch.from_numpy(np.asarray(y, dtype=np.float32)))
    np.testing.assert_allclose(found.detach(), expected, rtol=1e-3, atol=1e-4)
    found.sum().backward()
    assert all(p.grad is not None and torch.any(p.grad != 0) for p in encoder.parameters())


@pytest.mark.parametrize("name", ["translator", "codes", "relative"])
def test_a_stitched_module_is_saved_whole_and_trains_its_ends_only(data, modules, between, name):
    samples = torch.from_numpy(data[0]).float()
    model = rl.stitch(modules[0], between[name], modules[1])
    assert {key.split(".")[0] for key, _ in model.named_parameters()} == {"encoder", "decoder"}
    assert any(key.startswith("translator.") for key in model.state_dict())
    before = model(samples)
    kept = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        for value in model.state_dict().values():
            value.add_(1)
    assert not torch.allclose(model(samples), before)
    model.load_state_dict(kept)
    torch.testing.assert_close(model(samples), before)
    assert model.double()(samples.double()).dtype == torch.float64


class Autoencoder(nn.Module):
    """Has two parts and a forward that is neither."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(8, 3), nn.Linear(3, 8)

    def encode(self, x):
        return self.down(x)

    def decode(self, z):
        return self.up(z)

    def forward(self, x):
        return self.up(self.down(x))


def test_autoencoders_are_stitched_by_encode_and_decode(data):
    samples = torch.from_numpy(data[0]).float()
    one, two = Autoencoder().eval(), Autoencoder().eval()
    x, y = (a.encode(samples).detach() for a in (one, two))
    t = rl.Translator(map="affine").fit(x, y)
    model = rl.stitch(one, t, two)
    torch.testing.assert_close(model(samples), two.up(t.transform(one.down(samples))), rtol=1e-3, atol=1e-4)
    assert not torch.allclose(model(samples), rl.stitch(one, None, two)(samples), atol=0.1)
    assert len(list(model.parameters())) == len(list(one.parameters())) + len(list(two.parameters()))
    with torch.no_grad():
        mixed = rl.stitch(one.encode, t, two)(samples)
    torch.testing.assert_close(mixed, model(samples).detach(), rtol=1e-3, atol=1e-4)


class Sentences(nn.Module):
    """Speaks as sentence-transformers do: a module whose ``encode`` takes texts and gives NumPy arrays."""

    def __init__(self):
        super().__init__()
        self.letters = nn.Linear(26, D_X)

    def encode(self, texts):
        counts = np.asarray([[text.count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)
        with torch.no_grad():
            return self.letters(torch.from_numpy(counts)).numpy()


def test_a_sentence_encoder_is_used_by_its_encode(data, translator, modules, head):
    texts, encoder = ["a letter", "another one", "and more"], Sentences().eval()
    vectors = translator.transform(encoder.encode(texts))
    expected = modules[1](torch.from_numpy(vectors))
    torch.testing.assert_close(rl.stitch(encoder, translator, modules[1])(texts), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(rl.stitch(encoder, translator, head).predict(texts), head.predict(vectors))
    np.testing.assert_array_equal(
        rl.stitch(encoder, translator, head).predict(np.asarray(texts)), head.predict(vectors)
    )


def test_parts_stay_as_they_are(data, modules, between):
    encoder, decoder = modules
    encoder.train()
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    model = rl.stitch(encoder, between["translator"], decoder)
    model(torch.from_numpy(data[0]).float())
    assert (encoder.training, decoder.training) == (True, False)
    for key, value in encoder.state_dict().items():
        torch.testing.assert_close(value, before[key], rtol=0, atol=0)


def test_a_torch_encoder_under_a_scikit_learn_head(data, modules, between):
    samples, _, to_y, names = data
    encoder, translator = modules[0], between["translator"]
    head = LogisticRegression().fit(samples @ to_y, names)
    model = rl.stitch(encoder, translator, head)
    assert isinstance(model, StitchedModel)
    with torch.no_grad():
        expected = head.predict_proba(translator.transform(encoder(torch.from_numpy(samples).float()).numpy()))
    np.testing.assert_allclose(model.predict_proba(torch.from_numpy(samples).float()), expected, rtol=1e-4)
    np.testing.assert_allclose(model.predict_proba(samples), expected, rtol=1e-4)  # float64 becomes the encoder's own
    assert isinstance(model.vectors(samples), np.ndarray)
    assert model.score(samples, names) == np.mean(head.classes_[expected.argmax(axis=1)] == names)


def test_a_numpy_encoder_under_a_torch_decoder(data, translator, modules):
    samples, to_x, _, _ = data
    model = rl.stitch(lambda s: s @ to_x, translator, modules[1])
    found = model(samples)
    expected = modules[1](torch.from_numpy(translator.transform(samples @ to_x)).float())
    torch.testing.assert_close(found, expected)
    assert found.requires_grad  # the decoder can still be tuned


# What does not fit


@pytest.mark.parametrize(
    ("encoder", "decoder", "says"),
    [
        (
            None,
            rl.stitching.LinearHead(np.eye(3), np.zeros(3), np.arange(3)),
            "5 coordinates .* translator and the decoder reads 3",
        ),
        (None, nn.Sequential(nn.Dropout(), nn.Linear(7, 2)), "5 coordinates .* translator and the decoder reads 7"),
        (None, nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2)), "translator and the decoder reads 4"),
        (nn.Linear(8, 9), nn.Linear(5, 2), "9 coordinates .* encoder and the translator reads 6"),
        (nn.Sequential(nn.Linear(8, 9), nn.Sequential(nn.ReLU(), nn.Identity())), len, "9 .* translator reads 6"),
    ],
)
def test_widths_are_checked_when_stitched(translator, encoder, decoder, says):
    with pytest.raises(ValueError, match=says):
        rl.stitch(encoder, translator, decoder)


def test_unknown_widths_are_checked_when_used(data, translator, head):
    samples, to_x, _, _ = data
    with pytest.raises(ValueError, match="4 coordinates come from the encoder and the translator reads 6"):
        rl.stitch(lambda s: s[:, :4], translator, head).predict(samples)
    with pytest.raises(ValueError, match="8 coordinates come from the samples and the translator reads 6"):
        rl.stitch(None, translator, head).predict(samples)
    with pytest.raises(ValueError, match="2 coordinates come from the translator and the decoder reads 5"):
        rl.stitch(None, lambda v: v[:, :2], head).predict(samples @ to_x)
    with pytest.raises(ValueError, match=r"8 .* encoder and the decoder reads 5.*Fit a translator from this encoder"):
        rl.stitch(lambda s: s, None, head).predict(samples)


class Odd(nn.Module):
    """Its first layer is not what it reads with."""

    def __init__(self):
        super().__init__()
        self.last, self.first = nn.Linear(9, 2), nn.Linear(D_Y, 9)

    def forward(self, x):
        return self.last(self.first(x))


def test_a_width_is_not_guessed(data, translator):
    samples, to_x, _, _ = data
    for decoder in (Odd(), nn.Sequential(nn.Unflatten(1, (1, D_Y)), nn.Flatten(), nn.Linear(D_Y, 2))):
        assert rl.stitch(None, translator, decoder)(samples @ to_x).shape == (N, 2)


def test_parts_on_two_devices(data, translator):
    with pytest.raises(ValueError, match="The encoder is on cpu and the decoder is on meta: expected one device"):
        rl.stitch(nn.Linear(8, D_X), translator, nn.Linear(D_Y, 2, device="meta"))
    with pytest.raises(ValueError, match="vectors are on cpu and the Linear is on meta: expected one device"):
        rl.stitch(lambda s: torch.ones(2, D_X), translator, nn.Linear(D_Y, 2, device="meta"))(data[0])


@pytest.mark.parametrize(
    ("layer", "minds"),
    [(nn.Dropout(0.5), True), (nn.BatchNorm1d(D_X), True), (nn.LayerNorm(D_X), False), (nn.Tanh(), False)],
)
def test_training_mode_is_warned_of_where_it_matters(data, translator, head, layer, minds):
    samples = torch.from_numpy(data[0]).float()
    encoder = nn.Sequential(nn.Linear(8, D_X), layer)
    stitched = rl.stitch(encoder, translator, head)
    if not minds:
        stitched.predict(samples)
        rl.stitch(encoder, translator, nn.Linear(D_Y, 2))
        return
    with pytest.warns(UserWarning, match=r"The encoder is in training mode.*encoder\.eval\(\)"):
        stitched.predict(samples)
    with pytest.warns(UserWarning, match="The encoder is in training mode"):
        rl.stitch(encoder, translator, nn.Linear(D_Y, 2))
    encoder.eval()
    stitched.predict(samples)
    rl.stitch(encoder, translator, nn.Linear(D_Y, 2))
    with pytest.warns(UserWarning, match="The decoder is in training mode"):
        rl.stitch(encoder, translator, nn.Sequential(nn.Linear(D_Y, D_X), nn.Dropout()))


def test_labels_that_the_decoder_does_not_know(data, translator, head):
    samples, to_x, _, names = data
    model = rl.stitch(None, translator, head)
    strange = np.where(names == "warm", "hot", names)
    with pytest.raises(ValueError, match=rf"1 labels .* \('hot'\), in {np.sum(names == 'warm')} of 120 rows: it knows"):
        model.score(samples @ to_x, strange)
    with pytest.raises(ValueError, match="3 labels that the decoder does not know"):
        model.score(samples @ to_x, np.digitize(data[0][:, 0], [-0.4, 0.4]))


def test_parts_that_were_not_fitted(translator, head):
    for parts, says in (
        ((None, rl.Translator(), head), "The translator, a Translator, is not fitted yet"),
        ((None, rl.RelativeProjection(), head), "The translator, a RelativeProjection"),
        ((None, translator, LogisticRegression()), "The decoder, a LogisticRegression"),
        ((StandardScaler(), translator, head), "The encoder, a StandardScaler"),
    ):
        with pytest.raises(NotFittedError, match=says):
            rl.stitch(*parts)


def test_parts_in_another_order(data, translator, head):
    encoder = Encodes(data[1])
    right = (encoder, translator, head)
    rl.stitch(*right)
    for wrong in itertools.permutations(right):
        if wrong != right:
            with pytest.raises(TypeError, match=r"The order is stitch\(encoder, translator, decoder\)"):
                rl.stitch(*wrong)


def test_parts_that_cannot_play_their_role(data, translator, head):
    samples, to_x, to_y, _ = data
    hub = rl.Hub().fit({"x": samples @ to_x, "y": samples @ to_y})
    with pytest.raises(TypeError, match=r"The translator is a Hub.*partial\(hub\.translate"):
        rl.stitch(None, hub, head)
    with pytest.raises(TypeError, match="The decoder is the class LogisticRegression itself"):
        rl.stitch(None, translator, LogisticRegression)
    with pytest.raises(TypeError, match="The decoder is None"):
        rl.stitch(None, translator, None)
    with pytest.raises(TypeError, match="The translator is a str"):
        rl.stitch(None, "t.safetensors", head)
    ranking = rl.Translator("retrieval").fit(samples @ to_x, samples @ to_y)
    with pytest.raises(ValueError, match=r'goal="retrieval".*Fit Translator\("stitching"\)'):
        rl.stitch(None, ranking, head)


def test_a_space_is_read_if_it_is_the_source(data, head):
    samples, to_x, to_y, _ = data
    keys = list(range(N))
    x, y = (
        rl.Space(samples @ m, keys, name, rl.Fingerprint(m.shape[1], name)) for m, name in ((to_x, "x"), (to_y, "y"))
    )
    t = rl.Translator("stitching").fit(x, y)
    model = rl.stitch(None, t, head)
    np.testing.assert_array_equal(model.predict(x), model.predict(x.vectors))
    with pytest.raises(ValueError, match="model"):
        model.predict(rl.Space(samples @ to_x, keys, "z", rl.Fingerprint(D_X, "z")))


def test_repr_names_the_parts(translator, head):
    assert repr(rl.stitch(None, translator, head)) == (
        "StitchedModel(encoder=None, translator=Translator, decoder=LogisticRegression)"
    )
