#!/usr/bin/env bash
# Keeps the documents true: links lead somewhere, docs/options.md lists exactly
# the variables that the code knows, each row of docs/features.md that is done
# or partly done names tests that exist, and so do the comments of the code.
# ARCHITECTURE.md's reading list is short, and its words are the code's.
# Usage: docs_test.sh <project folder>
set -uo pipefail
cd "$1" || exit 1
failures=0

Fail() {
  failures=$((failures + 1))
  echo "FAILED: $*"
}

# --- links -------------------------------------------------------------------

pages=(./*.md docs/*.md docs/*/*.md ./*/README.md ./*/*/README.md)
while IFS=: read -r file link; do
  target=${link#](}
  target=${target%%[)#]*}
  [[ -z $target || -e $(dirname "$file")/$target ]] ||
    Fail "$file links to $target, which is not there"
done < <(for file in "${pages[@]}"; do
  # Without blocks of code: f32[4,3](1,4) is no link.
  sed '/^```/,/^```/d' "$file" | grep -oE '\]\([^)]+\)' | sed "s|^|$file:|"
done | grep -vE '\]\(https?:')

# --- docs/options.md ---------------------------------------------------------

# The code names a variable as a string in env.cpp or a row of params.def.
known=$( (grep -ohE '"TJIT_[A-Z_]*[A-Z]"' support/env.cpp
  grep -ohE '\bTJIT_[A-Z_]*[A-Z]\b' support/params.def |
    grep -vx TJIT_PARAM) | tr -d '"' | sort -u)
listed=$(sed -n '/^Options of the build/q; s/^| `\(TJIT_[A-Z_]*\)`.*/\1/p' \
  docs/options.md | sort -u)
[[ $(wc -l <<<"$known") -ge 5 ]] || Fail "the code knows too few: $known"
[[ $known == "$listed" ]] ||
  Fail "docs/options.md (>) and support/ (<) differ:
$(diff <(echo "$known") <(echo "$listed"))"

# --- docs/features.md --------------------------------------------------------

rows=0
while IFS='|' read -r _ id _ state tests _; do
  id=${id// /} state=${state# } state=${state% }
  rows=$((rows + 1))
  named=$(grep -oE '`[A-Za-z0-9_./]+`' <<<"$tests" | tr -d '`')
  case $state in
    'not yet') [[ -z $named ]] || Fail "$id is not yet, but names $named" ;;
    done | partly*)
      [[ -n $named ]] || Fail "$id is $state, but names no test"
      for file in $named; do
        [[ $file == tests/* && -e $file ]] || Fail "$id: no test $file"
      done
      ;;
    *) Fail "$id: unknown state '$state'" ;;
  esac
done < <(sed 's/\\|/ /g' docs/features.md | grep -E '^\| [A-Z][0-9]+ \|')
((rows == 87)) || Fail "docs/features.md has $rows rows, not 87"

# --- docs/jit-cases.md -------------------------------------------------------

cases=$(grep -oE '`[A-Z][A-Za-z]+`' <<<"$(grep '^|' docs/jit-cases.md)" |
  tr -d '`' | grep -vE '^(NoJit)$' | sort -u)
[[ $(wc -l <<<"$cases") -ge 40 ]] || Fail "docs/jit-cases.md names few tests"
for name in $cases; do
  grep -q "TEST_F(JitTest, $name)" tests/runtime/thread/jit_*_test.cpp \
    tests/runtime/thread/jit_test.cpp || Fail "docs/jit-cases.md: no test $name"
done

# --- ARCHITECTURE.md ---------------------------------------------------------

python3 tests/setup/docs_test_architecture.py . || failures=$((failures + 1))

# --- what comments cite ------------------------------------------------------

python3 tests/setup/docs_test_citations.py . || failures=$((failures + 1))

((failures == 0)) && echo "documents: ok"
exit $((failures > 0))
