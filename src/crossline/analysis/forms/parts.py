"""Parts of a rule as rows: steps and their like, cases, named values, figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from crossline.analysis.forms.fields import FormSource
from crossline.analysis.forms.groups import condition_rows, unshown
from crossline.analysis.forms.values import DOWN, REMOVE, UP, FormField, FormRow, Kind, act_name, name_of, new_name
from crossline.basics.texts.problems import Path
from crossline.programs.registry import declared, names
from crossline.rules.figure import FigureFields

FUNCTIONS = names()
_CASES = ("count", *names(of_records=False))
_FIGURE = ("group_by", "window", "delay", "source_topic", "bounds", "include_current", "resolution")
_SINGULAR = {"steps": "step", "any_of": "case"}


def bare(annotation: Any) -> Any:
    """An annotation without its validators, and without None."""
    while hasattr(annotation, "__metadata__"):
        annotation = get_args(annotation)[0]
    parts = [each for each in get_args(annotation) if each is not NoneType]
    return bare(parts[0]) if NoneType in get_args(annotation) and len(parts) == 1 else annotation


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The fields of a part, where the annotation is of one."""
    found = bare(annotation)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


@cache
def fields_of(model: type[BaseModel]) -> Mapping[str, Any]:
    """Its fields, its own before those that it has of others."""
    own = {name: model.model_fields[name] for name in model.__annotations__ if name in model.model_fields}
    return {**own, **model.model_fields}


def part_rows(looked: FormSource, path: Path, annotation: Any) -> tuple[FormRow, ...] | None:
    """The rows of the value at ``path``, which may be missing; None: the form does not show it."""
    value, found = looked.value(path), bare(annotation)
    title = str(path[-1]).replace("_", " ").capitalize()
    if found is Any:
        return tuple(_within(title, condition_rows(looked, path, looked.columns())))
    if (model := model_in(found)) is not None:
        return _part(looked, path, model, title)
    inner = bare((get_args(found) or (None,))[-1])
    if get_origin(found) is list and (value is None or isinstance(value, list)):
        if (model := model_in(inner)) is not None:
            return _several(looked, path, model)
        return _cases(looked, path) if get_origin(inner) is dict else None
    if get_origin(found) is dict and model_in(inner) is None and (value is None or isinstance(value, dict)):
        return (_entries(looked, path, title, "text" if inner is str else "value"),)
    return None


def hidden_in(looked: FormSource, path: Path, annotation: Any) -> Iterator[Path]:
    """What of a part that is shown the form leaves to the text."""
    value, found = looked.value(path), bare(annotation)
    if found is Any:
        yield from unshown(looked, path)
    elif (model := model_in(found)) is not None:
        yield from _hidden(looked, path, model)
    elif get_origin(found) is list:
        model = model_in(get_args(found)[-1])
        for place, each in enumerate(value or ()):
            if not isinstance(each, dict):
                yield (*path, place)
            elif model is not None:
                yield from _hidden(looked, (*path, place), model)
            else:
                yield from ((*path, place, key) for key in each if not _is_single(each[key]))
    elif isinstance(value, dict):
        yield from ((*path, key) for key in value if not _is_single(value[key]))


