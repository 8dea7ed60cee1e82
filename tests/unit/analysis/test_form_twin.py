"""Changes of the form against a naive twin: the same change on the parsed document, in texts of any layout."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.analysis.forms.form_reader import form_of
from crossline.analysis.forms.form_writer import with_form
from crossline.basics.errors import UsageError
from crossline.basics.texts.yamltext import load_yaml
from crossline.rules.registry import rule_types
from drawing import one_of_these

NAMES = st.sampled_from(
    ["a", "b.c", "d/e", "~", "+", "0", "remove", "up", "~3join", "join", "é", "x: y", "#z", "-", "no"]
)
SCALARS = st.one_of(NAMES, st.integers(-9, 99), st.booleans(), st.sampled_from([1.5, "0742", "", " s ", "a\nb", "{x}"]))
LEAVES = st.fixed_dictionaries(
    {"field": NAMES, "operator": st.sampled_from(["==", ">=", "in"])},
    optional={"value": st.one_of(SCALARS, st.lists(NAMES, min_size=1, max_size=3), st.just({"list": "w"}))},
)
ITEMS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            lambda join, each: {join: each},
            st.sampled_from(["all", "any", "not"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
        st.builds(lambda each: {"not": each}, inner),
    ),
    max_leaves=5,
)
CONDITIONS = st.lists(ITEMS, min_size=1, max_size=3)
STEPS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"times": st.integers(1, 5), "conditions": CONDITIONS}),
    min_size=1,
    max_size=4,
)
FIGURES = st.dictionaries(
    NAMES, st.fixed_dictionaries({"count": st.just(True)}, optional={"conditions": CONDITIONS}), min_size=1, max_size=3
)
RULES = st.one_of(
    st.fixed_dictionaries(
        {"rule_id": NAMES, "rule_type": st.just("sequence"), "steps": STEPS},
        optional={
            "conditions": CONDITIONS,
            "until": st.fixed_dictionaries({"conditions": CONDITIONS}),
            "within": NAMES,
        },
    ),
    st.fixed_dictionaries(
        {
            "rule_type": st.just("burst"),
            "any_of": st.lists(st.dictionaries(NAMES, NAMES, min_size=1), min_size=1, max_size=3),
        },
        optional={"conditions": st.one_of(CONDITIONS, ITEMS), "severity": st.just("high")},
    ),
    st.fixed_dictionaries(
        {
            "rule_type": st.just("model"),
            "figures": FIGURES,
            "features": st.dictionaries(NAMES, NAMES, min_size=1, max_size=3),
        },
    ),
)


class Layout:
    """Writes a value as a person might: in blocks or in braces, with comments, blank lines and spaces."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.comments = 0

    def comment(self, chance: float = 0.4) -> str:
        if self.random.random() > chance:
            return ""
        self.comments += 1
        return f"  # c{self.comments}: {{- x"

    def scalar(self, value: Any) -> str:
        if isinstance(value, str) and self.random.random() < 0.3 and "\n" not in value:
            return "'" + value.replace("'", "''") + "'"
        return json.dumps(value, ensure_ascii=self.random.random() < 0.5)

    def flow(self, value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.scalar(key)}: {self.flow(each)}" for key, each in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(self.flow, value)) + self.random.choice(["", " "]) + "]"
        return self.scalar(value)

    def block(self, value: Any, indent: int) -> list[str]:
        """Lines of a mapping or a list, the first of which stands behind what is before it."""
        lines: list[str] = []
        pad = " " * indent
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            if lines and self.random.random() < 0.3:
                lines.append(pad + self.comment(1).strip() if self.random.random() < 0.7 else "")
            head = pad + ("-" if isinstance(value, list) else f"{self.scalar(key)}:")
            if not isinstance(each, dict | list) or not each or self.random.random() < 0.4:
                lines.append(f"{head} {self.flow(each)}{self.comment()}")
            elif isinstance(value, list):
                inner = self.block(each, indent + 2)
                lines += [f"{head} {inner[0].strip()}", *inner[1:]]
            else:
                lines += [head + self.comment(), *self.block(each, indent + self.random.choice([2, 4]))]
        return lines

    def text(self, body: Any) -> str:
        """The whole text."""
        first = ["# the first line"] if self.random.random() < 0.5 else []
        listed = self.random.random() < 0.3
        return "\n".join([*first, *self.block([body] if listed else body, 0)]) + self.random.choice(
            ["", "\n", "\n# end\n"]
        )


def parts_of(name: str, body: Any) -> list[Any]:
    """The steps of a name."""
    found: list[Any] = []
    for part in name.split("/"):
        step: Any = part.replace("~3", "").replace("~2", "+").replace("~1", "/").replace("~0", "~")
        if isinstance(body, list) and part.isdigit():
            step = int(part)
        found.append(step)
        try:
            body = body[step]
        except (KeyError, IndexError, TypeError):
            body = None
    return found


