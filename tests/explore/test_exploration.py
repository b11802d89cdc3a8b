import base64

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from scipy.spatial.distance import cdist

import relatent as rl
from relatent.explore import Exploration, Scene
from relatent.explore.exploration import GIVEN, packed


def unpacked(text, shape=(-1,), dtype="<f4"):
    return np.frombuffer(base64.b64decode(text), dtype=dtype).reshape(shape)


@pytest.fixture(scope="module")
def exploration(two):
    return Exploration.of(two)


@pytest.fixture(scope="module")
def own(exploration):
    view = exploration.view("own", 40)
    return [{end: unpacked(text, (-1, 2)) for end, text in panel.items()} for panel in view["panels"]]


def test_numbers_are_packed_as_a_browser_reads_them():
    np.testing.assert_array_equal(unpacked(packed(np.asarray([[1.5, -2.0]]))), [1.5, -2.0])
    assert base64.b64decode(packed(np.asarray([1]), "<u4")) == b"\x01\0\0\0"


def test_a_rotated_space_looks_alike_but_for_the_signs_of_its_axes(own):
    """Principal axes turn with the space: the picture of 2·x·Q + 5 is that of x, perhaps mirrored."""
    old, new = own[0]["start"], own[1]["start"]
    signs = np.sign(np.sum(old * new, axis=0))
    np.testing.assert_allclose(old * signs, new, atol=1e-3)


def test_translated_points_lie_where_the_target_puts_them(own):
    np.testing.assert_allclose(own[0]["end"], own[1]["end"], atol=1e-2)
    np.testing.assert_array_equal(own[1]["start"], own[1]["end"])  # the target stays


def test_the_axes_of_the_target_mean_nothing_before_translation(exploration):
    panels = exploration.view("shared", 40)["panels"]
    start, end, target = (unpacked(t, (-1, 2)) for t in (panels[0]["start"], panels[0]["end"], panels[1]["end"]))
    np.testing.assert_allclose(end, target, atol=1e-2)
    turn, _ = orthogonal_procrustes(start, target)
    assert np.linalg.norm(start @ turn - target) > 0.3 * np.linalg.norm(target)


def test_relative_coordinates_agree_without_a_translator(exploration):
    """Cosines to centered anchors are unchanged by a rotation, a scale and an offset."""
    panels = exploration.view("relative", 40)["panels"]
    np.testing.assert_allclose(*(unpacked(panel["end"]) for panel in panels), atol=1e-2)


@pytest.mark.parametrize("name", ["own", "shared", "relative", pytest.param("tsne", marks=pytest.mark.slow)])
def test_every_layout_places_every_item(exploration, name):
    for panel in exploration.view(name, 20)["panels"]:
        for end in ("start", "end"):
            places = unpacked(panel[end], (-1, 2))
            assert len(places) == 120
            assert np.isfinite(places).all()
            assert np.mean(np.abs(places) <= 1) > 0.8


def test_layouts_that_cannot_be_had_say_why(spaces, monkeypatch):
    exploration = Exploration.of(spaces)
    said = {layout["name"]: layout["missing"] for layout in exploration.about()["layouts"]}
    assert "wide has 12" in said["shared"]
    with pytest.raises(ValueError, match="'shared' cannot be drawn: old has 8, wide has 12, new has 8 coordinates"):
        exploration.view("shared", 20)
    monkeypatch.setattr("relatent.explore.exploration.TSNE_ITEMS", 100)
    with pytest.raises(ValueError, match="more than 100 items takes minutes"):
        exploration.view("tsne", 20)
    with pytest.raises(ValueError, match="no layout 'ow'"):
        exploration.view("ow", 20)


def test_errors_are_cosine_distances(exploration):
    scene, fit = exploration.scene, exploration.fit(20)
    expected = np.diag(cdist(fit.translated["old"], scene.vectors["new"], "cosine"))
    np.testing.assert_allclose(fit.error["old"], expected, atol=1e-5)
    np.testing.assert_array_equal(unpacked(exploration.view("own", 20)["errors"][0]), fit.error["old"])


def test_neighbors_are_those_of_brute_force(exploration):
    scene, fit = exploration.scene, exploration.fit(20)
    found = exploration.neighbors(7, 20)
    old, new = scene.vectors["old"], scene.vectors["new"]
    pairs = {"before 0": (old, old), "after 0": (fit.translated["old"], new), "target": (new, new)}
    assert set(found) == set(pairs)
    for name, (queries, gallery) in pairs.items():
        distances = cdist(queries[7:8], gallery, "cosine")[0]
        distances[7] = np.inf
        np.testing.assert_allclose(distances[found[name]], np.sort(distances)[:10], atol=1e-5)
        assert 7 not in found[name]


def test_more_anchors_translate_better(spaces):
    """The related space is not a rotation of the target: a handful of anchors cannot tell its map."""
    exploration = Exploration.of(spaces)
    few, many = (exploration.fit(k).score["wide"] for k in (5, 60))
    assert many.cosine > few.cosine
    assert many.after > few.after


def test_scores_are_on_items_that_were_not_fitted_on(two):
    """Targets of the anchors alone follow the sources: whatever was fitted must fail elsewhere."""
    scene = Scene.of(two)
    target = np.random.default_rng(1).normal(size=scene.vectors["new"].shape).astype(np.float32)
    target[scene.anchors] = scene.vectors["new"][scene.anchors]
    made_up = Scene({"old": scene.vectors["old"], "new": target}, scene.keys, None, None, scene.anchors, 120)
    assert Exploration(made_up).fit(60).score["old"].cosine < 0.5
    assert Exploration(scene).fit(60).score["old"].cosine > 0.99


def test_a_given_translator_is_shown_and_can_be_left(two):
    t = rl.Translator(map="affine", normalize="center").fit(two[0][:30], two[1])
    exploration = Exploration.of(two, t)
    assert exploration.start_k == GIVEN
    fit = exploration.fit(GIVEN)
    assert {exploration.scene.keys[row] for row in fit.anchors} == {f"item {i}" for i in range(30)}
    np.testing.assert_allclose(
        fit.translated["old"], t.transform(exploration.scene.vectors["old"]), rtol=1e-4, atol=1e-4
    )
    assert exploration.model.map == "affine"
    assert len(exploration.fit(10).anchors) == 10


@pytest.mark.parametrize("k", [1, 61])
def test_numbers_of_anchors_have_limits(exploration, k):
    with pytest.raises(ValueError, match="expected 2 to 60"):
        exploration.fit(k)
    with pytest.raises(ValueError, match="No translator was given"):
        exploration.fit(GIVEN)


def test_translators_that_do_not_fit_are_refused(two, spaces):
    with pytest.raises(ValueError, match="into a shared space"):
        Exploration.of(two, rl.Translator(goal="retrieval").fit(*two))
    t = rl.Translator(map="affine").fit(*two)
    known = [rl.Fingerprint(dim=8, model=f"acme/{name}") for name in ("old", "new")]
    named = [rl.Space(s.vectors, s.keys, s.name, known[i]) for i, s in enumerate(two)]
    with pytest.raises(ValueError, match="not the source"):
        Exploration.of(named[::-1], rl.Translator(map="affine").fit(*named))
    with pytest.raises(ValueError, match="expected a Translator"):
        Exploration.of(two, rl.RelativeTranslator().fit(two[0].vectors, two[1].by_keys(two[0].keys).vectors))
    with pytest.raises(ValueError, match="maps 8 to 8 coordinates, and wide has 12"):
        Exploration(Scene.of(spaces[1:]), t)
