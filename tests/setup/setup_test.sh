#!/usr/bin/env bash
# scripts/quickstart.sh, scripts/test.sh and .ci/run without a network, a
# package manager or a compiler: they run in a copy of the project's scripts
# with a PATH of stand-ins that write down how they were called.
# Usage: setup_test.sh <project folder>
set -uo pipefail

project=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
calls=$scratch/calls
out=$scratch/out
failures=0
unset CXX CMAKE_PREFIX_PATH CPATH CPLUS_INCLUDE_PATH

# --- stand-ins ---------------------------------------------------------------

# StandIn <name> [body]: a command that logs its call, then runs `body`.
StandIn() {
  printf '#!/bin/bash\necho "%s $*" >>"%s"\n%s\n' "$1" "$calls" "${2-}" \
    >"$scratch/bin/$1"
  chmod +x "$scratch/bin/$1"
}

# FakeTorch <folder> <version>: what the scripts look at of a libtorch.
FakeTorch() {
  mkdir -p "$1/include/ATen" "$1/include/torch/headeronly" "$1/lib"
  touch "$1/include/ATen/ATen.h" "$1/lib/libtorch_cpu.so"
  local major minor patch
  IFS=. read -r major minor patch <<<"$2"
  printf '#define TORCH_VERSION_%s\n' "MAJOR $major" "MINOR $minor" \
    "PATCH $patch" >"$1/include/torch/headeronly/version.h"
}

# Fresh: a project copy, a user without sudo, every tool and a libtorch there.
Fresh() {
  local tool
  rm -rf "${scratch:?}"/{bin,project,torch,system,old,python,site}
  : >"$calls"
  mkdir -p "$scratch/bin" "$scratch/project"
  cp -r "$project/scripts" "$project/.ci" "$project/CMakePresets.json" \
    "$scratch/project/"
  # This machine may have a libtorch of its own.
  sed -i "s,^readonly SYSTEM=.*,readonly SYSTEM=$scratch/system," \
    "$scratch/project/scripts/lib.sh"
  for tool in bash env dirname sed sort head tr paste awk nproc grep cat rm \
    mkdir uname touch chmod; do
    ln -s "$(command -v "$tool")" "$scratch/bin/$tool"
  done
  for tool in g++ readelf ninja valgrind pkg-config ccache \
    llvm-config-19 apt-get; do
    StandIn "$tool"
  done
  StandIn python3 'exit 1'
  StandIn cmake '[[ $1 != --version ]] || echo cmake version 3.25.1
echo "cmake in $PWD" >>'"$calls"
  StandIn ctest 'echo "100% tests passed, 0 tests failed out of 1"'
  User 1000
  FakeTorch "$scratch/torch" 2.13.0
  mkdir -p "$scratch/project/build/release/bin"
  StandIn digits
  mv "$scratch/bin/digits" "$scratch/project/build/release/bin/"
}

# User <uid>: who `id -u` says we are.
User() {
  printf '#!/bin/bash\necho %s\n' "$1" >"$scratch/bin/id"
  chmod +x "$scratch/bin/id"
}

# Run <script> [argument]...: from another folder, with the stand-ins alone.
# Sets status; stdout and stderr go to $out.
Run() {
  (cd / && PATH=$scratch/bin CMAKE_PREFIX_PATH=${PREFIX-$scratch/torch} \
    "$scratch/project/$1" "${@:2}") >"$out" 2>&1 </dev/null
  status=$?
}

# --- checks ------------------------------------------------------------------

Fail() {
  failures=$((failures + 1))
  echo "FAILED: $test: $*"
  sed 's/^/  | /' "$out"
  sed 's/^/  calls: /' "$calls"
}

Status() { [[ $status == "$1" ]] || Fail "status $status, not $1"; }
# Last <text>: the closing line of what the script printed.
Last() { [[ $(tail -n 1 "$out") == "$1" ]] || Fail "the last line is not: $1"; }
Says() { grep -qF -- "$1" "$out" || Fail "does not say: $1"; }
Called() { grep -qF -- "$1" "$calls" || Fail "no call: $1"; }
NotCalled() { ! grep -q -- "^$1" "$calls" || Fail "calls $1"; }

