"""Receipts of decisions about the person: figures stay, ids go, and the chain holds.

A chain is held together by the digests of its receipts and by their sequence. Both stay, and so does the signature,
which is over the digest. The receipt's fields do not give the digest any more; ``erased`` says so.
"""

from __future__ import annotations

from crossline.erasure.rows import Row, learn
from crossline.erasure.subject import Subject, dumped, parsed

ERASED = "erased"  # a field of a receipt whose ids are gone
_DIGEST_OF_RECORD = "record_digest"


def erased_row(subject: Subject, row: Row) -> Row:
    """A row of the table ``receipts`` of the lake, without traces; the row itself where it has none.

    The columns ``answer`` and ``body`` are JSON; ``body`` is what the ledger keeps of a receipt besides its answer.
    """
    answer = parsed(row["answer"]) if isinstance(row.get("answer"), str) else None
    own = subject.owns({**row, "answer": answer}, row.get("stream"))
    if own:
        learn(subject, {**row, "answer": answer}, row.get("stream"))
    after = dict(row)
    if isinstance(row.get("record_id"), str) and subject.is_id(row.get("stream"), row["record_id"]):
        after["record_id"] = subject.pseudonym(row["record_id"])
    if isinstance(row.get("answer"), str):
        after["answer"] = subject.scrub(row["answer"], row.get("stream"))
    if isinstance(row.get("body"), str):
        body = erased_rest(subject, row["body"], row.get("stream"), own=own or after["answer"] != row["answer"])
        after["body"] = row["body"] if body is None else body
    return row if after == row else after


def erased_rest(subject: Subject, text: str, stream: str | None, *, own: bool) -> str | None:
    """What a ledger keeps of a receipt besides its answer, without traces.

    Args:
        subject: Whose traces are erased.
        text: JSON.
        stream: The stream of its ids.
        own: Whether its answer has a trace: then the receipt is marked, and the digest of its record goes.

    Returns:
        Other JSON; None where nothing changes.
    """
    rest = parsed(text)
    if not isinstance(rest, dict):
        return None
    after = subject.scrub(rest, stream)
    if own and rest.get(ERASED) is not True:
        after[_DIGEST_OF_RECORD] = ERASED
    if not own and after == rest:
        return None
    after[ERASED] = True
    return None if after == rest else dumped(after)
