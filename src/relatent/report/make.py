"""From results, a translator and spaces to the findings of a report: everything that is measured for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._array import suggest
from relatent._linalg import row_norms, unit_norm
from relatent._terminal import Stage, stages
from relatent.decide.anchors import diagnose_anchors
from relatent.decide.evaluation import Role, evaluate_spaces, role_of
from relatent.decide.relevance import Relevance
from relatent.decide.rule import Cost, Rule
from relatent.decide.task import Rows
from relatent.decide.threshold import GROUPS, thresholds
from relatent.decide.verdict import Verdict
from relatent.evaluate.comparison import Comparison
from relatent.evaluate.fidelity import fidelity_report
from relatent.evaluate.interval import bootstrap
from relatent.evaluate.linear import cka
from relatent.evaluate.pairwise import mutual_knn
from relatent.evaluate.scale import norms
from relatent.evaluate.several import Comparisons
from relatent.migrate import MigrationPlan, Verification
from relatent.report import data
from relatent.spaces.join import common_rows, parallel
from relatent.spaces.keys import key_hashes
from relatent.spaces.sample import sample_rows
from relatent.spaces.space import Space
from relatent.translate import Translator
from relatent.translate.joined import FitReport
from relatent.translate.quality import learning_curve

# Pairs to fit on and held-out rows to measure: narrow intervals within seconds.
MAX_PAIRS, MAX_ROWS = 20_000, 2_000
# Items that are listed, the worst first.
MAX_LISTED = 10
# Anchors that are diagnosed: coverage needs many, and decomposing this many takes a second.
MAX_ANCHORS = 4_000
# Norms whose standard deviation is below this share of their mean are constant.
CONSTANT = 1e-3
# Singular values that are kept of each space.
MAX_SINGULAR = 400
MEASURES = {"cka": cka, "mutual_knn": mutual_knn}
# The field of the findings that a result goes to.
FIELDS: dict[type, str] = {
    FitReport: "fit",
    Verdict: "verdict",
    Comparison: "comparison",
    Comparisons: "comparisons",
    MigrationPlan: "plan",
    Verification: "verification",
}


def make_report(
    result: Translator | FitReport | Verdict | Comparison | Comparisons | MigrationPlan | Verification,
    *spaces: Space,
    fit: FitReport | None = None,
    verdict: Verdict | None = None,
    role: Role | None = None,
    relevant: Relevance | None = None,
    queries: tuple[Space, Space] | None = None,
    slices: str | None = None,
    texts: str | None = None,
    k: int = 10,
    rule: Rule | None = None,
    cost: Cost | None = None,
    max_pairs: int = MAX_PAIRS,
    max_rows: int = MAX_ROWS,
    accept: bool = False,
    seed: int = 0,
    command: str | None = None,
    progress: bool | None = None,
) -> data.Findings:
    """Return the findings of a report on a translator, or on the result of another function.

    ``spaces`` are the source, the target, and others of the same items, which appear in the similarity matrix only.

    A translator is measured on at most ``max_rows`` keys that it was not fitted on, so that the work does not grow with
    the files. One that is not fitted yet is fitted here, on at most ``max_pairs`` pairs: those that ``relevant`` does
    not name, so that all judged items are held out, or four fifths of all where it names most of them. Give what is
    known about it as ``fit`` or ``verdict``; without either it is evaluated (:func:`relatent.decide.evaluate_spaces`,
    which takes ``role``, ``relevant``, ``queries``, ``k``, ``rule``, ``cost`` and ``accept``). A loaded translator has
    no pairs to measure a learning curve with.

    ``slices`` names a column to group figures by, ``texts`` a column to show beside the worst items; without it the
    findings contain keys, and no texts or vectors.
    """
    found: dict[str, Any]
    seed = result.seed if isinstance(result, Comparison | Comparisons) else seed
    if isinstance(result, Translator):
        if len(spaces) < 2:
            raise ValueError(f"{len(spaces)} spaces were given with a translator: expected its source and its target.")
        source, target, *_ = spaces
        known = fit is not None or verdict is not None
        if not hasattr(result, "map_"):
            part = _fitted_part(source, target, relevant, queries)
            fit = result.fit(source, target, **part, max_pairs=max_pairs, progress=progress).fit_report_
        if not known:
            verdict = evaluate_spaces(
                result,
                source,
                target,
                role=role,
                relevant=relevant,
                queries=queries,
                slices=slices,
                k=k,
                max_rows=max_rows,
                rule=rule,
                cost=cost,
                accept=accept,
                seed=seed,
                progress=progress,
            )
        with stages(progress) as stage:
            # Slices are of the queries, which may have columns that the items lack.
            shown = slices if queries is None else None
            found = measure_translator(result, source, target, role, shown, texts, max_rows, seed, stage)
            if queries is not None and found["closeness"] is not None:
                in_role = bootstrap(_cosines(*_translated_queries(result, *queries)), seed=seed)
                found["closeness"] = replace(found["closeness"], queries=in_role)
            stage("comparing the spaces")
            found |= {"fit": fit, "verdict": verdict, "similarity": measure_similarity(spaces, max_rows, seed)}
    else:
        found = _found_in(result, spaces, max_rows, seed)
    judged = found.get("verdict")
    worst = () if judged is None else with_texts(worst_queries(judged), queries or spaces, texts)
    return data.Findings(
        _title(result, spaces), data.Provenance.of(spaces, command, seed), worst_queries=worst, **found
    )


def _fitted_part(
    source: Space, target: Space, relevant: Relevance | None, queries: tuple[Space, Space] | None
) -> dict[str, Any]:
    """Return what part of the pairs to fit on: those that are not judged, if that is at least half."""
    common = Rows.of(source, target)
    named = () if relevant is None else [*relevant.items, *(relevant.queries if queries is None else ())]
    judged = np.isin(common.hashes, key_hashes(named))
    if not np.any(judged) or 2 * np.sum(judged) > len(common):
        return {"held_out": 0.2}
    return {"anchors": common.keys[~judged].tolist()}


def _found_in(result: Any, spaces: Sequence[Space], max_rows: int, seed: int) -> dict[str, Any]:
    """Return a result by the name of its field, and what else can be measured."""
    if type(result) not in FIELDS:
        expected = ", ".join(kind.__name__ for kind in FIELDS)
        raise ValueError(f"A {type(result).__name__} was given: expected a Translator, or one of {expected}.")
    found = {FIELDS[type(result)]: result}
    if isinstance(result, MigrationPlan):
        found["verdict"] = result.verdict
    if isinstance(result, Comparisons) and spaces:
        found["similarity"] = measure_similarity(spaces, max_rows, seed)
    if isinstance(result, Comparison | Comparisons) and spaces:
        found["geometry"] = measure_geometry(_common_sample(spaces, max_rows, seed))
    return found


def _common_sample(spaces: Sequence[Space], max_rows: int, seed: int) -> dict[str, np.ndarray]:
    """Read a sample of the items that all spaces share, by the names of the spaces."""
    shared = common_rows(*spaces)
    kept = sample_rows(len(shared[0]), max_rows, seed)
    named = zip(_labeled(spaces).items(), shared, strict=True)
    return {name: space.take(rows[kept]) for (name, space), rows in named}


def _title(result: Any, spaces: Sequence[Space]) -> str:
    if isinstance(result, MigrationPlan):
        return f"Migration of {result.store}"
    if isinstance(result, Verification):
        return f"{'Rehearsal' if result.rehearsed else 'Verification'} of {result.store}"
    if isinstance(result, Comparisons):
        return ", ".join(result.names)
    names = [space.name or role for space, role in zip(spaces, ("old", "new"), strict=False)]
    return (" and " if isinstance(result, Comparison) else " → ").join(names) or "Translation"


def _labeled(spaces: Sequence[Space]) -> dict[str, Space]:
    """Return spaces by distinct names."""
    found: dict[str, Space] = {}
    for i, space in enumerate(spaces, start=1):
        name = space.name or f"space {i}"
        found[f"{name} ({i})" if name in found else name] = space
    return found


def measure_translator(
    translator: Translator,
    source: Space,
    target: Space,
    role: Role | None,
    slices: str | None,
    texts: str | None,
    max_rows: int,
    seed: int,
    stage: Stage,
) -> dict[str, Any]:
    """Measure a translator on keys that it was not fitted on. Return findings by the names of their fields."""
    stage("reading held-out rows")
    common = Rows.of(source, target)
    seen = np.isin(common.hashes, translator.seen_keys_)
    rows = common.at(sample_rows(np.flatnonzero(~seen), max_rows, seed))
    x, y = rows.in_source(), rows.in_target()
    # A two-sided translator maps into a space of its own, where there are no true vectors.
    one_sided = translator.target_map_ is None and len(x) > 1
    spaces = dict(zip(_labeled([source, target]), (x, y), strict=True))
    close = None
    stage("measuring cosines, anchors and norms")
    if one_sided:
        spaces["translated"] = np.asarray(translator.transform(x))
        labels = None if slices is None else rows.labels(slices)
        close = measure_closeness(spaces["translated"], x, y, rows.keys, labels, seed)
        close = replace(close, worst=with_texts(close.worst, (source, target), texts))
    anchors = measure_anchors(source, common.matched.x_rows[seen], x, seed)
    geometry = measure_geometry(spaces) if len(x) > 1 else None
    stage("matching thresholds")
    old, new = (y, x) if role_of(translator, role) == "queries" else (x, y)
    compared = {"new model": new} | ({"translated": spaces["translated"]} if one_sided and old is x else {})
    table = {name: thresholds(old, z, seed=seed) for name, z in compared.items()} if len(rows) >= GROUPS else None
    stage("measuring the learning curve")
    return {
        "translator": translator.summary(),
        "closeness": close,
        "anchors": anchors,
        "geometry": geometry,
        "thresholds": table,
        "curve": measure_curve(translator, x, y, seed),
    }


def measure_closeness(
    translated: np.ndarray, x: np.ndarray, y: np.ndarray, keys: np.ndarray, slices: Any, seed: int
) -> data.Closeness:
    """Compare translated vectors with true ones, row by row, and list the items with the lowest cosine."""
    rows = _cosines(translated, y)
    series, untranslated = {"translated": rows}, None
    if x.shape[1] == y.shape[1]:
        series["untranslated"] = _cosines(x, y)
        untranslated = bootstrap(series["untranslated"], seed=seed)
    worst = [data.WorstRow(str(keys[i]), float(rows[i])) for i in np.argsort(rows, kind="stable")[:MAX_LISTED]]
    fidelity = fidelity_report(translated, y, slices, seed=seed)
    return data.Closeness(len(rows), fidelity, untranslated, data.Spread.of(series), tuple(worst))


def _translated_queries(translator: Translator, source: Space, target: Space) -> tuple[np.ndarray, np.ndarray]:
    """Return translated queries and the target's own. Their role makes them look like another space: no check."""
    x, y = parallel(source, target)
    return np.asarray(translator.map_(x)), y


