#!/usr/bin/env bash
# What users get has no seams of the tests: no planted defect, no variable that
# switches one on, no function of tjit::testing.
#
# In a build without TJIT_TESTING it looks into the libraries and the command.
# In one with it, it compiles what holds the seams without them and looks there,
# and at the presets: `release` has them off, each that runs tests has them on.
#
# Usage: release_test.sh <project folder> <build folder> <TJIT_TESTING>
#                        <compiler> [include folder]...
set -euo pipefail
root=$1 build=$2 testing=$3 compiler=$4
shift 4
failures=0

Fail() {
  failures=$((failures + 1))
  echo "FAILED: $*"
}

SEAMS='tjit::testing::|g_planted|PlantInCompiler|SetCodeDelay|DefectOf'
SEAMS+='|g_forced_drain|g_replay_delay|g_recording_delay|g_thread_trials'
SEAMS+='|g_trace_trials|g_tries_at_once|g_step_observer'
readonly SEAMS
WORDS='TJIT_PLANTED|TJIT_THREAD_TRIALS|TJIT_TRACE_TRIALS|stale_scalar'
WORDS+='|early_publication|planted by a test'
readonly WORDS

# Seams <file>: symbols and texts that a user's file must not have.
Seams() {
  { nm -C "$1" 2>/dev/null; nm -DC "$1" 2>/dev/null; } |
    grep -E "$SEAMS" | sed 's/^[0-9a-f ]*//' | sort -u || true
  strings -a "$1" | grep -E "$WORDS" | sort -u || true
}

CheckFile() {
  local found
  found=$(Seams "$1")
  [[ -z $found ]] || Fail "$1 has ${found//$'\n'/, }"
}

# Preset <name> <expected>
CheckPreset() {
  local got
  got=$(python3 - "$root/CMakePresets.json" "$1" <<'PYTHON'
import json, sys
file = json.load(open(sys.argv[1]))
presets = {p["name"]: p for p in file["configurePresets"]}
at, value = sys.argv[2], None
while at is not None and value is None:
    value = presets[at].get("cacheVariables", {}).get("TJIT_TESTING")
    at = presets[at].get("inherits")
print(value or "OFF")
PYTHON
  )
  [[ $got == "$2" ]] || Fail "preset $1 has TJIT_TESTING $got, not $2"
}

CheckPreset release OFF
for preset in testing debug ci asan tsan fuzz; do CheckPreset "$preset" ON; done
grep -q '^option(TJIT_TESTING .*' "$root/CMakeLists.txt" &&
  grep -q 'users get" OFF)$' "$root/CMakeLists.txt" ||
  Fail "CMakeLists.txt does not have TJIT_TESTING off unless it is asked for"

if [[ $testing == ON ]]; then
  # That these are found where they are.
  [[ -n $(Seams "$build/lib/libtjit.so") ]] ||
    Fail "no seam is seen in libtjit.so, which has them"
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  printf '%s\n' '#include "compiler/llvm/planted_flag.h"' \
    '#include "support/planted_defect.h"' \
    '#include "runtime/platform/test_hooks.h"' \
    'static_assert(!tjit::Planted(tjit::Defect::kStaleScalar));' \
    'static_assert(tjit::runtime::ForcedDrainAt() == -1);' \
    'static_assert(!tjit::runtime::TriesAtOnce());' \
    'static_assert(tjit::runtime::TraceTrials());' \
    'using tjit::runtime::TrialsOf;' \
    'static_assert(tjit::runtime::ThreadTrials() == TrialsOf::kThreads);' \
    'using tjit::llvm_backend::PlantsFailure;' \
    'static_assert(!PlantsFailure(~0u, kTjitLlvmPlantFatal));' \
    >"$scratch/constants.cpp"
  for file in "$scratch/constants.cpp" "$root/support/planted_defect.cpp" \
    "$root/support/env.cpp"; do
    object=$scratch/$(basename "$file").o
    if "$compiler" -std=c++20 -O1 -c "$file" -o "$object" -I"$root" \
      "${@/#/-I}"; then
      CheckFile "$object"
    else
      Fail "$file does not compile without TJIT_TESTING"
    fi
  done
else
  for file in "$build"/lib/libtjit*.so "$build/bin/tjit"; do
    CheckFile "$file"
  done
  [[ -e $build/lib/libtjit.so ]] || Fail "there is no $build/lib/libtjit.so"
fi

((failures == 0)) && echo "users get no seam of the tests"
exit $((failures > 0))
