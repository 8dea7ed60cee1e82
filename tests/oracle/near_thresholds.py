"""Rules and late records by which alerts come, change, go and come again."""

from __future__ import annotations

import random
import sys

from hypothesis import settings
from hypothesis import strategies as st

from .strategies import START_MS, STREAM, Body, Record
from .test_constant_verdicts import near, storms
from .test_corrections import BUSY, WITHIN, disordered
from .test_corrections_keys import BUSY as OF_KEYS
from .test_detect_equals_naive import DEEP, many

some = settings(many, max_examples=2000 if DEEP else 12)
RULES = near() | st.lists(st.sampled_from(BUSY) | st.sampled_from(OF_KEYS), min_size=1, max_size=2)
RECORDS = disordered(25) | storms(40)
LEAST = st.sampled_from([1, sys.maxsize])  # late records that are judged once


def hot_key() -> tuple[Body, list[Record]]:
    """An average near its threshold, which each late record moves, and 300 records of one key; two pieces of 150."""
    rule: Body = {**WITHIN, "rule_id": "r0", "version": 1, "source_topic": STREAM, "rule_type": "velocity"}
    rule |= {"group_by": "account", "aggregation_type": "avg", "aggregation_field": "amount", "window": "2s"}
    drawn, made = random.Random(7), list[Record]()
    for number in range(300):
        at_ms = START_MS + 100 * number
        late_ms = drawn.choice([0, 0, 0, 0, drawn.randrange(5_900)])
        fields = {"account": "a1", "device": 1, "amount": drawn.randrange(7), "price": 0.1, "kind": "POS"}
        made.append({**fields, "_id": f"t{number}", "_event_ms": at_ms - late_ms, "_ingest_ms": at_ms})
    return {**rule, "aggregation_threshold": 3}, made
