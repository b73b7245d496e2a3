#!/usr/bin/env bash
# Installs a built tjit into a scratch folder and uses it from there as a
# stranger would: by `tjit run`, by find_package(tjit) and by pkg-config; then
# builds tjit within another project, by add_subdirectory() and FetchContent.
# Every program must run, and libtjit must stand before libtorch among the
# libraries it asks for, although the CMake projects name libtorch first.
# Usage: consumer_test.sh <build folder> <project folder> <libtorch>
set -euo pipefail

build=$(cd "$1" && pwd)
project=$(cd "$2" && pwd)
torch=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

fail() {
  echo "consumer_test: $*" >&2
  exit 1
}

# check_needed <program>: libtjit is the first of ours and libtorch's.
check_needed() {
  local needed first
  needed=$(LC_ALL=C readelf -d "$1" |
    sed -n 's/.*(NEEDED).*\[\(lib\(tjit\|torch\|c10\)[^]]*\)\].*/\1/p')
  first=$(head -n 1 <<<"$needed")
  [[ $first == libtjit.so* ]] ||
    fail "$1 asks for '$first' before libtjit: ${needed//$'\n'/ }"
  grep -q '^libtorch_cpu\.so' <<<"$needed" ||
    fail "$1 does not ask for libtorch_cpu: ${needed//$'\n'/ }"
}

cmake --install "$build" --prefix "$prefix" >"$scratch/install.log" ||
  fail "cmake --install failed"
[[ -z $(find "$prefix/include" -type f ! -path '*/include/tjit/*') ]] ||
  fail "headers other than <tjit/...> are installed"

cmake -S "$here/consumer" -B "$scratch/cmake" -G Ninja \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" \
  >"$scratch/configure.log" 2>&1 || {
  cat "$scratch/configure.log" >&2
  fail "find_package(tjit) failed"
}
cmake --build "$scratch/cmake" >"$scratch/build.log" || {
  cat "$scratch/build.log" >&2
  fail "the CMake consumer does not build"
}
grep -q Warning "$scratch/configure.log" &&
  fail "find_package(tjit) warns: $(cat "$scratch/configure.log")"
for consumer in consumer again/consumer_again; do
  check_needed "$scratch/cmake/$consumer"
  "$scratch/cmake/$consumer" || fail "the CMake $consumer failed"
done
echo "find_package(tjit): ok"

# The installed command finds its shim, and the shim libtjit.so.
"$prefix/bin/tjit" run --stats="$scratch/stats.json" -- \
  "$build/bin/unmodified_loop" >/dev/null 2>"$scratch/run.log" && status=0 ||
  status=$?
[[ $status == 7 && ! -s $scratch/run.log ]] ||
  fail "the installed tjit run: status $status, $(cat "$scratch/run.log")"
grep -q '"ops_replayed": [1-9]' "$scratch/stats.json" ||
  fail "the installed tjit run replays nothing"
# ... and libtjit.so the reader of options.
echo 'hot_threshold: 3' >"$scratch/tjit.yaml"
"$prefix/bin/tjit" run --config="$scratch/tjit.yaml" --print-config -- \
  "$build/bin/unmodified_loop" >/dev/null 2>"$scratch/run.log" || true
grep -qF "[CONFIG] hot_threshold = 3 ($scratch/tjit.yaml:1:16)" \
  "$scratch/run.log" ||
  fail "the installed tjit run reads no options: $(cat "$scratch/run.log")"
"$prefix/bin/tjit" explain "$scratch/stats.json" >"$scratch/explained" &&
  grep -q ' replayed, ' "$scratch/explained" ||
  fail "the installed tjit explain: $(cat "$scratch/explained")"
echo "tjit run: ok"

pc=$(find "$prefix" -name tjit.pc)
[[ -n $pc ]] || fail "no tjit.pc was installed"
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=${pc%/*}
  # shellcheck disable=SC2046  # several words are wanted
  ${CXX:-c++} -std=c++20 $(pkg-config --cflags tjit) \
    "$here/consumer/main.cpp" -o "$scratch/by_pkg_config" \
    $(pkg-config --libs tjit) || fail "the pkg-config consumer does not build"
  check_needed "$scratch/by_pkg_config"
  "$scratch/by_pkg_config" || fail "the pkg-config consumer failed"
  echo "pkg-config tjit: ok"
else
  fail "pkg-config is missing (package pkg-config)"
fi

# in_tree <how> <where tjit's build lies in it> [-D...]: compiles the consumer's
# file and links it, each by the project's own command. The libraries are those
# of the build under test: compiling them again takes minutes, and ninja itself
# would, as the file waits for what the libraries generate.
in_tree() {
  local how=$1 folder=$scratch/$1 tjit=$scratch/$1/$2 object
  shift 2
  cmake -S "$here/in_tree" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DTJIT_SOURCES="$project" -DTJIT_TORCH="$torch" "$@" \
    >"$folder.log" 2>&1 || {
    cat "$folder.log" >&2
    fail "$how(tjit) fails to configure"
  }
  ninja -C "$folder" -t targets all >"$folder.targets"
  grep -qE '^(digits|bench_|.*_test)[a-z_]*: phony' "$folder.targets" &&
    fail "$how(tjit) brings examples, benchmarks or tests"
  grep -q '^tjit_command: phony' "$folder.targets" ||
    fail "$how(tjit) brings no command"
  object=$(sed -n 's|^\(CMakeFiles/consumer.dir/.*\.o\):.*|\1|p' \
    "$folder.targets")
  [[ -n $object ]] || fail "$how(tjit): there is no object of the consumer"
  (cd "$folder" && eval "$(ninja -t commands -s "$object")") \
    >"$folder.log" 2>&1 || {
    cat "$folder.log" >&2
    fail "the consumer of $how(tjit) does not compile"
  }
  cp "$build"/lib/libtjit*.so "$tjit/lib/"
  (cd "$folder" && eval "$(ninja -t commands consumer | tail -n 1)") ||
    fail "the consumer of $how(tjit) does not link"
  check_needed "$folder/consumer"
  LD_DEBUG=files LD_DEBUG_OUTPUT=$folder.loaded "$folder/consumer" ||
    fail "the consumer of $how(tjit) failed"
  grep -qF "$tjit/lib/libtjit.so" "$folder.loaded".* ||
    fail "the consumer of $how(tjit) loads another libtjit"
  echo "$how(tjit): ok"
}
in_tree add_subdirectory tjit
in_tree FetchContent _deps/tjit-build -DFETCH=ON
