# In the virtual machine: a link of weft's and perftest, measured in turn, 20 times (or as many as
# /share/args says), each pair on the two devices; then medians and the middle half. Started by
#   WEFT_VM_PACKAGES=perftest:ib_write_bw WEFT_VM_SECONDS=1800 run.sh BUILD WORK guest-perftest.sh
. /share/guest-network.sh
read -r pairs </share/args
pairs=${pairs:-20}
bytes=1048576
messages=60
rounds=3000

await_port() {  # await_port PORT: somebody listens there
  hex=$(printf ':%04X ' "$1")
  tries=0
  until grep -q "$hex.* 0A " /proc/net/tcp /proc/net/tcp6; do
    tries=$((tries + 1))
    [ $tries -lt 150 ] || return 1
    sleep 0.1
  done
}

perftest() {  # perftest PROGRAM OPTIONS...: both ends; the client's line of figures
  taskset -c 1 timeout 120 "$@" -d rxb -x 1 -F -p 18515 >/dev/null 2>&1 &
  server=$!
  await_port 18515
  taskset -c 0 timeout 120 "$@" -d rxa -x 1 -F -p 18515 10.8.0.2 | grep -E '^ *[0-9]+ +[0-9]+ '
  wait $server
}

i=0
while [ $i -lt "$pairs" ]; do
  i=$((i + 1))
  weft=$(timeout 120 "$build/bin/verbs_link_speed" bandwidth $bytes $messages)
  # The fourth figure is the average, in units of 10^6 bytes (-R would be connections by rdma_cm).
  peer=$(perftest ib_write_bw -s $bytes -n $messages --report_gbits | awk '{ print $4 * 125 }')
  echo "bandwidth $weft $peer"
  weft=$(timeout 120 "$build/bin/verbs_link_speed" latency 8 $rounds)
  # The sixth is the average.
  peer=$(perftest ib_write_lat -s 8 -n $rounds | awk '{ print $6 }')
  echo "latency $weft $peer"
done | tee /share/pairs

spread() {  # spread WHAT COLUMN: the lower quartile, median and upper quartile of a column
  awk -v what="$1" -v column="$2" '$1 == what { print $column }' /share/pairs | sort -n |
    awk '{ v[NR] = $1 } END { print v[int((NR + 3) / 4)], v[int((NR + 1) / 2)], v[int((3 * NR + 1) / 4)] }'
}
awk '$2 > 0 && $3 > 0 { print $1 "-ratio", $2 / $3 }' /share/pairs >>/share/pairs.ratios
cat /share/pairs.ratios >>/share/pairs
for what in bandwidth latency; do
  echo "$what, weft: $(spread $what 2); perftest: $(spread $what 3); weft / perftest by pair:" \
    "$(spread $what-ratio 2) (quartile, median, quartile)"
done
