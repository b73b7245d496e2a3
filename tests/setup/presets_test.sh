#!/usr/bin/env bash
# Every preset of CMakePresets.json can be configured: nobody else does that with
# those for sanitizers.
#   presets_test.sh CMAKE SOURCES FOLDER_OF_TORCH
set -euo pipefail
cmake=$1 sources=$2 torch=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

presets=$(cd "$sources" && "$cmake" --list-presets | sed -n 's/^ *"\(.*\)".*/\1/p')
[[ -n $presets ]] || { echo "cmake --list-presets names none"; exit 1; }
for preset in $presets; do
  case $preset in
    fuzz | clang-thread-safety)
      if [[ -z $(command -v clang++) ]]; then
        echo "$preset: left out, as there is no clang++"
        continue
      fi
      ;;
  esac
  if ! (cd "$sources" && "$cmake" --preset "$preset" -B "$folder/$preset" \
    "-DTJIT_TORCH=$torch") > "$folder/log" 2>&1; then
    echo "cmake --preset $preset fails:"
    cat "$folder/log"
    exit 1
  fi
  echo "$preset: ok"
done
