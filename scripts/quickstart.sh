#!/usr/bin/env bash
# From a fresh Debian 12 (or newer) to a training run that speeds itself up and
# to `tjit run` for programs of one's own: installs what is missing, builds the
# library, trains the example on real images, builds what README.md uses next.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

Usage() {
  cat <<'TEXT'
scripts/quickstart.sh [--preset NAME] [--jobs N] [--torch FOLDER]
    [-- ARGUMENT...]
Installs what is missing, builds tjit, runs the main job, examples/digits, with
TJIT_AUTO_COMPILE=1, and builds the command `tjit` and the other examples. Says
first how long that takes and how much disk. Run it as often as you like.
  --preset NAME  a preset of CMakePresets.json (release)
  --jobs N       files compiled at once (one per core, as memory allows)
  --torch FOLDER libtorch >= 2.13, or the torch folder of a Python package, or
                 `own`: the one that pip fetches into .venv. Without it libtorch
                 comes from CMAKE_PREFIX_PATH, else the active Python (venv,
                 conda), else the system, else pip (into .venv).
  ARGUMENT...    go to the job
TEXT
}

# What a build of these targets takes without ccache, with g++ 12 on a Xeon.
readonly BUILD_MINUTES=24  # of one core
readonly BUILD_GB=1
readonly TORCH_GB=1
readonly REST_TARGETS=(tjit_command tjit_preload tjit_python unmodified embed)

# Announce: minutes and disk, before anything is done; there must be room.
Announce() {
  local free tjit=$TJIT_ROOT/build/$PRESET/bin/tjit
  if [[ -x $tjit ]]; then
    printf 'tjit: built before in build/%s: a minute, or as long as what has %s\n' \
      "$PRESET" "changed takes"
    return
  fi
  printf 'tjit: this takes about %d minutes with %d jobs (%s), %s\n' \
    $(((BUILD_MINUTES + JOBS - 1) / JOBS)) "$JOBS" "one with a warm ccache" \
    "$BUILD_GB GB of disk in build/ and, if libtorch is to be fetched, $TORCH_GB GB in .venv"
  free=$(df -Pk "$TJIT_ROOT" | awk 'NR == 2 {print int($4 / 1000000)}')
  ((free >= BUILD_GB + TORCH_GB)) ||
    Die "cannot build: $TJIT_ROOT has $free GB of free disk and" \
      "$((BUILD_GB + TORCH_GB)) are needed: free some, or build in a copy of" \
      "this folder on a larger disk."
}

STEPS=6  # of lib.sh, and the rest
ParseArguments release "$@"
Announce
Prepare all
Build "$PRESET" "$JOBS" digits
Step "Training a small CNN on 1,797 images of digits, TJIT_AUTO_COMPILE=1"
TJIT_AUTO_COMPILE=1 "$TJIT_ROOT/build/$PRESET/bin/digits" "${REST[@]}" ||
  Die "the example failed (see above)."
Step "Building the command tjit and the other examples"
BuildTargets "$PRESET" "$JOBS" "${REST_TARGETS[@]}"
printf '\nYour own program: %s run -- ./program\n' \
  "$TJIT_ROOT/build/$PRESET/bin/tjit"
