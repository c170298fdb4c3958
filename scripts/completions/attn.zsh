#compdef attn-run attn-study attn-quantize
# Completions for zsh. The programs' own --help says what there is.
local program=${words[1]/#\~/$HOME} before=${words[CURRENT - 1]} view= help
local -a found
if [[ $program == *study ]] && ((CURRENT > 2)); then view=${words[2]}; fi
help=$("$program" --help 2>/dev/null | sed '/^examples:/,$d')
if [[ -n $view ]]; then help+=$'\n'$("$program" "$view" --help 2>/dev/null); fi
if [[ ${words[CURRENT]} == -* ]]; then # options
    found=($(grep -oE '(^|[ ,(])--?[a-z][a-z0-9-]*' <<<"$help" | grep -o -- '-.*'))
elif [[ $program == *study && -z $view ]]; then
    found=($(sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' <<<"$help"))
elif [[ $program == *quantize ]] && { ((CURRENT == 4)) || [[ $before == --*-type ]] }; then # a type
    found=($(grep -owE 'I?Q[0-9]_[A-Z0-9_]+|MXFP4[A-Z_]*|B?F(16|32)' <<<"$help"))
elif [[ $before =~ '^--?[a-z-]+$' ]]; then # a choice, as of --kv f16|f32
    found=($(sed -nE "s/.* $before ([a-z0-9_-]+(\|[a-z0-9_-]+)+).*/\1/p" <<<"$help" | tr '|' '\n'))
fi
if (($#found)); then compadd -- $found; else _files; fi
