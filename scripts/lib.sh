# shellcheck shell=bash
# What quickstart.sh and test.sh share: look for what a build needs, install
# what is missing, find libtorch, configure and build.
#
# Every function says what it does on stdout. What cannot be had ends the
# script with one sentence on stderr that starts with "tjit: " (Die), status 1.
# Nothing depends on the caller's folder; all that is written lies in build/
# and .venv/, which git ignores.
# Tested by: tests/setup/setup_test.sh

set -euo pipefail

TJIT_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
readonly TJIT_ROOT
readonly TORCH_MIN=2.13
readonly TORCH_PIP=2.13.0
readonly TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu

# package | probe | needed by | why. A probe is a command, `cmake>=3.25`, a
# header, or `llvm`, any of the versions that were tried. Needed by: all, test
# (only the tests), optional (built without it if apt has none), optional-test
# (both: a test is skipped without it).
readonly PACKAGES=(
  "g++|g++|all|the C++20 compiler"
  "binutils|readelf|all|reads libtorch's build-ids"
  "cmake|cmake>=3.25|all|the build system"
  "ninja-build|ninja|all|runs the build"
  "libabsl-dev|absl/container/flat_hash_map.h|all|Abseil: hash maps, locks"
  "libxxhash-dev|xxhash.h|all|xxHash: keys of traces"
  "libspdlog-dev|spdlog/spdlog.h|all|spdlog: output"
  "libyaml-cpp-dev|yaml-cpp/yaml.h|all|yaml-cpp: files of options"
  "libcli11-dev|CLI/CLI.hpp|all|CLI11: command lines"
  "nlohmann-json3-dev|nlohmann/json.hpp|all|nlohmann-json: JSON of the command"
  "libgtest-dev|gtest/gtest.h|all|GoogleTest"
  "libgmock-dev|gmock/gmock.h|all|GoogleMock"
  "libbenchmark-dev|benchmark/benchmark.h|all|Google Benchmark"
  "python3|python3|all|finds or fetches libtorch, drives tests"
  "valgrind|valgrind|test|counts instructions in tests"
  "pkg-config|pkg-config|test|checks the installed tjit.pc"
  "llvm-19-dev|llvm|optional|LLVM: compiles hot segments"
  "chromium|chromium|optional-test|opens the page of tjit report in tests"
  "ccache|ccache|optional|makes the second build fast"
)

STEP=0
STEPS=5  # packages, libtorch, configure, build, then run or test
# Step <text>: announces the next stage.
Step() {
  STEP=$((STEP + 1))
  printf '\n[%d/%d] %s (after %d s)\n' "$STEP" "$STEPS" "$1" "$SECONDS"
}

Say() { printf '  %s\n' "$*"; }

Die() {
  printf '\ntjit: %s\n' "$*" >&2
  exit 1
}

# Join <separator> <word>...
Join() {
  local separator=$1 joined=${2-} word
  shift $(($# > 1 ? 2 : 1))
  for word; do joined+=$separator$word; done
  printf '%s' "$joined"
}

# VersionAtLeast <have> <want>
VersionAtLeast() {
  [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}

# The prefixes that the caller named, one a line.
Prefixes() {
  tr : '\n' <<<"${CMAKE_PREFIX_PATH-}" | tr ';' '\n' | sed '/^$/d'
}

# HasHeader <header>: it lies where the compiler or CMake will look.
HasHeader() {
  local dir
  while IFS= read -r dir; do
    [[ -z $dir || ! -e $dir/$1 ]] || return 0
  done < <(Prefixes | sed 's,$,/include,'; tr ':' '\n' \
    <<<"${CPATH-}:${CPLUS_INCLUDE_PATH-}:/usr/local/include:/usr/include")
  return 1
}

# HasLlvm: one of the versions in cmake/TjitLlvm.cmake.
HasLlvm() {
  local version
  for version in $(sed -n 's/^set(TJIT_LLVM_TESTED \([0-9 ]*\)).*/\1/p' \
    "$TJIT_ROOT/cmake/TjitLlvm.cmake"); do
    ! command -v "llvm-config-$version" >/dev/null || return 0
    [[ ! -x /usr/lib/llvm-$version/bin/llvm-config ]] || return 0
  done
  return 1
}

# HasProbe <probe>: see PACKAGES.
HasProbe() {
  local version
  case $1 in
    *.h | *.hpp) HasHeader "$1" ;;
    g++) command -v "${CXX:-g++}" >/dev/null ;;
    llvm) HasLlvm ;;
    *'>='*)
      version=$("${1%%>=*}" --version 2>/dev/null | sed -n '1s/[^0-9]*//p') &&
        [[ -n $version ]] && VersionAtLeast "${version%% *}" "${1#*>=}"
      ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

