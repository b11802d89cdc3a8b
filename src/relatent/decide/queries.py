"""Queries as texts: from a log, or made of the items' own texts; and what they tell where the old model is gone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._files import FileError
from relatent._linalg import unit_norm
from relatent._terminal import render, wrap
from relatent.decide.evaluation import MAX_ROWS, check_width, role_of
from relatent.decide.held_out import HeldOut
from relatent.decide.options import OPTIONS, Option, OptionScores, Search, score_without_old
from relatent.decide.relevance import Relevance
from relatent.decide.rule import in_words
from relatent.decide.task import Rows, SearchTask, search_task
from relatent.decide.verdict import LABELS
from relatent.encode import Encoder, Texts, read_items, sample_texts, texts_of
from relatent.evaluate.interval import Estimate, bootstrap, ratio
from relatent.spaces.io.files import AnyPath
from relatent.spaces.keys import key_hashes
from relatent.spaces.space import Space
from relatent.translate import Translator

if TYPE_CHECKING:
    import pyarrow as pa
else:
    from relatent._lazy import LazyModule

    pa = LazyModule("pyarrow")

# Where a sentence ends: at its mark before a space, at that of a script without spaces, or with its line.
SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")
# A sentence of fewer words than this is more of a greeting than a query, and a longer one is cut.
MIN_WORDS, MAX_WORDS = 3, 40
# Items by which a model is told, and the cosine below which it is another one.
CHECKED, SAME_MODEL = 20, 0.5
# Queries that are made at most: enough for narrow intervals.
MAX_QUERIES = 2_000


def read_queries(path: AnyPath) -> Texts:
    """Read queries: one per line of a .txt, or a table with a column of texts and perhaps one of keys (``read_items``).

    Empty ones are left out. The keys of lines are their numbers from 0.
    """
    found = read_items(path)
    kept = [(key, text) for key, text in zip(found.keys, found.items, strict=True) if text.strip()]
    if not kept:
        raise FileError(f"{path} holds no query: expected a text per line, or a table with a column of texts.")
    keys, texts = zip(*kept, strict=True)
    return Texts(pa.array(keys), list(texts), len(found.items) - len(kept), str(path))


def make_queries(
    translator: Translator, space: Space, column: str, keys: np.ndarray, *, embedded: str | None = None
) -> tuple[Texts, Relevance]:
    """Make queries of items that the translator was not fitted on: the first sentence of a column, such as a title.

    Each should find its item, among those of ``keys``. Where ``column`` is the one that was ``embedded``, a text that
    is only one sentence makes no query, since it would be the item itself. These are no judgments of what people look
    for, and the verdict says so.
    """
    unseen = keys[~np.isin(key_hashes(keys), translator.seen_keys_)][:MAX_QUERIES]
    given = texts_of(space, np.sort(space.rows_of(unseen)), column)
    made = [_first_sentence(text) for text in given.texts]
    is_item = [column == embedded and made[row] == " ".join(text.split()) for row, text in enumerate(given.texts)]
    kept = [row for row, query in enumerate(made) if query is not None and not is_item[row]]
    if not kept:
        raise ValueError(f"No text in {column!r} begins with a sentence that makes a query: name another column.")
    items = [str(key) for key in given.keys.take(pa.array(kept)).to_pylist()]
    queries = [f"query of {key}" for key in items]
    name = f"the item whose {column!r} each query was made of, which is no judgment"
    texts = Texts(pa.array(queries), [str(made[row]) for row in kept], name="queries")
    return texts, Relevance(queries, items, name, made=True)


def check_old_model(encoder: Encoder, space: Space, column: str | None = None) -> None:
    """Refuse a model that is not the one whose vectors a space holds, by the cosines of a few items.

    The threshold is far below what a prefix or a title in front of the text changes, and above what other models have.
    """
    texts = sample_texts(space, column, CHECKED)
    stored = unit_norm(space.take(space.rows_of(texts.keys.to_pylist())).astype(np.float64))
    made = unit_norm(encoder(list(texts.texts)).astype(np.float64))
    if made.shape[1] != stored.shape[1]:
        raise ValueError(
            f"{encoder.model} makes {made.shape[1]} coordinates, and {space.name} has {stored.shape[1]}: expected the "
            "model that made these vectors."
        )
    cosine = float(np.median(np.sum(stored * made, axis=1)))
    if cosine < SAME_MODEL:
        raise ValueError(
            f"{encoder.model} is not the model of {space.name}: its vectors of {len(texts)} texts there have a cosine "
            f"of {cosine:.2f} with those stored (median). Name the model that made them, or leave the old model out."
        )


def _first_sentence(text: str) -> str | None:
    """Return the first sentence of a text, if it is one that could be asked.

    >>> _first_sentence("Rates rise again. The bank said so."), _first_sentence("Hello.")
    ('Rates rise again.', None)
    """
    for sentence in SENTENCE.split(text.strip()):
        words = sentence.split()
        if len(words) >= MIN_WORDS or len(sentence) > len(words) * 12:
            return " ".join(words[:MAX_WORDS])
    return None


@dataclass(frozen=True)
class QueryScores:
    """What queries of the new model find by each option that needs no query of the old one.

    ``kept`` is the share of what re-embedding finds that the translation finds. Without the old model's vectors of the
    same queries it cannot be told whether translating is better than staying, so there is no verdict.
    """

    scores: OptionScores
    measures: Mapping[Option, Mapping[str, Estimate]]
    expected: Mapping[Option, Estimate] | None
    kept: Estimate
    relevance: str
    held_out: HeldOut

    @property
    def queries(self) -> int:
        """How many queries were asked."""
        return len(self.scores.by_option["re-embed"])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        by_option = {o: {m: e.to_dict() for m, e in found.items()} for o, found in self.measures.items()}
        expected = None if self.expected is None else {o: e.to_dict() for o, e in self.expected.items()}
        rows = {"queries": self.queries, "items": self.scores.items, "k": self.scores.k}
        about = {"relevance": self.relevance, "index_rows": self.scores.index_rows, "held_out": asdict(self.held_out)}
        told = {"measures": by_option, "expected": expected, "kept": self.kept.to_dict()}
        return {"verdict": "no verdict", "recommended": None, **rows, **about, **told}

    def __str__(self) -> str:
        labels = [LABELS[measure].format(k=self.scores.k) for measure in self.scores.measures]
        rows = [
            [OPTIONS[option].label, *(in_words(found[measure]) for measure in self.scores.measures)]
            for option, found in self.measures.items()
        ]
        about = f"{self.queries:,} queries, {self.scores.items:,} items; relevant: {self.relevance}."
        table = render(("option", *labels), rows, range(1, len(labels) + 1))
        return "\n".join(
            [table, *self._in_index(), "", wrap(about), wrap(str(self.held_out)), *map(wrap, self._told())]
        )

    def _in_index(self) -> list[str]:
        if self.expected is None:
            return []
        header = f"expected in {self.scores.index_rows:,} items", LABELS["ndcg"].format(k=self.scores.k)
        return ["", render(header, [(o, in_words(e)) for o, e in self.expected.items()], (1,))]

    def _told(self) -> list[str]:
        doubts = self.held_out.doubts()
        return [
            f"The translation keeps {in_words(self.kept)} of what re-embedding finds.",
            "no verdict: these queries have no vectors of the old model, so that staying is not among the options. "
            "Where the old model is still there, embed them with it, too.",
            *doubts,
        ]


def evaluate_queries(
    translator: Translator,
    source: Space,
    target: Space,
    queries: Space,
    *,
    role: str | None = None,
    relevant: Relevance | None = None,
    k: int = 10,
    index_rows: int | None = None,
    max_rows: int = MAX_ROWS,
    accept: bool = False,
    force: bool = False,
    seed: int = 0,
) -> QueryScores:
    """Score queries that only the new model has embedded, among items that the translator was not fitted on.

    As :func:`evaluate_spaces` does, without the options of the old model. Without ``relevant``, each should find what
    re-embedding finds.
    """
    role = role_of(translator, role)
    if accept:
        translator.accept(source).accept(target)
    translator.endpoints_.check(source, "source")
    translator.endpoints_.check(target, "target")
    new = target if role == "documents" else source
    check_width(queries, new, "new model")
    common, asked = Rows.of(source, target), (queries, queries)
    task, held_out = search_task(translator, common, asked, relevant, None, max_rows, seed)
    space = source if role == "documents" else target
    index = task.served(space, index_rows or len(task.item_rows(space)))
    searches: dict[str, Any] = _searches(translator, task, role)
    scores = score_without_old(**searches, relevant=task.relevant, k=k, index=index)
    held = HeldOut(**{**vars(held_out), "forced": force, "made": relevant is not None and relevant.made})
    return _scored(scores, relevant, held, seed)


def _searches(t: Translator, task: SearchTask, role: str) -> dict[str, Search | None]:
    x, y, ask = task.items.in_source(), task.items.in_target(), task.queries.in_target()
    if role == "documents":
        searches = Search(t.transform_target(ask), t.transform(x), t.metric_), Search(ask, y)
        mixed = Search(ask, x) if x.shape[1] == ask.shape[1] else None
    else:
        searches = Search(t.transform(ask), t.transform_target(y), t.metric_), Search(ask, x)
        mixed = Search(ask, y) if y.shape[1] == ask.shape[1] else None
    return {"translate": searches[0], "reembed": searches[1], "untranslated": mixed}


def _scored(scores: OptionScores, relevant: Relevance | None, held_out: HeldOut, seed: int) -> QueryScores:
    measures: dict[Option, dict[str, Estimate]] = {
        option: {measure: bootstrap(found[:, i], seed=seed) for i, measure in enumerate(scores.measures)}
        for option, found in scores.by_option.items()
    }
    deciding = scores.expected or {option: found[:, -1] for option, found in scores.by_option.items()}
    expected = None if scores.expected is None else {o: bootstrap(e, seed=seed) for o, e in scores.expected.items()}
    kept = bootstrap(np.stack([deciding["translate"], deciding["re-embed"]], axis=1), ratio(0, 1), seed=seed)
    name = f"the {scores.k} nearest under the new model" if relevant is None else relevant.name
    return QueryScores(scores, measures, expected, kept, name, held_out)
