"""EVALUATE: compare two spaces, score a translation, and decide whether it pays."""

from relatent.evaluate.comparison import Comparison, Score, compare
from relatent.evaluate.cutoffs import Cutoff, Thresholds, thresholds
from relatent.evaluate.diagnose import AnchorDiagnosis, diagnose_anchors
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
from relatent.evaluate.late_interaction import maxsim
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
from relatent.evaluate.measures import MEASURES, Measure
from relatent.evaluate.neighbors import Neighbors, nearest
from relatent.evaluate.options import OptionScores, Search, score_options
from relatent.evaluate.origin import Origin, tell_apart
from relatent.evaluate.pairwise import (
    cknna,
    distance_correlation,
    kernel_cka,
    mutual_knn,
    relative_similarity,
    rsa,
)
from relatent.evaluate.retrieval import (
    hubness,
    jaccard,
    mean_rank,
    mrr,
    ndcg,
    precision,
    recall,
    reciprocal_ranks,
    retrieval_report,
    top1,
)
from relatent.evaluate.rule import Cost, Decision, Rule
from relatent.evaluate.scale import NormDistribution, ScaleCurve, norms, rescale, rescaled, scale_curve
from relatent.evaluate.shape import permutation_angle, soft_matching, whitened_procrustes
from relatent.evaluate.storage import Storage, StorageCost, StorageReport, storage_costs, storages
from relatent.evaluate.verdict import Verdict, verdict_of

__all__ = [
    "MEASURES",
    "AnchorDiagnosis",
    "Comparison",
    "Cost",
    "Cutoff",
    "Decision",
    "Estimate",
    "Measure",
    "Neighbors",
    "NormDistribution",
    "OptionScores",
    "Origin",
    "Report",
    "Rule",
    "ScaleCurve",
    "Score",
    "Search",
    "Storage",
    "StorageCost",
    "StorageReport",
    "TaskKept",
    "Thresholds",
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
    "score_options",
    "soft_matching",
    "storage_costs",
    "storages",
    "svcca",
    "task_kept",
    "tell_apart",
    "thresholds",
    "top1",
    "verdict_of",
    "whitened_procrustes",
]


def __dir__() -> list[str]:
    return __all__
