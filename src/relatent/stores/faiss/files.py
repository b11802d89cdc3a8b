"""The files of a migration beside an index: which of them is at the path, and how another takes its place."""

from __future__ import annotations

import errno
import filecmp
import json
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from relatent._files import NO_LINKS, atomic_write, fsync
from relatent.stores.parts import Parts
from relatent.stores.roles import Roles


class Files:
    """An index file and the folder beside it (:mod:`relatent.stores.faiss`)."""

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
        switched = noted.dropping or (noted.second is not None and self._is_switched())
        return replace(noted, switched=switched)

    def write_note(self, roles: Roles) -> None:
        """Note the fields, in place of what was noted."""
        self.folder.mkdir(exist_ok=True)
        with atomic_write(self.folder / "fields.json") as aside:
            aside.write_text(json.dumps(roles.note(), indent=1), "utf8")

    def remove_note(self) -> None:
        """Forget the fields: the index says all that is to be said of the one that is served."""
        (self.folder / "fields.json").unlink(missing_ok=True)

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
        with atomic_write(self.folder / "built.json") as aside:
            aside.write_text(json.dumps([file.name for file in self.parts.files()]), "utf8")
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
        except FileNotFoundError:  # it was switched between the two looks
            return self._is_switched()


def identity(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced or written to."""
    about = path.stat()
    return about.st_ino, about.st_size, about.st_mtime_ns


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
        with atomic_write(name) as aside:
            shutil.copyfile(path, aside)
