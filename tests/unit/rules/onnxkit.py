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


def looping(turns: int | None) -> bytes:
    """The feature itself, after a loop of ``turns``; None: of as many as the largest feature of all has."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["held"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("n", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("held", TensorProto.FLOAT, [None, 1]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [None, 1]),
        ],
    )
    if turns is None:
        count = [
            helper.make_node("Abs", ["x"], ["size"]),
            helper.make_node("ReduceMax", ["size"], ["most"], keepdims=0),
            helper.make_node("Cast", ["most"], ["turns"], to=TensorProto.INT64),
        ]
    else:
        given = helper.make_tensor("t", TensorProto.INT64, [], [turns])
        count = [helper.make_node("Constant", [], ["turns"], value=given)]
    yes = helper.make_node("Constant", [], ["yes"], value=helper.make_tensor("b", TensorProto.BOOL, [], [True]))
    return model([*count, yes, helper.make_node("Loop", ["turns", "yes", "x"], ["y"], body=body)], 1)


def filling(cells: int | None) -> bytes:
    """The feature itself, beside a tensor of ``cells`` numbers; None: of as many as the largest feature of all has."""
    if cells is None:
        shape = [
            helper.make_node("Abs", ["x"], ["size"]),
            helper.make_node("ReduceMax", ["size"], ["most"], keepdims=0),
            helper.make_node("Cast", ["most"], ["whole"], to=TensorProto.INT64),
            helper.make_node("Unsqueeze", ["whole", "axes"], ["shape"]),
        ]
    else:
        shape = [
            helper.make_node("Shape", ["x"], ["of_x"], start=0, end=1),
            helper.make_node("Mul", ["of_x", "cells"], ["shape"]),
        ]
    zero = helper.make_tensor("z", TensorProto.FLOAT, [1], [0.0])
    nodes = [
        *shape,
        helper.make_node("ConstantOfShape", ["shape"], ["full"], value=zero),
        helper.make_node("ReduceSum", ["full"], ["nothing"], keepdims=0),
        helper.make_node("Add", ["x", "nothing"], ["y"]),
    ]
    whole = {"axes": np.array([0]), "cells": np.array([cells or 0])}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])],
        [numpy_helper.from_array(value.astype(np.int64), name) for name, value in whole.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())