def _is_single(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _hidden(looked: FormSource, path: Path, model: type[BaseModel]) -> Iterator[Path]:
    value = looked.value(path)
    if _as_conditions(value, model):
        yield from unshown(looked, path)
        return
    for key in value or ():
        info = model.model_fields.get(key)
        if info is not None and bare(info.annotation) is Any:
            yield from unshown(looked, (*path, key))
        elif info is None or looked.field((*path, key), info) is None:
            yield (*path, key)


def _as_conditions(value: Any, model: type[BaseModel]) -> bool:
    """Whether a part is written as its conditions alone."""
    written = isinstance(value, list) or (isinstance(value, dict) and not value.keys() & model.model_fields.keys())
    return bool(value) and written and "conditions" in model.model_fields


def _part(looked: FormSource, path: Path, model: type[BaseModel], title: str) -> tuple[FormRow, ...] | None:
    value = looked.value(path)
    if _as_conditions(value, model):
        return tuple(_within(title, condition_rows(looked, path, looked.columns())))
    if value is not None and not isinstance(value, dict):
        return None
    return (_row(looked, path, model, title, act_name(path, REMOVE) if value else ""),)


def _row(looked: FormSource, path: Path, model: type[BaseModel], title: str, removes: str) -> FormRow:
    found = (looked.field((*path, name), info) for name, info in fields_of(model).items())
    rows: tuple[FormRow, ...] = ()
    if "conditions" in model.model_fields:
        columns = looked.columns(looked.value((*path, "source_topic")))
        rows = condition_rows(looked, (*path, "conditions"), columns)
    return FormRow(title, tuple(filter(None, found)), removes, rows=rows, at=looked.place(path))


def _several(looked: FormSource, path: Path, model: type[BaseModel]) -> tuple[FormRow, ...]:
    given, what = looked.value(path) or [], _SINGULAR.get(str(path[-1]), "part")
    rows = []
    for place, each in enumerate(given):
        mine = (*path, place)
        title = f"{what.capitalize()} {place + 1}"
        row = _row(looked, mine, model, title, "") if isinstance(each, dict) else FormRow(f"{title}, in the text", ())
        rows.append(_moving(row, mine, len(given)))
    names = [name for name in fields_of(model) if model.model_fields[name].is_required()]
    fields = tuple(FormField(new_name(path, name), name.replace("_", " "), "text", "") for name in names)
    return (*rows, FormRow(f"One more {what}", fields, at=looked.place(path)))


def _moving(row: FormRow, path: Path, count: int) -> FormRow:
    """With what takes it away and moves it."""
    place = int(path[-1])
    up = act_name(path, UP) if place else ""
    down = act_name(path, DOWN) if place + 1 < count else ""
    return FormRow(row.title, row.fields, act_name(path, REMOVE), up, down, rows=row.rows, at=row.at)


def _cases(looked: FormSource, path: Path) -> tuple[FormRow, ...]:
    given, rows = looked.value(path) or [], []
    for place, each in enumerate(given):
        mine = (*path, place)
        shown = (
            [looked.shown((*mine, key), key) for key in each if _is_single(each[key])] if isinstance(each, dict) else []
        )
        more = _named(mine, "text", _CASES, 'a comparison, such as "> 10"') if isinstance(each, dict) else ()
        row = FormRow(f"Case {place + 1}", (*shown, *more), at=looked.place(mine))
        rows.append(_moving(row, mine, len(given)))
    fields = _named(path, "text", _CASES, 'a comparison, such as "> 10"')
    return (*rows, FormRow("One more case", fields, at=looked.place(path)))


def _entries(looked: FormSource, path: Path, title: str, kind: Kind) -> FormRow:
    value = looked.value(path) or {}
    shown = tuple(looked.shown((*path, key), key, kind) for key in value if _is_single(value[key]))
    return FormRow(title, (*shown, *_named(path, kind)), at=looked.place(path))


def _named(path: Path, kind: Kind, options: tuple[str, ...] = (), hint: str = "") -> tuple[FormField, ...]:
    """The name and value fields of a new entry."""
    name = FormField(new_name(path, "name"), "one more name", "text", "", options)
    return name, FormField(new_name(path, "value"), "its value", kind, "", (), hint)


def _within(title: str, rows: tuple[FormRow, ...]) -> Iterator[FormRow]:
    yield FormRow(title, (), rows=rows)


def figure_rows(looked: FormSource) -> tuple[FormRow, ...]:
    """The figures of a rule, and one more."""
    given = looked.value(("figures",))
    if given is not None and not isinstance(given, dict):
        return ()
    rows = [row for name, each in (given or {}).items() if (row := _figure(looked, name, each)) is not None]
    new = ("figures",)
    fields = (
        FormField(new_name(new, "name"), "name", "text", ""),
        FormField(new_name(new, "function"), "function", "choice", "count", FUNCTIONS),
        FormField(new_name(new, "of"), "of", "text", "", looked.columns()),
        FormField(new_name(new, "group_by"), "group by", "names", "", looked.columns()),
        FormField(new_name(new, "window"), "window", "text", ""),
    )
    return (*rows, FormRow("One more figure", fields, at=looked.place(new)))


def function_of(figure: Any) -> str | None:
    """What a figure counts; None: it is of a kind that the text alone has."""
    return next((each for each in FUNCTIONS if isinstance(figure, dict) and each in figure), None)


def _figure(looked: FormSource, name: str, figure: Any) -> FormRow | None:
    path, function = ("figures", name), function_of(figure)
    if function is None:
        return None
    columns, known = looked.columns(figure.get("source_topic")), FigureFields.model_fields
    of = "" if declared(function).of_records else looked.value_text((*path, function))
    place = looked.place((*path, function))
    fields = [
        FormField(name_of((*path, "function")), "function", "choice", function, FUNCTIONS, "", looked.line(path)),
        FormField(name_of((*path, "of")), "of", "text", of, columns, "", 0, place),
    ]
    for each in _FIGURE:
        shown = each in figure or each in {"group_by", "window"}
        fields += [field] if shown and (field := looked.field((*path, each), known[each])) is not None else []
    rows = condition_rows(looked, (*path, "conditions"), columns)
    return FormRow(f"Figure {name}", tuple(fields), act_name(path, REMOVE), rows=rows, at=looked.place(path))


def hidden_in_figures(looked: FormSource) -> Iterator[Path]:
    """What of figures the form leaves to the text."""
    given = looked.value(("figures",))
    for name, each in given.items() if isinstance(given, dict) else ():
        path = ("figures", name)
        if function_of(each) is None:
            yield path
            continue
        yield from unshown(looked, (*path, "conditions"))
        for key in each:
            info = FigureFields.model_fields.get(key)
            shown = key in {*_FIGURE, *FUNCTIONS} and info is not None and looked.field((*path, key), info) is not None
            if key != "conditions" and key != function_of(each) and not shown:
                yield (*path, key)
