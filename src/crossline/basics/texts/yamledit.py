"""Changes single values in a text of YAML and nothing else: comments, order and layout stay.

Each change is proven: the values of the new text are those of the old one but for the change, or nothing is done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import yaml

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import Path, path_text
from crossline.basics.texts.yamltext import load_yaml

_SOURCE = "text"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class CannotEditError(UsageError):
    """The text is laid out in a way that is not edited here."""


def written(value: Any, *, flow: bool = False) -> str:
    """A value as it is written in YAML, on one line. ``flow``: within braces or brackets.

    >>> written("10m"), written("0742"), written("a: b"), written(["a", "b"]), written({"field": "x"})
    ('10m', '0742', '"a: b"', '[a, b]', '{field: x}')
    """
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{written(name, flow=True)}: {written(each, flow=True)}" for name, each in value.items())
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(written(each, flow=True) for each in value) + "]"
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    # What people quote, as operators, is quoted though it need not be.
    plain = _read(f"[{value}]") == [value] if flow else True
    plain = (
        plain
        and "\n" not in value
        and not value.startswith(("=", "<", ">", "!"))
        and _read(f"k: {value}") == {"k": value}
    )
    return value if plain else json.dumps(value, ensure_ascii=False)


def typed(text: str) -> Any:
    """What ``text`` is as a value of YAML; where it is none, the text.

    >>> typed("15000"), typed("[a, b]"), typed("TRF"), typed("a: b")
    (15000, ['a', 'b'], 'TRF', 'a: b')
    """
    found = _read(f"[{text}]")
    if not text.startswith(("[", "{")):
        return found[0] if isinstance(found, list) and len(found) == 1 and not isinstance(found[0], dict) else text
    return found[0] if isinstance(found, list) and len(found) == 1 else text


def replaced(text: str, path: Path, value: Any) -> str:
    """``text`` with another value at ``path``. Raises CannotEditError where that is not done here."""
    parent, node = _parent(text, path), _node(text, path)
    start, end = node.start_mark.index, _end(text, node)
    flow = _in_flow(text, path[:-1])
    new = written(value, flow=flow)
    style = getattr(node, "style", None)
    if isinstance(value, str) and style in {'"', "'"}:
        new = json.dumps(value, ensure_ascii=False) if style == '"' else "'" + value.replace("'", "''") + "'"
    elif isinstance(node, yaml.ScalarNode) and style in {"|", ">"} and isinstance(value, str):
        column = parent.start_mark.column + 2
        new = f"{style}-\n" + "\n".join(" " * column + line for line in value.splitlines())
    elif start == end and text[start - 1 : start] not in {" ", "\n"}:
        new = f" {new}"
    elif text[start - 1 : start] == "\n" or (isinstance(node, yaml.CollectionNode) and not node.flow_style):
        start = _behind_key(text, parent, path)
        new = f" {new}"

    def change(data: Any) -> None:
        _at(data, path[:-1])[path[-1]] = value

    return _proven(text, text[:start] + new + text[end:], change, path)


def added(text: str, path: Path, key: str, value: Any, after: Sequence[str] = ()) -> str:
    """``text`` with ``key`` in the mapping at ``path``, after the last of the keys ``after`` that are there."""
    node = _node(text, path)
    if not isinstance(node, yaml.MappingNode) or not node.value:
        raise _cannot(path)
    places = [place for place, (name, _) in enumerate(node.value) if name.value in after]
    name, before = node.value[places[-1] if places else -1]
    end = _end(text, before)
    if node.flow_style:
        new = f", {written(key, flow=True)}: {written(value, flow=True)}"
    else:
        line_end = text.find("\n", end)
        end = len(text) if line_end < 0 else line_end
        indent = " " * name.start_mark.column
        new = f"\n{indent}{written(key)}: {_block(value, indent)}"

    def change(data: Any) -> None:
        _at(data, path)[key] = value

    return _proven(text, text[:end] + new + text[end:], change, path)


def removed(text: str, path: Path) -> str:
    """``text`` without the key, or the item of a list, at ``path``; the last one of its kind stays."""
    parent = _parent(text, path)
    if isinstance(parent, yaml.MappingNode):
        spans = [(name.start_mark.index, _end(text, value)) for name, value in parent.value]
        place = next(at for at, (name, _) in enumerate(parent.value) if name.value == path[-1])
    else:
        spans = [(_item_start(text, each), _end(text, each)) for each in parent.value]
        place = int(path[-1])
    if len(spans) == 1:
        raise _cannot(path)
    start, end = spans[place]
    if parent.flow_style:
        start, end = (start, spans[place + 1][0]) if place == 0 else (spans[place - 1][1], end)
    elif place + 1 < len(spans) and not text[text.rfind("\n", 0, start) + 1 : start].strip(" "):
        start, end = text.rfind("\n", 0, start) + 1, _line_after(text, end)
    elif place + 1 < len(spans):
        end = spans[place + 1][0]  # what stands behind a dash
    else:
        start, end = text.rfind("\n", 0, start) + 1, _line_after(text, end)

    def change(data: Any) -> None:
        del _at(data, path[:-1])[path[-1]]

    return _proven(text, text[:start] + text[end:], change, path)


def renamed(text: str, path: Path, key: str) -> str:
    """``text`` with another key in place of the last of ``path``."""
    parent = _parent(text, path)
    name = next(name for name, _ in parent.value if name.value == path[-1])

    def change(data: Any) -> None:
        mapping = _at(data, path[:-1])
        items = [(key if each == path[-1] else each, value) for each, value in mapping.items()]
        mapping.clear()
        mapping.update(items)

    new = written(key, flow=bool(parent.flow_style))
    return _proven(text, text[: name.start_mark.index] + new + text[name.end_mark.index :], change, path)


def appended(text: str, path: Path, item: Any) -> str:
    """``text`` with one more item in the list at ``path``."""
    node = _node(text, path)
    if not isinstance(node, yaml.SequenceNode) or not node.value:
        return replaced(text, path, [item])
    end = _end(text, node.value[-1])
    if node.flow_style:
        new = f", {written(item, flow=True)}"
    else:
        line_end = text.find("\n", end)
        end = len(text) if line_end < 0 else line_end
        new = f"\n{' ' * node.start_mark.column}- {written(item)}"

    def change(data: Any) -> None:
        _at(data, path).append(item)

    return _proven(text, text[:end] + new + text[end:], change, path)


def swapped(text: str, path: Path) -> str:
    """``text`` with the item of a list at ``path`` behind the one that follows it, each with the comments above it."""
    parent, place = _parent(text, path), int(path[-1])
    if not isinstance(parent, yaml.SequenceNode) or place + 1 >= len(parent.value):
        raise _cannot(path)
    one, other = parent.value[place : place + 2]
    if parent.flow_style:
        (a, b), (c, d) = ((each.start_mark.index, _end(text, each)) for each in (one, other))
    else:
        floor = _end(text, parent.value[place - 1]) if place else 0
        a, c = _lead(text, one, floor), _lead(text, other, _end(text, one))
        b, d = c, _own_end(text, other)
    first, second = text[a:b], text[c:d]
    if not parent.flow_style and not second.endswith("\n"):
        first, second = first.removesuffix("\n"), f"{second}\n"

    def change(data: Any) -> None:
        items = _at(data, path[:-1])
        items[place], items[place + 1] = items[place + 1], items[place]

    return _proven(text, text[:a] + second + text[b:c] + first + text[d:], change, path)


def wrapped(text: str, path: Path) -> str:
    """``text`` with the value at ``path`` as the one item of a list."""
    node = _node(text, path)
    start, end = node.start_mark.index, _end(text, node)
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        new = "- " + re.sub(r"\n(?=[^\n])", "\n  ", text[start:end])
    else:
        new = f"[{text[start:end]}]"

    def change(data: Any) -> None:
        _at(data, path[:-1])[path[-1]] = [_at(data, path)]

    return _proven(text, text[:start] + new + text[end:], change, path)


def source_of(text: str, path: Path) -> tuple[int, int]:
    """From which to which character the value at ``path`` is written."""
    node = _node(text, path)
    return node.start_mark.index, _end(text, node)


def _block(value: Any, indent: str) -> str:
    """A value behind its key: a mapping of mappings, or a list, on lines of its own."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "".join(f"\n{indent}  - {written(each)}" for each in value)
    if isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values()):
        return "".join(f"\n{indent}  {written(name)}: {written(each)}" for name, each in value.items())
    return written(value)


