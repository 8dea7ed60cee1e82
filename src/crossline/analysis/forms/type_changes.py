"""Changes of a rule's type: common fields stay; the fields that would be lost are listed first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from crossline.analysis.forms.fields import FormSource
from crossline.analysis.forms.values import TypeChange
from crossline.rules.base import Rule
from crossline.rules.registry import rule_class, rule_types

TYPE = "rule_type"


def changes_of_type(looked: FormSource) -> tuple[TypeChange, ...]:
    """What each other type would mean for the rule."""
    body, now = looked.rule, looked.rule.get(TYPE)
    found = []
    for name, model in rule_types().items():
        if name == now:
            continue
        goes = goes_with(body, name)
        kept = body.keys() - set(goes)
        lacks = tuple(key for key, info in model.model_fields.items() if info.is_required() and key not in kept)
        found.append(TypeChange(name, tuple((key, looked.line((key,))) for key in goes), lacks))
    return tuple(found)


def goes_with(body: Mapping[str, Any], rule_type: str) -> tuple[str, ...]:
    """The keys that a rule of another type cannot have, or not as they are; what neither type knows stays."""
    before, after = rule_class(body.get(TYPE)) or Rule, rule_class(rule_type) or Rule
    unknown = {key for key in body if key in before.model_fields and key not in after.model_fields}
    kept = {key: value for key, value in body.items() if key not in unknown}
    wrong = _refused(after, {**kept, TYPE: rule_type}) - _refused(before, body)
    return tuple(key for key in body if key != TYPE and (key in unknown or key in wrong))


def _refused(model: type[Rule], body: Mapping[str, Any]) -> set[str]:
    """The keys whose values, each by itself, the model does not take."""
    try:
        model.model_validate(body)
    except ValidationError as error:
        return {str(each["loc"][0]) for each in error.errors(include_url=False) if each["loc"]} & body.keys()
    return set()
