"""``quantile``: the value that so large a part of the values does not exceed, by the sketch that panes keep."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from crossline.basics.texts.validation import refusal
from crossline.programs.aggregate import Aggregate, Parameters, Words
from crossline.programs.exact import MILLIONTHS, RANKED_ERROR, ranked
from crossline.programs.tools import value_at_rank


def _part(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value <= 1 or round(value * MILLIONTHS) / MILLIONTHS != value:
        raise refusal("a number above 0 and at most 1, of at most six decimals, such as 0.99")
    return float(value)


def _quantile(value: Any) -> Any:
    if value is not None and not isinstance(value, dict):
        raise refusal("a field and which quantile of it, such as {field: amount, q: 0.99}")
    return value


class QuantileFields(BaseModel):
    """Of which field which quantile."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    field: str = Field(description="The field whose quantile it is.")
    q: Annotated[float, BeforeValidator(_part)] = Field(description="Which: 0.5 is the median.")


AGGREGATE = Aggregate(
    name="quantile",
    place=130,
    means="`{field: x, q: 0.99}`: the value that so large a part of the values does not exceed. Needs `resolution`; "
    "within 0.8 % of the true one.",
    least=1,
    words=Words("the {rank} quantile of {field} of {records}"),
    naive=ranked,
    value=value_at_rank,
    window=None,
    pane=("quantile",),
    limits="over panes a quantile is a sketch, within 0.8 % of the true value",
    parameters=Parameters(
        Annotated[QuantileFields | None, BeforeValidator(_quantile)],
        lambda written: (written.field, written.q),
        "{field: field, q: 0.99}",
        "`{field: …, q: …}`",
    ),
    sketch_error=RANKED_ERROR,
    rounding=RANKED_ERROR,
)
