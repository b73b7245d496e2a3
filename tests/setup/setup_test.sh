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
unset CXX CMAKE_PREFIX_PATH CPATH CPLUS_INCLUDE_PATH VIRTUAL_ENV CONDA_PREFIX
# The program itself, not what may stand for it in PATH.
# shellcheck disable=SC2016
echo 'message("${CMAKE_COMMAND}")' >"$scratch/command.cmake"
cmake=$(cmake -P "$scratch/command.cmake" 2>&1)

# --- stand-ins ---------------------------------------------------------------

# StandIn <name> [body]: a command that logs its call, then runs `body`.
StandIn() {
  rm -f "$scratch/bin/$1" # it may be a link to the real one
  printf '#!/bin/bash\necho "%s $*" >>"%s"\n%s\n' "$1" "$calls" "${2-}" \
    >"$scratch/bin/$1"
  chmod +x "$scratch/bin/$1"
}

# FakeTorch <folder> <version>: what the scripts look at of a libtorch.
FakeTorch() {
  mkdir -p "$1/include/ATen" "$1/include/torch/headeronly" "$1/lib"
  touch "$1/include/ATen/ATen.h" "$1"/lib/lib{torch,torch_cpu,c10}.so
  local major minor patch
  IFS=. read -r major minor patch <<<"$2"
  printf '#define TORCH_VERSION_%s\n' "MAJOR $major" "MINOR $minor" \
    "PATCH $patch" >"$1/include/torch/headeronly/version.h"
}

# Fresh: a project copy, a user without sudo, every tool and a libtorch there.
Fresh() {
  local tool
  rm -rf "${scratch:?}"/{bin,project,torch,system,old,python,site,env}
  : >"$calls"
  mkdir -p "$scratch/bin" "$scratch/project"
  cp -r "$project/scripts" "$project/cmake" "$project/.ci" \
    "$project/CMakePresets.json" "$scratch/project/"
  # This machine may have a libtorch of its own.
  sed -i "s,^set(TJIT_SYSTEM_PREFIXES .*,set(TJIT_SYSTEM_PREFIXES \
$scratch/system)," "$scratch/project/cmake/TjitTorch.cmake"
  sed -i 's,/usr/lib/llvm,/no/llvm,' "$scratch/project/scripts/lib.sh"
  for tool in bash env dirname sed sort head tr paste awk nproc grep cat rm \
    mkdir touch chmod df; do
    ln -s "$(command -v "$tool")" "$scratch/bin/$tool"
  done
  StandIn ninja 'echo 1.11.1'
  for tool in g++ readelf valgrind pkg-config ccache chromium \
    llvm-config-19 apt-get; do
    StandIn "$tool"
  done
  StandIn python3 'exit 1'
  Cmake 'echo "cmake in $PWD" >>'"$calls"
  Platform Linux x86_64
  StandIn ctest 'echo "100% tests passed, 0 tests failed out of 1"'
  User 1000
  FakeTorch "$scratch/torch" 2.13.0
  mkdir -p "$scratch/project/build/release/bin"
  StandIn digits
  mv "$scratch/bin/digits" "$scratch/project/build/release/bin/"
}

# Cmake <body> [version]: the search for libtorch is the real one.
Cmake() {
  StandIn cmake "case \"\$* \" in
  *' -P '*) exec $cmake \"\$@\" ;;
  --version*) echo cmake version ${2-3.25.1}; exit ;;
esac
$1"
}

# Platform <system> <machine>: what uname says.
Platform() {
  StandIn uname "case \$1 in -m) echo $2 ;; *) echo $1 ;; esac"
}

# User <uid>: who `id -u` says we are.
User() {
  printf '#!/bin/bash\necho %s\n' "$1" >"$scratch/bin/id"
  chmod +x "$scratch/bin/id"
}

# Run <script> [argument]..., or Run env NAME=value <path of a script>: from
# another folder, with the stand-ins alone.
# Sets status; stdout and stderr go to $out.
Run() {
  local command=("$scratch/project/$1" "${@:2}")
  [[ $1 != env ]] || command=("$@")
  (cd / && PATH=$scratch/bin CMAKE_PREFIX_PATH=${PREFIX-$scratch/torch} \
    "${command[@]}") >"$out" 2>&1 </dev/null
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
  Called "-DTJIT_TORCH=$scratch/torch"
  Run scripts/test.sh # again
  Status 0
}

