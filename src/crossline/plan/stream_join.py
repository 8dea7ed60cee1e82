"""Plans of several sources: their records come together under the same keys, each as a row of one wide table.

A row has the columns of where it comes from, under names of their own but for those of the records that are judged; all
others are null. What a rule asks of a record it asks of rows of one source. The fields of a key are where the judged
records have them, so that a state store knows nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import AllOf, AnyOf, FieldRef, Leaf, Node, Not
from crossline.basics.streams.inputs import HIT, SOURCE, Reading, SideInput, rule_of, spec_like, spec_of
from crossline.basics.streams.schema import FieldSpec, StreamSpec
from crossline.basics.values import Columns, Records
from crossline.programs.program import Feed, Figure, Program

_TYPES: dict[str, pa.DataType] = {"string": pa.string(), "number": pa.float64(), "boolean": pa.bool_()}
_HOLD = "hold"  # in the place of the depth
_BETWEEN = "\x1e"
_OF = "\x1d"
_MEMBER = "\x1c"


def arrow_type(spec: FieldSpec) -> pa.DataType:
    """How a column of a field is held."""
    kind = _TYPES.get(spec.kind, pa.int64())
    return pa.list_(kind) if spec.is_list else kind


def joined_log(stream: str, log: str, base: str) -> str:
    """The name of a ``log`` of ``stream`` in a derived stream of stream ``base``."""
    return log if stream == base else f"{stream}{_OF}{log}"


def joined_log_of(text: str, base: str) -> tuple[str, str]:
    """The stream and the log that ``joined_log`` names."""
    stream, of, log = text.partition(_OF)
    return (stream, log) if of else (base, text)


def came_log(order: Sequence[str], stream: str, log: str) -> str:
    """What a ``log`` of ``stream`` is called where records of several streams stand in the order in which they came.

    ``order``: the streams, as those of equal ingest time count one after the other.
    """
    return f"{order.index(stream):04d}{stream}{_OF}{log}"


def read_came(came: str) -> tuple[str, str]:
    """The stream and the log that ``came_log`` names."""
    stream, _, log = came[4:].partition(_OF)
    return stream, log


def arrival_log(log: str) -> str:
    """The log that the records of a ``log`` of rows came in, as it stands among others of one ingest time.

    Rows of one record have it in common: the record, and the hits on it. So they stand one after the other, and no row
    of a later record stands between them, wherever batches are cut. Logs of plans of one source stay as they are.
    """
    return log.partition(_BETWEEN)[2] if _BETWEEN in log else log


@dataclass(frozen=True, slots=True)
class StreamJoin:
    """What meets in a plan: by source its records' ``specs``, the ``depths`` that they are of, the ``bases`` of them.

    ``depths``: 1 for a stream, and for hits one more than where they are judged. ``bases``: see ``StreamPlan``.
    ``members``: of what is the hits of several rules, those of each, which are sources by themselves.
    """

    reading: Reading
    specs: Mapping[str, StreamSpec]
    depths: Mapping[str, int]
    bases: Mapping[str, str]
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def parts(self) -> Iterator[tuple[str, str, SideInput | None]]:
        """Each part that sources have in the rows: its name, its source, and how it is looked at; None: judged."""
        yield from ((source, source, None) for source in self.reading.judged)
        for side_input in self.reading.side_inputs:
            yield from (
                (side_input.name, source, side_input)
                for source in self.members.get(side_input.source, (side_input.source,))
            )

    @property
    def scores(self) -> frozenset[str]:
        """The names of the parts that risk scores are of."""
        return frozenset(
            side_input.name for side_input in self.reading.side_inputs if side_input.source in self.members
        )

    @property
    def plain(self) -> frozenset[str]:
        """The sources that are read otherwise than by risk scores."""
        return frozenset(source for name, source, _ in self.parts if name not in self.scores)

    def of(self, source: str) -> Iterator[tuple[str, SideInput | None]]:
        """The parts of one source."""
        return ((name, side_input) for name, mine, side_input in self.parts if mine == source)

    def log(self, name: str, source: str, log: str) -> str:
        """What the ``log`` of a source is called in a part.

        Sorted, parts of one record are in the order in which they count: first what others rest on, a side input before
        the judged records. For a hold an alert comes right after its record.
        """
        (side_input,) = {side_input for each, mine, side_input in self.parts if (each, mine) == (name, source)}
        among = side_input is not None and side_input.source in self.members
        called = f"{name}{_MEMBER}{source}" if among else name
        if self.reading.holds:
            part = f"{_HOLD}{'1' if side_input is None else '2'}{called}"
        else:
            part = f"{self.depths[source]:04d}{'1' if side_input is None else '0'}{called}"
        return f"{part}{_BETWEEN}{self.arrival_log(*joined_log_of(log, self.bases[source]))}"

    def arrival_log(self, stream: str, log: str) -> str:
        """What ``arrival_log`` finds for a ``log`` of ``stream``: of equal times those of judged streams come last."""
        judged = any(self.bases[source] == stream for source in self.reading.judged)
        return f"{int(judged)}{stream}{_OF}{log}"

    def part_of(self, log: str) -> str:
        """What the logs of its part are called alike; sorted, parts are in the order of their ``log``s."""
        return log.split(_BETWEEN, 1)[0]

    def log_beside(self, log: str, other: str, base: str) -> str:
        """What another log, ``joined_log`` of ``base``, is called in the part of ``log``."""
        return f"{self.part_of(log)}{_BETWEEN}{self.arrival_log(*joined_log_of(other, base))}"

    def judged_logs(self, clocks: Mapping[str, int]) -> dict[str, int]:
        """Of ``clocks`` by log those of the judged records, by what their logs are called among hits on these."""
        base = self.bases[self.reading.judged[0]]
        return {joined_log(*self.origin(log), base): ms for log, ms in clocks.items() if log[4] == "1"}

    def origin(self, log: str) -> tuple[str, str]:
        """The stream that a log is of in the end, and what it is called there."""
        stream, _, own = arrival_log(log)[1:].partition(_OF)
        return stream, own

    def own_id(self, known: str) -> tuple[str, bool]:
        """The id of a record as its source has it, and whether the record is a hit; ``known``: its id in the rows."""
        name, own = known.split(_BETWEEN, 1)
        source = next((mine for each, mine, _ in self.parts if each == name), self.reading.judged[0])
        return own, rule_of(source) is not None


def wide_spec(spec: StreamSpec, reading: Reading) -> StreamSpec:
    """What rows look like; ``spec``: of the judged records, beside the others."""
    columns = {**spec.columns, SOURCE: FieldSpec("string", optional=True)}
    for side_input in reading.side_inputs:
        theirs = spec_of(spec, side_input.source).columns
        columns |= {side_input.column(name): replace(each, optional=True) for name, each in theirs.items()}
    return spec_like(spec, columns, {})


def wide_program(program: Program, reading: Reading, *, strict: bool) -> Program:
    """``program`` over rows. ``strict``: it sees none of the hits of shadow rules."""
    side_inputs = {side_input.name: side_input for side_input in reading.side_inputs}
    among = len(reading.judged) + len(reading.side_inputs) > 1

    def condition(of: Condition, source: str) -> Condition:
        side_input = side_inputs.get(source)
        called = side_input.column if side_input is not None else _as_is
        nodes = [_renamed(of.node, called)] if of.canonical else []
        hits = rule_of(source if side_input is None else side_input.source) is not None
        if strict and hits:
            nodes.append(Leaf(called(f"{HIT}.shadow"), "==", value=False))
        if side_input is not None or source != reading.judges:
            nodes.append(Leaf(SOURCE, "==", source))
        elif among and reading.side_inputs:
            nodes.append(Leaf(SOURCE, "in", reading.judged))
        return Condition(AllOf(tuple(nodes)))

    def feed(of: Feed) -> Feed:
        return replace(of, condition=condition(of.condition, of.stream))

    def figure(of: Figure) -> Figure:
        side_input, source = side_inputs.get(of.feed.stream), of.feed.stream
        column = of.column if side_input is None or of.column is None else side_input.column(of.column)
        streak = None if of.streak_of is None else condition(of.streak_of, source)
        return replace(of, feed=feed(of.feed), column=column, streak_of=streak)

    verdict = None if program.verdict is None else program.verdict.over(feed)
    return replace(program, feed=feed(program.feed), figures=tuple(map(figure, program.figures)), verdict=verdict)


def _as_is(name: str) -> str:
    return name


def _renamed(node: Node, called: Callable[[str], str]) -> Node:
    match node:
        case Leaf(field, operator, value, path):
            value = FieldRef(called(value.name)) if isinstance(value, FieldRef) else value
            return Leaf(called(field), operator, value, path)
        case Not(part):
            return Not(_renamed(part, called))
        case AllOf(parts):
            return AllOf(tuple(_renamed(part, called) for part in parts))
        case AnyOf(parts):
            return AnyOf(tuple(_renamed(part, called) for part in parts))


def read_of(
    names: Iterable[str], keys: Iterable[str], side_input: SideInput | None, spec: StreamSpec
) -> dict[str, str]:
    """Of the columns ``names`` of rows those that come from a part, each with the field of ``spec`` that it is there.

    ``keys``: the fields of all keys that rows enter under.
    """
    if side_input is None:
        return {name: name for name in names if name in spec.columns}
    prefix = side_input.column("")
    own = {name: name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    named = {here: side_input.there(here) for here in keys} | own
    return {name: field for name, field in named.items() if field in spec.columns}


def wide_records(
    plan: str, name: str, wide: StreamSpec, columns: Mapping[str, str], names: Iterable[str], of: Records
) -> Records:
    """``of``, the records of part ``name``, as rows of ``plan`` with the columns ``names``.

    ``columns``: those that come from the part (see ``read_of``). ``wide``: what rows look like.
    """
    rows = len(of)

    def column(number: int) -> pa.Array:
        column = order[number]
        if column == SOURCE:
            return pa.repeat(pa.scalar(name, pa.string()), rows)
        if column in columns:
            return of.fields[columns[column]]
        return pa.nulls(rows, arrow_type(wide.columns[column]))

    order = tuple(dict.fromkeys((SOURCE, *names)))
    return replace(of, stream=plan, ids=row_ids(name, of.ids), fields=Columns(order, column))


def row_ids(name: str, ids: pa.Array) -> pa.Array:
    """What records of part ``name`` are known by in the rows."""
    return pc.binary_join_element_wise(pa.scalar(name, ids.type), ids, _BETWEEN)
