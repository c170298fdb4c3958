#include "cli/llamacpp.h"

#include "cli/print.h"

#include <stdio.h>

static const ForeignOption table[] = {
    {{"--temperature"}, "--temp"},
    {{"--n-predict"}, "--predict"},
    {{"--system-prompt"}, "--system"},
    {{"--chat-template-file"}, "--chat-template"},
    {{"-cnv", "--conversation"}, "--chat"},
    {{"-sp"}, "--special"},
    {{"--context-shift"}, "--shift"},
    {{"--control-vector", "--control-vector-scaled"}, "--steer"},
    {{"--display-prompt"}, "--echo"},
    {{"--no-display-prompt"}, "--no-echo"},

    /* Where, and in what pieces, it computes; how files are read; what is logged. */
    {{"-ngl", "--gpu-layers", "--n-gpu-layers"}, .takes = TAKES_VALUE},
    {{"-fa", "--flash-attn"}, .takes = TAKES_SWITCH},
    {{"-no-cnv", "--no-conversation"}},
    {{"-st", "--single-turn"}},
    {{"-b", "--batch-size"}, .takes = TAKES_VALUE},
    {{"-ub", "--ubatch-size"}, .takes = TAKES_VALUE},
    {{"-tb", "--threads-batch"}, .takes = TAKES_VALUE},
    {{"-dev", "--device"}, .takes = TAKES_VALUE},
    {{"-sm", "--split-mode"}, .takes = TAKES_VALUE},
    {{"-ts", "--tensor-split"}, .takes = TAKES_VALUE},
    {{"-mg", "--main-gpu"}, .takes = TAKES_VALUE},
    {{"-fit", "--fit"}, .takes = TAKES_SWITCH},
    {{"-cmoe", "--cpu-moe"}},
    {{"-ncmoe", "--n-cpu-moe"}, .takes = TAKES_VALUE},
    {{"-ot", "--override-tensor"}, .takes = TAKES_VALUE},
    {{"-kvo", "--kv-offload"}},
    {{"-nkvo", "--no-kv-offload"}},
    {{"--op-offload"}},
    {{"--no-op-offload"}},
    {{"--repack"}},
    {{"-nr", "--no-repack"}},
    {{"--no-host"}},
    {{"-C", "--cpu-mask"}, .takes = TAKES_VALUE},
    {{"-Cr", "--cpu-range"}, .takes = TAKES_VALUE},
    {{"--cpu-strict"}, .takes = TAKES_VALUE},
    {{"--prio"}, .takes = TAKES_VALUE},
    {{"--poll"}, .takes = TAKES_VALUE},
    {{"--numa"}, .takes = TAKES_VALUE},
    {{"-lm", "--load-mode"}, .takes = TAKES_VALUE},
    {{"--mlock"}},
    {{"--mmap"}},
    {{"--no-mmap"}},
    {{"--swa-full"}},
    {{"-dt", "--defrag-thold"}, .takes = TAKES_VALUE},
    {{"--spec-type"}, .takes = TAKES_VALUE},
    {{"--check-tensors"}},
    {{"--warmup"}},
    {{"--no-warmup"}},
    {{"--no-context-shift"}},
    {{"--jinja"}},
    {{"--simple-io"}},
    {{"--offline"}},
    {{"--perf"}},
    {{"--no-perf"}},
    {{"--show-timings"}},
    {{"--no-show-timings"}},
    {{"--verbose-prompt"}},
    {{"--log-disable"}},
    {{"--log-file"}, .takes = TAKES_VALUE},
    {{"--log-colors"}, .takes = TAKES_SWITCH},
    {{"--log-prefix"}},
    {{"--no-log-prefix"}},
    {{"--log-timestamps"}},
    {{"--no-log-timestamps"}},
    {{"-lv", "--verbosity", "--log-verbosity"}, .takes = TAKES_VALUE},
};
const ForeignOptions llamacpp_options = {table, sizeof table / sizeof *table};

void note_idle(const StringList *idle) {
    for (size_t i = 0; i < idle->n; i++) {
        if (i == 0) fputs("run: note: not needed here: ", stderr);
        if (i > 0) fputs(", ", stderr);
        print_name(stderr, idle->items[i]);
    }
    if (idle->n) fputc('\n', stderr);
}