TestQuickstartRunsTheMainJob() {
  Fresh
  Run scripts/quickstart.sh --jobs 1 -- one two
  Status 0
  Called "digits one two"
  NotCalled ctest
  # The small CNN first, then what README.md goes on with.
  local order
  order=$(grep -oE '^digits|--target .*' "$calls" | paste -sd' ' -)
  [[ $order == "--target digits digits --target tjit_command tjit_preload \
tjit_python unmodified embed" ]] || Fail "builds and runs in this order: $order"
  Last "Your own program: $scratch/project/build/release/bin/tjit run -- \
./program"
}

TestQuickstartAnnouncesTimeAndDisk() {
  Fresh
  Run scripts/quickstart.sh --jobs 2
  [[ $(head -n 1 "$out") =~ ^'tjit: this takes about '[0-9]+' minutes with 2 jobs'.*' '[0-9]+' GB of disk' ]] ||
    Fail "the first line announces nothing"
  StandIn df 'printf "%s\n" head "/dev/x 9000000 7100000 1900000 80% /"'
  Run scripts/quickstart.sh
  Status 1
  Says "tjit: cannot build: $scratch/project has 1 GB of free disk and 2 are needed"
  # Later there is little to do.
  mkdir -p "$scratch/project/build/release/bin"
  StandIn tjit
  mv "$scratch/bin/tjit" "$scratch/project/build/release/bin/"
  Run scripts/quickstart.sh
  Status 0
  [[ $(head -n 1 "$out") == "tjit: built before in build/release: "* ]] ||
    Fail "announces a first build again"
}

TestOtherPlatforms() {
  Fresh
  Platform Linux aarch64
  Run scripts/quickstart.sh
  Status 1
  Last "tjit: cannot build: tjit is for Linux on x86-64, and this is Linux on \
aarch64."
  NotCalled apt-get
  Platform Darwin x86_64
  Run scripts/test.sh
  Status 1
  Last "tjit: cannot build: tjit is for Linux on x86-64, and this is Darwin on \
x86_64."
}

TestSaysWhatIsTested() {
  Fresh
  sed -i 's,/etc/os-release,'"$scratch"'/os-release,' \
    "$scratch/project/scripts/lib.sh"
  echo 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"' >"$scratch/os-release"
  Run scripts/test.sh
  Says "Debian GNU/Linux 13 (trixie), x86_64"
  ! grep -q 'what is tested' "$out" || Fail "doubts Debian 13"
  echo 'PRETTY_NAME="Fedora Linux 41"' >"$scratch/os-release"
  Run scripts/test.sh
  Status 0
  Says "Fedora Linux 41, x86_64; what is tested is Debian 12 and 13"
}

