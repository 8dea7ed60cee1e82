"""An ONNX model: its bytes, what stands in it, and the session that runs it, which is opened on first use.

ONNX Runtime only computes here: bytes in, numbers out, in one thread. It is an extra (`crossline[models]`), and is
loaded where a rule has a model, nowhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from crossline.core.basics.values import F64

# Records are scored by so many at a time, always: how a matrix product is rounded may depend on its height.
BLOCK = 64
_REALS = {"tensor(float)": np.float32, "tensor(double)": np.float64}
_OF_TWO = 2  # classes, of which the second one is what is looked for


class ModelError(Exception):
    """What is wrong with a model: ``found``, and what was ``expected``."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}; expected {expected}")
        self.found, self.expected = found, expected


@dataclass(frozen=True)
class Model:
    """The model of these bytes. ``name`` is what people call it; models with one ``digest`` are the same."""

    name: str
    digest: str
    data: bytes = field(compare=False, repr=False)

    @staticmethod
    def of(name: str, data: bytes) -> Model:
        """The model in ``data``; its digest is their SHA-256, in hex."""
        return Model(name, hashlib.sha256(data).hexdigest(), data)

    @property
    def version(self) -> str:
        """What its metadata say: `version` among the properties, else the model version of the format.

        Raises ModelError where it cannot be opened.
        """
        meta = opened(self).get_modelmeta()
        return str(meta.custom_metadata_map.get("version", meta.version))

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of its outputs that are tensors of real numbers. Raises ModelError where it cannot be opened."""
        return tuple(each.name for each in opened(self).get_outputs() if each.type in _REALS)


@lru_cache(maxsize=64)
def opened(model: Model) -> Any:
    """The session of ``model``, one for a process. Raises ModelError where there is none to be had."""
    try:
        import onnxruntime as ort  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        raise ModelError("no ONNX Runtime here", "it to be installed: pip install 'crossline[models]'") from None
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.use_deterministic_compute = True
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(model.data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - it has a class of its own for each thing that may be wrong
        raise ModelError(f"what ONNX Runtime cannot open ({_first_line(error)})", "an ONNX model in one file") from None


@dataclass(frozen=True, slots=True)
class Scorer:
    """``model`` over features of these names, in this order. ``output``: the one that is read; None: the only one."""

    model: Model
    features: tuple[str, ...]
    output: str | None = None

    def check(self) -> None:
        """Raises ModelError where the model does not take the features, or gives no score of each record by itself."""
        self._inputs()
        self._output()
        trial = np.random.default_rng(0).normal(size=(BLOCK, len(self.features))) * 10
        try:
            whole, turned = self._run(trial), self._run(trial[::-1].copy())[::-1]
            alone = np.array([self._run(np.repeat(trial[n : n + 1], BLOCK, axis=0))[0] for n in range(0, BLOCK, 21)])
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a graph raises
            raise ModelError(f"a model that fails ({_first_line(error)})", "one that scores any numbers") from None
        if not (same(whole, turned) and same(whole[::21], alone)):
            raise ModelError("a score that depends on the records beside it", "one of each record by itself")

    def scores(self, features: F64) -> tuple[F64, str]:
        """The score of each row of ``features`` (n x k, NaN where missing), and what went wrong last; '' for nothing.

        A row whose score is no finite number, or at which the model fails, has NaN. The score of a row is the same
        whatever rows stand beside it.
        """
        out: F64 = np.full(len(features), np.nan)
        why = ""
        for start in range(0, len(features), BLOCK):
            rows = features[start : start + BLOCK]
            try:
                out[start : start + BLOCK] = self._run(_filled(rows))[: len(rows)]
            except Exception:  # noqa: BLE001 - whatever a graph raises: of one row, perhaps
                for n in range(len(rows)):
                    try:
                        out[start + n] = self._run(_filled(rows[n : n + 1]))[0]
                    except Exception as error:  # noqa: BLE001
                        why = _first_line(error)
        bad = ~np.isfinite(out)
        if bad.any() and not why:
            why = "a score that is no finite number"
        out[bad] = np.nan
        return out, why

    def _run(self, block: F64) -> F64:
        """Raises ModelError where the output has another shape, and whatever the graph raises."""
        found = opened(self.model).run([self._output()], self._given(block))[0]
        if found.shape == (len(block), _OF_TWO):
            found = found[:, 1]
        if found.shape not in {(len(block),), (len(block), 1)}:
            expected = (
                f"one number for each record: [{len(block)}], [{len(block)}, 1], or [{len(block)}, 2] of two classes"
            )
            raise ModelError(f"an output of shape {list(found.shape)} for {len(block)} records", expected)
        scores: F64 = found.reshape(len(block)).astype(np.float64)
        return scores

    def _given(self, block: F64) -> dict[str, Any]:
        inputs = self._inputs()
        with np.errstate(over="ignore"):
            if len(inputs) == 1:
                return {inputs[0][0]: block.astype(inputs[0][1])}
            columns = {name: block[:, n : n + 1] for n, name in enumerate(self.features)}
            return {name: columns[name].astype(kind) for name, kind in inputs}

    def _inputs(self) -> list[tuple[str, Any]]:
        """Name and type of each input. Raises ModelError where the features do not fit."""
        inputs = opened(self.model).get_inputs()
        for each in inputs:
            if each.type not in _REALS:
                raise ModelError(
                    f"input {each.name} of type {each.type}", "inputs of real numbers: tensor(float) or (double)"
                )
            if len(each.shape) != _OF_TWO or isinstance(each.shape[0], int):
                raise ModelError(
                    f"input {each.name} of shape {each.shape}", "a table of any number of records: [N, columns]"
                )
        names = [each.name for each in inputs]
        if len(inputs) == 1:
            width = inputs[0].shape[1]
            if isinstance(width, int) and width != len(self.features):
                raise ModelError(
                    f"input {names[0]} of {width} columns", f"as many as there are features: {len(self.features)}"
                )
        elif set(names) != set(self.features):
            raise ModelError(f"inputs {', '.join(sorted(names))}", f"those of the features: {', '.join(self.features)}")
        elif any(isinstance(each.shape[1], int) and each.shape[1] != 1 for each in inputs):
            raise ModelError(
                "inputs of several columns each", "one input of all features, or one of one column for each"
            )
        return [(each.name, _REALS[each.type]) for each in inputs]

    def _output(self) -> str:
        outputs = self.model.outputs
        if self.output is not None and self.output in outputs:
            return self.output
        if self.output is not None or len(outputs) != 1:
            found = "none" if not outputs else ", ".join(outputs)
            told = f"no output {self.output}" if self.output is not None else "no one output to read"
            raise ModelError(f"{told}: those of real numbers are {found}", "the name of one of them as output")
        return outputs[0]


def same(left: F64, right: F64) -> bool:
    """To the last bit; not a number is the same as itself."""
    return bool(np.array_equal(left, right, equal_nan=True))


def _filled(rows: F64) -> F64:
    """``rows`` and as many copies of the last one as make a block."""
    return np.concatenate([rows, np.repeat(rows[-1:], BLOCK - len(rows), axis=0)]) if len(rows) < BLOCK else rows


def _first_line(error: Exception) -> str:
    lines: Sequence[str] = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]
