"""Which side of a translator a store holds: told by its vectors alone, on data that the translator has not seen."""

import numpy as np
import pytest
from tests.migrate.steps import ROWS
from tests.spaces.networks import encode, mixed
from tests.stores.case import Items

import relatent as rl
from relatent.migrate.side import check_fingerprint, stored_side
from relatent.stores import StoreError, open_store
from relatent.translate.endpoints import SpaceMismatchError

OLD, NEW, UNRELATED = 0, 1, 2


@pytest.fixture
def store(light, tmp_path):
    def opened(vectors):
        items = Items(light.items.keys, np.asarray(vectors, dtype=np.float32), light.items.payload)
        folder = tmp_path / "store"
        folder.mkdir()
        return open_store(light.case.create(folder, items))

    return opened


def side_of(goal, source, target):
    return stored_side(rl.Translator(goal).fit(encode(source, 0, 800), encode(target, 0, 800)))


@pytest.mark.parametrize(
    ("goal", "source", "target"), [("vectors", OLD, NEW), ("retrieval", NEW, OLD)], ids=["vectors", "retrieval"]
)
@pytest.mark.parametrize("corpus", [0, 3])
def test_a_translator_that_was_fitted_the_other_way_round_is_refused(store, goal, source, target, corpus):
    with store(encode(OLD, corpus, ROWS, 5)) as held:
        check_fingerprint(side_of(goal, source, target), held)
        with pytest.raises(StoreError, match="holds the target" if goal == "vectors" else "holds the source"):
            check_fingerprint(side_of(goal, target, source), held)


@pytest.mark.parametrize(
    "vectors",
    [
        encode(UNRELATED, 3, ROWS, 5),
        mixed(encode(OLD, 3, ROWS, 5), encode(UNRELATED, 3, ROWS, 5), 0.2),
        3 * encode(OLD, 3, ROWS, 5),
        encode(OLD, 3, ROWS, 5) - encode(OLD, 3, ROWS, 5).mean(axis=0),
    ],
    ids=["another model", "80/20", "times 3", "centered"],
)
def test_a_migration_stops_unless_it_is_accepted(store, vectors):
    with store(vectors) as held:
        with pytest.raises(SpaceMismatchError, match="accept=True"):
            check_fingerprint(side_of("vectors", OLD, NEW), held)
        check_fingerprint(side_of("vectors", OLD, NEW), held, accept=True)


def test_rows_of_another_model_are_refused_while_they_are_copied(store):
    with store(encode(OLD, 3, ROWS, 5)) as held:
        check = check_fingerprint(side_of("vectors", OLD, NEW), held)
        check(encode(OLD, 2, 300, 5))
        with pytest.raises(SpaceMismatchError, match=r"with keys 0 to 299 of .* are not of the source"):
            check(encode(UNRELATED, 2, 300, 5), range(300))


def test_the_items_of_a_canary_decide(task):
    """The right model passes, whatever its fingerprint says; another one is refused, and so are items of others."""
    kept = task.items.vectors[:5].copy()
    right = rl.Space(kept, task.items.keys[:5])
    with open_store(task.url) as store:
        side = stored_side(rl.load(task.translator))
        assert check_fingerprint(side, store, canary=right) is None
        with pytest.raises(StoreError, match="does not hold the vectors of the canary: changed"):
            check_fingerprint(side, store, canary=rl.Space(kept[::-1].copy(), task.items.keys[:5]))
        with pytest.raises(StoreError, match="has none of the canary's items"):
            check_fingerprint(side, store, canary=rl.Space(kept, [task.case.key(ROWS + i) for i in range(5)]))


@pytest.mark.parametrize("width", [6, 9])
def test_the_way_back_is_least_squares_of_least_norm(width):
    """The same as NumPy's, also where new vectors fill fewer dimensions than they have."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 6)).astype(np.float32)
    side = stored_side(rl.Translator(map="affine").fit(x, x @ rng.normal(size=(6, width)).astype(np.float32) + 1))
    y = side(x).astype(np.float64)
    (step,) = side.back(x)
    expected = np.linalg.lstsq(y - y.mean(axis=0), x - x.mean(axis=0), rcond=1e-6)[0]
    np.testing.assert_allclose(step.arrays["matrix"], expected, atol=1e-5)
    np.testing.assert_allclose(y @ step.arrays["matrix"] + step.arrays["offset"], x, atol=1e-4)
