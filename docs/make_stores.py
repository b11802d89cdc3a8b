"""Write the tables of docs/stores.md and docs/migrate.md from the stores themselves: ``python docs/make_stores.py``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from relatent.stores import STORES, Store
from relatent.stores.base import Form
from relatent.stores.fields import CODES, NUMERIC_METRICS, any_of

DOCS = Path(__file__).parent
MARK = "python docs/make_stores.py"


def pages() -> dict[Path, str]:
    """Return the pages with their tables made again."""
    tables = {"stores.md": {"urls": urls(), "dtypes": dtypes()}, "migrate.md": {"dropped": dropped(), "reads": reads()}}
    return {DOCS / name: _filled((DOCS / name).read_text("utf8"), found) for name, found in tables.items()}


def _filled(text: str, tables: dict[str, str]) -> str:
    """Put tables in place of those that stand between two comments of their names."""
    for name, table in tables.items():
        before, start, rest = text.partition(f"<!-- {name}: {MARK} -->\n\n")
        _, end, after = rest.partition(f"\n\n<!-- /{name} -->")
        if not end:
            raise ValueError(
                f"There is no place for the table {name!r}: expected <!-- {name}: {MARK} --> and <!-- /{name} -->."
            )
        text = before + start + table + end + after
    return text


def urls() -> str:
    """Return what a URL of each store opens, what the new field is there, and what a switch is."""
    rows = [
        (
            form.title,
            f"`{form.url}`{', or the path' * bool(store.suffixes)}",
            f"`{store.extra}`",
            form.new_field,
            form.switch,
        )
        for store in STORES
        for form in store.forms
    ]
    return _table(("store", "URL", "extra", "the new field is", "a switch is"), rows)


def dropped() -> str:
    """Return what is gone when a migration is finished."""
    return _table(("store", "what is dropped"), [(form.title, form.dropped) for form in _forms()])


def reads() -> str:
    """Return what an application does before the cutover, and what that does."""
    rows = [(form.title, form.reads, form.switch) for form in _forms()]
    return _table(("store", "your application", "the cutover"), rows)


def _forms() -> list[Form]:
    """Return the forms whose migrations differ, and not by the URL alone."""
    every = {(form.reads, form.switch, form.dropped): form for store in STORES[::-1] for form in store.forms[::-1]}
    return list(every.values())[::-1]


def dtypes() -> str:
    """Return what a new field of each store can hold."""
    engines = {store.extra: store for store in STORES[::-1]}  # the first of those that share an extra
    rows = [(_name(store), _floats(store), _codes(store), _bits(store)) for store in list(engines.values())[::-1]]
    return _table(("store", "float32, float16", "int8, uint8", "bit"), rows)


def _name(store: type[Store]) -> str:
    return store.forms[0].title.split(",")[0]


def _floats(store: type[Store]) -> str:
    held = [dtype for dtype in ("float32", "float16") if dtype in store.holds]
    return "yes" if len(held) == 2 else any_of(held)


def _codes(store: type[Store]) -> str:
    held = [dtype for dtype in CODES if dtype in store.holds]
    if not held:
        return f"no. {store.no_codes}"
    metrics = store.holds[held[0]]
    by = "every metric" if metrics == NUMERIC_METRICS else any_of([f"`{metric}`" for metric in metrics])
    return f"{' and '.join(held)}, compared by {by}"


def _bits(store: type[Store]) -> str:
    return f"compared by {any_of([f'`{metric}`' for metric in store.holds['bit']])}" if "bit" in store.holds else "no"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows))


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf8")
