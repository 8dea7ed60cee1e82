"""Whether receipts are as they were written: each by itself, and all of a chain in their order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from crossline.serve.ledger.receipts import (
    BEGINNING,
    ERASED,
    FIELDS,
    OF_ANSWER,
    OPTIONAL,
    OUTSIDE,
    SCHEMA_VERSION,
    ChainHead,
    digest_of,
)
from crossline.serve.ledger.signing import Verifier

Fault = Literal["altered", "unsigned", "left_out", "swapped", "fork", "repeated"]
# What each of a list has; the first is a text.
_OF_RULE = ("rule_id", "version", "digest")
_OF_FIGURE = ("name", "window_start", "window_end", "value", "record_ids", "count")
_OF_STANDING = ("name", "alert_id", "held_by", "message")
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ChainFault:
    """What is wrong with a receipt, or between two. ``text``: what was found, and what was expected."""

    fault: Fault
    replica: str
    sequence: int
    text: str

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"fault": self.fault, "replica": self.replica, "sequence": self.sequence, "text": self.text}


@dataclass(slots=True)
class ChainCheck:
    """What looking at a chain gave.

    ``unchecked``: receipts with a signature for which no key was given. ``erased``: receipts whose ids are gone.
    """

    receipts: int = 0
    signed: int = 0
    unchecked: int = 0
    erased: int = 0
    faults: list[ChainFault] = field(default_factory=list)
    end: ChainHead | None = None


def faults_of(receipt: Mapping[str, Any], verifier: Verifier | None = None) -> list[ChainFault]:
    """What is wrong with one receipt by itself: its fields, its digest, its signature. None: it is as it was written.

    Without ``verifier`` a signature is not checked; who can write a digest anew can then alter a receipt unseen. The
    digest of a receipt that was erased is not that of its fields any more: its signature and its place are checked.
    """
    replica, sequence = _named(receipt)
    found = [ChainFault("altered", replica, sequence, text) for text in _shape(receipt)]
    if found:
        return found
    try:
        expected = digest_of(receipt)
    except TypeError as error:
        return [ChainFault("altered", replica, sequence, f"found what no receipt can hold: {error}")]
    if receipt["digest"] != expected and not is_erased(receipt):
        text = f"found digest {receipt['digest'][:12]}…, and the receipt's fields give {expected[:12]}…"
        return [ChainFault("altered", replica, sequence, text)]
    return [ChainFault(fault, replica, sequence, text) for fault, text in _unsigned(receipt, verifier)]


def is_erased(receipt: Mapping[str, Any]) -> bool:
    """Whether ids of a person are gone from a receipt, by ``crossline forget``."""
    return receipt.get(ERASED) is True


def check_chain(
    receipts: Iterable[Mapping[str, Any]],
    *,
    begin: ChainHead | None = None,
    end: ChainHead | None = None,
    verifier: Verifier | None = None,
) -> ChainCheck:
    """What is wrong with the receipts of one chain, in the order in which they are given.

    ``begin``: the link before the first of them, where it is known; ``end``: the last, where that is known. Each
    receipt is checked by itself too. An alteration that wrote the digest anew shows at the next receipt, which names
    the digest that was there: that of the last one shows only by ``end``, or by a signature.
    """
    checked, seen = ChainCheck(), dict[int, Mapping[str, Any]]()
    highest = 0
    for receipt in receipts:
        checked.receipts += 1
        checked.signed += receipt.get("signature") is not None
        checked.unchecked += verifier is None and receipt.get("signature") is not None
        checked.erased += is_erased(receipt)
        checked.faults += faults_of(receipt, verifier)
        replica, sequence = _named(receipt)
        if sequence in seen:
            checked.faults.append(_duplicate(seen[sequence], receipt))
            continue
        if sequence < highest:
            text = f"receipt {sequence} stands behind receipt {highest}; expected them in their order"
            checked.faults.append(ChainFault("swapped", replica, sequence, text))
        highest = max(highest, sequence)
        seen[sequence] = receipt
    ordered = [seen[number] for number in sorted(seen)]
    checked.faults += _between(ordered, begin, end)
    if ordered:
        replica, sequence = _named(ordered[-1])
        checked.end = ChainHead(replica, sequence, str(ordered[-1].get("digest")))
    return checked


def _between(ordered: Sequence[Mapping[str, Any]], begin: ChainHead | None, end: ChainHead | None) -> list[ChainFault]:
    """What is wrong between receipts, at the beginning and at the end; each sequence is there once."""
    found: list[ChainFault] = []
    before = begin
    claimed: dict[str, int] = {}
    for receipt in ordered:
        replica, sequence = _named(receipt)
        previous = str(receipt.get("previous"))
        if before is None:
            if sequence == 1 and previous != BEGINNING:
                text = f"the first receipt names {previous[:12]}… as the one before; expected {BEGINNING[:12]}…"
                found.append(ChainFault("altered", replica, sequence, text))
        elif replica != before.replica:
            text = f"receipt {sequence} is of {replica}; expected one of {before.replica}"
            found.append(ChainFault("altered", replica, sequence, text))
        elif sequence > before.sequence + 1:
            which = _span(before.sequence + 1, sequence - 1)
            found.append(ChainFault("left_out", replica, before.sequence + 1, f"{which} is not there"))
        elif previous in claimed and previous != before.digest:
            text = f"receipts {claimed[previous]} and {sequence} both name {previous[:12]}… as the one before"
            found.append(ChainFault("fork", replica, sequence, text))
        elif previous != before.digest:
            text = (
                f"receipt {sequence} names {previous[:12]}… as the one before; receipt {before.sequence} is "
                f"{before.digest[:12]}…: one of the two was written anew"
            )
            found.append(ChainFault("altered", replica, before.sequence, text))
        claimed.setdefault(previous, sequence)
        before = ChainHead(replica, sequence, str(receipt.get("digest")))
    return found + _at_end(before, end)


def _at_end(last: ChainHead | None, end: ChainHead | None) -> list[ChainFault]:
    if end is None or not end.sequence or last == end:
        return []
    if last is None or last.sequence < end.sequence:
        which = _span((last.sequence if last else 0) + 1, end.sequence)
        return [ChainFault("left_out", end.replica, end.sequence, f"{which} at the end is not there")]
    if last.sequence > end.sequence:
        text = f"receipt {last.sequence} stands behind the last that was written, {end.sequence}"
        return [ChainFault("fork", end.replica, last.sequence, text)]
    text = f"the last receipt is {last.digest[:12]}…; {end.digest[:12]}… was written"
    return [ChainFault("altered", end.replica, end.sequence, text)]


def _duplicate(first: Mapping[str, Any], second: Mapping[str, Any]) -> ChainFault:
    replica, sequence = _named(second)
    if first == second:
        return ChainFault("repeated", replica, sequence, f"receipt {sequence} is there twice")
    text = (
        f"there are two receipts {sequence}, {str(first.get('digest'))[:12]}… and {str(second.get('digest'))[:12]}…: "
        "the chain goes on in two ways"
    )
    return ChainFault("fork", replica, sequence, text)


def _span(first: int, last: int) -> str:
    return f"receipt {first}" if first == last else f"each of the receipts {first} to {last}"


def _named(receipt: Mapping[str, Any]) -> tuple[str, int]:
    sequence = receipt.get("sequence")
    whole = isinstance(sequence, int) and not isinstance(sequence, bool)
    return str(receipt.get("replica")), int(sequence) if whole and sequence is not None else 0


def _shape(receipt: Mapping[str, Any]) -> list[str]:
    """Fields that are missing, too many, or nothing that a receipt can have."""
    found = [f"found no {name}" for name in FIELDS if name not in receipt and name not in OPTIONAL]
    found += [f"found a field {name!r}, which no receipt has" for name in receipt if name not in {*FIELDS, ERASED}]
    if found:
        return found
    if receipt["schema_version"] != SCHEMA_VERSION or isinstance(receipt["schema_version"], bool):
        return [f"found schema_version {receipt['schema_version']!r}; this crossline reads {SCHEMA_VERSION}"]
    for name in ("digest", "previous"):
        if not isinstance(receipt[name], str) or not _HEX.fullmatch(receipt[name]):
            found.append(f"{name}: found {str(receipt[name])[:20]!r}; expected 64 digits in hex")
    if _named(receipt)[1] < 1:
        found.append(f"sequence: found {receipt['sequence']!r}; expected a number from 1 on")
    if not isinstance(receipt["decision"], dict) or OF_ANSWER in receipt["decision"]:
        return [*found, f"decision: expected the answer, without its {OF_ANSWER}"]
    return found + [f"{name}: found what no receipt has there; expected {text}" for name, text in _types(receipt)]


def _types(receipt: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parts that are not what they must be for anybody to read them, each with what is expected."""
    decision = receipt["decision"]
    for name in ("decision_id", "stream", "record_id", "decision", "answered"):
        if not isinstance(decision.get(name), str):
            yield f"decision.{name}", "a text"
    if not _objects(decision.get("reasons", []), ()):
        yield "decision.reasons", "a list of objects"
    if not isinstance(decision.get("degraded", []), list):
        yield "decision.degraded", "a list"
    for name, fields in (("rules", _OF_RULE), ("figures", _OF_FIGURE), ("standing", _OF_STANDING)):
        if not _objects(receipt.get(name, []), fields):
            yield name, f"a list of objects with {', '.join(fields)}"
    for each in receipt["figures"] if isinstance(receipt["figures"], list) else ():
        ids, count = (each.get("record_ids"), each.get("count")) if isinstance(each, dict) else (None, None)
        if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids) or not isinstance(count, int):
            yield "figures", "record_ids, a list of texts, and count, a number"
    for name in ("lists", "models"):
        if not isinstance(receipt[name], dict):
            yield name, "an object"
    if not isinstance(receipt["replica"], str) or not isinstance(receipt["record_digest"], str):
        yield "replica, record_digest", "texts"


def _objects(value: Any, fields: Sequence[str]) -> bool:
    """Whether it is a list of objects that have ``fields``, the first of which is a text."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return False
    return all(set(fields) <= set(each) and all(isinstance(each[name], str) for name in fields[:1]) for each in value)


def _unsigned(receipt: Mapping[str, Any], verifier: Verifier | None) -> list[tuple[Fault, str]]:
    key_id, signature = receipt["key_id"], receipt.get(OUTSIDE[1])
    if key_id is None:
        if signature is not None:
            return [("altered", "found a signature, and no key_id: it was put there later")]
        return [] if verifier is None else [("unsigned", f"found no signature; expected one of key {verifier.key_id}")]
    if not isinstance(signature, str):
        return [("altered", f"found no signature; key {key_id} has signed it")]
    if verifier is not None and key_id != verifier.key_id:
        return [("unsigned", f"found a signature of key {key_id}; expected one of key {verifier.key_id}")]
    if verifier is not None and not verifier.holds(receipt["digest"], signature):
        return [("altered", f"the signature is none of key {key_id} over this receipt")]
    return []
