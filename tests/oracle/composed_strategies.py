"""A Hypothesis strategy: rules that read the hits of rules."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from drawing import one_of_these

from .strategies import ORDERED, STREAM, Body, leaf, rule_sets

OF_HITS = st.one_of(
    leaf("hit.value", ORDERED, one_of_these(0, 1, 2, 3, 0.3)),
    leaf("hit.version", ["==", "!="], st.just(1)),
    leaf("hit.shadow", ["==", "!="], st.booleans()),
)


@st.composite
def composed_sets(draw: st.DrawFn) -> list[Body]:
    """Rules of which some read the hits of others, to the third level; one of each level alerts often."""
    often: Body = {"rule_type": "velocity", "version": 1, "aggregation_type": "count", "aggregation_threshold": 1}
    often |= {"window": "5s", "emit": "every", "watermark_delay": "1s", "allowed_lateness": "5s"}
    bodies = [*draw(rule_sets(2)), {**often, "rule_id": "r9", "source_topic": STREAM, "group_by": "account"}]
    for name, below in (("q", "r"), ("z", "q")):
        read = [f"{below}9", *sorted({body["rule_id"] for body in bodies})]
        more: dict[tuple[str, int], tuple[list[Any], bool]] = {}
        for body in draw(rule_sets(2)):
            reader = {**body, "rule_id": body["rule_id"].replace("r", name)}
            reader["source_topic"] = f"rule:{read[int(body['rule_id'][1:]) % len(read)]}"
            conditions, of_hits = more.setdefault(
                (body["rule_id"], body["version"]), draw(st.tuples(st.lists(OF_HITS, max_size=1), st.booleans()))
            )
            if conditions:
                reader["conditions"] = [*reader.get("conditions", []), *conditions]
            if of_hits and reader.get("aggregation_field") == "price":
                reader["aggregation_field"] = "hit.value"
            bodies.append(reader)
        bodies.append({**often, "rule_id": f"{name}9", "source_topic": f"rule:{below}9"})
    return bodies
