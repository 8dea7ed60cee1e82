"""An ONNX model: its bytes, what stands in it, and the scores that it makes of features.

It runs in a process of its own (``processes.py``), which has ONNX Runtime: bytes in, numbers out, in one thread. ONNX
Runtime is an extra (`crossline[models]`), and is loaded there and nowhere else.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from crossline.basics.models.missed import MISSED
from crossline.basics.models.processes import HERE, RUNS, TRIED, Ask, Failure, Inputs, Limits, NoProcessError
from crossline.basics.models.processes import ModelError as ModelError  # noqa: PLC0414 - of what stands here
from crossline.basics.models.session import BLOCK as BLOCK  # noqa: PLC0414 - tests of models count in blocks
from crossline.basics.models.session import REALS
from crossline.basics.values import F64

_OF_TWO = 2  # axes: records and columns


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
        return HERE.described(self.digest, self.data).version


@dataclass(frozen=True, slots=True)
class Scorer:
    """``model`` over features of these names, in this order. ``output``: the one that is read; None: the only one."""

    model: Model
    features: tuple[str, ...]
    output: str | None = None

    def check(self) -> None:
        """Raises ModelError where the model does not take the features, or gives no score of each record by itself.

        It is tried out: one that takes more than ``TRIED`` for that, or more memory than there is, is none either.
        """
        failure = _tried(self)
        if failure is not None:
            raise failure.error

    def scores(self, features: F64) -> tuple[F64, str]:
        """The score of each row of ``features`` (n x k, NaN where missing), and what went wrong last; '' for nothing.

        A row whose score is no finite number, or at which the model fails, has NaN. The score of a row is the same
        whatever rows stand beside it.
        """
        out: F64 = np.full(len(features), np.nan)
        try:
            why = self._score(self.asked(RUNS), features, out)
        except ModelError as error:  # some may be there
            why = str(error)
        bad = ~np.isfinite(out)
        if bad.any() and not why:
            why = "a score that is no finite number"
        out[bad] = np.nan
        missed = MISSED.get()
        if missed is not None:
            missed.append(bad)
        return out, why

    def _score(self, ask: Ask, features: F64, out: F64) -> str:
        why = ""
        for n, found in enumerate(self.run(ask, features, RUNS)):
            rows = slice(n * BLOCK, (n + 1) * BLOCK)
            if not isinstance(found, Failure):
                out[rows] = found
            elif len(features[rows]) == 1:
                why = str(found)
            else:  # of one row, perhaps: each by itself, as many copies of it as make a block
                alone = self.run(ask, np.repeat(features[rows], BLOCK, axis=0), RUNS)
                out[rows] = [np.nan if isinstance(each, Failure) else each[0] for each in alone]
                why = next((str(each) for each in reversed(alone) if isinstance(each, Failure)), why)
        return why

    def run(self, ask: Ask, rows: F64, limits: Limits) -> list[F64 | Failure]:
        """The scores of each block of ``rows``, or why there are none. Raises ModelError where it cannot be opened."""
        return HERE.run(self.model.digest, self.model.data, ask, rows, limits)

    def asked(self, limits: Limits) -> Ask:
        """What is given and read. Raises ModelError where the features, or the output, do not fit."""
        described = HERE.described(self.model.digest, self.model.data, limits)
        inputs = self._inputs(described.inputs)
        return Ask(self.features, inputs, self._output([name for name, kind in described.outputs if kind in REALS]))

    def _inputs(self, inputs: Inputs) -> tuple[tuple[str, str], ...]:
        """Name and type of each input. Raises ModelError where the features do not fit."""
        for name, kind, shape in inputs:
            if kind not in REALS:
                raise ModelError(f"input {name} of type {kind}", "inputs of real numbers: tensor(float) or (double)")
            if len(shape) != _OF_TWO or isinstance(shape[0], int):
                raise ModelError(
                    f"input {name} of shape {list(shape)}", "a table of any number of records: [N, columns]"
                )
        names = [name for name, _, _ in inputs]
        if len(inputs) == 1:
            width = inputs[0][2][1]
            if isinstance(width, int) and width != len(self.features):
                raise ModelError(
                    f"input {names[0]} of {width} columns", f"as many as there are features: {len(self.features)}"
                )
        elif set(names) != set(self.features):
            raise ModelError(f"inputs {', '.join(sorted(names))}", f"those of the features: {', '.join(self.features)}")
        elif any(isinstance(shape[1], int) and shape[1] != 1 for _, _, shape in inputs):
            raise ModelError(
                "inputs of several columns each", "one input of all features, or one of one column for each"
            )
        return tuple((name, kind) for name, kind, _ in inputs)

    def _output(self, outputs: list[str]) -> str:
        if self.output is not None and self.output in outputs:
            return self.output
        if self.output is not None or len(outputs) != 1:
            found = "none" if not outputs else ", ".join(outputs)
            text = f"no output {self.output}" if self.output is not None else "no one output to read"
            raise ModelError(f"{text}: those of real numbers are {found}", "the name of one of them as output")
        return outputs[0]


@lru_cache(maxsize=256)
def _tried(scorer: Scorer) -> Failure | None:
    """What is wrong with it; a folder of rules is read again and again, and is not to run each model each time.

    Raises NoProcessError where it could not be tried, or may do better another time.
    """
    rng = np.random.default_rng(0)
    trial = rng.normal(size=(BLOCK, len(scorer.features))) * 10
    alone = [np.repeat(trial[n : n + 1], BLOCK, axis=0) for n in range(0, BLOCK, 21)]
    scores: list[F64] = []
    try:
        ask = scorer.asked(TRIED)
        for block in (trial, trial[::-1], *alone):
            (found,) = scorer.run(ask, block, TRIED)
            if isinstance(found, Failure) and not found.sure:
                raise found.error
            if isinstance(found, Failure):
                return found
            scores.append(found)
    except NoProcessError:
        raise
    except ModelError as error:
        return Failure(error.found, error.expected)
    whole, turned, *single = scores
    if not (same(whole, turned[::-1]) and same(whole[::21], np.array([each[0] for each in single]))):
        return Failure("a score that depends on the records beside it", "one of each record by itself")
    return None


def same(left: F64, right: F64) -> bool:
    """To the last bit; not a number is the same as itself."""
    return bool(np.array_equal(left, right, equal_nan=True))