def _cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.sum(unit_norm(x) * unit_norm(y), axis=1, dtype=np.float64))


def worst_queries(verdict: Verdict) -> tuple[data.WorstRow, ...]:
    """Return the queries that lose most by translating instead of staying."""
    if verdict.keys is None:
        return ()
    kept, before = (verdict.query_scores(option) for option in ("translate", "stay"))
    order = np.argsort(kept - before, kind="stable")[:MAX_LISTED]
    return tuple(
        data.WorstRow(str(verdict.keys[i]), float(kept[i]), float(before[i])) for i in order if kept[i] < before[i]
    )


def with_texts(
    rows: tuple[data.WorstRow, ...], spaces: Sequence[Space], column: str | None
) -> tuple[data.WorstRow, ...]:
    """Return items with their texts, from the first space that has the column, if one is requested."""
    if column is None or not rows:
        return rows
    for space in spaces:
        if column in space.others.column_names:
            places = space.rows_of([row.key for row in rows])
            texts = space.others.column(column).take(pa.array(places)).to_pylist()
            return tuple(replace(row, text=str(text)) for row, text in zip(rows, texts, strict=True))
    every = dict.fromkeys(name for space in spaces for name in space.others.column_names)
    raise ValueError(f"There is no column {column!r} of texts.{suggest(column, every)}")


