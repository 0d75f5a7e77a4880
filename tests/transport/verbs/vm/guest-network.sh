# For scripts in the virtual machine: two RDMA devices, rxa and rxb, whose packets cross a pair of
# virtual network cards, va (10.8.0.1) and vb (10.8.0.2). Both stay in one network namespace: this
# kernel's rdma_rxe knows no other.

# Other drivers' libraries would be tried for every process.
for driver in /etc/libibverbs.d/*.driver; do
  [ "$driver" = /etc/libibverbs.d/rxe.driver ] || rm -f "$driver"
done

ip link set lo up
ip link add va mtu 4400 type veth peer name vb mtu 4400
ip addr add 10.8.0.1/24 dev va
ip addr add 10.8.0.2/24 dev vb
for card in all va vb; do
  echo 1 >/proc/sys/net/ipv4/conf/$card/accept_local
  echo 0 >/proc/sys/net/ipv4/conf/$card/rp_filter
done
ip link set va up
ip link set vb up
rdma link add rxa type rxe netdev va || exit 90
rdma link add rxb type rxe netdev vb || exit 90

# Entry 1 of a device's table is its IPv4 address, once the kernel has put it there.
await_gid() {
  tries=0
  until read -r gid <"/sys/class/infiniband/$1/ports/1/gids/1" 2>/dev/null && [ "${gid##*:}" = "$2" ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || exit 91
    sleep 0.1
  done
}
await_gid rxa 0001
await_gid rxb 0002

# rdma_rxe works in softirqs, which ranks that poll starve where they have no priority.
for process in /proc/[0-9]*; do
  read -r name <"$process/comm" && case $name in
    ksoftirqd/*) chrt -f -p 50 "${process#/proc/}" ;;
  esac
done
ulimit -l unlimited
read -r build </share/build
export WEFT_TUNING=off XDG_CACHE_HOME=/tmp/cache

crossed() { read -r count <"/sys/class/net/$1/statistics/tx_packets"; echo "$count"; }
