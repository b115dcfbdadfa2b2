#!/usr/bin/env bash
# Makes a fresh checkout ready on Debian 12: system packages, .venv, and braze built into build/.
# ./demo and ./check source this file and call braze_setup; run alone it does the same. Nothing changed: about a second.

BRAZE_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
BRAZE_PYTHON="$BRAZE_ROOT/.venv/bin/python"

# llvm-19-dev brings LLVM's own needs (ffi, xml2, z3); zstd, zlib and xxhash are named in its or our link line.
BRAZE_PACKAGES=(g++ ccache git libc6-dev llvm-19-dev clang-format-19 libxxhash-dev libzstd-dev zlib1g-dev libz3-dev
  libxml2-dev libffi-dev doctest-dev binutils python3-venv python3-dev libpython3.11-testsuite)

# One compiler by one name for CMake and for the wheel's build, which would else take the one that built Python.
export CC="${CC:-gcc}" CXX="${CXX:-g++}"
# Two build trees compile the same files; ccache must see through their different paths and through precompiled headers.
export CCACHE_BASEDIR="$BRAZE_ROOT" CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

braze_fail() {
  echo "braze: $*" >&2
  return 1
}

# Reads what a long command prints and shows how far it is: in place on a terminal, else at every fifth of the way.
#   COMMAND | braze_progress WHAT PATTERN TOTAL    lines like PATTERN are steps; [3/40] at their start says it better
# Other lines are shown if they say that something is wrong.
braze_progress() {
  awk -v what="$1" -v pattern="$2" -v total="$3" -v terminal="$([ -t 1 ] && echo 1)" '
    function clear() { if (terminal && step) printf "\r\033[K" }
    $0 ~ pattern {
      step++
      if (match($0, /^\[[0-9]+\/[0-9]+\]/)) {
        split(substr($0, 2, RLENGTH - 2), parts, "/")
        step = parts[1]; total = parts[2]
      }
      if (total < step) total = step
      if (terminal) printf "\rbraze: %s, %d of %d\033[K", what, step, total
      else if (5 * step >= (shown + 1) * total) { shown = int(5 * step / total); print "braze: " what ", " step " of " total }
      fflush(); next
    }
    /[Ee]rror|ERROR|FAILED|[Ww]arning|^E: / { said = 1 }
    said { clear(); print; fflush() }
    END { clear() }'
}

braze_as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo > /dev/null; then
    sudo "$@"
  else
    braze_fail "installing packages needs root, and there is no sudo. As root: apt-get install ${BRAZE_PACKAGES[*]}"
  fi
}

braze_system_packages() {
  command -v dpkg-query > /dev/null || braze_fail "this set-up is for Debian 12; elsewhere see README.md" || return 1
  local package missing=()
  local installed
  installed="$(dpkg-query -W -f='${Package} ${db:Status-Abbrev}\n' "${BRAZE_PACKAGES[@]}" 2> /dev/null | awk '$2 == "ii" {print $1}')"
  for package in "${BRAZE_PACKAGES[@]}"; do
    grep -qx "$package" <<< "$installed" || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return 0
  echo "braze: installing ${missing[*]}"
  braze_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq || return 1
  local steps
  steps="$(apt-get install -s --no-install-recommends "${missing[@]}" 2> /dev/null | grep -c '^Inst')"
  (
    set -o pipefail
    braze_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" 2>&1 \
      | grep -v '^debconf: ' | braze_progress "setting up Debian's packages" '^Setting up ' "$steps"
  )
}

# A Python 3.11 with headers and venv. Debian's own comes first: `python3` may be any version put before it in PATH.
braze_find_python() {
  local candidate
  for candidate in /usr/bin/python3.11 python3.11 python3; do
    "$candidate" - > /dev/null 2>&1 << 'PY' || continue
import ensurepip, os, sys, sysconfig, venv
ok = sys.version_info[:2] == (3, 11) and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
sys.exit(0 if ok else 1)
PY
    command -v "$candidate"
    return 0
  done
  braze_fail "no Python 3.11 with headers and venv was found (Debian 12: apt-get install python3-venv python3-dev)"
}

# .venv with the pinned packages; the stamp holds what it was made from. The .pth makes `import braze` work anywhere.
braze_venv() {
  local wanted stamp="$BRAZE_ROOT/.venv/braze-stamp"
  wanted="$BRAZE_ROOT $(sha256sum < "$BRAZE_ROOT/tools/requirements.txt")"
  [ -x "$BRAZE_PYTHON" ] && [ "$(cat "$stamp" 2> /dev/null)" = "$wanted" ] && return 0
  if ! [ -x "$BRAZE_PYTHON" ]; then
    local python
    python="$(braze_find_python)" || return 1
    "$python" -m venv "$BRAZE_ROOT/.venv" || return 1
  fi
  echo "braze: installing Python packages into .venv"
  (
    set -o pipefail
    "$BRAZE_PYTHON" -m pip install --disable-pip-version-check -r "$BRAZE_ROOT/tools/requirements.txt" 2>&1 \
      | braze_progress "Python's packages" '^Collecting ' "$(grep -c '^[a-zA-Z]' "$BRAZE_ROOT/tools/requirements.txt")"
  ) || return 1
  echo "$BRAZE_ROOT/python" > "$("$BRAZE_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/braze.pth"
  echo "$wanted" > "$stamp"
}

# braze_configure DIRECTORY OPTION...: again only if the options or the packages changed.
braze_configure() {
  local directory="$BRAZE_ROOT/$1" wanted
  shift
  wanted="$* $(cat "$BRAZE_ROOT/.venv/braze-stamp")"
  [ -e "$directory/build.ninja" ] && [ "$(cat "$directory/braze-stamp" 2> /dev/null)" = "$wanted" ] && return 0
  "$BRAZE_ROOT/.venv/bin/cmake" -G Ninja -S "$BRAZE_ROOT" -B "$directory" --log-level=WARNING \
    -DCMAKE_MAKE_PROGRAM="$BRAZE_ROOT/.venv/bin/ninja" -DPython_EXECUTABLE="$BRAZE_PYTHON" "$@" || return 1
  echo "$wanted" > "$directory/braze-stamp"
}

# braze_build DIRECTORY TARGET...: prints how far it is, and what fails.
braze_build() {
  local directory="$BRAZE_ROOT/$1"
  shift
  (
    set -o pipefail
    "$BRAZE_ROOT/.venv/bin/ninja" -C "$directory" "$@" | braze_progress building '^\\[[0-9]+/[0-9]+\\]' 1
  )
}

braze_setup() {
  braze_system_packages && braze_venv && braze_configure build && braze_build build _C
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  braze_setup || exit 1
fi