def measure_anchors(source: Space, rows: np.ndarray, x: np.ndarray, seed: int) -> data.Anchors | None:
    """Diagnose the anchors in some rows of the source, centered, and how well they cover the rows of x."""
    if len(rows) < 2 or not len(x):
        return None
    anchors = source.take(sample_rows(rows, MAX_ANCHORS, seed)).astype(np.float64)
    center = np.mean(anchors, axis=0)
    return data.Anchors(len(rows), len(anchors), diagnose_anchors(anchors - center, x - center))


def measure_geometry(spaces: Mapping[str, np.ndarray]) -> data.Geometry:
    """Return singular values and norms of the rows of each space."""
    norm = {name: norms(x) for name, x in spaces.items()}
    varied = {name: x for name, x in spaces.items() if norm[name].std > CONSTANT * norm[name].mean}
    relative = {name: np.asarray(row_norms(x)) / norm[name].mean for name, x in varied.items()}
    singular = {name: _singular(x) for name, x in spaces.items()}
    return data.Geometry(max(map(len, spaces.values())), singular, norm, data.Spread.of(relative) if relative else None)


def _singular(x: np.ndarray) -> tuple[float, ...]:
    """Return the singular values of the centered rows relative to the largest, without rounding noise."""
    centered = x.astype(np.float64) - np.mean(x, axis=0, dtype=np.float64)
    values = np.linalg.eigvalsh(centered.T @ centered)[::-1][: min(*x.shape, MAX_SINGULAR)]
    live = values[values > values[0] * 1e-12]
    return tuple(np.sqrt(live / values[0]).tolist())


