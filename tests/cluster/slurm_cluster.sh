#!/usr/bin/env bash
# A real Slurm on this machine: munged, slurmctld and a slurmd for every node, all of it below one folder.
#   slurm_cluster.sh start FOLDER [N_NODES]
#   slurm_cluster.sh kill-node | start-node | drain-node | resume-node FOLDER NODE
#   slurm_cluster.sh exec FOLDER COMMAND…     (sbatch, squeue, scontrol …)
#   slurm_cluster.sh stop FOLDER
# Needs root, since slurmd and slurmstepd do, and Debian's slurm-wlm and munge.
set -euo pipefail

die() { printf 'slurm_cluster: %s\n' "$*" >&2; exit 1; }

free_ports() {  # COUNT: that nobody listens on
  python3 - "$1" <<'PYTHON'
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in sockets:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in sockets))
PYTHON
}

write_configuration() {  # N_NODES
  local nodes=$1 host ports
  host=$(hostname)
  read -ra ports <<<"$(free_ports $((nodes + 1)))"
  # A node has one processor, whatever the machine has; a node that is gone is noticed within seconds, and what ran
  # on it is put into the queue again.
  cat >"$folder/slurm.conf" <<CONFIGURATION
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CryptoType=crypto/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=8
SlurmctldTimeout=8
KillWait=2
MinJobAge=2
SchedulerParameters=batch_sched_delay=0,sched_interval=2
JobRequeue=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONFIGURATION
  local i
  for ((i = 1; i <= nodes; ++i)); do
    printf 'NodeName=node%d NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=1 RealMemory=100000 State=UNKNOWN\n' \
      "$i" "$host" "${ports[i]}" >>"$folder/slurm.conf"
  done
}

start() {
  local nodes=${1:-4} i
  mkdir -p "$folder/state"
  chmod 755 "$folder"
  [[ -f $folder/slurm.conf ]] || write_configuration "$nodes"
  [[ -f $folder/munge.key ]] || dd if=/dev/urandom of="$folder/munge.key" bs=1 count=1024 status=none
  chmod 400 "$folder/munge.key"
  # Under a folder of anybody's, which munged finds unsafe: --force.
  munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munge.seed" 2>>"$folder/munged.err" ||
    die "munged does not start: $(tail -n 3 "$folder/munged.err")"
  slurmctld
  for ((i = 1; i <= nodes; ++i)); do
    mkdir -p "$folder/spool.node$i"
    start_node "node$i"
  done
  for ((i = 0; i < 60; ++i)); do
    if (($(sinfo --noheader --Node --states=idle 2>/dev/null | wc -l) == nodes)); then return; fi
    sleep 0.5
  done
  sinfo --Node >&2 || true
  die "not all of $nodes nodes are idle after 30 s: $(tail -n 3 "$folder/slurmctld.log")"
}

start_node() { slurmd -N "$1"; }

# Processes that belong to a node: its slurmd, its jobs', and the slurmstepd above each of these.
processes_of() {
  local environment pid parent
  for environment in /proc/[0-9]*/environ; do
    grep -qsz "^SLURMD_NODENAME=$1\$" "$environment" || continue
    grep -qsz "^SLURM_CONF=$folder/slurm.conf\$" "$environment" || continue
    pid=${environment//[!0-9]/}
    parent=$(ps -o ppid= -p "$pid" | tr -d ' ') || continue
    echo "$pid"
    if [[ $(ps -o comm= -p "$parent") == slurmstepd* ]]; then echo "$parent"; fi
  done
  cat "$folder/slurmd.$1.pid" 2>/dev/null || true
}

# As a machine that loses its power.
kill_node() {
  local pids
  pids=$(processes_of "$1" | sort -u)
  [[ -z $pids ]] || kill -KILL $pids 2>/dev/null || true
}

stop() {
  local file pid
  for file in "$folder"/slurmd.*.pid; do
    [[ -f $file ]] || continue
    local name=${file##*/slurmd.}
    kill_node "${name%.pid}"
  done
  for file in "$folder"/slurmctld.pid "$folder"/munged.pid; do
    [[ -f $file ]] || continue
    pid=$(<"$file")
    kill "$pid" 2>/dev/null || continue
    for _ in {1..50}; do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$pid" 2>/dev/null || true
  done
  rm -f "$folder"/*.pid
}

(($# >= 2)) || die "usage: start|stop|exec|kill-node|start-node|drain-node|resume-node FOLDER …"
command=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
shift 2
export SLURM_CONF=$folder/slurm.conf
case $command in
  start) start "$@" ;;
  stop) stop ;;
  exec) exec "$@" ;;
  kill-node) kill_node "$1" ;;
  start-node)
    start_node "$1"
    scontrol update NodeName="$1" State=RESUME 2>/dev/null || true
    ;;
  drain-node) scontrol update NodeName="$1" State=DRAIN Reason=test ;;
  resume-node) scontrol update NodeName="$1" State=RESUME ;;
  *) die "no such command: $command" ;;
esac
