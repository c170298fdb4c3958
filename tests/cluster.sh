#!/bin/sh
# examples/cluster on the real engines, each on two workers of this machine, of which one dies in the middle: all give the bytes
# that one process gives. What is not installed is skipped. (.ci/run calls this; `make test` does not, since it takes a while.)
run=$(realpath "${RUN:-./run}")
model=$PWD/weights/model.gguf
export RUN="$run"
program=$run name=run
. tests/program.sh
daemons=
# shellcheck disable=SC2086
trap 'kill $daemons $(cat "$tmp"/dies*.pid) 2>/dev/null; sleep 1; kill -KILL $daemons 2>/dev/null; rm -rf "$tmp"' EXIT
examples=examples/cluster

for i in $(seq 120); do
    case $((i % 3)) in
    0) echo "{\"custom_id\": \"c $i\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": {\"prompt\": \"The cat $i\", \"max_tokens\": $((i % 9))}}" ;;
    1) echo "{\"id\": $i, \"prompt\": \"A lighthouse, $i\", \"max_tokens\": $((10 + i % 9)), \"temperature\": 1.5}" ;;
    2) echo "{\"id\": \"$i\", \"prompt\": \"The Eiffel\", \"max_tokens\": 12, \"n\": $((1 + i % 3)), \"temperature\": $((1 - i % 4))}" ;; # half of them refused
    esac
    [ $((i % 40)) -ne 0 ] || echo
