"""FAISS index files: ``faiss:///folder/index.faiss``, or the path.

Keys stand in a file beside (``index.keys.parquet``, ``index.ids.txt`` and the other names that go with an .npy), row i
for FAISS's id i; without such a file the ids are the keys. Old and new index share it, so one rename switches both.

What belongs to a migration is in the folder ``index.faiss.relatent``:

=================  ==================================================================================
fields.json        the field that was served first, and the one that was added
parts/             one file per write, each written atomically
built.json         which parts the new index holds
new-KEYS.faiss     the new index, as the served one has it; KEYS is the hash of the keys it was built for
old-KEYS.faiss     after the switch: the very index file that was served
=================  ==================================================================================

Codes are kept in FAISS's scalar quantizers, whose files hold the scale: queries are asked as they are.

The path itself is what is served, for every reader: a switch links the old file into the folder, then renames the new
one onto the path.
"""

from __future__ import annotations

import errno
import filecmp
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from relatent._errors import StoreError
from relatent._files import NO_LINKS, atomic_write, fsync
from relatent._linalg import unit_norm
from relatent.spaces.io.formats.npy import IDS, ids_beside
from relatent.spaces.sample import sample_rows
from relatent.stores.base import Effort, Form, Found, Purpose, Rows, Scan, Session, Shard, Store, every_nth
from relatent.stores.faiss_index import (
    NO_KEYS,
    TRAINED_PER_LIST,
    IndexRows,
    Items,
    empty_like,
    faiss,
    filled_like,
    flat,
    metric_of,
    read_index,
    read_items,
    write_index,
)
from relatent.stores.fields import NUMERIC_METRICS, Field, Roles, decoded, is_coded, lock_file, read_as
from relatent.stores.parts import Parts

T = TypeVar("T")


