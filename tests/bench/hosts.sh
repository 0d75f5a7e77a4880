#!/bin/bash
# weft-bench over two and three hosts, played by network namespaces on one switch, as docs/weft-bench.md
# says: one command on each. hosts.sh WEFT_BENCH. Needs root and ip(8); exits with 77 where it cannot
# run.
set -u
bench=$1
for program in ip unshare python3; do
  command -v $program >/dev/null || { echo "$program is not installed"; exit 77; }
done
switch=wefts$$
work=$(mktemp -d)
cleanup() {
  for host in a b c; do ip netns del weft$host$$ 2>/dev/null; done
  ip netns del $switch 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
{ ip netns add $switch && ip -n $switch link add switch type bridge && ip -n $switch link set switch up; } \
  2>/dev/null || { echo "network namespaces cannot be made here"; exit 77; }
number=0
for host in a b c; do
  number=$((number + 1))
  { ip netns add weft$host$$ &&
    ip link add eth0 netns weft$host$$ type veth peer name port$host netns $switch &&
    ip -n $switch link set port$host master switch up &&
    ip -n weft$host$$ addr add 10.92.0.$number/24 dev eth0 &&
    ip -n weft$host$$ link set eth0 up && ip -n weft$host$$ link set lo up; } 2>/dev/null ||
    { echo "network namespaces cannot be joined here"; exit 77; }
done

failed=0
fail() {
  echo "FAILED: $*"
  tail -n 5 "$work"/*.said
  failed=1
}

# on HOST ARGUMENTS...: weft-bench there, its output in HOST.said, its exit status in HOST.status.
on() {
  local host=$1
  shift
  timeout 100 ip netns exec weft$host$$ unshare -u sh -c 'hostname "$0" && exec "$@"' \
    "host-$host" "$bench" "$@" >"$work/$host.said" 2>&1
  echo $? >"$work/$host.status"
}

# job TRANSPORTS RANKS HOST=FIRST-LAST...: everything, checked, on these hosts.
job() {
  local transports=$1 ranks=$2 hosts="" one results
  shift 2
  rm -f "$work"/*
  for one in "$@"; do
    hosts="$hosts ${one%=*}"
    case ${one#*=} in 0 | 0-*) results="-J $work/rank0.json" ;; *) results="" ;; esac
    on "${one%=*}" all -b 1 -e 2K -f 7 -n 1 -w 0 -c 1 -T 60 --ranks "$ranks" --here "${one#*=}" \
      --meet 10.92.0.1:29400 $results &
  done
  wait
  for one in $hosts; do
    [ "$(cat "$work/$one.status")" = 0 ] || fail "$*: exit status $(cat "$work/$one.status") on host $one"
  done
  python3 - "$work/rank0.json" "$transports" "$@" <<'PYTHON' || fail "$*: not what was expected"
import json, sys
path, transports, *parts = sys.argv[1:]
run = json.load(open(path))
hosts = []
for part in parts:
    host, ranks = part.split("=")
    first, _, last = ranks.partition("-")
    hosts += ["host-" + host] * (int(last or first) - int(first) + 1)
assert [rank["host"] for rank in run["run"]["ranks"]] == hosts, run["run"]["ranks"]
assert len({row["collective"] for row in run["rows"]}) == 16, "not every operation"
for row in run["rows"]:
    assert row["out_of_place"]["wrong"] == 0 and (row.get("in_place") or {"wrong": 0})["wrong"] == 0, row
used = {row["transports"] for row in run["rows"]}
assert transports in used, f"only {used}"
assert run["totals"]["out_of_bounds"] == 0, run["totals"]
PYTHON
}

job shm+tcp 4 a=0-1 b=2-3
job shm+tcp 4 a=0 b=1-3
job shm+tcp 5 a=0-1 b=2 c=3-4
job tcp 3 a=0 b=1 c=2

# Host b never comes: every rank of the others ends in time and says who is missing.
rm -f "$work"/*
begin=$SECONDS
for one in a=0 c=3-4; do
  on "${one%=*}" all_reduce -T 4 --ranks 5 --here "${one#*=}" --meet 10.92.0.1:29400 &
done
wait
[ $((SECONDS - begin)) -le 20 ] || fail "a job without host b took $((SECONDS - begin)) s"
for host in a c; do
  [ "$(cat "$work/$host.status")" = 3 ] || fail "without host b: exit status on host $host"
done
for said in a:0 c:3 c:4; do
  grep -q "rank ${said#*:}: timeout: Ranks 1, 2 of 5 did not come" "$work/${said%:*}.said" ||
    fail "without host b: rank ${said#*:} does not say that ranks 1 and 2 are missing"
done

# Rank 0's host never comes: nobody can know more than that.
rm -f "$work"/*
on b all_reduce -T 3 --ranks 4 --here 2-3 --meet 10.92.0.1:29400
[ "$(cat "$work/b.status")" = 3 ] || fail "without host a: exit status on host b"
grep -q "10.92.0.1:29400" "$work/b.said" || fail "without host a: the place is not named"
exit $failed
