#!/usr/bin/env bash
# A Slurm cluster of two nodes for tests: the nodes of a lab of its own, with Slurm's daemons in
# them, started by hand and ended with the command that is given. Its configuration, keys, logs and
# sockets are in a temporary directory; nothing listens outside of the lab, and nothing is left.
# It wants root, and Debian's slurmctld, slurmd, slurm-client and munge.
#
# usage: scripts/slurm.sh COMMAND...: runs it on the first node, with srun and all others at hand
set -uo pipefail
# Daemons of Debian are in directories that not every user's path has.
PATH=$PATH:/usr/sbin:/sbin

root=$(cd "$(dirname "$0")/.." && pwd)
weft=${WEFT:-$("$root/scripts/weft.sh" --path)}
lab=weft-slurm-$$
folder=$(mktemp -d)
export SLURM_CONF=$folder/slurm.conf
daemons=()

die() {
    printf 'slurm.sh: %s\n' "$*" >&2
    tail -n 5 "$folder"/*.log >&2 2>/dev/null
    exit 1
}

# on NODE COMMAND...; in the background a function would have a process of its own, to which signals
# for the command would go.
in_lab=("$weft" lab exec --name "$lab")
on() {
    local node=$1
    shift
    "${in_lab[@]}" "$node" -- "$@"
}

# Ends what was started here, by its number; a daemon that hangs gets no second request.
leave() {
    local pid
    for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null; done
    for _ in $(seq 100); do
        kill -0 "${daemons[@]}" 2>/dev/null || break
        sleep 0.1
    done
    for pid in "${daemons[@]}"; do kill -9 "$pid" 2>/dev/null; done
    # Whatever else a daemon has started in the lab goes with it.
    "$weft" lab down --name "$lab" >/dev/null 2>&1
    wait
    rm -rf "$folder"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# daemon NAME COMMAND...: starts one that stays in the foreground.
daemon() {
    local name=$1
    shift
    "$@" >"$folder/$name.log" 2>&1 </dev/null &
    daemons+=($!)
}

# Each node has its own directories: they share the file system, but not what is in them.
configure() {
    local addresses=("$@") node
    cat <<-END
		ClusterName=weft
		SlurmctldHost=node0(${addresses[0]})
		AuthType=auth/munge
		AuthInfo=socket=$folder/munge.socket
		SlurmUser=root
		SlurmctldPidFile=$folder/slurmctld.pid
		SlurmdPidFile=$folder/slurmd-%n.pid
		SlurmdSpoolDir=$folder/spool-%n
		TmpFS=$folder/tmp-%n
		StateSaveLocation=$folder/state
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SwitchType=switch/none
		MpiDefault=none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_CPU
		SchedulerType=sched/builtin
		JobCompType=jobcomp/none
		AccountingStorageType=accounting_storage/none
		SlurmdParameters=config_overrides
		ReturnToService=2
		PartitionName=all Nodes=ALL Default=YES State=UP
	END
    for node in "${!addresses[@]}"; do
        echo "NodeName=node$node NodeAddr=${addresses[$node]} CPUs=8"
    done
}

begin() {
    local node addresses=()
    "$weft" lab up --name "$lab" --nodes 2 >/dev/null || die "no lab could be made"
    for node in node0 node1; do
        addresses+=("$(on $node ip -4 -br addr show lan0 | awk '{ sub("/.*", "", $3); print $3 }')")
        mkdir -p "$folder/spool-$node" "$folder/tmp-$node"
    done
    mkdir -p "$folder/state"
    configure "${addresses[@]}" >"$SLURM_CONF"
    (umask 077 && head -c 32 /dev/urandom >"$folder/key")
    daemon munged munged --foreground --force --num-threads=2 --key-file="$folder/key" \
        --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
        --log-file="$folder/munged.log" --seed-file="$folder/munged.seed"
    for _ in $(seq 100); do
        [ -S "$folder/munge.socket" ] && break
        sleep 0.1
    done
    daemon slurmctld "${in_lab[@]}" node0 -- slurmctld -D -f "$SLURM_CONF"
    for node in node0 node1; do
        daemon "slurmd-$node" "${in_lab[@]}" $node -- slurmd -D -f "$SLURM_CONF"
    done
    for _ in $(seq 60); do
        [ "$(on node0 timeout 10 sinfo -h -N -t idle 2>/dev/null | wc -l)" = 2 ] && return
        sleep 0.5
    done
    die "the nodes did not come up"
}

[ $# -gt 0 ] || { sed -n 's/^# usage: //p' "$0" && exit 2; }
[ "$(id -u)" = 0 ] || die "root is wanted"
for program in munged slurmctld slurmd srun; do
    command -v $program >/dev/null || die "there is no $program: scripts/setup.sh test-mpi"
done
begin
on node0 "$@"