# InstallPackages <package>...: by apt, as root or through sudo.
InstallPackages() {
  local list sudo=() verb=is
  list=$(Join ', ' "$@")
  (($# == 1)) || verb=are
  command -v apt-get >/dev/null ||
    Die "cannot build: $list $verb missing, and this system has no apt-get:" \
      "install them (Debian's names) with its own tools, then run this again."
  if (($(id -u) != 0)); then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }
    then
      sudo=(sudo)
    else
      Die "cannot build: $list $verb missing and installing needs root: run" \
        "\`apt-get install $*\` as root, then this script again."
    fi
  fi
  Say "apt-get install $*"
  AptUpdate ||
    Die "cannot build: apt-get update failed (see above), $list $verb missing."
  AptInstall "$@" ||
    Die "cannot build: apt-get could not install $list (see above)."
}

# AptUpdate: `sudo` is the caller's. Another apt, such as the upgrades that run
# unattended on a new machine, is waited for, ten minutes at most.
AptUpdate() {
  local said tries=40
  until said=$("${sudo[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive \
      apt-get -q update 2>&1); do
    printf '%s\n' "$said" >&2
    [[ $said == *"Could not get lock"* ]] && ((tries-- > 0)) || return 1
    Say "waiting for another apt-get"
    sleep 15
  done
  printf '%s\n' "$said"
}

# AptInstall <package>...: the same for packages.
AptInstall() {
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 \
    install --no-install-recommends "$@"
}

# InstallOptional <package>...: one by one, by whoever may install; what apt
# lacks stays away.
InstallOptional() {
  local package sudo=()
  (($(id -u) == 0)) || sudo=(sudo)
  for package; do
    Say "apt-get install $package"
    AptInstall "$package" || Say "going on without $package"
  done
}

# EnsurePackages <all|test>: installs the packages that this use lacks.
EnsurePackages() {
  local use=$1 row package probe by why missing=() wanted=() sudo=()
  for row in "${PACKAGES[@]}"; do
    IFS='|' read -r package probe by why <<<"$row"
    [[ $by != *test || $use == test ]] || continue
    HasProbe "$probe" && continue
    if [[ $by == optional* ]]; then
      wanted+=("$package")
    else
      missing+=("$package")
    fi
    Say "missing: $package, $why"
  done
  if ((${#missing[@]} == 0)) && ((${#wanted[@]} > 0)) && (($(id -u) != 0)); then
    Say "going on without $(Join ', ' "${wanted[@]}")"
  elif ((${#missing[@]} + ${#wanted[@]} > 0)); then
    if ((${#missing[@]} > 0)); then
      InstallPackages "${missing[@]}"
      CheckInstalled "$use"
    else
      AptUpdate || Say "apt-get update failed"
    fi
    InstallOptional "${wanted[@]}"
  else
    Say "all there"
  fi
}

# CheckInstalled <use>: what apt brought may still be too old.
CheckInstalled() {
  local row package probe by why
  for row in "${PACKAGES[@]}"; do
    IFS='|' read -r package probe by why <<<"$row"
    [[ $by == all || $by == "$1" ]] || continue
    HasProbe "$probe" ||
      Die "cannot build: $package was installed, yet $probe is not there;" \
        "Debian 12 or newer is needed (this is $(SystemName))."
  done
}

SystemName() {
  # shellcheck disable=SC1091  # not ours
  (. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME") || uname -s
}

# CheckPlatform: tjit is for 64-bit Linux on x86-64; says what is tested.
CheckPlatform() {
  local system machine
  system=$(uname -s) machine=$(uname -m)
  [[ $system == Linux && $machine == x86_64 ]] ||
    Die "cannot build: tjit is for Linux on x86-64, and this is $system on" \
      "$machine."
  case $(SystemName) in
    *Debian*' '1[23]*) Say "$(SystemName), $machine" ;;
    *) Say "$(SystemName), $machine; what is tested is Debian 12 and 13" ;;
  esac
}

# SearchTorch: sets TORCH to a libtorch that will do, by the rules of
# cmake/TjitTorch.cmake, which plain cmake follows too; false if there is none.
SearchTorch() {
  local text line
  TORCH=
  text=$(cmake ${TORCH_CHOICE:+"-DTJIT_TORCH=$TORCH_CHOICE"} \
    -DTJIT_TORCH_OPTION=--torch= -P "$TJIT_ROOT/cmake/TjitTorch.cmake") ||
    Die "cannot build: looking for libtorch failed (see above)."
  while IFS= read -r line; do
    case $line in
      'note '*) Say "not used: ${line#note }" ;;
      'found '*) Say "${line#found }" ;;
      'folder '*) TORCH=${line#folder } ;;
    esac
  done <<<"$text"
  [[ $text != 'error '* ]] || Die "cannot build: ${text#error }"
  [[ -n $TORCH ]]
}

# FindTorch: sets TORCH; installs libtorch into .venv if there is none, or if
# --torch=own asks for that.
FindTorch() {
  local own=("$TJIT_ROOT"/.venv/lib/python*/site-packages/torch)
  if [[ $TORCH_CHOICE == own && ! -e ${own[0]} ]]; then
    InstallTorch
  fi
  SearchTorch || {
    InstallTorch
    SearchTorch ||
      Die "cannot build: pip installed torch, but .venv holds no libtorch."
  }
}

# InstallTorch: torch by pip into .venv, the CPU build if it can be had (the
# default one for Linux brings gigabytes of CUDA, which tjit does not use).
InstallTorch() {
  local venv=$TJIT_ROOT/.venv pip
  [[ $TORCH_CHOICE == own ]] ||
    Say "no libtorch >= $TORCH_MIN in CMAKE_PREFIX_PATH, the active Python" \
      "environment or the system:"
  Say "installing torch $TORCH_PIP by pip into .venv (200 MB to fetch, 900 MB" \
    "on disk)"
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python3 -c 'import ensurepip, venv' 2>/dev/null ||
      InstallPackages python3-venv ca-certificates
    rm -rf "$venv"
    python3 -m venv "$venv" ||
      Die "cannot build: python3 -m venv $venv failed (see above)."
  fi
  pip=("$venv/bin/python" -m pip --disable-pip-version-check install)
  "${pip[@]}" "torch==$TORCH_PIP+cpu" 2>"$venv/pip.log" ||
    { Say "no CPU build in the indexes that pip is set up for; trying" \
      "$TORCH_CPU_INDEX"
      "${pip[@]}" --retries 1 --extra-index-url "$TORCH_CPU_INDEX" \
        "torch==$TORCH_PIP+cpu" 2>>"$venv/pip.log"; } ||
    { Say "no CPU build there either; trying the default one, whose libraries" \
      "for CUDA take 5 GB of disk more"
      "${pip[@]}" "torch==$TORCH_PIP"; } ||
    Die "cannot build: pip could not install torch $TORCH_PIP (see above):" \
      "is there a network, and a wheel for $(python3 --version 2>&1)?"
}

# DefaultJobs: one per core, as far as memory goes (a file that includes
# libtorch takes up to 1.5 GB to compile).
DefaultJobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ {print int($2 / 1500000)}' /proc/meminfo)
  ((memory >= 1)) || memory=1
  echo $((cores < memory ? cores : memory))
}

# Build <preset> <jobs> [target]...: everything if no target is named.
Build() {
  local preset=$1 jobs=$2 configure=(--preset "$1"
    "-DTJIT_TORCH=$TORCH")
  shift 2
  cd "$TJIT_ROOT"
  # A build folder that was moved, or never configured to the end, starts anew.
  if [[ ! -e build/$preset/build.ninja ]] ||
    ! grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$TJIT_ROOT" \
      "build/$preset/CMakeCache.txt"; then
    configure+=(--fresh)
  fi
  cmake "${configure[@]}" || Die "cannot build: cmake failed (see above)."
  Step "Building preset $preset with $jobs jobs (the first time takes minutes)"
  BuildTargets "$preset" "$jobs" "$@"
}

# BuildTargets <preset> <jobs> [target]...: in a build folder that is there.
BuildTargets() {
  local preset=$1 jobs=$2
  shift 2
  cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"} ||
    Die "cannot build: the compiler stopped (see above)."
}

# Prepare <all|test>: everything before the build.
Prepare() {
  Step "Looking for what the build needs"
  CheckPlatform
  EnsurePackages "$1"
  Step "Looking for libtorch >= $TORCH_MIN"
  FindTorch
  Step "Configuring"
}

# Presets: those that build, on one line.
Presets() {
  sed -n 's/.*{"name": "\([a-z]*\)", "configurePreset.*/\1/p' \
    "$TJIT_ROOT/CMakePresets.json" | paste -sd' ' -
}

# ParseArguments <preset> "$@": sets PRESET, the first unless another is asked
# for, JOBS and TORCH_CHOICE; what follows `--` goes into REST. Usage() must
# print the help.
ParseArguments() {
  PRESET=$1
  shift
  TORCH_CHOICE=
  JOBS=$(DefaultJobs)
  REST=()
  while (($# > 0)); do
    case $1 in
      --preset=* | --jobs=* | --torch=*)
        set -- "${1%%=*}" "${1#*=}" "${@:2}"
        ;;
      -j?*) set -- -j "${1#-j}" "${@:2}" ;;
    esac
    case $1 in
      --preset | --jobs | -j | --torch)
        (($# > 1)) || Die "$1 needs a value (see --help)."
        case $1 in
          --preset) PRESET=$2 ;;
          --torch) TORCH_CHOICE=$2 ;;
          *) JOBS=$2 ;;
        esac
        shift 2
        ;;
      -h | --help)
        Usage
        exit 0
        ;;
      --)
        REST=("${@:2}")
        break
        ;;
      *) Die "unknown argument '$1' (see --help)." ;;
    esac
  done
  # The scripts work in the project's folder, the caller names it from his.
  [[ -z $TORCH_CHOICE || $TORCH_CHOICE == own || $TORCH_CHOICE == /* ]] ||
    TORCH_CHOICE=$PWD/$TORCH_CHOICE
  [[ $JOBS =~ ^[1-9][0-9]*$ ]] ||
    Die "--jobs '$JOBS': a number of at least 1 is wanted."
  [[ " $(Presets) " == *" $PRESET "* ]] ||
    Die "--preset '$PRESET' is not one of: $(Presets)."
}
