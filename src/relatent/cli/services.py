"""Commands that stay: serve."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from relatent.cli.frame import Answer, command
from relatent.cli.options import TranslatorFile

__all__ = ["serve"]


@command
def serve(
    translator: TranslatorFile,
    upstream: Annotated[
        str | None, typer.Option("--upstream", help="Address of an OpenAI-compatible embedder of the source, …/v1.")
    ] = None,
    upstream_model: Annotated[
        str | None, typer.Option("--upstream-model", help="Model to ask it for; by default what was asked for.")
    ] = None,
    side: Annotated[str, typer.Option("--side", help="source, or target of a two-sided retrieval map.")] = "source",
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale answers to unit norm.")] = False,
    model: Annotated[str | None, typer.Option("--model", help="Name that answers go by.")] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on.")] = 8000,
    max_rows: Annotated[int, typer.Option("--max-rows", help="Vectors or texts per request.")] = 2_048,
    max_body: Annotated[int, typer.Option("--max-body", help="Bytes per request.")] = 32 * 2**20,
    max_requests: Annotated[int, typer.Option("--max-requests", help="Requests at a time; 429 beyond.")] = 256,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that the upstream may take.")] = 30.0,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log each request's path and status.")] = False,
    progress: bool | None = None,
) -> Answer:
    """Serve a translator over HTTP, alone or in front of an embedder.

    POST /v1/translate takes vectors. With --upstream, POST /v1/embeddings is OpenAI's, and answers in the space that is
    translated into: an application changes one address. Keys are read from the environment: RELATENT_API_KEY for
    callers, RELATENT_UPSTREAM_KEY for the embedder. Listens on this machine only, unless --host says otherwise.

    Examples:
      relatent serve t.safetensors
      relatent serve new-to-old.safetensors --upstream http://127.0.0.1:9000/v1 --port 8080 --normalize
    """
    from relatent.deliver import load
    from relatent.serve import Settings, run

    settings = Settings(
        side=side,
        normalize=normalize,
        model=model,
        upstream=upstream,
        upstream_model=upstream_model,
        upstream_key=os.environ.get("RELATENT_UPSTREAM_KEY") or None,
        api_key=os.environ.get("RELATENT_API_KEY") or None,
        max_rows=max_rows,
        max_body=max_body,
        max_requests=max_requests,
        upstream_timeout=timeout,
    )
    quiet = progress is False
    run(load(translator), settings, host=host, port=port, log_level="error" if quiet else "info", access_log=access_log)
    return Answer("Stopped.", {"stopped": True})
