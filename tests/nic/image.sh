#!/usr/bin/env bash
# Makes what the small machines of `make test-nic` start from: Debian's packaged kernel, and an
# initramfs with its network drivers, busybox, the optimized `weft`, and MPICH with the programs
# patterns.c and stress.c. The first process is tests/nic/init.
#
# usage: tests/nic/image.sh DIRECTORY: writes DIRECTORY/vmlinuz and DIRECTORY/initramfs
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
built=$(dirname "$("$root/scripts/weft.sh" --path)")
mpich=$root/.venv/mpich
readonly MODULES='virtio_pci virtio_console virtio_net e1000e vmxnet3 8139cp 8021q'

# The package is unpacked, not installed: the kernel of this machine is its owner's affair.
package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p')
if [ ! -e "$out/$package" ]; then
    rm -rf "$out/new" "$out"/linux-image-*
    mkdir -p "$out/new"
    (cd "$out/new" && apt-get download -q "$package" >/dev/null 2>&1 && dpkg-deb -x ./*.deb . && rm ./*.deb)
    mv "$out/new" "$out/$package"
fi
modules=$(echo "$out/$package"/lib/modules/*)
depmod -b "$out/$package" "$(basename "$modules")"
cp "$out/$package"/boot/vmlinuz-* "$out/vmlinuz"

# with_libraries FILE...: the files and what they are linked with, at the same places as here.
with_libraries() {
    local file
    for file in "$@" $(ldd "$@" | grep -o '/[^ ]*' | grep -v ':$' | sort -u); do
        [ -e "$tree$file" ] && continue
        mkdir -p "$tree$(dirname "$file")"
        cp -L "$file" "$tree$file"
    done
}

tree=$out/tree
rm -rf "$tree"
mkdir -p "$tree"/{bin,dev,etc,modules,proc,run,sys,tmp}
for tool in $(busybox --list); do ln -s /bin/busybox "$tree/bin/$tool"; done
rm "$tree/bin/busybox"
cp "$(command -v busybox)" "$tree/bin/busybox"
for tool in ethtool ip; do rm -f "$tree/bin/$tool"; done
with_libraries "$(command -v ethtool || echo /usr/sbin/ethtool)" "$(command -v ip || echo /usr/sbin/ip)"
for file in weft libweft_fi.so libweft_mpi.so; do
    with_libraries "$built/$file"
    mv "$tree$built/$file" "$tree/bin/${file/_/-}"
    strip -g "$tree/bin/${file/_/-}"
done
with_libraries "$mpich"/bin/{mpiexec.hydra,hydra_pmi_proxy} "$mpich/lib/libmpi.so.12"
ln -s mpiexec.hydra "$tree$mpich/bin/mpiexec"
"$mpich/bin/mpicc" -O2 "$root/examples/mpi/patterns.c" -o "$tree/bin/patterns" -lm
"$mpich/bin/mpicc" -O2 -pthread "$root"/tests/mpi/stress{,_messages,_shared}.c -o "$tree/bin/stress"
echo "$mpich" >"$tree/etc/mpich"

# In the order in which they are loaded: each after what it depends on.
for module in $MODULES; do
    sed -n "s,^\([^:]*/$module\.ko\): *\(.*\),\2 \1,p" "$modules/modules.dep" |
        awk '{ for (i = NF - 1; i > 0; i--) print $i; print $NF }'
done | awk '!seen[$0]++' | while read -r file; do
    cp "$modules/$file" "$tree/modules/"
    basename "$file" >>"$tree/modules/order"
done

install -m755 "$root/tests/nic/init" "$tree/init"
(cd "$tree" && find . | cpio -o -H newc --quiet) >"$out/initramfs"
