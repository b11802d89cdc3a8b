"""SERVE: a translator over HTTP, alone or in front of an embedder that speaks OpenAI's dialect (extra ``serve``)."""

from relatent.serve.app import make_app, run
from relatent.serve.upstream import Settings

__all__ = ["Settings", "make_app", "run"]
