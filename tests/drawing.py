"""What draws of Hypothesis are made from, once: it checks a strategy that is new at each draw, longer than it draws."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_made: dict[str, st.SearchStrategy[Any]] = {}


def one_of_these(*values: Any) -> st.SearchStrategy[Any]:
    """As ``st.sampled_from``, for values that nobody changes and whose ``repr`` says all: 1 is not True here."""
    name = repr(values)
    if name not in _made:
        _made[name] = st.sampled_from(values)
    return _made[name]
