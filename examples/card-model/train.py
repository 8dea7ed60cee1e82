"""A forest of decision trees on figures and labels, as an ONNX file; and the line that keeps false alerts few.

It is trained on the first three quarters of the time. The line is drawn on the last one, which it has not seen: the
lowest at which good records would be beyond it so many times an hour and no more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import ceil

import numpy as np
import onnx
from features import Featured
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn.ensemble import RandomForestClassifier

from crossline.basics.models.model import Model, Scorer
from crossline.basics.values import F64

NAME, VERSION = "card-model.onnx", "1"
TREES, DEPTH, LEAF, TRIED = 60, 8, 5, 3  # a node tries few features, so that trees rest on all of them
GOOD_SHARE = 8  # one good record in so many is trained on: they are alike, and frauds are few
FALSE_PER_HOUR = 5
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Trained:
    """The bytes of a model, and the ``threshold`` of its rule. ``trained_on``: so many records, so many of frauds."""

    model: bytes
    threshold: float
    trained_on: tuple[int, int]


def train(records: Featured, frauds: Collection[str], seed: int) -> Trained:
    """A model of ``records``, of which ``frauds`` (ids) are of a fraud. Equal arguments make equal bytes."""
    fraud = np.isin(records.ids, list(frauds))
    first, last = records.event_ms.min(), records.event_ms.max()
    early = records.event_ms < first + (last - first) * 3 // 4
    chosen = early & (fraud | (np.random.default_rng(seed).integers(GOOD_SHARE, size=len(fraud)) == 0))
    forest = RandomForestClassifier(
        TREES, max_depth=DEPTH, min_samples_leaf=LEAF, max_features=TRIED, random_state=seed, n_jobs=1
    )
    forest.fit(records.values[chosen].astype(np.float32), fraud[chosen])
    model = _as_onnx(forest, len(records.names))
    later = records.part(~early)
    scores, why = Scorer(Model.of(NAME, model), records.names).scores(later.values)
    told = forest.predict_proba(later.values.astype(np.float32))[:, 1]
    if why or np.abs(scores - told).max() > 1e-5:
        raise SystemExit(f"the ONNX file does not say what the forest says: {why or np.abs(scores - told).max()}")
    good = scores[~fraud[~early]]
    hours = (last - later.event_ms.min()) / HOUR_MS
    return Trained(model, _line(good, int(FALSE_PER_HOUR * hours)), (int(chosen.sum()), int(fraud[chosen].sum())))


def _line(good: F64, most: int) -> float:
    """The lowest line of three decimals at which no more than ``most`` of the scores ``good`` are."""
    beyond = np.sort(good)[::-1][most]
    return min(1.0, ceil(np.nextafter(beyond, 2.0) * 1000) / 1000)


def _as_onnx(forest: RandomForestClassifier, features: int) -> bytes:
    made = convert_sklearn(
        forest,
        "card-model",
        [("features", FloatTensorType([None, features]))],
        options={"zipmap": False},
        target_opset={"": 17, "ai.onnx.ml": 3},
    )
    onnx.helper.set_model_props(made, {"version": VERSION})
    return bytes(made.SerializeToString(deterministic=True))
