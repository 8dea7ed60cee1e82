"""A pipeline with the API, whose labels come to the lake."""

from __future__ import annotations

from unit.lake.lake_kit import SpooledPipeline

POLICY = """\
schema_version: 1
version: 1
decide:
  - {when: "score >= 80", decision: block}
"""


def serve(pipeline: SpooledPipeline) -> None:
    """Give the pipeline a policy and the API."""
    (pipeline.root / "policy.yaml").write_text(POLICY)
    pipeline.text += (
        "policy: policy.yaml\ndecisions: {emit: all, path: out/decisions}\nserve: {path: out/serve, open: true}\n"
    )
