#!/usr/bin/env bash
# Compares weft with Open MPI, MPICH and Gloo, as far as they are installed, over shared memory and
# over TCP: compare.sh WEFT_BENCH FOLDER. The tables are printed; FOLDER gets them, too, and of each
# comparison the JSON and a plot. What is measured can be changed by environment:
#   RANKS="2 4 8"   of every comparison           MAX=256M    largest message
#   FACTOR=2        from one size to the next     ROUNDS=9    of every library, in turn
#   ONLY="shm-2-all_reduce"   comparisons to make, as the files are named
set -euo pipefail
program=$1 folder=$2
: "${RANKS:=2}" "${MAX:=16M}" "${FACTOR:=4}" "${ROUNDS:=5}" "${ONLY:=}"
mkdir -p "$folder"
worst=0

compare() {  # compare TRANSPORT RANKS COLLECTIVE
  local name=$1-$2-$3 status=0
  [ -z "$ONLY" ] || [[ " $ONLY " == *" $name "* ]] || return 0
  echo "== $name"
  "$program" "$3" --vs all --transport "$1" --ranks "$2" -b 8 -e "$MAX" -f "$FACTOR" \
    --rounds "$ROUNDS" -J "$folder/$name.json" --plot "$folder/$name.svg" |
    tee "$folder/$name.txt" || status=$?
  [ "$status" -le "$worst" ] || worst=$status
}

for ranks in $RANKS; do
  for collective in all_reduce broadcast reduce all_gather reduce_scatter all_to_all; do
    compare shm "$ranks" "$collective"
  done
  compare tcp "$ranks" all_reduce
done
echo "The tables, JSON and plots are in $folder."
exit "$worst"
