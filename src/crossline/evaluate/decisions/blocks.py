"""Records to decide about as columns, with the rules that hold at them and raised no alert there.

What judges a shard of keys sends a block of them to each shard of ids. There the blocks of a batch become one table, a
record once however many blocks have it, and its reasons side by side in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crossline.basics.values import I64, U8
from crossline.basics.wire import Arrays
from crossline.rules.base import Rule
from crossline.rules.policy.hits import DecidedRecord, DecidingHit

Bools = npt.NDArray[np.bool_]
Place = tuple[int, str, str, int, int, str]
Which = tuple[str, str, int]  # stream, partition, offset
Version = tuple[str, int]

OF_RECORDS = ("place_ms", "chunk", "offsets", "event_ms", "ingest_ms")
OF_REASONS = ("version", "alert", "named", "key_hash")


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """m records and n reasons, as they travel.

    ``meta``: ``chunks`` (stream, log, sequence, partition of each), ``versions`` (rule id and version of each that the
    reasons name). ``arrays``: for each record those of ``OF_RECORDS`` (int64[m]) and its id (``id_bytes``,
    ``id_offsets``); for each reason ``reason_row`` (int64[n], ascending, the record) and those of ``OF_REASONS``:
    the number of the version, the id of the alert of the crossing (uint8[n, 16]) where it is ``named``, and the hash of
    the key under which the rule holds.
    """

    meta: Mapping[str, Any]
    arrays: Arrays


@dataclass(slots=True)
class Table:
    """R records in the order of which they are, each with its reasons.

    ``first``: int64[R], one of the entries of the record among ``columns``. ``reason_at``: int64[R + 1], its reasons
    in ``rank``, ``alert``, ``named``; ranks count in ``prototypes``, which stand in order of weight.
    """

    columns: Arrays
    chunks: Sequence[tuple[str, str, int, str]]
    first: I64
    reason_at: I64
    rank: I64
    alert: U8
    named: Bools
    key_hash: Any
    prototypes: Sequence[DecidingHit]
    _partitions: Mapping[tuple[str, str], int]
    _which: tuple[I64, I64]

    def __len__(self) -> int:
        return len(self.first)

    def find(self, which: Which) -> int | None:
        """The number of a record."""
        partition = self._partitions.get(which[:2])
        if partition is None:
            return None
        partitions, offsets = self._which
        low, high = np.searchsorted(partitions, (partition, partition + 1))
        at = int(low + np.searchsorted(offsets[low:high], which[2]))
        return at if at < high and int(offsets[at]) == which[2] else None

    def which(self, number: int) -> Which:
        """Inverse of ``find``."""
        stream, _, _, partition = self._chunk(number)
        return stream, partition, int(self.columns["offsets"][self.first[number]])

    def place(self, number: int) -> Place:
        """Where the record stands among all."""
        at, (stream, log, sequence, partition) = self.first[number], self._chunk(number)
        return int(self.columns["place_ms"][at]), stream, log, sequence, int(self.columns["offsets"][at]), partition

    def record(self, number: int) -> DecidedRecord:
        """The record itself."""
        at, columns = int(self.first[number]), self.columns
        start, end = columns["id_offsets"][at], columns["id_offsets"][at + 1]
        times = int(columns["event_ms"][at]), int(columns["ingest_ms"][at])
        return DecidedRecord(self._chunk(number)[0], columns["id_bytes"][start:end].tobytes().decode(), *times)

    def hits(self, number: int) -> list[DecidingHit]:
        """The reasons of a record, in order of weight."""
        found = []
        for at in range(int(self.reason_at[number]), int(self.reason_at[number + 1])):
            alert_id = alert_text(self.alert[at].tobytes()) if self.named[at] else None
            found.append(self.prototypes[self.rank[at]].standing_on(alert_id, int(self.key_hash[at])))
        return found

    def _chunk(self, number: int) -> tuple[str, str, int, str]:
        return self.chunks[int(self.columns["chunk"][self.first[number]])]


def alert_text(alert: bytes) -> str:
    """An alert's id, of its sixteen bytes."""
    digits = alert.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def alert_bytes(alert_id: str) -> bytes:
    """Inverse of ``alert_text``."""
    return bytes.fromhex(alert_id.replace("-", ""))