def _read(text: str) -> Any:
    try:
        return load_yaml(text, _SOURCE).data
    except UsageError:
        return None


@lru_cache(maxsize=16)
def _root(text: str) -> yaml.Node:
    load_yaml(text, _SOURCE)  # it is refused where it is too deep or too large
    try:
        found = yaml.compose(text, Loader=_LOADER)
    except (yaml.YAMLError, RecursionError):
        found = None
    if found is None:
        raise _cannot(())
    return found


def _node(text: str, path: Path) -> Any:
    node: Any = _root(text)
    for step in path:
        if isinstance(node, yaml.MappingNode):
            node = next((value for name, value in node.value if name.value == step), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
        else:
            node = None
        if node is None:
            raise _cannot(path)
    return node


def _parent(text: str, path: Path) -> Any:
    return _node(text, path[:-1])


def _in_flow(text: str, path: Path) -> bool:
    return any(_node(text, path[:length]).flow_style for length in range(len(path) + 1))


def _end(text: str, node: Any) -> int:
    """Where it ends: of a block, where its last value does."""
    if isinstance(node, yaml.ScalarNode):
        end = int(node.end_mark.index)
        if node.style in {"|", ">"}:
            while end > node.start_mark.index and text[end - 1] in " \n":
                end -= 1
        return end
    if node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(text, last[1] if isinstance(node, yaml.MappingNode) else last)


def _item_start(text: str, node: Any) -> int:
    """Of an item of a list: its dash, or itself in brackets."""
    start = int(node.start_mark.index)
    before = text[:start].rstrip(" ")
    return len(before) - 1 if before.endswith("-") else start


def _behind_key(text: str, parent: Any, path: Path) -> int:
    """Behind the colon, or the dash, of what stands at ``path``."""
    if isinstance(parent, yaml.MappingNode):
        name = next(name for name, _ in parent.value if name.value == path[-1])
        return text.index(":", int(name.end_mark.index)) + 1
    return _item_start(text, parent.value[int(path[-1])]) + 1


def _lead(text: str, item: Any, floor: int) -> int:
    """Where an item of a block list begins: at the comments above its dash, down from ``floor``."""
    dash = _item_start(text, item)
    start = text.rfind("\n", 0, dash) + 1
    if text[start:dash].strip(" "):
        raise _cannot(())
    while start > floor:
        above = text.rfind("\n", 0, start - 1) + 1
        line = text[above : start - 1]
        deep = len(line) - len(line.lstrip(" ")) > dash - text.rfind("\n", 0, dash) - 1
        if above < floor or (line.strip() and (deep or not line.lstrip(" ").startswith("#"))):
            break
        start = above
    return start


def _own_end(text: str, item: Any) -> int:
    """Behind the last line of an item, and behind comments that stand deeper than its dash."""
    dash, end = _item_start(text, item), _line_after(text, _end(text, item))
    column = dash - text.rfind("\n", 0, dash) - 1
    while end < len(text):
        line = text[end : _line_after(text, end)]
        if not line.lstrip(" ").startswith("#") or len(line) - len(line.lstrip(" ")) <= column:
            break
        end += len(line)
    return end


def _line_after(text: str, end: int) -> int:
    line_end = text.find("\n", end)
    return len(text) if line_end < 0 else line_end + 1


def _at(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


def _proven(text: str, after: str, change: Callable[[Any], None], path: Path) -> str:
    # Copied through text: what an alias names stands in two places, and only one of them is to change.
    expected = json.loads(_as_json(text))
    change(expected)
    if _as_json(after) != json.dumps(expected, sort_keys=True):
        raise _cannot(path)
    return after


@lru_cache(maxsize=4)
def _as_json(text: str) -> str:
    """The values of a text as JSON; 1, 1.0 and true differ in it."""
    return json.dumps(_read(text), sort_keys=True)


def _cannot(path: Path) -> CannotEditError:
    where = path_text(path) or "the text"
    return CannotEditError(f"found {where} in a layout that is not edited here; expected the change in the text itself")