class FaissStore(Store):
    """An index file with its keys (:mod:`relatent.stores.faiss`)."""

    schemes = ("faiss",)
    suffixes = (".faiss",)
    extra = "faiss"
    forms = (
        Form(
            "FAISS",
            "faiss:///folder/index.faiss",
            "an index file beside",
            "one rename onto the path",
            "opens the index file as before",
            "the old index file",
        ),
    )
    holds = dict.fromkeys(("float32", "float16", "int8", "uint8"), NUMERIC_METRICS)
    writes_while_read = True
    # Less than what the system maps again each time it is asked for; what is scanned becomes a part.
    chunk_bytes = 16 * 2**20

    def _open(self) -> None:
        self._file = self.address.file.resolve()
        self._cached: dict[Path | str, tuple[Any, Any]] = {}
        if not self._file.is_file():
            raise StoreError(f"{self.address} is not there: check the path.")
        self._files = Files(self._file)
        self._closing.callback(self._cached.clear)
        _ = self._items

    @contextmanager
    def _session(self, purpose: Purpose = "read") -> Iterator[Session]:
        roles = self._files.read_note() or Roles(self._described())
        yield Session(roles, self._items.key)

    def _described(self) -> Field:
        """Describe the served index by what its file says."""
        index = self._load(self._file).index
        return Field(self._file.stem, index.d, "float32", metric_of(index))

    # Rows ------------------------------------------------------------------------------------------------------------

    @property
    def _items(self) -> Items:
        """The items of the served index, read once as long as the files are the same."""
        file = self._file
        return self._once("items", self._identity(), lambda: read_items(self.address, file, self._load(file).ids))

    def _identity(self) -> tuple[Any, ...]:
        beside = ids_beside(self._file)
        return identity(self._file), None if beside is None else identity(beside)

    def _load(self, path: Path) -> IndexRows:
        """Read an index, once as long as its file is the same."""
        return self._once(path, identity(path), lambda: IndexRows(read_index(path), str(path)))

    def _once(self, name: Path | str, state: Any, make: Callable[[], T]) -> T:
        if name not in self._cached or self._cached[name][0] != state:
            self._cached[name] = (state, make())
        made: T = self._cached[name][1]
        return made

    def _count(self, session: Session, of: Field, shard: Shard) -> int:
        return int(np.count_nonzero(self._filled(session.roles, of)[slice(*self._items.within(shard))]))

    def unfilled(self, of: Field) -> int:
        """Count the items of the served index that a field has no vector of."""
        return len(self._items.ids) - self.count(of)

    def _keys_of(self, of: Field, shard: Shard | None) -> pa.Array:
        with self._session() as session:
            items, filled = self._items, self._filled(session.roles, self._find(session.roles, of))
        low, high = items.within(shard or Shard())
        return items.keys.slice(low, high - low).filter(pa.array(filled[low:high]))

    def _filled(self, roles: Roles, of: Field) -> np.ndarray:
        """Return which items have a vector, without reading the vectors of parts."""
        items, role = self._items, _role(roles, of)
        has, file = np.zeros(len(items.ids), bool), self._file if role == "served" else self._built(role)
        known = [] if file is None else [items.rows_of_ids(self._load(file).ids)]
        if role == "new":
            known += [items.rows_of_keys(keys) for keys in self._files.parts.all_keys()]
        for rows in known:
            has[rows[rows >= 0]] = True
        return has

    def _bounds(self, session: Session, rows: int) -> list[Any]:
        return every_nth(self._items.keys, rows)

    def state(self, shard: Shard) -> str | None:
        """Return what tells the files of now from others."""
        return repr(self._identity())

    def _scan(self, session: Session, asked: Scan) -> Rows:
        items, vectors = self._items, self._rows(session.roles, asked.of)
        known = items.rows_of_ids(vectors.ids)
        place = np.full(len(items.ids), -1)
        place[known[known >= 0]] = np.flatnonzero(known >= 0)
        low, high = items.within(asked.shard)
        wanted = low + np.flatnonzero(place[low:high] >= 0)
        table = items.table.select(asked.names(items.key, items.table.column_names))
        for first in range(0, len(wanted), asked.rows):
            part = wanted[first : first + asked.rows]
            yield table.take(pa.array(part)), vectors.take(place[part]).astype(read_as(asked.of), copy=False)

    def _rows(self, roles: Roles, of: Field) -> IndexRows:
        """Return the vectors of a field; those of the new one are gathered from its parts until its index is built."""
        role = _role(roles, of)
        if role == "served":
            return self._load(self._file)
        built = self._built(role)
        if built is not None and (role == "old" or self._files.holds_all_parts()):
            return self._load(built)
        state = (*self._files.parts.files(), None if built is None else identity(built))
        return self._once("parts", state, lambda: IndexRows(self._gathered(of, flat(of)), str(self.address)))

    def _built(self, role: str) -> Path | None:
        """Return the index file of a role, if there is one; refuse one whose ids are rows of other keys."""
        file = self._files.index(role, self._items.hash)
        if file.exists():
            return file
        if self._files.any_index(role) is not None and not self._files.parts.files():
            raise StoreError(
                f"The keys beside {self.address} have changed since the {role} index was built, so its ids name other "
                "rows: bring the keys back, or drop the new field and start over."
            )
        return None

    # The new field ---------------------------------------------------------------------------------------------------

    def _add(self, session: Session, new: Field) -> None:
        """Note the new field; its index is made of what is written."""
        self._files.clear()  # what an earlier migration left
        self._files.parts.make_folder()
        self._files.write_note(replace(session.roles, new=new))

    def _write(self, session: Session, new: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        self._check_keys(keys, self._items.keys.type)
        self._files.parts.write(keys, unit_norm(vectors) if new.metric == "cosine" and not is_coded(new) else vectors)

    def _written(self, new: Field) -> Iterator[tuple[pa.Array, np.ndarray]]:
        """Return keys and vectors that were written, from the last on; at the end those of an index without parts."""
        for keys, stored in self._files.parts.newest_first():
            yield keys, decoded(new, stored)
        items, built = self._items, self._built("new")
        if built is not None:
            rows = self._load(built)
            known = np.flatnonzero(items.rows_of_ids(rows.ids) >= 0)
            yield items.keys.take(pa.array(items.rows_of_ids(rows.ids[known]))), rows.take(known)

    def _gathered(self, new: Field, inner: Any) -> Any:
        """Put what was written for items of the store into an index, the last of each key."""
        items, index = self._items, faiss().IndexIDMap2(inner)
        seen = np.zeros(len(items.ids), bool)
        for keys, vectors in self._written(new):
            rows = items.rows_of_keys(keys)
            if (np.diff(rows) <= 0).any():  # as a shard is written, they rise
                rows, back = np.unique(rows[::-1], return_index=True)  # the last of a key that is in a part twice
                vectors = vectors[len(vectors) - 1 - back]
            taken = (rows >= 0) & ~seen[rows]
            if not taken.all():
                rows, vectors = rows[taken], vectors[taken]
            if len(rows):  # a part of items that are all gone has no width
                seen[rows] = True
                index.add_with_ids(np.ascontiguousarray(vectors, dtype=np.float32), items.ids[rows])
        return index

    def _remove_orphans(self, session: Session, new: Field, kept: frozenset[Any]) -> int:
        """Leave out of the parts, and of an index that is built, what was written for keys that are gone."""
        items, written, built = self._items, self._files.parts.all_keys(), self._built("new")
        keys = pc.unique(pa.concat_arrays(written)) if written else items.keys.slice(0, 0)
        gone = keys.filter(pa.array(items.rows_of_keys(keys) < 0))
        self._files.parts.drop(gone)
        indexed = 0 if built is None else int(np.count_nonzero(items.rows_of_ids(self._load(built).ids) < 0))
        if indexed:
            self._build_index(session, new)
        return max(len(gone), indexed)

    def _build_index(self, session: Session, of: Field) -> None:
        """Write the new index, of the kind of the served one. The parts are kept until it is served."""
        if not session.roles.is_new(of):
            return
        sample, served = np.empty((0, of.dim), np.float32), self._load(self._file).index
        wanted = TRAINED_PER_LIST * getattr(faiss().try_extract_index_ivf(served), "nlist", 0)
        for _, vectors in self._written(of) if wanted else ():
            sample = np.concatenate([sample, vectors])
            if len(sample) >= wanted:
                break
        index = self._gathered(of, empty_like(served, of, sample))
        target = self._files.index("new", self._items.hash)
        write_index(index, target)
        self._files.note_built(target)

    def _effort(self, session: Session, of: Field) -> Effort | None:
        return self._rows(session.roles, of).effort

    def _search(
        self, session: Session, of: Field, queries: np.ndarray, k: int, exact: bool, effort: int | None
    ) -> list[Found]:
        items, rows = self._items, self._rows(session.roles, of)
        self._as_queries(replace(of, dim=rows.index.d), queries)  # what was read, not what was noted
        asked = np.ascontiguousarray(unit_norm(queries) if of.metric == "cosine" else queries)
        if exact and not rows.is_exact:
            distances, ids = self._exact(rows, of).search(asked, k)
        else:
            distances, ids = rows.search(asked, k, effort)
        found = items.rows_of_ids(ids.ravel()).reshape(ids.shape)
        return [
            (items.keys.take(pa.array(row[row >= 0])).to_pylist(), scores[row >= 0])
            for row, scores in zip(found, distances, strict=True)
        ]

    def score(self, distances: np.ndarray, of: Field) -> np.ndarray:
        """Return products as they are, and minus the distance, of which FAISS gives the square."""
        return super().score(distances, of) if of.metric == "l2" else distances

    def _exact(self, rows: IndexRows, of: Field) -> Any:
        index = faiss().IndexIDMap2(flat(Field(of.name, rows.index.d, "float32", of.metric)))
        index.add_with_ids(np.ascontiguousarray(rows.take(np.arange(len(rows.ids))), dtype=np.float32), rows.ids)
        return index

    @contextmanager
    def rehearsal(self, rows: int) -> Iterator[str]:
        """Write an index of the same kind, its keys and its note into a folder beside the file."""
        served, items, chosen = self.served, self._items, sample_rows(len(self._items.ids), rows, seed=0)
        with TemporaryDirectory(dir=self._file.parent, prefix=f"{self._file.stem}-rehearsal-") as folder:
            file = Path(folder, self._file.name)
            ids = items.ids[chosen]
            vectors = self._load(self._file).take_ids(ids)
            if items.hash != NO_KEYS:
                ids = np.arange(len(chosen))
                pq.write_table(items.table.take(pa.array(chosen)), file.with_name(file.stem + IDS[0]))
            write_index(filled_like(self._load(self._file).index, vectors, ids), file)
            Files(file).write_note(None if served == self._described() else Roles(served))
            yield str(replace(self.address, path=folder, name=file.name))

    # Cutover ---------------------------------------------------------------------------------------------------------

    def _switch(self, session: Session, new: Field) -> None:
        """Link the served file into the folder, then rename the new one onto its path."""
        built = self._built("new")
        if built is None or not self._files.holds_all_parts():
            raise StoreError(
                f"The new index of {self.address} does not hold all that was written, for the current keys: build it."
            )
        self._files.serve(built, self._files.index("old", self._items.hash))
        self._files.parts.remove()

    def _switch_back(self, session: Session, old: Field) -> None:
        """Link the served file into the folder, then rename the old one back onto its path."""
        self._files.parts.make_folder()
        kept = self._built("old")
        assert kept is not None  # an old field is an old file
        self._files.serve(kept, self._files.index("new", self._items.hash))

    def _drop_new(self, session: Session, new: Field) -> None:
        """Remove the note of the new index, then the index and its parts."""
        served = session.roles.served
        # One that is served since an earlier migration has a provenance, which is kept.
        self._files.write_note(None if served == self._described() else Roles(served))
        self._clear()

    def _drop_old(self, session: Session, old: Field) -> None:
        """Note that the old index goes, remove it, and note that it is gone."""
        self._files.write_note(replace(session.roles, dropping=True))
        self._clear()
        self._files.write_note(session.roles.finished())

    def _clear(self) -> None:
        self._files.clear()
        for name in self._cached.keys() - {"items", self._file}:
            del self._cached[name]

    def lock(self) -> AbstractContextManager[object]:
        """Lock a file in the folder."""
        self._files.folder.mkdir(exist_ok=True)
        return lock_file(self._files.folder / "lock", self.address)


class Files:
    """An index file and the folder beside it: which of two indexes is at the path, and how another takes its place."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.folder = file.with_name(f"{file.name}.relatent")
        self.parts = Parts(self.folder / "parts")

    def read_note(self) -> Roles | None:
        """Return the fields that were noted; which one is served is told by the files."""
        try:
            noted = Roles.of_note(json.loads((self.folder / "fields.json").read_text("utf8")))
        except FileNotFoundError:
            return None
        return noted.switched(noted.dropping or (noted.second is not None and self._is_switched()))

    def write_note(self, roles: Roles | None) -> None:
        """Note the fields, in place of what was noted; None where the index itself tells all that is to be told."""
        note = self.folder / "fields.json"
        if roles is None:
            note.unlink(missing_ok=True)
            return
        self.folder.mkdir(exist_ok=True)
        with atomic_write(note) as tmp:
            tmp.write_text(json.dumps(roles.note(), indent=1), "utf8")

    def clear(self) -> None:
        """Remove what was written, and every index but the served one."""
        (self.folder / "built.json").unlink(missing_ok=True)
        self.parts.remove()
        for file in self.folder.glob("*.faiss"):
            file.unlink()

    def index(self, role: str, keys: str) -> Path:
        """Return the path of the index of a role, for the keys of this hash."""
        return self.folder / f"{role}-{keys}.faiss"

    def any_index(self, role: str) -> Path | None:
        """Return the index of a role, whatever keys it was built for."""
        return next(iter(sorted(self.folder.glob(f"{role}-*.faiss"))), None)

    def note_built(self, target: Path) -> None:
        """Note that an index holds all parts of now, and remove those for other keys."""
        with atomic_write(self.folder / "built.json") as tmp:
            tmp.write_text(json.dumps([file.name for file in self.parts.files()]), "utf8")
        for stale in self.folder.glob("new-*.faiss"):
            if stale != target:
                stale.unlink()

    def holds_all_parts(self) -> bool:
        """Return whether the index that was built last holds every part that there is."""
        noted: list[str] = []
        with suppress(FileNotFoundError):
            noted = json.loads((self.folder / "built.json").read_text("utf8"))
        return {file.name for file in self.parts.files()} <= set(noted)

    def serve(self, file: Path, keep_as: Path) -> None:
        """Put a file at the path, and what is there into the folder: for readers of the path it is one step."""
        _link(self.file, keep_as)
        os.replace(file, self.file)  # noqa: PTH105 (one name for every rename)
        fsync(self.folder)
        fsync(self.file.parent)

    def _is_switched(self) -> bool:
        """Return whether the path holds what was added. A killed switch leaves one of the two files there twice."""
        old, new = self.any_index("old"), self.any_index("new")
        try:
            return old is not None and (new is None or _same(new, self.file))
        except FileNotFoundError:  # it was switched in between
            return self._is_switched()


def identity(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced or written to."""
    about = path.stat()
    return about.st_ino, about.st_size, about.st_mtime_ns


def _role(roles: Roles, of: Field) -> str:
    return "served" if of.name == roles.served.name else "new" if roles.is_new(of) else "old"


def _same(a: Path, b: Path) -> bool:
    """Return whether two paths are one file, or hold the same where the file system has no links."""
    return a.samefile(b) or filecmp.cmp(a, b, shallow=False)


def _link(path: Path, name: Path) -> None:
    """Have a file under a second name; as a copy where the file system has no links."""
    name.unlink(missing_ok=True)
    try:
        os.link(path, name)
    except OSError as error:
        if error.errno not in (*NO_LINKS, errno.EXDEV):
            raise
        with atomic_write(name) as tmp:
            shutil.copyfile(path, tmp)
