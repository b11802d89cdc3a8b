"""A folder with the layout of a hub: every model of the papers in its real class, tiny and untrained, and tiny data."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse
import torch

WORDS = tuple("good bad who where what is was it there a the of and film food run blue red dog cat sea".split())  # noqa: SIM905
PIVOTS = ("doctor", "tomato", "guitar", "software")
TRAIN, TEST, SIDE = 120, 60, 16
WIDE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def import_torchvision() -> None:
    """Import torchvision, also where it was built for another torch and its operators are missing: none is used here."""
    try:
        import_module("torchvision")
    except RuntimeError:
        KEPT.append(torch.library.Library("torchvision", "FRAGMENT"))
        for name in ("nms", "qnms"):
            KEPT[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision  # noqa: F401


KEPT: list[torch.library.Library] = []


def write(folder: Path, models: Mapping[str, Any]) -> Path:
    """Write the models and the data that ``--source hub`` reads."""
    for model in models.values():
        where = folder / "models" / model.path
        if not where.exists():
            where.mkdir(parents=True)
            (_timm if model.kind == "image" else _transformer)(model.path, where)
    for path, columns in TEXTS.items():
        _parquet(folder / "datasets" / path, columns)
    for path, (side, colors, image, labels) in IMAGES.items():
        _pictures(folder / "datasets" / path, side, colors, image, labels)
    _news(folder / "datasets" / "N24News")
    _wiki_matrix(folder / "datasets" / "WikiMatrix")
    for name in ("cora", "citeseer", "pubmed"):
        _planetoid(folder / "datasets" / "Planetoid" / name / "raw", name)
    return folder


def _transformer(path: str, where: Path) -> None:
    import tokenizers
    import transformers

    known = {word: number for number, word in enumerate(("[PAD]", "[UNK]", "[CLS]", *WORDS))}
    split = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, "[UNK]"))
    split.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    split.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A", special_tokens=[("[CLS]", 2)])
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "model_max_length": 30}
    transformers.PreTrainedTokenizerFast(tokenizer_object=split, **names).save_pretrained(where)
    size = WIDE | {"vocab_size": len(WORDS) + 3, "pad_token_id": 0}
    torch.manual_seed(len(path))
    if "clip" in path:
        text = size | {"projection_dim": 8, "eos_token_id": 2, "max_position_embeddings": 40}
        vision = WIDE | {"image_size": SIDE, "patch_size": 8, "projection_dim": 8}
        config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
        transformers.CLIPModel(config).save_pretrained(where)
        sizes = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
        transformers.CLIPImageProcessor(**sizes).save_pretrained(where)
        return
    kind = next((kind for name, kind in CLASSES.items() if name in path.split("/")[-1]), "Bert")
    more = {"embedding_size": 16} if kind in ("Electra", "Albert") else {}
    config = getattr(transformers, f"{kind}Config")(**size, **more, max_position_embeddings=64)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(where)


CLASSES = {"electra": "Electra", "xlm-roberta": "XLMRoberta", "roberta": "Roberta", "albert": "Albert"}
TIMM: dict[str, dict[str, Any]] = {
    "rexnet_100": {"width_mult": 0.2},
    "resnet101": {"layers": [1, 1, 1, 1], "base_width": 8},
    "cspdarknet53": {},
    "vit_small_patch16_224": {"embed_dim": 8, "depth": 1, "num_heads": 2, "patch_size": 8, "img_size": SIDE},
    "vit_base_patch16_224": {"embed_dim": 16, "depth": 1, "num_heads": 2, "patch_size": 8, "img_size": SIDE},
    "vit_base_patch16_384": {"embed_dim": 16, "depth": 1, "num_heads": 2, "patch_size": 8, "img_size": SIDE},
    "vit_base_r50_s16_384": {"embed_dim": 16, "depth": 1, "num_heads": 2, "img_size": 32},
}


def _timm(path: str, where: Path) -> None:
    import timm
    from safetensors.torch import save_file

    torch.manual_seed(len(path))
    args = TIMM[path]
    model = timm.create_model(path, pretrained=False, num_classes=0, **args)
    side = args.get("img_size", 32)
    cfg = {**model.pretrained_cfg, "input_size": [3, side, side], "tag": None, "num_classes": 0}
    cfg = {key: value for key, value in cfg.items() if isinstance(value, int | float | str | list | tuple)}
    config = {"architecture": path, "num_classes": 0, "model_args": args, "pretrained_cfg": cfg}
    (where / "config.json").write_text(json.dumps(config))
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, where / "model.safetensors")


def _sentences(n: int, rng: np.random.Generator, labels: np.ndarray) -> list[str]:
    return [" ".join([WORDS[label % 5], *rng.choice(WORDS, 6)]) for label in labels[:n]]


def _labels(n: int, classes: int) -> np.ndarray:
    return np.arange(n) % classes


TEXTS: dict[str, dict[str, Any]] = {
    "CogComp/trec": {"text": 0, "coarse_label": 6},
    "fancyzhx/dbpedia_14": {"content": 0, "label": 14},
    "fancyzhx/ag_news": {"text": 0, "label": 4},
    "stanfordnlp/imdb": {"text": 0, "label": 2},
    "SetFit/20_newsgroups": {"text": 0, "label": 20},
    "amazon_reviews_multi": {"review_body": 0, "review_title": 0, "stars": 5},
}
IMAGES: dict[str, tuple[int, int, str, dict[str, int]]] = {
    "ylecun/mnist": (28, 1, "image", {"label": 10}),
    "zalando-datasets/fashion_mnist": (28, 1, "image", {"label": 10}),
    "uoft-cs/cifar10": (32, 3, "img", {"label": 10}),
    "uoft-cs/cifar100": (32, 3, "img", {"coarse_label": 20, "fine_label": 40}),
    "ILSVRC/imagenet-1k": (40, 3, "image", {"label": 12}),
}


def _parquet(where: Path, columns: Mapping[str, int]) -> None:
    languages = ("en", "es", "fr", "ja") if "stars" in columns else ("",)
    for number, language in enumerate(languages):
        folder = where / (language or "data")
        folder.mkdir(parents=True)
        for seed, (split, n) in enumerate((("train", TRAIN), ("test", TEST))):
            rng, classes = np.random.default_rng(10 * number + seed), max(columns.values())
            labels = _labels(n, classes)
            table = {
                name: (1 + labels if name == "stars" else labels) if count else _sentences(n, rng, labels)
                for name, count in columns.items()
            }
            pq.write_table(pa.table(table), folder / f"{split}-00000-of-00001.parquet")


def _pictures(where: Path, side: int, colors: int, image: str, labels: Mapping[str, int]) -> None:
    import datasets
    from PIL import Image

    (where / "data").mkdir(parents=True)
    features = datasets.Features({image: datasets.Image(), **{name: datasets.Value("int64") for name in labels}})
    for seed, (split, n) in enumerate(
        (("train", TRAIN), ("test" if image != "image" or side < 40 else "validation", TEST))
    ):
        rng = np.random.default_rng(seed)
        pixels = rng.integers(0, 256, (n, side, side, colors), dtype=np.uint8)
        table = {name: _labels(n, count) for name, count in labels.items()}
        for row, label in enumerate(next(iter(table.values()))):
            pixels[row, : side // 2] = (40 * label) % 256
        made = [Image.fromarray(one.squeeze() if colors == 1 else one) for one in pixels]
        found = datasets.Dataset.from_dict({image: made, **table}, features=features)
        found.to_parquet(str(where / "data" / f"{split}-00000-of-00001.parquet"))


def _news(where: Path) -> None:
    from PIL import Image

    (where / "news").mkdir(parents=True)
    (where / "imgs").mkdir()
    rng, number = np.random.default_rng(5), 0
    for split, n in (("train", TRAIN), ("test", TEST)):
        labels, rows = _labels(n, 3), []
        for label, text in zip(labels, _sentences(n, rng, labels), strict=True):
            pixels = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
            pixels[: SIDE // 2] = 80 * label
            Image.fromarray(pixels).save(where / "imgs" / f"{number}.jpg")
            rows.append({"body": text, "section": f"section {label}", "image_id": str(number)})
            number += 1
        (where / "news" / f"nytimes_{split}.json").write_text(json.dumps(rows))


def _wiki_matrix(where: Path) -> None:
    where.mkdir(parents=True)
    rng = np.random.default_rng(3)
    english = [f"{text} {i}" for i, text in enumerate(_sentences(TRAIN, rng, _labels(TRAIN, 5)))]
    for language in ("es", "fr", "ja"):
        lines = [f"{1.05 if i < 10 else 1.1}\t{text}\t{text} {language}\n" for i, text in enumerate(english)]
        with gzip.open(where / f"WikiMatrix.en-{language}.tsv.gz", "wt", encoding="utf8") as file:
            file.writelines(lines)


def _planetoid(where: Path, name: str) -> None:
    where.mkdir(parents=True)
    rng, n, tested, classes, words = np.random.default_rng(1), 400, 40, 3, 20
    labels = rng.integers(0, classes, n)
    x = (rng.random((n, words)) < 0.2) + (np.arange(words)[None] % classes == labels[:, None]) * (
        rng.random((n, words)) < 0.6
    )
    edges = [(a, int(b)) for a in range(n) for b in rng.choice(np.flatnonzero(labels == labels[a]), 3)]
    graph: dict[int, list[int]] = {i: [] for i in range(n)}
    for a, b in edges:
        graph[a].append(b)
        graph[b].append(a)
    order = n - tested + rng.permutation(tested)
    y, sparse = np.eye(classes, dtype=np.int32)[labels], scipy.sparse.csr_matrix((x > 0).astype(np.float32))
    parts = {"allx": sparse[: n - tested], "ally": y[: n - tested], "tx": sparse[order], "ty": y[order], "graph": graph}
    for part, content in parts.items():
        (where / f"ind.{name}.{part}").write_bytes(pickle.dumps(content, protocol=3))
    (where / f"ind.{name}.test.index").write_text("\n".join(map(str, order)))


def word_files(folder: Path) -> tuple[Path, Path]:
    """Write vectors of the same words as text and as word2vec's binary file; the second space is the first, rotated."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    letters = np.asarray(list("abcdefghijklmnopqrstuvwxyz"))
    words = [*PIVOTS, *dict.fromkeys("".join(rng.choice(letters, 7)) for _ in range(1_700))]
    words = [*words[4:200], *PIVOTS, *words[200:], "it's", "of"]  # the most frequent are left out, as are the last two
    x = rng.normal(size=(len(words), 12)).astype(np.float32)
    y = (x @ np.linalg.qr(rng.normal(size=(12, 12)))[0] + 0.1 * rng.normal(size=x.shape)).astype("<f4")
    text, binary = folder / "fast.vec", folder / "w2v.bin"
    lines = [f"{len(words)} 12", *(f"{word} " + " ".join(map(str, row)) for word, row in zip(words, x, strict=True))]
    text.write_text("\n".join(lines) + "\n", encoding="utf8")
    rows = (word.encode() + b" " + row.tobytes() + b"\n" for word, row in zip(reversed(words), y[::-1], strict=True))
    binary.write_bytes(f"{len(words)} 12\n".encode() + b"".join(rows))
    return text, binary
