"""Assets: pinned, in the package, good for ever, within their budget."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from crossline.serve.console.assets import FOLDER, assets, manifest

from .kit import room

ROOT = Path(__file__).parents[4]
SCRIPT_BYTES_MAX, STYLE_BYTES_MAX = 120_000, 40_000


def test_vendored_files_are_those_of_the_manifest() -> None:
    pinned = {each["file"]: each["sha256"] for each in manifest()}
    there = [path for folder in ("vendor", "fonts") for path in (FOLDER / folder).iterdir() if path.suffix != ".txt"]
    assert {path.relative_to(FOLDER).as_posix() for path in there} == set(pinned)
    for path in there:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == pinned[path.relative_to(FOLDER).as_posix()], path
    text = (FOLDER / "LICENCES.md").read_text()
    assert not [each["name"] for each in manifest() if each["name"].partition(".")[0].lower() not in text.lower()]


def test_the_lock_names_versions_and_hashes_and_no_host() -> None:
    lock = json.loads((ROOT / "tools/assets/package-lock.json").read_text())
    packages = [each for name, each in lock["packages"].items() if name]
    assert {len(each["integrity"]) for each in packages} == {95}  # sha512-, in base64
    assert not re.search(r"https?://", (ROOT / "tools/assets/package-lock.json").read_text())
    wanted = json.loads((ROOT / "tools/assets/package.json").read_text())["dependencies"]
    versions = {name.removeprefix("node_modules/"): each["version"] for name, each in lock["packages"].items() if name}
    assert versions == wanted
    assert {each["name"]: each["version"] for each in manifest() if each["name"] in wanted}.items() <= wanted.items()


def test_the_editor_is_bundled_from_pinned_packages_and_takes_no_style_element() -> None:
    folder = ROOT / "tools/assets/editor"
    lock = json.loads((folder / "package-lock.json").read_text())
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert {len(each["integrity"]) for each in packages.values()} == {95}
    assert not re.search(r"https?://", (folder / "package-lock.json").read_text())
    wanted = json.loads((folder / "package.json").read_text())
    for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
        assert packages[f"node_modules/{name}"]["version"] == version
    (pinned,) = [each for each in manifest() if each["file"] == "vendor/codemirror.js"]
    assert pinned["version"] == wanted["dependencies"]["@codemirror/view"]
    assert "adoptedStyleSheets=[" in (FOLDER / "vendor/codemirror.js").read_text()


def test_a_page_stays_within_its_budget(tmp_path: Path) -> None:
    """What a page loads, compressed as it is sent."""
    with room(tmp_path) as at:
        text = at.seated("olga.ops", "operator").get("/audit").text
    files = assets().files
    named = set(re.findall(re.escape(assets().prefix) + r"([\w./-]+)", text))
    scripts = {name for name in named if name.endswith(".js")}
    scripts |= {name for name in files if name.startswith("js/")}  # which the first imports
    assert {"vendor/htmx.js", "vendor/hx-csp.js", "js/console.js"} <= scripts
    assert sum(len(files[name].packed or files[name].data) for name in scripts) <= SCRIPT_BYTES_MAX
    assert len(files["console.css"].packed or b"") <= STYLE_BYTES_MAX
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", text)


def test_an_asset_is_kept_by_browsers_and_has_one_address(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        seat, prefix = at.seat(), assets().prefix
        answer = seat.get(f"{prefix}console.css", {"Accept-Encoding": "gzip"})
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.text == gzip.decompress(assets().files["console.css"].packed or b"").decode()
        plain = seat.get(f"{prefix}vendor/htmx.js", {"Accept-Encoding": "identity"})
        assert (plain.headers["content-type"], len(plain.content)) == ("text/javascript; charset=utf-8", 37_448)
        assert "content-encoding" not in plain.headers
        assert re.fullmatch(r"/assets/[0-9a-f]{16}/", prefix)
        assert seat.get("/assets/0000000000000000/console.css").status_code == 404
        assert seat.ask("POST", f"{prefix}console.css").status_code in {403, 404}


def test_the_wheel_has_templates_and_assets(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    console = ROOT / "src/crossline/serve/console"
    needed = [path for path in console.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert len(needed) > 60
    assert {path.relative_to(ROOT / "src").as_posix() for path in needed} <= names
