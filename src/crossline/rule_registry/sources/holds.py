"""Holds that people place, and end: messages of a topic, or files in ``.holds`` of a folder."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import PermanentError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import RefusedError, listed, shown
from crossline.basics.times import BEGINNING_MS, format_duration, format_instant, parse_instant_ms
from crossline.rule_registry.content import FileContent, refused
from crossline.rule_registry.events import RuleEvent, published_by
from crossline.rule_registry.history import History
from crossline.rule_registry.sources.folder import Files, Folder
from crossline.rule_registry.sources.keys import HoldKey, key_of
from crossline.rule_registry.sources.publications import Publications
from crossline.rule_registry.sources.releases import BYTES_MAX as RELEASE_BYTES_MAX
from crossline.rule_registry.sources.releases import RELEASE, RELEASES, Wish, WithBeside, release_of, release_problem
from crossline.rules.base import Rule
from crossline.rules.composition import Sources
from crossline.rules.holds.hold import streams_of
from crossline.rules.holds.manual import ACTIONS, KEY_FIELDS_MAX, LASTS_MS_MAX, STANDING_MAX, VALUE_CHARS, key_problem
from crossline.rules.holds.placed_hold import PlacedHold
from crossline.rules.holds.release import Key, release_key

HOLD = "hold/"  # the names of holds, and of their releases, begin with this
HOLDS = ".holds"
BYTES_MAX, REASON_CHARS = 16_384, 2_500  # a server adds for whom it asks
Problem = tuple[str, str]  # what was found, what was expected
_FORM = "{hold_id, key, action, until, reason} or {hold_id, released, reason}, as crossline holds writes it"
_ID = re.compile("[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class HoldWish:
    """A request for a manual hold: a key, until an instant, and why.

    ``rule_id``: as alerts of that rule hold, whose action it is. Else ``action``, on records of ``streams`` (none: of
    all that have the fields of the key). ``asked_ms``: by the clock of the caller.
    """

    hold_id: str
    key: Key
    until_ms: int
    reason: str
    asked_ms: int
    action: str | None = None
    rule_id: str | None = None
    streams: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """What stands in a message or file."""
        body: dict[str, Any] = {"hold_id": self.hold_id, "key": dict(self.key)}
        body |= {"action": self.action, "rule_id": self.rule_id}
        body |= {"streams": list(self.streams) or None, "until": format_instant(self.until_ms), "reason": self.reason}
        body |= {"asked_at": format_instant(self.asked_ms)}
        return orjson.dumps({name: value for name, value in body.items() if value is not None})


@dataclass(frozen=True, slots=True)
class EndWish:
    """A request that a manual hold ends, and why."""

    hold_id: str
    reason: str
    asked_ms: int

    def to_bytes(self) -> bytes:
        """What stands in a message or file."""
        body = {"hold_id": self.hold_id, "released": True, "reason": self.reason}
        return orjson.dumps({**body, "asked_at": format_instant(self.asked_ms)})


def new_hold_id() -> str:
    """An id that no hold has."""
    return secrets.token_hex(16)


def hold_name(wish: HoldWish | EndWish) -> str:
    """What a message or file of it is called."""
    return str(HoldKey(wish.hold_id, released=isinstance(wish, EndWish)))


def file_name(wish: HoldWish | EndWish) -> str:
    """What its file is called in the folder of holds."""
    return f"{wish.hold_id}{'.released' if isinstance(wish, EndWish) else ''}.json"


def name_in_folder(body: Mapping[str, Any]) -> str:
    """What a file is of, by what stands in it."""
    return str(HoldKey(str(body["hold_id"]), released="released" in body))


@dataclass(frozen=True, slots=True)
class HoldState:
    """What a hold is checked against: the streams, what is known of rules, and what is held already."""

    streams: Mapping[str, StreamSpec]
    history: History

    def rule(self, rule_id: str) -> Rule | None:
        """The version that is in force."""
        known = self.history.rules.get(rule_id)
        return None if known is None else known.versions[known.in_force or known.latest]

    def streams_of(self, wish: HoldWish) -> list[str]:
        """The streams whose records it holds."""
        rule = self.rule(wish.rule_id) if wish.rule_id is not None else None
        if rule is not None:
            named: Iterable[str] = streams_of(rule, Sources(self.streams, self.history.heads, any_key=True))
        else:
            named = wish.streams or self.streams
        return [name for name in named if name in self.streams and key_problem(wish.key, self.streams[name]) is None]

    def problem(self, wish: HoldWish, now_ms: int) -> Problem | None:
        """Why nothing can be held so; None where it can."""
        return _form_problem(wish) or self._rule_problem(wish) or self._stream_problem(wish) or self._full(now_ms)

    def _rule_problem(self, wish: HoldWish) -> Problem | None:
        if wish.rule_id is None:
            if wish.action not in ACTIONS:
                return f"action {shown(wish.action)}", f"one of {listed(ACTIONS, 9)}"
            return None
        known = self.history.rules.get(wish.rule_id)
        asked = Wish(wish.rule_id, wish.key, wish.reason)
        problem = release_problem(asked, known.versions if known is not None else None)
        rule = self.rule(wish.rule_id)
        if problem is None and rule is not None and wish.action not in {None, rule.action}:
            return f"action {shown(wish.action)}", f"{rule.action}, which is that of rule {wish.rule_id}; or no action"
        return problem

    def _stream_problem(self, wish: HoldWish) -> Problem | None:
        unknown = [name for name in wish.streams if name not in self.streams]
        if unknown:
            return f"stream {unknown[0]}", f"one of {listed(sorted(self.streams), 20)}"
        wrong = [(name, key_problem(wish.key, self.streams[name])) for name in wish.streams or self.streams]
        found = [(name, problem) for name, problem in wrong if problem is not None]
        if found and (wish.streams or len(found) == len(wrong) or not self.streams_of(wish)):
            name, (what, expected) = found[0]
            return what, f"{expected} ({name})"
        return None

    def _full(self, now_ms: int) -> Problem | None:
        standing = sum(1 for each in self.history.placed.values() if not _is_over(each, now_ms))
        if standing >= STANDING_MAX:
            return (
                f"{standing:,} holds that stand",
                f"fewer than {STANDING_MAX:,}: release some, or have a rule read a list",
            )
        return None


def check_hold(wish: HoldWish, standing: HoldState, now_ms: int) -> None:
    """Raise PermanentError where nothing can be held so."""
    problem = standing.problem(wish, now_ms)
    if problem is None and wish.until_ms <= now_ms:
        problem = f"until {format_instant(wish.until_ms)}, which is past", "an instant to come"
    if problem is not None:
        raise PermanentError(f"found {problem[0]}; expected {problem[1]}")


def _form_problem(wish: HoldWish) -> Problem | None:
    if not 1 <= len(wish.key) <= KEY_FIELDS_MAX:
        return f"a key of {len(wish.key)} fields", f"one of 1 to {KEY_FIELDS_MAX}"
    long = [name for name, value in wish.key if len(value) > VALUE_CHARS]
    if long:
        return f"a value of {long[0]} of more than {VALUE_CHARS:,} characters", "a shorter one"
    if not wish.reason or len(wish.reason) > REASON_CHARS:
        return f"a reason of {len(wish.reason):,} characters", f"why it is held, in 1 to {REASON_CHARS:,}"
    if wish.until_ms - wish.asked_ms > LASTS_MS_MAX:
        return (
            f"until {format_instant(wish.until_ms)}",
            f"at most {format_duration(LASTS_MS_MAX)} from when it is asked",
        )
    return None


def _is_over(placed: PlacedHold, now_ms: int) -> bool:
    return all(placed.span_ms(stream)[1] <= now_ms or stream in dict(placed.ended) for stream, _ in placed.begins)


def hold_events(
    files: Files,
    history: History,
    streams: Mapping[str, StreamSpec],
    now_ms: int,
    begins: Callable[[str], int | None],
) -> Iterator[RuleEvent]:
    """What follows from the holds among ``files`` that ``history`` does not know, and then from their releases.

    ``begins``: from when on the records of a stream are held, or held no more. ``history`` goes on with each.
    """
    fresh = [
        (name, content)
        for name, content in files.items()
        if name.startswith(HOLD) and (name, content.digest) not in history.released | history.refused
    ]
    wishes = [(name, content, _wish(name, content)) for name, content in fresh]
    for name, content, wish in sorted(wishes, key=lambda each: isinstance(each[2], EndWish)):
        event = _event(wish, name, HoldState(streams, history), now_ms, begins)
        event = published_by(replace(event, source=name, digest=content.digest), content.origin)
        history.add(event)
        yield event


def _event(
    wish: HoldWish | EndWish | RefusedError,
    name: str,
    standing: HoldState,
    now_ms: int,
    begins: Callable[[str], int | None],
) -> RuleEvent:
    """Without who asked, and of which file."""
    if isinstance(wish, EndWish):
        placed = standing.history.placed.get(wish.hold_id)
        if placed is not None:
            event = RuleEvent("released", now_ms, text=wish.reason, key=dict(placed.key))
            at = {stream: begins(stream) for stream, _ in placed.begins}
            last_ms = max((ms for ms in at.values() if ms is not None), default=None)
            return replace(event, hold_id=wish.hold_id, begins_ms=at, effective_from_ms=last_ms)
        wish = refused(name, f"hold {wish.hold_id}, which is not loaded", "a hold that is loaded")
    if isinstance(wish, RefusedError):
        return RuleEvent("refused", now_ms, text=str(wish))
    at = {stream: begins(stream) for stream in standing.streams_of(wish)}
    problem = standing.problem(wish, now_ms)
    if problem is None and wish.hold_id in standing.history.placed:
        problem = f"hold {wish.hold_id}, which was placed before", "a hold with an id of its own"
    if problem is None and all((BEGINNING_MS if ms is None else ms) >= wish.until_ms for ms in at.values()):
        first = min(ms for ms in at.values() if ms is not None)
        problem = f"until {format_instant(wish.until_ms)}", f"an instant after {_instant(first)}, when it would begin"
    if problem is not None:
        return RuleEvent("refused", now_ms, text=str(refused(name, *problem)))
    rule = standing.rule(wish.rule_id) if wish.rule_id is not None else None
    event = RuleEvent("held", now_ms, wish.rule_id, None if rule is None else rule.version, text=wish.reason)
    action = wish.action if rule is None else rule.action
    return replace(event, hold_id=wish.hold_id, key=dict(wish.key), action=action, until_ms=wish.until_ms, begins_ms=at)


def _instant(ms: int) -> str:
    try:
        return format_instant(ms)
    except (OverflowError, ValueError):
        return "every instant"


def _wish(name: str, content: FileContent) -> HoldWish | EndWish | RefusedError:
    if content.error is not None:
        return refused(name, content.error, content.expected)
    try:
        wish = _read(orjson.loads(content.data))
    except (ValueError, TypeError, KeyError, OverflowError):
        return refused(name, shown(content.data[:60].decode(errors="backslashreplace")), _FORM)
    if key_of(name) != key_of(hold_name(wish)) or _ID.fullmatch(wish.hold_id) is None:
        return refused(name, "a hold that is not of what its key names", f"the key {hold_name(wish)}, of 32 hex digits")
    if not wish.reason:
        return refused(name, "no reason", "reason: why it is held, or held no more")
    if not (content.origin.who or "").strip():
        return refused(name, "a hold that does not say who asks for it", "a header who")
    return wish


def _read(body: Mapping[str, Any]) -> HoldWish | EndWish:
    """Raises ValueError, TypeError or KeyError where it is neither."""
    hold_id, reason = str(body["hold_id"]), str(body["reason"]).strip()
    asked_ms = parse_instant_ms(body["asked_at"])
    if "released" in body:
        return EndWish(hold_id, reason, asked_ms)
    streams, key = body.get("streams") or [], body["key"]
    if not isinstance(key, dict) or not isinstance(streams, list):
        raise TypeError("a key by its fields, and streams by their names")
    given = {name: body.get(name) for name in ("action", "rule_id")}
    if any(value is not None and not isinstance(value, str) for value in (*given.values(), *streams)):
        raise TypeError("an action, a rule and streams as text")
    until_ms = parse_instant_ms(body["until"])
    return HoldWish(hold_id, release_key(key), until_ms, reason, asked_ms, streams=tuple(streams), **given)


def with_wishes(rules: Publications, path: Path, owner: Callable[[Path], str | None]) -> Publications:
    """``rules``, files of the folder ``path``, with the releases and holds that people ask for beside them."""
    released = Folder(path / RELEASES, (".json",), RELEASE_BYTES_MAX)
    held = Folder(path / HOLDS, (".json",), BYTES_MAX)
    return WithBeside(WithBeside(rules, released, RELEASE, release_of, owner), held, HOLD, name_in_folder, owner)
