# Completions of attn-run, attn-study and attn-quantize for bash. The programs' own --help says what there is.
_attn() {
    local program=${COMP_WORDS[0]/#\~/$HOME} word=$2 before=$3 view= help words=
    if [[ $program == *study ]] && ((COMP_CWORD > 1)); then view=${COMP_WORDS[1]}; fi
    help=$("$program" --help 2>/dev/null | sed '/^examples:/,$d')
    if [[ $view ]]; then help+=$'\n'$("$program" "$view" --help 2>/dev/null); fi
    if [[ $word == -* ]]; then # options
        words=$(grep -oE '(^|[ ,(])--?[a-z][a-z0-9-]*' <<<"$help" | grep -o -- '-.*')
    elif [[ $program == *study && -z $view ]]; then
        words=$(sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' <<<"$help")
    elif [[ $program == *quantize ]] && { ((COMP_CWORD == 3)) || [[ $before == --*-type ]]; }; then # a type
        words=$(grep -owE 'I?Q[0-9]_[A-Z0-9_]+|MXFP4[A-Z_]*|B?F(16|32)' <<<"$help")
    elif [[ $before =~ ^--?[a-z-]+$ ]]; then # a choice, as of --kv f16|f32
        words=$(sed -nE "s/.* $before ([a-z0-9_-]+(\|[a-z0-9_-]+)+).*/\1/p" <<<"$help" | tr '|' '\n')
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _attn attn-run attn-study attn-quantize # without one of these: a file
