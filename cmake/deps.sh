#!/usr/bin/env bash
# Looks for what weft needs to build and, on Debian or Ubuntu, installs what is missing.
#   cmake/deps.sh [PACKAGE[:PROGRAM]...]     also these, each looked for by the program, header (NAME.h,
#                                            NAME.hpp) or file (/PATTERN) that it holds; without one by
#                                            its own name
# WEFT_NO_INSTALL=1: only says what is missing. CXX, CMAKE_PREFIX_PATH and CPATH are honoured.
set -euo pipefail

at_least() {  # at_least WANTED FOUND
  [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

have() { command -v "$1" >/dev/null 2>&1; }

# A program, or a header.
have_part() {
  case $1 in
    *.h | *.hpp) compiler_fits &&
      [ "$(printf '#if __has_include(<%s>)\nhere\n#endif\n' "$1" | preprocess)" = here ] ;;
    /*) compgen -G "$1" >/dev/null ;;
    *) have "$1" ;;
  esac
}

cmake_fits() { have cmake && at_least 3.25 "$(cmake --version | sed -n '1s/[^0-9]*//p')"; }

read -r -a compiler <<<"${CXX:-g++}"  # maybe "ccache g++"

compiler_fits() {
  "${compiler[@]}" --version >/dev/null 2>&1 || return 1
  [ -n "${CXX:-}" ] || at_least 12 "$(g++ -dumpversion)"
}

# What the preprocessor leaves of standard input.
preprocess() {
  local where=() path
  IFS=':;' read -r -a prefixes <<<"${CMAKE_PREFIX_PATH:-}"
  for path in "${prefixes[@]}"; do where+=(-I "$path/include"); done
  "${compiler[@]}" -std=c++20 "${where[@]}" -E -P -x c++ - | grep -v '^$' || true
}

# Packages whose header the compiler does not find, one a line.
missing_headers() {
  preprocess <<'END'
#if !__has_include(<nlohmann/json.hpp>)
nlohmann-json3-dev
#endif
#if !__has_include(<openssl/ssl.h>)
libssl-dev
#endif
#if !__has_include(<gtest/gtest.h>)
libgtest-dev
#endif
#if !__has_include(<benchmark/benchmark.h>)
libbenchmark-dev
#endif
#if !__has_include(<CLI/CLI.hpp>)
libcli11-dev
#endif
#if !__has_include(<infiniband/verbs.h>)
libibverbs-dev
#endif
END
}

# Everything missing, one package a line.
missing() {
  cmake_fits || echo cmake
  have make || have ninja || echo make
  have python3 || echo python3
  if compiler_fits; then
    missing_headers
  else
    printf '%s\n' g++ nlohmann-json3-dev libssl-dev libgtest-dev libbenchmark-dev libcli11-dev \
      libibverbs-dev
  fi
  local program
  for program in "$@"; do have_part "${program#*:}" || echo "${program%%:*}"; done
}

say() { echo "weft: $*" >&2; }

if [ -n "${CXX:-}" ] && ! compiler_fits; then
  say "CXX is '$CXX', which does not run here. Set it to a compiler that is installed, or unset it for g++."
  exit 1
fi
mapfile -t wanted < <(missing "$@")
[ ${#wanted[@]} -gt 0 ] || exit 0

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
line="${as_root[*]:+sudo }apt-get install -y --no-install-recommends ${wanted[*]}"
if [ "${WEFT_NO_INSTALL:-0}" = 1 ] || ! have apt-get; then
  say "missing: ${wanted[*]}. On Debian or Ubuntu: $line"
  exit 1
fi
if [ "${#as_root[@]}" -gt 0 ] && ! have sudo; then
  say "missing: ${wanted[*]}. This needs root, and there is no sudo. As root: $line"
  exit 1
fi

say "installing ${wanted[*]} (WEFT_NO_INSTALL=1 turns this off)"
export DEBIAN_FRONTEND=noninteractive
keep=(env DEBIAN_FRONTEND=noninteractive)
"${as_root[@]}" "${keep[@]}" apt-get update -qq
"${as_root[@]}" "${keep[@]}" apt-get install -y -qq --no-install-recommends "${wanted[@]}"

mapfile -t wanted < <(missing "$@")
if [ ${#wanted[@]} -gt 0 ]; then
  say "still missing after installing: ${wanted[*]}. weft needs cmake 3.25 or newer and g++ 12 or" \
      "newer, as in Debian 12 and Ubuntu 24.04; install them by hand (CXX=... names another compiler)."
  exit 1
fi