def table_of(blocks: Sequence[RecordBlock], rule_of: Callable[[Version], Rule], weight: Callable[..., Any]) -> Table:
    """The records of ``blocks``, each once; ``weight``: what puts hits in the order of reasons."""
    chunks = [tuple(chunk) for block in blocks for chunk in block.meta["chunks"]]
    versions = list(dict.fromkeys((rule, version) for block in blocks for rule, version in block.meta["versions"]))
    prototypes = sorted((DecidingHit.standing_of(rule_of(version)) for version in versions), key=weight)
    ranks = {(each.rule_id, each.rule_version): rank for rank, each in enumerate(prototypes)}
    columns = _joined(blocks, ranks)
    partitions: dict[tuple[str, str], int] = {}
    of_chunk = [partitions.setdefault((chunk[0], chunk[3]), len(partitions)) for chunk in chunks]
    partition = np.array(of_chunk, np.int64)[columns["chunk"]]
    order = np.lexsort((columns["offsets"], partition))
    offsets = columns["offsets"][order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(offsets) != 0) | (np.diff(partition[order]) != 0)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(begins) - 1
    first = order[begins]
    reason_at, rank, alert, named, key_hash = _reasons(columns, number, len(first))
    return Table(
        columns=columns,
        chunks=chunks,
        first=first,
        reason_at=reason_at,
        rank=rank,
        alert=alert,
        named=named,
        key_hash=key_hash,
        prototypes=prototypes,
        _partitions=partitions,
        _which=(partition[first], columns["offsets"][first]),
    )


def _reasons(columns: Arrays, number: I64, records: int) -> tuple[I64, I64, U8, Bools, Any]:
    """By record and then by weight; a rule holds once at a record under one key."""
    record = number[columns["reason_row"]]
    order = np.lexsort((columns["key_hash"], columns["rank"], record))
    record, rank, key_hash = record[order], columns["rank"][order], columns["key_hash"][order]
    kept = np.ones(len(order), np.bool_)
    kept[1:] = (np.diff(record) != 0) | (np.diff(rank) != 0) | (key_hash[1:] != key_hash[:-1])
    order, at = order[kept], np.zeros(records + 1, np.int64)
    np.cumsum(np.bincount(record[kept], minlength=records), out=at[1:])
    return at, rank[kept], columns["alert"][order], columns["named"][order], key_hash[kept]


def _joined(blocks: Sequence[RecordBlock], ranks: Mapping[Version, int]) -> Arrays:
    """The columns of all blocks, end to end, with the numbers of chunks and records as they are then."""
    chunks, rows, found = 0, 0, dict[str, list[Any]]()
    for block in blocks:
        arrays, of = block.arrays, [ranks[rule, version] for rule, version in block.meta["versions"]]
        mine = {name: arrays[name] for name in (*OF_RECORDS, *OF_REASONS[1:], "id_bytes")}
        mine |= {"chunk": arrays["chunk"] + chunks, "reason_row": arrays["reason_row"] + rows}
        mine |= {"rank": np.array(of or [0], np.int64)[arrays["version"]], "id_lengths": np.diff(arrays["id_offsets"])}
        for name, array in mine.items():
            found.setdefault(name, []).append(array)
        chunks, rows = chunks + len(block.meta["chunks"]), rows + len(arrays["offsets"])
    columns = {name: np.concatenate(arrays) for name, arrays in found.items()}
    columns["id_offsets"] = np.concatenate([np.zeros(1, np.int64), np.cumsum(columns.pop("id_lengths"))])
    return columns


def block_of(
    chunks: Sequence[Sequence[Any]], versions: Iterable[Version], records: Arrays, reasons: Arrays | None = None
) -> RecordBlock:
    """A block; ``records`` and ``reasons``: arrays by name. Without reasons: records alone."""
    if reasons is None:
        none: I64 = np.zeros(0, np.int64)
        nothing = {"version": none, "named": none.astype(np.bool_), "key_hash": none.astype(np.uint64)}
        reasons = {"reason_row": none, "alert": np.zeros((0, 16), np.uint8), **nothing}
    meta = {"chunks": [list(chunk) for chunk in chunks], "versions": [list(version) for version in versions]}
    return RecordBlock(meta, {**records, **reasons})
