#!/usr/bin/env bash
# A study of 200 cells under a real Slurm whose nodes are killed and drained while it runs, under Open MPI with three
# of eight ranks killed, and on two workers here; each against a run by one worker: no cell lost, none twice, the same
# bytes.
#   sweep_cluster_test.sh KEYSCOPE REPOSITORY
set -euo pipefail

keyscope=$(realpath "$1")
repository=$(realpath "$2")
cluster=$repository/tests/cluster/slurm_cluster.sh
readonly kNodes=4 kCells=200
RANDOM=${SEED:-7} # which node is killed when; SEED=… tries another

work=$(mktemp -d)
cleanup() {
  "$cluster" stop "$work/slurm" || true
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work"

say() { printf '%s  %s\n' "$(date +%T)" "$*"; }
die() { say "FAILED: $*"; exit 1; }
count() {
  "$keyscope" sweep status "$1/study" --json - | python3 -c "import json, sys; print(json.load(sys.stdin)['$2'])"
}

cat >study.json <<STUDY
{"name": "needles", "models": ["$repository/assets/demo_model"], "seeds": [0], "jobs": [
  {"command": "eval niah", "policy": ["keydiff", "sink"], "budget": "25%", "block": [64], "length": [640],
   "depth": [50], "samples": 60},
  {"command": "capture", "prompts": "prompts.jsonl", "policy": ["none", "keydiff"], "budget": "25%", "block": 32}]}
STUDY
head -n 10 "$repository/assets/demo_model/prompts/passages.jsonl" >prompts.jsonl

plan() {
  mkdir "$1"
  "$keyscope" sweep plan study.json --out "$1/study" --quiet
  (($(count "$1" planned) == kCells)) || die "$(count "$1" planned) cells are planned; expected $kCells"
}

# One file of a study that is done, against the one that one worker's run came to.
check() {
  (($(count "$1" done) == kCells)) || die "$1: $(count "$1" done) of $kCells cells are done"
  (($(count "$1" failed) == 0)) || die "$1: cells failed"
  "$keyscope" sweep merge "$1/study" --out "$1/study.h5" --csv "$1/study.csv" --quiet
  (($(tail -n +2 "$1/study.csv" | cut -d, -f1 | sort -u | wc -l) == kCells)) || die "$1: a cell is there twice, or lost"
  [[ $1 == alone ]] && return
  cmp alone/study.csv "$1/study.csv" || die "$1: another table than one worker's"
  local result entry recordings=0
  # What a cell gave stands behind the line that says who made it when.
  while read -r result; do
    cmp <(tail -n +2 "alone/$result") <(tail -n +2 "$1/$result") || die "$1: another result: $result"
  done < <(cd alone && find study/results -name '*.json')
  for entry in entry entry_{2..10}; do
    "$keyscope" compare "alone/study.h5::$entry" "$1/study.h5::$entry" --quiet >/dev/null ||
      die "$1: another recording: $entry"
    recordings=$((recordings + 1))
  done
  say "$1: $kCells results and $recordings recordings are those of one worker"
}

say "One worker"
plan alone
"$keyscope" sweep run alone/study --threads 1 --quiet >/dev/null
check alone

say "Slurm, $kNodes nodes"
"$cluster" start slurm "$kNodes"
slurm() { "$cluster" exec slurm "$@"; }
plan slurm_study
submissions=0 killed=0 drained=0
submit() {
  "$cluster" exec slurm "$keyscope" sweep submit slurm_study/study --slurm --tasks "$kNodes" --cpus 1 --mem 1G
  submissions=$((submissions + 1))
}
submit
cancelled=""
for ((round = 0; round < 120; ++round)); do
  sleep 0.3
  done_now=$(count slurm_study "done")
  ((done_now < kCells)) || break
  node=node$((1 + RANDOM % kNodes))
  if ((round % 2 == 0 && killed < 6)); then
    "$cluster" kill-node slurm "$node"
    say "$done_now done; killed $node"
    killed=$((killed + 1))
    sleep 0.5
    "$cluster" start-node slurm "$node"
  elif ((round % 2 == 1 && drained < 4)); then
    "$cluster" drain-node slurm "$node"
    say "$done_now done; drained $node"
    drained=$((drained + 1))
    (sleep 3; "$cluster" resume-node slurm "$node") &
  fi
  if [[ -z $cancelled ]] && ((done_now > kCells / 2)); then
    slurm scancel --user=root
    say "$done_now done; cancelled the job"
    cancelled=yes
  fi
  # What a killed node had is put into the queue again by Slurm, or by whoever submits what is missing.
  if [[ -z $(slurm squeue --noheader) ]] && (($(count slurm_study "done") < kCells)); then submit; fi
done
wait
((killed >= 2 && drained >= 1)) || die "only $killed nodes were killed and $drained drained while the study ran"
((submissions >= 2)) || die "the study was submitted once and not again"
[[ $(submit) == "Nothing is missing"* ]] || die "a study that is done was submitted"
say "$killed nodes killed, $drained drained, submitted $submissions times"
check slurm_study

say "Open MPI, 8 ranks"
plan mpi
# One rank that is killed does not end the others.
mpirun --allow-run-as-root --oversubscribe --enable-recovery -np 8 "$keyscope" sweep run mpi/study --threads 1 --quiet \
  >mpi.log 2>&1 &
launcher=$!
for ((killed = 0; killed < 3; ++killed)); do
  until (($(count mpi "done") >= 20 * (killed + 1))); do sleep 0.2; done
  victim=$(pgrep -P "$launcher" -f 'sweep run' | head -n 1) || die "no rank is left to kill"
  kill -KILL "$victim"
  say "$(count mpi "done") done; killed rank of process $victim"
done
wait "$launcher" || true
if (($(count mpi "done") < kCells)); then
  say "$(count mpi "done") done; once more"
  mpirun --allow-run-as-root --oversubscribe -np 8 "$keyscope" sweep run mpi/study --threads 1 --quiet >>mpi.log 2>&1 ||
    die "$(tail -n 5 mpi.log)"
fi
check mpi

say "Two workers here, one of them killed"
plan here
"$keyscope" sweep run here/study --local 2 --quiet >here.log 2>&1 &
launcher=$!
until (($(count here "done") >= 20)); do sleep 0.2; done
kill -KILL "$(pgrep -P "$launcher" -f 'sweep run' | head -n 1)"
wait "$launcher" || die "$(tail -n 5 here.log)"
check here
say "All is well"
