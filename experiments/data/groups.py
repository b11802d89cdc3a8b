"""Groups of parallel spaces that no default was tuned on: other encoders and other data than the development files.

    python -m experiments.data.groups [GROUP …]

builds them into the cache: a few minutes each on two cores, most of it for the pictures.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from experiments.data import packages, pictures, texts, words
from experiments.data.cache import cache_folder, made_once
from experiments.data.encoders import load_encoder
from experiments.data.source import HUB, ORIGINS, SOURCE
from rich.progress import track

# Texts that are encoded at a time; long ones fewer, so that they fit in memory.
BATCH, CHARACTERS = 1_000, 100_000
WORDS, GRAY, CIFAR, PICTURES = 6_000, 5_000, 2_000, 5_000


@dataclass(frozen=True)
class Group:
    """Parallel spaces by name, with the labels and the keys (words, names) of their rows where there are any.

    ``train`` leading rows are for training where the data come with a split; the others are for testing. ``origin``
    has one line for each model and data set of a hub, with its revision.
    """

    spaces: dict[str, np.ndarray]
    labels: np.ndarray | None = None
    keys: np.ndarray | None = None
    train: int | None = None
    origin: str = ""


BESIDE = ("labels", "keys", "train", "origin")


def load_group(name: str, spaces: Sequence[str] = ()) -> Group:
    """Return one of GROUPS, built on first use and read from the cache after that. Vectors are float32.

    With :data:`SOURCE` "hub", it is one of the papers' data sets through models of theirs (``experiments.data.hub``),
    which are to be named. In packages, ``spaces`` names some of the group's.
    """
    if SOURCE.get() == HUB:
        from experiments.data import hub

        return hub.load_hub_group(name, spaces)
    group = cached(name, GROUPS[name])
    return replace(group, spaces={space: group.spaces[space] for space in spaces}) if spaces else group


def cached(name: str, build: Callable[[], Group]) -> Group:
    """Return a group from the cache, built on first use."""
    path = cache_folder() / "spaces" / f"{name}.npz"
    with np.load(made_once(path, lambda beside: _save(beside, build()))) as kept:
        spaces = {key: kept[key].astype(np.float32) for key in kept.files if key not in BESIDE}
        beside: dict[str, Any] = {key: kept[key] for key in BESIDE if key in kept.files}
    beside |= {key: kind(beside[key]) for key, kind in (("train", int), ("origin", str)) if key in beside}
    ORIGINS.update(beside.get("origin", "").splitlines())
    return Group(spaces, **beside)


def trec() -> Group:
    """Questions of TREC in six classes, through five encoders that were trained apart."""
    corpus, train = texts.trec()
    names = {"minilm": "minilm6", "paraphrase": "para3", "use": "usem3", "potion": "potion128", "glove-50": "glove"}
    spaces = {names[name]: vectors for name, vectors in encoded(corpus.texts, *names)}
    return Group(spaces, corpus.labels, train=train)


def word_spaces() -> Group:
    """Words of four letters or more in three spaces, the 400 most frequent left out."""
    found = {"word2vec-300": words.word2vec_300(), "glove-100": words.glove_100()}
    frequent = [word for word in found["glove-100"] if word.isalpha() and len(word) >= 4][400:]
    known = [word for word in frequent if word in found["word2vec-300"]]
    return _shared({"spacy-300": words.spacy_300(known)} | found)


def many_words() -> Group:
    """Words of four letters or more in two spaces, by falling frequency, the 400 most frequent left out."""
    glove = words.glove_100()
    known = [word for word in glove if word.isalpha() and len(word) >= 4][400:]
    return _shared({"spacy-300": words.spacy_300(known), "glove-100": glove})


def vocabulary() -> Group:
    """Many words in two spaces of different width."""
    glove = words.glove_50()
    return _shared({"spacy-300": words.spacy_300([word for word in glove if word.isalpha()]), "glove-50": glove})


def emoji() -> Group:
    """Emoji: drawn by two vendors, and their names through three text encoders; nine categories."""
    drawn = {"google": packages.EMOJI_GOOGLE, "twitter": packages.EMOJI_TWITTER}
    pictured = {name: list(pictures.emoji(package, name)) for name, package in drawn.items()}
    known = [one for one, _ in pictured["google"]]
    names = [f"{one['name'].lower()}, {one['short_name'].replace('_', ' ').replace('-', ' ')}" for one in known]
    seen = {name: pictures.efficientnet(np.stack([x for _, x in both]), 0) for name, both in pictured.items()}
    read = dict(
        zip(("usem3", "para3", "glove"), dict(encoded(names, "use", "paraphrase", "glove-50")).values(), strict=True)
    )
    return Group(seen | read, np.unique([one["category"] for one in known], return_inverse=True)[1], np.asarray(names))


def groceries() -> Group:
    """Photos of groceries through two ImageNet networks."""
    photos, labels, train = pictures.groceries()
    return Group({f"lite{i}": pictures.efficientnet(photos, i) for i in (0, 1)}, labels, train=train)


def groceries_four() -> Group:
    """Photos of groceries through four ImageNet networks, the last of another width."""
    photos, _, _ = pictures.groceries()
    known = load_group("groceries")
    return replace(known, spaces=known.spaces | _imagenet(photos, known.spaces))


def newsgroups() -> Group:
    """Newsgroup posts; the third encoder is fitted on other posts of the same groups."""
    corpus = texts.newsgroups()
    spaces = dict(encoded(corpus.texts, "use-lite", "wordllama"))
    return Group(spaces | {"lsa": _latent_semantics(texts.other_newsgroup_texts())(corpus.texts)}, corpus.labels)


def reviews() -> Group:
    """Film reviews."""
    corpus = texts.reviews()
    return Group(dict(encoded(corpus.texts, "use-lite", "minilm-layer-3")), corpus.labels)


def scored_reviews() -> Group:
    """Sentences of Amazon reviews, from bad to good in five steps."""
    corpus = texts.scored_reviews()
    return Group(dict(encoded(corpus.texts, "use-lite", "minilm-layer-3", "wordllama")), corpus.labels)


def tweets() -> Group:
    """Tweets about disasters, or not."""
    corpus = texts.tweets()
    return Group(dict(encoded(corpus.texts, "minilm-layer-3", "glove-100")), corpus.labels)


def encyclopedia() -> Group:
    """Sentences of Wikipedia."""
    return Group(dict(encoded(texts.encyclopedia().texts, "minilm-layer-3", "wordllama")))


def languages() -> Group:
    """Spanish sentences, and their English translations in two other encoders."""
    corpus = texts.translated_sentences()
    assert corpus.translations is not None
    packages.UNIVERSAL.importable()
    spanish = dict(encoded(corpus.translations, "use"))["use"]
    return Group({"use, Spanish": spanish} | dict(encoded(corpus.texts, "minilm-layer-3", "wordllama")))


def frequent_words() -> Group:
    """Single words."""
    return Group(dict(encoded(words.frequent_words(WORDS), "glove-100", "wordllama")))


def fashion() -> Group:
    """Pieces of clothing, seen by two small networks and by their principal axes."""
    return _gray("fashion", *pictures.fashion(GRAY))


def mnist() -> Group:
    """Handwritten digits, seen by two small networks and by their principal axes."""
    return _gray("mnist", *pictures.mnist(GRAY))


def resnets() -> Group:
    """Small photos, seen by two residual networks that were trained here on other photos."""
    learn, images = (pictures.cifar(pictures.CIFAR_BATCH, batch) for batch in (1, 2))
    networks = {f"resnet{depth}": pictures.cifar_network(depth, seed, *learn) for seed, depth in enumerate((8, 14))}
    return Group({name: encode(images[0]) for name, encode in networks.items()}, images[1])


def cifar() -> Group:
    """Small photos, seen by two networks that were trained on ImageNet."""
    images, labels = pictures.cifar(CIFAR)
    return Group({"lite2": pictures.efficientnet(images), "inception": pictures.inception(images)}, labels)


def folder_of_pictures(path: Path, rows: int = PICTURES) -> Group:
    """Return a user's pictures, a folder per class, through the ImageNet networks that come in packages."""

    def build() -> Group:
        photos, labels = pictures.folder_of_classes(path, rows)
        return Group(_imagenet(photos), labels)

    return cached(_name_of(path, rows), build)


