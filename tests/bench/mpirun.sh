#!/usr/bin/env bash
# weft-bench started by a real mpirun, without an option of ours: mpirun.sh FLAVOUR WEFT_BENCH
# 77 (skipped) where that mpirun is not installed.
set -euo pipefail
flavour=$1 program=$2
mpirun=mpirun.$flavour
command -v "$mpirun" >/dev/null || { echo "skipped: $mpirun is not installed"; exit 77; }
options=()
[ "$flavour" != openmpi ] || options=(--allow-run-as-root --oversubscribe)

report=$(mktemp)
trap 'rm -f "$report"' EXIT
timeout 120 "$mpirun" "${options[@]}" -n 4 "$program" all_reduce -b 8 -e 64K -f 8 -n 2 -J "$report"
python3 - "$report" <<'END'
import json, sys
report = json.load(open(sys.argv[1]))
ranks = report["run"]["ranks"]
assert len(ranks) == 4, f"not one job of 4 ranks: {ranks}"
assert len({rank["pid"] for rank in ranks}) == 4, f"not 4 processes: {ranks}"
assert report["run"]["launcher"] in ("openmpi", "pmi"), report["run"]["launcher"]
assert report["totals"]["rows"] == 5 and report["totals"]["out_of_bounds"] == 0, report["totals"]
END
