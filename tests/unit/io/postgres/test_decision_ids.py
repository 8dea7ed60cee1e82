"""Identities of decisions: of UUIDs as the database makes them of stored rows, else digests."""

from __future__ import annotations

import hashlib
import json
import uuid

from hypothesis import given
from hypothesis import strategies as st

from crossline.io.postgres.decision_ids import begins_uuid, decision_identities, identity_range

UUIDS = st.uuids().map(str)
# Nearly UUIDs among them: written in another way, with a dash or a digit elsewhere.
NEARLY = st.builds(
    lambda text, at, put: text[:at] + put + text[at + 1 :], UUIDS, st.integers(0, 35), st.sampled_from("-gA0é")
)
OTHER = st.text(st.characters(), max_size=40) | NEARLY | UUIDS.map(str.upper)


def naive(pipeline: str, own: str) -> bytes:
    """One id at a time, with the library's UUIDs."""
    try:
        plain = str(uuid.UUID(own)) == own
    except ValueError:
        plain = False
    if not plain:
        return hashlib.blake2b(json.dumps([pipeline, "decisions", own]).encode(), digest_size=16).digest()
    mask = int.from_bytes(hashlib.sha256(pipeline.encode()).digest()[:8], "big")
    return (uuid.UUID(own).int ^ mask).to_bytes(16, "big")


@given(st.text(max_size=5), st.lists(UUIDS | OTHER, max_size=20))
def test_they_are_those_of_a_naive_twin(pipeline: str, ids: list[str]) -> None:
    found = decision_identities(pipeline, pipeline, [each.encode(errors="surrogatepass") for each in ids])
    assert found == [naive(pipeline, each) for each in ids]


@given(UUIDS, UUIDS, st.integers(0, 36))
def test_the_start_of_an_id_bounds_its_identity(own: str, other: str, length: int) -> None:
    assert begins_uuid(own[:length])
    low, high = identity_range(own[:length])
    (mine,), (its,) = (decision_identities("p", "p", [each.encode()]) for each in (own, other))
    assert low <= mine.hex() <= high
    within = low <= its.hex() <= high
    assert within == (own.replace("-", "")[:16].startswith(other[:length].replace("-", "")[:16]))


def test_what_begins_no_uuid() -> None:
    wrong = ["g", "A", "0123456-", "012345678", "01234567-0123-0123-0123-0123456789abc", "é"]
    assert not any(map(begins_uuid, wrong))
    assert all(map(begins_uuid, ["", "0", "01234567-", "01234567-0123-0123-0123-0123456789ab"]))
