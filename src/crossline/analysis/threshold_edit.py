"""Edits the threshold in the text of a rule."""

from __future__ import annotations

import re

from crossline.analysis.forms.fields import rule_in
from crossline.analysis.forms.form_writer import with_line
from crossline.analysis.forms.formulas import lines_in
from crossline.basics.texts.yamledit import CannotEditError, replaced
from crossline.basics.texts.yamltext import load_yaml
from crossline.programs.thresholds import ThresholdLine

_NUMBER = re.compile(r"-?\d[\d_.]*")


def with_threshold(text: str, drawn: ThresholdLine, threshold: float) -> str:
    """The ``text`` of one rule with threshold ``drawn`` replaced by ``threshold``; the rest is unchanged.

    Raises CannotEditError if the number is not found in the text.
    """
    path = (*rule_in(text)[1], *drawn.path)
    value = load_yaml(text, "text").data
    for step in path:
        value = value[step]
    new = int(threshold) if float(threshold).is_integer() else threshold
    if isinstance(value, int | float):
        return replaced(text, path, new)
    if drawn.path == ("when",):
        for number, (_, found) in enumerate(lines_in(value)):
            if _NUMBER.fullmatch(found) and float(found.replace("_", "")) == drawn.threshold:
                return with_line(text, path, number, str(new))
    elif isinstance(value, str) and _NUMBER.search(value):
        return replaced(text, path, _NUMBER.sub(str(new), value, count=1))
    raise CannotEditError(
        f"found no number {drawn.threshold:g} in the text; expected it where the rule has its threshold"
    )
