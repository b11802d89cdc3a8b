"""ONNX: the map as one graph of standard operators, built without torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from relatent import __version__
from relatent._errors import needs
from relatent._files import atomic_write
from relatent.exports.formats import described, map_of, steps_of
from relatent.spaces.io.files import AnyPath
from relatent.translate.endpoints import Side

# Read by every onnxruntime since 1.14 (2023), and by onnx.js and Windows ML of the same age.
OPSET = 18
IR_VERSION = 8


def write(
    translator: Any, path: AnyPath, *, side: Side = "source", normalize: bool = False, overwrite: bool = False
) -> None:
    """Write an ONNX file: ``vectors`` (batch, d) float32 in, ``translated`` (batch, k) float32 out."""
    content = model(translator, side=side, normalize=normalize).SerializeToString()
    with atomic_write(path, overwrite=overwrite) as tmp:
        tmp.write_bytes(content)


def model(translator: Any, *, side: Side = "source", normalize: bool = False) -> Any:
    """Return an ``onnx.ModelProto`` whose metadata tells the spaces that it joins."""
    onnx = needs("onnx", "export-onnx", "write ONNX files")
    helper, single = onnx.helper, onnx.TensorProto.FLOAT
    graph, last = _Graph(onnx), "vectors"
    for step in steps_of(translator, side, normalize=normalize):
        last = NODES[step.kind](graph, last, **step.arrays)
    graph.add("Identity", last, output="translated")
    fitted = map_of(translator, side)
    ends = {"vectors": fitted.dims_in, "translated": fitted.width}
    given, result = (helper.make_tensor_value_info(name, single, ["batch", d]) for name, d in ends.items())
    built = helper.make_model(
        helper.make_graph(graph.nodes, "translator", [given], [result], graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="relatent",
        producer_version=__version__,
    )
    helper.set_model_props(built, {"relatent": json.dumps(described(translator, side), ensure_ascii=False)})
    onnx.checker.check_model(built, full_check=True)
    return built


class _Graph:
    """Nodes and constants, named as they come."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, output: str | None = None, unused: int = 0, **attributes: Any) -> str:
        """Add a node and return its output, the first of several where the others are ``unused``."""
        output = output or f"{operator}_{len(self.nodes)}"
        outputs = [output, *(f"{output}_{i}" for i in range(unused))]
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, outputs, name=output, **attributes))
        return output

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value, dtype=dtype), name))
        return name

    def cast(self, x: str, kind: str) -> str:
        return self.add("Cast", x, to=getattr(self.onnx.TensorProto, kind))


def _linear(graph: _Graph, x: str, matrix: np.ndarray | None = None, offset: np.ndarray | None = None) -> str:
    if matrix is not None:
        x = graph.add("MatMul" if matrix.ndim == 2 else "Mul", x, graph.constant(matrix))
    return x if offset is None else graph.add("Add", x, graph.constant(offset))


def _unit(graph: _Graph, x: str) -> str:
    """Divide by the largest entry, then by the norm: a square that overflows cannot occur. Zero rows stay zero."""
    axis, zero, one = graph.constant([1], np.int64), graph.constant(0), graph.constant(1)
    for reduce in ("ReduceMax", "ReduceL2"):
        size = graph.add(reduce, graph.add("Abs", x), axis, keepdims=1)
        x = graph.add("Div", x, graph.add("Where", graph.add("Equal", size, zero), one, size))
    return x


def _length(graph: _Graph, x: str, length: np.ndarray, power: np.ndarray) -> str:
    """Bring the length of rows toward a common one. Zero rows stay zero."""
    unit = _unit(graph, x)
    norm = graph.add("ReduceSum", graph.add("Mul", x, unit), graph.constant([1], np.int64), keepdims=1)
    own = graph.add("Pow", norm, graph.constant(1 - float(power)))
    return graph.add("Mul", unit, graph.add("Mul", own, graph.constant(float(length) ** float(power))))


def _gaussian(graph: _Graph, x: str, centers: np.ndarray, width: np.ndarray) -> str:
    """Append the similarities to the centers; distances are taken in double about the centers' mean."""
    origin = centers.astype(np.float32).mean(axis=0)
    near = (centers.astype(np.float32) - origin).astype(np.float64)
    rows = graph.cast(graph.add("Sub", x, graph.constant(origin)), "DOUBLE")
    power = graph.add("ReduceSumSquare", rows, graph.constant([1], np.int64), keepdims=1)
    products = graph.add("MatMul", rows, graph.constant(2 * near.T, np.float64))
    sums = graph.add("Add", power, graph.constant(np.sum(near**2, axis=1), np.float64))
    square = graph.add("Max", graph.add("Sub", sums, products), graph.constant(0, np.float64))
    kernel = graph.add("Exp", graph.add("Div", square, graph.constant(-float(width), np.float64)))
    return graph.add("Concat", x, graph.cast(kernel, "FLOAT"), axis=1)


def _squares(graph: _Graph, x: str, weights: np.ndarray) -> str:
    last = graph.add("MatMul", graph.add("Mul", x, x), graph.constant(weights[:, None]))
    return graph.add("Concat", x, last, axis=1)


def _hubness(
    graph: _Graph,
    x: str,
    weights: np.ndarray,
    queries: np.ndarray,
    offsets: np.ndarray,
    weight: np.ndarray,
    neighbors: np.ndarray,
) -> str:
    """Append the squares, less what items lose that score high with the bank of queries."""
    bias = graph.add("MatMul", graph.add("Mul", x, x), graph.constant(weights[:, None]))
    scores = graph.add("Add", graph.add("MatMul", x, graph.constant(queries.T)), graph.constant(offsets))
    best = graph.add("TopK", scores, graph.constant([int(neighbors)], np.int64), unused=1, axis=1)
    mean = graph.add("ReduceMean", best, graph.constant([1], np.int64), keepdims=1)
    lost = graph.add("Mul", graph.add("Add", bias, mean), graph.constant(float(weight)))
    return graph.add("Concat", x, graph.add("Sub", bias, lost), axis=1)


NODES: dict[str, Callable[..., str]] = {
    "linear": _linear,
    "unit": _unit,
    "length": _length,
    "gaussian": _gaussian,
    "squares": _squares,
    "hubness": _hubness,
}
