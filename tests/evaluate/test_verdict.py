"""The verdict on a migration: what it must say of a perfect, a useless and a harmful translation."""

import json

import numpy as np
import pytest

from relatent.evaluate import Rule, Search, arr, gain_recovered, migration


@pytest.fixture
def spaces(rng, orthogonal):
    """A new space, and an old one that sees half of it."""
    new = rng.normal(size=(400, 16))
    old = new @ np.diag([1.0] * 8 + [0.0] * 8) @ orthogonal(16)
    return old, new


def judged(old, translated, new, own=True, **options):
    rows = np.arange(len(new)) if own else None
    return migration(Search(old, old), Search(new, translated), Search(new, new), own=rows, **options)


def test_a_perfect_translation_goes(spaces):
    old, new = spaces
    verdict = judged(old, new, new)
    assert verdict.go
    assert verdict.report["arr"].value == 1
    assert verdict.report["gain"].value == 1
    assert verdict.report["itself"].value == 1


def test_noise_does_not_go(spaces, rng):
    old, new = spaces
    verdict = judged(old, rng.normal(size=new.shape), new)
    assert not verdict.go
    assert verdict.report["translated"].value < 0.1
    assert verdict.report["gain"].value < 0
    assert verdict.report["above_old"].high < 0


def test_arr_and_gain_are_those_of_the_library(spaces, rng):
    old, new = spaces
    translated = new + 0.3 * rng.normal(size=new.shape)
    verdict = judged(old, translated, new, own=False)
    assert verdict.report["arr"].value == pytest.approx(arr(new, translated, new, new).value)
    scores = {name: verdict.report[name].value for name in ("translated", "old", "new")}
    assert verdict.report["gain"].value == pytest.approx(gain_recovered(*([v] for v in scores.values())).value)


def test_a_query_does_not_count_as_its_own_neighbour(spaces):
    _, new = spaces
    for translated, itself in ((new, 1), (-new, 0)):
        verdict = judged(new, translated, new, relevant=[[(i + 1) % 400] for i in range(400)])
        assert verdict.report["itself"].value == itself
    counted = judged(new, new, new, relevant=[[i] for i in range(400)])
    assert counted.report["translated"].value == 0


def test_given_relevance_sets_the_ceiling(spaces):
    old, new = spaces
    verdict = judged(old, new, new, relevant=[[(i + 1) % 400, (i + 2) % 400] for i in range(400)], relevance="mine")
    assert verdict.report["new"].value < 0.2
    assert verdict.report["arr"].value == 1
    assert verdict.relevance == "mine"


def test_one_bad_slice_stops_it_and_a_small_one_does_not(spaces, rng):
    _, new = spaces
    broken = new.copy()
    broken[:60] = rng.normal(size=(60, 16))
    for rows, go in ((60, False), (30, True)):
        slices = np.where(np.arange(400) < rows, "broken", "fine")
        translated = np.where((slices == "broken")[:, None], broken, new)
        verdict = migration(
            Search(new, new),
            Search(translated, new),
            Search(new, new),
            own=np.arange(400),
            slices=slices,
            rule=Rule(arr=0.5),
        )
        named = any("broken" in reason for reason in verdict.reasons)
        assert (verdict.go or not named) is go
        assert "broken" in str(verdict)


def test_few_queries_cannot_tell(rng):
    new = rng.normal(size=(60, 8))
    verdict = judged(new, new, new)
    assert not verdict.go
    assert "only 60 queries" in verdict.reasons[0]


def test_untranslated_is_shown_where_it_can_be(spaces):
    old, new = spaces
    here = migration(
        Search(old, old), Search(new, new), Search(new, new), untranslated=Search(new, old), own=np.arange(400)
    )
    assert here.report["untranslated"].value < 0.1
    assert "dimensions differ" not in str(here)
    assert "dimensions differ" in str(judged(old, new, new))


def test_what_is_not_defined_is_null_in_json(spaces):
    _, new = spaces
    measures = json.loads(json.dumps(judged(new, new, new).to_dict(), allow_nan=False))["measures"]
    assert {m["measure"]: m["value"] for m in measures}["gain"] is None


def test_too_few_items(rng):
    new = rng.normal(size=(11, 4))
    with pytest.raises(ValueError, match="neighbours were asked for among 11"):
        judged(new, new, new)
