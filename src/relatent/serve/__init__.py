"""SERVE: a translator over HTTP, alone or in front of an OpenAI-compatible embedder (extra ``serve``)."""

from relatent.serve.app import make_app, run
from relatent.serve.protocol import Settings

__all__ = ["Settings", "make_app", "run"]
