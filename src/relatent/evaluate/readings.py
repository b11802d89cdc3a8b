"""How to read each measure of :func:`relatent.compare`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["READINGS", "Reading"]


@dataclass(frozen=True)
class Reading:
    """What the ends of a measure's scale mean, what leaves it unchanged, and which way is closer."""

    means: str
    unchanged_by: str
    larger_is_closer: bool = True


SIMILAR = "rotation, one scale, offset"
ANY_MAP = "any invertible affine map"

READINGS: dict[str, Reading] = {
    "cka": Reading("1 same shape, 0 uncorrelated", SIMILAR),
    "procrustes_angle": Reading("0 same shape, π/2 = 1.571 uncorrelated", SIMILAR, larger_is_closer=False),
    "procrustes_squared": Reading("0 same shape, 2 uncorrelated", SIMILAR, larger_is_closer=False),
    "cca": Reading("1 linear map between them, 0 uncorrelated", ANY_MAP),
    "svcca": Reading("as cca, on 99 % of the variance", SIMILAR),
    "pwcca": Reading("as cca, weighted by what x uses", f"{ANY_MAP} of y"),
    "predictivity": Reading("1 y linear in x, 0 x tells nothing", f"{ANY_MAP} of x"),
    "kernel_cka": Reading("1 same shape, 0 independent", SIMILAR),
    "rsa": Reading("1 same order of all pairs, 0 none", "rotation, one scale"),
    "distance_correlation": Reading("1 same distances, 0 independent", SIMILAR),
    "mutual_knn": Reading("share of common neighbours", "rotation, one scale"),
    "cknna": Reading("as mutual_knn, weighted by closeness", "rotation, one scale"),
    "relative_similarity": Reading("1 same angles to the anchors, 0 none", SIMILAR),
}
