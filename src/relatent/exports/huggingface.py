"""A folder for a model hub: the translator's file, its description, and a model card that tells what to expect."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relatent import __version__
from relatent._files import atomic_write
from relatent.exports.formats import described, map_of, steps_of
from relatent.translate.endpoints import Side

FILE = "translator.safetensors"
CARD = """---
library_name: relatent
tags:
- embeddings
- embedding-translation
- relatent
---

# {title}

{line}

```python
import relatent as rl

t = rl.load("{file}")    # in this folder; needs: pip install relatent
y = t.transform(x)                     # x: ({dim_in} coordinates per row), vectors of the source
```

## Spaces

| | source | target |
|---|---|---|
{spaces}

A translator refuses a `relatent.Space` of another fingerprint, and warns about arrays that look like another model's.
{compare}

## Scores

{scores}

## Limits

- It was fitted on {pairs:,} pairs. On texts of another kind, language or length than those it does worse: measure with
  `relatent evaluate {file} SOURCE TARGET --relevant judged.tsv` on your own data.
- It keeps at most what the source holds: it cannot add what the source's model did not see.
- It is for these two models, as they were prepared then: another revision, pooling or prompt is another space.
{warnings}
## What this file gives away

{given_away}
"""


def write(
    translator: Any, path: str | os.PathLike[str], *, scores: Mapping[str, Any] | None = None, overwrite: bool = False
) -> None:
    """Write a folder with ``translator.safetensors``, ``config.json`` and ``README.md``.

    ``scores`` are figures to show, such as ``relatent evaluate --json`` prints. Without, a translator that still has
    its pairs is asked for :meth:`~relatent.Translator.expected_quality`.
    """
    map_of(translator)
    shown = _scores(translator, scores)
    with atomic_write(path, overwrite=overwrite) as folder:
        folder.mkdir()
        translator.save(folder / FILE)
        config = {"library": "relatent", "library_version": __version__, "file": FILE, **_config(translator)}
        (folder / "config.json").write_text(json.dumps(config, ensure_ascii=False, indent=2) + "\n", encoding="utf8")
        (folder / "README.md").write_text(_card(translator, shown, folder / FILE), encoding="utf8")


def _config(translator: Any) -> dict[str, Any]:
    sides: list[Side] = ["source"] if getattr(translator, "target_map_", None) is None else ["source", "target"]
    return described(translator) | {"steps": {s: [step.kind for step in steps_of(translator, s)] for s in sides}}


def _card(translator: Any, scores: str, file: Path) -> str:
    about = described(translator)
    names = [_name(about.get(side, {})) for side in ("source", "target")]
    warnings = translator.summary().warnings if hasattr(translator, "summary") else ()
    return CARD.format(
        title=" → ".join(names),
        line=f"Translates vectors of {names[0]} into the space of {names[1]}: `{about['translator']}`.",
        file=FILE,
        dim_in=about["dims"][0],
        spaces=_spaces(about),
        compare=_compare(about.get("metric")),
        scores=scores,
        pairs=about.get("pairs", 0),
        warnings="".join(f"- Warning: {text}.\n" for text in warnings),
        given_away=_given_away(translator, file),
    )


def _name(space: Mapping[str, Any]) -> str:
    return str(space.get("model") or space.get("name") or "an unnamed space")


def _spaces(about: Mapping[str, Any]) -> str:
    rows = ("id", "model", "revision", "pooling", "normalization", "layer", "dim", "name")
    sides = [about.get(side, {}) for side in ("source", "target")]
    lines = [(row, [str(side.get(row) or "") for side in sides]) for row in rows]
    return "\n".join(f"| {row} | {' | '.join(cells)} |" for row, cells in lines if any(cells))


def _compare(metric: str | None) -> str:
    if metric == "inner":
        return (
            "It maps queries and documents into a shared space: compare `t.transform(queries)` with "
            "`t.transform_target(index)` by inner product, never with vectors that did not go through it."
        )
    return "Compare translated vectors with those of the target by cosine."


def _scores(translator: Any, scores: Mapping[str, Any] | None) -> str:
    if scores is not None:
        return f"As measured by whoever made this file:\n\n```json\n{json.dumps(scores, indent=2, default=str)}\n```"
    if hasattr(translator, "pairs_"):
        quality = translator.expected_quality()
        head = f"Expected on unseen items, by cross-validation on {quality.anchors:,} pairs (95 % intervals):\n"
        rows = [f"| {r['measure']} | {r['value']:.3f} | {r['low']:.3f} – {r['high']:.3f} |" for r in quality.records()]
        return "\n".join([head, "| measure | score | interval |", "|---|---|---|", *rows])
    chosen = getattr(translator, "selection_", None)
    known = "" if chosen is None else f"When it was fitted, {chosen.criterion} was {chosen.score:.4g} on its anchors. "
    return f"{known}No score on other data was given: measure before you rely on it."


def _given_away(translator: Any, file: Path) -> str:
    from safetensors import safe_open

    with safe_open(file, framework="np") as content:
        shapes = {name: content.get_slice(name).get_shape() for name in sorted(content.keys())}
    arrays = ", ".join(f"`{name}` {' × '.join(map(str, shape))}" for name, shape in shapes.items())
    lines = [
        f"- All of its arrays: {arrays}.",
        "- The matrices and means are sums over the anchors: whoever has the file can translate, and knows the mean "
        "vector of the data it was fitted on.",
        "- The fingerprints hold means and deviations along 512 random directions of each space, 16 directions in "
        "which its vectors hardly vary, and what was recorded about its model.",
    ]
    if len(getattr(translator, "seen_keys_", ())):
        lines.append("- `seen_keys` are hashes of the anchors' keys: whoever guesses a key can tell if it was used.")
    if any(step.kind == "gaussian" for step in steps_of(translator)):
        lines.append(
            "- `centers` are vectors of the anchors, or mixed from two of them each: from such vectors texts can be "
            'guessed. Fit with max_cost="affine" to leave them out.'
        )
    if getattr(translator, "target_map_", None) is not None and translator.target_map_.bank is not None:
        lines.append(
            "- `bank.queries` are translated vectors of the source, from which those vectors can be recovered in part. "
            "Use fit(..., bank_size=0) to leave them out."
        )
    return "\n".join(lines)
