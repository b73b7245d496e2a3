#!/usr/bin/env bash
# Greps the includes: which folder may include which others stands in the table
# below, lowest first; nothing below runtime/ sees libtorch, nothing outside
# compiler/llvm/ sees LLVM, the environment is read in one place, and loops are
# shared in one. Then plants one offence for each pair of folders, and one of
# each other kind, and expects every one to be found.
#
# Usage: layering_test.sh <project folder>
set -euo pipefail

# The C++ library and the system (one word), Abseil, spdlog, xxHash.
readonly PLAIN='[a-z0-9_]+(\.h)?|(sys|linux|sanitizer)/.+|(absl|spdlog)/.+'
readonly TORCH='(ATen|c10|torch)/.+'

# Each folder: what it may include besides itself. `=x` stands for what x may
# include, and x; a name with a dot for that file alone.
readonly TABLE='
support:
recorder: support
compiler/abi:
compiler/ir: support recorder
compiler/functions: support compiler/ir compiler/abi
compiler/passes: support compiler/ir
compiler/loops: support compiler/ir compiler/passes
compiler/program: support recorder =compiler/loops
compiler/lower: support recorder compiler/ir compiler/functions
compiler/schedule: support compiler/abi =compiler/program
compiler/llvm: =compiler/schedule
compiler/cache: support
compiler/driver: =compiler/lower =compiler/program
compiler/inspect: support compiler/ir
runtime/platform: support recorder
runtime/memory: =runtime/platform
runtime/call: =runtime/memory
runtime/bit_exact: =runtime/platform compiler/abi compiler/functions compiler/cache
runtime/report: =runtime/platform runtime/call compiler/driver
runtime/library_calls: =runtime/call =runtime/bit_exact compiler/program compiler/functions
runtime/tier2: =runtime/report =runtime/library_calls =runtime/bit_exact compiler/llvm/loader.h
runtime/segment: =runtime/tier2
runtime/thread: =runtime/segment
runtime/intercept: =runtime/thread
runtime: =runtime/intercept
runtime/preload: runtime/platform/build_id.h runtime/intercept/direct_calls.def runtime/intercept/interposed.def
runtime/include:
examples:
tools: support recorder compiler/driver compiler/inspect compiler/program compiler/cache runtime/preload/torch_version.h
bench:
python:
'
declare -A ROW

# Reads the table: ROW[folder] is a regular expression of what it may include.
ReadTable() {
  local folder rest word names
  while IFS=: read -r folder rest; do
    [[ -n $folder ]] || continue
    names="$folder/.+"
    [[ $folder == runtime ]] && names='runtime/[^/]+'
    for word in $rest; do
      case $word in
        =*) names+="|${ROW[${word#=}]}" ;;
        *.*) names+="|${word//./\\.}" ;;
        *) names+="|$word/.+" ;;
      esac
    done
    ROW[$folder]=$names
  done <<<"$TABLE"
}

# The folder of the table that a file lies in.
FolderOf() {
  case $1 in
    compiler/*/* | runtime/*/*) echo "$1" | cut -d/ -f1-2 ;;
    *) echo "${1%%/*}" ;;
  esac
}

