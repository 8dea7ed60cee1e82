#!/bin/sh
# Resolves pyproject.toml into the locks: versions and hashes, no address of any registry. `--upgrade` takes newer versions.
set -eu
cd "$(dirname "$0")/.."

compile() {
  .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate "$@"
}

compile pyproject.toml --extra all --group dev --output-file requirements.lock "$@"
compile -c requirements.lock --group docs --output-file requirements-docs.lock "$@"
sed -n 's/^java = \["\(.*\)"\]$/\1/p' pyproject.toml | compile - --output-file requirements-java.lock "$@"
printf 'setuptools\nuv\n' | compile - --output-file requirements-bootstrap.lock "$@"
compile -c requirements.lock examples/card-model/requirements.txt --output-file examples/card-model/requirements.lock "$@"
