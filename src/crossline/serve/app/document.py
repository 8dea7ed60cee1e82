"""``docs/openapi.json``: the whole API as one file, which no pipeline has to be there for.

``python -m crossline.serve.app.document`` prints it; ``crossline serve openapi`` does the same.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from crossline.serve.app.openapi_hot import HOT_PATHS
from crossline.serve.http.api import create_api
from crossline.serve.http.deps import Dependencies
from crossline.settings.config import PipelineConfig, load_pipeline

# Of no pipeline is anything in the file: this one is read so that there is one.
_PIPELINE = """\
schema_version: 1
name: any
streams: stream.yaml
sources: {records: {kind: api, path: in}}
rules: {kind: directory, path: rules}
sinks: [{kind: sqlite, path: out/crossline.db}]
"""
_STREAM = """\
schema_version: 1
streams:
  records:
    format: json
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer}
"""


def api_document() -> dict[str, Any]:
    """Every operation of the API as OpenAPI 3.1, those of decisions included.

    >>> api_document()["openapi"]
    '3.1.0'
    """
    with TemporaryDirectory(prefix="crossline-openapi-") as folder:
        deps = Dependencies(pipeline=Path(folder) / "pipeline.yaml", config=_pipeline(), path=Path(folder))
        app = create_api(deps, extra=HOT_PATHS)
        document: dict[str, Any] = app.openapi()
        asyncio.run(app.state.close())
    return document


def document_text() -> str:
    """The same as a file: names in their order, so that a change is read as one."""
    return json.dumps(api_document(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _pipeline() -> PipelineConfig:
    return load_pipeline(_PIPELINE, "pipeline.yaml", lambda _: _STREAM)


if __name__ == "__main__":
    sys.stdout.write(document_text())
