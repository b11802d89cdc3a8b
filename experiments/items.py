"""Every table and figure of the papers that can be run here, by name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

PAPERS = {
    "RR": "Relative representations (Moschella et al., ICLR 2023)",
    "LST": "Latent space translation (Maiorca et al., NeurIPS 2023)",
    "IRP": "Inverse relative projection (Maiorca et al., 2024)",
    "beyond": "What the papers name as future work",
    "later": "Methods of later papers beside ours",
    "migration": "Changing the embedding model",
}


@dataclass(frozen=True)
class Item:
    """A table or figure: its paper, what it shows, and the module whose ``run`` makes it.

    ``offline`` items need no download, and are run in a small size by the tests.
    """

    name: str
    paper: str
    shows: str
    module: str
    offline: bool = False

    def load(self) -> ModuleType:
        """Import the module: ``run(setting)`` returns a Result, and ``draw(result)``, where there is one, a figure."""
        return import_module(f"experiments.{self.module}")

    @property
    def command(self) -> str:
        """The command that runs it."""
        return f"python -m experiments {self.name}"


ITEMS = {
    item.name: item
    for item in (
        Item("rr-figure1", "RR", "Figures 1 and 5: one autoencoder, several seeds", "relative_representations.seeds"),
        Item("rr-table1", "RR", "Table 1, figure 10: words in two spaces", "relative_representations.words"),
        Item("rr-table7", "RR", "Table 7: how anchors are chosen", "relative_representations.anchor_choices"),
        Item("rr-table8", "RR", "Table 8, figure 11: images in two spaces", "relative_representations.image_spaces"),
        Item("rr-figure3", "RR", "Figures 3 and 9: similarity against performance", "relative_representations.cora"),
        Item("rr-table2", "RR", "Table 2: training absolute and relative", "relative_representations.training"),
        Item("rr-attempts", "RR", "Table 2: what was tried", "relative_representations.training_attempts"),
        Item("rr-table3", "RR", "Table 3, figure 4: stitched autoencoders", "relative_representations.autoencoders"),
        Item("rr-table4", "RR", "Tables 4, 15–17: a head across languages", "relative_representations.languages"),
        Item("rr-table5", "RR", "Table 5: a head across text encoders", "relative_representations.sentences"),
        Item("rr-table6", "RR", "Tables 6, 18: a head across image encoders", "relative_representations.image_heads"),
        Item("rr-figure6", "RR", "Figure 6: accuracy by number of anchors", "relative_representations.anchor_counts"),
        Item("rr-anchors", "RR", "Open questions about anchors", "relative_representations.anchor_questions"),
        Item("rr-figure7", "RR", "Figure 7: quantized similarity", "relative_representations.quantized"),
        Item("rr-figure8", "RR", "Figure 8: self-similarities", "relative_representations.self_similarities"),
        Item("rr-domains", "RR", "Anchors of another domain", "relative_representations.domains"),
        Item("rr-slides", "RR", "The slides' toy autoencoder", "relative_representations.toy", offline=True),
        Item("rr-supervision", "RR", "Similarity as supervision", "relative_representations.supervision", offline=True),
        Item("lst-table1", "LST", "Table 1, figures 2–3: stitched generation", "latent_space_translation.generation"),
        Item("lst-table2", "LST", "Tables 2 and 3: stitched MLP heads", "latent_space_translation.heads"),
        Item("lst-svm", "LST", "The tables with SVM heads", "latent_space_translation.svm"),
        Item("lst-figure1", "LST", "Figure 1: pictures and texts", "latent_space_translation.modalities"),
        Item("lst-figure4", "LST", "Figures 4–5: scale invariance", "latent_space_translation.scale"),
        Item(
            "irp-reconstruction", "IRP", "Reconstruction within and across spaces", "inverse_relative_projection.matrix"
        ),
        Item("irp-heatmaps", "IRP", "Subspaces ω and pruning δ", "inverse_relative_projection.heatmaps"),
        Item("irp-languages", "IRP", "Languages", "inverse_relative_projection.languages"),
        Item("irp-scales", "IRP", "Norms of each encoder", "inverse_relative_projection.norms"),
        Item("irp-layers", "IRP", "Rescaling a transformer's layers", "inverse_relative_projection.layers"),
        Item(
            "irp-activations", "IRP", "Activations and scale", "inverse_relative_projection.activations", offline=True
        ),
        Item("irp-stitching", "IRP", "Zero-shot stitching", "inverse_relative_projection.stitching"),
        Item("irp-sensitivity", "IRP", "Sensitivity on TREC", "inverse_relative_projection.sensitivity"),
        Item("irp-correlation", "IRP", "Similarity and accuracy", "inverse_relative_projection.correlation"),
        Item("irp-modalities", "IRP", "Pictures and texts", "inverse_relative_projection.modalities"),
        Item("asif", "beyond", "ASIF: coupled data in place of training", "asif.zero_shot"),
        Item("stitch-at", "beyond", "Networks cut at inner layers", "beyond.inner_layers"),
        Item("later-methods", "later", "Offset, functional maps, Parseval frames, products", "beyond.later_methods"),
        Item("judged", "migration", "Every way to change the model, on judged collections", "migration.judged"),
        Item("directions", "later", "Steering vectors and probes moved between models", "beyond.directions"),
        Item("kv-cache", "later", "A key-value cache translated, and when not to", "beyond.kv_cache"),
        Item("geodesic", "beyond", "Geodesic similarity", "beyond.geodesic", offline=True),
    )
}

HUB_ONLY = "needs models or data that no package carries: `--source hub`"
UNTESTED: tuple[tuple[str, ...], ...] = (
    ("RR", "table 3, figure 4: autoencoders of CIFAR-100 are stitched", HUB_ONLY),
    ("RR", "tables 4, 15, 16: a head reads the stars of reviews in languages that it never saw", HUB_ONLY),
    ("RR", "table 5: a head of DBpedia works under another language model", HUB_ONLY),
    ("RR", "tables 6 and 18: heads of CIFAR-100 and ImageNet1k work under other image encoders", HUB_ONLY),
    (
        "RR",
        "table 17: a multilingual transformer (XLM-R) is the only alternative",
        f"USE stands for it; XLM-R {HUB_ONLY}",
    ),
    (
        "RR",
        "A.5.4: graph networks of 32 and 64 layers, 10 seeds, lose nothing",
        "hours of one core: `rr-table2 --full`",
        "rr-table2",
    ),
    ("RR", "figure 3: 1,920 models at a width of 300", "half a day of one core: `rr-figure3 --full`", "rr-figure3"),
    ("LST", "table 1: generation on CIFAR-100", HUB_ONLY),
    ("LST", "tables 2 and 3: CIFAR-100, DBpedia and N24News", HUB_ONLY),
    ("LST", "SVM heads on AG News, DBpedia and IMDB are read across encoders", HUB_ONLY),
    (
        "LST",
        "figure 4: RoBERTa stands a rescaling at every layer",
        f"another transformer stands for it; RoBERTa {HUB_ONLY}",
    ),
    ("IRP", "reconstruction and stitching on CIFAR-100, coarse and fine", HUB_ONLY),
)
"""What the papers found and no item here judges: paper, finding, reason, and the item that judges it in full size."""
