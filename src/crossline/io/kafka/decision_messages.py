"""Decisions as Kafka messages: as columns, since there are thousands, and one by one where one must be cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.evaluate.decisions.columns import DecisionColumns
from crossline.io.kafka.messages import TEXTS, Outgoing, bytes_around, shortened

NAME = "decision_id"  # the header with a decision's own id


@dataclass(frozen=True, slots=True)
class DecisionMessages:
    """n decisions for ``topic``, each keyed by its record's id and named by its own; ``values`` are lines of JSON."""

    topic: str
    keys: Sequence[bytes]
    values: Sequence[bytes]
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Outgoing]:
        return map(self.message, range(len(self.names)))

    def message(self, number: int) -> Outgoing:
        """One of them. Within a limit it keeps the decision: see ``decision_messages``."""
        topic, key, value = self.topic, self.keys[number], self.values[number]
        headers = {NAME: self.names[number]}
        return Outgoing(topic, key, value, headers, partial(_cut_decision, topic, key, value, headers))

    def without(self, known: Sequence[Collection[str]]) -> DecisionMessages:
        """Those whose names are in none of ``known``, each name once."""
        names = set(self.names)
        if len(names) == len(self.names) and all(names.isdisjoint(each) for each in known):
            return self
        left: dict[str, int] = {}
        for number, name in enumerate(self.names):
            if name not in left and not any(name in each for each in known):
                left[name] = number
        return self.taken(list(left.values()), self.topic)

    def taken(self, numbers: Sequence[int], topic: str) -> DecisionMessages:
        """Those of ``numbers``, for ``topic``."""
        keys, values = ([column[number] for number in numbers] for column in (self.keys, self.values))
        return DecisionMessages(topic, keys, values, [self.names[number] for number in numbers])


def decision_messages(decisions: DecisionColumns, topic: str | None = None) -> list[DecisionMessages]:
    """The decisions for ``topic``, else for the topics that they name.

    One that names no topic is left out. Within a limit one keeps the decision: texts are shortened, then the reasons of
    least weight are left out.
    """
    topics = [topic or head.sink_topic for head in decisions.heads]
    names = [own.decode() for own in decisions.ids]
    if len(set(topics)) == 1:
        return [] if topics[0] is None else [DecisionMessages(topics[0], decisions.record_ids, decisions.lines, names)]
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number, head in enumerate(decisions.head.tolist()):
        if (wanted := topics[head]) is not None:
            numbers[wanted].append(number)
    every = DecisionMessages("", decisions.record_ids, decisions.lines, names)
    return [every.taken(mine, wanted) for wanted, mine in numbers.items()]


def _cut_decision(topic: str, record_id: bytes, line: bytes, headers: dict[str, str], limit: int) -> Outgoing:
    key, value = record_id[: limit // 4], line
    for smaller, left_out in _smaller_decision(orjson.loads(line)):
        value = json_bytes({**smaller, "cut": {"bytes": len(line), "left_out": left_out}})
        if len(value) <= limit - bytes_around(key, headers):
            break
    return Outgoing(topic, key, value, headers, partial(_cut_decision, topic, record_id, line, headers))


def _smaller_decision(decision: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], list[str]]]:
    for text_max in TEXTS:
        yield shortened(decision, text_max), [f"texts past {text_max} characters"]
    reasons = decision["reasons"]
    while reasons:
        reasons = reasons[: len(reasons) // 2]
        less = shortened({**decision, "reasons": reasons}, TEXTS[-1])
        yield less, ["reasons", f"texts past {TEXTS[-1]} characters"]
