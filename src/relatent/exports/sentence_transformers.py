"""sentence-transformers: a folder of stock modules, alone or behind an encoder. Written without torch.

An affine map becomes ``Dense`` and ``Normalize`` modules, which load without trusting any code. A nonlinear one needs a
module of this package: such a folder loads with ``trust_remote_code=True`` where relatent is installed.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from relatent import __version__
from relatent._files import FileError, atomic_write
from relatent.exports.formats import described, map_of, steps_of
from relatent.steps import Step
from relatent.translate.endpoints import Side

# The names that every version since 2019 understands.
DENSE, NORMALIZE = "sentence_transformers.models.Dense", "sentence_transformers.models.Normalize"
CUSTOM = "relatent.exports.translation_module.TranslationModule"
STOCK = ("linear", "unit")


def write(
    translator: Any,
    path: str | os.PathLike[str],
    *,
    side: Side = "source",
    normalize: bool = False,
    encoder: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a folder for ``SentenceTransformer(path)``.

    With ``encoder``, the folder of a SentenceTransformer whose vectors the translator was fitted on, the new folder is
    a copy of it that encodes and translates. Without, the model takes ``{"sentence_embedding": vectors}``.
    """
    steps = steps_of(translator, side, normalize=normalize)
    with atomic_write(path, overwrite=overwrite) as folder:
        modules = _begun(folder, None if encoder is None else Path(encoder))
        if all(step.kind in STOCK for step in steps):
            width = map_of(translator, side).dims_in
            for step in steps:
                width = _stock(folder, modules, step, width)
        else:
            _custom(folder, modules, translator, side, normalize)
        _write_json(folder / "modules.json", modules)
        _write_json(folder / "relatent.json", described(translator, side))


def _begun(folder: Path, encoder: Path | None) -> list[dict[str, Any]]:
    """Begin a folder with an encoder's files, and return its list of modules."""
    if encoder is None:
        folder.mkdir()
        versions = {"sentence_transformers": "2.0.0", "relatent": __version__}
        _write_json(folder / "config_sentence_transformers.json", {"__version__": versions})
        return []
    listed = encoder / "modules.json"
    if not listed.is_file():
        raise FileError(f"{encoder} has no modules.json: expected the folder of a SentenceTransformer, as it saves it.")
    shutil.copytree(encoder, folder)
    return list(json.loads(listed.read_text(encoding="utf8")))


def _listed(folder: Path, modules: list[dict[str, Any]], kind: str) -> Path:
    """List one more module and make its folder."""
    i = len(modules)
    name = f"{i}_{kind.rpartition('.')[2]}"
    modules.append({"idx": i, "name": str(i), "path": name, "type": kind})
    (folder / name).mkdir()
    return folder / name


def _stock(folder: Path, modules: list[dict[str, Any]], step: Step, width: int) -> int:
    """Add the module of a step, and return how wide its output is."""
    from safetensors.numpy import save_file

    if step.kind == "unit":
        _write_json(_listed(folder, modules, NORMALIZE) / "config.json", {"module_input_name": "sentence_embedding"})
        return width
    matrix = step.arrays.get("matrix", np.ones(width))
    matrix = matrix if matrix.ndim == 2 else np.diag(matrix)
    config = {"in_features": width, "out_features": matrix.shape[1], "bias": "offset" in step.arrays}
    module = _listed(folder, modules, DENSE)
    _write_json(module / "config.json", {**config, "activation_function": "torch.nn.modules.linear.Identity"})
    weights = {"linear.weight": matrix.T} | ({"linear.bias": step.arrays["offset"]} if config["bias"] else {})
    save_file({n: np.ascontiguousarray(a, np.float32) for n, a in weights.items()}, module / "model.safetensors")
    return int(matrix.shape[1])


def _custom(folder: Path, modules: list[dict[str, Any]], translator: Any, side: str, normalize: bool) -> None:
    warnings.warn(
        "This map is not affine, and sentence-transformers has no stock module for it: the folder needs relatent, and "
        "SentenceTransformer(path, trust_remote_code=True). For stock modules fit an affine map, such as "
        'Translator(max_cost="affine").',
        stacklevel=3,
    )
    module = _listed(folder, modules, CUSTOM)
    _write_json(module / "config.json", {"side": side})
    translator.save(module / "translator.safetensors")
    if normalize:
        _write_json(_listed(folder, modules, NORMALIZE) / "config.json", {"module_input_name": "sentence_embedding"})


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf8")
