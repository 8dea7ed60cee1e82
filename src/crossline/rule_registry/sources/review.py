"""Review: a version is effective once a principal other than the one who published it approves of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import orjson

from crossline.basics.errors import PermanentError
from crossline.basics.share import keys_of
from crossline.basics.texts.problems import RefusedError, shown
from crossline.rule_registry.content import FileContent, refused
from crossline.rule_registry.history import History
from crossline.rule_registry.rule_files import FileRule, Read
from crossline.rule_registry.sources.folder import Files
from crossline.rule_registry.sources.keys import ApprovalKey, FigureKey, Key, RuleKey, key_of
from crossline.rule_registry.sources.origin import Origin
from crossline.rule_registry.sources.principals import ALPHABET, name_problem, same_principal
from crossline.rules.base import Rule

APPROVAL = "approval/"  # the names of approvals begin with this
PROOF = ("rule", "data", "result")  # what a proof has digests of
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Approval:
    """That ``origin.who`` approves of what has ``digest``. ``proof``: of which backtest, by its digests."""

    key: ApprovalKey
    digest: str
    origin: Origin
    source: str
    proof: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What may be loaded, what waits, and what is refused, by file.

    ``approvals``: of the versions that need one, by rule and version.
    """

    read: Read
    waiting: tuple[FileRule, ...] = ()
    approvals: Mapping[tuple[str, int], Approval] = field(default_factory=dict)


def review_digest(rule: Rule) -> str:
    """Of all of a version but its status and its share: what is approved."""
    body = {name: value for name, value in rule.to_json().items() if name not in {"status", "share"}}
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()


def approval_text(rule: Rule, proof: Mapping[str, Any] | None = None, who: str | None = None) -> bytes:
    """What stands in a message that approves of ``rule``.

    ``proof``: as ``crossline rules prove --json`` prints it; ``who``: in whose name a server writes it into a folder.
    """
    body: dict[str, Any] = {"rule_id": rule.rule_id, "version": rule.version, "digest": review_digest(rule)}
    if proof is not None:
        body["proof"] = {name: proof["digests"][name] for name in PROOF}
    if who is not None:
        body["who"] = who
    return orjson.dumps(body)


def check_proof(proof: Any, rule: Rule, read: Callable[[str], Rule | None]) -> None:
    """Raise PermanentError unless ``proof`` is a proof of ``rule``.

    ``read``: the one rule of a text, None where there is none.
    """
    digests = proof.get("digests") if isinstance(proof, Mapping) else None
    if not _are_digests(digests) or not isinstance(proof.get("text"), str):
        raise PermanentError("found no proof; expected what crossline rules prove FILE --json prints")
    text = proof["text"]
    proven = read(text) if hashlib.sha256(text.encode()).hexdigest() == digests["rule"] else None
    other_files = digests.get("body") not in {None, rule.body_digest()}  # a model, say: proofs of before do not say
    if proven is None or other_files or review_digest(proven) != review_digest(rule):
        raise PermanentError(
            f"found a proof of another text than version {rule.version} of {rule.rule_id}; expected one of exactly "
            "what stands there: crossline rules prove"
        )


def _are_digests(found: Any) -> TypeGuard[Mapping[str, str]]:
    """Whether these are the digests of a proof."""
    return isinstance(found, Mapping) and all(_DIGEST.fullmatch(str(found.get(name))) for name in PROOF)


def split(files: Files) -> tuple[Files, Files]:
    """Rule files, and approvals; holds and releases are none of these."""
    approvals = {name: content for name, content in files.items() if name.startswith(APPROVAL)}
    rules = {name: content for name, content in files.items() if not name.startswith((APPROVAL, "release/", "hold/"))}
    return rules, approvals


def needs_approval(rule: Rule, history: History) -> bool:
    """Whether loading ``rule`` makes a text effective, or active, that was not approved.

    A draft judges nothing, and ends nothing. The text of an approved earlier version is approved: that is going
    back.
    """
    if rule.status == "draft":
        return False
    known = history.rules[rule.rule_id].versions[rule.version] if history.knows(rule) else None
    if known is None or known.status == "draft":
        return known is not None or not history.approves(rule)
    widens = known.status != "active" or keys_of(rule.share) > keys_of(known.share)
    return rule.status == "active" and widens and not history.approves(rule)


