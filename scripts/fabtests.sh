#!/usr/bin/env bash
# libfabric's own test suite, fabtests, on the provider: within a node, and between two nodes of a
# lab. It runs an installed fabtests and the provider of the release build, and builds neither.
# What is left out, and why, is in crates/ofi/fabtests.exclude.
#
# usage: scripts/fabtests.sh [-t SETS] [-v] [node] [lab]: one place, or both
#   -t SETS  which of the suite's sets, with commas (default: all that it has, but for `standard`,
#            which is `short` with more rounds)
#   -v       shows what failing tests print
# FABTESTS is the prefix that fabtests is installed under; else its programs are looked for on the
# path. LIMIT_S: no test takes longer, unless it hangs (120); the tables of fi_ubertest, which have
# more than a thousand tests each, take up to 15 times as long.
set -uo pipefail
cd "$(dirname "$0")/.."

root=$PWD
sets=
runner_options=()
places=()
LIMIT_S=${LIMIT_S:-120}

fail() {
    printf 'fabtests: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    -t) [ $# -gt 1 ] || fail '-t wants the sets' && sets=$2 && shift ;;
    -v) runner_options+=(-v) ;;
    node | lab) places+=("$1") ;;
    *) fail "unknown: $1 (see the head of scripts/fabtests.sh)" ;;
    esac
    shift
done
[ ${#places[@]} -gt 0 ] || places=(node lab)

runner=${FABTESTS:+$FABTESTS/bin/runfabtests.sh}
runner=${runner:-$(command -v runfabtests.sh)}
[ -x "$runner" ] ||
    fail "fabtests is not installed: build it from libfabric's source (its folder fabtests), and" \
        "set FABTESTS to its prefix. NOTHING WAS TESTED."

if [ -z "$sets" ]; then
    sets=unit,functional,short,multinode,quick.test,verify.test
    # Newer versions have tests with many threads.
    ! grep -q '^threaded_tests=' "$runner" || sets+=,threaded
fi

# The runner ends programs by their names, all that there are: so it gets processes of its own,
# which end with it. The records of labs say numbers of processes, so these are its own, too.
if [ -z "${FABTESTS_ALONE:-}" ]; then
    [ "$(id -u)" -eq 0 ] || fail 'this wants root rights, for processes and networks of its own'
    mkdir -p -m 700 /run/weft
    export FABTESTS_ALONE=1
    exec unshare --pid --fork --mount-proc --kill-child \
        sh -c 'mount -t tmpfs -o mode=700 labs /run/weft && exec "$@"' sh \
        "$root/scripts/fabtests.sh" -t "$sets" "${runner_options[@]}" "${places[@]}"
fi

weft=$(scripts/weft.sh --path)
release=$(dirname "$weft")
out=$(dirname "$release")/fabtests
bin=$(dirname "$runner")
mkdir -p "$out/providers" "$out/path"
for file in "$weft" "$release/libweft_fi.so"; do
    [ -e "$file" ] || fail "$file is not built: make build"
done
ln -sf "$release/libweft_fi.so" "$out/providers/libweft-fi.so"
export FI_PROVIDER_PATH=$out/providers FI_PROVIDER=weft
# In fi_unexpected_msg a server is sent messages before it knows the client's address.
export FI_WEFT_LISTEN=1

lab=weft-fabtests-$$
"$weft" lab up --name "$lab" --topology mesh >/dev/null || fail 'there is no lab'
trap '"$weft" lab down --name "$lab" >/dev/null' EXIT
address() {
    "$weft" lab exec --name "$lab" "$1" -- ip -4 -br addr show "$2" |
        awk '{ sub("/.*", "", $3); print $3 }'
}

# The runner starts a host's programs by `ssh OPTIONS HOST COMMAND`. Here hosts are the lab's
# nodes; what the runner kills takes its program along.
cat >"$out/path/ssh" <<EOF
#!/bin/sh
while [ \$# -gt 2 ]; do shift; done
exec setpriv --pdeathsig KILL "$weft" lab exec --name "$lab" "\$1" -- bash -c "exec \$2"
EOF
chmod +x "$out/path/ssh"
export PATH=$out/path:$bin:$PATH

# run PLACE SET OPTIONS-OF-THE-RUNNER...: tells how many of the tests passed.
total_pass=0 total_failed=0
run() {
    local place=$1 set=$2 log=$out/$1-$2.log server=node0 client=node0 at=127.0.0.1 from=127.0.0.1
    local limit=$LIMIT_S
    shift 2
    case $set in *.test) limit=$((15 * LIMIT_S)) ;; esac
    # These name their peer by its host, and exchange addresses as well.
    unset FI_WEFT_IGNORE_NODE
    case $set in *.test | multinode) export FI_WEFT_IGNORE_NODE=1 ;; esac
    if [ "$place" = lab ]; then
        client=node1 at=$(address node0 to1a) from=$(address node1 to0a)
    fi
    (cd "$out" && "$runner" -b -T "$limit" -p "$bin" -f "$root/crates/ofi/fabtests.exclude" \
        -s "$at" -c "$from" "${runner_options[@]}" "$@" weft "$server" "$client") >"$log" 2>&1
    local pass failed
    pass=$(awk '/^# Total Pass/ { print $4 }' "$log")
    failed=$(awk '/^# Total Fail/ { print $4 }' "$log")
    # Without its last lines the runner has not come to its end.
    [ -n "$failed" ] || failed=1
    total_pass=$((total_pass + ${pass:-0})) total_failed=$((total_failed + failed))
    printf '%-4s %-12s %3d passed, %3d failed (%s)\n' "$place" "$set" "${pass:-0}" "$failed" "$log"
    awk '/^- name:/ { name = $0 } /result: (Fail|Notrun)/ { print "  " $2 " " name }
        /(Fail( \[.*\])?|Notrun)$/ && !/result:/ || /^    / { print }' "$log" | tail -n 60
}

# The sets that end in .test are those of fi_ubertest, a program that works through a table of
# combinations; the tables written for a provider of shared memory fit any RDM provider.
for place in "${places[@]}"; do
    for set in ${sets//,/ }; do
        case $set in
        *.test)
            table=$bin/../share/fabtests/test_configs/shm/$set
            [ -e "$table" ] || fail "there is no table $table"
            sed 's/prov_name: .*/prov_name: weft,/' "$table" >"$out/$set"
            run "$place" "$set" -t complex -u "$out/$set"
            ;;
        *) run "$place" "$set" -t "$set" ;;
        esac
    done
done
"$bin/fi_info" --version 2>/dev/null | sed -n '1,2p'
echo "$total_pass passed, $total_failed failed"
[ "$total_failed" -eq 0 ] && [ "$total_pass" -gt 0 ]
