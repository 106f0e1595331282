#!/bin/sh
# Runs this bundle on the GPU of this machine. No Rust, no CUDA toolkit: only the driver, and a C library new enough.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
need=@GLIBC@
have=$(ldd --version 2>&1 | sed -n '1s/^.*[^0-9.]\([0-9][0-9]*\.[0-9][0-9]*\).*$/\1/p')
if [ -z "$have" ]; then
    echo "this bundle needs glibc $need or newer, and ldd says nothing about glibc here" >&2
    exit 1
fi
oldest=$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -n 1)
if [ "$oldest" != "$need" ]; then
    echo "this bundle needs glibc $need or newer; this machine has $have" >&2
    exit 1
fi
exec "$here/bin/gpu-run" --bundle "$here" "$@"
