"""Commands that run until they are stopped: serve, explore."""

from __future__ import annotations

import os
from typing import Annotated, Any, cast

import typer
from typer import Argument, Option

from relatent.cli import options as opt
from relatent.cli.frame import Done, command


@command
def serve(
    translator: opt.TranslatorFile,
    upstream: Annotated[
        str | None, Option("--upstream", help="OpenAI-compatible embedder of the source, …/v1.")
    ] = None,
    model: opt.Model = None,
    exact: Annotated[
        str | None, Option("--exact", help="OpenAI-compatible embedder of the target, for --min-confidence.")
    ] = None,
    exact_model: Annotated[str | None, Option("--exact-model", help="Model to ask it for.")] = None,
    min_confidence: Annotated[
        float | None, Option("--min-confidence", help="Texts of less confidence are embedded by --exact.")
    ] = None,
    items: Annotated[int | None, Option("--items", help="Size of the index, for the confidence.")] = None,
    side: opt.Side = "source",
    unit_norm: opt.UnitNorm = False,
    name: opt.Name = None,
    host: Annotated[str, Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: opt.Port = 8000,
    max_batch: Annotated[int, Option("--max-batch", help="Vectors or texts per request.")] = 2_048,
    max_body: Annotated[int, Option("--max-body", help="Bytes per request.")] = 32 * 2**20,
    max_requests: Annotated[int, Option("--max-requests", help="Requests at a time; 429 beyond.")] = 256,
    timeout: Annotated[
        float, Option("--timeout", help="Seconds that the upstream may take for its whole answer.")
    ] = 30.0,
    progress: bool | None = None,
) -> Done:
    """Serve a translator over HTTP, alone or in front of an embedder.

    POST /v1/translate takes vectors. With --upstream, POST /v1/embeddings is OpenAI-compatible and answers in the space
    that is translated into: an application changes one URL. The upstream is asked for --model, or else for the model of
    the request. A translator that was fitted with --confidence answers with the header X-Relatent-Confidence, and
    texts below --min-confidence are embedded by --exact, a model of the target, instead of translated. Keys are read
    from the environment: RELATENT_API_KEY for callers, RELATENT_UPSTREAM_KEY and RELATENT_EXACT_KEY for the embedders.
    Listens on this machine only, unless --host says otherwise. --verbose logs paths and statuses.

    Examples:
      relatent serve t.safetensors
      relatent serve new-to-old.safetensors --upstream http://127.0.0.1:9000/v1 --port 8080 --unit-norm
      relatent serve t.safetensors --upstream http://new/v1 --exact http://old/v1 --min-confidence 0.5 --items 1000000
    """
    from relatent._errors import check_installed

    asking = () if upstream is None else ("httpx",)
    check_installed("uvicorn", "orjson", "pybase64", *asking, extra="serve", purpose="serve over HTTP")
    from relatent import load
    from relatent.serve import Settings, run

    settings = Settings(
        side=cast(Any, side),
        normalize=unit_norm,
        model=name,
        upstream=upstream,
        upstream_model=model,
        upstream_key=os.environ.get("RELATENT_UPSTREAM_KEY") or None,
        items=items,
        min_confidence=min_confidence,
        exact=exact,
        exact_model=exact_model,
        exact_key=os.environ.get("RELATENT_EXACT_KEY") or None,
        api_key=os.environ.get("RELATENT_API_KEY") or None,
        max_rows=max_batch,
        max_body=max_body,
        max_requests=max_requests,
        upstream_timeout=timeout,
    )
    level = "error" if progress is False else "info"
    run(load(translator), settings, host=host, port=port, log_level=level, access_log=bool(progress))
    return Done("Stopped.", {"stopped": True})


@command
def explore(
    spaces: Annotated[
        list[str], Argument(metavar="SOURCE... TARGET", help="Vectors of the same items; the last is the target.")
    ],
    translator: opt.SomeTranslator = None,
    label: opt.Label = None,
    out: opt.SomeOut = None,
    max_rows: opt.MaxRows = 20_000,
    port: opt.Port = 0,
    open_: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False,
    seed: opt.Seed = 0,
    vector: opt.Vector = None,
    key: opt.Key = None,
    by_row: opt.ByRow = False,
    accept: opt.Accept = False,
    overwrite: opt.Overwrite = False,
    progress: bool | None = None,  # without it a spinner would turn until the server is stopped
) -> Done:
    """Show spaces side by side in the browser.

    A slider translates them. The same item lights up in every space; a selected one lists its neighbors before and
    after translation. The page is on this machine only, at a URL with a secret token, and needs no network. With --out
    it is written as one HTML file: keys, labels and positions are in it, vectors are not.

    Examples:
      relatent explore old.parquet new.parquet
      relatent explore old.parquet new.parquet --translator t.safetensors --label topic --open
      relatent explore small.npy middle.npy large.npy --by-row --out spaces.html
    """
    from relatent._errors import check_installed

    if out is None:
        check_installed("starlette", "uvicorn", extra="explore", purpose="show spaces in the browser")
    from relatent import load
    from relatent.explore import Exploration, run, write_page
    from relatent.spaces import check_new, read_space

    if out is not None:
        check_new(out, translator, *spaces, overwrite=overwrite)
    read = [read_space(path, vector=vector, key=key) for path in spaces]
    exploration = Exploration.of(
        [space.without_keys() for space in read] if by_row else read,
        None if translator is None else load(translator),
        label=label,
        points=max_rows,
        accept=accept,
        seed=seed,
    )
    if out is not None:
        write_page(exploration, out, overwrite=overwrite)
        return Done(f"Wrote {out}: open it in a browser.", {"out": str(out), "items": len(exploration.scene)})
    run(exploration, port=port, ready=lambda url: _show(url, open_))
    return Done("Stopped.", {"stopped": True})


def _show(url: str, in_browser: bool) -> None:
    """Print where the page is, which is what the command is for, and open it if asked."""
    typer.echo(f"Open {url}\nCtrl-C stops it.")
    if in_browser:
        import webbrowser

        webbrowser.open(url)
