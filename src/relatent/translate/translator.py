"""The translator: fitted on parallel anchors, applied as one affine map, or a kernel map where that is closer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from relatent._array import Array, as_matrix, as_parallel, as_rows, like, to_numpy
from relatent._estimator import all_or_nothing
from relatent._linalg import pseudo_inverse
from relatent._saved import Saved, read_saved, understood, write_saved
from relatent.spaces.space import Space
from relatent.translate.directions import Directions
from relatent.translate.endpoints import Side, check_side
from relatent.translate.goals import (
    GoalName,
    Judge,
    MaxCost,
    Metric,
    Solution,
    check_settings,
    refuse,
)
from relatent.translate.learning import Learner
from relatent.translate.likelihood import BANK_SIZE, BankRows
from relatent.translate.overview import fitted_of
from relatent.translate.pairs import SAMPLE_SIZE, Pairs

if TYPE_CHECKING:
    from relatent.engines import Engine
    from relatent.translate.confidence import Confidence
    from relatent.translate.files import BatchTranslator
    from relatent.translate.overview import Overview
    from relatent.translate.quality import Quality

# Parameters of files from before they were arguments of ``fit``.
FORMER = ("bank_size", "sample_size")


def _has_inverse(translator: Translator) -> bool:
    if not hasattr(translator, "map_") or translator.target_map_ is not None:
        return False
    return translator.map_.features is None and translator.map_.lengths is None


class Translator(Directions, Learner):
    r"""Translate vectors of one space into another, from parallel anchors.

    Parameters
    ----------
    goal : "vectors", "index", "retrieval" or "stitching"
        What the translation is for. "vectors" comes closest to the target's own vectors. "index" rewrites documents
        once, to be searched by queries of the target's model as they are: what a migration does. "retrieval" ranks
        best: compare ``t.transform(queries)`` with ``t.transform_target(index)`` by inner product. "stitching" feeds
        a head that was trained on the target.
    map : "auto" or the name of a map
        "auto" is the best known for the goal (``relatent.translate.goals``); otherwise a rule of
        ``relatent.translate.maps``. The papers' settings are ``map="orthogonal", normalize="standard"`` and so on.
    normalize : name
        Preparation of both sides (:class:`relatent.Normalizer`), fitted on the anchors and undone on the target side.
        With ``goal="retrieval"``, "iso" also tries others. Unit rows are summed over the sample.
    penalty : float or None
        Ridge penalty in units of the mean eigenvalue, for the maps that take one; None chooses it. With ``"auto"``,
        a penalty also asks for a linear ridge, without a kernel.
    rank : int or None
        Rank of ``map="low_rank"``.
    frozen_target : bool
        For retrieval when the index cannot be touched: translates queries into the target's own space, by the map
        that ranks held-out anchors best under the cosine. ``transform_target`` then changes nothing.
    max_cost : None or "affine"
        "affine" forbids maps that cost more than one matrix product: "vectors", "index" and "stitching" then leave
        out the kernel, which compares each row with up to 3,000 anchors and keeps these (see :meth:`save`), and
        "index" leaves the lengths of rows as the matrix makes them. None takes a kernel only where it is clearly
        better by what the goal is for.
    blocks : None, int or list of (source, target) widths
        Fit one map per block of coordinates, such as the heads of an attention layer: a number of blocks of equal
        width, or their widths in order. The matrix is zero between them. For ``goal="vectors"`` and named maps; always
        affine.
        Of several sources, a block has its share of each.

    Attributes
    ----------
    matrix_, offset_ : the affine map, normalizations folded in; of a kernel map, what its features are multiplied by
    metric_ : "cosine" or "inner", what translated pairs are compared by
    selection_ : what "auto" chose, by which criterion, and the runner-up
    pairs_ : what it was fitted on (:class:`relatent.Pairs`); a loaded translator has none
    fit_report_ : what two spaces were joined on, and what was held out; None for arrays
    sources_ : widths and penalties of several sources (``relatent.translate.sources``); None of one
    seen_keys_ : hashes of the keys fitted on (:func:`relatent.spaces.key_hashes`); empty for arrays
    n_pairs_, n_features_in_

    References: Maiorca et al., NeurIPS 2023 (latent space translation).

    >>> rng = np.random.default_rng(0)
    >>> x, q = rng.normal(size=(100, 4)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    >>> t = Translator(map="orthogonal").fit(x, 3 * x @ q + 1)
    >>> bool(np.allclose(t.transform(x), 3 * x @ q + 1))
    True
    >>> t
    Translator(orthogonal, 4 → 4, 100 pairs, iso)
    """

    kind: ClassVar[str] = "translator"

    def __init__(
        self,
        goal: GoalName = "vectors",
        map: str = "auto",
        normalize: str = "iso",
        *,
        penalty: float | None = None,
        rank: int | None = None,
        frozen_target: bool = False,
        max_cost: MaxCost | None = None,
        blocks: int | Sequence[Sequence[int]] | None = None,
        seed: int = 0,
    ) -> None:
        self.goal = goal
        self.map = map
        self.normalize = normalize
        self.penalty = penalty
        self.rank = rank
        self.frozen_target = frozen_target
        self.max_cost = max_cost
        self.blocks = blocks
        self.seed = seed

    @all_or_nothing
    def fit(
        self,
        X: Array | Space | Pairs | Sequence[Array] | Sequence[Space],
        y: Array | Space | None = None,
        sample_weight: Array | None = None,
        *,
        queries: Any = None,
        relevant: Any = None,
        bank: Array | Space | None = None,
        unlabeled: tuple[Array | Space | None, Array | Space | None] | None = None,
        index: Array | Space | None = None,
        head: Any = None,
        labels: Array | None = None,
        held_out: float = 0.0,
        max_pairs: int | None = None,
        anchors: Sequence[Any] | None = None,
        force: bool = False,
        engine: Engine | None = None,
        sample_size: int = SAMPLE_SIZE,
        bank_size: int = BANK_SIZE,
        progress: bool | None = None,
    ) -> Self:
        """Learn from parallel anchors: row i of X and row i of y, the target's vectors, mean the same.

        Instead of arrays, X may be :class:`relatent.Pairs` that were summed up elsewhere, or X and y two spaces
        (:class:`relatent.Space`). Spaces are joined on their keys and streamed. Their fingerprints and the keys that
        were used are remembered, and ``fit_report_`` tells what was joined. Pairs of spaces that show no relation are
        refused, unless ``force``; for arrays a warning is issued. A warning also names pairs that look mismatched, if
        about 5 % or more of a sample do (:func:`relatent.audit` finds them all).

        Several sources of one target (layers, heads, views, models) are given as a list of arrays or of spaces, and
        are one source from then on, side by side: ``transform`` takes the list, or its arrays concatenated. Where the
        map is a ridge or chosen by the goal, each source has a penalty of its own
        (``relatent.translate.source_penalties``), which ``sources_`` tells. What else is of the source, such as
        ``bank``, is given concatenated.

        Two data frames with the same labels in their index are paired by these labels, in whichever order; equal
        indexes are paired row by row, and other labels are refused. If fitting fails, a translator that was fitted
        before stays as it was.

        For two spaces: ``held_out`` is the share of keys that is not fitted on. It follows from the keys alone
        (:func:`relatent.spaces.held_out`), so it is the same in every run, file and order. ``max_pairs`` (a million)
        limits how many keys are used, drawn by their hashes. ``anchors`` are keys to fit on, instead of all but those
        held out. An ``engine`` (:mod:`relatent.engines`) sums up several shards at a time.

        For ``goal="stitching"``: the ``head`` that will read the translated vectors (fitted, with ``predict``, or a
        function of NumPy rows that returns classes, scores per class, or numbers) and the anchors' ``labels`` decide
        how the map is blended, by what the head reads right in held-out anchors. Either is enough. Neither is kept.

        For ``goal="index"``: ``queries`` are vectors of past queries under the target's model. Their mean shows what
        queries have in common, by which no document should win. Where it is known what they should find,
        ``relevant`` gives the rows of X for each (:func:`relatent.evaluate.retrieval_report`), of two spaces judged
        pairs of keys (:func:`relatent.decide.read_relevance`), and a kernel is chosen by that. With
        ``frozen_target=True``, ``queries`` are a pair (source vectors, target vectors) of the same queries: a model
        that embeds queries differently from documents then gets an offset of its own for them.

        For ``goal="retrieval"``: ``bank`` are source vectors, such as past queries, of which no target is known. They
        show which items of an index are hubs (:class:`relatent.steps.Bank`); without them, the anchors do. The map and
        its file keep at most ``bank_size`` of them, only where that ranks held-out anchors better; 0 keeps none.
        ``unlabeled`` are rows of the source and rows of the target of which no pair is known, either of them None, and
        ``index`` are the target's own, the whole index or a sample. Their means say where the spaces are centered,
        held-out anchors are ranked among those of the target, and those of the source are the bank, if no other is
        given. Of these only the bank is kept.

        ``sample_size`` pairs are kept for what cannot be chosen from sums, a sample that does not depend on chunks or
        their order. Arrays of up to four times as many rows are kept alive instead of copying out of them.
        """
        self._forget()
        X, y = self._one_source(X, y)
        self.bank_ = BankRows(None, bank_size, self.seed)
        check_settings(self.goal, self._settings, self.frozen_target)
        judge = Judge.of(head, labels, X, blends=self.goal == "stitching" and self.map == "auto")
        self._take_beside(X, y, bank, unlabeled, index)
        joining = {"held_out": held_out or None, "max_pairs": max_pairs, "anchors": anchors, "engine": engine}
        if isinstance(X, Space) and isinstance(y, Space):
            from relatent.translate.joined import joined_queries

            refuse("for two spaces, whose rows are joined on keys first", sample_weight=sample_weight, labels=labels)
            joining |= {"force": force, "progress": progress}
            return self._join(X, y, sample_size, joining, (judge, *joined_queries(queries, relevant)))
        refuse("without two spaces, which it is for", **joining)
        if isinstance(X, Pairs):
            refuse("beside pairs, which it cannot be told of", y=y, sample_weight=sample_weight, labels=labels)
            self._take_pairs(X)._solve(judge, queries, relevant)
        else:
            self._take(X, y, sample_weight, size=sample_size, copy=False)._solve(judge, queries, relevant)
        if not force:
            self._warn_unrelated()
            self._warn_mismatched("row")
        return self

    @all_or_nothing
    def partial_fit(
        self, X: Array | Space | Sequence[Array] | Sequence[Space], y: Array | Space, sample_weight: Array | None = None
    ) -> Self:
        """Learn from one more chunk of parallel anchors; the translator is ready after each.

        To solve only once, sum the chunks up (:class:`relatent.Pairs`) and give the sum to :meth:`fit`.
        """
        check_settings(self.goal, self._settings, self.frozen_target)
        return self._take(X, y, sample_weight, size=SAMPLE_SIZE, copy=True)._solve()

    def transform(self, X: Array | Space | Sequence[Array] | Sequence[Space]) -> Array | Space:
        """Translate vectors of the source, or of several. A space gives a space, if it is the source's by fingerprint.

        Some rows of an array of 20 or more are checked, and a warning is issued if they look like another space's.
        """
        X, _ = self._one_source(X)
        if isinstance(X, Space):
            return self._translated(X, "source")
        return self._mapped(X)

    def _mapped(self, X: Array) -> Array:
        """Translate rows, as an array whatever ``set_output`` says."""
        x = self._checked(X)
        if isinstance(x, np.ndarray):
            self.endpoints_.check_array(x)
        return self.map_(x)

    def query(self, vector: Array) -> Array:
        """Translate one vector, 1-D in and 1-D out: what :meth:`transform` gives for it, at the cost of the product.

        >>> x = np.random.default_rng(0).normal(size=(100, 4))
        >>> t = Translator(map="affine").fit(x, 2 * x + 1)
        >>> bool(np.allclose(t.query(x[0]), 2 * x[0] + 1))
        True
        """
        self._check_fitted()
        fitting = type(vector) is np.ndarray and vector.shape == (self.n_features_in_,)
        # What is not ready takes the long way, which converts it or reports what is wrong with it.
        if fitting and vector.dtype == self.map_.matrix.dtype and isfinite(vector.dot(vector)):
            return self.map_.one(vector)
        row = vector if hasattr(vector, "ndim") else np.asarray(vector)
        if row.ndim != 1:
            raise ValueError(f"vector has shape {tuple(row.shape)}: expected 1-D, one vector. Give rows to transform.")
        return self._mapped(row[None, :])[0]

    def transform_target(self, Y: Array | Space) -> Array | Space:
        """Prepare vectors of the target for comparison; changes them only if the goal is retrieval."""
        if isinstance(Y, Space):
            return self._translated(Y, "target")
        y = as_matrix(Y, "Y")
        self._check_fitted()
        if self.target_map_ is None:
            return y
        if y.shape[1] != self.target_map_.dims_in:
            raise ValueError(
                f"Y has shape {tuple(y.shape)}: expected {self.target_map_.dims_in} columns, as when fitted."
            )
        return self.target_map_(y)

    def batch_udf(
        self, column: str = "embedding", into: str = "embedding_new", *, side: Side = "source", replace: bool = False
    ) -> BatchTranslator:
        """Return the translation as a function on Arrow batches, for an engine to run wherever the rows are.

        It takes a record batch or a table and returns it with one more column, ``into``: fixed-size lists of float32,
        or of float64 where the vectors are. A null vector stays null. ``side="target"`` is
        :meth:`transform_target`. A column that is there is replaced only with ``replace=True``.

        >>> import pyarrow as pa
        >>> x = np.random.default_rng(0).normal(size=(20, 2))
        >>> udf = Translator(map="orthogonal").fit(x, -x).batch_udf("old", into="new")
        >>> udf(pa.record_batch({"old": [[1.0, 2.0], None]})).column("new").is_valid().to_pylist()
        [True, False]
        """
        from relatent.spaces.io.columns import check_replace
        from relatent.translate.files import BatchTranslator

        self._check_fitted()
        check_side(side)
        if column == into:
            check_replace(into, replace)
        folded = self.map_ if side == "source" else self.target_map_
        return BatchTranslator(folded, self.endpoints_, side, column, into, replace)

    def accept(self, space: Space) -> Self:
        """Let a space pass whose fingerprint is not the one of the source or target. It is recorded, and saved."""
        self._check_fitted()
        self.endpoints_ = self.endpoints_.accepting(space.fingerprint)
        return self

    @available_if(_has_inverse)  # type: ignore[untyped-decorator]
    def inverse_transform(self, Y: Array) -> Array:
        """Translate back: exact for invertible maps, of least norm otherwise; not for nonlinear and two-sided ones."""
        y = as_matrix(Y, "Y")
        m = self.map_
        x = (y - like(self.offset_, y)) @ like(pseudo_inverse(m.product.astype(np.float64)), y)
        return x if m.before is None else m.before.undo(x)

    def score(self, X: Array, y: Array) -> float:
        """R² of the translation; for retrieval the mean reciprocal rank (at 10) of row i of y for row i of X."""
        from relatent.evaluate.fidelity import r2
        from relatent.evaluate.retrieval import mrr

        x, y = as_parallel(X=X, Y=y)
        if self.goal == "retrieval":
            return mrr(self.transform(x), self.transform_target(y), min(10, x.shape[0]), self.metric_)
        return float(r2(self.transform(x), y))

    def expected_quality(self, index: Array | None = None, *, seed: int = 0, progress: bool | None = None) -> Quality:
        """Predict recall, MRR and cosine on unseen items (``relatent.translate.quality``)."""
        from relatent.translate.quality import expected_quality

        return expected_quality(self, index, seed=seed, progress=progress)

    def confidence(self, X: Array | Space, *, items: int | None = None) -> np.ndarray:
        """Return for each row of the source the probability that its own item is found in the first ten, (n,).

        The translated row is the query, whichever side moves in use, and it is searched among ``items`` vectors of the
        target: as many as pairs were fitted on, by default. Give the size of your index: the more items, the lower.

        The first call calibrates it on the pairs, out of fold (:class:`relatent.translate.confidence.Confidence`).
        :meth:`save` keeps what was calibrated; a translator that was saved before has none.

        >>> rng = np.random.default_rng(0)
        >>> x, noise = rng.normal(size=(400, 8)), rng.normal(size=(400, 8))
        >>> t = Translator(map="ridge").fit(x[:300], (x + 0.3 * noise)[:300])
        >>> near = t.confidence(x[300:])
        >>> bool(np.mean(near) > np.mean(t.confidence(x[300:], items=100_000)))
        True
        """
        X, _ = self._one_source(X)
        x = to_numpy(self._checked(X.vectors if isinstance(X, Space) else X)).astype(np.float64)
        count = self.n_pairs_ if items is None else items
        if count < 1:
            raise ValueError(f"items is {items}: expected 1 or more, the size of the index that is searched.")
        return self.calibrate()(self.map_, x, count)

    def calibrate(self) -> Confidence:
        """Return what :meth:`confidence` is computed from, calibrated on the pairs unless that was done."""
        from relatent.translate.confidence import Confidence

        self._check_fitted()
        if self.confidence_ is None:
            if not hasattr(self, "pairs_"):
                raise ValueError(
                    "This translator has no confidence: it was loaded from a file that was saved without it. Fit it "
                    "again, and call calibrate() before save()."
                )
            self.confidence_ = Confidence.of(self)
        return self.confidence_

    def summary(self) -> Overview:
        """Return what it is, at a glance: spaces, pairs, map, runner-up, expected score, warnings. Print it."""
        from relatent.translate.overview import overview

        self._check_fitted()
        return overview(self)

    @property
    def metric_(self) -> Metric:
        """What translated vectors and those of the target are compared by: "cosine" or "inner"."""
        self._check_fitted()
        return Solution(self.map_, self.target_map_).metric

    @property
    def matrix_(self) -> np.ndarray:
        """The matrix that translates rows."""
        return self.map_.product

    @property
    def offset_(self) -> np.ndarray:
        """What is added to each translated row."""
        assert self.map_.offset is not None
        return self.map_.offset

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write one safetensors file: the map and what is known about it.

        An affine map holds no anchor vectors. A kernel map of up to 3,000 anchors holds the source vectors of all of
        them, and whoever has it can work out their target vectors, too: what the map gives plus λ times what each
        anchor adds to it. ``summary()`` says so. Beyond 3,000 it holds landmarks, each mixed from two anchors. Where
        anchors must not be passed on, fit with ``max_cost="affine"``.

        A retrieval map with a bank (``selection_`` says so) holds up to ``bank_size`` translated source vectors, from
        which the map's inverse recovers what the map keeps of them. ``fit(..., bank_size=0)`` keeps none.
        """
        self._check_fitted()
        arrays = self.map_.arrays("map.") | {"seen_keys": self.seen_keys_}
        about: dict[str, Any] = {
            "parameters": self.get_params(),
            "map": self.map_.about(),
            "endpoints": self.endpoints_.about(),
            "dims": [self.n_features_in_, self.map_.width],
            "n_pairs": self.n_pairs_,
            "chosen": list(self.chosen_),
            "selection": None if self.selection_ is None else asdict(self.selection_),
        }
        if self.sources_ is not None:
            about["sources"] = asdict(self.sources_)
        if self.target_map_ is not None:
            arrays |= self.target_map_.arrays("target.")
            about["target"] = self.target_map_.about()
        if self.confidence_ is not None:
            arrays |= self.confidence_.arrays("confidence.")
            about["confidence"] = self.confidence_.about()
        write_saved(path, Saved(self.kind, arrays, about), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote: a translator that transforms, and has no pairs to learn more from."""
        saved = read_saved(path, cls.kind)
        with understood(path):
            t = cls(**{name: value for name, value in saved.about["parameters"].items() if name not in FORMER})
            for name, value in fitted_of(saved).items():
                setattr(t, name, value)
            if "confidence" in saved.about:
                from relatent.translate.confidence import Confidence

                t.confidence_ = Confidence.from_saved(saved.arrays, saved.about["confidence"], "confidence.")
        return t

    def _translated(self, space: Space, side: Side) -> Space:
        self._check_fitted()
        self.endpoints_.check(space, side)
        folded = self.map_ if side == "source" else self.target_map_
        if folded is None:
            return space
        vectors = folded(as_matrix(space.vectors, "X"))
        return Space(vectors, space.key_column(), space.name, self.endpoints_.outcome(vectors.shape[1]))

    def _checked(self, X: Array) -> Array:
        self._check_fitted()
        x = as_rows(X, "X")
        if x.shape[1] != self.n_features_in_ or not isinstance(X, np.ndarray):
            validate_data(self, X, reset=False, skip_check_array=True)
        return x

    def _check_fitted(self) -> None:
        if not hasattr(self, "map_"):
            raise NotFittedError("This Translator is not fitted yet: call fit with parallel anchors first.")

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if not hasattr(self, "map_"):
            return str(super().__repr__(N_CHAR_MAX))
        goal = self.goal if self.map == "auto" else self.map
        frozen = ["frozen target"] if self.frozen_target else []
        size = f"{self.n_features_in_} → {self.map_.width}"
        parts = [goal, *frozen, size, f"{self.n_pairs_:,} pairs", *self.chosen_]
        return f"Translator({', '.join(parts)})"

    @property
    def _n_features_out(self) -> int:
        return self.map_.width

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "map_")

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that the target is needed, and is a matrix."""
        from relatent.project.codes import needs_matrix_target

        return needs_matrix_target(super().__sklearn_tags__())
