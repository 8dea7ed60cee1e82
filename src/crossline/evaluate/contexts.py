"""Records without context yet: they wait, and are judged when a context of their key comes that is of their time.

They are joined to the last context at or before their own time. There was none, so the first one in their window
that comes is it, and it alone is in the window then. A record waits for as long as such a context may still come in
time; then it is given up, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from crossline.basics.values import I64
from crossline.evaluate.alerts.hits import Hit, JudgedRows
from crossline.evaluate.alerts.origins import Place, rests_on
from crossline.ingest.route.keys import key_values
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.plan.spaces import FormulaPlan
from crossline.state.windows.verdicts.single_record import context_window, read_single_record

_Rule = tuple[str, int]


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """A record that a rule version could not judge yet. ``known``: its id in the rows; ``key``: bytes, in Latin 1."""

    rule_id: str
    version: int
    key: str
    clock_ms: int
    ingest_ms: int
    lateness_ms: int
    known: str
    place: Place
    fields: Mapping[str, Any]
    carried: Mapping[str, Any]

    @property
    def rule(self) -> _Rule:
        """The rule version."""
        return self.rule_id, self.version

    @property
    def name(self) -> tuple[str, int, str, str]:
        """What it is known by."""
        return self.rule_id, self.version, self.key, self.known


@dataclass(slots=True)
class Contexts:
    """The records of a store that wait, by rule version and key; ``came``, ``went``: in the batch that was last."""

    waiting: dict[_Rule, dict[str, list[WaitingRecord]]] = field(default_factory=dict)
    came: list[WaitingRecord] = field(default_factory=list)
    went: list[tuple[str, int, str, str]] = field(default_factory=list)

    def judge(self, judged: JudgedRows, without: Mapping[int, I64], copies: Any) -> Iterator[Hit]:
        """The hits of a batch at records that waited; ``without``: by line the rows that have no context yet."""
        for number, line in judged.store_plan.plan.waiting:
            rows = without.get(number, np.empty(0, np.int64))
            yield from self._judge(judged, number, line, [row for row in rows.tolist() if not copies[row]], copies)

    def _judge(
        self, judged: JudgedRows, number: int, line: FormulaPlan, rows: Sequence[int], copies: Any
    ) -> Iterator[Hit]:
        rule = (line.rule_id, line.version)
        mine = self.waiting.setdefault(rule, {})
        if not mine and not rows:
            return
        batch, plan = judged.batch, judged.store_plan.plan.windowed
        assert plan is not None  # noqa: S101 - only formulas of windows wait
        keys = [_key_text(judged, key) for key in range(len(batch.key_hash))]
        cursor = context_window(plan, line)
        enters = (batch.filters[:, cursor.filter >> 3] >> (cursor.filter & 7)) & 1
        requested = {*mine, *(keys[batch.key_index[row]] for row in rows)}
        wanted = np.array([key in requested for key in keys], np.bool_)[batch.key_index]
        contexts = np.flatnonzero(enters.astype(np.bool_) & wanted & ~copies.astype(np.bool_)).tolist()
        for row, is_context in sorted([*((row, False) for row in rows), *((row, True) for row in contexts)]):
            key = keys[batch.key_index[row]]
            if not is_context:
                waiting = _waiting(judged, line, key, row)
                mine.setdefault(key, []).append(waiting)
                self.came.append(waiting)
                continue
            here = int(batch.clock_ms[row])
            for each in [w for w in mine.get(key, ()) if w.clock_ms - cursor.window_ms <= here <= w.clock_ms]:
                self._drop(each)
                hit = _hit(judged, number, line, each, row)
                if hit is not None:
                    yield hit

    def _drop(self, waiting: WaitingRecord) -> None:
        here = self.waiting[waiting.rule][waiting.key]
        here.remove(waiting)
        if not here:
            del self.waiting[waiting.rule][waiting.key]
        self.went.append(waiting.name)

    def give_up(self, store_plan: StorePlan, horizon_ms: int) -> dict[str, int]:
        """Records that no context can come in time for any more, or whose rule is gone; how many, by rule version."""
        lines = {(line.rule_id, line.version) for _, line in store_plan.plan.waiting}
        late_ms = store_plan.state_store.lateness_ms
        given_up: dict[str, int] = {}
        for each in [w for keys in self.waiting.values() for mine in keys.values() for w in mine]:
            if each.clock_ms + late_ms < horizon_ms or each.rule not in lines:
                self._drop(each)
                name = f"{each.rule_id}@{each.version}"
                given_up[name] = given_up.get(name, 0) + 1
        return given_up

    def changes(self) -> dict[str, Any]:
        """What the last batch changed, as JSON values."""
        return {"came": [asdict(each) for each in self.came], "went": self.went}

    def apply(self, changes: Mapping[str, Any]) -> None:
        """Inverse of ``changes``, on the state before it."""
        for each in changes["came"]:
            waiting = WaitingRecord(**{**each, "place": tuple(each["place"])})
            self.waiting.setdefault(waiting.rule, {}).setdefault(waiting.key, []).append(waiting)
        for rule_id, version, key, known in changes["went"]:
            keys = self.waiting.get((rule_id, version), {})
            keys[key] = [each for each in keys.get(key, ()) if each.known != known]
            if not keys[key]:
                del keys[key]

    def begin(self) -> None:
        """A batch begins."""
        self.came, self.went = [], []


def waits(store_plan: StorePlan) -> bool:
    """Whether records of a state store may wait."""
    return bool(store_plan.plan.waiting)


def _key_text(judged: JudgedRows, number: int) -> str:
    batch = judged.batch
    return batch.key_bytes[batch.key_offsets[number] : batch.key_offsets[number + 1]].tobytes().decode("latin-1")


def _waiting(judged: JudgedRows, line: FormulaPlan, key: str, row: int) -> WaitingRecord:
    batch = judged.batch
    carried = judged.plan.carried.get(line.rule_id, ())
    return WaitingRecord(
        line.rule_id,
        line.version,
        key,
        int(batch.clock_ms[row]),
        int(batch.ingest_ms[row]),
        int(batch.lateness_ms[row]),
        judged.ids(np.array([row]))[0].as_py(),
        judged.place(row),
        {name: batch.facts[name][row].as_py() for name in line.verdict.fields},
        {name: batch.facts[name][row].as_py() for name in carried},
    )


def _hit(judged: JudgedRows, number: int, line: FormulaPlan, waiting: WaitingRecord, row: int) -> Hit | None:
    """What the rule makes of a record with the context of ``row``; None where it does not hold."""
    plan, store_plan = judged.plan, judged.store_plan
    kernel = store_plan.plan.windowed
    assert kernel is not None  # noqa: S101 - as above
    read = read_single_record(kernel, line, waiting.clock_ms, waiting.fields, judged.batch, row)
    if read is None:
        return None
    start_ms, end_ms = context_window(kernel, line).span_ms(waiting.clock_ms)
    record_ids, alerts = rests_on(plan, [judged.ids(np.array([row]))[0].as_py()])
    own, _ = rests_on(plan, [waiting.known])
    came_ms = int(judged.rows["reached"][row])
    return Hit(
        version=next(v for v in store_plan.versions[number] if waiting.ingest_ms < v.effective_until_ms),
        place=waiting.place,
        key=key_values(plan.spec, store_plan.state_store.group_fields, waiting.key.encode("latin-1")),
        record_id=own[0],
        event_ms=waiting.ingest_ms - waiting.lateness_ms,
        ingest_ms=waiting.ingest_ms,
        value=read.value,
        count=1,
        window_start_ms=start_ms,
        window_end_ms=end_ms,
        record_ids=record_ids,
        fields=read.fields,
        records=None,
        figures=read.figures,
        shows=read.shows,
        rests_on=alerts,
        carried=dict(waiting.carried),
        reached_ms=came_ms,
        known_ms=came_ms,
    )


def applied(state: dict[str, Contexts], plans: Iterable[StreamPlan], changes: Mapping[str, Any]) -> None:
    """Put what batches changed of waiting records back into ``state``; state stores that are gone are passed over."""
    known = {each.state_store.name for plan in plans for each in plan.state_stores}
    for state_store, mine in changes.items():
        if state_store in known:
            state.setdefault(state_store, Contexts()).apply(mine)
