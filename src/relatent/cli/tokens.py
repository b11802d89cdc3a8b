"""Commands on several vectors per item: tokens fit, translate, evaluate."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from relatent.cli.frame import Answer, command, group
from relatent.cli.options import Force, Key, Out, TranslatorFile, TranslatorOut

ABOUT = """Vectors of tokens or patches, several per item, as models of late interaction (ColBERT, ColPali) give.

\b
  relatent tokens fit OLD NEW -o t.safetensors
  relatent tokens evaluate t.safetensors OLD NEW
  relatent tokens translate t.safetensors OLD -o out.parquet

Files are Parquet, with a column of lists of vectors: list<list<float>>.
"""

step = partial(command, group=group("tokens", ABOUT))

Old = Annotated[str, typer.Argument(metavar="OLD", help="Parquet file with a column of lists of vectors.")]
New = Annotated[str, typer.Argument(metavar="NEW", help="The same items by the other model.")]
Column = Annotated[str | None, typer.Option("--column", help="Column of the lists of vectors, if there are several.")]


@step
def fit(old: Old, new: New, out: TranslatorOut, column: Column = None, key: Key = None, force: Force = False) -> Answer:
    """Fit a translator on the tokens of items that both files have.

    Items are joined on their keys, and paired token by token: both models must cut an item into the same tokens.

    Examples:
      relatent tokens fit old.parquet new.parquet -o t.safetensors
    """
    from relatent.spaces import check_new
    from relatent.translate import Translator, fit_tokens, read_tokens

    check_new(out, overwrite=force)
    spaces = (read_tokens(path, column=column, key=key) for path in (old, new))
    translator = fit_tokens(Translator(), *spaces)
    translator.save(out, overwrite=force)
    return Answer(f"Wrote {out}.", {"out": out})


@step
def translate(translator: TranslatorFile, old: Old, out: Out, column: Column = None, force: Force = False) -> Answer:
    """Translate the tokens of every item into a new Parquet file. Other columns are kept.

    Examples:
      relatent tokens translate t.safetensors old.parquet -o translated.parquet
    """
    from relatent import load
    from relatent.translate import translate_tokens

    items = translate_tokens(load(translator), old, out, column=column, overwrite=force)
    return Answer(f"Wrote the translated vectors of {items:,} items to {out}.", {"out": out, "items": items})


@step
def evaluate(translator: TranslatorFile, old: Old, new: New, column: Column = None, key: Key = None) -> Answer:
    """Let old items look for themselves among the new ones by MaxSim.

    The mean reciprocal rank of translated items, beside untranslated ones and the new model's own. Give items that the
    translator was not fitted on.

    Examples:
      relatent tokens evaluate t.safetensors old-held-out.parquet new-held-out.parquet --json
    """
    from relatent import load
    from relatent.translate import evaluate_tokens, read_tokens

    spaces = (read_tokens(path, column=column, key=key) for path in (old, new))
    found = evaluate_tokens(load(translator), *spaces)
    return Answer(str(found), found.to_dict())
