#!/usr/bin/env bash
# Makes what C programs need of Weft's archive (libweft_c.a): libweft.so.0, weft.h and weft.pc, in
# FOLDER as they will lie in PREFIX. `make build`, `make install` and tests go by this one way.
#
# rustc makes shared libraries with a script for the linker of its own, which names no versions, and
# the linker takes no second one. So the shared library is linked here, with versions for its
# symbols (crates/capi/weft.map) and a name for the loader: a program that was linked to one Weft is
# told by the loader if another one lacks what it uses.
#
# usage: scripts/capi.sh ARCHIVE FOLDER [PREFIX]
set -euo pipefail
if [ $# -lt 2 ]; then
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
fi
archive=$(realpath "$1") folder=$2 prefix=${3:-$(realpath -m "$2")}
capi=$(cd "$(dirname "$0")/.." && pwd)/crates/capi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$capi/../../Cargo.toml" | head -1)
so=libweft.so.0

mkdir -p "$folder"/{lib/pkgconfig,include}
trap 'rm -f "$folder/lib/.$so.$$"' EXIT
# All of the archive, as nothing refers to its functions yet; then without what nothing needs. Never
# unmapped: threads of Weft, and destructors of threads' data, may still run.
"${CC:-cc}" -shared -o "$folder/lib/.$so.$$" \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -Wl,--gc-sections \
    -Wl,-soname,$so -Wl,--version-script="$capi/weft.map" \
    -Wl,-z,defs -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now \
    -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
chmod 755 "$folder/lib/.$so.$$"
# In one step each: whoever uses the old ones goes on.
mv -f "$folder/lib/.$so.$$" "$folder/lib/$so"
ln -sfn $so "$folder/lib/libweft.so"
install -m644 "$capi/include/weft.h" "$folder/include/weft.h"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$capi/weft.pc.in" \
    >"$folder/lib/pkgconfig/weft.pc"
