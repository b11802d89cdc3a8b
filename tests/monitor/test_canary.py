import numpy as np
import pytest

import relatent as rl
from relatent.monitor import check_canary, make_canary

RNG = np.random.default_rng(11)
X = RNG.normal(size=(200, 16)).astype(np.float32)
KEYS = [f"k{i}" for i in range(200)]
TURN = np.linalg.qr(RNG.normal(size=(16, 16)))[0].astype(np.float32)


def space(vectors, model="m@1"):
    return rl.Space(vectors, KEYS[: len(vectors)], fingerprint=rl.Fingerprint(dim=vectors.shape[1], model=model))


@pytest.mark.parametrize(
    ("fresh", "model", "outcome"),
    [
        (X, "m@1", "same"),
        (X.astype(np.float16).astype(np.float32), "m@1", "same"),
        (X, "other-name", "renamed"),
        (3 * X, "m@1", "rescaled"),
        (X @ TURN, "m@1", "changed"),
        (X[:, ::-1], "m@1", "changed"),
        (np.where(np.arange(200)[:, None] == 7, -X, X), "m@1", "changed"),
        (X[:, :8], "m@1", "changed"),
    ],
)
def test_what_became_of_a_model(fresh, model, outcome):
    found = check_canary(space(X), space(fresh, model))
    assert found.outcome == outcome
    assert found.ok is (outcome in ("same", "renamed"))


def test_a_rotation_is_told_from_another_model():
    turned, other = (check_canary(space(X), space(v)).structure for v in (X @ TURN, RNG.normal(size=X.shape)))
    assert turned == pytest.approx(1, abs=1e-3)
    assert other < 0.5


def test_the_items_lie_far_apart_and_keep_their_columns(tmp_path):
    clustered = np.repeat(np.eye(16, dtype=np.float32), [185, *[1] * 15], axis=0)
    texts = {"text": [f"text {i}" for i in range(200)]}
    made = make_canary(rl.Space(clustered, KEYS, others=texts), tmp_path / "c.parquet", items=16)
    assert len(np.unique(made.vectors, axis=0)) == 16
    back = rl.read_space(tmp_path / "c.parquet")
    assert back.others.column("text")[0].as_py().startswith("text")
    assert check_canary(back, rl.Space(clustered, KEYS)).outcome == "same"


def test_missing_items_are_counted():
    assert check_canary(space(X), space(X[:150])).missing == 50


@pytest.mark.parametrize("items", [0, 201])
def test_no_items_and_too_many_are_refused(tmp_path, items):
    with pytest.raises(ValueError, match="from 1 to"):
        make_canary(space(X), tmp_path / "c.parquet", items=items)


def test_a_tolerance_that_means_nothing_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        check_canary(space(X), space(X), tolerance=2)


@pytest.mark.parametrize("items", [2, 200])
def test_vectors_that_are_not_finite_are_no_same_model(items):
    fresh = X[:items].copy()
    fresh[1, 3] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity in 1 of"):
        check_canary(space(X[:items]), space(fresh))
