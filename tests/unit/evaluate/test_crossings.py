"""The last alert of each rule version and key, held against a dictionary that is asked row by row."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossline.evaluate.suppression import last_alerts as module
from crossline.evaluate.suppression.last_alerts import ALERT_BYTES, Keys, LastAlertChanges, LastAlerts, Pairs

LINES = [("often", 1), ("often", 2), ("large", 1)]
NAMES = [b"a1", b"a2", b"", b"a-longer-key"]

# A batch: of each row its key, and of each line 0: it does not hold, 1: it does, 2: it raises an alert.
ROW = st.tuples(st.integers(0, len(NAMES) - 1), st.lists(st.integers(0, 2), min_size=3, max_size=3))
BATCHES = st.lists(st.lists(ROW, max_size=6), max_size=5)


def alert_of(number: int) -> bytes:
    return number.to_bytes(ALERT_BYTES, "big")


@given(BATCHES, st.sampled_from([1, 1 << 22]), st.booleans(), st.integers(1, 6))
def test_it_names_the_last_alert_up_to_each_row(
    batches: list[list[tuple[int, list[int]]]], dense_max: int, restart: bool, of_chunk: int
) -> None:
    """``of_chunk``: how many rows a chunk of a batch has; each numbers keys anew."""
    known: dict[tuple[int, int], bytes] = {}
    last_alerts, log, alerts, clock = LastAlerts(), list[LastAlertChanges](), 0, 0
    for rows in batches:
        held, emitted, wanted, ids = [], [], [], []
        for row, (key, marks) in enumerate(rows):
            for line, mark in enumerate(marks):
                if mark == 2:
                    alerts += 1
                    known[line, key] = alert_of(alerts)
                    emitted.append((row, line))
                    ids.append(known[line, key])
                if mark:
                    held.append((row, line))
                    wanted.append(known.get((line, key)))
        if not held:
            continue
        index = np.array([key + row // of_chunk * len(NAMES) for row, (key, _) in enumerate(rows)], np.int32)
        names = NAMES * (1 + (len(rows) - 1) // of_chunk)
        offsets = np.concatenate([[0], np.cumsum([len(name) for name in names])]).astype(np.int64)
        keys = Keys(index, np.frombuffer(b"".join(names), np.uint8), offsets, len(rows))
        clock_ms = np.arange(clock, clock + len(rows))
        clock += len(rows)
        given_ids = np.frombuffer(b"".join(ids), np.uint8).reshape(-1, ALERT_BYTES)
        with mock.patch.object(module, "_DENSE_MAX", dense_max):
            found, named, crossed = last_alerts.follow(pairs(held), pairs(emitted), given_ids, LINES, keys, clock_ms)
        assert [each.tobytes() if there else None for each, there in zip(found, named, strict=True)] == wanted
        log.append(crossed)
        if restart:
            last_alerts = LastAlerts()
            for each in log:
                again = LastAlertChanges.of(each.arrays())
                assert again is not None
                halves = again.take(np.arange(0, len(each.line), 2)), again.take(np.arange(1, len(each.line), 2))
                for half in halves:
                    last_alerts.load(half, LINES)


def pairs(found: list[tuple[int, int]]) -> Pairs:
    made = np.array(found, np.int64).reshape(-1, 2)
    return Pairs(made[:, 0], made[:, 1])


def test_what_has_not_held_for_long_is_forgotten_once_it_is_half() -> None:
    last_alerts = LastAlerts()
    keys = Keys(np.arange(3, dtype=np.int32), np.frombuffer(b"abc", np.uint8), np.arange(4), 3)
    held, ids = pairs([(0, 0), (1, 0), (2, 0)]), np.zeros((3, ALERT_BYTES), np.uint8)
    last_alerts.follow(held, held, ids, LINES, keys, np.array([10, 20, 30]))
    last_alerts.evict(10)
    assert len(last_alerts) == 3
    last_alerts.evict(20)
    assert last_alerts.clock_ms.tolist() == [30]
