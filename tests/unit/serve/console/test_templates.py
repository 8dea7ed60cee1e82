"""Templates: what they read is what their dataclass has; nothing is run, styled or let through in them."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import meta, nodes
from jinja2.defaults import DEFAULT_NAMESPACE

from crossline.serve.console.layout.render import FOLDER, environment

TEMPLATES = sorted(FOLDER.rglob("*.html"))
IDS = [str(path.relative_to(FOLDER)) for path in TEMPLATES]


def contexts() -> dict[str, type]:
    """The dataclasses of the console that name a template."""
    found: dict[str, type] = {}
    for path in FOLDER.rglob("*.py"):
        name = ".".join(("crossline", "serve", "console", *path.relative_to(FOLDER).with_suffix("").parts))
        module = importlib.import_module(name.removesuffix(".__init__"))
        for _, each in inspect.getmembers(module, inspect.isclass):
            if each.__module__ == module.__name__ and hasattr(each, "TEMPLATE") and dataclasses.is_dataclass(each):
                assert each.TEMPLATE not in found, f"{each.TEMPLATE} has two contexts"
                found[each.TEMPLATE] = each
    return found


CONTEXTS = contexts()


def imported(tree: nodes.Template) -> set[str]:
    """Names of macros, which a block sees though they stand outside of it."""
    found = {each.target for each in tree.find_all(nodes.Import)}
    for each in tree.find_all(nodes.FromImport):
        found |= {name if isinstance(name, str) else name[1] for name in each.names}
    return found


def read_by(name: str) -> set[str]:
    """Names that a template reads, with those of what it extends and includes."""
    source = (FOLDER / name).read_text()
    tree = environment().parse(source)
    found = meta.find_undeclared_variables(tree) - set(DEFAULT_NAMESPACE) - imported(tree)
    for each in meta.find_referenced_templates(tree):
        assert each is not None, f"{name} names a template by a value"
        if each in CONTEXTS or not each.startswith("layout/parts/"):
            found |= read_by(each)
    return found


@pytest.mark.parametrize("name", sorted(CONTEXTS))
def test_a_template_reads_what_its_dataclass_has(name: str) -> None:
    context = CONTEXTS[name]
    assert context.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert read_by(name) == {each.name for each in dataclasses.fields(context)}


def test_every_page_of_its_folder_is_the_template_of_a_context() -> None:
    there = {str(path.relative_to(FOLDER)) for path in (FOLDER / "pages").rglob("*.html")}
    included = {
        each
        for path in TEMPLATES
        for each in meta.find_referenced_templates(environment().parse(path.read_text()))
        if each is not None
    }
    assert there - set(CONTEXTS) - included == set()


class Tags(HTMLParser):
    """All that a browser could run or style in a template."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        self.wrong += [f"<{tag} {name}>" for name in names if name == "style" or re.match(r"on|hx-on", name)]
        self.wrong += [
            f"<{tag} {name}={value}>" for name, value in attrs if re.match(r"\s*(javascript|data):", value or "")
        ]
        if tag in {"style", "base", "iframe", "object", "embed"} or (tag == "script" and "src" not in names):
            self.wrong.append(f"<{tag}>")


@pytest.mark.parametrize("path", TEMPLATES, ids=IDS)
def test_nothing_in_a_template_is_run_or_let_through(path: Path) -> None:
    text = path.read_text()
    tags = Tags()
    tags.feed(re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", text, flags=re.DOTALL))
    assert tags.wrong == []
    tree = environment().parse(text)
    assert [each.name for each in tree.find_all(nodes.Filter) if each.name in {"safe", "forceescape", "xmlattr"}] == []
    assert list(tree.find_all((nodes.ScopedEvalContextModifier, nodes.EvalContextModifier))) == []
    # An attribute without quotes would end at a blank of what is put in.
    assert re.findall(r"\s[\w:-]+=\{\{", text) == []


def test_the_finder_of_what_is_run_finds_it() -> None:
    tags = Tags()
    tags.feed('<a onclick="x" style="y" href="javascript:z"></a><script>1</script><base href="/"><p hx-on:click="a">')
    assert len(tags.wrong) == 6
