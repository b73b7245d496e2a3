#!/usr/bin/env bash
# The functions that compiling calls lie side by side in libtjit_llvm.so, and
# what cannot be listed is said.
#
#   link_order_test.sh LIBRARY UNORDERED LIST_CALLED_FUNCTIONS TRAINING FOLDER
#
# FOLDER is where the build has put the linker's script. Where it could not list
# anything (no symbol table, no pages that are written and run) it has said so.
set -euo pipefail
library=$1 unordered=$2 list=$3 training=$4 folder=$5
if cmp -s "$folder/called.ld" "$folder/none.ld"; then
  echo "skipped: the build has listed nothing"
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

Fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# Bytes of a section of the library, 0 if it has none.
SizeOf() {
  readelf -SW "$library" | tr '[]' '  ' |
    awk -v name="$1" '$2 == name { print $6 }' | { read -r hex || hex=0
    echo $((16#$hex)); }
}

# Some 4 of 18 MB.
called=$(SizeOf .text.called) rest=$(SizeOf .text)
(( called > 2000000 )) || Fail ".text.called has $called bytes"
(( rest > called )) || Fail ".text has $rest bytes, .text.called $called"

# Equal runs list equal functions, or each build would have another build-id.
for run in 1 2; do
  "$list" "$unordered" "$scratch/copy.so" "$training" "$scratch/$run.ld" \
    > /dev/null
done
cmp "$scratch/1.ld" "$scratch/2.ld" || Fail "two lists differ"
grep -q 'X86DAGToDAGISel' "$scratch/1.ld" || Fail "the selector is not listed"

# Refused LIBRARY TRAINING WHY
Refused() {
  local said
  rm -f "$scratch/none.ld"
  if said=$("$list" "$1" "$scratch/copy.so" "$2" "$scratch/none.ld" 2>&1); then
    Fail "$1 and $2: no error"
  fi
  [[ $said == *"$3"* ]] || Fail "it says '$said', not '$3'"
  [[ ! -e $scratch/none.ld ]] || Fail "there is a script after: $said"
}
strip -o "$scratch/stripped.so" "$unordered"
Refused "$scratch/stripped.so" "$training" 'no symbol table'
Refused "$scratch/missing.so" "$training" 'cannot read'
head -c 100000 "$unordered" > "$scratch/cut.so"
Refused "$scratch/cut.so" "$training" 'cut off'
printf 'func f(n0) {\n  external %%0: f32[n0]\n  %%1 = nothing f32[n0] %%0\n  return %%1\n}\n' \
  > "$scratch/unknown.ir"
Refused "$unordered" "$scratch/unknown.ir" "no op 'nothing'"
echo "link_order_test: all passed"
