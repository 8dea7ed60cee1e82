"""The further arrays of a delta with retraction, partitioned by rows: for resharding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crossline.basics.byte_slices import take_bytes
from crossline.basics.values import I64

_ALL = "chunks"  # numbered by the rows: stays whole
_OF_CHANGED = "changed_"


def parted(more: Mapping[str, Any], rows: I64, changed: I64) -> dict[str, Any]:
    """Of what ``Table.delta`` keeps besides its rows: that of ``rows``, and of ``changed`` ones of before."""
    found: dict[str, Any] = {}
    texts = {name.removesuffix("_offsets"): ("_bytes", "_offsets") for name in more if name.endswith("_offsets")}
    texts |= {name.removesuffix("|ends"): ("|text", "|ends") for name in more if name.endswith("|ends")}
    for name, (data, ends) in texts.items():
        mine = changed if name.startswith(_OF_CHANGED) else rows
        offsets = more[f"{name}{ends}"]
        cut = take_bytes(more[f"{name}{data}"], offsets[mine], np.diff(offsets)[mine])
        found[f"{name}{data}"], found[f"{name}{ends}"] = cut
    for name in more.keys() - found.keys():
        mine = changed if name.startswith(_OF_CHANGED) else rows
        found[name] = more[name] if name == _ALL else more[name][mine]
    return found
