"""The papers' own encoders and data sets, for those who reach a hub of models and data: ``--source hub``.

Texts go through seven language models, the vector of [CLS] in the last hidden state; pictures through seven networks of
timm, their pooled features, and CLIP's. What a hub does not have is read from ``--hub FOLDER``, which may also hold
copies of what it has: FOLDER/models/NAME and FOLDER/datasets/NAME take the place of NAME on the hub.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from experiments.data.groups import Group, cached
from experiments.data.words import read_vectors

import relatent as rl

FOLDER: ContextVar[Path | None] = ContextVar("folder", default=None)
"""The folder of --hub."""
ROWS_OF: dict[str, tuple[int, int] | None] = {"smoke": (300, 100), "quick": (6_000, 2_000), "full": None}
ROWS: ContextVar[tuple[int, int] | None] = ContextVar("rows", default=ROWS_OF["quick"])
"""At most so many rows of a data set to train on and to test; None takes all."""


@dataclass(frozen=True)
class Model:
    """An encoder: its name on the hub, what it reads, and its width; ``printed`` is the papers', if another."""

    path: str
    kind: str
    width: int = 768
    printed: int | None = None

    def load(self) -> rl.encode.Encoder:
        """Load it from the hub or from the folder."""
        where = local("models", self.path)
        if self.kind == "text":
            return rl.encode.transformer(where, pooling="cls", name=self.path)
        if self.kind == "clip text":
            return rl.encode.clip(where, name=self.path, normalize=False).text
        if self.kind == "clip image":
            return clip_pictures(where, self.path)
        return rl.encode.timm_model(where if where == self.path else f"local-dir:{where}", name=self.path)


CLIP = "openai/clip-vit-base-patch32"
# Table 4 of LST, tables 11, 12 and 14 of RR. The first prints 768 for CLIP's texts, which is the width of its pictures
# before both are mapped into one space, and for two networks widths that timm's weights do not have. What they call
# vit_base_resnet50_384 has another name today.
MODELS = {
    "BERT-c": Model("bert-base-cased", "text"),
    "BERT-u": Model("bert-base-uncased", "text"),
    "Electra": Model("google/electra-base-discriminator", "text"),
    "RoBERTa": Model("roberta-base", "text"),
    "ALBERT": Model("albert-base-v2", "text"),
    "XLM-R": Model("xlm-roberta-base", "text"),
    "CLIP, texts": Model(CLIP, "clip text", 512, printed=768),
    "RexNet": Model("rexnet_100", "image", 1_280),
    "ResNet": Model("resnet101", "image", 2_048, printed=1_280),
    "DarkNet": Model("cspdarknet53", "image", 1_024, printed=768),
    "ViT-small": Model("vit_small_patch16_224", "image", 384),
    "ViT-base": Model("vit_base_patch16_224", "image"),
    "ViT-base, 384": Model("vit_base_patch16_384", "image"),
    "ViT-ResNet": Model("vit_base_r50_s16_384", "image"),
    "CLIP": Model(CLIP, "clip image"),
    "RoBERTa, es": Model("PlanTL-GOB-ES/roberta-base-bne", "text"),
    "RoBERTa, fr": Model("ClassCat/roberta-base-french", "text"),
    "RoBERTa, ja": Model("nlp-waseda/roberta-base-japanese", "text"),
}
LANGUAGE = ("BERT-c", "BERT-u", "Electra", "RoBERTa", "ALBERT", "XLM-R", "CLIP, texts")
VISION = ("RexNet", "ResNet", "DarkNet", "ViT-small", "ViT-base", "ViT-base, 384", "ViT-ResNet", "CLIP")


def clip_pictures(where: str, name: str) -> rl.encode.Encoder:
    """Return the pooled vectors of CLIP's pictures, 768 wide, before they are mapped into the space of its texts."""
    import torch
    import transformers

    model = transformers.CLIPVisionModel.from_pretrained(where).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(where)

    def run(pictures: Sequence[Any]) -> np.ndarray:
        given = processor(images=[rl.encode.image.open_image(one) for one in pictures], return_tensors="pt")
        with torch.inference_mode():
            return model(**given).pooler_output.numpy()

    revision = rl.encode.text.revision_of(where, None, model)
    return rl.encode.function(run, name, revision=revision, pooling="cls", kind="image")


