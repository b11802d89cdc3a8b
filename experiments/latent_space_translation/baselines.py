"""What the defaults are measured against, written from the papers' formulas or taken from scikit-learn.

Nothing here uses the library, so that no mistake of it is on both sides of a comparison.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import GridSearchCV, KFold

# Bandwidths in units of 1 / median squared distance, and penalties of a kernel whose diagonal is 1.
GAMMAS, ALPHAS = (0.125, 0.25, 0.5, 1.0, 2.0), (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
CCA_PENALTIES = (0.01, 0.1, 1.0, 10.0)
HUB_NEIGHBORS = 10


def best6(x: np.ndarray, y: np.ndarray, samples: np.ndarray) -> Iterator[np.ndarray]:
    """Translate with {SVD, LSS, OLSS} × {standard, L2}, the maps and scalings of the papers."""
    x, y, samples = (a.astype(np.float64) for a in (x, y, samples))
    for scaling in ("standard", "l2"):
        if scaling == "standard":
            (mx, sx), (my, sy) = ((a.mean(0), np.where(a.std(0, ddof=1) > 1e-8, a.std(0, ddof=1), 1)) for a in (x, y))
            a, b, s = (x - mx) / sx, (y - my) / sy, (samples - mx) / sx
        else:
            a, b, s, my, sy = unit(x), unit(y), unit(samples), 0.0, np.linalg.norm(y, axis=1).mean()
        linear = np.linalg.lstsq(a, b, rcond=None)[0]
        for matrix in (_polar(a.T @ b), linear, _polar(linear)):
            yield (s @ matrix * sy + my).astype(np.float32)


def kernel_ridge(x: np.ndarray, y: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Translate with scikit-learn's kernel ridge: Gaussian kernel, bandwidth and penalty by three-fold CV."""
    mean_x, mean_y = x.mean(0), y.mean(0)
    scale = np.sqrt(np.mean(np.sum((x - mean_x) ** 2, axis=1)))
    x, samples = (x - mean_x) / scale, (samples - mean_x) / scale
    some = x[:1000]
    median = float(np.median(euclidean_distances(some, squared=True)[np.triu_indices(len(some), 1)]))
    grid = {"gamma": [g / median for g in GAMMAS], "alpha": list(ALPHAS)}
    folds = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, scoring="neg_mean_squared_error", cv=folds)
    return search.fit(x, y - mean_y).predict(samples) + mean_y


def cca_scores(x: np.ndarray, y: np.ndarray, queries: np.ndarray, gallery: np.ndarray) -> np.ndarray:
    """Return the CSLS scores of regularized CCA, its penalty chosen by two-fold ranking among the anchors."""
    fold = np.random.default_rng(0).permutation(len(x)) % 2

    def ranked(penalty: float) -> float:
        held = ((x[fold != i], y[fold != i], x[fold == i], y[fold == i]) for i in (0, 1))
        return float(np.mean([reciprocal_rank(csls(_cca(*part, penalty))) for part in held]))

    return csls(_cca(x, y, queries, gallery, max(CCA_PENALTIES, key=ranked)))


def _cca(x: np.ndarray, y: np.ndarray, queries: np.ndarray, gallery: np.ndarray, penalty: float) -> np.ndarray:
    """Cosines between canonical variables, each weighted by its correlation."""
    mean_x, mean_y = x.mean(0), y.mean(0)
    root_x, root_y = (_inverse_root(a.astype(np.float64), penalty) for a in (x - mean_x, y - mean_y))
    u, rho, vt = np.linalg.svd(root_x @ (x - mean_x).T @ (y - mean_y) @ root_y / len(x), full_matrices=False)
    a, b = (queries - mean_x) @ root_x @ u * rho, (gallery - mean_y) @ root_y @ vt.T * rho
    return unit(a) @ unit(b).T


def _inverse_root(centered: np.ndarray, penalty: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(centered.T @ centered / len(centered))
    return vectors / np.sqrt(np.maximum(values, 0) + penalty * np.mean(values)) @ vectors.T


def csls(scores: np.ndarray, neighbors: int = HUB_NEIGHBORS) -> np.ndarray:
    """Correct scores for hubs, with the neighbors among all queries and all gallery items (Conneau et al., 2018)."""
    k = min(neighbors, *scores.shape)
    near_queries = np.mean(np.partition(scores, -k, axis=1)[:, -k:], axis=1, keepdims=True)
    near_gallery = np.mean(np.partition(scores, -k, axis=0)[-k:], axis=0, keepdims=True)
    return 2 * scores - near_queries - near_gallery


def cosines(queries: np.ndarray, gallery: np.ndarray) -> np.ndarray:
    """Return the cosine of every query with every gallery item."""
    return unit(queries) @ unit(gallery).T


def reciprocal_rank(scores: np.ndarray) -> float:
    """Mean reciprocal rank of item i for query i."""
    return float(np.mean(1 / (1 + np.sum(scores > np.diagonal(scores)[:, None], axis=1))))


def error(predicted: np.ndarray, y: np.ndarray) -> float:
    """Squared error as a share of the target's variance."""
    return float(np.sum((predicted - y) ** 2) / np.sum((y - y.mean(0)) ** 2))


def unit(a: np.ndarray) -> np.ndarray:
    """Scale rows to norm 1."""
    return a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-12)


def _polar(m: np.ndarray) -> np.ndarray:
    u, _, vt = np.linalg.svd(m, full_matrices=False)
    return u @ vt
