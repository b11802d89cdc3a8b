"""What can be exported of a translator: the steps of a side, what to tell of it, the formats, and routes of texts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import numpy as np

from relatent._array import suggest
from relatent._errors import with_remedy
from relatent._terminal import Result
from relatent.steps import Map, Step
from relatent.translate.endpoints import Side, check_side


def map_of(translator: Any, side: Side = "source") -> Map:
    """Return the fitted map of one side, refusing what has none to export."""
    check_side(side)
    if not isinstance(getattr(translator, "map_", None), Map):
        raise ValueError(
            f"A {type(translator).__name__} has no single map to export: expected a fitted Translator, "
            "RelativeTranslator, or one of its halves."
        )
    fitted: Map | None = translator.map_ if side == "source" else getattr(translator, "target_map_", None)
    if fitted is None:
        raise with_remedy(
            ValueError("This translator leaves its target as it is: the target side has no map to export."),
            python='Use side="source"; only goal="retrieval" without a frozen target maps the target, too.',
            command="Use --side source; only --goal retrieval without --frozen-target maps the target, too.",
        )
    return fitted


def steps_of(translator: Any, side: Side = "source", *, normalize: bool = False) -> list[Step]:
    """Return the steps of one side of a fitted translator; ``normalize`` adds unit norm of what comes out.

    >>> import numpy as np
    >>> from relatent import Translator
    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> [step.kind for step in steps_of(Translator(map="affine", normalize="l2").fit(x, x + 1))]
    ['unit', 'linear']
    """
    steps = [*map_of(translator, side).steps]
    if normalize and getattr(translator, "target_map_", None) is not None:
        raise ValueError(
            "This translator maps queries and documents into a shared space, where they are compared by inner product: "
            "unit norms would change the order. Leave out normalize, or fit with frozen_target=True."
        )
    return [*steps, Step("unit")] if normalize else steps


def described(translator: Any, side: Side = "source") -> dict[str, Any]:
    """Return what a reader of an export should know: spaces by fingerprint, dimensions, goal, how to compare."""
    fitted, ends = map_of(translator, side), getattr(translator, "endpoints_", None)
    about: dict[str, Any] = {"translator": repr(translator), "side": side, "dims": [fitted.dims_in, fitted.width]}
    if ends is None:
        return about
    for which in ("source", "target"):
        fingerprint = getattr(ends, which)
        recorded = {name: value for name, value in asdict(fingerprint.recorded()).items() if value is not None}
        about[which] = {"id": fingerprint.id, "name": getattr(ends, f"{which}_name"), **recorded}
    return about | {"metric": translator.metric_, "pairs": translator.n_pairs_}


# The name of a format: the module that writes it, and the options that it takes beside the path.
FORMATS: dict[str, tuple[str, tuple[str, ...]]] = {
    "onnx": ("onnx", ("side", "normalize")),
    "sentence-transformers": ("sentence_transformers", ("side", "normalize", "encoder")),
    "faiss": ("faiss", ("side", "normalize", "index")),
    "huggingface": ("huggingface", ("scores",)),
    "numpy": ("numpy", ("side", "normalize")),
    "sql": ("sql", ("side", "normalize", "dialect")),
    "atlas": ("atlas", ("space", "target")),
}
ROLES = ("query", "document")


@dataclass(frozen=True)
class Exported(Result):
    """What was written, and where."""

    out: str
    format: str
    dims: tuple[int, int]

    def __str__(self) -> str:
        return f"Wrote {self.out}: {self.format}, {self.dims[0]} → {self.dims[1]} coordinates."


def export(
    translator: Any,
    path: str | os.PathLike[str],
    to: str,
    *,
    side: Side = "source",
    normalize: bool = False,
    encoder: str | os.PathLike[str] | None = None,
    index: str | os.PathLike[str] | None = None,
    scores: Mapping[str, Any] | None = None,
    dialect: str | None = None,
    space: Any = None,
    target: Any = None,
    overwrite: bool = False,
) -> Exported:
    """Write a fitted translator for another library, atomically.

    ``to`` is one of "onnx", "sentence-transformers", "faiss", "huggingface", "numpy", "sql" and "atlas"; the modules of
    these names (``relatent.exports.onnx`` and so on) say what each writes. ``side`` chooses the map of a translator
    that has one for each side, ``normalize`` scales what comes out to unit norm. ``encoder``, ``index`` and ``scores``
    are for sentence-transformers, FAISS and huggingface: what to join, and what to tell. ``dialect`` is that of SQL:
    "postgresql", "duckdb" or "sqlite". ``space`` and ``target`` are for an atlas: a space to translate and the space
    that it is translated into, or their paths.

    Every export of a map gives what ``transform`` gives on float32 rows, but for rounding.
    """
    if to not in FORMATS:
        raise ValueError(f"There is no export to {to!r}.{suggest(to, FORMATS)}")
    module, taken = FORMATS[to]
    options = {"side": side, "normalize": normalize, "encoder": encoder, "index": index, "scores": scores}
    options |= {"dialect": dialect, "space": space, "target": target}
    given = {name: value for name, value in options.items() if value not in (None, False, "source")}
    unknown = [name for name in given if name not in taken]
    if unknown:
        raise ValueError(f"{unknown[0]} was given, and an export to {to} takes only: {', '.join(taken)}. Leave it out.")
    fitted = map_of(translator, side)
    import_module(f"relatent.exports.{module}").write(translator, path, overwrite=overwrite, **given)
    return Exported(os.fspath(path), to, (fitted.dims_in, fitted.width))


@dataclass(frozen=True)
class Route:
    """Two embedders and a translator between them.

    The roles in ``translate`` are embedded by ``source`` and translated. The others are embedded by ``target``, the
    model of the space that is translated into.
    """

    translator: Any
    source: Any
    target: Any = None
    translate: tuple[str, ...] = ROLES

    def __post_init__(self) -> None:
        map_of(self.translator)
        if not self.translate or not set(self.translate) <= set(ROLES):
            raise ValueError(f"translate is {self.translate!r}: expected one or both of 'query' and 'document'.")
        if getattr(self.translator, "target_map_", None) is not None and set(self.translate) == set(ROLES):
            raise ValueError(
                "This translator has a map for queries and one for documents: one role is translated and the other "
                "prepared for it. Name the one that the source's model embeds, such as "
                'translate=("query",), or fit with frozen_target=True.'
            )

    def embedder(self, role: str) -> Any:
        """Return what embeds texts of a role."""
        if role in self.translate:
            return self.source
        if self.target is None:
            raise ValueError(
                f"Nothing was given that embeds a {role}, which is not translated: give target, the embedder of the "
                f"space that is translated into, or name {role!r} in translate."
            )
        return self.target

    def rows(self, vectors: Any, role: str) -> np.ndarray:
        """Bring vectors that the embedder of a role gave into the common space."""
        rows = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
        if role in self.translate:
            return np.asarray(self.translator.transform(rows))
        prepare = getattr(self.translator, "transform_target", None)
        return rows if prepare is None else np.asarray(prepare(rows))

    def lists(self, vectors: Any, role: str) -> list[list[float]]:
        """Return the same as lists of numbers."""
        return list(self.rows(vectors, role).tolist()) if len(vectors) else []

    def one(self, vector: Any, role: str) -> list[float]:
        """Return the same for one vector."""
        return self.lists([vector], role)[0]