def reviewed(
    read: Read, accepted: list[FileRule], files: Files, approvals: Files, history: History, *, proven: bool = False
) -> Reviewed:
    """``read``, without those of the ``accepted`` rules that wait for approval, and with refusals of wrong approvals.

    ``accepted``: what would be loaded without a review. ``proven``: whether an approval has to name its proof.
    """
    given, left = _given(approvals)
    left.update(read)
    waiting: list[FileRule] = []
    found: dict[tuple[str, int], Approval] = {}
    for each in accepted:
        if not (history.moves(each.rule) and needs_approval(each.rule, history)):
            continue
        origin, name = files[each.source].origin, (each.rule.rule_id, each.rule.version)
        if origin.who is None:
            expected = (
                "a header who; crossline rules publish sends it, and a version needs approval by another principal"
            )
            left[each.source] = refused(each.source, "a publication that does not say who made it", expected, each.line)
            continue
        first = history.waiting.get((*name, review_digest(each.rule)), origin.who)
        authors = [who for who in (origin.author, first, origin.who) if who is not None]
        for approval in given.get(name, ()):
            problem = _problem(approval, each, authors, proven=proven)
            if problem is None:
                found.setdefault(name, approval)
            else:
                left[approval.source] = problem
        if name not in found:
            waiting.append(each)
    for each in waiting:
        mine = left[each.source]
        if not isinstance(mine, RefusedError):
            left[each.source] = [other for other in mine if other.rule != each.rule]
    return Reviewed(left, tuple(waiting), found)


def _problem(approval: Approval, each: FileRule, authors: Collection[str], *, proven: bool) -> RefusedError | None:
    """``authors``: all who wrote it: the author of a version stays one after another user pauses it."""
    for who in authors:  # one in the log may be of a time, or of a program, that took any name
        if (problem := name_problem(who)) is not None:
            found = f"an approval of version {each.rule.version} of {each.rule.rule_id}, whose author has {problem}"
            expected = f"an author whose name has {ALPHABET}: publish it under such a name, as another version"
            return refused(approval.source, found, expected)
    if any(same_principal(approval.origin.who, who) for who in authors):
        found = (
            f"an approval by {approval.origin.who}, who published version {each.rule.version} of {each.rule.rule_id}"
        )
        return refused(approval.source, found, "the approval of another principal")
    if approval.digest != review_digest(each.rule):
        found = f"an approval of another body than that of version {each.rule.version} of {each.rule.rule_id}"
        return refused(approval.source, found, "the digest of what stands there: look at it, and approve again")
    if proven and approval.proof is None:
        found = f"an approval of version {each.rule.version} of {each.rule.rule_id} without a proof"
        return refused(approval.source, found, "one with it: crossline rules approve --proof FILE, of rules prove")
    return None


def _given(files: Files) -> tuple[dict[tuple[str, int], list[Approval]], dict[str, list[FileRule] | RefusedError]]:
    """The approvals by rule and version, in the order of their places; and refusals, by source."""
    given: dict[tuple[str, int], list[Approval]] = {}
    wrong: dict[str, list[FileRule] | RefusedError] = {}
    for source, content in files.items():
        key = key_of(source)
        approval = _approval(source, key, content)
        if isinstance(approval, RefusedError):
            wrong[source] = approval
        else:
            given.setdefault((approval.key.rule_id, approval.key.version), []).append(approval)
    return given, wrong


def _approval(source: str, key: Key | None, content: FileContent) -> Approval | RefusedError:
    form = "{rule_id, version, digest}, as crossline rules approve writes it"
    if content.error is not None:
        return refused(source, content.error, content.expected)
    body = _read(content.data)
    if not isinstance(key, ApprovalKey) or body is None:
        return refused(source, shown(content.data[:60].decode(errors="backslashreplace")), form)
    named = (body.get("rule_id"), body.get("version"))
    if named != (key.rule_id, key.version) or not isinstance(body.get("digest"), str):
        return refused(source, "an approval that is not of what its key names", form)
    proof = body.get("proof")
    if proof is not None and not _are_digests(proof):
        return refused(source, "an approval by a proof without its digests", "proof: {rule, data, result}")
    if content.origin.who is None or content.origin.who != key.who:
        found = f"an approval by {content.origin.who or 'no one'}"
        return refused(source, found, f"the header who with the name in the key, {key.who}")
    named_by = None if proof is None else {name: str(proof[name]) for name in PROOF}
    return Approval(key, body["digest"], content.origin, source, named_by)


def _read(data: bytes) -> dict[str, Any] | None:
    """The body of an approval; None where it is no JSON, empty where it is no object."""
    try:
        body = orjson.loads(data)
    except ValueError:
        return None
    return body if isinstance(body, dict) else {}


def misplaced(read: Read) -> dict[str, RefusedError]:
    """Of each message whose rule is not the one that its key names: its refusal."""
    wrong: dict[str, RefusedError] = {}
    for source, rules in read.items():
        key = key_of(source)
        if isinstance(key, FigureKey) and not isinstance(rules, RefusedError) and rules:
            text = f"rule {rules[0].rule.rule_id}"
            wrong[source] = refused(source, text, f"the shared figure that the key {source} names, and nothing else")
        if not isinstance(key, RuleKey) or isinstance(rules, RefusedError):
            continue
        found = [(each.rule.rule_id, each.rule.version) for each in rules]
        if found != [(key.rule_id, key.version)]:
            text = ", ".join(f"version {version} of {rule_id}" for rule_id, version in found) or "no rule"
            expected = f"version {key.version} of {key.rule_id}, which the key {source} names, and nothing else"
            wrong[source] = refused(source, text, expected)
    return wrong
