#!/usr/bin/env bash
# A real Slurm on this machine: munged, slurmctld and one slurmd per node, with all their files below one folder.
#   slurm_cluster.sh start FOLDER [N_NODES=4]             every node in service, or an error within half a minute
#   slurm_cluster.sh stop FOLDER                          every daemon and every job's process gone; the queue stays
#   slurm_cluster.sh exec FOLDER COMMAND…                 sbatch, squeue, scontrol … of this cluster
#   slurm_cluster.sh kill-node|start-node FOLDER NODE     a crash, and the machine back; nodes are node1, node2, …
#   slurm_cluster.sh drain-node|resume-node FOLDER NODE
# Needs root, and Debian's packages slurm-wlm and munge.
set -euo pipefail
umask 022 # munged refuses a key in a folder that others may write
PATH=$PATH:/usr/sbin:/sbin

ends_of_logs() { tail -n 4 "$folder"/log/*.{log,err} 2>/dev/null || true; }
die() { printf 'slurm_cluster: %s\n' "$*" >&2; exit 1; }

# Processes that have a log of this cluster open. A daemon is known by that and not by its pid file, whose number may
# be another process's by now; of a slurmstepd nothing else tells the node.
holders() { # LOG
  find /proc/[0-9]*/fd -lname "$folder/log/$1.log" 2>/dev/null | cut -d/ -f3 | sort -un || true
}

descendants() { # PID
  local child
  for child in $(pgrep -P "$1"); do
    echo "$child"
    descendants "$child"
  done
}

# A daemon, for a node each slurmstepd too, then what is below them, then what has left its parent and its session. In
# this order they are killed: a slurmstepd that saw its job die would report a job that failed, and not one to requeue.
processes_of() { # slurmctld, munged or a node
  local daemons pid
  daemons=$(holders "$1")
  echo "$daemons"
  for pid in $daemons; do descendants "$pid"; done
  { grep -lszxF -- "SLURMD_NODENAME=$1" /proc/[0-9]*/environ |
    xargs -r grep -lszxF -- "SLURM_CONF=$SLURM_CONF" | cut -d/ -f3; } || true
}

end_processes_of() { # slurmctld, munged or a node; SIGNAL
  local i pids signal=$2
  for ((i = 0; i < 200; ++i)); do
    pids=$(processes_of "$1")
    [[ -n $pids ]] || return 0
    ((i < 100)) || signal=KILL
    # shellcheck disable=SC2086 # numbers
    kill "-$signal" $pids 2>/dev/null || true
    sleep 0.05
  done
  die "processes of $1 do not end: $pids"
}

# A port that nobody listens on, below those that the kernel hands out by itself; each call gives another.
port=$((20000 + RANDOM % 10000))
choose_port() {
  until port=$((port + 1)) && ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
}

