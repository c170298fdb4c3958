#!/bin/sh
# GNU parallel: the shards of a data set, JOBS at a time on this machine, or on those of --sshloginfile. A process that dies is
# started again, twice; after anything else that stopped it, the same command goes on.
#   examples/cluster/parallel.sh REQUESTS.jsonl FOLDER MODEL [OPTION…] >ANSWERS.jsonl
# SHARDS (32), JOBS (a core each), RUN (./run)
set -eu
shards=$(dirname "$0")/shards.sh requests=$1 folder=$2 n=${SHARDS:-32}
shift 2
"$shards" split "$requests" "$folder" "$n"
seq 0 $((n - 1)) |
    parallel --quote --jobs "${JOBS:-100%}" --retries 3 --halt soon,fail=1 "$shards" answer "$folder" {} "$@" -t 1 >&2
"$shards" join "$folder"
