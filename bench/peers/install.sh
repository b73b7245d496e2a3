#!/usr/bin/env bash
# Installs the peers of bench/peers/run.py into an environment of their own:
# torch (torch.compile, and the exporter of AOTInductor) and jax. Nothing
# outside that folder changes. Run it as often as you like: what is there in
# the right version stays.
set -euo pipefail

readonly TORCH=2.13.0 JAX=0.10.2 NUMPY=2.4.6
readonly TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly ROOT

Usage() {
  cat <<TEXT
bench/peers/install.sh [FOLDER]
Installs torch $TORCH and jax $JAX into FOLDER ($ROOT/.venv-peers).
TEXT
}

Die() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}

case ${1-} in
  -h | --help) Usage; exit ;;
  -*) Usage >&2; exit 2 ;;
esac
readonly VENV=${1:-$ROOT/.venv-peers}
[[ ! -e $VENV || -f $VENV/pyvenv.cfg ]] ||
  Die "$VENV is there and is no Python environment: name another folder."
if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
  python3 -m venv "$VENV" ||
    Die "python3 -m venv $VENV failed (see above): is python3-venv installed?"
fi

readonly PIP=("$VENV/bin/python" -m pip --disable-pip-version-check install -q)
# The wheel that tjit is built for: the CPU build, from where pip is set up to
# look, else from PyTorch's index.
"${PIP[@]}" "torch==$TORCH+cpu" "numpy==$NUMPY" 2>/dev/null ||
  "${PIP[@]}" --extra-index-url "$TORCH_CPU_INDEX" "torch==$TORCH+cpu" \
    "numpy==$NUMPY" ||
  Die "pip could not install torch $TORCH+cpu (see above)."
# Without jax the other peers can be measured: its rows are missing then.
"${PIP[@]}" "jax==$JAX" ||
  Die "pip could not install jax $JAX (see above); torch is there."
"$VENV/bin/python" - <<'PYTHON'
import jax, torch
print(f"peers: torch {torch.__version__}, jax {jax.__version__}")
PYTHON
