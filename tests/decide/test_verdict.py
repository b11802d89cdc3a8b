"""What the verdict says of searches, and that its figures are those of the library."""

import json

import numpy as np
import pytest

from relatent.decide import Search, score_options, verdict_of
from relatent.evaluate import arr, bootstrap, gain_recovered

N = 400


@pytest.fixture
def spaces(rng, orthogonal):
    """A new space, and an old one that sees half of it."""
    new = rng.normal(size=(N, 16))
    old = new @ np.diag([1.0] * 8 + [0.0] * 8) @ orthogonal(16)
    return old, new


def neighbors_of(space):
    """Relevant to each item: the one that is nearest in a space."""
    near = score_options(*[Search(space, space)] * 3, own=np.arange(N))
    assert near.itself.all()
    unit = space / np.linalg.norm(space, axis=1, keepdims=True)
    return np.argmax(unit @ unit.T - 9 * np.eye(N), axis=1)


def verdict(old, translated, new, relevant, **options):
    """Documents are translated: the new model asks in an index of translated vectors."""
    scored = score_options(
        Search(old, old), Search(new, translated), Search(new, new), own=np.arange(N), relevant=relevant, candidates=40
    )
    return verdict_of(scored, **options)


def test_a_perfect_translation_goes(spaces):
    old, new = spaces
    found = verdict(old, new, new, neighbors_of(new))
    assert found.decision.recommended == "translate"
    assert found.break_even.low > 1
    for name in ("arr", "gain", "itself"):
        assert getattr(found, name).value == 1


def test_a_translation_that_is_clearly_worse_than_staying_does_not_go(rng):
    """A better new model and the old ranking spoiled a little by noise: better overlap, worse search, no GO."""
    truth = rng.normal(size=(N, 16))
    old, new = truth + 0.2 * rng.normal(size=truth.shape), truth + 0.19 * rng.normal(size=truth.shape)
    translated = old + 0.25 * rng.normal(size=truth.shape)
    found = verdict(old, translated, new, neighbors_of(truth))
    assert found.changes["translate"]["ndcg"].high < 0
    assert found.break_even.high < 1
    assert found.decision.recommended != "translate"
    assert any("not translate" in r and "clearly worse" in r for r in found.decision.reasons)


def test_noise_is_of_no_use(spaces, rng):
    old, new = spaces
    found = verdict(old, rng.normal(size=new.shape), new, neighbors_of(old))
    assert (found.decision.verdict, found.decision.recommended) == ("NO-GO", "stay")
    assert found["translate"]["recall"].value < 0.1


def test_reranking_fixes_what_translation_blurs(spaces, rng):
    old, new = spaces
    blurred = new + 1.2 * rng.normal(size=new.shape)
    for sees, recommended in ((old, "rerank-old"), (rng.normal(size=old.shape), "rerank")):
        found = verdict(sees, blurred, new, neighbors_of(new))
        assert found.decision.recommended == recommended
        assert found["stay"]["ndcg"].value < found[recommended]["ndcg"].low


def test_arr_gain_and_break_even_are_those_of_the_library(spaces, rng):
    old, new = spaces
    found = verdict(old, new + 0.3 * rng.normal(size=new.shape), new, neighbors_of(new))
    columns = {option: scores[:, 2] for option, scores in found.scores.by_option.items()}
    assert found.gain == gain_recovered(columns["translate"], columns["stay"], columns["re-embed"])
    stay, new_score = columns["stay"].mean(), columns["re-embed"].mean()
    assert found.break_even.value == pytest.approx(found.arr.value * new_score / stay)
    assert found.break_even.value == pytest.approx(columns["translate"].mean() / stay)
    assert f"{found.arr.value:.3f} × {new_score / stay:.3f} = {found.break_even.value:.3f}" in str(found)
    judged = {"k": found.scores.k + 1, "relevant": neighbors_of(new)}
    assert arr(new, new, new, new, measure="ndcg", **judged).value == 1
    unjudged = verdict(old, new, new, None)
    assert unjudged.arr.value == arr(new, new, new, new, k=11).value


def test_changes_are_paired(spaces, rng):
    """The interval of the difference of the same queries is narrower than that of two sets of queries."""
    old, new = spaces
    found = verdict(old, old + 0.05 * rng.normal(size=old.shape), old, neighbors_of(new))
    change, scores = found.changes["translate"]["ndcg"], found.scores.by_option
    alone = bootstrap(scores["translate"][:, 2] - scores["stay"][:, 2])
    assert [change.value, change.low, change.high] == pytest.approx([alone.value, alone.low, alone.high])
    apart = [found[option]["ndcg"] for option in ("translate", "stay")]
    assert change.high - change.low < 0.8 * min(e.high - e.low for e in apart)


def test_without_relevant_items_there_is_no_verdict(spaces, rng):
    old, new = spaces
    found = verdict(old, new + 0.3 * rng.normal(size=new.shape), new, None)
    assert found.decision.verdict == "no verdict"
    assert found["stay"]["overlap"].value < found["translate"]["overlap"].value < 1
    said = str(found)
    for words in (
        "stay (old model, old index)",
        "overlap@10",
        "self-retrieval@1 of the translated search",
        "\nno verdict.\n",
    ):
        assert words in said
    assert "break-even" not in said


def test_untranslated_is_shown_where_it_can_be(spaces):
    old, new = spaces
    three = Search(old, old), Search(new, new), Search(new, new)
    scored = score_options(*three, untranslated=Search(new, old), own=np.arange(N))
    assert verdict_of(scored)["untranslated"]["overlap"].value < 0.1
    assert "dimensions differ" not in str(verdict_of(scored))
    assert "dimensions differ" in str(verdict_of(score_options(*three, own=np.arange(N))))


def test_reranking_much_of_the_items_is_told(spaces):
    _, new = spaces
    same = Search(new, new)
    assert "candidates are 50% of the items" in str(verdict_of(score_options(same, same, same, candidates=200)))
    assert "candidates are" not in str(verdict_of(score_options(same, same, same, candidates=20)))


def test_slices_have_a_line_each(spaces):
    old, new = spaces
    found = verdict(old, new, new, neighbors_of(new), slices=["even", "odd"] * 200)
    assert {line.slice for line in found["stay"]} == {"all", "even", "odd"}
    assert "nDCG@10 of slice" in str(found)


def test_it_is_a_data_frame_html_and_json(spaces):
    old, new = spaces
    found = verdict(old, new, new, neighbors_of(new))
    frame = found.to_pandas()
    assert set(frame["option"]) == {"stay", "translate", "rerank-old", "rerank", "re-embed"}
    row = frame[(frame["option"] == "translate") & (frame["measure"] == "ndcg")].iloc[0]
    assert row["change"] == found.changes["translate"]["ndcg"].value
    assert found._repr_html_().count("<tr>") == 1 + len(frame)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (plain["verdict"], plain["recommended"], plain["queries"]) == ("GO", "translate", N)
    nothing = json.loads(json.dumps(verdict(old, old, old, neighbors_of(old)).to_dict(), allow_nan=False))
    assert nothing["gain"]["value"] is None  # there was no step to recover
    with pytest.raises(KeyError, match=r"'new' is no option here\. There are: stay, translate"):
        found["new"]
