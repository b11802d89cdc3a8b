"""A store for tests, in one SQLite file: transactions, and nothing that a migration would have to wait for.

A vector that is NULL cannot be read. ``register()`` makes ``sqlite:///folder/name.db`` known to :func:`open_store`.
"""

import fcntl
import json
import os
import sqlite3
import sys
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from relatent.spaces.chunks import Chunk, Layout
from relatent.stores import Field, Hits, Shard, StoreError
from relatent.stores.address import SCHEMES

SCHEMA = """
CREATE TABLE IF NOT EXISTS items (key INTEGER PRIMARY KEY, text TEXT);
CREATE TABLE IF NOT EXISTS fields (name TEXT PRIMARY KEY, role TEXT, about TEXT);
CREATE TABLE IF NOT EXISTS vectors (field TEXT, key INTEGER, vector BLOB, PRIMARY KEY (field, key)) WITHOUT ROWID;
"""


def register():
    """Make the scheme known in this process."""
    SCHEMES["sqlite"] = "sqlite_for_tests"
    sys.modules["relatent.stores.sqlite_for_tests"] = sys.modules[__name__]


def create(path, vectors, keys=None, **about):
    """Make a store of vectors under the keys 0, 1, …; return its URL."""
    register()
    db = sqlite3.connect(path)
    field = Field("vector", vectors.shape[1], **about)
    with db:
        db.executescript(SCHEMA)
        db.execute("INSERT INTO fields VALUES (?, 'served', ?)", (field.name, json.dumps(asdict(field))))
    db.close()
    put(path, range(len(vectors)) if keys is None else keys, vectors)
    return f"sqlite://{path}"


def put(path, keys, vectors, field="vector"):
    """Do what an application does: insert or replace items. A vector of None cannot be read."""
    with sqlite3.connect(path) as db:
        for key, vector in zip(keys, vectors, strict=True):
            blob = None if vector is None else np.asarray(vector, dtype=np.float32).tobytes()
            db.execute("INSERT OR IGNORE INTO items VALUES (?, ?)", (key, f"item {key}"))
            db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (field, key, blob))
    db.close()


def delete(path, keys):
    """Do what an application does: delete items and the vectors that it knows of."""
    with sqlite3.connect(path) as db:
        db.executemany("DELETE FROM items WHERE key = ?", [(key,) for key in keys])
        db.executemany("DELETE FROM vectors WHERE field = 'vector' AND key = ?", [(key,) for key in keys])
    db.close()


def open_store(address):
    """Open a file that is there."""
    if not address.file.exists():
        raise StoreError(f"{address} is not there: check the path.")
    return SqliteStore(address)


class SqliteStore:
    """A store as the protocol describes it."""

    def __init__(self, address):
        self.address = address
        self.db = sqlite3.connect(address.file, timeout=60)

    def _role(self, role):
        row = self.db.execute("SELECT about FROM fields WHERE role = ?", (role,)).fetchone()
        return None if row is None else Field(**json.loads(row[0]))

    served = property(lambda self: self._role("served"))
    new = property(lambda self: self._role("new"))
    old = property(lambda self: self._role("old"))

    def count(self, of, shard=None):
        return len(self._keys(of, shard or Shard(), "AND vector IS NOT NULL"))

    def _keys(self, of, shard, condition=""):
        low, high = -(2**62) if shard.low is None else shard.low, 2**62 if shard.high is None else shard.high
        select = f"SELECT key FROM vectors WHERE field = ? AND key >= ? AND key < ? {condition} ORDER BY key"
        return [key for (key,) in self.db.execute(select, (of.name, low, high))]

    def shards(self, rows):
        keys = self._keys(self.served, Shard())
        bounds = [None, *keys[rows::rows], None]
        return [Shard(low, high) for low, high in pairwise(bounds)]

    def scan(self, of, *, shard=None, rows=None, columns=(), unreadable=None):
        low, high = (shard or Shard()).low, (shard or Shard()).high
        select = "SELECT key, vector FROM vectors WHERE field = ? AND key >= ? AND key < ? ORDER BY key"
        found = self.db.execute(select, (of.name, -(2**62) if low is None else low, 2**62 if high is None else high))
        start = 0
        while batch := found.fetchmany(rows or 1000):
            for key, blob in batch:
                if blob is None:
                    if unreadable is None:
                        raise StoreError(f"The row with key {key!r} of {self.address} has no vector: mend it.")
                    unreadable(key, "has no vector")
            whole = [(key, blob) for key, blob in batch if blob is not None]
            vectors = np.array([np.frombuffer(blob, np.float32) for _, blob in whole]).reshape(len(whole), of.dim)
            table = pa.table({"key": pa.array([key for key, _ in whole], pa.int64())})
            yield Chunk(start, vectors, table, Layout("vector", "key"))
            start += len(whole)

    def add(self, new):
        found = self.new
        if found is not None and found != new:
            raise StoreError(f"{self.address} has another new field {found.name!r}: drop it first.")
        if found is None:
            with self.db:
                row = (new.name, json.dumps(asdict(replace(new, provenance=dict(new.provenance)))))
                self.db.execute("INSERT INTO fields VALUES (?, 'new', ?)", row)
        return new

    def write(self, into, keys, vectors):
        if self.new != into:
            raise StoreError(f"{self.address} has no new field {into.name!r}.")
        rows = zip(keys.to_pylist(), vectors.astype(np.float32), strict=True)
        insert = "INSERT OR REPLACE INTO vectors SELECT ?, key, ? FROM items WHERE key = ?"
        with self.db:
            self.db.executemany(insert, [(into.name, row.tobytes(), key) for key, row in rows])

    def remove_orphans(self, of):
        with self.db:
            gone = "DELETE FROM vectors WHERE field = ? AND key NOT IN (SELECT key FROM items)"
            return self.db.execute(gone, (of.name,)).rowcount

    def build_index(self, of):
        pass

    def search(self, vectors, k, *, of=None, exact=False):
        of = of or self.served
        chunks = list(self.scan(of))
        keys = [key for chunk in chunks for key in chunk.keys.to_pylist()]
        gallery = np.concatenate([chunk.vectors for chunk in chunks])
        if of.metric == "cosine":
            gallery, vectors = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (gallery, vectors))
        scores = vectors @ gallery.T
        best = np.argsort(-scores, axis=1)[:, :k]
        return Hits([[keys[i] for i in row] for row in best], np.take_along_axis(scores, best, 1))

    def _set_roles(self, **roles):
        with self.db:
            names = {role: self._role(role).name for role in roles}
            for role, becomes in roles.items():
                self.db.execute("UPDATE fields SET role = ? WHERE name = ?", (becomes, names[role]))

    def switch(self):
        self._set_roles(served="old", new="served")

    def switch_back(self):
        self._set_roles(served="new", old="served")

    def drop_new(self):
        name = self.new.name
        with self.db:
            self.db.execute("DELETE FROM vectors WHERE field = ?", (name,))
            self.db.execute("DELETE FROM fields WHERE name = ?", (name,))

    @contextmanager
    def lock(self):
        handle = os.open(f"{self.address.file}.lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise StoreError(f"{self.address} is being migrated by another process: wait for it.") from error
        finally:
            os.close(handle)

    def close(self):
        self.db.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
