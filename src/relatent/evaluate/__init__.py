"""MEASURE: compare two spaces and score a translation. Numbers, no decisions."""

from relatent.evaluate.comparison import MEASURES, Comparison, Measure, Score, compare, compare_spaces
from relatent.evaluate.fidelity import (
    TaskKept,
    arr,
    cosine,
    fidelity_report,
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
from relatent.evaluate.pairwise import cknna, distance_correlation, kernel_cka, mutual_knn, relative_similarity, rsa
from relatent.evaluate.retrieval import (
    hubness,
    jaccard,
    maxsim,
    mean_rank,
    mrr,
    ndcg,
    precision,
    recall,
    reciprocal_ranks,
    retrieval_report,
    top1,
)
from relatent.evaluate.scale import NormDistribution, ScaleCurve, norms, rescale, rescaled, scale_curve
from relatent.evaluate.shape import permutation_angle, soft_matching, whitened_procrustes

__all__ = [
    "MEASURES",
    "Comparison",
    "Estimate",
    "Measure",
    "Neighbors",
    "NormDistribution",
    "Report",
    "ScaleCurve",
    "Score",
    "TaskKept",
    "arr",
    "bootstrap",
    "canonical_correlations",
    "cca",
    "cka",
    "cknna",
    "compare",
    "compare_spaces",
    "cosine",
    "distance_correlation",
    "fidelity_report",
    "gain_recovered",
    "hubness",
    "jaccard",
    "kernel_cka",
    "maxsim",
    "mean_rank",
    "minibatch_cka",
    "mrr",
    "mse",
    "mutual_knn",
    "ndcg",
    "nearest",
    "norm_ratio",
    "norms",
    "permutation_angle",
    "precision",
    "predictivity",
    "procrustes",
    "pwcca",
    "r2",
    "recall",
    "reciprocal_ranks",
    "reconstruction_mse",
    "relative_similarity",
    "rescale",
    "rescaled",
    "retrieval_report",
    "rsa",
    "scale_curve",
    "soft_matching",
    "svcca",
    "task_kept",
    "top1",
    "whitened_procrustes",
]


def __dir__() -> list[str]:
    return __all__
