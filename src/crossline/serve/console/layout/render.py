"""Contexts to HTML: one function, which hands a template the fields of its dataclass and nothing else."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

from jinja2 import Environment, FileSystemLoader, StrictUndefined

FOLDER = Path(__file__).parents[1]


class TemplateContext(Protocol):
    """A frozen dataclass: all that its template reads."""

    TEMPLATE: ClassVar[str]


@cache
def environment() -> Environment:
    """Templates of the console's folder. All that is put in is escaped; a name that is not there is an error."""
    return Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def rendered(context: TemplateContext) -> str:
    """The HTML of a context."""
    template = environment().get_template(context.TEMPLATE)
    body: Any = context
    return template.render({each.name: getattr(body, each.name) for each in fields(body)})
