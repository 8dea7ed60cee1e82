#!/bin/sh
# Prints a Python that crossline runs on: $PYTHON, python3, or a versioned one. If there is none, says what to do.
MINOR_MIN=11

fits() {
  "$1" -c "import sys; sys.exit(not (sys.version_info[0] == 3 and sys.version_info[1] >= $MINOR_MIN))" 2>/dev/null
}

for name in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
  if command -v "$name" >/dev/null 2>&1 && fits "$name"; then
    if "$name" -c 'import ensurepip, venv' 2>/dev/null; then
      printf '%s\n' "$name"
      exit 0
    fi
    without_venv=$name
  fi
done

if [ -n "$without_venv" ]; then
  version=$("$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  echo "error: $without_venv (Python $version) cannot make virtual environments: its module venv or ensurepip is missing." >&2
  echo "Install the package of your system that has it (Debian, Ubuntu: python$version-venv), then run make again." >&2
else
  echo "error: found no Python 3.$MINOR_MIN or newer (looked for ${PYTHON:-python3, python3.13, python3.12, python3.11})." >&2
  echo "Install one, or name it: make PYTHON=/path/to/python3.12" >&2
fi
exit 1
