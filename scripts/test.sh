#!/usr/bin/env bash
# From a fresh Debian 12 (or newer) to the test results: installs what is
# missing, builds everything and runs ctest. Status 0 only if all pass.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

Usage() {
  cat <<'TEXT'
scripts/test.sh [--preset NAME] [--jobs N] [-- CTEST ARGUMENT...]
Installs what is missing, builds everything and runs the tests.
  --preset NAME  a preset of CMakePresets.json (testing: what users build, with
                 the seams that tests need)
  --jobs N       files compiled, and tests run, at once (one per core, as
                 memory allows); tests that measure time run alone
  CTEST ARGUMENT for example: -- -R layering
libtorch >= 2.13 comes from CMAKE_PREFIX_PATH, else the active Python
environment, else the system, else pip (into .venv).
TEXT
}

ParseArguments testing "$@"
Prepare test
Build "$PRESET" "$JOBS"
Step "Testing"
ctest --preset "$PRESET" --parallel "$JOBS" --no-label-summary "${REST[@]}"
