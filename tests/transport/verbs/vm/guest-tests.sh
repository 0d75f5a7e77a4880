# What `make test-verbs` runs in the virtual machine; /share/args may name some of the parts.
. /share/guest-network.sh
read -r parts </share/args
failed=0

wanted() { case " ${parts:-$1} " in *" $1 "*) ;; *) return 1 ;; esac }

part() {  # part NAME COMMAND...
  name=$1
  shift
  wanted "$name" || return 0
  read -r begin rest </proc/uptime
  echo "=== $name: $*"
  timeout 240 "$@"
  status=$?
  read -r end rest </proc/uptime
  echo "=== $name: status $status, ${begin%.*} s to ${end%.*} s"
  [ $status = 0 ] || failed=1
}

quiet="--gtest_brief=1"
part conformance "$build/bin/verbs_device_test" $quiet
part collectives "$build/bin/verbs_job_test" $quiet --gtest_filter=-*LinkDown*
echo "=== $(crossed va) packets have left card va"
[ -n "$parts" ] || [ "$(crossed va)" -gt 1000 ] || failed=1
part bench "$build/bin/weft-bench" all_reduce --transport verbs --ranks 2 -b 8 -e 1M -f 32
if wanted loss; then
  tc qdisc add dev va root netem loss 1% || failed=1
  part loss "$build/bin/verbs_job_test" $quiet --gtest_filter=*OneSize*
  dropped=$(tc -s qdisc show dev va | sed -n 's/.*dropped \([0-9][0-9]*\).*/\1/p' | head -n 1)
  echo "=== ${dropped:-0} packets have been dropped"
  [ "${dropped:-0}" -gt 0 ] || failed=1
  tc qdisc del dev va root
fi
part link_down "$build/bin/verbs_job_test" $quiet --gtest_filter=*LinkDown* --link-down "ip link set va down"
exit $failed
