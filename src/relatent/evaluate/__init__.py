"""MEASURE: compare two spaces and score a translation. Numbers, no decisions."""

from typing import TYPE_CHECKING

from relatent._lazy import attach

if TYPE_CHECKING:
    from relatent.evaluate.comparison import MEASURES as MEASURES
    from relatent.evaluate.comparison import Comparison as Comparison
    from relatent.evaluate.comparison import Measure as Measure
    from relatent.evaluate.comparison import Score as Score
    from relatent.evaluate.comparison import compare as compare
    from relatent.evaluate.features import FeatureMatches as FeatureMatches
    from relatent.evaluate.features import match_features as match_features
    from relatent.evaluate.fidelity import TaskKept as TaskKept
    from relatent.evaluate.fidelity import arr as arr
    from relatent.evaluate.fidelity import fidelity_report as fidelity_report
    from relatent.evaluate.fidelity import gain_recovered as gain_recovered
    from relatent.evaluate.fidelity import mean_cosine as mean_cosine
    from relatent.evaluate.fidelity import mse as mse
    from relatent.evaluate.fidelity import norm_ratio as norm_ratio
    from relatent.evaluate.fidelity import r2 as r2
    from relatent.evaluate.fidelity import reconstruction_mse as reconstruction_mse
    from relatent.evaluate.fidelity import task_kept as task_kept
    from relatent.evaluate.functional import functional_similarity as functional_similarity
    from relatent.evaluate.interval import Estimate as Estimate
    from relatent.evaluate.interval import Report as Report
    from relatent.evaluate.interval import bootstrap as bootstrap
    from relatent.evaluate.linear import canonical_correlations as canonical_correlations
    from relatent.evaluate.linear import cca as cca
    from relatent.evaluate.linear import cka as cka
    from relatent.evaluate.linear import gulp as gulp
    from relatent.evaluate.linear import minibatch_cka as minibatch_cka
    from relatent.evaluate.linear import predictivity as predictivity
    from relatent.evaluate.linear import procrustes as procrustes
    from relatent.evaluate.linear import pwcca as pwcca
    from relatent.evaluate.linear import svcca as svcca
    from relatent.evaluate.neighbors import Neighbors as Neighbors
    from relatent.evaluate.neighbors import nearest as nearest
    from relatent.evaluate.pairwise import cknna as cknna
    from relatent.evaluate.pairwise import distance_correlation as distance_correlation
    from relatent.evaluate.pairwise import kernel_cka as kernel_cka
    from relatent.evaluate.pairwise import mutual_knn as mutual_knn
    from relatent.evaluate.pairwise import relative_similarity as relative_similarity
    from relatent.evaluate.pairwise import rsa as rsa
    from relatent.evaluate.predictions import agreement as agreement
    from relatent.evaluate.predictions import cohen_kappa as cohen_kappa
    from relatent.evaluate.predictions import jensen_shannon as jensen_shannon
    from relatent.evaluate.retrieval import hubness as hubness
    from relatent.evaluate.retrieval import jaccard as jaccard
    from relatent.evaluate.retrieval import maxsim as maxsim
    from relatent.evaluate.retrieval import mean_rank as mean_rank
    from relatent.evaluate.retrieval import mrr as mrr
    from relatent.evaluate.retrieval import ndcg as ndcg
    from relatent.evaluate.retrieval import precision as precision
    from relatent.evaluate.retrieval import recall as recall
    from relatent.evaluate.retrieval import reciprocal_ranks as reciprocal_ranks
    from relatent.evaluate.retrieval import retrieval_report as retrieval_report
    from relatent.evaluate.retrieval import top1 as top1
    from relatent.evaluate.scale import NormDistribution as NormDistribution
    from relatent.evaluate.scale import ScaleCurve as ScaleCurve
    from relatent.evaluate.scale import norms as norms
    from relatent.evaluate.scale import rescale as rescale
    from relatent.evaluate.scale import rescaled as rescaled
    from relatent.evaluate.scale import scale_curve as scale_curve
    from relatent.evaluate.several import Comparisons as Comparisons
    from relatent.evaluate.several import compare_all as compare_all
    from relatent.evaluate.shape import permutation_angle as permutation_angle
    from relatent.evaluate.shape import procrustes_bound as procrustes_bound
    from relatent.evaluate.shape import soft_matching as soft_matching
    from relatent.evaluate.shape import whitened_procrustes as whitened_procrustes
    from relatent.evaluate.spread import concentricity as concentricity
    from relatent.evaluate.spread import intrinsic_distance as intrinsic_distance
    from relatent.evaluate.spread import magnitude as magnitude
    from relatent.evaluate.spread import uniformity as uniformity
else:
    __getattr__, __dir__, __all__ = attach(__name__)