TestJobs() {
  local jobs
  Fresh
  for jobs in -j4 "-j 4" "--jobs 4" --jobs=4; do
    : >"$calls"
    # shellcheck disable=SC2086  # two words
    Run scripts/test.sh $jobs
    Status 0
    Called "--parallel 4"
  done
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
  Cmake '[[ $1 != --build ]]'
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

# Whether it is the lists or the packages that another one holds.
TestAnotherAptIsWaitedFor() {
  Fresh
  User 0
  rm "$scratch/bin/g++"
  StandIn sleep
  StandIn apt-get 'lock='"$scratch"'/project/was_locked
if [[ $* == *update* && ! -e $lock ]]; then
  touch "$lock"
  echo "E: Could not get lock /var/lib/apt/lists/lock." >&2
  exit 100
fi
[[ $* != *install* ]] || { touch '"$scratch"'/bin/g++; chmod +x '"$scratch"'/bin/g++; }'
  Run scripts/test.sh
  Status 0
  Says "waiting for another apt-get"
  Called "sleep 15"
  Called "DPkg::Lock::Timeout=600 install"
}

TestAptUpdateThatFailsIsNotTriedAgain() {
  Fresh
  User 0
  rm "$scratch/bin/g++"
  StandIn sleep
  StandIn apt-get 'echo "E: no network" >&2; exit 100'
  Run scripts/test.sh
  Status 1
  Says "E: no network"
  NotCalled sleep
  Last "tjit: cannot build: apt-get update failed (see above), g++ is missing."
}

TestOldCmakeIsNamed() {
  Fresh
  User 0
  Cmake true 3.18.4
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
  StandIn llvm-config-22
  Run scripts/test.sh
  ! grep -q 'missing: llvm' "$out" || Fail "LLVM 22 will not do"
}

TestTorchOrder() {
  Fresh
  FakeTorch "$scratch/old" 2.12.9
  FakeTorch "$scratch/python/torch" 2.14.1
  StandIn python3 "[[ \$1 != -c ]] || echo $scratch/python/torch"
  # Two were named, and one of them will do.
  PREFIX=$scratch/old:$scratch/torch Run scripts/test.sh
  Status 0
  Says "not used: libtorch 2.12.9 of CMAKE_PREFIX_PATH ($scratch/old) is too old"
  Called "-DTJIT_TORCH=$scratch/torch"
  PREFIX=$scratch/nowhere Run scripts/test.sh
  Status 0
  Says "libtorch 2.14.1 of the active Python: $scratch/python/torch"
  Called "-DTJIT_TORCH=$scratch/python/torch"
  FakeTorch "$scratch/system" 2.14.1
  StandIn python3 'exit 1'
  PREFIX=$scratch/nowhere Run scripts/test.sh
  Called "-DTJIT_TORCH=$scratch/system"
  Status 0
}

# Asks <sentence>: the script stops with it and with what there is to choose.
Asks() {
  Status 1
  Says "tjit: cannot build: $1 Which libtorch shall it be?"
  Says "another one: --torch=PATH of a libtorch >= 2.13, or --torch=own"
  ! grep -q -e --build "$calls" || Fail "builds all the same"
}

TestTorchThatWillNotDoIsAsked() {
  local torch=$scratch/python/torch
  Fresh
  FakeTorch "$scratch/old" 2.12.9
  PREFIX=$scratch/old Run scripts/test.sh
  Asks "libtorch 2.12.9 of CMAKE_PREFIX_PATH ($scratch/old) is too old: tjit \
needs 2.13 or newer."
  FakeTorch "$torch" 2.12.9
  touch "$torch/__init__.py" "$torch/version.py"
  StandIn python3 "[[ \$1 != -c ]] || echo $torch"
  PREFIX='' Run scripts/quickstart.sh
  Asks "libtorch 2.12.9 of the active Python ($torch) is too old: tjit needs \
2.13 or newer."
  Says "this Python's, brought up to date: \`python3 -m pip install --upgrade"
  # Choosing answers it.
  PREFIX='' Run scripts/quickstart.sh --torch="$scratch/torch"
  Status 0
  Called "-DTJIT_TORCH=$scratch/torch"
  : >"$calls"
  FakeTorch "$torch" 2.14.1
  rm "$torch/lib/libtorch_cpu.so"
  PREFIX='' Run scripts/test.sh
  Asks "libtorch 2.14.1 of the active Python ($torch) has headers but no \
libtorch_cpu.so."
  rm -r "$torch/include"
  PREFIX='' Run scripts/test.sh
  Asks "libtorch of the active Python ($torch) has no C++ headers \
(include/ATen)."
  # The system's is nobody's choice.
  StandIn python3 'exit 1'
  FakeTorch "$scratch/system" 1.13.1
  mkdir -p "$scratch/project/.venv/lib/python3.9/site-packages"
  FakeTorch "$scratch/project/.venv/lib/python3.9/site-packages/torch" 2.13.0
  PREFIX='' Run scripts/test.sh
  Status 0
  Says "not used: libtorch 1.13.1 of the system"
  Says "libtorch 2.13.0 of .venv"
}

TestChosenTorchIsNotThere() {
  Fresh
  Run scripts/test.sh --torch "$scratch/nowhere"
  Status 1
  Last "tjit: cannot build: --torch=$scratch/nowhere: no libtorch lies there \
(no include/ATen/ATen.h)."
}

TestLibrariesOfCudaAreMissing() {
  Fresh
  StandIn ldd 'echo "	libcudart.so.13 => not found"'
  Run scripts/test.sh
  Asks "libtorch 2.13.0 of CMAKE_PREFIX_PATH ($scratch/torch) is incomplete: \
its libtorch_cpu.so needs libcudart.so.13, not found."
}

# Both scripts and plain cmake find what is active.
TestActiveEnvironments() {
  local env=$scratch/env site=$scratch/env/lib/python3.12/site-packages
  Fresh
  FakeTorch "$site/torch" 2.14.1
  touch "$site/torch/__init__.py" "$site/torch/version.py"
  for variable in VIRTUAL_ENV CONDA_PREFIX; do
    PREFIX='' Run env "$variable=$env" "$scratch/project/scripts/test.sh"
    Status 0
    Called "-DTJIT_TORCH=$site/torch"
    : >"$calls"
  done
  # Conda's own layout: a package, headers and libraries in the prefix.
  mv "$site/torch/include" "$env/"
  mv "$site"/torch/lib/* "$env/lib/"
  PREFIX='' Run env "CONDA_PREFIX=$env" "$scratch/project/scripts/test.sh"
  Status 0
  Called "-DTJIT_TORCH=$site/torch"
  # ... and its libtorch without Python.
  rm -r "$site"
  PREFIX='' Run env "CONDA_PREFIX=$env" "$scratch/project/scripts/test.sh"
  Status 0
  Called "-DTJIT_TORCH=$env"
}

# Plain cmake, by the same rules; what was found stays until someone else is
# active.
TestPlainCmake() {
  local folder=$scratch/plain env last=
  Fresh
  mkdir -p "$folder"
  cat >"$folder/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.25)
project(plain LANGUAGES NONE)
include($scratch/project/cmake/TjitTorch.cmake)
if(TJIT_TORCH_ERROR)
  message(FATAL_ERROR "\${TJIT_TORCH_ERROR}")
endif()
message(STATUS "took \${TJIT_LIB_torch_cpu}")
TEXT
  for env in one two old; do
    FakeTorch "$scratch/env/$env/lib/python3.11/site-packages/torch" 2.13.0
  done
  FakeTorch "$scratch/env/old/lib/python3.11/site-packages/torch" 2.12.0
  for env in one '' two ''; do
    PATH=$scratch/bin VIRTUAL_ENV=${env:+$scratch/env/$env} \
      "$cmake" -S "$folder" -B "$folder/build" -G Ninja >"$out" 2>&1 ||
      Fail "plain cmake fails"
    [[ -z $env ]] || last=$env
    Says "took $scratch/env/$last/lib/python3.11/site-packages/torch/lib/"
  done
  # The project around has found one: it goes before what is active.
  mkdir -p "$scratch/torch/share/cmake/Torch"
  PATH=$scratch/bin VIRTUAL_ENV=$scratch/env/one "$cmake" -S "$folder" \
    -B "$folder/around" -G Ninja -DTorch_DIR="$scratch/torch/share/cmake/Torch" \
    >"$out" 2>&1 || Fail "plain cmake fails within a project"
  Says "took $scratch/torch/lib/"
  # What torch.utils.cmake_prefix_path says.
  PATH=$scratch/bin "$cmake" -S "$folder" -B "$folder/prefix" -G Ninja \
    -DCMAKE_PREFIX_PATH="$scratch/torch/share/cmake" >"$out" 2>&1 ||
    Fail "plain cmake fails with torch.utils.cmake_prefix_path"
  Says "took $scratch/torch/lib/"
  ! PATH=$scratch/bin CONDA_PREFIX=$scratch/env/old \
    "$cmake" -S "$folder" -B "$folder/build" -G Ninja >"$out" 2>&1 ||
    Fail "plain cmake looks on"
  Says "another one: -DTJIT_TORCH=PATH of a libtorch >= 2.13"
}

TestTorchByPip() {
  local site=$scratch/project/.venv/lib/python3.9/site-packages
  Fresh
  rm -rf "$scratch/torch"
  # A python3 whose venv has a pip that finds no CPU build, then one.
  cat >"$scratch/venv_python" <<TEXT
#!/bin/bash
echo "venv \$*" >>$calls
case \$* in
  *install*extra-index-url*) mkdir -p $site; mv $scratch/site/torch_ $site/torch;;
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
  Called "-DTJIT_TORCH=$site/torch"
  : >"$calls"
  Run scripts/test.sh # finds it
  Status 0
  Run scripts/test.sh --torch=own
  Status 0
  Called "-DTJIT_TORCH=$site/torch"
  ! grep -q 'pip.*install' "$calls" || Fail "installs torch again"
  # Asked for, it is fetched although there is another one.
  mv "$site/torch" "$scratch/site/torch_"
  FakeTorch "$scratch/torch" 2.13.0
  : >"$calls"
  Run scripts/test.sh --torch=own
  Status 0
  Called "install torch==2.13.0+cpu"
  Called "-DTJIT_TORCH=$site/torch"
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
