"""Receipts: worked by hand; every field that is altered is found; a chain with one change anywhere is refused."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.errors import UsageError
from crossline.serve.decisions.values import Basis
from crossline.serve.ledger import receipts
from crossline.serve.ledger.chain import check_chain, faults_of
from crossline.serve.ledger.receipts import (
    BEGINNING,
    FIELDS,
    BasisTexts,
    ChainHead,
    basis_json,
    digest_of,
    receipt_body,
)
from crossline.serve.ledger.reports import check_ledger
from crossline.serve.ledger.signing import Signer, Verifier, key_id_of
from crossline.serve.ledger.sqlite import SqliteLedger

from .ledgerkit import BASIS, entry, key_files

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SIGNER = Signer(KEY, key_id_of(KEY.public_key()))


def sealed(body: dict[str, Any], signer: Signer | None = SIGNER) -> dict[str, Any]:
    """A receipt with its digest and signature written anew, as one who has the key would."""
    inner = {name: value for name, value in body.items() if name not in {"digest", "signature"}}
    digest = hashlib.sha256(json.dumps(inner, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return {**inner, "digest": digest, "signature": signer.sign(digest) if signer else None}


def chain(count: int, signer: Signer | None = SIGNER, replica: str = "a") -> list[dict[str, Any]]:
    link, found = ChainHead(replica), []
    for number in range(count):
        body = receipt_body(entry(f"t{number}"), link, signer.key_id if signer else None)
        found.append(sealed(body, signer))
        link = ChainHead(replica, link.sequence + 1, found[-1]["digest"])
    return found


def named(receipts: list[dict[str, Any]], **more: Any) -> list[tuple[str, int]]:
    return [(each.fault, each.sequence) for each in check_chain(receipts, **more).faults]


def test_a_receipt_by_hand() -> None:
    body = receipt_body(entry("t0"), ChainHead("a", 41, "ab" * 32), None)
    assert body == {
        "schema_version": 1,
        "decision": {
            "schema_version": 1,
            "decision_id": body["decision"]["decision_id"],
            "stream": "payments",
            "record_id": "t0",
            "decision": "allow",
            "score": 0,
            "reasons": [],
            "answered": "peek",
            "as_of": {"batch": 7, "age_ms": 40, "laid_over": 3},
            "degraded": [],
        },
        "record_digest": hashlib.sha256(b"{}").hexdigest(),
        "rules": [{"rule_id": "card_burst", "version": 3, "digest": "d" * 8}],
        "rules_digest": "r" * 8,
        "policy_digest": "p" * 8,
        "lists": {"watched": "l" * 8},
        "models": {"risk": "m" * 8},
        "figures": [
            {
                "name": "card_burst",
                "window_start": "2026-01-01T00:00:00.000Z",
                "window_end": "2026-01-01T00:01:00.000Z",
                "value": 10,
                "record_ids": ["t1", "t2"],
                "count": 10,
            }
        ],
        "as_of": {"batch": 7, "age_ms": 40, "laid_over": 3},
        "replica": "a",
        "sequence": 42,
        "previous": "ab" * 32,
        "key_id": None,
    }
    assert (*body, "digest", "signature") == tuple(name for name in FIELDS if name != "standing")


def test_the_digest_is_that_of_the_canonical_text() -> None:
    receipt = {"b": [1, 2.5, "ü"], "a": {"d": None, "c": True}, "digest": "x", "signature": "y"}
    text = '{"a":{"c":true,"d":null},"b":[1,2.5,"ü"]}'
    assert digest_of(receipt) == hashlib.sha256(text.encode()).hexdigest()


def test_a_fallback_has_a_receipt() -> None:
    body = receipt_body(entry("t0", basis=None, answered="fallback"), ChainHead("a"), None)
    assert (body["rules"], body["policy_digest"], body["lists"], body["figures"]) == ([], None, {}, [])
    assert (body["sequence"], body["previous"]) == (1, BEGINNING)
    assert faults_of(sealed(body, None)) == []


HELD = {"rule_id": f"hold:{'f' * 32}", "rule_version": 1, "action": "block", "score": 0, "alert_id": None}
BEFORE = [
    {"rule_id": "card_burst", "rule_version": 3, "alert_id": "a7", "message": "3 payments", "standing": False},
    {"rule_id": "spree", "rule_version": 1, "alert_id": "a1", "message": "spree still holds", "standing": True},
    {"rule_id": "test", "rule_version": 1, "alert_id": "a2", "message": "held for 30 min", "held_by": "a2"},
    {**HELD, "message": "held by mary until 2026-01-01T00:00:00.000Z", "held_by": "f" * 32, "standing": True},
]


def test_reasons_of_before_are_named_with_what_they_rest_on() -> None:
    """They have no figure at the record, which the receipt says; one that is altered there is found."""
    body = receipt_body(entry("t0", reasons=BEFORE), ChainHead("a"), None)
    lines = [(each["name"], each["alert_id"], each["held_by"], each["message"]) for each in body["standing"]]
    assert lines == [
        ("spree", "a1", None, "spree still holds"),
        ("test", "a2", "a2", "held for 30 min"),
        (HELD["rule_id"], None, "f" * 32, "held by mary until 2026-01-01T00:00:00.000Z"),
    ]
    assert (*body, "digest", "signature") == FIELDS
    whole = sealed(body, None)
    assert faults_of(whole) == []
    assert faults_of({name: value for name, value in whole.items() if name != "standing"})
    assert faults_of(sealed({**body, "standing": "x"}, None))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield path
    for name, each in inner:
        yield from leaves(each, (*path, name))


WHOLE = chain(2)[1]
OTHERS: list[Any] = ["0" * 64, "other", 77, None, True, 1.5, [], {}, -1]


@pytest.mark.parametrize("path", [each for each in leaves(WHOLE) if each], ids=lambda path: ".".join(map(str, path)))
def test_every_field_that_is_altered_is_found(path: tuple[Any, ...]) -> None:
    assert faults_of(WHOLE, SIGNER.public()) == []
    for other in OTHERS:
        altered = copy.deepcopy(WHOLE)
        inner: Any = altered
        for name in path[:-1]:
            inner = inner[name]
        if json.dumps(inner[path[-1]]) == json.dumps(other):
            continue
        inner[path[-1]] = other
        assert faults_of(altered, SIGNER.public()), f"{other!r} at {path}"
    without = copy.deepcopy(WHOLE)
    inner = without
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    assert faults_of(without, SIGNER.public()), f"nothing at {path}"


def test_a_field_that_is_added_is_found() -> None:
    assert faults_of({**WHOLE, "approved_by": "me"})
    assert faults_of({**WHOLE, "decision": {**WHOLE["decision"], "approved_by": "me"}})


@pytest.mark.parametrize("key_id", [None, "of another"])
def test_a_signature_cannot_be_taken_off(key_id: str | None) -> None:
    taken = sealed({**WHOLE, "key_id": key_id}, None)
    assert [each.fault for each in faults_of(taken, SIGNER.public())] == ["unsigned" if key_id is None else "altered"]
    assert faults_of({**WHOLE, "signature": None}), "also for one who has no key"


def test_a_receipt_of_another_key() -> None:
    other = Ed25519PrivateKey.generate()
    forged = sealed({**WHOLE, "score": 0} | {"key_id": SIGNER.key_id}, Signer(other, SIGNER.key_id))
    del forged["score"]
    forged = sealed(forged, Signer(other, SIGNER.key_id))
    assert faults_of(forged) == [], "it is not detected without the key"
    assert [each.fault for each in faults_of(forged, SIGNER.public())] == ["altered"]


@pytest.mark.parametrize("signer", [SIGNER, None])
def test_a_chain(signer: Signer | None) -> None:
    whole = chain(5, signer)
    checked = check_chain(whole, verifier=signer.public() if signer else None)
    assert (checked.receipts, checked.faults, checked.unchecked) == (5, [], 0)
    assert checked.end == ChainHead("a", 5, whole[4]["digest"])
    assert check_chain(whole).unchecked == (5 if signer else 0)


def test_one_altered() -> None:
    whole = chain(5)
    assert named([*whole[:2], {**whole[2], "as_of": None}, *whole[3:]]) == [("altered", 3)]
    anew = sealed({**whole[2], "as_of": None}, None) | {"key_id": None}
    anew = sealed(anew, None)
    assert named([*whole[:2], anew, *whole[3:]]) == [("altered", 3)]


def test_one_left_out() -> None:
    whole = chain(5)
    assert named([*whole[:2], *whole[3:]]) == [("left_out", 3)]
    end = ChainHead("a", 5, whole[4]["digest"])
    assert named(whole[:3], end=end) == [("left_out", 5)]
    assert named(whole[2:], begin=ChainHead("a")) == [("left_out", 1)]
    assert named([], end=end) == [("left_out", 5)]


def test_two_swapped() -> None:
    whole = chain(5)
    assert named([whole[0], whole[2], whole[1], *whole[3:]]) == [("swapped", 2)]
    given = [dict(each) for each in whole]
    given[1]["sequence"], given[2]["sequence"] = 3, 2
    assert {each for each, _ in named(given)} >= {"altered"}


def test_a_fork() -> None:
    whole = chain(5)
    body = receipt_body(entry("another"), ChainHead("a", 2, whole[1]["digest"]), SIGNER.key_id)
    other = sealed(body)
    assert faults_of(other, SIGNER.public()) == []
    assert named([*whole, other]) == [("fork", 3)]
    renumbered = sealed({**body, "sequence": 6})
    assert named([*whole, renumbered]) == [("fork", 6)]
    assert named([*whole, whole[4]]) == [("repeated", 5)]


def test_the_last_one_written_anew_shows_by_the_end() -> None:
    whole = chain(3, None)
    anew = sealed({**whole[2], "record_digest": "0"}, None)
    assert named([*whole[:2], anew]) == [], "nothing says otherwise"
    assert named([*whole[:2], anew], end=ChainHead("a", 3, whole[2]["digest"])) == [("altered", 3)]


@given(data=st.data(), count=st.integers(2, 6))
def test_a_chain_with_one_change_anywhere_is_refused(data: st.DataObject, count: int) -> None:
    """Whoever made it has no key: the digest may be written anew, the signature not."""
    whole = chain(count)
    end = ChainHead("a", count, whole[-1]["digest"])
    assert named(whole, end=end, verifier=SIGNER.public()) == []
    at = data.draw(st.integers(0, count - 1))
    path = data.draw(st.sampled_from([each for each in leaves(whole[at]) if each]))
    altered = copy.deepcopy(whole)
    inner: Any = altered[at]
    for name in path[:-1]:
        inner = inner[name]
    other = data.draw(st.sampled_from(OTHERS).filter(lambda each: json.dumps(each) != json.dumps(inner[path[-1]])))
    inner[path[-1]] = other
    assert named(altered, end=end, verifier=SIGNER.public())
    if path[0] not in {"digest", "signature"}:
        altered[at] = {**sealed(altered[at], None), "signature": whole[at]["signature"]}
        assert named(altered, end=end), "the next one, or the end, names another digest"


@pytest.mark.parametrize(
    "hostile",
    [
        {},
        {"sequence": "1"},
        {"sequence": True},
        {**WHOLE, "decision": {"receipt": "x"}},
        {**WHOLE, "figures": [2**70]},
        {**WHOLE, "digest": None},
        {**WHOLE, "signature": "é"},
        {**WHOLE, "signature": 5},
    ],
)
def test_what_is_no_receipt_is_named_and_breaks_nothing(hostile: dict[str, Any]) -> None:
    assert faults_of(hostile, SIGNER.public())
    assert check_chain([hostile, hostile], verifier=SIGNER.public()).faults


def test_keys_from_files(tmp_path: Path) -> None:
    private, public = key_files(tmp_path)
    signer, verifier = Signer.from_file(private), Verifier.from_file(public)
    assert signer.key_id == verifier.key_id
    assert verifier.holds("ab", signer.sign("ab"))
    assert not verifier.holds("ac", signer.sign("ab"))
    with pytest.raises(UsageError, match="found a private key; expected the public key alone"):
        Verifier.from_file(private)
    with pytest.raises(UsageError, match="expected an Ed25519 private key"):
        Signer.from_file(public)
    with pytest.raises(UsageError, match="No such file"):
        Signer.from_file(tmp_path / "none.pem")


def test_what_was_in_force_is_written_once_for_all_receipts_that_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next set of rules may be at the same place in memory: it is another one all the same."""
    made: list[Basis | None] = []

    def noting(basis: Basis | None) -> Any:
        made.append(basis)
        return basis_json(basis)

    monkeypatch.setattr(receipts, "basis_json", noting)
    other = replace(BASIS, lists={"watched": "x" * 8})
    given = [BASIS, BASIS, other, None, BASIS, None, other]
    with closing(SqliteLedger(tmp_path / "ledger.db")) as ledger:
        kept = ledger.answer([entry(f"t{number}", basis=each) for number, each in enumerate(given)])
        whole = [ledger.receipt(each.decision_id) for each in kept if each is not None]
    assert len(made) == 3
    for basis, receipt in zip(given, whole, strict=True):
        assert receipt is not None
        plain = {name: value for name, value in receipt.items() if name not in {"digest", "signature"}}
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert hashlib.sha256(text.encode()).hexdigest() == receipt["digest"]
        assert receipt["lists"] == ({} if basis is None else basis.lists)
    assert check_ledger(tmp_path / "ledger.db").faults == []


def test_texts_of_bases_are_those_of_the_object_and_few_are_kept() -> None:
    texts = BasisTexts(kept_max=2)
    many = [replace(BASIS, lists={"watched": str(number)}) for number in range(5)]
    for each in [*many, *many]:
        assert texts.of(each).values["lists"] == each.lists
        assert texts.of(each) is texts.of(each)
    assert len(texts._known) == 2
