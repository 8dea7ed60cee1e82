"""Draws the kernels' memory from their declarations.

``python -m tools.docs.kernel_memory``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from crossline.state.memory import layout as at
from crossline.state.memory.declarations import Field, Item, Row, Table, Word
from crossline.state.panes import layout as of_panes
from crossline.state.records.hash_tables import (
    BLOCK,
    ITEMS_AT,
    PLACES,
    PUSHED_AT,
    VALUE_ITEMS_AT,
    VALUE_PLACES,
    VALUE_PUSHED_AT,
)
from crossline.state.retraction import layout as of_retraction

_HEAD = """\
# The kernels' memory

Written from the declarations, `state/memory/layout.py`, `state/panes/layout.py` and `state/retraction/layout.py`,
by `python -m tools.docs.kernel_memory`. How to add a field stands in
[CONTRIBUTING.md](../CONTRIBUTING.md#add-a-field-to-the-kernels-memory). A kernel gets and puts by the declared name
(`state/memory/fields.py`), so its type is that of the declaration.

Windows and patterns come first, then [panes](#panes) and [retraction](#retraction).

A key space of a shard is one table of 64-bit words, and what its words point at:

```
h ─► words ─┬─ RECORDS ─► rows of records, in ingest order     a record names its slot and other records by number
            ├─ IDS ─────► their ids, end to end
            ├─ SLOTS ───► rows of slots: one for each key      a slot names records by number
            ├─ KEYS ────► their keys, end to end
            ├─ MATCH_STEPS ► rows of steps of partial matches  of patterns: a slot names these by number
            ├─ ID_TABLE, KEY_TABLE, VALUE_TABLE ► blocks of 64 bytes: bytes of hashes, numbers of records or slots
            ├─ the plan's arrays, scratch, room for hits
            └─ the batch's arrays, let go after it
```

Numbers of records and slots below 0 are none. Compaction drops records and slots and gives the others new numbers, in
every field that holds one. A large state drops its oldest records one by one: those before `FIRST_RECORD` are gone, and
so is one from there on without a slot. `BELOW` may still name it.
"""
_LIVES = {
    "state": "The state",
    "plan": "The plan",
    "scratch": "Scratch of the kernel",
    "batch": "One batch, or one compaction",
    "hits": "Hits, with room kept from batch to batch",
}


def _type(word: Word) -> str:
    if word.kind is not None:
        return f"{word.kind.name} x {word.many}"
    return {"pool": "address of rows or bytes", "table": "address of blocks"}.get(word.role, word.role)


def _marks(word: Word) -> str:
    return "0 at each batch" if word.zeroed else "by a new plan" if word.carried else ""


def _words(table: Table, level: str = "##") -> Iterator[str]:
    for life, title in _LIVES.items():
        words = [word for word in table.words if word.life == life]
        if words:
            yield f"\n{level} Words: {title[0].lower()}{title[1:]}\n"
            yield "| word | name | is | what | cleared, taken along |\n|---|---|---|---|---|"
            for word in words:
                yield f"| {word.number} | `{word.name}` | {_type(word)} | {word.what} | {_marks(word)} |"


def _drawn(item: Item) -> str:
    """The fields of an item as boxes, with the offset under the beginning of each."""
    boxes = [f" {field.name} {field.kind.name} " for field in item.fields]
    top = "┌" + "┬".join("─" * len(box) for box in boxes) + "┐"
    low = "└" + "┴".join("─" * len(box) for box in boxes) + "┘"
    under = "".join(str(field.offset).ljust(len(box) + 1) for field, box in zip(item.fields, boxes, strict=True))
    return "\n".join((top, "│" + "│".join(boxes) + "│", low, f"{under}{item.bytes}"))


def _field(name: str, repeat: str, field: Field, *, carried: bool) -> str:
    """A line of the table of a row's fields."""
    holds = f"number of a {field.holds}" if field.holds else ""
    born = {-1: "none"}.get(field.born, str(field.born))
    taken = "as it is" if carried else "as born"
    return f"| `{name}` | {field.offset} | {field.kind.name} | {repeat} | {field.what} | {holds} | {born} | {taken} |"


def _row(row: Row, title: str, table: Table = at.TABLE, level: str = "##") -> Iterator[str]:
    then = ", then parts, each of items side by side" if row.parts else ""
    yield f"\n{level} The row of {title}\n"
    yield f"Fixed fields{then}{_rounded(row)}:\n\n```\n{_drawn(row)}"
    starts = "after them"
    for part in row.parts:
        where = f"from {part.offset}, {starts}" if part.at < 0 else f"from {table.words[part.at].name}"
        yield f"\n{part.name} x {table.words[part.many].name}, {where}: {part.item.what}\n{_drawn(part.item)}"
    yield "```\n"
    yield "| field | offset in its item | type | as many as | what | renumbered | in a new slot | under a new plan |"
    yield "|---|---|---|---|---|---|---|---|"
    for field in row.fields:
        yield _field(field.name, "", field, carried=field.carried)
    for part in row.parts:
        for field in part.item.fields:
            name = f"{part.name}.{field.name}"
            yield _field(name, f"`{table.words[part.many].name}`", field, carried=part.carried)


def _rounded(row: Row) -> str:
    return f", and up to the next multiple of {row.even} bytes" if row.even > 1 else ""


_PANES = """
## Panes

A key space of panes is a table of words of its own. A slot names blocks of the heap: its key, its records, chunks of
panes, and of panes sketches and wide numbers. What stands there is an item, or items side by side:
"""
_RETRACTION = """
## Retraction

No compiled code: a table of columns, which grow by rows. Besides these there are the ids, and a column for each value
of the plan and for each field that formulas read.

| column | type | as many as | what |
|---|---|---|---|
"""


def _of_panes() -> Iterator[str]:
    """The second part: what panes declare."""
    yield _PANES
    items = {id(each): each for each in vars(of_panes).values() if type(each) is Item and each.part_of is None}
    yield "| item | field | offset | type | what |\n|---|---|---|---|---|"
    for item in items.values():
        for field in item.fields:
            yield f"| {item.what} | `{field.name}` | {field.offset} | {field.kind.name} | {field.what} |"
    yield from _row(of_panes.KEYED, "a slot of panes", of_panes.TABLE, "###")
    yield from _words(of_panes.TABLE, "###")


def _of_retraction() -> str:
    """The third part: what the table of retraction declares."""
    columns = of_retraction.COLUMNS
    rows = (f"| `{each.name}` | {each.kind.name} | `{each.width or 1}` | {each.what} |" for each in columns)
    return _RETRACTION + "\n".join(rows)


def page() -> str:
    """The whole page."""
    blocks = f"""
## A block of a table

{BLOCK} bytes, a line of memory: a byte of the hash for each place (0: free), then the items. What finds no room goes to
the next block. Each block counts the items that have passed it, in one byte (255: as many or more).

| table | places | items from | passed at | item |
|---|---|---|---|---|
| `ID_TABLE`, `KEY_TABLE` | {PLACES} | {ITEMS_AT} | {PUSHED_AT} | int32: number of the record, or of the slot |
| `VALUE_TABLE` | {VALUE_PLACES} | {VALUE_ITEMS_AT} | {VALUE_PUSHED_AT} | int64: link x 2^32 + the value's last record |
"""
    rows = [*_row(at.RECORD, "a record"), *_row(at.KEYED, "a slot"), *_row(at.MATCH_STEP, "a step of a partial match")]
    return (
        "\n".join([_HEAD.rstrip("\n"), *rows, blocks.rstrip("\n"), *_words(at.TABLE), *_of_panes(), _of_retraction()])
        + "\n"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
