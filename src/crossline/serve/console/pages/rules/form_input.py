"""What the editor sends: the text, with what was set in the form; and the form that is shown of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from crossline.analysis.forms.form_reader import form_of
from crossline.analysis.forms.form_writer import with_form
from crossline.analysis.forms.values import RuleForm, TypeChange
from crossline.serve.console.pages.rules.editor_parts import TextFault
from crossline.serve.console.request import PageRequest, moved

PREFIX = "f."  # of the fields of the form, among those of the page
TYPE = "rule_type"
KEPT = ("job", "curve", "sample", "inputs", "from", "to")
_LAST = re.compile(r"(\[\d+\]|\.?[^.\[\]]+)$")


def text_in(form: Mapping[str, str]) -> str:
    """The text that was sent: browsers end lines otherwise."""
    return form.get("text", "").replace("\r\n", "\n").replace("\r", "\n")


def text_of(asked: PageRequest) -> str:
    """The text with what was set in the form beside it. Another type is given where it was confirmed alone.

    Raises UsageError if the form cannot write it.
    """
    text = text_in(asked.form)
    given = {name.removeprefix(PREFIX): value for name, value in asked.form.items() if name.startswith(PREFIX)}
    given.pop(TYPE, None)
    if asked.form.get("type"):
        given[TYPE] = asked.form["type"]
    return with_form(text, given, asked.parts.deps.config.streams) if given else text


def derived(asked: PageRequest, at: str, fragment: str = "", **more: str) -> Any:
    """To the editor, with what it showed; ``more``: what it shows besides, or instead."""
    kept = {name: asked.form[name] for name in KEPT if asked.form.get(name)}
    view = {"view": "form"} if asked.form.get("shown") == "form" else {}
    query = {name: value for name, value in {**view, **kept, **more}.items() if value}
    return moved(at + (f"?{urlencode(query)}" if query else "") + fragment)


def form_shown(
    asked: PageRequest, text: str, faults: Iterable[TextFault], rule_type: str, *, view: str | None
) -> tuple[RuleForm | None, dict[str, str], TypeChange | None]:
    """Where ``view`` is the form: that of a text, what is wrong at its places, and the other type that was chosen."""
    if view != "form":
        return None, {}, None
    form = form_of(text, asked.parts.deps.config.streams)
    turn = next((each for each in form.types if each.rule_type == rule_type), None)
    return form, wrongs_of(form, faults), turn


def wrongs_of(form: RuleForm, faults: Iterable[TextFault]) -> dict[str, str]:
    """What is wrong by place: at the field, else at the nearest part that the form shows."""
    places = {each.at for each in form.fields()} | {each.at for each in form.rows()}
    found: dict[str, list[str]] = {}
    for fault in faults:
        place = fault.path
        while place and place not in places:
            place = _LAST.sub("", place, count=1)
        if place:
            found.setdefault(place, []).append(fault_text(fault))
    return {place: " ".join(each) for place, each in found.items()}


def fault_text(fault: TextFault) -> str:
    """A fault in the command line's words."""
    return f"found {fault.found}; expected {fault.expected}" + (f"; {fault.hint}" if fault.hint else "")