# A node has one CPU whatever the machine has, and CR_CPU counts no memory. A node is found dead after about three times
# SlurmdTimeout. cred_expire is also how long a job that was requeued waits before it may start, 120 s by default.
write_configuration() { # N_NODES
  local i host
  host=$(uname -n)
  choose_port
  cat >"$SLURM_CONF" <<CONFIGURATION
ClusterName=test
SlurmctldHost=${host%%.*}(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
AuthInfo=socket=$folder/munge.socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/%n.log
AccountingStorageType=accounting_storage/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=3
MinJobAge=10
JobRequeue=1
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
CONFIGURATION
  for ((i = 1; i <= $1; ++i)); do
    choose_port
    echo "NodeName=node$i NodeHostname=${host%%.*} NodeAddr=127.0.0.1 Port=$port CPUs=1 RealMemory=1000000"
  done >>"$SLURM_CONF"
  echo 'PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP' >>"$SLURM_CONF"
}

nodes() { sed -n 's/^NodeName=\([^ ]*\) .*/\1/p' "$SLURM_CONF"; }

launch() { # NAME COMMAND…
  local name=$1
  shift
  "$@" </dev/null >"$folder/log/$name.err" 2>&1 || die "$1 does not start:"$'\n'"$(ends_of_logs)"
}

# What the node ran is requeued at once: slurmctld, left alone, would miss it only after a minute.
launch_node() { # NODE
  [[ -z $(holders "$1") ]] || return 0
  until scontrol update NodeName="$1" State=DOWN Reason=crashed 2>/dev/null; do
    ((SECONDS < 20)) || die "slurmctld does not answer:"$'\n'"$(ends_of_logs)"
    sleep 0.1
  done
  mkdir -p "$folder/spool/$1"
  launch "$1" slurmd -N "$1"
}

wait_for_node() { # NODE
  local state=""
  while ((SECONDS < 30)); do
    state=$(timeout 5 sinfo --noheader --nodes="$1" --format=%T 2>&1) || true
    case $state in
      idle | allocated | mixed | completing) [[ -z $(holders "$1") ]] || return 0 ;;
      down | drain*[a-z]) scontrol update NodeName="$1" State=RESUME 2>/dev/null || true ;;
    esac
    sleep 0.1
  done
  die "$1 is not in service after $SECONDS s, but '$state':"$'\n'"$(ends_of_logs)"
}

start() { # N_NODES
  local node
  mkdir -p "$folder"/{log,spool,state}
  [[ -f $folder/munge.key ]] || (umask 077 && head -c 1024 /dev/urandom >"$folder/munge.key")
  [[ -n $(holders '*') ]] || write_configuration "$1"
  (($(nodes | wc -l) == $1)) || die "a cluster of $(nodes | wc -l) nodes runs in $folder; expected $1"
  # --force: munged wants a socket that every user can reach, which is not so below a folder of mktemp's.
  [[ -n $(holders munged) ]] || launch munged munged --force --socket="$folder/munge.socket" \
    --key-file="$folder/munge.key" --pid-file="$folder/munged.pid" --log-file="$folder/log/munged.log" \
    --seed-file="$folder/munge.seed"
  [[ -n $(holders slurmctld) ]] || launch slurmctld slurmctld
  for node in $(nodes); do launch_node "$node"; done
  for node in $(nodes); do wait_for_node "$node"; done
}

# slurmctld first, so that it starts no job meanwhile; what was running is requeued by a next start.
stop() {
  local node
  end_processes_of slurmctld TERM
  for node in $(nodes); do end_processes_of "$node" KILL; done
  end_processes_of munged TERM
}

(($# >= 2)) || die "usage: start|stop|exec|kill-node|start-node|drain-node|resume-node FOLDER …"
command=$1
[[ $command != start ]] || mkdir -p "$2"
folder=$(cd "$2" 2>/dev/null && pwd -P) || die "no such folder: $2"
shift 2
# Slurm's files name paths without quotes, and a socket's name has at most 107 bytes.
[[ $folder =~ ^[A-Za-z0-9_./-]{1,60}$ ]] || die "$folder: expected at most 60 letters, digits and _ . / -"
# What a job of another Slurm left in the environment would steer this one's commands.
for variable in "${!SLURM@}"; do unset "$variable"; done
export SLURM_CONF=$folder/slurm.conf
[[ $command == start || -f $SLURM_CONF ]] || die "no cluster was started in $folder"
[[ $command != *-node ]] || grep -q "^NodeName=${1:-} " "$SLURM_CONF" || die "$SLURM_CONF has no node '${1:-}'"
case $command in
  start) start "${1:-4}" ;;
  stop) stop ;;
  exec) exec "$@" ;;
  kill-node) end_processes_of "$1" KILL ;;
  start-node) launch_node "$1" && wait_for_node "$1" ;;
  drain-node) scontrol update NodeName="$1" State=DRAIN Reason=test ;;
  resume-node) scontrol update NodeName="$1" State=RESUME ;;
  *) die "no such command: $command" ;;
esac
