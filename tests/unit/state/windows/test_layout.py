"""The declaration: names, numbers and offsets agree."""

from __future__ import annotations

import numpy as np
import pytest

from crossline.plan.spaces import AggregateSpec, KeySpacePlan, WindowSpec
from crossline.state.memory import layout as at
from crossline.state.windows.program import KernelProgram, compile_plan
from crossline.state.windows.store import KeySpaceState

from .naive import line

COLUMNS = (("i", "int"), ("f", "float"))
CURSORS = (WindowSpec(0, 10, False, False, True), WindowSpec(1, 20, True, True, True))
GROUPS = tuple(
    AggregateSpec(c, column, aggregate)
    for c in range(2)
    for aggregate in ("sum", "avg", "min", "max", "stddev", "last", "first", "distinct_count")
    for column in range(2)
)
PLAN = KeySpacePlan(
    COLUMNS, 9, CURSORS, GROUPS, tuple(line(g, ">=", 1, cooldown_ms=5 * (g % 2)) for g in range(len(GROUPS))), 100
)


def test_a_word_is_named_as_its_constant() -> None:
    assert [getattr(at, word.name) for word in at.TABLE.words] == list(range(at.WORDS))


def test_the_words_after_a_tables_are_those_of_its_growth() -> None:
    for name in ("ID", "KEY", "VALUE"):
        words = [getattr(at, f"{name}_{word}") for word in ("TABLE", "BLOCKS", "FORMER", "SPLIT")]
        assert words == [words[0] + step for step in (0, at.BLOCKS_OF, at.FORMER_OF, at.SPLIT_OF)]


def test_the_program_is_declared_and_nothing_else_stands_among_it() -> None:
    assert sorted(word.name.lower() for word in at.OF_PROGRAM) == sorted(KernelProgram._fields)


def test_arrays_have_as_many_items_as_declared() -> None:
    state = KeySpaceState(PLAN)
    words = state._memory.words
    for word in at.TABLE.words:
        if word.life == "plan" and word.role == "array" and hasattr(at, word.many):
            extra = 1 if word.name.endswith("_AT") and word.name not in {"RECORD_LINK_AT", "SLOT_LINK_AT"} else 0
            array = state._memory._kept[word.number]
            assert len(array) == words[getattr(at, word.many)] + extra, word.name
            assert array.dtype == word.dtype


@pytest.mark.parametrize("pool", list(at.ROWS_OF))
def test_fields_fill_a_row_without_gaps_or_overlaps(pool: int) -> None:
    words = KeySpaceState(PLAN)._memory.words
    row, width, _ = at.ROWS_OF[pool]
    end = 0
    for place in row.places(words):
        assert place.offset == end, place.name
        end += place.field.kind.bytes
    assert 0 <= int(words[width]) - end < row.even


def test_a_slot_is_born_with_nothing_in_it() -> None:
    words = KeySpaceState(PLAN)._memory.words
    born = at.KEYED.newborn(words, int(words[at.SLOT_BYTES]))
    for place in at.KEYED.places(words):
        found = born[place.offset : place.offset + place.field.kind.bytes].view(place.field.kind.dtype)[0]
        assert found == (-1 if place.field.holds == "record" else 0), place.name


def test_what_holds_numbers_of_records_is_renumbered() -> None:
    """Three fields of a window, and one each of ends, pointers, chains, classes and cooldowns, by hand."""
    words, program = KeySpaceState(PLAN)._memory.words, compile_plan(PLAN)
    cooling = int(program.cooldown_col.max()) + 1
    by_hand = 2 + 2 * len(CURSORS) + len(program.pt_kind) + len(program.chain_col) + len(program.class_filter) + cooling
    assert words[at.SLOT_LINKS] == by_hand
    assert words[at.RECORD_LINKS] == 2 + 2 * len(program.chain_col) + 2 * len(program.link_col)


def test_one_field_alone_holds_the_number_of_a_slot() -> None:
    """``compact`` renumbers it by name."""
    words = KeySpaceState(PLAN)._memory.words
    assert [at.RECORD.numbers_at(words, "slot"), at.KEYED.numbers_at(words, "slot")] == [[at.SLOT], []]


def test_what_a_plan_leaves_is_copied_in_few_pieces() -> None:
    old, new = KeySpaceState(PLAN)._memory.words, KeySpaceState(PLAN)._memory.words
    pieces = at.RECORD.carried(new, old)
    width = int(new[at.CHAIN_AT])
    assert pieces == [(0, 0, width), (int(new[at.BITS_AT]), int(old[at.BITS_AT]), 2)]
    assert at.KEYED.carried(new, old) == [(0, 0, at.WINDOWS)]


def test_arrays_are_of_the_kind_that_is_declared() -> None:
    memory = KeySpaceState(PLAN)._memory
    memory.keep(at.KEY_INDEX, np.arange(3, dtype=np.int64))
    assert memory._kept[at.KEY_INDEX].dtype == np.int32
