import numpy as np
import pytest

import relatent as rl
from relatent.explore import Scene
from relatent.spaces import key_hashes


def test_rows_mean_the_same_in_every_space(spaces):
    scene = Scene.of(spaces)
    assert scene.sources == ["old", "wide"]
    assert scene.target == "new"
    for space in spaces:
        np.testing.assert_array_equal(scene.vectors[space.name], space.by_keys(scene.keys).vectors)


def test_labels_come_from_whichever_space_has_them(two):
    scene = Scene.of(two[::-1])
    by_key = dict(zip(two[0].keys, two[0].others["label"].to_pylist(), strict=True))
    assert scene.label_name == "label"
    assert scene.labels == [by_key[key] for key in scene.keys]
    assert Scene.of([two[1], two[1]]).labels is None
    with pytest.raises(ValueError, match=r"no column 'labl' to color by.*'label'"):
        Scene.of(two, label="labl")


def test_a_sample_is_seeded_and_keeps_anchors(two):
    seen = key_hashes([f"item {i}" for i in range(0, 40)])
    scene, again, other = (Scene.of(two, seen_keys=seen, points=60, seed=seed) for seed in (3, 3, 4))
    assert scene.keys == again.keys != other.keys
    assert len(scene) == 60
    assert scene.total == 120
    anchors = {scene.keys[row] for row in scene.anchors}
    assert len(anchors) == 30  # half of the points
    assert anchors <= {f"item {i}" for i in range(0, 40)}
    assert all(not np.isin(key_hashes([scene.keys[row]]), seen) for row in scene.held_out)


@pytest.mark.parametrize(("points", "seen", "anchors"), [(60, 10, 10), (60, 110, 50), (60, 120, 60)])
def test_a_sample_is_full_whatever_was_fitted_on(two, points, seen, anchors):
    scene = Scene.of(two, seen_keys=key_hashes([f"item {i}" for i in range(seen)]), points=points)
    assert (len(scene), len(scene.anchors)) == (points, anchors)
    assert len(scene.held_out)


def test_more_anchors_are_those_before_and_new_ones(two):
    scene = Scene.of(two)
    assert len(scene.anchors) == len(set(scene.anchors.tolist())) == 60
    assert len(np.intersect1d(scene.anchors, scene.held_out)) == 0


def test_spaces_of_the_same_name_are_told_apart(two):
    assert list(Scene.of([two[0], two[0]]).vectors) == ["old", "old (2)"]


def test_what_cannot_be_shown_is_refused(two):
    with pytest.raises(ValueError, match="1 spaces were given: expected 2 to 6"):
        Scene.of(two[:1])
    with pytest.raises(ValueError, match="share 5 items: expected at least 10"):
        Scene.of([two[0][:5], two[0][:5]])
    with pytest.raises(ValueError, match="No key is in both spaces"):
        Scene.of([two[0], rl.Space(np.eye(10), [f"other {i}" for i in range(10)])])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_vectors_that_have_no_place_are_refused(two, value):
    vectors = two[0].vectors.astype(np.float64)
    vectors[3, 1] = value
    with pytest.raises(ValueError, match="vectors of broken hold NaN, infinity, or numbers beyond float32"):
        Scene.of([rl.Space(vectors, two[0].keys, "broken"), two[1]])
