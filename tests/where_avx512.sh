#!/usr/bin/env bash
# Runs a test that goes on as on a processor without AVX-512, where that is
# another processor than this one. Elsewhere the test of all kernels has just
# done the same.
#
#   where_avx512.sh PROGRAM [ARGUMENT...]
#
# Status 77, which ctest counts as skipped, on a processor without AVX-512.
set -euo pipefail
if ! grep -qw avx512f /proc/cpuinfo; then
  echo "skipped: this processor has no AVX-512, so $(basename "$1") alone" \
    "runs the same kernels"
  exit 77
fi
exec "$@"
