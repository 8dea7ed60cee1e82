"""Fields and places of a table's rows as the arrays of a delta, and back."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from crossline.state.batch import ArrivalOrder
from crossline.state.retraction.columns import Fact, joined


def fact_arrays(name: str, array: pa.Array) -> dict[str, Any]:
    """A field as arrays, its name among theirs."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_string(array.type):
        data, offsets = joined([b"" if each is None else each.encode() for each in array.to_pylist()])
        return {f"fact.{name}|text": data, f"fact.{name}|ends": offsets, f"fact.{name}|valid": valid}
    filler = False if pa.types.is_boolean(array.type) else 0
    values = array.fill_null(filler).to_numpy(zero_copy_only=False)
    return {f"fact.{name}|values": values, f"fact.{name}|valid": valid}


def facts_in(more: Mapping[str, Any]) -> dict[str, pa.Array]:
    """The fields in the arrays of a delta."""
    found = {}
    for key in (key for key in more if key.startswith("fact.") and key.endswith("|valid")):
        name = key.removesuffix("|valid")
        missing = ~more[key].astype(np.bool_)
        if f"{name}|text" in more:
            fact, data, ends = Fact(pa.string()), more[f"{name}|text"], more[f"{name}|ends"]
            texts = [data[a:b].tobytes().decode() for a, b in pairwise(ends.tolist())]
            array = pa.array([None if gone else text for text, gone in zip(texts, missing, strict=True)], fact.kind)
        else:
            array = pa.array(more[f"{name}|values"], mask=missing)
        found[name.removeprefix("fact.")] = array
    return found


def places_in(more: Mapping[str, Any]) -> ArrivalOrder:
    """The places in the arrays of a delta."""
    chunks = [(log, sequence, partition) for log, sequence, partition in orjson.loads(more["chunks"].tobytes())]
    return ArrivalOrder(more["reached_ms"], more["offset"], more["chunk"], chunks)
