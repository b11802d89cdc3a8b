"""The module of a nonlinear map in a sentence-transformers folder. Needs torch, as sentence-transformers does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Self

from torch import Tensor, nn

from relatent.nn import Translation
from relatent.translate import Translator
from relatent.translate.endpoints import Side


class TranslationModule(nn.Module):
    """Translates ``sentence_embedding``; saved as the translator's own file."""

    def __init__(self, translator: Translator, side: Side = "source") -> None:
        super().__init__()
        self.layer, self.side = Translation(translator), side

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Replace the vectors by translated ones."""
        mapped = self.layer if self.side == "source" else self.layer.transform_target
        features["sentence_embedding"] = mapped(features["sentence_embedding"])
        return features

    def get_embedding_dimension(self) -> int:
        """Return how wide the translated vectors are; sentence-transformers asks for it by this name."""
        return int(getattr(self.layer, self.side).width)

    get_sentence_embedding_dimension = get_embedding_dimension  # as versions before 5.4 call it

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the translator's file and which side it is."""
        (Path(output_path) / "config.json").write_text(json.dumps({"side": self.side}) + "\n", encoding="utf8")
        self.layer.to_translator().save(Path(output_path) / "translator.safetensors")

    @classmethod
    def load(cls, model_name_or_path: str | os.PathLike[str], subfolder: str = "", **_: Any) -> Self:
        """Read what :meth:`save` wrote, from a local folder."""
        folder = Path(model_name_or_path) / subfolder
        side = json.loads((folder / "config.json").read_text(encoding="utf8"))["side"]
        return cls(Translator.load(folder / "translator.safetensors"), side)
