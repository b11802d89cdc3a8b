"""Options of the commands that embed texts: the new model in place of TARGET, and queries as texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter, Option, echo

from relatent.cli.options import CACHE, Both, Text

if TYPE_CHECKING:
    from relatent.encode import Embedded, Encoder, Texts
    from relatent.spaces import Space
    from relatent.translate import Translator

EMBED = "openai:MODEL, ollama:MODEL, http://…/v1?model=MODEL, st:FOLDER or onnx:FOLDER"


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """A model that makes the vectors of TARGET, of texts in SOURCE."""

    embed: Annotated[
        str | None, Option("--embed", metavar="MODEL", help=f"Instead of TARGET, embed texts of SOURCE by {EMBED}.")
    ] = None
    text: Text = None
    pairs: Annotated[int, Option("--pairs", help="Items of SOURCE to embed.")] = 2_000
    prefix: Annotated[str, Option("--prefix", help='Put in front of each text, such as "passage: ".')] = ""
    max_chars: Annotated[int | None, Option("--max-chars", help="Maximum length of a text, in characters.")] = None
    token_price: Annotated[float | None, Option("--token-price", help="Price of a million tokens.")] = None
    cache: Annotated[Path, Option("--cache", help=CACHE)] = Path(".relatent/embedded")

    def target_of(
        self, source: Space, progress: bool | None, translator: Translator | None = None
    ) -> tuple[Space, Embedded]:
        """Embed the texts of a sample of items, the same in every run; say before what it will take.

        Another model than the one that a translator was fitted on is refused first.
        """
        from relatent.encode import sample_texts, text_encoder

        assert self.embed is not None
        encoder = text_encoder(self.embed).prefixed(self.prefix)
        if translator is not None:
            translator.endpoints_.check_model(encoder.fingerprint(translator.endpoints_.target.dim), "target")
        texts = sample_texts(source, self.text, self.pairs, max_chars=self.max_chars)
        return self.embedded(texts, encoder, progress)

    def teller(self, progress: bool | None) -> Callable[[str], None]:
        """Return what says something on the standard error, unless nothing is to be said."""
        return lambda about: None if progress is False else echo(about, err=True)

    def embedded(self, texts: Texts, encoder: Encoder, progress: bool | None) -> tuple[Space, Embedded]:
        """Embed texts; say before what it will take."""
        self.teller(progress)(texts.about(encoder, self.cache, self.token_price))
        return texts.embed(encoder, cache=self.cache, token_price=self.token_price, progress=progress)


@dataclass(frozen=True, kw_only=True)
class PairOrModel(Embedding, Both):
    """Two spaces of the same items, or one with texts and the model that makes the other."""

    def open(
        self, progress: bool | None, *, translator: Translator | None = None, packed: bool = False
    ) -> tuple[Space, Space, Embedded | None]:
        """Open both, or embed the second; tell what that took."""
        if (self.target is None) == (self.embed is None):
            told = "Both TARGET and --embed were" if self.target else "Neither TARGET nor --embed was"
            raise BadParameter(f"{told} given: give vectors of the new model, or the model and its texts (--text).")
        if self.target is not None:
            return *self.pair(packed=packed), None
        source = self.read(packed=packed)
        return source, *self.target_of(source, progress, translator)


@dataclass(frozen=True, kw_only=True)
class QueryTexts:
    """Queries as texts, which the model of --embed embeds, and the old model too if it is still there."""

    query_texts: Annotated[
        Path | None, Option("--query-texts", metavar="FILE", help="Past queries as texts: a line each, or a table.")
    ] = None
    queries_from: Annotated[
        str | None, Option("--queries-from", metavar="COLUMN", help="Make queries of titles or first sentences.")
    ] = None
    query_prefix: Annotated[str, Option("--query-prefix", help='Put in front of each, such as "query: ".')] = ""
    embed_old: Annotated[
        str | None, Option("--embed-old", metavar="MODEL", help="The old model, named as for --embed.")
    ] = None
    old_prefix: Annotated[str, Option("--old-prefix", help="Put in front of each query for the old model.")] = ""

    def wanted(self, embedding: Embedding, queries: Any) -> bool:
        """Return whether there are any; refuse what does not go together."""
        found = self.query_texts is not None or self.queries_from is not None
        if found and embedding.embed is None:
            raise BadParameter("Texts of queries are embedded by the new model: name it with --embed.")
        if (self.query_texts is not None) + (self.queries_from is not None) + (queries is not None) > 1:
            raise BadParameter("Give one of --queries, --query-texts and --queries-from.")
        if self.embed_old is not None and not found:
            raise BadParameter("--embed-old embeds texts of queries: give --query-texts or --queries-from.")
        return found

    def embedded(
        self, translator: Any, source: Space, target: Space, model: PairOrModel, relevant: Any, progress: bool | None
    ) -> tuple[Space, Space | None, Any]:
        """Return them embedded by the new model and by the old one, if it is there, and what they should find."""
        from relatent.decide import check_old_model, make_queries, read_queries
        from relatent.encode import text_column, text_encoder

        assert model.embed is not None
        if self.query_texts is not None:
            texts = read_queries(self.query_texts)
        else:
            column = text_column(source.name, source.schema.names, model.text)
            texts, relevant = make_queries(translator, source, str(self.queries_from), target.keys, embedded=column)
        new, _ = model.embedded(texts, text_encoder(model.embed).prefixed(self.query_prefix), progress)
        if self.embed_old is None:
            return new, None, relevant
        encoder = text_encoder(self.embed_old)
        check_old_model(encoder, source, model.text)
        old, _ = model.embedded(texts, encoder.prefixed(self.old_prefix), progress)
        return new, old, relevant
