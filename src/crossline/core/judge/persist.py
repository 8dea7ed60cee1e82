"""A shard's state as a log: what each batch added, encoded, and applied again in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from crossline.core.basics import wire
from crossline.core.judge.contexts import applied
from crossline.core.judge.output import LayerDelta
from crossline.core.judge.shard import Bounds, ShardState, evict_before, store_of
from crossline.core.judge.standing.crossings import Crossed, Crossings
from crossline.core.plan.compile import LayerPlan, StreamPlan
from crossline.core.windows.batch import Delta

CROSSED = "crossed."


def encode_delta(batch_id: int, state: ShardState, deltas: Sequence[LayerDelta]) -> bytes:
    """The segment of one batch: the clocks as of its end, and each layer's records."""
    arrays: wire.Arrays = {}
    layers = []
    for number, item in enumerate(deltas):
        arrays |= {f"{number}.{name}": array for name, array in item.delta.arrays().items()}
        if item.crossed is not None:
            arrays |= {f"{number}.{CROSSED}{name}": array for name, array in item.crossed.arrays().items()}
        clock = item.delta.batch.clock_ms
        layers.append({"layer": item.layer, "lines": item.lines, "clock_ms": int(clock.max()) if len(clock) else None})
    meta = {
        "batch": batch_id,
        "kept_from": state.kept_from,
        "log_clock": state.log_clock,
        "told_ms": state.told_ms,
        "contexts": {layer: each.changes() for layer, each in state.contexts.items()},
        "layers": layers,
    }
    return wire.encode(meta, arrays)


def apply_delta(
    plans: Sequence[StreamPlan], state: ShardState, meta: Mapping[str, Any], arrays: wire.Arrays, bounds: Bounds
) -> None:
    """Put what ``encode_delta`` wrote back into ``state``; layers that no rule needs any more are passed over."""
    state.kept_from = meta["kept_from"]
    state.log_clock = {stream: dict(clocks) for stream, clocks in meta["log_clock"].items()}
    state.told_ms = dict(meta.get("told_ms", {}))
    applied(state.contexts, plans, meta.get("contexts", {}))
    apply_past(plans, state, meta, arrays, bounds)


def apply_past(
    plans: Sequence[StreamPlan],
    state: ShardState,
    meta: Mapping[str, Any],
    arrays: wire.Arrays,
    bounds: Bounds,
    only: Collection[str] | None = None,
) -> None:
    """As ``apply_delta``, for records (of the layers ``only``) alone: the clocks stay as they are.

    What was due by these clocks was told, or is nobody's: it is passed over.
    """
    known, loaded = _layers(plans), dict[str, tuple[StreamPlan, LayerPlan]]()
    for number, item in enumerate(meta["layers"]):
        if item["layer"] not in known or (only is not None and item["layer"] not in only):
            continue
        _, layer_plan = loaded[item["layer"]] = known[item["layer"]]
        prefix = f"{number}."
        mine = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
        lines = tuple((rule_id, version) for rule_id, version in item["lines"])
        store_of(state, layer_plan).load(Delta.of(mine), lines)
        crossed = crossed_of(mine)
        if crossed is not None:
            state.crossings.setdefault(item["layer"], Crossings()).load(crossed, lines)
    for plan, layer_plan in loaded.values():  # of a batch that was cut anew a layer has several parts
        horizon_ms = state.horizon_ms(plan.stream, bounds)
        if horizon_ms is not None:
            state.stores[layer_plan.layer.name].evict(evict_before(layer_plan.layer, horizon_ms))
    for name, (plan, _) in known.items():
        if name in state.stores and plan.stream in state.told_ms and (only is None or name in only):
            state.stores[name].due(state.told_ms[plan.stream])


def expired(plans: Sequence[StreamPlan], state: ShardState, metas: Sequence[Mapping[str, Any]], bounds: Bounds) -> bool:
    """Whether nothing in segments with these ``metas`` is in a window of a record still to come."""
    known = _layers(plans)
    for item in (layer for meta in metas for layer in meta["layers"]):
        if item["clock_ms"] is None or item["layer"] not in known:
            continue
        plan, layer_plan = known[item["layer"]]
        horizon_ms = state.horizon_ms(plan.stream, bounds)
        if horizon_ms is None or item["clock_ms"] > evict_before(layer_plan.layer, horizon_ms):
            return False
    return True


def crossed_of(arrays: Mapping[str, Any]) -> Crossed | None:
    """What a segment says of the last alerts of a layer's rules and keys."""
    return Crossed.of({n.removeprefix(CROSSED): a for n, a in arrays.items() if n.startswith(CROSSED)})


def _layers(plans: Sequence[StreamPlan]) -> dict[str, tuple[StreamPlan, LayerPlan]]:
    return {lp.layer.name: (plan, lp) for plan in plans for lp in plan.layers}
