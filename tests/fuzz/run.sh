#!/usr/bin/env bash
# Fuzzes every target of a build with -DWEFT_FUZZ=ON. Usage: run.sh BUILD_FOLDER [RUNS [KEEP_FOLDER]]
# With KEEP_FOLDER new inputs that reach new code are kept there, one folder per target; a crash
# leaves its input in the build folder. Prints what each target has covered.
set -euo pipefail
build=$(cd "$1" && pwd) runs=${2:-1000000} keep=${3:-}
corpus=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/corpus
failed=()
printf '%-12s %10s %8s %9s %8s\n' target runs edges features exec/s
for target in "$build"/bin/fuzz_*; do
  name=${target##*/fuzz_}
  found=${keep:+$keep/$name}
  found=${found:-$(mktemp -d)}
  mkdir -p "$found"
  log=$build/fuzz_$name.log
  if ! (cd "$build" && "$target" -runs="$runs" -timeout=10 -rss_limit_mb=2048 -max_len=8192 \
      -print_final_stats=1 -artifact_prefix="$build/crash_$name-" "$found" "$corpus/$name" >"$log" 2>&1); then
    failed+=("$name")
    tail -40 "$log"
  fi
  last=$(grep -E '^#[0-9]+.*cov: ' "$log" | tail -1)
  printf '%-12s %10s %8s %9s %8s\n' "$name" "$(grep -oP 'number_of_executed_units: \K\d+' "$log" || echo 0)" \
    "$(grep -oP 'cov: \K\d+' <<<"$last")" "$(grep -oP 'ft: \K\d+' <<<"$last")" \
    "$(grep -oP 'average_exec_per_sec: +\K\d+' "$log" || echo 0)"
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}; inputs are $build/crash_*"; exit 1; }
