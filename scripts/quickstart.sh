#!/usr/bin/env bash
# From a fresh Debian 12 (or newer) to a training run that speeds itself up:
# installs what is missing, builds tjit and trains the example on real images.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

Usage() {
  cat <<'TEXT'
scripts/quickstart.sh [--preset NAME] [--jobs N] [-- ARGUMENT...]
Installs what is missing, builds tjit and runs the main job, examples/digits,
with TJIT_AUTO_COMPILE=1. Run it as often as you like.
  --preset NAME  a preset of CMakePresets.json (release)
  --jobs N       files compiled at once (one per core, as memory allows)
  ARGUMENT...    go to the job
libtorch >= 2.13 comes from CMAKE_PREFIX_PATH, else the active Python
environment, else the system, else pip (into .venv).
TEXT
}

ParseArguments release "$@"
Prepare all
Build "$PRESET" "$JOBS" digits
Step "Training a small CNN on 1,797 images of digits, TJIT_AUTO_COMPILE=1"
TJIT_AUTO_COMPILE=1 "$TJIT_ROOT/build/$PRESET/bin/digits" "${REST[@]}" ||
  Die "the example failed (see above)."
printf '\nYour own program: TJIT_AUTO_COMPILE=1 LD_PRELOAD=%s ./program\n' \
  "$TJIT_ROOT/build/$PRESET/lib/libtjit.so"
