"""A shard's state as a log: what each batch added, encoded, and applied again in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crossline.basics import wire
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.contexts import applied
from crossline.evaluate.output import StoreDelta
from crossline.evaluate.shard import ShardState, evict_before, store_of
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.state.batch import Delta
from crossline.state.windows.record_store import RecordStore

if TYPE_CHECKING:
    from crossline.evaluate.suppression.last_alerts import LastAlertChanges

CROSSED = "crossed."


def encode_delta(batch_id: int, state: ShardState, deltas: Sequence[StoreDelta]) -> bytes:
    """The segment of one batch: the clocks as of its end, and each state store's records."""
    return b"".join(delta_pieces(batch_id, state, deltas))


def delta_pieces(batch_id: int, state: ShardState, deltas: Sequence[StoreDelta]) -> list[bytes | memoryview]:
    """The bytes of ``encode_delta`` in pieces, views of ``deltas``, for who writes them one behind the other."""
    arrays: wire.Arrays = {}
    state_stores = []
    for number, item in enumerate(deltas):
        arrays |= {f"{number}.{name}": array for name, array in item.delta.arrays().items()}
        if item.crossed is not None:
            arrays |= {f"{number}.{CROSSED}{name}": array for name, array in item.crossed.arrays().items()}
        clock = item.delta.batch.clock_ms
        state_stores.append(
            {"state_store": item.state_store, "lines": item.lines, "clock_ms": int(clock.max()) if len(clock) else None}
        )
    meta = {
        "batch": batch_id,
        "kept_from": state.kept_from,
        "log_clock": state.log_clock,
        "told_ms": state.emitted_to_ms,
        "contexts": {state_store: each.changes() for state_store, each in state.contexts.items()},
        "state_stores": state_stores,
    }
    return wire.encoded_pieces(meta, arrays)


def apply_delta(
    plans: Sequence[StreamPlan], state: ShardState, meta: Mapping[str, Any], arrays: wire.Arrays, bounds: Bounds
) -> None:
    """Put what ``encode_delta`` wrote back into ``state``; state stores that no rule needs any more are skipped."""
    state.kept_from = meta["kept_from"]
    state.log_clock = {stream: dict(clocks) for stream, clocks in meta["log_clock"].items()}
    state.emitted_to_ms = dict(meta.get("told_ms", {}))
    applied(state.contexts, plans, meta.get("contexts", {}))
    apply_backfill(plans, state, meta, arrays, bounds)


class Foresight:
    """What a state that is read from its beginning will hold, as the first blobs foretell.

    ``whole_bytes``: about as many bytes as all blobs have; 0: nothing is foretold. What grows with records is made as
    large at once, and so is filled once, and not at each growth anew.
    """

    def __init__(self, whole_bytes: int) -> None:
        self._whole = whole_bytes
        self._read = self._foreseen = 0

    def applied(self, state: ShardState, arrays: wire.Arrays) -> None:
        """The next blob, with these ``arrays``, is in ``state``."""
        self._read += sum(each.nbytes for each in arrays.values())
        if self._whole > self._read >= max(1, 2 * self._foreseen):
            self._foreseen = self._read
            for store in state.stores.values():
                if isinstance(store, RecordStore):
                    store.expect(int(store.records * self._whole / self._read))


def apply_backfill(
    plans: Sequence[StreamPlan],
    state: ShardState,
    meta: Mapping[str, Any],
    arrays: wire.Arrays,
    bounds: Bounds,
    only: Collection[str] | None = None,
) -> None:
    """As ``apply_delta``, for records (of the state stores ``only``) alone: the clocks stay as they are.

    Hits that are due by these clocks are emitted already, or belong to no rule: they are skipped.
    """
    known, loaded = _state_stores(plans), dict[str, tuple[StreamPlan, StorePlan]]()
    for number, item in enumerate(meta["state_stores"]):
        if item["state_store"] not in known or (only is not None and item["state_store"] not in only):
            continue
        _, store_plan = loaded[item["state_store"]] = known[item["state_store"]]
        prefix = f"{number}."
        mine = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
        lines = tuple((rule_id, version) for rule_id, version in item["lines"])
        store_of(state, store_plan).load(Delta.of(mine), lines)
        crossed = crossed_of(mine)
        if crossed is not None:
            from crossline.evaluate.suppression.last_alerts import LastAlerts  # noqa: PLC0415 - where there is a policy

            state.last_alerts.setdefault(item["state_store"], LastAlerts()).load(crossed, lines)
    for plan, store_plan in loaded.values():  # of a batch that was cut anew a state store has several parts
        horizon_ms = state.horizon_ms(plan.stream, bounds)
        if horizon_ms is not None:
            state.stores[store_plan.state_store.name].evict(evict_before(store_plan.state_store, horizon_ms))
    for name, (plan, _) in known.items():
        if name in state.stores and plan.stream in state.emitted_to_ms and (only is None or name in only):
            state.stores[name].due(state.emitted_to_ms[plan.stream])


def expired(plans: Sequence[StreamPlan], state: ShardState, metas: Sequence[Mapping[str, Any]], bounds: Bounds) -> bool:
    """Whether nothing in segments with these ``metas`` is in a window of a record still to come."""
    known = _state_stores(plans)
    for item in (state_store for meta in metas for state_store in meta["state_stores"]):
        if item["clock_ms"] is None or item["state_store"] not in known:
            continue
        plan, store_plan = known[item["state_store"]]
        horizon_ms = state.horizon_ms(plan.stream, bounds)
        if horizon_ms is None or item["clock_ms"] > evict_before(store_plan.state_store, horizon_ms):
            return False
    return True


def crossed_of(arrays: Mapping[str, Any]) -> LastAlertChanges | None:
    """The last alerts of a state store's rules and keys in a segment; None where nothing is decided."""
    mine = {n.removeprefix(CROSSED): a for n, a in arrays.items() if n.startswith(CROSSED)}
    if not mine:
        return None
    from crossline.evaluate.suppression.last_alerts import LastAlertChanges  # noqa: PLC0415 - where there is a policy

    return LastAlertChanges.of(mine)


def _state_stores(plans: Sequence[StreamPlan]) -> dict[str, tuple[StreamPlan, StorePlan]]:
    return {lp.state_store.name: (plan, lp) for plan in plans for lp in plan.state_stores}