@dataclass(frozen=True)
class DataSet:
    """A data set of a hub: its name and configuration, the columns of items and labels, and its splits."""

    path: str
    item: str
    label: str
    config: str | None = None
    splits: tuple[str, str] = ("train", "test")
    revision: str | None = None
    share: float = 1.0

    def part(self, number: int) -> list[dict[str, Any]]:
        """Return the rows of the part to train on (0) or to test (1); of a larger one a sample."""
        rows, most = load_dataset(self.path, self.config, self.splits[number], self.revision), ROWS.get()
        count = min(round(self.share * len(rows)) if number == 0 else len(rows), most[number] if most else len(rows))
        return list(rows.select(sorted(random.Random(0).sample(range(len(rows)), count))))

    def read(self) -> tuple[list[Any], np.ndarray, int]:
        """Return items, labels, and how many of the first are to train on."""
        parts = [self.part(0), self.part(1)]
        rows = [row for part in parts for row in part]
        return [self.read_item(row) for row in rows], np.asarray([row[self.label] for row in rows]), len(parts[0])

    def read_item(self, row: Mapping[str, Any]) -> Any:
        """Return what an encoder reads of a row."""
        return row[self.item]


@dataclass(frozen=True)
class Reviews(DataSet):
    """Amazon reviews: the title is a prefix of the body, with a full stop where it ends in a letter (RR A.5.6)."""

    def read_item(self, row: Mapping[str, Any]) -> str:
        """Return title and body as one text."""
        return titled(row["review_title"] or "", row[self.item])


@dataclass(frozen=True)
class News(DataSet):
    """N24News, as its authors publish it: ``news/nytimes_train.json`` and ``…_test.json``, and ``imgs/ID.jpg``."""

    def part(self, number: int) -> list[dict[str, Any]]:
        """Return the rows of a part, their sections as numbers, in the order of all sections."""
        import json

        folder = in_folder(self.path)
        parts = [json.loads((folder / "news" / f"nytimes_{one}.json").read_text("utf8")) for one in self.splits]
        number_of = {name: i for i, name in enumerate(sorted({row["section"] for part in parts for row in part}))}
        rows, most = parts[number], ROWS.get()
        rows = random.Random(0).sample(rows, min(len(rows), most[number] if most else len(rows)))
        return [
            {**row, "section": number_of[row["section"]], "image": str(folder / "imgs" / f"{row['image_id']}.jpg")}
            for row in rows
        ]


# Data sets that a hub holds as scripts are read as it has converted them.
CONVERTED = "refs/convert/parquet"
CIFAR100 = "uoft-cs/cifar100"
DATA: dict[str, DataSet] = {
    "MNIST": DataSet("ylecun/mnist", "image", "label"),
    "Fashion-MNIST": DataSet("zalando-datasets/fashion_mnist", "image", "label"),
    "CIFAR-10": DataSet("uoft-cs/cifar10", "img", "label"),
    "CIFAR-100": DataSet(CIFAR100, "img", "fine_label"),
    "CIFAR-100 coarse": DataSet(CIFAR100, "img", "coarse_label"),
    "ImageNet1k": DataSet("ILSVRC/imagenet-1k", "image", "label", splits=("train", "validation"), share=0.2),
    "TREC": DataSet("CogComp/trec", "text", "coarse_label", revision=CONVERTED),
    "DBpedia": DataSet("fancyzhx/dbpedia_14", "content", "label"),
    "AG News": DataSet("fancyzhx/ag_news", "text", "label"),
    "IMDB": DataSet("stanfordnlp/imdb", "text", "label"),
    "20 Newsgroups": DataSet("SetFit/20_newsgroups", "text", "label"),
    **{
        f"Amazon reviews, {language}": Reviews("amazon_reviews_multi", "review_body", "stars", config=language)
        for language in ("en", "es", "fr", "ja")
    },
    "N24News, texts": News("N24News", "body", "section"),
    "N24News, images": News("N24News", "image", "section"),
}


