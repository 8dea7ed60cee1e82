"""A condition as the rest of crossline holds it: its tree, a canonical name, and its column mask, made on first use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from crossline.basics.conditions.evaluation import holds
from crossline.basics.conditions.tree import AllOf, AnyOf, FieldRef, Leaf, ListRef, Node, Not, node_fields, node_lists

if TYPE_CHECKING:
    from crossline.basics.conditions.lists import Lists
    from crossline.basics.conditions.mask_program import Fields, MaskProgram, Turns
    from crossline.basics.conditions.membership import Mask
    from crossline.basics.values import I64

_WORDS = {"not_in": "not in", "starts_with": "starts with", "ends_with": "ends with", "regex": "matches"}
_TEXT_WIDTH = 200


class Condition:
    """An immutable condition; equal where ``canonical`` is. ``canonical`` is "" where everything passes."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.canonical = "" if isinstance(node, AllOf) and not node.parts else repr(node)
        self._program: tuple[Lists, str, MaskProgram] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and other.canonical == self.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"

    def __reduce__(self) -> tuple[type[Condition], tuple[Node]]:
        return Condition, (self.node,)

    def fields(self) -> tuple[str, ...]:
        """The dotted names of the fields it reads, sorted."""
        return tuple(sorted(node_fields(self.node)))

    def lists(self) -> tuple[str, ...]:
        """The names of the lists it reads, sorted."""
        return self._lists

    @cached_property
    def _lists(self) -> tuple[str, ...]:
        return tuple(sorted(node_lists(self.node)))

    def mask(self, fields: Fields, rows: int, lists: Lists, stream: str, ingest_ms: I64) -> Mask:
        """bool[rows]: where it holds. ``fields``: dotted name -> array of that length; absent is missing throughout.

        ``lists`` are read as they were at ``ingest_ms`` of ``stream``. Compiled once, and again when another mapping
        is handed in; do not change one in place.
        """
        return self._compiled(lists, stream).run(fields, rows, ingest_ms)[0]

    def turns(self, fields: Fields, rows: int, lists: Lists, stream: str, after_ms: I64) -> Turns:
        """Where ``mask`` would be another at an ingest time later than ``after_ms``, and from when on."""
        return self._compiled(lists, stream).turns(fields, rows, after_ms)[0]

    def _compiled(self, lists: Lists, stream: str) -> MaskProgram:
        from crossline.basics.conditions.mask_program import MaskProgram  # noqa: PLC0415 - only who judges needs Arrow

        known = self._program
        if known is None or (self._lists and (known[0] is not lists or known[1] != stream)):
            mine = {name: each for name, each in lists.items() if name in self._lists}
            self._program = known = (lists, stream, MaskProgram([self.node], mine, stream))
        return known[2]

    def holds(self, record: Mapping[str, Any], lists: Mapping[str, Sequence[Any]] | None = None) -> bool:
        """Whether it holds for one record (nested, or flat with dotted names); for tests and explanations."""
        return holds(self.node, record, lists)

    @cached_property
    def text(self) -> str:
        """As text: ``amount_cents > 500 and country in NO, SE``."""
        body = _say(self.node, top=True)
        return body if len(body) <= _TEXT_WIDTH else body[: _TEXT_WIDTH - 1] + "…"


class Conditions(dict[str, Condition]):
    """Conditions by their canonical names, whose masks over a batch are made together: rules share many parts."""

    _program: tuple[Lists, str, MaskProgram] | None = None

    @staticmethod
    def of(conditions: Iterable[Condition]) -> Conditions:
        """These, without those that everything passes."""
        return Conditions({each.canonical: each for each in conditions if each.canonical})

    def __reduce__(self) -> tuple[type[Conditions], tuple[dict[str, Condition]]]:
        return Conditions, (dict(self),)

    @cached_property
    def _lists(self) -> frozenset[str]:
        return frozenset(name for each in self.values() for name in each.lists())

    def masks(self, fields: Fields, rows: int, lists: Lists, stream: str, ingest_ms: I64) -> dict[str, Mask]:
        """The mask of each, as of ``Condition.mask``; do not write to them, nor add conditions."""
        from crossline.basics.conditions.mask_program import MaskProgram  # noqa: PLC0415 - only who judges needs Arrow

        known, named = self._program, self._lists
        if known is None or (named and (known[0] is not lists or known[1] != stream)):
            mine = {name: each for name, each in lists.items() if name in named}
            self._program = known = (lists, stream, MaskProgram([each.node for each in self.values()], mine, stream))
        return dict(zip(self, known[2].run(fields, rows, ingest_ms), strict=True))


def _say(node: Node, *, top: bool = False) -> str:
    match node:
        case Leaf():
            return _say_leaf(node)
        case Not(part):
            return f"not ({_say(part, top=True)})"
        case AllOf(parts):
            text = " and ".join(_say(part, top=len(parts) == 1) for part in parts) or "anything"
        case AnyOf(parts):
            text = " or ".join(_say(part, top=len(parts) == 1) for part in parts)
    return text if top or len(parts) == 1 else f"({text})"


def _say_leaf(leaf: Leaf) -> str:
    value: Any = leaf.value
    if leaf.operator in {"exists", "missing"}:
        return f"{leaf.field} {'is present' if leaf.operator == 'exists' else 'is missing'}"
    if leaf.operator == "between":
        return f"{leaf.field} between {value[0]} and {value[1]}"
    word = _WORDS.get(leaf.operator, leaf.operator)
    if isinstance(value, ListRef):
        return f"{leaf.field} {word} list {value.name}"
    if isinstance(value, FieldRef):
        return f"{leaf.field} {word} {value.name}"
    if isinstance(value, tuple):
        return f"{leaf.field} {word} {', '.join(map(_say_value, value))}"
    return f"{leaf.field} {word} {_say_value(value)}"


def _say_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