# Allowed <file>: what it may include, a regular expression for the whole name.
Allowed() {
  local folder packages=$PLAIN
  folder=$(FolderOf "$1")
  case $folder in
    compiler/llvm) packages+='|llvm/.+' ;;
    runtime/preload) packages='[a-z0-9_]+(\.h)?|sys/.+' ;;
    runtime/*|runtime|examples) packages+="|$TORCH|tjit/.+" ;;
    tools) packages+="|$TORCH|tjit/.+|CLI/.+|nlohmann/.+" ;;
    bench) packages+="|$TORCH|tjit/.+|benchmark/.+" ;;
    python) packages+='|tjit/.+' ;;
  esac
  [[ $1 == support/yaml_text.cpp ]] && packages+='|yaml-cpp/.+'
  echo "$packages|${ROW[$folder]:-nothing}"
}

# Offences <root>: one line each.
Offences() {
  local file line name allowed
  (
    cd "$1"
    grep -rEo --include='*.h' --include='*.cpp' --include='*.def' \
      '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<][^">]*' \
      support recorder compiler runtime examples tools bench python \
      2>/dev/null || true
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
      support recorder compiler runtime 2>/dev/null || true
  ) | grep -v '^support/env\.cpp:' | sed 's/$/  <- only env.cpp reads it/' ||
    true
  (
    cd "$1"
    grep -rnE --include='*.h' --include='*.cpp' \
      '^([^/]|/[^/])*at::parallel_(for|reduce)|^ *# *pragma omp' runtime 2>/dev/null ||
      true
  ) | sed 's|$|  <- runs on one thread here: runtime/platform/parallel.h|'
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
ReadTable

# Each pair of folders, of which the first may not include the second.
pairs=0
for folder in "${!ROW[@]}"; do
  mkdir -p "$scratch/$folder"
  allowed=$(Allowed "$folder/a.cpp")
  for other in "${!ROW[@]}"; do
    [[ $other == runtime/include || $folder == "$other" ]] && continue
    [[ $other/a.h =~ ^($allowed)$ ]] && continue
    echo "#include \"$other/a.h\"" >"$scratch/$folder/to_${other//\//_}.cpp"
    pairs=$((pairs + 1))
  done
done
found=$(Offences "$scratch" | grep -c ' must not include ') || true
rm -r "${scratch:?}"/*
[[ $found == "$pairs" ]] || {
  echo "layering_test finds $found of $pairs planted pairs"
  exit 1
}
((pairs > 300)) || {
  echo "layering_test planted for $pairs pairs of folders only"
  exit 1
}

Planted recorder/a.h '#include <ATen/ATen.h>'
Planted support/a.h '#include <c10/util/Exception.h>'
Planted support/a.cpp '#include <yaml-cpp/yaml.h>'
Planted support/a.cpp '#include <nlohmann/json.hpp>'
Planted tools/a.cpp '#include <yaml-cpp/yaml.h>'
Planted recorder/a.cpp '#include "trace.h"'
Planted recorder/a.h '#  include "tjit/stats.h"'
Planted compiler/ir/a.cpp '#include <torch/torch.h>'
Planted compiler/passes/a.cpp '#include <llvm/IR/IRBuilder.h>'
Planted compiler/llvm/a.cpp '#include <c10/core/Scalar.h>'
Planted runtime/a.cpp '#include <llvm/IR/IRBuilder.h>'
Planted runtime/tier2/a.cpp '#include "compiler/llvm/engine.h"'
Planted runtime/a.cpp '#include "tests/runtime/helper.h"'
Planted runtime/preload/a.cpp '#include <c10/util/Exception.h>'
Planted runtime/preload/a.cpp '#include "runtime/call/interpose.h"'
Planted tools/a.cpp '#include "runtime/preload/preload.h"'
Planted python/library/a.cpp '#include <ATen/ATen.h>'
Planted python/library/a.cpp '#include "support/env.h"'
Planted runtime/a.cpp 'bool on = std::getenv("TJIT_STATS") != nullptr;'

Planted runtime/a.cpp '  at::parallel_for(0, n, 1, run);'
Planted runtime/a.cpp '  if (n / 2 > 1) at::parallel_for(0, n, 1, run);'
Planted runtime/a.cpp '#pragma omp parallel'

offences=$(Offences "$root" | sort)
if [[ -n $offences ]]; then
  echo "$offences"
  exit 1
fi
# Functions that a lower folder declares and a higher one defines
# (runtime/README.md).
readonly UP='AcquireThreadState|AfterEager|MaterializeHook|OnCall|OnThrow|TakeOverDeadBlock'
ports=$(cd "$root" && grep -rlE --include='*.h' "^[A-Za-z*]+ ($UP)\\(" runtime |
  sort | tr '\n' ' ')
readonly PORTS='runtime/call/eager_call.h runtime/memory/block.h runtime/memory/deferred_storage.h runtime/platform/thread_context.h '
[[ $ports == "$PORTS" ]] || {
  echo "functions that lead up are declared in $ports; expected are $PORTS"
  exit 1
}
files=$(cd "$root" && find support recorder compiler runtime -name '*.h' | wc -l)
((files > 0)) || {
  echo "layering_test saw no header in $root"
  exit 1
}
echo "layers are kept in $files headers and their sources; planted: $pairs pairs"