def folder_inputs(path: Path, rows: int = PICTURES) -> np.ndarray:
    """Return what an encoder with random weights may read of a user's pictures."""
    name = f"{_name_of(path, rows)}, inputs"
    build = lambda: Group({"inputs": pictures.small(pictures.folder_of_classes(path, rows)[0])})  # noqa: E731 (read once)
    return cached(name, build).spaces["inputs"]


def _name_of(path: Path, rows: int) -> str:
    """Return a name for as many pictures of a folder, that other files in it would change."""
    names = "\n".join(sorted(str(one.relative_to(path)) for one in path.rglob("*")))
    return f"{path.name}, {hashlib.sha256(names.encode()).hexdigest()[:8]}, {rows}"


GROUPS: dict[str, Callable[[], Group]] = {
    "trec": trec,
    "words": word_spaces,
    "many words": many_words,
    "vocabulary": vocabulary,
    "emoji": emoji,
    "groceries": groceries,
    "groceries, four encoders": groceries_four,
    "resnets": resnets,
    "newsgroups": newsgroups,
    "reviews": reviews,
    "tweets": tweets,
    "scored reviews": scored_reviews,
    "encyclopedia": encyclopedia,
    "languages": languages,
    "frequent words": frequent_words,
    "fashion": fashion,
    "mnist": mnist,
    "cifar photos": cifar,
}


