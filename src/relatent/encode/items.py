"""Items with keys from files of texts and folders of images, encoders by the name of their kind, and both at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relatent._array import suggest
from relatent._files import FileError
from relatent.encode.encoder import Encoder, encode
from relatent.encode.image import clip, timm_model, torchvision_model, vision_transformer
from relatent.encode.remote import provider_text
from relatent.encode.text import onnx_text, sentence_transformer, static, transformer
from relatent.spaces.io.columns import KEY_NAMES
from relatent.spaces.io.files import AnyPath, check_new, read_space, write_space
from relatent.spaces.io.tables import read_table
from relatent.spaces.space import Space

IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
# The first that is there: a title is taken for the text only where there is no other.
TEXT_NAMES = ("text", "texts", "sentence", "content", "page_content", "document", "body", "chunk", "question", "title")

KINDS: dict[str, Callable[..., Encoder]] = {
    "sentence-transformer": sentence_transformer,
    "transformer": transformer,
    "onnx": onnx_text,
    "static": lambda model, **options: static(read_space(model), **options),
    "vision-transformer": vision_transformer,
    "timm": timm_model,
    "torchvision": torchvision_model,
    "clip-text": lambda model, **options: clip(model, **options).text,
    "clip-image": lambda model, **options: clip(model, **options).image,
}


@dataclass(frozen=True)
class Items:
    """Items to encode, and their keys."""

    items: list[Any]
    keys: list[Any]


def encoder_of(kind: str, model: str, **options: Any) -> Encoder:
    """Load an encoder by the name of its kind. Options that are None keep their defaults."""
    if kind not in KINDS:
        raise ValueError(f"There is no kind of encoder {kind!r}.{suggest(kind, KINDS)}")
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return KINDS[kind](model, **given)
    except TypeError as error:
        raise ValueError(f"{kind} cannot take {', '.join(given)} ({error}): leave out unknown options.") from error


def text_encoder(spec: str) -> Encoder:
    """Return the text encoder that a word names: a provider's model, or a folder on this machine.

    ==============================  ==========================================================================
    ``openai:MODEL``                OpenAI, or what OPENAI_BASE_URL names; the key is in OPENAI_API_KEY
    ``ollama:MODEL``                Ollama on this machine
    ``http://…/v1?model=MODEL``     vLLM, TEI, llama.cpp, …; the key, if any, is in RELATENT_EMBED_KEY
    ``st:FOLDER``                   sentence-transformers (extra: text)
    ``onnx:FOLDER``                 an ONNX model with its tokenizer.json, mean pooling, unit norm (extra: onnx)
    ==============================  ==========================================================================
    """
    scheme, _, folder = spec.partition(":")
    if scheme in ("openai", "ollama", "http", "https"):
        return provider_text(spec)
    if scheme == "st":
        return sentence_transformer(folder)
    if scheme == "onnx":
        return onnx_text(_onnx_in(Path(folder)), normalize=True)
    raise ValueError(
        f"{spec!r} names no model: expected openai:MODEL, ollama:MODEL, http://…/v1?model=MODEL, st:FOLDER or "
        f"onnx:FOLDER.{' Is it st:' + spec + '?' if Path(spec).is_dir() else ''}"
    )


def _onnx_in(path: Path) -> Path:
    """Return the ONNX model of a folder: the one named so, or else the only one."""
    if path.is_file():
        return path
    found = [path / "model.onnx"] if (path / "model.onnx").is_file() else sorted(path.glob("*.onnx"))
    if len(found) != 1:
        raise FileError(f"{path} has {len(found)} ONNX models: expected a folder with one, or the file of one.")
    return found[0]


def read_items(path: AnyPath, *, column: str | None = None, key: str | None = None) -> Items:
    """Read texts: one per line of a .txt, or a column of .csv, .tsv, .jsonl or .parquet; or the images of a folder.

    The keys of lines are their numbers from 0, those of images their paths inside the folder.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}: expected texts or a folder of images.")
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix.lower() in IMAGES)
        if not files:
            raise FileError(
                f"{path} contains no images ({', '.join(IMAGES)}): give a folder of images, or a file of texts."
            )
        return Items(list(files), [str(p.relative_to(path)) for p in files])
    if path.suffix == ".txt":
        lines = path.read_text(encoding="utf8").splitlines()
        return Items(lines, list(range(len(lines))))
    table = read_table(path)
    texts = text_column(str(path), table.column_names, column)
    keys = _choose(str(path), table.column_names, key, KEY_NAMES)
    values = table.column(texts).to_pylist()
    missing = next((row for row, value in enumerate(values) if not isinstance(value, str)), None)
    if missing is not None:
        raise FileError(f"Row {missing} of column {texts!r} of {path} holds {values[missing]!r}: expected a text.")
    return Items(values, list(range(len(values))) if keys is None else table.column(keys).to_pylist())


def encode_file(
    path: AnyPath,
    out: AnyPath,
    load: Callable[[], Encoder],
    *,
    column: str | None = None,
    key: str | None = None,
    batch_size: int = 64,
    cache: AnyPath | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Space:
    """Encode a file of texts or a folder of images into a new space. The model is loaded after the items."""
    check_new(out, path, overwrite=overwrite)
    found = read_items(path, column=column, key=key)
    folder = None if cache is None else Path(cache)
    space = encode(found.items, load(), keys=found.keys, batch_size=batch_size, cache=folder, progress=progress)
    write_space(space, out, overwrite=overwrite)
    return space


def text_column(of: str, names: Sequence[str], given: str | None = None) -> str:
    """Return the column of the texts: the one given, or else one that is named as such columns are."""
    found = _choose(of, names, given, TEXT_NAMES)
    if found is None:
        raise FileError(f"{of} has the columns {', '.join(names)}: name the column of the texts.")
    return found


def _choose(of: str, names: Sequence[str], given: str | None, usual: tuple[str, ...]) -> str | None:
    if given is not None:
        if given not in names:
            raise FileError(f"{of} has no column {given!r}.{suggest(given, names)}")
        return given
    return next((name for wanted in usual for name in names if name.lower() == wanted), None)
