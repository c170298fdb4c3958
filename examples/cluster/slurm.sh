#!/bin/sh
# A Slurm job array: a shard a task.
#   examples/cluster/shards.sh split REQUESTS.jsonl FOLDER 32
#   sbatch --array=0-31 examples/cluster/slurm.sh FOLDER MODEL [OPTION…]
#   examples/cluster/shards.sh join FOLDER >ANSWERS.jsonl         # when squeue shows none of it any more
# A task that is preempted or requeued, or whose node fails, goes on where it was. So does the same sbatch after a failure:
# shards that are whole end at once.
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --cpus-per-task=1
set -eu
folder=$1
shift
exec examples/cluster/shards.sh answer "$folder" "$SLURM_ARRAY_TASK_ID" "$@" -t "$SLURM_CPUS_PER_TASK"
