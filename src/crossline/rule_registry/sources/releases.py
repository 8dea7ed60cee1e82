"""Releases: requests that end holds. Messages of a topic, or files in ``.releases`` of a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import PermanentError
from crossline.basics.texts.problems import RefusedError, listed, shown
from crossline.basics.times import format_instant
from crossline.rule_registry.content import FileContent, refused
from crossline.rule_registry.events import RuleEvent, published_by
from crossline.rule_registry.history import History
from crossline.rule_registry.sources.folder import Files, Folder
from crossline.rule_registry.sources.keys import ReleaseKey, key_of
from crossline.rule_registry.sources.origin import Origin
from crossline.rule_registry.sources.publications import Publications
from crossline.rules.base import Rule
from crossline.rules.holds.release import Key, release_key

RELEASE = "release/"  # the names of releases begin with this
RELEASES = ".releases"
BYTES_MAX = 16_384
_FORM = "{rule_id, key, reason}, as crossline rules release writes it"


def key_text(key: Key) -> str:
    """A key as people write it: ``account_id=a1``."""
    return ", ".join(f"{name}={value}" for name, value in key)


def release_name(rule_id: str, key: Key) -> ReleaseKey:
    """What a release of ``key`` is called: a later one takes the place of the one before."""
    mark = hashlib.sha256(orjson.dumps(key)).hexdigest()[:32]
    return ReleaseKey(rule_id, mark)


def release_text(rule_id: str, key: Key, reason: str, asked_ms: int) -> bytes:
    """What stands in a message or file; ``asked_ms`` differs from that of the one before it."""
    body = {"rule_id": rule_id, "key": dict(key), "reason": reason, "asked_at": format_instant(asked_ms)}
    return orjson.dumps(body)


@dataclass(frozen=True, slots=True)
class Wish:
    """That ``rule_id`` holds ``key`` no more, and why."""

    rule_id: str
    key: Key
    reason: str


def release_problem(wish: Wish, rules: Mapping[int, Rule] | None) -> tuple[str, str] | None:
    """What was found and what was expected, where ``wish`` releases nothing; ``rules``: its rule's, by version."""
    if not rules:
        return f"rule {wish.rule_id}, which is not loaded", "a rule that is loaded"
    holding = [rule for rule in rules.values() if rule.hold is not None]
    if not holding:
        return f"rule {wish.rule_id}, whose alerts hold nothing", "a rule with a hold"
    keys = {tuple(sorted(rule.key_of_alerts)) for rule in holding}
    if tuple(name for name, _ in wish.key) not in keys:
        fields = listed(sorted(max(keys)), 20)
        return f"the key {key_text(wish.key) or 'of no field'}", f"a value for each of {fields}, as alerts have them"
    return None


def check_release(rule_id: str, key: Key, reason: str, rules: Mapping[int, Rule]) -> None:
    """Raise PermanentError where alerts of the rule, which has the versions ``rules``, hold no such ``key``."""
    problem = release_problem(Wish(rule_id, key, reason), rules)
    if problem is not None:
        raise PermanentError(f"found {problem[0]}; expected {problem[1]}")


def release_events(
    files: Files, history: History, now_ms: int, effective: Callable[[Rule], int | None]
) -> Iterator[RuleEvent]:
    """What follows from the releases among ``files`` that ``history`` does not know: of each that, or a refusal."""
    for source, content in files.items():
        if not source.startswith(RELEASE) or (source, content.digest) in history.released | history.refused:
            continue
        wish = _wish(source, content)
        known = history.rules.get(wish.rule_id) if isinstance(wish, Wish) else None
        if isinstance(wish, Wish):
            problem = release_problem(wish, known.versions if known is not None else None)
            if problem is not None:
                wish = refused(source, *problem)
        if isinstance(wish, RefusedError) or known is None:
            event = RuleEvent("refused", now_ms, source=source, digest=content.digest, text=str(wish))
        else:
            rule = known.versions[known.in_force or known.latest].model_copy(update={"effective_from": None})
            event = RuleEvent("released", now_ms, wish.rule_id, effective_from_ms=effective(rule), source=source)
            event = replace(event, digest=content.digest, key=dict(wish.key), text=wish.reason)
        yield published_by(event, content.origin)


def _wish(source: str, content: FileContent) -> Wish | RefusedError:
    if content.error is not None:
        return refused(source, content.error, content.expected)
    try:
        body: Any = orjson.loads(content.data)
    except ValueError:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("key"), dict) or not isinstance(body.get("rule_id"), str):
        return refused(source, shown(content.data[:60].decode(errors="backslashreplace")), _FORM)
    wish = Wish(body["rule_id"], release_key(body["key"]), str(body.get("reason") or "").strip())
    if key_of(source) != release_name(wish.rule_id, wish.key):
        return refused(source, "a release that is not of what its key names", f"the key {_named(wish)}")
    if not wish.reason:
        return refused(source, "a release without a reason", "reason: why it is held no more")
    if not (content.origin.who or "").strip():
        return refused(source, "a release that does not say who asks for it", "a header who")
    return wish


def _named(wish: Wish) -> str:
    return str(release_name(wish.rule_id, wish.key))


def release_of(body: Mapping[str, Any]) -> str:
    """What a file is of, by what stands in it."""
    return str(release_name(str(body["rule_id"]), release_key(dict(body["key"]))))


class WithBeside:
    """Implements Publications over ``rules``, files of a folder, and what people ask for in files ``beside`` them.

    ``prefix``: what the names of these begin with, each by what it is ``named``. ``owner``: who put a file there, which
    is who asks.
    """

    def __init__(
        self,
        rules: Publications,
        beside: Folder,
        prefix: str,
        named: Callable[[Mapping[str, Any]], str],
        owner: Callable[[Path], str | None],
    ) -> None:
        self._rules, self._beside, self._prefix = rules, beside, prefix
        self._name_of, self._owner = named, owner
        self._loaded: tuple[Files, Files] = ({}, {})
        self._given: tuple[Files, Files] = ({}, {})

    def begin(self, events: Sequence[RuleEvent], *, first: bool) -> None:
        """As of the rules."""
        self._rules.begin(events, first=first)

    def changed(self) -> Files | None:
        """Those of the rules, and those beside them by what they are of."""
        rules, beside = self._rules.changed(), self._beside.changed()
        if rules is None and beside is None:
            return None
        self._given = (self._loaded[0] if rules is None else rules, self._loaded[1] if beside is None else beside)
        return {**self._given[0], **dict(self._named(name, each) for name, each in self._given[1].items())}

    def take(self, files: Files) -> None:
        """Note that what was given was dealt with; ``files`` is that, or less."""
        rules = {name: content for name, content in files.items() if not name.startswith(self._prefix)}
        self._loaded = (rules, self._given[1])
        self._rules.take(rules)
        self._beside.take(self._given[1])

    @property
    def more(self) -> bool:
        """As of the rules."""
        return self._rules.more

    def close(self) -> None:
        """As of the rules."""
        self._rules.close()

    def _named(self, name: str, content: FileContent) -> tuple[str, FileContent]:
        """By what it is of; one that does not say that keeps its name, and is refused."""
        signed = replace(content, origin=Origin(self._owner(self._beside.path / name)))
        try:
            return self._name_of(orjson.loads(content.data)), signed
        except (ValueError, TypeError, KeyError):
            return f"{self._prefix}{name}", signed
