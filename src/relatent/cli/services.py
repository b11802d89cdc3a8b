"""Commands that stay until they are stopped: serve, explore."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from relatent.cli.frame import Answer, command
from relatent.cli.options import Accept, ByRow, Force, Key, Seed, TranslatorFile, Vector


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
    from relatent import load
    from relatent.serve import Settings, run

    settings = Settings(
        side=cast(Any, side),
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


@command
def explore(
    spaces: Annotated[
        list[str], typer.Argument(metavar="OLD NEW...", help="Vectors of the same items; the last is the target.")
    ],
    translator: Annotated[
        Path | None,
        typer.Option("--translator", "-t", help="From the first to the last; fitted on anchors if not said."),
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="Column to color by, where the guess is wrong.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write a page that needs no server, instead of serving one.")
    ] = None,
    points: Annotated[int, typer.Option("--points", help="Items to draw at most; of more, a sample.")] = 20_000,
    port: Annotated[int, typer.Option("--port", help="Port on this machine; a free one if not said.")] = 0,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    seed: Seed = 0,
    vector: Vector = None,
    key: Key = None,
    by_row: ByRow = False,
    accept: Accept = False,
    force: Force = False,
    progress: bool | None = None,  # without it a spinner would turn until the server is stopped
) -> Answer:
    """Show spaces side by side in the browser, and a slider that translates them.

    The same item lights up in every space; a selected one lists its neighbors before and after translation. The page
    is on this machine only, at an address with a token that nobody else knows, and asks nothing of the network. With
    --out, it is written as one file: keys, labels and positions are in it, vectors are not.

    Examples:
      relatent explore old.parquet new.parquet
      relatent explore old.parquet new.parquet --translator t.safetensors --label topic --open
      relatent explore small.npy middle.npy large.npy --by-row --out spaces.html
    """
    from relatent import load
    from relatent.explore import Exploration, run, write_page
    from relatent.spaces import check_new, read_space

    if out is not None:
        check_new(out, translator, *spaces, overwrite=force)
    read = [read_space(path, vector=vector, key=key) for path in spaces]
    exploration = Exploration.of(
        [space.without_keys() for space in read] if by_row else read,
        None if translator is None else load(translator),
        label=label,
        points=points,
        accept=accept,
        seed=seed,
    )
    if out is not None:
        write_page(exploration, out, overwrite=force)
        return Answer(f"Wrote {out}: open it in a browser.", {"out": str(out), "items": len(exploration.scene)})
    run(exploration, port=port, ready=lambda address: _show(address, open_))
    return Answer("Stopped.", {"stopped": True})


def _show(address: str, in_browser: bool) -> None:
    """Print where the page is, which is what the command is for, and open it if asked."""
    typer.echo(f"Open {address}\nCtrl-C stops it.")
    if in_browser:
        import webbrowser

        webbrowser.open(address)
