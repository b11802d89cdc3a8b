"""Arrays stay on their device. No GPU is used here: torch's meta device has shapes and dtypes, and no numbers.

What would copy to the CPU, or look at a value, fails on it.
"""

import numpy as np
import pytest

import relatent as rl

torch = pytest.importorskip("torch")

N, D, K = 20, 6, 4


def on_meta(*shape, dtype=torch.float32):
    return torch.empty(*shape, dtype=dtype, device="meta")


@pytest.mark.parametrize("map", ["affine", "orthogonal", "least_squares"])
def test_a_map_stays_on_the_device(rng, map):
    x = rng.normal(size=(40, D)).astype(np.float32)
    fitted = rl.Translator(map=map).fit(x, x @ rng.normal(size=(D, 5)).astype(np.float32)).map_
    out = fitted(on_meta(N, D))
    assert (out.device.type, out.dtype, tuple(out.shape)) == ("meta", torch.float32, (N, 5))


def test_functions_of_arrays_ask_the_device_for_one_number():
    """Whether all are finite. Layers (relatent.nn) do not ask: tests/nn/test_projection.py has them on this device."""
    with pytest.raises(RuntimeError, match="meta"):
        rl.relative_projection(on_meta(N, D), on_meta(K, D))