done >"$tmp/requests"
"$run" "$model" --batch "$tmp/requests" --in-order -o "$tmp/one" 2>"$tmp/err"
code=$? command='one process'
has quiet
has test "$(wc -l <"$tmp/one")" -eq 121
has test "$(grep -c '"error": "\|"error": {' "$tmp/one")" -gt 10
sed 1d "$tmp/one" >"$tmp/lines"

# The first caller gets three requests' answers, and then waits until it is killed; its id is in dies.pid.
dies() {
    kill $(cat "$tmp"/dies*.pid 2>/dev/null) 2>/dev/null # of the engine before
    rm -rf "$tmp"/dies*
    cat >"$tmp/dies" <<END
#!/bin/sh
if mkdir "$tmp/dies.first" 2>/dev/null; then
    model=\$1 requests=\$3 # of MODEL --batch REQUESTS …
    shift 3
    exec 3<&0
    [ "\$requests" != - ] || requests=/dev/fd/3
    mkfifo "$tmp/dies.in"
    { head -n 3 "\$requests" && exec sleep 600; } >"$tmp/dies.in" &
    echo \$! >"$tmp/dies.sleep.pid"
    echo "\$SLURM_JOB_ID" >"$tmp/dies.job"
    echo \$\$ >"$tmp/dies.new" && mv "$tmp/dies.new" "$tmp/dies.pid"
    exec "$run" "\$model" --batch - "\$@" <"$tmp/dies.in"
fi
exec "$run" "\$@"
END
    chmod +x "$tmp/dies"
}

# until_true SECONDS CHECK…
until_true() {
    left=$((10 * $1)) && shift
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.1
    done
}
three_answers() { [ -s "$tmp/dies.pid" ] && grep -c '' "$1"/*.answers | grep -q ':4$'; }

# same FILE WANTED
same() { cmp -s "$1" "$2"; }
# skips N WHAT: is not installed.
skips() {
    echo "skipped: $2 is not installed"
    skipped=$((skipped + $1))
}

# The lines of a process that is fed by others, as Spark's pipe() does for each partition of an RDD.
split -n l/3 "$tmp/requests" "$tmp/partition."
for partition in "$tmp"/partition.*; do
    "$run" "$model" --batch - --in-order <"$partition" || echo "code $?"
done >"$tmp/out" 2>"$tmp/err"
command='pipe()'
has same "$tmp/out" "$tmp/lines"

# lines.py: one process that stays, batch after batch, of which one is more than pipes hold.
if command -v /usr/bin/python3 >/dev/null; then
    cat >"$tmp/batches.py" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from lines import Lines
run, model, path, n = sys.argv[2:]
requests = [line for line in open(path) if line.strip()]
answer = Lines(run, model)
for i in range(0, len(requests), int(n)):
    print("\n".join(answer({"text": requests[i:i + int(n)]})["answer"]))
END
    for n in 1 50 1000; do
        /usr/bin/python3 "$tmp/batches.py" $examples "$run" "$model" "$tmp/requests" $n >"$tmp/out" 2>"$tmp/err"
        code=$? command="lines.py, batches of $n"
        has same "$tmp/out" "$tmp/lines"
    done
    for i in $(seq 3000); do echo "{\"id\": \"$i\", \"prompt\": \"A\", \"max_tokens\": 0, \"user\": \"$(printf %0100d 0)\"}"; done >"$tmp/wide"
    /usr/bin/python3 "$tmp/batches.py" $examples "$run" "$model" "$tmp/wide" 3000 >"$tmp/out" 2>"$tmp/err"
    code=$? command='lines.py, 500 KB at once'
    has test "$(wc -l <"$tmp/out")" -eq 3000
else
    skips 4 python3
fi

# shards.sh by hand: a folder that holds another data set, shards that are not whole, of other settings.
command=shards.sh
shards() { $examples/shards.sh "$@" >"$tmp/out" 2>"$tmp/err"; }
says() { [ "$(wc -l <"$tmp/err")" -eq 1 ] && grep -q "^shards.sh: .*$1" "$tmp/err" && [ ! -s "$tmp/out" ]; }
shards split "$tmp/requests" "$tmp/by hand" 3 && shards split "$tmp/requests" "$tmp/by hand" 3
count $? 'shards.sh split, twice'
for n in 0 -1 10001 99999999999999999999 many; do
    ! shards split "$tmp/requests" "$tmp/none" $n && says "split makes 1 to 10000 shards, not '$n'" && [ ! -e "$tmp/none" ]
    count $? "shards.sh split into $n"
done
! shards split "$tmp/nothing" "$tmp/none" 3 && [ "$(wc -l <"$tmp/err")" -eq 1 ] && grep -q 'nothing' "$tmp/err"
count $? 'shards.sh split of no file'
! shards split "$tmp/wide" "$tmp/by hand" 3 && says 'holds shards of another file'
count $? 'shards.sh split of another file'
for i in 0 1; do shards answer "$tmp/by hand" $i "$model"; done
! shards join "$tmp/by hand" && says '0002.requests has not all its answers yet'
count $? 'shards.sh join, too early'
shards answer "$tmp/by hand" 2 "$model" -n 5
! shards join "$tmp/by hand" && says 'not all shards had the same settings'
count $? 'shards.sh join, of two settings'
rm "$tmp/by hand/0002.answers"
shards answer "$tmp/by hand" 2 "$model"
shards join "$tmp/by hand" && same "$tmp/out" "$tmp/one"
count $? 'shards.sh join'

# GNU parallel: a process is killed, and started again; and the whole again, which changes nothing.
if command -v parallel >/dev/null; then
    dies
    export PARALLEL_HOME="$tmp/parallel"
    RUN=$tmp/dies SHARDS=6 JOBS=2 timeout 300 $examples/parallel.sh "$tmp/requests" "$tmp/by parallel" "$model" >"$tmp/out" 2>"$tmp/err" &
    parallel=$! command='GNU parallel'
    until_true 60 three_answers "$tmp/by parallel" && kill -KILL "$(cat "$tmp/dies.pid")"
    count $? 'GNU parallel: a process dies in the middle'
    wait $parallel
    code=$?
    has same "$tmp/out" "$tmp/one"
    SHARDS=6 $examples/parallel.sh "$tmp/requests" "$tmp/by parallel" "$model" >"$tmp/out" 2>"$tmp/err"
    has same "$tmp/out" "$tmp/one"
else
    skips 3 'GNU parallel'
fi

# Dask: two workers, of which one dies.
if /usr/bin/python3 -c 'import distributed' 2>/dev/null; then
    dies
    dask-scheduler --host 127.0.0.1 --port 0 --no-dashboard --scheduler-file "$tmp/scheduler" 2>"$tmp/scheduler.log" &
    daemons="$daemons $!"
    until_true 60 test -s "$tmp/scheduler"
    for i in 1 2; do
        dask-worker --scheduler-file "$tmp/scheduler" --nthreads 1 --no-nanny --no-dashboard \
            --local-directory "$tmp/worker$i" 2>"$tmp/worker$i.log" &
        daemons="$daemons $!"
    done
    address=$(sed -n 's/.*"address": "\([^"]*\)".*/\1/p' "$tmp/scheduler")
    sed 's/^CHUNK = .*/CHUNK = 16/' $examples/dask_lines.py >"$tmp/dask_lines.py"
    RUN=$tmp/dies timeout 300 /usr/bin/python3 "$tmp/dask_lines.py" "$address" "$tmp/requests" "$tmp/by dask" "$model" >"$tmp/out" 2>"$tmp/err" &
    client=$! command=Dask
    until_true 60 test -s "$tmp/dies.pid" && kill -KILL "$(ps -o ppid= -p "$(cat "$tmp/dies.pid")" | tr -d ' ')"
    count $? 'Dask: a worker dies in the middle'
    wait $client
    code=$?
    has same "$tmp/by dask" "$tmp/lines"
    head -c 5000 "$tmp/lines" >"$tmp/by dask"
    /usr/bin/python3 $examples/dask_lines.py "$address" "$tmp/requests" "$tmp/by dask" "$model" >"$tmp/out" 2>"$tmp/err"
    code=$?
    has same "$tmp/by dask" "$tmp/lines"
else
    skips 3 Dask
fi

# Slurm: one node of two slots, with its own munge; a task is requeued while it works, and one is killed.
slurm_starts() {
    node=$(hostname -s) slurm=$tmp/slurm
    SLURM_CONF=$slurm/slurm.conf
    export SLURM_CONF
    mkdir -p "$slurm/state" "$slurm/spool"
    (umask 077 && head -c 1024 /dev/urandom >"$slurm/key")
    cat >"$SLURM_CONF" <<END
ClusterName=attn
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/munge
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0
KillWait=1
NodeName=$node NodeAddr=127.0.0.1 CPUs=2
PartitionName=all Nodes=ALL Default=YES
END
    munged --force --foreground --key-file="$slurm/key" --socket="$slurm/munge" --pid-file="$slurm/munged.pid" \
        --log-file="$slurm/munged.log" --seed-file="$slurm/seed" 2>"$slurm/munged.err" &
    daemons="$daemons $!"
    until_true 30 test -S "$slurm/munge" || return 1
    slurmctld -D 2>"$slurm/slurmctld.log" &
    daemons="$daemons $!"
    slurmd -D -N "$node" 2>"$slurm/slurmd.log" &
    daemons="$daemons $!"
    until_true 60 idle
}
idle() { sinfo -h -o %t | grep -qx idle; }
finished() { [ -z "$(squeue -h -o %i)" ]; }
# task_state JOB STATE
task_state() { squeue -h -j "$1" -o %T | grep -qx "$2"; }
has_slurm() { [ "$(id -u)" = 0 ] && command -v slurmctld && command -v slurmd && command -v munged; } >/dev/null
if has_slurm && slurm_starts; then
    command=Slurm code=0
    dies
    $examples/shards.sh split "$tmp/requests" "$tmp/by slurm" 6
    submit() { sbatch -o "$tmp/slurm.%a" --array=0-5 $examples/slurm.sh "$tmp/by slurm" "$model" >>"$tmp/out" 2>"$tmp/err"; }
    RUN=$tmp/dies submit
    until_true 60 three_answers "$tmp/by slurm" && task=$(cat "$tmp/dies.job") && scontrol requeue "$task" 2>"$tmp/err"
    count $? 'Slurm: a task is requeued in the middle'
    until_true 60 task_state "$task" PENDING && scontrol update "JobId=$task" StartTime=now 2>"$tmp/err"
    count $? 'Slurm: it waits for its turn'
    until_true 300 finished
    $examples/shards.sh join "$tmp/by slurm" >"$tmp/out" 2>"$tmp/err"
    code=$?
    has same "$tmp/out" "$tmp/one"
    dies
    rm "$tmp/by slurm/"*.answers
    RUN=$tmp/dies submit
    until_true 60 three_answers "$tmp/by slurm" && kill -KILL "$(cat "$tmp/dies.pid")"
    count $? 'Slurm: a task is killed in the middle'
    until_true 300 finished
    ! $examples/shards.sh join "$tmp/by slurm" >"$tmp/out" 2>"$tmp/err"
    count $? 'Slurm: its shard is not whole'
    submit && until_true 300 finished
    $examples/shards.sh join "$tmp/by slurm" >"$tmp/out" 2>"$tmp/err"
    code=$?
    has same "$tmp/out" "$tmp/one"
else
    skips 6 'Slurm (or it does not start, or this is not root)'
fi

# Snakemake: a process is killed; the same command goes on.
if command -v snakemake >/dev/null; then
    dies
    export XDG_CACHE_HOME="$tmp/cache" XDG_CONFIG_HOME="$tmp/config"
    snake() {
        snakemake --snakefile $examples/Snakefile --directory "$tmp" --cores 2 --nolock \
            --config "requests=$tmp/requests" "folder=$tmp/by-snakemake" "model=$model" "answers=$tmp/snake" shards=6 >"$tmp/out" 2>"$tmp/err"
    }
    (RUN=$tmp/dies && export RUN && snake) &
    snake=$! command=Snakemake
    until_true 60 three_answers "$tmp/by-snakemake" && kill -KILL "$(cat "$tmp/dies.pid")"
    count $? 'Snakemake: a process dies in the middle'
    wait $snake
    snake
    code=$?
    has same "$tmp/snake" "$tmp/one"
else
    skips 2 Snakemake
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