def at(body: Any, path: list[Any]) -> Any:
    for step in path:
        body = body[step]
    return body


def take(body: Any, path: list[Any]) -> None:
    """Away, and with the last all that held it."""
    while len(path) > 1 and len(at(body, path[:-1])) == 1:
        path = path[:-1]
    del at(body, path[:-1])[path[-1]]


def put(body: Any, path: list[Any], value: Any) -> None:
    for step in path[:-1]:
        body = body.setdefault(step, {}) if isinstance(body, dict) else body[step]
    body[path[-1]] = value


def twin(body: Any, name: str, values: dict[str, Any]) -> Any:
    """The document after the change of that name."""
    body = copy.deepcopy(body)
    *above, last = path = parts_of(name, body)
    if last == "remove" and values == {"act": True}:
        take(body, above)
    elif last in {"up", "down"} and values == {"act": True}:
        held, place = at(body, above[:-1]), above[-1]
        other = place + (1 if last == "down" else -1)
        held[place], held[other] = held[other], held[place]
    elif last == "join":
        ((_, inner),) = at(body, above).items()
        wraps = not isinstance(inner, list) and values["value"] != "not"
        put(body, above, {values["value"]: [inner] if wraps else inner})
    elif values["value"] is None:
        take(body, path)
    else:
        put(body, path, values["value"])
    return body


