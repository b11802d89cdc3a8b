"""EVALUATE: compare two spaces, and judge a translation."""

from relatent.evaluate.comparison import Comparison, Score, compare
from relatent.evaluate.diagnose import AnchorDiagnosis, diagnose_anchors
from relatent.evaluate.fidelity import (
    TaskKept,
    arr,
    cosine,
    fidelity,
    gain_recovered,
    mse,
    norm_ratio,
    r2,
    reconstruction_mse,
    task_kept,
)
from relatent.evaluate.interval import Estimate, Report, bootstrap
from relatent.evaluate.linear import (
    canonical_correlations,
    cca,
    cka,
    minibatch_cka,
    predictivity,
    procrustes,
    pwcca,
    svcca,
)
from relatent.evaluate.neighbors import Neighbors, nearest
from relatent.evaluate.pairwise import (
    cknna,
    distance_correlation,
    kernel_cka,
    mutual_knn,
    relative_similarity,
    rsa,
)
from relatent.evaluate.retrieval import hubness, jaccard, mean_rank, mrr, precision, recall, retrieval, top1
from relatent.evaluate.scale import NormDistribution, ScaleCurve, norms, rescale, rescaled, scale_curve
from relatent.evaluate.verdict import Rule, Search, Verdict, migration

__all__ = [
    "AnchorDiagnosis",
    "Comparison",
    "Estimate",
    "Neighbors",
    "NormDistribution",
    "Report",
    "Rule",
    "ScaleCurve",
    "Score",
    "Search",
    "TaskKept",
    "Verdict",
    "arr",
    "bootstrap",
    "canonical_correlations",
    "cca",
    "cka",
    "cknna",
    "compare",
    "cosine",
    "diagnose_anchors",
    "distance_correlation",
    "fidelity",
    "gain_recovered",
    "hubness",
    "jaccard",
    "kernel_cka",
    "mean_rank",
    "migration",
    "minibatch_cka",
    "mrr",
    "mse",
    "mutual_knn",
    "nearest",
    "norm_ratio",
    "norms",
    "precision",
    "predictivity",
    "procrustes",
    "pwcca",
    "r2",
    "recall",
    "reconstruction_mse",
    "relative_similarity",
    "rescale",
    "rescaled",
    "retrieval",
    "rsa",
    "scale_curve",
    "svcca",
    "task_kept",
    "top1",
]
