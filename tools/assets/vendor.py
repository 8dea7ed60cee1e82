"""Copies the vendored assets of the console and the site; one manifest pins those of the package by SHA-256.

    python tools/assets/vendor.py            what npm has, by the lock beside this file; the editor of rules, bundled
                                             from editor/editor.js by the lock beside that
    python tools/assets/vendor.py --fonts    the fonts besides: needs fonttools and brotli, and the Debian packages
                                             fonts-inter and fonts-jetbrains-mono

The lock holds versions and hashes, and no address: npm asks the registry of this machine's own configuration.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NPM = shutil.which("npm") or "npm"
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ASSETS = ROOT / "src" / "crossline" / "serve" / "console" / "assets"
# From a package to a file in the folder of assets; files for tests or the site go to their own folders.
COPIED = {
    ("htmx.org", "dist/htmx.min.js"): ASSETS / "vendor" / "htmx.js",
    ("htmx.org", "dist/ext/hx-csp.min.js"): ASSETS / "vendor" / "hx-csp.js",
    ("cytoscape", "dist/cytoscape.min.js"): ASSETS / "vendor" / "cytoscape.js",
    ("uplot", "dist/uPlot.iife.min.js"): ASSETS / "vendor" / "uplot.js",
    ("uplot", "dist/uPlot.min.css"): ASSETS / "vendor" / "uplot.css",
    ("axe-core", "axe.min.js"): ROOT / "tests" / "browser" / "vendor" / "axe.js",
    ("iframe-worker", "shim/index.js"): ROOT / "tools" / "docs" / "theme" / "assets" / "iframe-worker.js",
}
EDITOR, BUNDLE = HERE / "editor", ASSETS / "vendor" / "codemirror.js"
BUNDLING = (
    *("--bundle", "--format=esm", "--minify", "--legal-comments=none", "--charset=utf8", "--target=es2022"),
    "--log-level=warning",
)
LICENCES = {"htmx.org": "0BSD", "uplot": "MIT", "cytoscape": "MIT", "axe-core": "MPL-2.0"}
LATIN = (
    "U+0020-007E,U+00A0-017F,U+2010-2015,U+2018-201E,U+2022,U+2026,U+20AC,U+2190-2193,U+2212,U+2248,U+2260,U+2264,"
    "U+2265"
)
INTER = f"{LATIN},U+02C6,U+02DA,U+02DC,U+0394,U+03BC,U+2020,U+2021,U+2030,U+2032,U+2033,U+2039,U+203A,U+2116,U+2122"
FONTS = {
    "inter-400": ("opentype/inter/Inter-Regular.otf", INTER, "kern,calt,ccmp,locl,mark,mkmk,tnum,cv05,ss03,case"),
    "inter-500": ("opentype/inter/Inter-Medium.otf", INTER, "kern,calt,ccmp,locl,mark,mkmk,tnum,cv05,ss03,case"),
    "inter-600": ("opentype/inter/Inter-SemiBold.otf", INTER, "kern,calt,ccmp,locl,mark,mkmk,tnum,cv05,ss03,case"),
    "mono-400": ("truetype/jetbrains-mono/JetBrainsMono-Regular.ttf", LATIN, "kern,ccmp,locl"),
    "mono-500": ("truetype/jetbrains-mono/JetBrainsMono-Medium.ttf", LATIN, "kern,ccmp,locl"),
}
VERSIONS = {"inter": ("Inter", "4.0~beta7"), "mono": ("JetBrains Mono", "2.242")}


def main(arguments: list[str]) -> int:
    """Copy the files, build the fonts if requested, write the manifest."""
    with TemporaryDirectory() as folder:
        installed(HERE, Path(folder))
        for (package, name), target in COPIED.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(folder) / "node_modules" / package / name, target)
    bundle_editor()
    if "--fonts" in arguments:
        subset_fonts()
    (ASSETS / "manifest.json").write_text(json.dumps(manifest(), indent=2) + "\n")
    return 0


def bundle_editor() -> None:
    """The same packages and the same bundler give the same bytes, on any machine."""
    with TemporaryDirectory() as folder:
        installed(EDITOR, Path(folder))
        shutil.copy(EDITOR / "editor.js", folder)
        command = [str(Path("node_modules/.bin/esbuild")), "editor.js", *BUNDLING, f"--outfile={BUNDLE}"]
        subprocess.run(command, cwd=folder, check=True)


def installed(here: Path, folder: Path) -> None:
    """Install the lock of ``here`` in ``folder``; create the lock first if there is none."""
    lock = here / "package-lock.json"
    shutil.copy(here / "package.json", folder)
    if not lock.is_file():
        subprocess.run([NPM, "install", "--package-lock-only", "--ignore-scripts"], cwd=folder, check=True)
        found = json.loads((folder / "package-lock.json").read_text())
        for each in found["packages"].values():
            each.pop("resolved", None)  # the address of a registry
        lock.write_text(json.dumps(found, indent=2) + "\n")
    shutil.copy(lock, folder)
    subprocess.run([NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True)


def subset_fonts() -> None:
    """Reduce a font to Latin, with the features that the style uses."""
    (ASSETS / "fonts").mkdir(parents=True, exist_ok=True)
    for name, (source, letters, features) in FONTS.items():
        given = [f"--unicodes={letters}", f"--layout-features={features}", "--flavor=woff2"]
        target = f"--output-file={ASSETS / 'fonts' / f'{name}.woff2'}"
        command = [sys.executable, "-m", "fontTools.subset", f"/usr/share/fonts/{source}", *given, target]
        subprocess.run(command, check=True)


def manifest() -> list[dict[str, Any]]:
    """The vendored files of the package, each with its origin, version, licence and digest."""
    versions = json.loads((HERE / "package.json").read_text())["dependencies"]
    found = []
    for (package, _), target in COPIED.items():
        if target.is_relative_to(ASSETS):
            found.append(entry(target, package, versions[package], LICENCES[package]))
    packages = json.loads((EDITOR / "package.json").read_text())["dependencies"]
    found.append(entry(BUNDLE, "CodeMirror", packages["@codemirror/view"], "MIT"))
    for name in FONTS:
        family, version = VERSIONS[name.partition("-")[0]]
        found.append(entry(ASSETS / "fonts" / f"{name}.woff2", family, version, "OFL-1.1"))
    return sorted(found, key=lambda each: str(each["file"]))


def entry(path: Path, name: str, version: str, licence: str) -> dict[str, Any]:
    """A line of the manifest."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {
        "file": path.relative_to(ASSETS).as_posix(),
        "name": name,
        "version": version,
        "licence": licence,
        "sha256": digest,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
