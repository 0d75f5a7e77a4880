#!/usr/bin/env bash
# Fuzzes every target of a build with -DWEFT_FUZZ=ON. Usage: run.sh BUILD_FOLDER [RUNS [KEEP_FOLDER]]
# With KEEP_FOLDER new inputs that reach new code are kept there, one folder per target; a crash
# leaves its input in the build folder. Prints what each target has covered. JOBS targets at a time,
# each for FUZZ_SECONDS at most, where that is given.
set -euo pipefail
build=$(cd "$1" && pwd) runs=${2:-1000000}
corpus=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/corpus
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
keep=${3:-$scratch}

# fuzz TARGET: one line about it, and where it fails the end of its log.
fuzz() {
  local name=${1##*/fuzz_} status=0 last
  local log=$build/fuzz_$name.log found=$keep/$name
  mkdir -p "$found"
  (cd "$build" && "$1" -runs="$runs" -max_total_time="${FUZZ_SECONDS:-0}" -timeout=10 -rss_limit_mb=2048 -max_len=8192 \
    -print_final_stats=1 -artifact_prefix="$build/crash_$name-" "$found" "$corpus/$name" >"$log" 2>&1) || status=1
  last=$(grep -E '^#[0-9]+.*cov: ' "$log" | tail -1)
  printf '%-12s %10s %8s %9s %8s\n' "$name" "$(grep -oP 'number_of_executed_units: \K\d+' "$log" || echo 0)" \
    "$(grep -oP 'cov: \K\d+' <<<"$last")" "$(grep -oP 'ft: \K\d+' <<<"$last")" \
    "$(grep -oP 'average_exec_per_sec: +\K\d+' "$log" || echo 0)"
  [ "$status" -eq 0 ] || { tail -40 "$log"; echo "failed: $name; its input is $build/crash_$name-*"; }
  return "$status"
}
export -f fuzz
export build runs corpus keep

printf '%-12s %10s %8s %9s %8s\n' target runs edges features exec/s
printf '%s\0' "$build"/bin/fuzz_* | xargs -0 -n 1 -P "${JOBS:-$(nproc)}" bash -c 'fuzz "$0"'
