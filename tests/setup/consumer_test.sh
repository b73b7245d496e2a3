#!/usr/bin/env bash
# Installs a built tjit into a scratch folder and uses it from there as a
# stranger would: by `tjit run`, by find_package(tjit) and by pkg-config. Every
# program must run, and libtjit must stand before libtorch among the libraries
# it asks for, although the CMake project names libtorch first.
# Usage: consumer_test.sh <build folder>
set -euo pipefail

build=$(cd "$1" && pwd)
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
  >"$scratch/configure.log" || fail "find_package(tjit) failed"
cmake --build "$scratch/cmake" >"$scratch/build.log" || {
  cat "$scratch/build.log" >&2
  fail "the CMake consumer does not build"
}
check_needed "$scratch/cmake/consumer"
"$scratch/cmake/consumer" || fail "the CMake consumer failed"
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
