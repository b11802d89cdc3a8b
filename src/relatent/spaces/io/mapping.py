"""Apply a function to a space and write the result: chunk by chunk, resumable where the output is a folder.

Parts of a folder are written in a hidden folder next to the target. Its name holds a hash of everything that decides
what the parts hold: the input files, the translation, the ranges of the parts. A part counts once both its file and
its record are on disk. When all parts count, the folder is renamed atomically.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from relatent import __version__
from relatent._files import FULL, Records, check_folder_free, claimed, disk_full, land_folder, writing
from relatent._terminal import progress_bar
from relatent.engines import Engine
from relatent.spaces.chunks import Chunk
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.files import AnyPath, check_new, file_row, input_identity, space_writer
from relatent.spaces.io.formats.parquet import MANIFEST, check_manifest, footer_sum, manifest_of
from relatent.spaces.quantize import Quantizer
from relatent.spaces.space import Space

Column = tuple[str, Callable[[np.ndarray], Any]]


# Workers of a pass, each of which holds a chunk or two; BLAS has the other cores.
MAX_WORKERS = 4


def passed(
    chunks: Iterable[Chunk], make: Callable[[Chunk], Chunk], write: Callable[[Chunk], None], workers: int
) -> Iterator[int]:
    """Write what is made of each chunk; yield the rows written. Chunks are read and written while others are made.

    Several are made at a time, in threads, rather than one by all threads of BLAS: these would wait for each other, and
    for whatever else the cores do.
    """
    with ThreadPoolExecutor(workers) as pool:
        making: deque[Future[Chunk]] = deque()
        for chunk in chunks:
            making.append(pool.submit(make, chunk))
            if len(making) > workers:
                yield _written(making, write)
        while making:
            yield _written(making, write)


def _written(making: deque[Future[Chunk]], write: Callable[[Chunk], None]) -> int:
    chunk = making.popleft().result()
    write(chunk)
    return len(chunk)


@contextmanager
def _workers() -> Iterator[int]:
    """Share the threads of BLAS among workers, and yield how many."""
    from threadpoolctl import ThreadpoolController

    blas = ThreadpoolController().select(user_api="blas")
    threads = max((library.num_threads for library in blas.lib_controllers), default=1)
    count = min(threads, MAX_WORKERS)
    with blas.limit(limits=threads // count):
        yield count


def applied(
    function: Callable[[np.ndarray], Any], chunk: Chunk, width: int, space: Space, column: Column | None = None
) -> Chunk:
    """Return the chunk with new vectors; refuse a row that is not finite, or that does not stay so."""
    vectors = chunk.vectors.astype(np.result_type(chunk.vectors.dtype, np.float32), copy=False)
    out = np.empty((0, width), dtype=vectors.dtype)
    if len(chunk):
        _check_rows(vectors, chunk, space, "holds NaN or infinity and")
        with np.errstate(over="ignore", invalid="ignore"):
            out = np.asarray(function(vectors))
        _check_rows(out, chunk, space, f"becomes infinite in {out.dtype} and")
    new = chunk.with_vectors(out)
    return new if column is None else _with_column(new, *column)


def _check_rows(vectors: np.ndarray, chunk: Chunk, space: Space, problem: str) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        # NaN or infinite if any number is, and far cheaper than looking at each.
        if np.isfinite(vectors.sum(dtype=np.result_type(vectors.dtype, np.float32))):
            return
    bad = ~np.isfinite(vectors).all(axis=1)
    if not bad.any():
        return
    i = int(np.argmax(bad))
    row = chunk.start + i
    name, row = (space.name or "the space", row) if space.path is None else file_row(space.path, row)
    key = "" if chunk.keys is None else f" (key {chunk.keys[i].as_py()!r})"
    raise ValueError(f"Row {row}{key} of {name} {problem} cannot be translated: drop or fix it.")


# A part of about this size is worth resuming after, and is a good size for a Parquet file.
PART_BYTES = 256 * 2**20
KEPT = "the finished parts are kept, and the next run of the same job resumes from there"


class ResumeWarning(UserWarning):
    """A run resumes what an earlier one left, or cannot use it."""


@dataclass(frozen=True)
class Part:
    """A range of rows that becomes one file."""

    number: int
    start: int
    stop: int

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"part-{self.number:05d}.parquet"

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"rows {self.start:,} to {self.stop:,}"


def job_hash(space: Space, function: str, fingerprint: Fingerprint) -> str:
    """Return a hash of all that decides what is written: the input, the function (by a hash of it), the record.

    A space in memory is another one in every run, and is never resumed.
    """
    about = {
        "relatent": __version__,
        "input": uuid4().hex if space.path is None else input_identity(space.path),
        "read as": [*space.shape, str(space.dtype), asdict(space.layout)],
        "function": function,
        "output": fingerprint.recorded().to_json(),
        "part bytes": PART_BYTES,
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def write_parts(
    space: Space,
    path: Path,
    function: Callable[[np.ndarray], Any],
    fingerprint: Fingerprint,
    job: str,
    *,
    engine: Engine,
    progress: bool | None = None,
) -> None:
    """Write a space whose vectors are a function of another's as a folder; resume a killed run of the same ``job``.

    A second run at the same time is refused. An input that cannot be translated leaves nothing behind; anything else
    that stops the run leaves the finished parts to the next one.
    """
    rows = max(1, PART_BYTES // (4 * max(space.dim, fingerprint.dim)))
    parts = [Part(i, *limits) for i, limits in enumerate(space.ranges(rows))]
    with _work_folder(path, job) as folder, _kept(path, folder):
        check_folder_free(path)
        work = _Work(folder, job)
        left = work.left(parts)
        with progress_bar(len(space), f"→ {path.name}", progress) as advance:
            advance(len(space) - sum(map(len, left)))
            made = engine.map(_WritePart(space, function, fingerprint, work.records.folder), left)
            for part, file in zip(left, made, strict=True):
                work.keep(part, file)
                advance(len(part))
        work.complete(parts)
        land_folder(folder, path)


@dataclass(frozen=True)
class _WritePart:
    """What a worker does: write the rows of a part to a file of its own, and return the name of that."""

    space: Space
    function: Callable[[np.ndarray], Any]
    fingerprint: Fingerprint
    folder: Path

    def __call__(self, part: Part) -> Path:
        # A worker that was given up for dead may still write: no two attempts share a name.
        file = self.folder / f"{uuid4().hex}.parquet"
        with _workers() as count, space_writer(file, fingerprint=replace(self.fingerprint, probe=None)) as out:
            # The beginning of the space tells the columns to all parts.
            for limits in ((0, 0), (part.start, part.stop)):
                make = partial(applied, self.function, width=self.fingerprint.dim, space=self.space)
                for _ in passed(self.space.chunks(within=limits), make, out.write, count):
                    pass
        return file


class _Work:
    """What a run has written so far: parts, and in a hidden folder a record of each."""

    def __init__(self, folder: Path, job: str) -> None:
        # Not in the folder of the parts: this run holds its lock, for which an atomic write there would wait.
        self.folder, self.job, self.records = folder, job, Records(folder / ".resume")
        self.records.folder.mkdir(exist_ok=True)

    def left(self, parts: Sequence[Part]) -> list[Part]:
        """Return the parts that are still to be written; warn of what is resumed and of what cannot be used."""
        if self._is_complete(parts):
            return []
        left = [part for part in parts if not self._counts(part)]
        if len(left) < len(parts):
            _warn(f"Resuming an earlier run, which wrote {len(parts) - len(left)} of {len(parts)} parts.")
        return left

    def keep(self, part: Part, file: Path) -> None:
        """Let a written part count: its name first, its record after that."""
        os.replace(file, self.folder / part.name)  # noqa: PTH105 (one name for every rename)
        self.records.write(f"{part.name}.json", self._about(part))

    def complete(self, parts: Sequence[Part]) -> None:
        """Write the manifest of the folder, after which no record is needed."""
        if not self._is_complete(parts):
            self.records.write_bytes(MANIFEST, manifest_of([self.folder / part.name for part in parts]).encode())
            os.replace(self.records.folder / MANIFEST, self.folder / MANIFEST)  # noqa: PTH105
        shutil.rmtree(self.records.folder)

    def _is_complete(self, parts: Sequence[Part]) -> bool:
        """Return whether a run was killed after the last part, with nothing left to do but to name the folder."""
        manifest = self.folder / MANIFEST
        try:
            files = {part.name: self.folder / part.name for part in parts}
            check_manifest(self.folder, manifest.read_text("utf8"), files)
        except (OSError, ValueError):
            manifest.unlink(missing_ok=True)
            return False
        return True

    def _counts(self, part: Part) -> bool:
        try:
            record = self.records.read(f"{part.name}.json")
            if record is None:
                return False
            matches = record == self._about(part)
        except (OSError, ValueError):
            matches = False
        if not matches:
            _warn(f"{part.name} of an earlier run does not match its record: it is written again.")
        return matches

    def _about(self, part: Part) -> dict[str, Any]:
        file, rows = self.folder / part.name, [part.start, part.stop]
        return {"job": self.job, "rows": rows, "size": file.stat().st_size, "footer": footer_sum(file)}


@contextmanager
def _work_folder(path: Path, job: str) -> Iterator[Path]:
    """Claim the hidden folder of a job for this process alone; remove those of other jobs with the same target."""
    folder = path.with_name(f".relatent-{path.name}-{job[:16]}.resume")
    refusal = f"{path} is being written by another run: wait for it, or write to another path."
    with ExitStack() as claims:
        with writing(path):
            claims.enter_context(claimed(folder, refusal))
        claims.callback(_remove_if_empty, folder)
        for other in path.parent.glob(f".relatent-{escape(path.name)}-{'[0-9a-f]' * 16}.resume"):
            if other != folder:
                with claimed(other, refusal):
                    _warn(f"An earlier run to {path} had other inputs or another translator: this one starts over.")
                    shutil.rmtree(other)
        yield folder


@contextmanager
def _kept(path: Path, folder: Path) -> Iterator[None]:
    """Remove the work where resuming would not help; otherwise add a note to the error that it is kept."""
    try:
        yield
    except ValueError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except (OSError, RuntimeError, KeyboardInterrupt) as error:
        finished = any(folder.glob("part-*.parquet"))
        if finished:
            error.add_note(f"{KEPT.capitalize()}.")
        else:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in FULL:
            left = KEPT if finished else "nothing was left behind"
            raise disk_full(error, path, left) from error
        raise


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _warn(text: str) -> None:
    warnings.warn(text, ResumeWarning, stacklevel=2)


def map_space(
    function: Callable[[np.ndarray], Any],
    space: Space,
    path: AnyPath,
    fingerprint: Fingerprint,
    *,
    column: Column | None = None,
    format: str | None = None,
    quantize: str | Quantizer | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> None:
    """Write a space whose vectors are a function of another's, in as many rows and with the same other columns.

    ``column`` adds one more column, made of the new vectors.
    """
    check_new(path, space, overwrite=overwrite)
    with (
        _workers() as count,
        progress_bar(len(space), f"→ {Path(str(path)).name}", progress) as advance,
        space_writer(
            path, fingerprint=replace(fingerprint, probe=None), format=format, overwrite=overwrite, quantize=quantize
        ) as out,
    ):
        make = partial(applied, function, width=fingerprint.dim, space=space, column=column)
        for rows in passed(space.chunks(), make, out.write, count):
            advance(rows)


def _with_column(chunk: Chunk, name: str, values: Callable[[np.ndarray], Any]) -> Chunk:
    if name in chunk.others.column_names:
        raise ValueError(f"There is a column {name!r} already: rename it first, since it would be replaced.")
    others = chunk.others.append_column(name, pa.array(values(chunk.vectors)))
    layout = replace(chunk.layout, order=(*chunk.layout.order, name) if chunk.layout.order else ())
    return replace(chunk, others=others, layout=layout)