WORDS: ContextVar[tuple[Path, Path] | None] = ContextVar("words", default=None)
"""The files of --words: fastText's vectors, then word2vec's."""
VOCABULARY, SKIPPED, FREQUENT = 20_000, 400, 200_000


def load_hub_group(data: str, models: Sequence[str]) -> Group:
    """Return a data set through several models, each of them encoded once, with labels and the data's own split."""
    if data == "words":
        return word_vectors()
    parts = {name: _cached(f"{data} through {name}", data, name) for name in models}
    first = next(iter(parts.values()))
    spaces = {name: part.spaces["x"] for name, part in parts.items()}
    return Group(spaces, first.labels, train=first.train, origin="\n".join(sorted({p.origin for p in parts.values()})))


def word_vectors() -> Group:
    """Return fastText and word2vec on words that both know: of four letters or more, without the 400 most frequent."""
    given = WORDS.get()
    if given is None:
        raise SystemExit("Word vectors are on no hub: give the files of fastText and word2vec, --words A.vec B.bin.")

    def build() -> Group:
        first = read_vectors(given[0], FREQUENT)
        letters = [word for word in first if word.isalpha() and len(word) >= 4]
        second = read_vectors(given[1], wanted=set(letters))
        shared = [word for word in letters if word in second]
        keys = shared[min(SKIPPED, len(shared) // 10) :][:VOCABULARY]
        spaces = {"fastText": first, "word2vec": second}
        origin = "\n".join(f"{path.name} of {path.stat().st_size:,} bytes" for path in given)
        found = {name: np.stack([known[word] for word in keys]) for name, known in spaces.items()}
        return Group(found, keys=np.asarray(keys), origin=origin)

    sizes = "-".join(f"{path.name}-{path.stat().st_size if path.is_file() else 0}" for path in given)
    return cached(f"hub/words, {sizes}", build)


def joined(first: Group, second: Group) -> Group:
    """Return the spaces of both: of two kinds of items whose rows belong together."""
    return Group({**first.spaces, **second.spaces}, first.labels, train=first.train, origin=_both(first, second))


def _both(*groups: Group) -> str:
    return "\n".join(sorted({line for group in groups for line in group.origin.splitlines()}))


def encoded(items: Sequence[Any], model: str) -> tuple[np.ndarray, str]:
    """Return the vectors of items through a model, and the model with its revision."""
    encoder = MODELS[model].load()
    vectors = np.asarray(rl.encode.encode(items, encoder, progress=True).vectors, dtype=np.float32)
    where = Path(local("models", MODELS[model].path))
    return vectors, f"{MODELS[model].path} @ {encoder.revision or (_digest(where) if where.exists() else 'unknown')}"


def encoded_group(texts: Mapping[str, Sequence[Any]], models: Mapping[str, str], **beside: Any) -> Group:
    """Return the spaces of some texts, each through its model; ``texts`` and ``models`` are by the name of a space."""
    found = {name: encoded(texts[name], model) for name, model in models.items()}
    origin = "\n".join(sorted({origin for _, origin in found.values()} | {*beside.pop("data", ())}))
    return Group({name: vectors for name, (vectors, _) in found.items()}, origin=origin, **beside)


def rows() -> str:
    """Return in words how many rows of a data set are taken."""
    most = ROWS.get()
    return "all rows" if most is None else f"at most {most[0]:,} rows to train and {most[1]:,} to test"


def _cached(title: str, data: str, model: str) -> Group:
    def build() -> Group:
        items, labels, train = DATA[data].read()
        vectors, origin = encoded(items, model)
        labels = np.unique(labels, return_inverse=True)[1]
        return Group({"x": vectors}, labels, train=train, origin=f"{origin_of(DATA[data].path)}\n{origin}")

    return cached(f"hub/{_scope()}/{title.replace('/', ' ')}", build)


def _scope() -> str:
    """Return a name for what is read: how many rows, and of which folder, if any."""
    most, folder = ROWS.get(), FOLDER.get()
    rows = "all" if most is None else "{}-{}".format(*most)
    return rows if folder is None else f"{rows}-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]}"


def cached_group(title: str, build: Callable[[], Group]) -> Group:
    """Return a group that is kept by the number of rows and the folder that it is made of."""
    return cached(f"hub/{_scope()}/{title}", build)


def local(kind: str, name: str) -> str:
    """Return the copy of a model or data set in the folder, or its name if there is none."""
    folder = FOLDER.get()
    copy = None if folder is None else folder / kind / name
    return str(copy) if copy is not None and copy.exists() else name


def in_folder(name: str) -> Path:
    """Return where data that no hub has lie in the folder, or stop with what is expected."""
    folder = FOLDER.get()
    if folder is None or not (folder / "datasets" / name).exists():
        where = "FOLDER" if folder is None else folder
        raise SystemExit(f"{name} is on no hub: put it into {where}/datasets/{name} and give --hub {where}.")
    return folder / "datasets" / name


@cache
def origin_of(path: str) -> str:
    """Return a data set with its revision: the commit on the hub, or a digest of the names and sizes of local files."""
    where = Path(local("datasets", path))
    if where.exists():
        return f"{path} @ {_digest(where)}"
    from huggingface_hub import HfApi

    return f"{path} @ {HfApi().dataset_info(path).sha}"


def _digest(folder: Path) -> str:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    text = "\n".join(f"{file.relative_to(folder)} {file.stat().st_size}" for file in files)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def load_dataset(path: str, config: str | None, split: str, revision: str | None = None) -> Any:
    """Return the rows of one split, or stop with what is missing."""
    try:
        import datasets
    except ImportError:
        raise SystemExit("--source hub needs the package datasets: pip install 'relatent[hub]'.") from None
    where = local("datasets", path)
    options = {"name": config, "revision": revision} if where == path else {}
    where = where if where == path or config is None else str(Path(where) / config)
    try:
        return datasets.load_dataset(where, split=split, **options)
    except (ConnectionError, OSError, ValueError) as error:
        raise SystemExit(f"{path} cannot be loaded; is this computer offline? {error}") from None


def titled(title: str, body: str) -> str:
    """Return a title before its body, with a full stop between them where the title ends in a letter.

    >>> titled("Great", "Works."), titled("Great!", "Works."), titled("", "Works.")
    ('Great. Works.', 'Great! Works.', 'Works.')
    """
    title = title.strip()
    return f"{title}{'.' if title[-1:].isalpha() else ''} {body}".strip()


def wiki_matrix(languages: Sequence[str] = ("es", "fr", "ja"), margin: float = 1.06) -> dict[str, list[str]]:
    """Return the sentences that English shares with every one of the languages, in all of them, row by row the same.

    English is the pivot: a sentence is kept that has a translation of at least this margin in each language, the best
    one if there are several (RR A.5.6).
    """
    of = {language: dict(_pairs(language, margin)) for language in languages}
    shared = sorted(set.intersection(*(set(pairs) for pairs in of.values())))
    return {"en": shared, **{language: [pairs[text] for text in shared] for language, pairs in of.items()}}


def wiki_matrix_counts(languages: Sequence[str] = ("es", "fr", "ja"), margin: float = 1.06) -> dict[str, int]:
    """Return how many English sentences have a translation in every one of some languages: table 13 of RR."""
    from itertools import combinations

    of = {language: {english for english, _ in _pairs(language, margin)} for language in languages}
    some = (group for size in range(1, len(languages) + 1) for group in combinations(languages, size))
    return {", ".join(("en", *group)): len(set.intersection(*(of[one] for one in group))) for group in some}


def _pairs(language: str, margin: float) -> Iterator[tuple[str, str]]:
    """Yield pairs of an English sentence and its translation, the best last; a sentence that stays the same is none."""
    import csv
    import gzip

    path = in_folder("WikiMatrix") / f"WikiMatrix.en-{language}.tsv.gz"
    with gzip.open(path, "rt", encoding="utf8", newline="") as file:
        rows = [(float(row[0]), row[1], row[2]) for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    for score, english, other in sorted(rows, key=lambda row: row[0]):
        if score >= margin and english != other:
            yield english, other
