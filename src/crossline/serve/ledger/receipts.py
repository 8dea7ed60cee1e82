"""Receipts: what a decision rested on, with a digest, a place in a chain, and a signature where there is a key.

The digest of a receipt is SHA-256 of its canonical JSON (UTF-8, keys sorted, no blanks) without ``digest`` and
``signature``. It covers the digest of the receipt before, so that each receipt vouches for all before it.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from crossline.serve.decisions.values import Basis, RecordVerdict, SubmittedRecord

SCHEMA_VERSION = 1
BASES_KEPT = 256
# The digest that the first receipt of a chain names as the one before.
BEGINNING = "0" * 64
# Not covered by the digest, since they come after it.
OUTSIDE = ("digest", "signature")
# What the answer to a client has and its receipt leaves out: the receipt's own digest.
OF_ANSWER = "receipt"

FIELDS = (
    *("schema_version", "decision", "record_digest", "rules", "rules_digest", "policy_digest", "lists", "models"),
    *("figures", "standing", "as_of", "replica", "sequence", "previous", "key_id", "digest", "signature"),
)
# A field that erasure adds: true where ids of a person are gone, so that the fields do not give the digest any more.
ERASED = "erased"
# Only where some reason is of before.
OPTIONAL = ("standing", "signature")


@dataclass(frozen=True, slots=True)
class ChainHead:
    """Where a chain stands: its last receipt. Sequence 0: it has none yet."""

    replica: str
    sequence: int = 0
    digest: str = BEGINNING


@dataclass(frozen=True, slots=True)
class ReceiptEntry:
    """An answer that is to be kept.

    ``decision``: the answer's JSON values, without ``receipt``. ``basis``: what was in force; None if it is unknown,
    as for a fallback that was answered because no replica could. ``figures`` and ``evidence``: by rule id, as in a
    ``RecordVerdict``.
    """

    asked: SubmittedRecord
    decision: Mapping[str, Any]
    basis: Basis | None = None
    figures: Mapping[str, Mapping[str, Any]] | None = None
    evidence: Mapping[str, Mapping[str, Any]] | None = None

    @staticmethod
    def of(asked: SubmittedRecord, decision: Mapping[str, Any], verdict: RecordVerdict, basis: Basis) -> ReceiptEntry:
        """The entry of an answer that a replica judged; ``decision`` is the answer as the client gets it."""
        return ReceiptEntry(asked, decision, basis, verdict.figures, verdict.evidence)


def canonical(value: Any) -> bytes:
    """JSON in the one form that digests are of. Raises TypeError for what is no JSON value."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def digest_of(receipt: Mapping[str, Any]) -> str:
    """SHA-256, in hex, of all fields of a receipt but ``digest`` and ``signature``.

    Example:
        >>> digest_of({"sequence": 1, "digest": "wrong"}) == digest_of({"sequence": 1})
        True
    """
    return hashlib.sha256(
        canonical({name: value for name, value in receipt.items() if name not in OUTSIDE})
    ).hexdigest()


def answer_of(decision: Mapping[str, Any], digest: str) -> bytes:
    """The answer to a client: the decision with the digest of its receipt."""
    return orjson.dumps({**decision, OF_ANSWER: digest})


def basis_json(basis: Basis | None) -> dict[str, Any]:
    """What was in force, as receipts say it: the part that many receipts have alike."""
    if basis is None:
        return {"rules": [], "rules_digest": None, "policy_digest": None, "lists": {}, "models": {}}
    return {
        "rules": [{name: rule[name] for name in ("rule_id", "version", "digest")} for rule in basis.rules],
        "rules_digest": basis.rules_digest,
        "policy_digest": basis.policy_digest,
        "lists": dict(basis.lists),
        "models": dict(basis.models),
    }


@dataclass(frozen=True, slots=True)
class BasisText:
    """What was in force, as receipts say it: ``values``, their JSON and its digest, and each as canonical JSON.

    ``written`` stands in a receipt for ``values`` where its digest is made: nothing of it is written anew.
    """

    values: Mapping[str, Any]
    digest: str
    body: bytes
    written: Mapping[str, Any]


class BasisTexts:
    """Those of the last bases: a basis changes with rules, lists and policy, and many receipts have it.

    Known by the object itself, which the judging process hands out again and again, and not by its ``digest``.
    """

    def __init__(self, kept_max: int = BASES_KEPT) -> None:
        self._kept_max = kept_max
        self._known: OrderedDict[int, tuple[Basis | None, BasisText]] = OrderedDict()

    def of(self, basis: Basis | None) -> BasisText:
        """The text of ``basis``."""
        found = self._known.get(id(basis))
        if found is None or found[0] is not basis:
            found = self._known[id(basis)] = (basis, _basis_text(basis))
            if len(self._known) > self._kept_max:
                self._known.popitem(last=False)
        return found[1]


def _basis_text(basis: Basis | None) -> BasisText:
    values = basis_json(basis)
    written = {name: orjson.Fragment(canonical(value)) for name, value in values.items()}
    return BasisText(values, hashlib.sha256(canonical(values)).hexdigest(), orjson.dumps(values), written)


def figures_json(entry: ReceiptEntry) -> list[dict[str, Any]]:
    """The figures that a decision rests on, by the name of their rule, each with the records that it is of."""
    evidence = entry.evidence or {}
    return list(_figures(entry.figures or {}, evidence))


def _figures(
    figures: Mapping[str, Mapping[str, Any]], evidence: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    for name in sorted({*figures, *evidence}):
        figure, rests_on = figures.get(name, {}), evidence.get(name, {})
        ids: Sequence[str] = rests_on.get("record_ids") or ()
        yield {
            "name": name,
            "window_start": figure.get("window_start"),
            "window_end": figure.get("window_end"),
            "value": figure.get("value"),
            "record_ids": [str(each) for each in ids],
            "count": int(rests_on.get("count") or len(ids)),
        }


def standing_json(decision: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The reasons that are of before: no figure was worked out for them at the record.

    Each names the alert that it rests on, or the hold of a person; its figure stands in that alert.
    """
    return [
        {
            "name": reason["rule_id"],
            "alert_id": reason.get("alert_id"),
            "held_by": reason.get("held_by"),
            "message": reason.get("message"),
        }
        for reason in decision.get("reasons") or ()
        if reason.get("standing") or reason.get("held_by")
    ]


def receipt_body(
    entry: ReceiptEntry, link: ChainHead, key_id: str | None, basis: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The receipt of ``entry``, the next after ``link``, in the order promised, without digest and signature.

    ``basis``: what was in force, as a ``BasisText`` has it; None: it is made of the entry's.
    """
    standing = standing_json(entry.decision)
    return {
        "schema_version": SCHEMA_VERSION,
        "decision": dict(entry.decision),
        "record_digest": entry.asked.digest,
        **(basis_json(entry.basis) if basis is None else basis),
        "figures": figures_json(entry),
        **({"standing": standing} if standing else {}),
        "as_of": entry.decision.get("as_of"),
        "replica": link.replica,
        "sequence": link.sequence + 1,
        "previous": link.digest,
        "key_id": key_id,
    }
