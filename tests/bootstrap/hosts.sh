#!/bin/sh
# A job of the real mpirun over two hosts, played by two network namespaces: hosts.sh LAUNCHER MEET.
# Needs root and ip(8); exits with 77 where it cannot run.
set -u
launcher=$1 meet=$2
command -v ip >/dev/null && command -v unshare >/dev/null && command -v "mpirun.$launcher" >/dev/null ||
  { echo "ip, unshare or mpirun.$launcher is not installed"; exit 77; }
near=weftn$$ far=weftf$$
work=$(mktemp -d)
cleanup() {
  ip netns del $near 2>/dev/null
  ip netns del $far 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
{ ip netns add $near && ip netns add $far &&
  ip link add veth0 netns $near type veth peer name veth0 netns $far; } 2>/dev/null ||
  { echo "network namespaces cannot be made here"; exit 77; }
ip -n $near addr add 10.91.0.1/24 dev veth0
ip -n $far addr add 10.91.0.2/24 dev veth0
for host in $near $far; do ip -n $host link set lo up && ip -n $host link set veth0 up; done

# What mpirun takes for ssh: options, a host's name, a command.
cat > "$work/agent" <<'AGENT'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare -u sh -c "hostname $host; $*"
AGENT
chmod +x "$work/agent"

failed=0
for order in "$near:2,$far:2" "$far:2,$near:2" "$near:1,$far:3"; do
  case $launcher in
    openmpi) command="mpirun.openmpi --allow-run-as-root --oversubscribe \
                        --mca plm_rsh_agent $work/agent --host $order" ;;
    mpich) command="mpirun.mpich -launcher ssh -launcher-exec $work/agent -localhost 10.91.0.1 \
                      -hosts $order" ;;
  esac
  said=$(TMPDIR="$work" timeout 60 ip netns exec $near unshare -u \
           sh -c "hostname $near; $command -n 4 $meet" 2>&1 | sort | tee "$work/all" |
           grep -E "^[0-9]+ (openmpi|pmi): " | cut -d: -f2)  # not what mpirun itself may remark
  wanted=" 0+0 0+1 0+2 0+3"
  if [ "$said" != "$(printf '%s\n%s\n%s\n%s' "$wanted" "$wanted" "$wanted" "$wanted")" ]; then
    printf 'hosts %s said:\n%s\n' "$order" "$(cat "$work/all")"
    failed=1
  fi
done
exit $failed
