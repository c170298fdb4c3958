# Completions of attn-run, attn-study and attn-quantize for fish. The programs' own --help says what there is.
function __attn_words
    set -l before (commandline -opc)
    set -l program (string replace -r '^~' $HOME -- $before[1])
    set -l help ($program --help 2>/dev/null | sed '/^examples:/,$d')
    if string match -q '*study' -- $program
        if not set -q before[2]
            string replace -rf '^  ([a-z]+) +(.*)' '$1\t$2' -- $help
        else
            set -a help ($program $before[2] --help 2>/dev/null)
        end
    end
    if string match -q -- '-*' (commandline -ct) # options
        string match -ra '(?:^|[ ,(])(--?[a-z][a-z0-9-]*)' -- $help | string match -r '^-.*'
    else if string match -q '*quantize' -- $program; and begin # a type
            test (count $before) -eq 3; or string match -q -- '--*-type' $before[-1]
        end
        string match -ra '\b(?:I?Q[0-9]_[A-Z0-9_]+|MXFP4[A-Z_]*|B?F(?:16|32))\b' -- $help
    else if string match -qr '^--?[a-z-]+$' -- $before[-1] # a choice, as of --kv f16|f32
        string replace -rf ".* $before[-1] ([a-z0-9_-]+(\|[a-z0-9_-]+)+).*" '$1' -- $help | string split '|'
    end
end
# Files only where there are no words.
function __attn_has_words
    set -l words (__attn_words)
    test (count $words) -gt 0
end
for program in attn-run attn-study attn-quantize
    complete -c $program -f -n __attn_has_words -a '(__attn_words)'
end
