"""The closed-form affine map against that of latentis 0.0.8 (300 steps of Adam), and parity of the maps both have.

latentis is no dependency of relatent: ``make bench`` installs it, and without it the suite says how.
"""

import warnings

import numpy as np
import torch

from benchmarks.harness import Inputs, Suite, Target
from relatent import Translator

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its imports warn
    try:
        from latentis.transform import Identity
        from latentis.transform.base import StandardScaling
        from latentis.transform.dim_matcher import ZeroPadding
        from latentis.transform.translate import aligner, functional
    except ImportError as error:
        raise SystemExit("This suite compares with latentis: pip install latentis==0.0.8") from error

MAPS = {
    "orthogonal": functional.svd_align_state,
    "least_squares": functional.lstsq_align_state,
    "orthogonal_least_squares": functional.lstsq_ortho_align_state,
}
SCALINGS = {"standard": StandardScaling, "none": Identity}


def setup(n: int, d: int) -> Inputs:
    """Draw pairs that differ by a linear map and noise."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d), dtype=np.float32)
    y = x @ (rng.standard_normal((d, d), dtype=np.float32) / d**0.5) + 1
    return {"x": x, "y": y + 0.1 * rng.standard_normal((n, d), dtype=np.float32)}


def adam(x: np.ndarray, y: np.ndarray) -> aligner.SGDAffineAligner:
    """Fit latentis' affine aligner."""
    fitted = aligner.SGDAffineAligner(num_steps=300, lr=1e-3, random_seed=0)
    return fitted.fit(torch.from_numpy(x), torch.from_numpy(y))


def closed(x: np.ndarray, y: np.ndarray) -> Translator:
    """Fit ours."""
    return Translator(map="affine").fit(x, y)


def parity(x: np.ndarray, y: np.ndarray) -> list[str]:
    """Compare losses, and the translations of the maps that both have, at equal and unequal dims."""
    ours, theirs = closed(x, y).transform(x), adam(x, y).transform(torch.from_numpy(x))[0].detach().numpy()
    lines = [f"affine loss: ours {np.mean((ours - y) ** 2):.5f}, latentis {np.mean((theirs - y) ** 2):.5f}"]
    for dims in ((48, 48), (48, 32), (32, 48)):
        worst = max(_difference(x[:2000, : dims[0]], y[:2000, : dims[1]], m, s) for m in MAPS for s in SCALINGS)
        lines.append(
            f"{dims[0]} → {dims[1]}: largest relative difference over {len(MAPS)} maps × 2 scalings {worst:.1e}"
        )
    return lines


def _difference(x: np.ndarray, y: np.ndarray, name: str, scaling: str) -> float:
    x, y = x.astype(np.float64), y.astype(np.float64)
    peer = aligner.Translator(
        aligner=aligner.MatrixAligner(name=name, align_fn_state=MAPS[name]),
        x_transform=SCALINGS[scaling](),
        y_transform=SCALINGS[scaling](),
        dim_matcher=ZeroPadding(),
    )
    if name != "orthogonal":  # least squares needs no equal dims, and padding makes it singular
        peer.dim_matcher = Identity()
    a, b = torch.from_numpy(x), torch.from_numpy(y)
    theirs = peer.fit(a, b).transform(a)[0].numpy()
    ours = Translator(map=name, normalize=scaling).fit(x, y).transform(x)
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


SUITE = Suite(
    title="affine fit against latentis, float32",
    setup=setup,
    size={"n": 20_000, "d": 768},
    quick={"n": 2_000, "d": 64},
    contenders={"affine": closed, "latentis affine": adam, "bare products": lambda x, y: (x.T @ x, x.T @ y)},
    bare="bare products",
    peer="latentis affine",
    targets=[Target("affine", over="latentis affine", at_least=100.0)],
    notes=parity,
    repeats=1,
)
