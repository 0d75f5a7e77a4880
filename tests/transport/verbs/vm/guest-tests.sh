# What `make test-verbs` runs in the virtual machine; /share/args may name some of the parts.
. /share/guest-network.sh
read -r parts </share/args
failed=0

part() {  # part NAME COMMAND...
  name=$1
  shift
  case " ${parts:-$name} " in *" $name "*) ;; *) return ;; esac
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
tc qdisc add dev va root netem loss 1%
part loss "$build/bin/verbs_job_test" $quiet --gtest_filter=*OneSize*
tc -s qdisc show dev va | grep -o 'dropped [0-9]*'
tc qdisc del dev va root
part link_down "$build/bin/verbs_job_test" $quiet --gtest_filter=*LinkDown* --link-down "ip link set va down"
exit $failed