def touched(before: str, after: str) -> tuple[str, str]:
    """What went and what came, between what is alike at both ends."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return before[start : len(before) - end], after[start : len(after) - end]


def rule_of(text: str) -> Any:
    data = load_yaml(text, "t").data
    return data[0] if isinstance(data, list) else data


@settings(deadline=None, max_examples=60)
@given(RULES, st.integers(0, 2**32), st.data())
def test_a_value_that_is_set_is_the_twins_and_nothing_else_is_touched(
    body: Any, seed: int, data: st.DataObject
) -> None:
    text = Layout(seed).text(body)
    assert rule_of(text) == body  # the layout is right
    fields = [
        each
        for each in form_of(text, {}).fields()
        if "+" not in each.name.split("/") and each.name != "rule_type" and each.name[:5] != "line/"
    ]
    field = data.draw(st.sampled_from(fields))
    if field.kind == "choice":
        value: Any = data.draw(
            st.sampled_from([each for each in field.options if each not in {"true", "false"}] or ["true"])
        )
        meant = value == "true" or value
    elif field.kind == "value":
        value, meant = data.draw(st.sampled_from([("7", 7), ("[x, y]", ["x", "y"]), ("true", True), ("w", "w")]))
    else:
        value = meant = data.draw(one_of_these("n: m", "p", "0742", "- q", "{r}"))
        if field.kind == "names":
            value, meant = data.draw(st.sampled_from([("k", "k"), ("k, l", ["k", "l"])]))
    if field.name.endswith(("/function", "/of")) and field.name.startswith("figures/"):
        return  # has a test of its own
    after = with_form(text, {field.name: value}, {})
    if value == field.value:
        assert after == text
        return
    assert rule_of(after) == twin(body, field.name, {"value": meant})
    went, _ = touched(text, after)
    wraps = field.name.endswith("/join")
    assert wraps or went.count("#") == 0 or "# c" not in went.replace(field.value, "")
    assert after.count("# c") == text.count("# c")
    shown = {each.name: each.value for each in form_of(after, {}).fields()}
    assert wraps or shown[field.name] == value


@settings(deadline=None, max_examples=60)
@given(RULES, st.integers(0, 2**32), st.data())
def test_what_is_moved_or_removed_is_the_twins_and_all_else_stays(body: Any, seed: int, data: st.DataObject) -> None:
    text = Layout(seed).text(body)
    name = data.draw(st.sampled_from(sorted(form_of(text, {}).acts()) or [""]))
    if not name:
        return
    after = with_form(text, {name: "yes"}, {})
    expected = twin(body, name, {"act": True})
    assert rule_of(after) == expected
    if name.endswith("/remove"):
        went, came = touched(text, after)
        assert not came.strip(), "it is one cut"
        assert load_yaml(text, "t").data != expected
        assert len(went) < len(text)
    else:
        one, other = (sorted("".join(each.split("\n"))) for each in (text, after))
        assert one == other
        assert after.count("# c") == text.count("# c")


@settings(deadline=None, max_examples=60)
@given(RULES, st.integers(0, 2**32), st.data())
def test_what_is_added_is_the_twins_and_nothing_goes(body: Any, seed: int, data: st.DataObject) -> None:
    text = Layout(seed).text(body)
    rows = [row for row in form_of(text, {}).rows() if any("+" in each.name.split("/") for each in row.fields)]
    row = data.draw(st.sampled_from(rows))
    names = [each.name for each in row.fields if "+" in each.name.split("/")]
    prefix = names[0].rpartition("/")[0]
    path = parts_of(prefix, body)[:-1]
    expected = copy.deepcopy(body)
    keys = [name.rpartition("/")[2] for name in names]
    if "operator" in keys:
        join = data.draw(one_of_these("", "all", "any", "not"))
        changes = {
            f"{prefix}/field": "f: g",
            f"{prefix}/value": "[1, no]",
            f"{prefix}/operator": "in",
            f"{prefix}/join": join,
        }
        leaf: Any = {"field": "f: g", "operator": "in", "value": [1, "no"]}
        item = leaf if not join else {join: leaf if join == "not" else [leaf]}
    elif keys == ["name"]:
        changes, item = {f"{prefix}/name": "new"}, {"name": "new"}
    elif "function" in keys:
        changes, item = {f"{prefix}/name": "n/w", f"{prefix}/window": "1h"}, {"count": True, "window": "1h"}
    else:
        changes, item = {f"{prefix}/name": "sum", f"{prefix}/value": "> 1"}, "> 1"
    try:
        held = at(expected, path)
    except (KeyError, IndexError):
        held = None
    mapping = "function" in keys or ("value" in keys and "operator" not in keys and isinstance(held, dict))
    if mapping:
        put(expected, [*path, changes[f"{prefix}/name"]], item)
    else:
        more = {"sum": item} if isinstance(item, str) else item
        put(expected, path, [*(held or []), more])
    after = with_form(text, changes, {})
    assert rule_of(after) == expected
    went, _ = touched(text, after)
    assert went == ""


@settings(deadline=None)
@given(st.sampled_from(sorted(rule_types())), st.sampled_from(sorted(rule_types())))
def test_another_type_keeps_what_both_share(one: str, other: str) -> None:
    text = rule_types()[one].example
    form, body = form_of(text, {}), rule_of(text)
    after = rule_of(with_form(text, {"rule_type": other}, {}))
    if one == other:
        assert after == body
        return
    (change,) = [each for each in form.types if each.rule_type == other]
    goes = {name for name, _ in change.goes}
    assert after == {**{key: each for key, each in body.items() if key not in goes}, "rule_type": other}
    assert {key for key in body if key not in rule_types()[other].model_fields} <= goes
    stays = body.keys() & rule_types()[other].model_fields.keys() & rule_types()["threshold"].model_fields.keys()
    assert not goes & (stays - {"source_topic"})
    for name, line in change.goes:
        assert text.splitlines()[line - 1].startswith(f"{name}:")
    assert not set(change.lacks) & after.keys()


def test_what_has_the_same_name_and_another_shape_goes() -> None:
    form = form_of(rule_types()["burst"].example, {})
    (change,) = [each for each in form.types if each.rule_type == "composite"]
    assert "any_of" in {name for name, _ in change.goes}
    (same,) = [
        each
        for each in form_of("rule_id: a\nwindow: soon\nrule_type: burst\n", {}).types
        if each.rule_type == "velocity"
    ]
    assert same.goes == ()  # it is wrong in both
    assert with_form("rule_id: a\nno_such: 1\nrule_type: burst\n", {"rule_type": "velocity"}, {}) == (
        "rule_id: a\nno_such: 1\nrule_type: velocity\n"
    )


def test_moves_and_removals_are_not_mixed() -> None:
    text = rule_types()["sequence"].example
    with pytest.raises(UsageError, match="one, where one is moved"):
        with_form(text, {"steps/0/down": "1", "steps/1/remove": "1"}, {})
    both = with_form(text, {"steps/0/remove": "1", "steps/1/remove": "1"}, {})
    assert "steps" not in rule_of(both)
    (step,) = rule_of(with_form(text, {"steps/0/remove": "1", "steps/0/conditions/0/remove": "1"}, {}))["steps"]
    assert step["name"] == "approved"


def test_a_group_joined_otherwise_is_found_again_by_what_is_removed_from_it() -> None:
    text = "rule_id: a\nconditions:\n  - any: [{field: x, operator: exists}, {field: y, operator: exists}]\n"
    after = with_form(text, {"conditions/0/join": "all", "conditions/0/any/0/remove": "yes"}, {})
    assert rule_of(after)["conditions"] == [{"all": [{"field": "y", "operator": "exists"}]}]
    one = "rule_id: a\nconditions:\n  - not: {any: [{field: x, operator: exists}]}\n  - {field: z, operator: exists}\n"
    after = with_form(one, {"conditions/0/join": "any", "conditions/0/not/join": "all"}, {})
    assert rule_of(after)["conditions"][0] == {"any": [{"all": [{"field": "x", "operator": "exists"}]}]}
