"""Small models of known answers, written node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(
    nodes: Sequence[Any],
    columns: int | None,
    shape: Sequence[Any] = (None, 1),
    weights: dict[str, Any] | None = None,
    version: str | None = None,
    inputs: Sequence[str] = ("x",),
) -> bytes:
    """A graph of ``nodes`` from inputs of ``columns`` columns to the output ``y`` of ``shape``."""
    real = TensorProto.FLOAT
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, real, [None, columns]) for name in inputs],
        [helper.make_tensor_value_info("y", real, list(shape))],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in (weights or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9, model_version=7)
    if version is not None:
        helper.set_model_props(made, {"version": version})
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def weighted(*weights: float, **more: Any) -> bytes:
    """The sum of the columns, each times its weight."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return model([node], len(weights), weights={"w": np.array([weights]).T}, **more)
