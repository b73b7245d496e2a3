#!/usr/bin/env bash
# Builds the documents as a site, in build/site: begin with its index.html. What
# docs/requirements.txt names is installed in build/docs_venv by pip; once it is
# there the network is not needed.
# Usage: scripts/docs.sh [arguments of `mkdocs build`]
# Tested by: tests/setup/links_test.py
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly VENV=build/docs_venv
export NO_MKDOCS_2_WARNING=1  # an advertisement on stderr

if ! cmp --silent docs/requirements.txt "$VENV/requirements.txt"; then
  mkdir -p build
  python3 -m venv "$VENV" || {
    echo "tjit: python3 -m venv $VENV failed: install python3-venv." >&2
    exit 1
  }
  "$VENV/bin/pip" install --quiet --requirement docs/requirements.txt || {
    echo "tjit: pip cannot install docs/requirements.txt (see above)." >&2
    exit 1
  }
  cp docs/requirements.txt "$VENV/requirements.txt"
fi
"$VENV/bin/mkdocs" build --strict "$@"
echo "The site is in build/site: open build/site/index.html"
