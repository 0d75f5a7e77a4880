#!/usr/bin/env bash
# Runs the verbs tests on real queue pairs without RDMA hardware: Debian's kernel with its software
# RoCE (rdma_rxe) in a virtual machine, on this machine's files, read-only.
#   run.sh BUILD WORK [GUEST_SCRIPT]    the tests of BUILD; WORK keeps the kernel between runs
# Exits as the script in the guest does; 77, with a reason, where there can be no such machine.
# WEFT_VM_SECONDS=600: when to give up.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../../.." && pwd)
build=$(realpath "$1")
mkdir -p "$2"
work=$(realpath "$2")
guest=$(realpath "${3:-$here/guest-tests.sh}")
share=$work/share

say() { echo "test-verbs: $*" >&2; }
skip() { say "skipped: $*"; exit 77; }

packages=(qemu-system-x86:qemu-system-x86_64 busybox-static:/bin/busybox cpio kmod:/sbin/modprobe
  iproute2:ip util-linux:chrt 'ibverbs-providers:/usr/lib/*/libibverbs/librxe-*.so')
extra=()
[ -z "${WEFT_VM_PACKAGES:-}" ] || read -r -a extra <<<"$WEFT_VM_PACKAGES"

# The package's modules and kernel image, unpacked, not installed. The image is an ELF file packed
# with xz: unpacked once here instead of in every boot.
fetch_kernel() {
  [ -f "$work/vmlinux" ] && return 0
  have_apt=$(command -v apt-get) || skip "the kernel comes from Debian's packages, and there is no apt-get"
  local package
  package=$(apt-cache depends linux-image-amd64 2>/dev/null |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  [ -n "$package" ] || skip "apt-cache knows no linux-image-amd64 (is this Debian, on x86-64?)"
  say "fetching $package with $have_apt"
  (cd "$work" && timeout 300 apt-get download -q "$package" >/dev/null 2>&1) ||
    skip "$package cannot be downloaded"
  rm -rf "$work/kernel"
  mkdir -p "$work/kernel"
  dpkg-deb --fsys-tarfile "$work/$package"_*.deb | tar -x -C "$work/kernel" ./boot ./lib
  rm -f "$work/$package"_*.deb
  /sbin/depmod -b "$work/kernel" "${package#linux-image-}" 2>/dev/null
  echo "${package#linux-image-}" >"$work/version"
  python3 - "$work/kernel/boot/vmlinuz-${package#linux-image-}" "$work/vmlinux" <<'END'
import lzma, pathlib, sys
image = pathlib.Path(sys.argv[1]).read_bytes()
start = -1
while (start := image.find(b"\xfd7zXZ\0", start + 1)) >= 0:
    try:
        kernel = lzma.LZMADecompressor().decompress(image[start:])
    except lzma.LZMAError:
        continue
    if kernel.startswith(b"\x7fELF"):
        pathlib.Path(sys.argv[2]).write_bytes(kernel)
        sys.exit()
sys.exit("no kernel packed with xz in the image")
END
}

# Busybox, modules in the order of their dependencies, and init.
make_initramfs() {
  local tree=$work/initramfs version module
  version=$(cat "$work/version")
  rm -rf "$tree"
  mkdir -p "$tree"/{bin,dev,proc,sys,modules,root,host,upper}
  cp /bin/busybox "$tree/bin/"
  install -m 755 "$here/init" "$tree/init"
  # The crypto ones are asked for by name when a device is made, which dependencies do not show.
  for module in crc32_generic crc32c_generic virtio_pci 9pnet_virtio 9p overlay ib_uverbs sch_netem \
    rdma_rxe veth; do
    /sbin/modprobe -d "$work/kernel" -S "$version" --show-depends "$module" | sed -n 's/^insmod //p'
  done | awk '!seen[$1]++ { print $1 }' | while read -r module; do
    cp "$module" "$tree/modules/"
    basename "$module" >>"$tree/modules/order"
  done
  (cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs.gz"
}

# describe ACCELERATOR CPU SECONDS WORDS...: what boots a machine, in `machine`; the words go to the
# kernel's command line. (An emulated processor's clock is used though nobody vouches for it: others
# cost microseconds a look.)
describe() {
  local accelerator=$1 cpu=$2 seconds=$3
  shift 3
  machine=(timeout -k 5 "$seconds" qemu-system-x86_64 -machine q35 -accel "$accelerator" \
    -cpu "$cpu" -m 2048 -smp 2 -nodefaults -no-user-config -display none -serial stdio -no-reboot \
    -kernel "$work/vmlinux" -initrd "$work/initramfs.gz" \
    -append "console=ttyS0 panic=-1 quiet mitigations=off tsc=reliable clocksource=tsc $*" \
    -device isa-debug-exit,iobase=0xf4,iosize=0x04 \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
    -virtfs local,path="$share",mount_tag=share,security_model=none)
}

# Boots `machine`, and waits for its end. One that is emulated has hung before it came to init: then
# once more, twice at most.
boot() {
  local try process second
  for try in 1 2 3; do
    rm -f "$share/booted"
    "${machine[@]}" </dev/null &
    process=$!
    for ((second = 0; second < 150; ++second)); do
      [ ! -f "$share/booted" ] && kill -0 "$process" 2>/dev/null || break
      sleep 1
    done
    if [ -f "$share/booted" ] || ! kill -0 "$process" 2>/dev/null; then
      wait "$process" || true
      return
    fi
    say "the machine has not booted in $second s (try $try)"
    kill "$process" || true  # it may just have ended
    wait "$process" || true
  done
}

# A /dev/kvm may be there and not work: it has to boot once, quickly.
accelerator() {
  describe kvm host 15 weft_probe
  if [ -w /dev/kvm ] && "${machine[@]}" </dev/null >/dev/null 2>&1; [ -f "$share/booted" ]; then
    echo kvm host
  else
    # Instructions beyond those of AVX2 are not emulated, and are not used where they are not.
    echo tcg,thread=multi max
  fi
}

[ "$(uname -m)" = x86_64 ] || skip "only x86-64 has been set up"
"$root/cmake/deps.sh" "${packages[@]}" "${extra[@]}" >&2 || skip "packages are missing"
for program in verbs_device_test verbs_job_test weft-bench; do
  [ -x "$build/bin/$program" ] || skip "$build/bin/$program was not built (without infiniband/verbs.h?)"
done
fetch_kernel
make_initramfs
rm -rf "$share"
mkdir -p "$share"
cp "$guest" "$here/guest-network.sh" "$share/"
mv "$share/$(basename "$guest")" "$share/run.sh"
echo "$build" >"$share/build"
echo "${WEFT_VM_ARGS:-}" >"$share/args"
read -r accel cpu < <(accelerator)
say "booting Linux $(cat "$work/version") with $accel"
describe "$accel" "$cpu" "${WEFT_VM_SECONDS:-600}"
boot | tee "$work/console.log" | tr -d '\r'
if [ ! -f "$share/status" ]; then
  say "the machine ended or hung without a result; its output is in $work/console.log"
  exit 1
fi
exit "$(cat "$share/status")"