def measure_similarity(spaces: Sequence[Space], max_rows: int, seed: int) -> data.Similarity:
    """Compare every two of several spaces on a sample of the items that all of them share."""
    sample = _common_sample(spaces, max_rows, seed)
    vectors = list(sample.values())
    if len(vectors[0]) < 2:
        raise ValueError(f"The {len(spaces)} spaces have 1 key in common: expected at least 2, and hundreds.")
    return data.Similarity(len(vectors[0]), tuple(sample), {name: _matrix(m, vectors) for name, m in MEASURES.items()})


def _matrix(measure: Any, vectors: Sequence[np.ndarray]) -> tuple[tuple[float, ...], ...]:
    """Score every two spaces by a symmetric measure that is 1 of a space with itself."""
    square = np.eye(len(vectors))
    for i, x in enumerate(vectors):
        for j, y in enumerate(vectors[:i]):
            square[i, j] = square[j, i] = float(measure(x, y))
    return tuple(map(tuple, square.tolist()))


def measure_curve(translator: Translator, x: np.ndarray, y: np.ndarray, seed: int) -> data.PairsCurve | None:
    """Return how held-out pairs are ranked by fewer pairs and by all, and what twice as many would add."""
    curve = learning_curve(translator, x, y, seed=seed)
    if curve is None:
        return None
    n, room = curve.anchors[-1], 1 - curve.values[-1]
    scores = tuple(bootstrap(column, seed=seed) for column in curve.scores.T)
    return data.PairsCurve(curve.anchors, scores, curve.gain(n, 2 * n, limit=room), len(y))
