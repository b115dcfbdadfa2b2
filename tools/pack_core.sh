#!/usr/bin/env bash
# Packs braze's core library for a machine without LLVM:   tools/pack_core.sh DIRECTORY
# Built here (./setup.sh), stripped, with the list of what it needs from the system. tools/build_torch211.sh takes it there.
set -euo pipefail
into="${1:?usage: tools/pack_core.sh DIRECTORY}"
cd "$(dirname "$0")/.."
. ./setup.sh
braze_setup
mkdir -p "$into"
strip --strip-unneeded -o "$into/libbraze_core.so" python/braze/lib/libbraze_core.so

# The other machine has only what every Linux has: anything else must be inside the library.
needed="$(readelf -d "$into/libbraze_core.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')"
foreign="$(grep -v -E '^(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|ld-linux-x86-64)\.so' <<< "$needed" || true)"
[ -z "$foreign" ] || { echo "libbraze_core.so needs libraries that the other machine may lack:" $foreign >&2; exit 1; }
size="$(stat -c %s "$into/libbraze_core.so")"
[ "$size" -lt 50000000 ] || { echo "libbraze_core.so has $size bytes stripped, limit 50,000,000" >&2; exit 1; }
echo "$into/libbraze_core.so: $((size / 1000000)) MB, needs" $needed
