"""The page of results, made from the records that are committed: ``python -m experiments.page``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from experiments.data.source import SOURCE
from experiments.figures import save
from experiments.items import ITEMS, PAPERS, UNTESTED, Item
from experiments.published import source
from experiments.results import COMMITTED, HUB, Finding, Record, largest
from experiments.show import markdown_table, verdict

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
PICTURES = PAGE.parent / "results"

OPENING = """# The papers, reproduced

This page is made by `python -m experiments.page` from the records in `experiments/results`; no figure on it is typed.
Each item is one command, on data that install from package registries; `make reproduce` runs them all. Encoders and
data differ from the papers' where they must, and each item says how: compare the shape of a table, not its last
digit. *Ours* marks the default of relatent, which is not in the papers. Where an item was run in several sizes, the
largest is shown. `python -m experiments --list` names the commit of each record and what has changed since.

The papers' own encoders and data are on hubs that not every computer reaches. Whoever does gets their tables by one
command, and the records lie beside those of packages:

```bash
pip install 'relatent[hub]'
python -m experiments --all --full --source hub --hub FOLDER --words fastText.vec GoogleNews-vectors-negative300.bin
```

FOLDER has what no hub has, as its authors publish it: `datasets/WikiMatrix/WikiMatrix.en-es.tsv.gz` (and `fr`, `ja`),
`datasets/N24News` with `news/` and `imgs/`, and `datasets/amazon_reviews_multi`, which is on no hub any more, with
`en/`, `es/`, `fr/` and `ja/` in Parquet. What is in `models/NAME` or `datasets/NAME` there is not downloaded. Records
name every model and data set with its revision. `--keep-models FOLDER` keeps the trained networks, for
`--models FOLDER` elsewhere. The tests run each item on such a folder, with every model in its own class and tiny
(`make test-exports`); no record on this page is from a hub unless its title says so.
"""


def render(folder: Path = COMMITTED) -> str:
    """Return the page as Markdown."""
    records = {name: found for name in ITEMS if (found := largest(folder, name))}
    parts = [OPENING, *_headlines({name: found[0] for name, found in records.items()})]
    for paper, title in PAPERS.items():
        parts += [
            f"## {title}\n",
            *(_section(ITEMS[name], r) for name, found in records.items() if ITEMS[name].paper == paper for r in found),
        ]
    lacking = [name for name in ITEMS if name not in records]
    parts += [f"Not run yet: {', '.join(lacking)}.\n"] if lacking else []
    return "\n".join(parts)


def _headlines(records: dict[str, Record]) -> Iterator[str]:
    yield "## Which published findings held\n"
    yield (
        "Each verdict applies to the encoders and data used here, most of which are not the papers'. Where a finding "
        "did not hold, it may still hold for the paper's own.\n"
    )
    for name, record in records.items():
        for finding in (one for one in record.result.findings if one.headline):
            yield f"- **{verdict(finding)}**: {_sentences(finding)} ([{name}](#{name}))"
    every = [one.held for record in records.values() for one in record.result.findings]
    yield f"\nThese are the main ones. Of all {len(every)} claims that the items below judge, {sum(every)} held.\n"
    yield "## Every finding\n"
    yield (
        "The size is that of the networks and grids, and the number of anchors and seeds; encoders and data, with "
        "their rows, are those that each item names. Claims about *ours* and questions that the papers leave open are "
        "judged as well.\n"
    )
    yield from _every_finding(records)


def _every_finding(records: dict[str, Record]) -> Iterator[str]:
    yield "| paper | finding | here | size | figures, ours and the paper's | item |"
    yield "|---|---|---|---|---|---|"
    for name, record in records.items():
        size = "smaller" if record.size != "full" else record.result.smaller or "the paper's"
        for one in record.result.findings:
            cells = (ITEMS[name].paper, one.claim, verdict(one).lower(), size, one.evidence, f"[{name}](#{name})")
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    complete = {name for name, record in records.items() if record.size == "full"}
    for paper, claim, reason, *judged_by in UNTESTED:
        if not complete.intersection(judged_by):
            yield f"| {paper} | {claim} | not tested here | | {reason} | |"
    yield ""


def _section(item: Item, record: Record) -> str:
    name, title = anchor(record), item.shows + (f", from a {HUB}" if record.source == HUB else "")
    result, lines = record.result, [f"({name})=", f"### {title}\n"]
    about = [f"`{record.command}`", f"size {record.size}", f"{result.seeds} seeds" if result.seeds > 1 else "one seed"]
    about += [result.smaller] if record.size == "full" and result.smaller else []
    lines.append(f"{', '.join(about)}. Published: {source(item.name)}.")
    lines += [f"Data: {'; '.join(result.data)}."] if result.data else []
    for table in result.tables:
        lines += [f"\n{table.title}\n", markdown_table(table)]
    if (PICTURES / f"{name}.png").is_file():
        lines.append(f"\n![{title}](results/{name}.png)")
    if result.stand_ins:
        lines += [
            "\n| the paper has | here stands |",
            "|---|---|",
            *(f"| {a} | {b} |" for a, b in result.stand_ins.items()),
        ]
    lines += ["", *(f"- {verdict(one)}: {_sentences(one)}" for one in result.findings)]
    lines += [f"\n{note}" for note in result.notes]
    return "\n".join(lines) + "\n"


def anchor(record: Record) -> str:
    """Return the name of a record's section, and of its picture."""
    return record.item + (f"-{HUB}" if record.source == HUB else "")


def _sentences(finding: Finding) -> str:
    """Return the claim and its evidence as two sentences."""
    return f"{finding.claim}. {finding.evidence[:1].upper()}{finding.evidence[1:].rstrip('.')}."


def draw_pictures(folder: Path = COMMITTED, into: Path = PICTURES) -> None:
    """Draw the picture of every record that has one."""
    shutil.rmtree(into, ignore_errors=True)
    for name, item in ITEMS.items():
        for record in largest(folder, name):
            module = item.load()
            if hasattr(module, "draw"):
                token = SOURCE.set(record.source)
                photos = getattr(module, "PHOTOS", False)
                save(module.draw(record.result), into / f"{anchor(record)}.png", photos=photos)
                SOURCE.reset(token)


def main() -> None:
    """Draw the pictures, then write the page, which shows those that are there."""
    draw_pictures()
    PAGE.write_text(render(), encoding="utf8")
    print(f"{PAGE} and {len(list(PICTURES.glob('*.png')))} pictures")


if __name__ == "__main__":
    main()
