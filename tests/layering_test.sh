#!/usr/bin/env bash
# Greps the includes: data flows recorder <- compiler <- runtime, nothing below
# runtime/ sees libtorch, nothing outside compiler/llvm/ sees LLVM, the
# environment is read in one place, and loops are shared in one. Then plants one
# offence of each kind and expects every one to be found.
# Usage: layering_test.sh <project folder>
set -euo pipefail

# The C++ library and the system (one word), Abseil, spdlog, xxHash.
readonly PLAIN='[a-z0-9_]+(\.h)?|(sys|linux|sanitizer)/.+|(absl|spdlog)/.+'
readonly TORCH='(ATen|c10|torch)/.+'

# Allowed <file>: what it may include, a regular expression for the whole name.
# The subfolders of a folder are its private matter, so upper folders name only
# files that lie directly in a lower one, and the C ABI of libtjit_llvm.so.
Allowed() {
  case $1 in
    recorder/yaml_text.cpp) echo "$PLAIN|yaml-cpp/.+|recorder/[^/]+" ;;
    recorder/*) echo "$PLAIN|recorder/[^/]+" ;;
    compiler/llvm/*) echo "$PLAIN|recorder/[^/]+|compiler/.+|llvm/.+" ;;
    compiler/*) echo "$PLAIN|recorder/[^/]+|compiler/.+" ;;
    runtime/preload/*)
      echo "[a-z0-9_]+(\.h)?|sys/.+|runtime/preload/.+|runtime/build_id\.h|\
runtime/interposed\.def"
      ;;
    runtime/include/*) echo "$PLAIN|$TORCH|tjit/.+" ;;
    runtime/*)
      echo "$PLAIN|$TORCH|recorder/[^/]+|compiler/[^/]+|runtime/.+|tjit/.+|\
compiler/(llvm/(abi|loader)|cache/(entry|folder|object_cache))\.h"
      ;;
    examples/*) echo "$PLAIN|$TORCH|tjit/.+" ;;
    tools/*)
      echo "$PLAIN|$TORCH|yaml-cpp/.+|recorder/[^/]+|tools/.+|tjit/.+|\
compiler/[^/]+|compiler/cache/(entry|folder)\.h|\
runtime/preload/torch_version\.h"
      ;;
    bench/*) echo "$PLAIN|$TORCH|benchmark/.+|bench/.+|tjit/.+" ;;
  esac
}

# Offences <root>: one line each.
Offences() {
  local file line name allowed
  (
    cd "$1"
    grep -rEo --include='*.h' --include='*.cpp' --include='*.def' \
      '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<][^">]*' \
      recorder compiler runtime examples tools bench 2>/dev/null || true
  ) | while IFS=: read -r file line; do
    name=${line#*[\"<]}
    allowed=$(Allowed "$file")
    [[ $name =~ ^($allowed)$ ]] || echo "$file must not include $name"
    # The root is the include root: no name relative to the file.
    [[ $line == *'<'* || $name == */* || $name =~ ^tjit_(build_ids|commit)\.h$ ]] ||
      echo "$file must say where \"$name\" lies"
  done
  (
    cd "$1"
    grep -rnE --include='*.h' --include='*.cpp' '(secure_)?getenv *\(' \
      recorder compiler runtime 2>/dev/null || true
  ) | grep -v '^recorder/env\.cpp:' | sed 's/$/  <- only env.cpp reads it/' ||
    true
  (
    cd "$1"
    grep -rnE --include='*.h' --include='*.cpp' \
      '^([^/]|/[^/])*at::parallel_(for|reduce)|^ *# *pragma omp' runtime 2>/dev/null ||
      true
  ) | sed 's|$|  <- runs on one thread here: runtime/parallel.h|'
}

# Plants <file> <line>: the offence must be found, and be the only one.
Planted() {
  local found
  mkdir -p "$scratch/$(dirname "$1")"
  printf '%s\n' "$2" >"$scratch/$1"
  found=$(Offences "$scratch")
  rm "$scratch/$1"
  [[ $found == "$1"* && $found != *$'\n'* ]] || {
    echo "layering_test does not find '$2' in $1: '$found'"
    exit 1
  }
}

root=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

Planted recorder/a.h '#include <ATen/ATen.h>'
Planted recorder/a.h '#include <c10/util/Exception.h>'
Planted recorder/a.cpp '#include <yaml-cpp/yaml.h>'
Planted recorder/a.cpp '#include "compiler/executable.h"'
Planted recorder/a.cpp '#include "trace.h"'
Planted recorder/a.h '#  include "tjit/stats.h"'
Planted compiler/a.cpp '#include <torch/torch.h>'
Planted compiler/passes/a.cpp '#include <llvm/IR/IRBuilder.h>'
Planted compiler/a.cpp '#include "runtime/block.h"'
Planted compiler/llvm/a.cpp '#include <c10/core/Scalar.h>'
Planted runtime/a.cpp '#include <llvm/IR/IRBuilder.h>'
Planted runtime/a.cpp '#include "compiler/passes/plan_memory.h"'
Planted runtime/a.cpp '#include "compiler/llvm/engine.h"'
Planted runtime/a.cpp '#include "tests/runtime/helper.h"'
Planted runtime/preload/a.cpp '#include <c10/util/Exception.h>'
Planted runtime/preload/a.cpp '#include "runtime/interpose.h"'
Planted runtime/include/tjit/a.h '#include "recorder/trace.h"'
Planted examples/a.cpp '#include "runtime/block.h"'
Planted tools/a.cpp '#include "runtime/preload/preload.h"'
Planted bench/a.cpp '#include "recorder/trace.h"'
Planted runtime/a.cpp 'bool on = std::getenv("TJIT_STATS") != nullptr;'

Planted runtime/a.cpp '  at::parallel_for(0, n, 1, run);'
Planted runtime/a.cpp '  if (n / 2 > 1) at::parallel_for(0, n, 1, run);'
Planted runtime/a.cpp '#pragma omp parallel'

offences=$(Offences "$root")
if [[ -n $offences ]]; then
  echo "$offences"
  exit 1
fi
files=$(cd "$root" && find recorder compiler runtime -name '*.h' | wc -l)
((files > 0)) || {
  echo "layering_test saw no header in $root"
  exit 1
}
echo "layers are kept in $files headers and their sources"