# What the encoders of a group read.
READ: dict[str, Callable[[], list[str] | np.ndarray]] = {
    "trec": lambda: texts.trec()[0].texts,
    "newsgroups": lambda: texts.newsgroups().texts,
    "reviews": lambda: texts.reviews().texts,
    "scored reviews": lambda: texts.scored_reviews().texts,
    "tweets": lambda: texts.tweets().texts,
    "emoji": lambda: np.stack([x for _, x in pictures.emoji(packages.EMOJI_GOOGLE, "google")]),
    **dict.fromkeys(("groceries", "groceries, four encoders"), lambda: pictures.groceries()[0]),
    "resnets": lambda: pictures.cifar(pictures.CIFAR_BATCH, 2)[0],
    "fashion": lambda: pictures.fashion(GRAY)[2],
    "mnist": lambda: pictures.mnist(GRAY)[2],
    "cifar photos": lambda: pictures.cifar(CIFAR)[0],
}


def inputs(name: str) -> np.ndarray | None:
    """Return what an encoder with random weights may read of a group, row by row: its words, counted, or small pixels.

    None where that is not at hand: from a hub.
    """
    if SOURCE.get() == HUB or name not in READ:
        return None

    def build() -> Group:
        read = READ[name]()
        return Group({"inputs": pictures.small(read) if isinstance(read, np.ndarray) else texts.word_counts(read)})

    return cached(f"{name}, inputs", build).spaces["inputs"]


def encoded(items: list[str], *names: str) -> Iterator[tuple[str, np.ndarray]]:
    """Encode the same texts by several encoders."""
    for name in names:
        encoder = load_encoder(name, threads=1)
        batch = max(16, min(BATCH, CHARACTERS // max(1, *map(len, items))))
        starts = track(range(0, len(items), batch), name, transient=True, disable=not sys.stdout.isatty())
        order = sorted(
            range(len(items)), key=lambda row: len(items[row])
        )  # batches of equally long texts need no padding
        vectors = np.concatenate([encoder([items[row] for row in order[i : i + batch]]) for i in starts])
        yield name, vectors[np.argsort(order)].astype(np.float32)


def _imagenet(photos: np.ndarray, known: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Encode photos by the ImageNet networks that come in packages, but for those that are known."""
    networks = {f"lite{i}": partial(pictures.efficientnet, size=i) for i in range(3)} | {
        "inception": pictures.inception
    }
    return {name: network(photos) for name, network in networks.items() if name not in known}


def _shared(spaces: dict[str, dict[str, np.ndarray]]) -> Group:
    """Return the words that all spaces have, in the order of the first."""
    first, *others = spaces.values()
    keys = [word for word in first if all(word in other for other in others)]
    return Group(
        {name: np.stack([known[word] for word in keys]) for name, known in spaces.items()}, keys=np.asarray(keys)
    )


def _gray(name: str, learn: np.ndarray, learn_labels: np.ndarray, images: np.ndarray, labels: np.ndarray) -> Group:
    """Return gray images through two networks that were trained on others of their set, and on principal axes."""
    encoders = {
        "convolutional": pictures.small_network(name, "plain", 0, learn, learn_labels),
        "residual": pictures.small_network(name, "residual", 1, learn, learn_labels),
        "principal axes": pictures.principal_axes(learn),
    }
    return Group({encoder: encode(images) for encoder, encode in encoders.items()}, labels)


def _latent_semantics(corpus: list[str], axes: int = 200) -> Callable[[list[str]], np.ndarray]:
    """Fit latent semantic analysis: the strongest axes of weighted word counts."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2), TruncatedSVD(axes, random_state=0)).fit(corpus)
    return lambda items: model.transform(items).astype(np.float32)


def _save(path: Path, group: Group) -> None:
    more = {key: value for key in BESIDE if (value := getattr(group, key)) is not None and not isinstance(value, str)}
    more |= {"origin": np.asarray(group.origin)} if group.origin else {}
    np.savez(path, **group.spaces, **more)


def main() -> None:
    """Build the groups named on the command line, or all."""
    unknown = [name for name in sys.argv[1:] if name not in GROUPS]
    if unknown:
        sys.exit(f"there is no group {', '.join(unknown)}: choose from {', '.join(GROUPS)}")
    for name in sys.argv[1:] or GROUPS:
        group = load_group(name)
        shapes = ", ".join(f"{space} {vectors.shape}" for space, vectors in group.spaces.items())
        print(f"{name}: {shapes}{'' if group.labels is None else ', labelled'}", flush=True)


if __name__ == "__main__":
    main()
