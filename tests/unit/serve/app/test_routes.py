"""Every route of the API is in the table of who may call it, and the other way round."""

from __future__ import annotations

from pathlib import Path

from crossline.rule_registry.content import read_pipeline_in_place
from crossline.serve.access.roles import ROUTES
from crossline.serve.access.routes import check_routes
from crossline.serve.app.openapi_hot import HOT_PATHS
from crossline.serve.http.api import create_api
from crossline.serve.http.deps import Dependencies
from e2e.serving import shop


def test_the_table_and_the_routes_are_the_same(tmp_path: Path) -> None:
    pipeline = shop(tmp_path / "shop")
    (tmp_path / "serve").mkdir()
    deps = Dependencies(pipeline=pipeline, config=read_pipeline_in_place(pipeline), path=tmp_path / "serve")
    app = create_api(deps, extra=HOT_PATHS)
    assert check_routes(app.routes) == []
    served = {(method.upper(), path) for path, item in app.openapi()["paths"].items() for method in item}
    assert {(method, path.replace(":path", "")) for method, path in served} == {
        (method, path.replace(":path", "")) for method, path in ROUTES
    }