# --- tests -------------------------------------------------------------------

TestScriptsParse() {
  local script
  for script in "$project"/scripts/*.sh "$project"/tests/*.sh \
    "$project"/tests/setup/*.sh "$project/.ci/run"; do
    bash -n "$script" 2>"$out" || Fail "bash -n $script"
  done
  ! command -v shellcheck >/dev/null ||
    (cd "$project" && shellcheck -S warning -x scripts/*.sh tests/*.sh tests/setup/*.sh \
      .ci/run) >"$out" 2>&1 || Fail shellcheck
}

TestNothingMissingNeedsNoRootAndNoApt() {
  Fresh
  Run scripts/test.sh
  Status 0
  Last "100% tests passed, 0 tests failed out of 1"
  NotCalled apt-get
  Called "cmake in $scratch/project"
  Called "-DCMAKE_PREFIX_PATH=$scratch/torch"
  Run scripts/test.sh # again
  Status 0
}

TestQuickstartRunsTheMainJob() {
  Fresh
  Run scripts/quickstart.sh --jobs 1 -- one two
  Status 0
  Called "digits one two"
  Called "--target digits"
  NotCalled ctest
}

TestCiRunsTheTests() {
  Fresh
  Run .ci/run
  Status 0
  Called "ctest --preset ci"
}

TestExitStatusIsThatOfTheTests() {
  Fresh
  StandIn ctest 'echo "50% tests passed, 1 tests failed out of 2"; exit 8'
  Run .ci/run
  Status 8
}

TestCompilerFailureIsOneSentence() {
  Fresh
  StandIn cmake 'case $1 in --version) echo cmake version 3.25.1;; --build)
    exit 1;; esac'
  Run scripts/test.sh
  Status 1
  Last "tjit: cannot build: the compiler stopped (see above)."
  NotCalled ctest
}

TestMissingToolWithoutRoot() {
  Fresh
  rm "$scratch/bin/g++"
  Run scripts/quickstart.sh
  Status 1
  Says "missing: g++, the C++20 compiler"
  Last "tjit: cannot build: g++ is missing and installing needs root: run \
\`apt-get install g++\` as root, then this script again."
  NotCalled apt-get
}

TestMissingToolWithoutApt() {
  Fresh
  rm "$scratch/bin/g++" "$scratch/bin/ninja" "$scratch/bin/apt-get"
  Run scripts/test.sh
  Status 1
  Last "tjit: cannot build: g++, ninja-build are missing, and this system has \
no apt-get: install them (Debian's names) with its own tools, then run this \
again."
}

TestMissingToolAsRootIsInstalled() {
  Fresh
  User 0
  rm "$scratch/bin/g++" "$scratch/bin/ninja"
  StandIn apt-get 'echo "frontend $DEBIAN_FRONTEND" >>'"$calls"'
for name; do
  case $name in
    g++) tool=g++;;
    ninja-build) tool=ninja;;
    *) continue;;
  esac
  touch '"$scratch"'/bin/$tool; chmod +x '"$scratch"'/bin/$tool
done'
  Run scripts/test.sh
  Status 0
  Called "frontend noninteractive"
  Called "--no-install-recommends g++ ninja-build"
}

TestAptFailureIsOneSentence() {
  Fresh
  User 0
  rm "$scratch/bin/g++"
  StandIn apt-get '[[ $* == *update* ]]'
  Run scripts/test.sh
  Status 1
  Last "tjit: cannot build: apt-get could not install g++ (see above)."
}

TestOldCmakeIsNamed() {
  Fresh
  User 0
  StandIn cmake 'echo cmake version 3.18.4'
  Run scripts/test.sh
  Status 1
  Says "tjit: cannot build: cmake was installed, yet cmake>=3.25 is not there"
}

TestCcacheIsOptional() {
  Fresh
  rm "$scratch/bin/ccache"
  Run scripts/test.sh
  Status 0
  Says "going on without ccache"
}

TestLlvmIsOptional() {
  Fresh
  User 0
  rm "$scratch/bin/g++" "$scratch/bin/llvm-config-19"
  StandIn apt-get '[[ $* != *llvm* ]] || exit 100
[[ $* != *g++* ]] || { touch '"$scratch/bin/g++; chmod +x $scratch/bin/g++"'; }'
  Run scripts/test.sh
  Status 0
  Says "missing: llvm-19-dev, LLVM: compiles hot segments"
  Called "--no-install-recommends g++"
  Called "--no-install-recommends llvm-19-dev"
  Says "going on without llvm-19-dev"
}

TestTorchOrder() {
  Fresh
  FakeTorch "$scratch/old" 2.12.9
  FakeTorch "$scratch/python/torch" 2.14.1
  StandIn python3 "[[ \$1 != - ]] || echo $scratch/python/torch"
  PREFIX=$scratch/old:$scratch/torch Run scripts/test.sh
  Says "libtorch 2.12.9 of CMAKE_PREFIX_PATH is older than 2.13: looking on"
  Called "-DCMAKE_PREFIX_PATH=$scratch/torch"
  PREFIX=$scratch/old Run scripts/test.sh
  Called "-DCMAKE_PREFIX_PATH=$scratch/python/torch"
  Status 0
  FakeTorch "$scratch/system" 2.14.1
  StandIn python3 'exit 1'
  PREFIX=$scratch/nowhere Run scripts/test.sh
  Called "-DCMAKE_PREFIX_PATH=$scratch/system"
  Status 0
}

TestTorchByPip() {
  Fresh
  rm -rf "$scratch/torch"
  # A python3 whose venv has a pip that finds no CPU build, then one.
  cat >"$scratch/venv_python" <<TEXT
#!/bin/bash
echo "venv \$*" >>$calls
case \$* in
  -) [[ ! -e $scratch/site/torch ]] || echo $scratch/site/torch;;
  *install*extra-index-url*) mv $scratch/site/torch_ $scratch/site/torch;;
  *install*) exit 1;;
esac
TEXT
  chmod +x "$scratch/venv_python"
  FakeTorch "$scratch/site/torch_" 2.13.0
  StandIn python3 "[[ \$2 != venv ]] || { mkdir -p \$3/bin
  ln -s $scratch/venv_python \$3/bin/python; }"
  ln -s "$(command -v ln)" "$(command -v mv)" "$scratch/bin/"
  Run scripts/test.sh
  Status 0
  Called "install torch==2.13.0+cpu"
  Called "-DCMAKE_PREFIX_PATH=$scratch/site/torch"
  : >"$calls"
  Run scripts/test.sh # finds it
  Status 0
  ! grep -q 'pip.*install' "$calls" || Fail "installs torch again"
}

TestNoTorchIsOneSentence() {
  Fresh
  rm -rf "$scratch/torch"
  StandIn python3 "[[ \$2 != venv ]] || { mkdir -p \$3/bin
  printf '#!/bin/bash\nexit 1' >\$3/bin/python; chmod +x \$3/bin/python; }
  [[ \$1 != --version ]] || echo Python 3.99"
  Run scripts/quickstart.sh
  Status 1
  Last "tjit: cannot build: pip could not install torch 2.13.0 (see above): is \
there a network, and a wheel for Python 3.99?"
}

TestBadArguments() {
  Fresh
  Run scripts/test.sh --preset nonsense
  Status 1
  Says "tjit: --preset 'nonsense' is not one of: release testing debug ci"
  Run scripts/test.sh --jobs=0
  Status 1
  Last "tjit: --jobs '0': a number of at least 1 is wanted."
  Run scripts/test.sh --frobnicate
  Status 1
  Last "tjit: unknown argument '--frobnicate' (see --help)."
}

TestWhatIsWrittenIsIgnoredByGit() {
  local path
  for path in build/release/x .venv/x; do
    git -C "$project" check-ignore -q "$path" || Fail "git does not ignore $path"
  done
}

for test in $(compgen -A function Test); do
  # A checkout without git, an unpacked archive say, has nothing to ask.
  [[ $test != *ByGit ]] ||
    git -C "$project" rev-parse --git-dir >/dev/null 2>&1 || continue
  : >"$out"
  : >"$calls"
  before=$failures
  "$test"
  [[ $failures != "$before" ]] || echo "ok $test"
done
exit $((failures > 0))
