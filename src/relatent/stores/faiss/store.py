"""The store over one FAISS index file; :mod:`relatent.stores.faiss` says how it is laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent._linalg import unit_norm
from relatent.spaces.chunks import Chunk, Layout
from relatent.spaces.io.formats.npy import ids_beside
from relatent.stores.address import Address, StoreError
from relatent.stores.checks import (
    NUMERIC_METRICS,
    RoleKeeper,
    as_queries,
    as_vectors,
    check_addable,
    check_kind,
    check_new,
    check_old,
    check_one_of,
    check_whole,
    cut,
    readable,
    same_kind,
)
from relatent.stores.codes import decoded, is_coded, read_as
from relatent.stores.faiss.files import Files, identity
from relatent.stores.faiss.index import (
    TRAINED_PER_LIST,
    IndexRows,
    empty_like,
    faiss,
    flat,
    metric_of,
    read_index,
    search_index,
    write_index,
)
from relatent.stores.faiss.items import Items, read_items
from relatent.stores.locks import file_lock
from relatent.stores.roles import Roles
from relatent.stores.store import Field, Hits, Shard, Unreadable

# Vectors that are scanned, and become a part, at a time: less than what the system maps anew each time it is asked for.
CHUNK_BYTES = 16 * 2**20
HELD = dict.fromkeys(("float32", "float16", "int8", "uint8"), NUMERIC_METRICS)


class FaissStore(RoleKeeper):
    """An index file with its keys (:mod:`relatent.stores.faiss`)."""

    writes_while_read = True

    def __init__(self, address: Address) -> None:
        self.address, self._file = address, address.file.resolve()
        if not self._file.is_file():
            raise StoreError(f"{address} is not there: check the path.")
        self._files = Files(self._file)
        self._loaded: dict[Path, tuple[Any, IndexRows]] = {}
        self._items: tuple[Any, Items] | None = None
        _ = self._served_items()

    # Roles ---------------------------------------------------------------------------------------------------------

    def _current(self) -> Roles:
        noted = self._files.read_note()
        if noted is not None:
            return noted
        return Roles(self._described())

    def _described(self) -> Field:
        """Describe the served index by what its file says."""
        index = self._load(self._file).index
        return Field(self._file.stem, index.d, "float32", metric_of(index))

    # Rows ----------------------------------------------------------------------------------------------------------

    def count(self, of: Field, shard: Shard | None = None) -> int:
        """Count the items that have a vector in a field."""
        items = self._served_items()
        low, high = items.within(shard)
        return int(np.count_nonzero(self._has(of, items)[low:high]))

    def shards(self, rows: int) -> list[Shard]:
        """Cut the sorted keys into shards of so many rows."""
        return cut(self._served_items().keys, rows)

    def state(self, shard: Shard) -> str | None:
        """Return what tells the files of now from others."""
        return repr(self._identity())

    def scan(
        self,
        of: Field,
        *,
        shard: Shard | None = None,
        rows: int | None = None,
        columns: Sequence[str] | None = (),
        unreadable: Unreadable | None = None,
    ) -> Iterator[Chunk]:
        """Return the items in order of their keys, from the index as it is now."""
        items, vectors = self._served_items(), self._rows(of)
        known = items.rows_of_ids(vectors.ids)
        place = np.full(len(items.ids), -1)
        place[known[known >= 0]] = np.flatnonzero(known >= 0)
        low, high = items.within(shard)
        wanted = low + np.flatnonzero(place[low:high] >= 0)
        names = items.table.column_names if columns is None else [items.key, *(c for c in columns if c != items.key)]
        layout = Layout(of.name, items.key, (*names, of.name))
        size, start = rows or max(1, CHUNK_BYTES // (of.dim * read_as(of).itemsize)), 0
        for first in range(0, len(wanted), size):
            part = wanted[first : first + size]
            found = vectors.take(place[part]).astype(read_as(of), copy=False)
            others = items.table.select(names).take(pa.array(part))
            fine = readable(self.address, others.column(items.key), found, unreadable)
            if not fine.all():
                found, others = found[fine], others.filter(pa.array(fine))
            yield Chunk(start, found, others, layout)
            start += len(found)

    def _served_items(self) -> Items:
        state = self._identity()
        if self._items is None or self._items[0] != state:
            self._items = (state, read_items(self.address, self._file, self._load(self._file).ids))
        return self._items[1]

    def _identity(self) -> tuple[Any, ...]:
        beside = ids_beside(self._file)
        return identity(self._file), None if beside is None else identity(beside)

    def _load(self, path: Path) -> IndexRows:
        """Read an index, once as long as its file is the same."""
        state = identity(path)
        if path not in self._loaded or self._loaded[path][0] != state:
            self._loaded[path] = (state, IndexRows(read_index(path), str(path)))
        return self._loaded[path][1]

    def _rows(self, of: Field) -> IndexRows:
        """Return the vectors of a field; those of the new one are gathered from its parts until its index is built."""
        role = self._role(of)
        if role == "served":
            return self._load(self._file)
        built = self._built(role)
        if built is not None and (role == "old" or self._files.holds_all_parts()):
            return self._load(built)
        state = (*self._files.parts.files(), None if built is None else identity(built))
        place = self._files.folder
        if place not in self._loaded or self._loaded[place][0] != state:
            self._loaded[place] = (state, IndexRows(self._gathered(flat(of)), str(self.address)))
        return self._loaded[place][1]

    def _built(self, role: str) -> Path | None:
        """Return the index file of a role, if there is one; refuse one whose ids are rows of other keys."""
        file = self._files.index(role, self._served_items().hash)
        if file.exists():
            return file
        if self._files.any_index(role) is not None and not self._files.parts.files():
            raise StoreError(
                f"The keys beside {self.address} have changed since the {role} index was built, so its ids name other "
                "rows: bring the keys back, or drop the new field and start again."
            )
        return None

    def _role(self, of: Field) -> str:
        name = check_one_of(self.address, of, self.served, self.new, self.old).name
        return "served" if name == self.served.name else "new" if self.new is not None else "old"

    def _has(self, of: Field, items: Items) -> np.ndarray:
        """Return which items have a vector in a field, without reading the vectors of parts."""
        role, has = self._role(of), np.zeros(len(items.ids), bool)
        file = self._file if role == "served" else self._built(role)
        known = [] if file is None else [items.rows_of_ids(self._load(file).ids)]
        if role == "new":
            known += [items.rows_of_keys(keys) for keys in self._files.parts.all_keys()]
        for rows in known:
            has[rows[rows >= 0]] = True
        return has

    # The new field -------------------------------------------------------------------------------------------------

    def add(self, new: Field) -> Field:
        """Note the new field; its index is made of what is written."""
        if not check_addable(self.address, new, self.new, self.old):
            return new
        check_kind(self.address, new, HELD)
        if new.name == self.served.name:
            raise StoreError(f"{self.address} serves {new.name!r} already: give the new field another name.")
        self._files.clear()  # what an earlier migration left
        self._files.parts.make_folder()
        self._files.write_note(Roles(self.served, new))
        return new

    def write(self, into: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Write a part beside the others."""
        new = check_new(self.address, self.new, into)
        kept = as_vectors(self.address, new, vectors)
        kept = unit_norm(kept) if new.metric == "cosine" and not is_coded(new) else kept
        if len(kept):
            self._files.parts.write(same_kind(self.address, keys, self._served_items().keys.type), kept)

    def _written(self) -> Iterator[tuple[pa.Array, np.ndarray]]:
        """Return keys and vectors that were written, from the last on; at the end those of an index without parts."""
        new = check_new(self.address, self.new)
        for keys, stored in self._files.parts.newest_first():
            yield keys, decoded(new, stored)
        items, built = self._served_items(), self._built("new")
        if built is not None:
            rows = self._load(built)
            known = np.flatnonzero(items.rows_of_ids(rows.ids) >= 0)
            yield items.keys.take(pa.array(items.rows_of_ids(rows.ids[known]))), rows.take(known)

    def _gathered(self, inner: Any) -> Any:
        """Put what was written for items of the store into an index, the last of each key."""
        items, index = self._served_items(), faiss().IndexIDMap2(inner)
        seen = np.zeros(len(items.ids), bool)
        for keys, vectors in self._written():
            rows = items.rows_of_keys(keys)
            rows, back = np.unique(rows[::-1], return_index=True)  # the last of a key that is in a part twice
            taken = (rows >= 0) & ~seen[rows]
            seen[rows[taken]] = True
            found = vectors[len(vectors) - 1 - back[taken]]
            index.add_with_ids(np.ascontiguousarray(found, dtype=np.float32), items.ids[rows[taken]])
        return index

    def remove_orphans(self, of: Field) -> int:
        """Leave out of the parts, and of an index that is built, what was written for keys that are gone."""
        new, items = check_new(self.address, self.new, of), self._served_items()
        written, built = self._files.parts.all_keys(), self._built("new")
        keys = pc.unique(pa.concat_arrays(written)) if written else items.keys.slice(0, 0)
        gone = keys.filter(pa.array(items.rows_of_keys(keys) < 0))
        self._files.parts.drop(gone)
        indexed = 0 if built is None else int(np.count_nonzero(items.rows_of_ids(self._load(built).ids) < 0))
        if indexed:
            self.build_index(new)
        return max(len(gone), indexed)

    def build_index(self, of: Field) -> None:
        """Write the new index, of the kind of the served one. The parts are kept until it is served."""
        if self._role(of) != "new":
            return
        sample, served = np.empty((0, of.dim), np.float32), self._load(self._file).index
        wanted = TRAINED_PER_LIST * getattr(faiss().try_extract_index_ivf(served), "nlist", 0)
        for _, vectors in self._written() if wanted else ():
            sample = np.concatenate([sample, vectors])
            if len(sample) >= wanted:
                break
        index = self._gathered(empty_like(served, of, sample))
        target = self._files.index("new", self._served_items().hash)
        write_index(index, target)
        self._files.note_built(target)

    def search(self, vectors: np.ndarray, k: int, *, of: Field | None = None, exact: bool = False) -> Hits:
        """Search with the index; ``exact`` compares with every vector."""
        items = self._served_items()
        rows, field = (self._load(self._file), self.served) if of is None else (self._rows(of), of)
        index = self._exact(rows, field) if exact and not rows.is_exact else rows.index
        queries = as_queries(self.address, replace(field, dim=index.d), vectors)  # what was read, not what was noted
        ids, scores = search_index(index, field.metric, queries, k)
        found = items.rows_of_ids(ids.ravel()).reshape(ids.shape)
        keys = items.keys.take(pa.array(np.maximum(found, 0).ravel())).to_pylist() if len(items.ids) else []
        width = ids.shape[1]
        return Hits([[keys[i * width + j] for j in np.flatnonzero(row >= 0)] for i, row in enumerate(found)], scores)

    def _exact(self, rows: IndexRows, field: Field) -> Any:
        index = faiss().IndexIDMap2(flat(Field(field.name, field.dim, "float32", field.metric)))
        index.add_with_ids(np.ascontiguousarray(rows.take(np.arange(len(rows.ids))), dtype=np.float32), rows.ids)
        return index

    # Cutover -------------------------------------------------------------------------------------------------------

    def switch(self) -> None:
        """Link the served file into the folder, then rename the new one onto its path."""
        check_new(self.address, self.new)
        built = self._built("new")
        if built is None or not self._files.holds_all_parts():
            raise StoreError(
                f"The new index of {self.address} is not built of all that was written, for the keys of now: build it."
            )
        self._files.serve(built, self._files.index("old", self._served_items().hash))
        self._files.parts.remove()

    def switch_back(self) -> None:
        """Link the served file into the folder, then rename the old one back onto its path."""
        roles = self._current()
        check_whole(self.address, roles.old, roles.dropping)
        self._files.parts.make_folder()
        kept = self._built("old")
        assert kept is not None  # an old field is an old file
        self._files.serve(kept, self._files.index("new", self._served_items().hash))

    def drop_new(self) -> None:
        """Remove the note of the new index, then the index and its parts."""
        roles = self._current()
        check_new(self.address, roles.new)
        if roles.served == self._described():
            self._files.remove_note()
        else:  # served since an earlier migration, whose provenance is kept
            self._files.write_note(Roles(roles.served))
        self._clear()

    def drop_old(self) -> None:
        """Note that the old index goes, remove it, and note that it is gone."""
        roles = self._current()
        check_old(self.address, roles.old)
        self._files.write_note(replace(roles, dropping=True))
        self._clear()
        self._files.write_note(roles.finished)

    def _clear(self) -> None:
        self._files.clear()
        self._loaded = {path: loaded for path, loaded in self._loaded.items() if path == self._file}

    def lock(self) -> AbstractContextManager[None]:
        """Lock a file in the folder."""
        self._files.folder.mkdir(exist_ok=True)
        return file_lock(self._files.folder / "lock", self.address)

    def close(self) -> None:
        """Free the memory of the indexes."""
        self._loaded.clear()
        self._items = None
