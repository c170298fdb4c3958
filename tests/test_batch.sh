#!/bin/sh
# run --batch from outside: answers are what run alone writes, whatever is under way beside them, in whichever order, and
# however often the run was killed; requests that cannot be answered say why, and the rest goes on.
run=${RUN:-./run}
model=weights/model.gguf
llama=tests/data/reference/llama-f32.gguf # 261 tokens, <s> in front
study=${STUDY:-./study}
program=$run name=run
. tests/program.sh

# alone ID OPTION…: the answer that run alone would give, as a short line without what lies behind the text.
alone() {
    id=$1
    shift
    text=$("$run" "$model" --no-echo "$@")
    printf '{"id": %s, "text": "%s"' "$id" "$text"
}
answers() { cut -d, -f1,2 "$tmp/out" | sed 's/, "n_prompt.*//' | cmp -s - "$tmp/want"; }
text_of() { sed 's/, "n_prompt.*//' "$1"; }

cat >"$tmp/requests" <<'END'
{"id": "greedy", "prompt": "The Eiffel", "temperature": 0, "max_tokens": 12}
{"id": 2, "prompt": "A cat", "seed": 7, "n_predict": 9}

{"id": "stop", "prompt": "A lighthouse", "temperature": 0, "stop": [" with", "red"], "max_tokens": 40}
{"id": "long", "prompt": "The king Zilgan rode out. Then king Zil", "top_k": 1, "max_completion_tokens": 3, "repeat_penalty": 1}
{"id": "none", "prompt": "A cat", "max_tokens": 0}
END
{
    alone '"greedy"' -p 'The Eiffel' --temp 0 -n 12 && echo
    alone 2 -p 'A cat' -s 7 -n 9 && echo
    alone '"stop"' -p 'A lighthouse' --temp 0 --stop ' with' --stop red -n 40 && echo
    alone '"long"' -p 'The king Zilgan rode out. Then king Zil' --top-k 1 --repeat-penalty 1 -n 3 && echo
    alone '"none"' -p 'A cat' -n 0 && echo
} >"$tmp/want"
as_alone() { quiet && text_of "$tmp/out" | cmp -s - "$tmp/want"; }
for n in 1 2 3 8; do
    try "$model" --batch "$tmp/requests" --in-order --parallel $n
    has as_alone
done
{ printf '\357\273\277' && cat "$tmp/requests"; } >"$tmp/marked" # as some editors begin a file
try "$model" --batch "$tmp/marked" --in-order
has as_alone
try "$model" --batch "$tmp/requests" -np 3 -t 1
sort "$tmp/want" >"$tmp/sorted"
as_alone_in_any_order() { quiet && text_of "$tmp/out" | sort | cmp -s - "$tmp/sorted"; }
has as_alone_in_any_order
input=$tmp/requests
try "$model" --batch - --in-order
has as_alone
input=/dev/null
has grep -q '^{"id": "none", "text": "", "n_prompt": 3, "n_predicted": 0, "end": "limit"}$' "$tmp/out"
has grep -q '^{"id": "stop".*"end": "stop"}$' "$tmp/out"

# A table whose columns have gaps writes whole numbers with a point, and every name that it has a column for.
printf '%s\n' '{"id": 7.0, "prompt": "A cat", "max_tokens": 5e0, "n_predict": 5, "top_k": 1.0, "seed": 3.0, "n": 1.0}' >"$tmp/plain"
{ alone 7 -p 'A cat' --top-k 1 -n 5 && echo; } >"$tmp/want"
try "$model" --batch "$tmp/plain"
has as_alone

# No mass at all is the likeliest token alone, as OpenAI has it; --top-p 0 is all.
printf '{"id": 7, "prompt": "A cat", "temperature": 1, "top_p": %s, "seed": 3, "max_tokens": 5}\n' 0 >"$tmp/plain"
printf '{"id": 8, "prompt": "A cat", "temperature": 1, "top_p": %s, "seed": 4, "max_tokens": 5}\n' 1e-60 >>"$tmp/plain"
printf '{"id": 9, "prompt": "A cat", "temperature": 1, "top_p": 0.3, "seed": 5, "max_tokens": 5}\n' >>"$tmp/plain"
{
    alone 7 -p 'A cat' --temp 0 -n 5 && echo
    alone 8 -p 'A cat' --temp 0 -n 5 && echo
    alone 9 -p 'A cat' --temp 1 --top-p 0.3 -s 5 -n 5 && echo
} >"$tmp/want"
try "$model" --batch "$tmp/plain" --in-order
has as_alone

# Prompts that begin alike, of a model whose states cannot go back to where they part.
states=tests/data/reference/qwen35.gguf letters=tests/data/study/letters.gguf
rm -f "$tmp/alike" "$tmp/want"
for end in map mat ma matt; do
    printf '{"id": "%s", "prompt": "the cat sat on the %s", "temperature": 0, "max_tokens": 4}\n' $end $end >>"$tmp/alike"
    text=$("$run" $states -z $letters --no-echo -p "the cat sat on the $end" --temp 0 -n 4)
    printf '{"id": "%s", "text": "%s"\n' $end "$text" >>"$tmp/want"
done
try $states -z $letters --batch "$tmp/alike" --in-order -np 3
has as_alone

# The settings of the command line hold where a request gives no others.
printf '%s\n' '{"id": 1, "prompt": "A cat"}' >"$tmp/plain"
{ alone 1 -p 'A cat' --temp 0 -n 5 && echo; } >"$tmp/want"
try "$model" --batch "$tmp/plain" --temp 0 -n 5
has as_alone

# Without a seed, each request has its own, which its name and -s make, wherever it stands.
printf '{"id": %s, "prompt": "A cat", "max_tokens": 8}\n' 1 2 3 >"$tmp/three"
try "$model" --batch "$tmp/three" --in-order --temp 1
cp "$tmp/out" "$tmp/first"
has test "$(sort -u "$tmp/out" | cut -d, -f2 | sort -u | wc -l)" -gt 1
sed -n 3p "$tmp/three" >"$tmp/third"
try "$model" --batch "$tmp/third" --temp 1
tail -n 1 "$tmp/first" >"$tmp/want"
has cmp -s "$tmp/out" "$tmp/want"
try "$model" --batch "$tmp/three" --in-order --temp 1 -s 5
has test "$(cmp -s "$tmp/out" "$tmp/first" && echo same)" = ""

# OpenAI's lines, and chats; tokens in place of a text.
printf '%s' "{% for m in messages %}{{ m.role[0] + ':' + m.content + '\n' }}{% endfor %}a:" >"$tmp/template"
cat >"$tmp/requests" <<'END'
{"custom_id": "c", "method": "POST", "url": "/v1/completions", "body": {"model": "any", "prompt": "The Eiffel", "temperature": 0, "max_tokens": 2, "n": 1, "stream": false, "logit_bias": {}}}
{"custom_id": "m", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "temperature": 0, "max_tokens": 6}}
{"id": "s", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 6}
END
try "$model" --batch "$tmp/requests" --in-order --chat-template "$tmp/template"
cp "$tmp/out" "$tmp/openai"
has grep -q '^{"id": "batch_req_[0-9a-f]*", "custom_id": "c", "response": {"status_code": 200, .*"choices": \[{"index": 0, "text": " Tower [a-z]*", "logprobs": null, "finish_reason": "length"}\], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}}, "error": null}$' "$tmp/openai"
printf 'u:Hi\na:' >"$tmp/text"
said=$("$run" "$model" -f "$tmp/text" --temp 0 -n 6 --no-echo | head -n 1)
has grep -qF "\"object\": \"chat.completion\"" "$tmp/openai"
has grep -qF "\"message\": {\"role\": \"assistant\", \"content\": \"$said" "$tmp/openai"
has grep -qF "{\"id\": \"s\", \"text\": \"$said" "$tmp/openai"
ids=$("$run" "$model" -p 'A cat' --tokens | tr ' ' ',' | tr -d '\n')
printf '{"id": 1, "prompt": [%s], "temperature": 0, "max_tokens": 5}\n' "$ids" >"$tmp/tokens"
{ alone 1 -p 'A cat' --temp 0 -n 5 && echo; } >"$tmp/want"
try "$model" --batch "$tmp/tokens"
has as_alone

# What the tools of others write beside a request asks for nothing that is not done: the answers are alike.
chat() { printf '{"custom_id": "%s", "method": "POST", "url": "%s", "body": {"model": "m", "temperature": 0, "max_tokens": 6, %s}}\n' "$1" "${3:-/v1/chat/completions}" "$2"; }
hi='"messages": [{"role": "user", "content": "Hi"}]'
i=0
while read -r more; do i=$((i + 1)) && chat $i "$hi$more"; done >"$tmp/requests" <<'END'

, "seed": -5
, "n": 1, "stream": false, "stop": null, "user": "u", "metadata": {"a": "b"}, "store": true, "service_tier": "flex"
, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "top_p": 1, "seed": -1
, "response_format": {"type": "text"}, "modalities": ["text"], "stream_options": {"include_usage": true}
, "tools": [], "tool_choice": "none", "parallel_tool_calls": true, "functions": [], "function_call": "auto"
, "logprobs": false, "top_logprobs": 0, "max_completion_tokens": 6
, "logprobs": null, "top_logprobs": null, "reasoning_effort": null, "audio": null, "prediction": null
, "safety_identifier": "s", "prompt_cache_key": "k", "prompt_cache_retention": "24h"
, "top_k": -1, "min_p": 0.0, "length_penalty": 1.0, "use_beam_search": false, "best_of": null
, "ignore_eos": false, "min_tokens": 0, "stop_token_ids": [], "skip_special_tokens": true, "detokenize": true, "priority": 0
, "include_stop_str_in_output": false, "add_generation_prompt": true, "continue_final_message": false, "echo": false
, "spaces_between_special_tokens": true, "request_id": "r", "chat_template_kwargs": {}, "prompt_logprobs": null, "bad_words": []
END
chat 20 "$hi" /chat/completions >>"$tmp/requests" # as Azure's files have it
chat 21 '"messages": [{"role": "user", "content": ["Hi"], "refusal": null, "audio": null, "tool_calls": []}]' >>"$tmp/requests"
try "$model" --batch "$tmp/requests" --in-order --chat-template "$tmp/template"
has quiet
has [ "$(wc -l <"$tmp/out")" -eq 15 ]
has [ "$(sed 's/.*"choices": //' "$tmp/out" | sort -u | wc -l)" -eq 1 ]
has [ "$(grep -c '"content": "[^"]*", "refusal": null}, "logprobs": null, "finish_reason": "length"}\], "usage": {"prompt_tokens": 8, "completion_tokens": 6, "total_tokens": 14}}}, "error": null}$' "$tmp/out")" -eq 15 ]

# Parts of a content are lines of their own. The template has the request's variables, and of no other one.
printf '%s' "{% for m in messages %}{{ m.role[0] + ':' + m.content + '\n' }}{% endfor %}{{ 'b' if enable_thinking is false else 'a' }}{{ mood }}:" >"$tmp/mood.template"
cat >"$tmp/requests" <<'END'
{"messages": [{"role": "user", "content": ["H", {"type": "text", "text": "i"}]}], "temperature": 0, "max_tokens": 6, "chat_template_kwargs": {"enable_thinking": false, "mood": "<|endoftext|>", "add_vision_id": null}}
{"messages": [{"role": "user", "content": "H\ni"}], "temperature": 0, "max_tokens": 6, "chat_template_kwargs": {"mood": 1.5, "enable_thinking": true}}
{"messages": [{"role": "user", "content": ["H", "i"]}], "temperature": 0, "max_tokens": 6}
{"prompt": "u:H\ni\nb<|endoftext|>:", "temperature": 0, "max_tokens": 6}
{"prompt": "u:H\ni\na1.5:", "temperature": 0, "max_tokens": 6}
{"prompt": "u:H\ni\na:", "temperature": 0, "max_tokens": 6}
END
try "$model" --batch "$tmp/requests" --in-order --chat-template "$tmp/mood.template"
has quiet
has [ "$(sed -n '1,3s/^[^,]*,//p' "$tmp/out")" = "$(sed -n '4,6s/^[^,]*,//p' "$tmp/out")" ]
has [ "$(cut -d, -f2- "$tmp/out" | sort -u | wc -l)" -eq 3 ]

# An answer that was a call alone has no text; who says a thing has a name where the template asks for it; thoughts have three.
printf '%s' "{% for m in messages %}{{ m.role[0] + '=' + (m.name or '') + (m.reasoning_content or '') + ':' + m.content + '\n' }}{% endfor %}a:" >"$tmp/names.template"
for more in '"name": "Bo"' '"reasoning": "Bo"' '"thinking": "Bo"' '"reasoning_content": "Bo", "name": null' '"name": "B", "thinking": "o"' \
    '"reasoning": "Bo", "thinking": ""'; do
    printf '{"messages": [{"role": "user", "content": "Hi", %s}, {"role": "assistant", "content": null}], "temperature": 0, "max_tokens": 6}\n' "$more"
done >"$tmp/requests"
printf '%s\n' '{"prompt": "u=Bo:Hi\na=:\na:", "temperature": 0, "max_tokens": 6}' >>"$tmp/requests"
try "$model" --batch "$tmp/requests" --in-order --chat-template "$tmp/names.template"
has quiet
has [ "$(cut -d, -f2- "$tmp/out" | sort -u | wc -l)" -eq 1 ]

# Several prompts in one request: each has the texts that it has alone.
sampled='"temperature": 1, "seed": -7, "max_tokens": 5, "logprobs": 0'
{
    chat all "$sampled, \"n\": 2, \"prompt\": [\"A cat\", [$ids], \"The Eiffel\"]" /v1/completions
    chat cat "$sampled, \"n\": 2, \"prompt\": [\"A cat\"]" /completions
    chat ids "$sampled, \"n\": 2, \"prompt\": [[$ids]]"  /v1/completions
    chat tower "$sampled, \"n\": 2, \"prompt\": \"The Eiffel\"" /v1/completions
    echo "{\"id\": \"short\", $sampled, \"prompt\": [\"A cat\", \"The Eiffel\"]}"
} | sed 's/"temperature": 0, "max_tokens": 6, //' >"$tmp/requests"
try "$model" --batch "$tmp/requests" --in-order
has quiet
has [ "$(sed -n '1s/"index"/\n&/gp' "$tmp/out" | grep -c '^"index": [0-5], ')" -eq 6 ]
has [ "$(sed -n 1p "$tmp/out" | grep -o '"text": "[^"]*"')" = "$(sed -n 2,4p "$tmp/out" | grep -o '"text": "[^"]*"')" ]
has [ "$(sed -n 1p "$tmp/out" | grep -o '"text": "[^"]*"' | sort -u | wc -l)" -eq 4 ]
has [ "$(sed -n 5p "$tmp/out" | grep -o '"text": "[^"]*"')" = "$(sed -n '2p;4p' "$tmp/out" | grep -o '"index": 0, "text": "[^"]*"' | sed 's/.*"text"/"text"/')" ]
has [ "$(grep -c '"usage": {"prompt_tokens": 9, "completion_tokens": 30, "total_tokens": 39}\|^{"id": "short", "n_prompt": 6, "choices": ' "$tmp/out")" -eq 2 ]

# A seed below 0 is one, but -1, which is none; control tokens are shown where a request asks for it, and only there.
for more in '"seed": -1' '"user": "u"' '"seed": -2' '"seed": 2'; do
    printf '{"id": 5, "prompt": "A cat", "temperature": 1, "max_tokens": 8, %s}\n' "$more" >"$tmp/plain"
    try "$model" --batch "$tmp/plain"
    cat "$tmp/out"
done >"$tmp/seeds"
has [ "$(sed -n 1p "$tmp/seeds")" = "$(sed -n 2p "$tmp/seeds")" ]
has [ "$(sort -u "$tmp/seeds" | wc -l)" -eq 3 ]
for shows in 'true' 'false --special' 'false' 'true --special' 'null' 'null --special'; do
    printf '{"id": 1, "prompt": "The end.", "seed": 1, "temperature": 1, "max_tokens": 200, "skip_special_tokens": %s}\n' "${shows% *}" >"$tmp/plain"
    # shellcheck disable=SC2086
    try "$model" --batch "$tmp/plain" ${shows#"${shows%% *}"}
    grep -c '<|endoftext|>", ' "$tmp/out"
done >"$tmp/shown"
has [ "$(paste -sd ' ' "$tmp/shown")" = '0 1 1 0 0 1' ]

# Log-probabilities are those that run --json and study next tell of; several texts of one request: the first is the one that it
# has alone, greedy ones are all alike, others are not; what is under way beside them changes no byte.
cat >"$tmp/requests" <<'END'
{"id": 1, "prompt": "The Eiffel", "temperature": 0, "max_tokens": 4, "logprobs": 3}
{"id": 2, "prompt": "A cat", "temperature": 1, "max_tokens": 6}
{"id": 2.5}
{"custom_id": "two", "body": {"prompt": "A cat", "temperature": 1, "seed": 9, "max_tokens": 6, "n": 5}}
{"custom_id": "one", "body": {"prompt": "A cat", "temperature": 1, "seed": 9, "max_tokens": 6}}
{"custom_id": "chat", "body": {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 2, "logprobs": true, "top_logprobs": 2, "n": 2}}
{"id": 6, "prompt": "A lighthouse", "temperature": 0, "stop": [" with"], "n": 2, "logprobs": true, "top_logprobs": 0}
END
try "$model" --batch "$tmp/requests" --in-order --chat-template "$tmp/template" -o "$tmp/several"
has quiet
sed 1d "$tmp/several" >"$tmp/want"
nth_of() { sed -n "$1p" "$tmp/want" | grep -qF -- "$2"; }
told=$("$run" "$model" -p 'The Eiffel' --temp 0 -n 4 --json | sed -n 's/.*"logprobs": \[\([^]]*\)\].*/\1/p')
has [ "$(sed -n '1s/.*"token_logprobs": \[\([^]]*\)\].*/\1/p' "$tmp/want")" = "$told" ]
sed -n 1p "$tmp/requests" >"$tmp/first"
export ATTN_KERNEL=scalar # study's numbers are not rounded to 8 bits
try "$model" --batch "$tmp/first" --kv f32
sed 's/.*"top_logprobs": \[{\([^}]*\)}.*/\1/' "$tmp/out" | tr ',' '\n' | sed 's/^ //; s/\(\.[0-9]\{4\}\)[0-9]*$/\1/' >"$tmp/got"
"$study" next "$model" -p 'The Eiffel' --top 3 --json | tr '{' '\n' |
    sed -n 's/.*"token": \("[^"]*"\).*"logprob_nats": \([-0-9]*\.[0-9]\{4\}\).*/\1: \2/p' >"$tmp/top"
unset ATTN_KERNEL
has [ "$(wc -l <"$tmp/top")" -eq 3 ]
has cmp -s "$tmp/top" "$tmp/got"
has nth_of 1 '"text_offset": [0, 6, '
printf '{"id": 1, "prompt": "%s", "temperature": 0, "max_tokens": 8, "logprobs": 0}\n' →→→→→→→→→→→→ >"$tmp/arrows"
try "$model" --batch "$tmp/arrows"
has grep -qF '"text_offset": [0, 1, 1, 1, 2, 2, 2, 3]}' "$tmp/out" # three bytes a character, a token each
texts() { sed -n "$1p" "$tmp/want" | grep -o "\"$2\": \"[^\"]*\""; }
has [ "$(texts 4 text | wc -l)" -eq 5 ]
has [ "$(texts 4 text | head -n 1)" = "$(texts 5 text)" ]
has [ "$(texts 4 text | sort -u | wc -l)" -gt 2 ]
has nth_of 4 '"index": 4, '
has nth_of 4 '"completion_tokens": 30, "total_tokens": 33}'
has [ "$(texts 6 content | wc -l)" -eq 2 ]
has [ "$(texts 6 content | sort -u | wc -l)" -eq 1 ]
has [ "$(sed -n 6p "$tmp/want" | grep -o '"bytes": ' | wc -l)" -eq 12 ]
has [ "$(sed -n 7p "$tmp/want" | grep -o '"end": "stop"' | wc -l)" -eq 2 ]
has nth_of 7 '"top_logprobs": null'
for n in 1 3 8; do
    try "$model" --batch "$tmp/requests" --in-order --chat-template "$tmp/template" -np $n -t $((1 + n % 2))
    has cmp -s "$tmp/want" "$tmp/out"
done
head -n 4 "$tmp/several" >"$tmp/part"
sed -n 5p "$tmp/several" | head -c 200 >>"$tmp/part"
try "$model" --batch "$tmp/requests" --in-order --chat-template "$tmp/template" -o "$tmp/part"
has cmp -s "$tmp/several" "$tmp/part"
# Tokens that are no UTF-8 of their own; more of the likeliest than there are tokens would be too many.
printf '%s\n' '{"id": 1, "prompt": [65, 66], "temperature": 0, "max_tokens": 1, "logprobs": 20}' >"$tmp/bytes"
try "$llama" --batch "$tmp/bytes" -o "$tmp/answer"
has quiet
has grep -qF '"bytes:\\x' "$tmp/answer"
try "$llama" --batch "$tmp/bytes" -o "$tmp/answer" # which reads it as JSON: no member stands there twice
has grep -q ': 1; going on behind them$' "$tmp/err"

# Likelihoods are those of study score; the choices of a context, those of each alone.
cat >"$tmp/likely" <<'END'
{"id": 1, "context": "The Eiffel", "continuation": " Tower was"}
{"id": 2, "context": "The Eiffel ", "choices": ["Tower was", "bridge of iron", "Tower", "Tower was"]}
{"id": 3, "context": "", "continuation": "The Eiffel Tower was", "prompt": null, "choices": null, "model": "m"}
{"id": 4, "context": "The Eiffel", "continuation": " bridge of iron"}
{"id": 5, "prompt": "A", "max_tokens": 1, "context": null, "continuation": null, "choices": null}
END
try "$model" --batch "$tmp/likely" --in-order
cp "$tmp/out" "$tmp/likelihoods"
has quiet
"$study" score "$model" -p 'The Eiffel Tower was' --json | tr ',' '\n' | sed -n 's/.*"surprisal_nats": //p' |
    awk '{ printf "%s-%s", (NR > 1 ? ", " : ""), $1 } END { print "" }' >"$tmp/scored"
has grep -qF '"logprobs": ['"$(cat "$tmp/scored")"']}' "$tmp/likelihoods"
two=$(sed 's/.*, \(-[^,]*, -[^,]*\)$/\1/' "$tmp/scored")
has grep -qF '"is_greedy": false, "tokens": [3650, 304], "logprobs": ['"$two"']}' "$tmp/likelihoods"
first=$(sed -n '1s/.*"n_context": 3, \(.*\)}$/\1/p' "$tmp/likelihoods")
bridge=$(sed -n '4s/.*"n_context": 3, \(.*\)}$/\1/p' "$tmp/likelihoods")
tower=$(echo "$two" | cut -d, -f1)
has grep -qF "{\"id\": 2, \"n_context\": 3, \"choices\": [{$first}, {$bridge}, {\"logprob\": $tower, \"is_greedy\": true, \"tokens\": [3650], \"logprobs\": [$tower]}, {$first}], \"best\": 2, \"best_by_byte\": 2}" "$tmp/likelihoods"
has grep -q '^{"id": 5, "text": ' "$tmp/likelihoods"
# What Python takes for white space at a context's end counts as the continuation's.
printf '{"id": null, "context": "The Eiffel%s", "choices": ["%s"]}\n' '\u3000\u0085' x '' ' \u2003x' >"$tmp/spaces"
try "$model" --batch "$tmp/spaces" --in-order
has [ "$(grep -o '"n_context": 3, .*"tokens": \[[0-9, ]*\]' "$tmp/out" | wc -l)" -eq 2 ]
has grep -qF "$("$study" tokens "$model" -p "$(printf 'The Eiffel\343\200\200\302\205x')" --json | grep -o '"id": [0-9]*' | sed 1,3d | sed 's/.* //' | paste -sd, | sed 's/,/, /g')" "$tmp/out"

# A request that cannot be answered says why, and the rest goes on.
while IFS='|' read -r why request; do
    printf '%s\n{"id": "next", "prompt": "A", "max_tokens": 1}\n' "$request" >"$tmp/bad"
    try "$model" --batch "$tmp/bad" -np 1
    [ "$(wc -l <"$tmp/out")" -eq 2 ] && sed -n 1p "$tmp/out" | grep -qF -- "$why" &&
        sed -n 2p "$tmp/out" | grep -q '^{"id": "next", "text": "' && quiet
    count $? "answers '$request' with '$why'"
done <<'END'
{"line": 1, "error": "this is no JSON: |not json
{"line": 1, "error": "a request is an object"}|[1]
{"id": 7, "error": "a request needs a \"prompt\" or \"messages\", one of the two"}|{"id": 7}
one of the two"}|{"prompt": "a", "messages": [{"role": "user", "content": "b"}]}
"\"prompt\" must be a text, an array of token ids, or an array of such"}|{"prompt": ["a", 5]}
"\"prompt\" must be a text, an array of token ids, or an array of such"}|{"prompt": [[65], []]}
"130 prompts and \"n\" 1 make more than 128 texts"}|{"prompt": ["a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a"]}
"2 prompts and \"n\" 65 make more than 128 texts"}|{"prompt": ["a", "b"], "n": 65}
"1025 tokens are more than the context of 1024 holds"}|{"prompt": ["a", [65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65,65]], "max_tokens": 1}
"\"prompt\" must be a text, an array of token ids, or an array of such"}|{"prompt": []}
or an array of such"}|{"prompt": 5}
or an array of such"}|{"prompt": [-1]}
or an array of such"}|{"prompt": [3000000000]}
is outside the vocabulary of 8192"}|{"prompt": [99999]}
"\"id\" must be a text or an integer of 64 bits"}|{"id": 1.5, "prompt": "a"}
"\"temperature\" must be a number from 0 to 1e+09"}|{"prompt": "a", "temperature": -1}
"\"temperature\" must be a number from 0 to 1e+09"}|{"prompt": "a", "temperature": 2e9}
"\"temperature\" must be a number from 0 to 1e+09"}|{"prompt": "a", "temperature": "hot"}
"\"top_k\" must be an integer from -1 to 1e+09"}|{"prompt": "a", "top_k": 1.5}
"\"top_k\" must be an integer from -1 to 1e+09"}|{"prompt": "a", "top_k": -2}
"\"max_tokens\" must be an integer from -1 to 1e+09"}|{"prompt": "a", "max_tokens": "many"}
must be an integer from -1 to 1e+09"}|{"prompt": "a", "n_predict": -2}
must be an integer from -1 to 1e+09"}|{"prompt": "a", "max_tokens": 1000000001}
"\"seed\" must be an integer from -9.22337e+18 to 9.22337e+18"}|{"prompt": "a", "seed": 1.5}
"\"seed\" must be an integer from -9.22337e+18 to 9.22337e+18"}|{"prompt": "a", "seed": 9223372036854775808}
{"line": 1, "error": "\"id\" must be a text or an integer of 64 bits"}|{"id": 9223372036854775808, "prompt": "a"}
"\"max_tokens\" must be an integer|{"prompt": "a", "max_tokens": 2.5}
"\"max_tokens\" must be an integer|{"prompt": "a", "max_tokens": 1e300}
"\"max_tokens\" and \"max_completion_tokens\" say two things"}|{"prompt": "a", "max_completion_tokens": 2, "max_tokens": 9}
"\"max_tokens\" and \"n_predict\" say two things"}|{"prompt": "a", "max_tokens": 9, "n_predict": 2}
"\"repeat_penalty\" and \"repetition_penalty\" say two things"}|{"prompt": "a", "repetition_penalty": 1.1, "repeat_penalty": 1}
"\"logprobs\" and \"top_logprobs\" say two things"}|{"prompt": "a", "top_logprobs": 3, "logprobs": 1}
"\"stop\" must be a text that is not empty, or an array of them"}|{"prompt": "a", "stop": [""]}
"\"stop\" must be a text that is not empty|{"prompt": "a", "stop": "\u0000"}
"\"stop\" has more than 16 texts"}|{"prompt": "a", "stop": ["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q"]}
"\"logprobs\" must be an integer from 0 to 20"}|{"prompt": "a", "logprobs": 21}
"\"logprobs\" must be an integer from 0 to 20"}|{"prompt": "a", "logprobs": "1"}
"\"top_logprobs\" must be an integer from 0 to 20"}|{"prompt": "a", "logprobs": true, "top_logprobs": true}
"\"top_logprobs\" needs \"logprobs\""}|{"prompt": "a", "logprobs": false, "top_logprobs": 2}
"\"n\" must be an integer from 1 to 128"}|{"prompt": "a", "n": 0}
"\"n\" must be an integer from 1 to 128"}|{"prompt": "a", "n": 129}
"\"best_of\" is not done here"}|{"prompt": "a", "best_of": 2}
"\"skip_special_tokens\" is not done here"}|{"prompt": "a", "skip_special_tokens": "no"}
"\"add_generation_prompt\" is not done here"}|{"prompt": "a", "add_generation_prompt": false}
"\"detokenize\" is not done here"}|{"prompt": "a", "detokenize": false}
"\"stream\" is not done here"}|{"prompt": "a", "stream": true}
"\"echo\" is not done here"}|{"prompt": "a", "echo": true}
"\"min_tokens\" is not done here"}|{"prompt": "a", "min_tokens": 2}
"\"prompt_logprobs\" is not done here"}|{"prompt": "a", "prompt_logprobs": 0}
"\"logit_bias\" is not done here"}|{"prompt": "a", "logit_bias": {"5": -100}}
"\"response_format\" is not done here"}|{"prompt": "a", "response_format": {"type": "json_object"}}
"\"modalities\" is not done here"}|{"prompt": "a", "modalities": ["text", "audio"]}
"\"modalities\" is not done here"}|{"prompt": "a", "modalities": ["audio"]}
"\"tool_choice\" is not done here"}|{"prompt": "a", "tool_choice": "required"}
"\"guided_choice\" is not done here"}|{"prompt": "a", "guided_choice": ["none"]}
"\"suffix\" is not done here"}|{"prompt": "a", "suffix": "none"}
"\"n\" is not done here with a context"}|{"context": "a", "continuation": "b", "n": 2}
"\"chat_template_kwargs\" is not done here"}|{"prompt": "a", "chat_template_kwargs": [1]}
"a template's variable \"eos_token\" is the conversation's own"}|{"prompt": "a", "chat_template_kwargs": {"eos_token": "x"}}
"a template's variable \"messages\" is the conversation's own"}|{"prompt": "a", "chat_template_kwargs": {"a": 1, "messages": "x"}}
"a template's variable \"docs\" must be a text, a number, true, false or null"}|{"prompt": "a", "chat_template_kwargs": {"docs": [{"role": "x"}]}}
"\"tools\" is not done here"}|{"prompt": "a", "tools": [1]}
"\"messages\" must be an array of messages, one at least"}|{"messages": []}
one at least"}|{"messages": "Hi"}
"a message's role must be system, user, assistant, developer or tool"}|{"messages": [{"role": "root", "content": "a"}]}
"a message needs a content that is a text"}|{"messages": [{"role": "user"}]}
"a message needs a content that is a text"}|{"messages": [{"role": "user", "content": null}]}
"a message needs a content that is a text"}|{"messages": [{"role": "assistant"}]}
"a message's content may have parts of text only"}|{"messages": [{"role": "user", "content": [{"type": "text"}]}]}
"a message's content may have parts of text only"}|{"messages": [{"role": "user", "content": ["a", 5]}]}
"\"tool_calls\" of a message is not done here"}|{"messages": [{"role": "assistant", "content": null, "tool_calls": [{"id": "c"}]}]}
"\"prefix\" of a message is not done here"}|{"messages": [{"role": "assistant", "content": "a", "prefix": true}]}
"a message's content may have parts of text only"}|{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}
has no chat template (tokenizer.chat_template); give one"}|{"messages": [{"role": "user", "content": "a"}]}
{"id": "batch_req_da16b26d9e750436", "custom_id": "a", "response": {"status_code": 400, "request_id": "da16b26d9e750436", "body": {"error": {"message": "the request has no body", "type": "invalid_request_error", "param": null, "code": null}}}, "error": {"code": "invalid_request", "message": "the request has no body"}}|{"custom_id": "a"}
"custom_id": null, "line": 1, "response": {"status_code": 400, |{"body": {"prompt": 5}}
"message": "the request has no body"}|{"custom_id": "a", "body": [1]}
"message": "\"url\" must be /v1/completions or /v1/chat/completions"}|{"custom_id": "a", "url": "/v1/embeddings", "body": {"prompt": "a"}}
"message": "\"temperature\" stands beside the body, where nobody reads it; put it into the body"}|{"custom_id": "a", "temperature": 0, "body": {"prompt": "a"}}
"message": "\"id\" stands beside the body|{"id": 1, "body": {"prompt": "a"}}
"message": "\"method\" must be POST"}|{"custom_id": "a", "method": "GET", "body": {"prompt": "a"}}
"message": "\"custom_id\" is not done here"}|{"custom_id": "a", "body": {"prompt": "a", "custom_id": "b"}}
"\"url\" is not done here"}|{"prompt": "a", "url": "/v1/completions"}
"message": "the body is not one for the request's url"}|{"custom_id": "a", "url": "/v1/completions", "body": {"messages": [{"role": "user", "content": "a"}]}}
a continuation has no token of its own"}|{"context": "a", "continuation": ""}
a continuation has no token of its own"}|{"context": "", "continuation": ""}
a continuation has no token of its own: all of it joins the context's last one"}|{"context": "The Eiff", "continuation": "el Tower"}
"a context needs a \"continuation\" or \"choices\", one of the two"}|{"context": "a"}
"\"context\" must be a text"}|{"context": 1, "continuation": "a"}
"\"choices\" must be an array of texts, one at least"}|{"context": "a", "choices": []}
one at least"}|{"context": "a", "choices": "b"}
"\"choices\" must be an array of texts, one at least"}|{"context": "a", "choices": ["b", 1]}
"\"continuation\" must be a text"}|{"context": "a", "continuation": ["b"]}
"\"temperature\" is not done here with a context"}|{"context": "a", "continuation": "b", "temperature": 1}
END
printf '{"id": 1, "prompt": [%s]}\n' "$(seq -s, 1 1025)" >"$tmp/long"
try "$model" --batch "$tmp/long"
has grep -q '^{"id": 1, "error": "1025 tokens are more than the context of 1024 holds"}$' "$tmp/out"
printf '{"id": 1, "context": "A", "continuation": "%s"}\n' "$(seq -s' ' 1025)" >"$tmp/long"
try "$model" --batch "$tmp/long"
has grep -q '^{"id": 1, "error": "[0-9]* tokens are more than the context of 1024 holds"}$' "$tmp/out"
printf '{"id": 1, "prompt": "A", "max_tokens": 1}\n{"id": 1, "prompt": "B", "max_tokens": 1}\n{"id": "1", "prompt": "C", "max_tokens": 1}\n' >"$tmp/twice"
try "$model" --batch "$tmp/twice" --in-order
has grep -q '^{"line": 2, "error": "a line before this one has the same id"}$' "$tmp/out"
has grep -q '^{"id": "1", "text": ' "$tmp/out"
head -c 17000000 /dev/zero | tr '\0' 'x' >"$tmp/wide"
printf '\n{"id": "next", "prompt": "A", "max_tokens": 1}' >>"$tmp/wide"
try "$model" --batch "$tmp/wide" -np 1
has grep -q '^{"line": 1, "error": "the line has more than 16777216 bytes"}$' "$tmp/out"
has grep -q '^{"id": "next", "text": ' "$tmp/out"
try "$model" --batch /dev/null
has quiet
try "$model" --batch /dev/zero # the line is answered, and no end of it is waited for
has [ "$code" -eq 1 ]
has grep -q '^run: /dev/zero: line 1 has no end within 268435456 bytes; nothing behind it was read$' "$tmp/err"
has [ "$(cat "$tmp/out")" = '{"line": 1, "error": "the line has more than 16777216 bytes"}' ]
{
    printf '{"id": "first", "prompt": "A", "max_tokens": 3}\n\n'
    cat /dev/zero 2>/dev/null
} | "$run" "$model" --batch - -o "$tmp/endless" 2>"$tmp/err"
has grep -q '^run: stdin: line 3 has no end within' "$tmp/err"
has [ "$(wc -l <"$tmp/endless")" -eq 3 ]
has grep -q '^{"id": "first", "text": ' "$tmp/endless"

# Members that say nothing change nothing; lines of spaces are none; a text may go on until it ends, or to the context's end.
cat >"$tmp/nothing" <<'END'
{"id": 1, "prompt": "A cat", "temperature": 0, "max_tokens": 4, "seed": null, "top_k": null, "messages": null, "n": 1, "best_of": 1, "tools": []}
 	
{"id": 2, "context": "The Eiffel", "continuation": " Tower was", "temperature": null}
{"id": 3, "prompt": "A lighthouse", "temperature": 0, "max_tokens": -1, "stop": [" with"]}
{"custom_id": "o", "context": null, "body": {"prompt": "A lighthouse", "temperature": 0, "stop": [" with"]}}
{"custom_id": "f", "body": {"prompt": "A cat", "temperature": 0, "max_tokens": 1000}}
{"id": 6, "messages": [{"role": "user", "content": []}], "max_tokens": 0}
END
printf '{"id": 7, "context": "The Eiffel\\u0000", "choices": ["fel", " Tower"]}\n\0\n' >>"$tmp/nothing"
try "$model" --batch "$tmp/nothing" --in-order --chat-template "$tmp/template" -c 16
cp "$tmp/out" "$tmp/nothing.out"
nth() { sed -n "$1p" "$tmp/nothing.out" | grep -qF -- "$2"; }
has quiet
has nth 1 "$(alone 1 -p 'A cat' --temp 0 -n 4)"
has nth 2 "$(sed -n 1p "$tmp/likelihoods" | cut -d, -f2-)"
has nth 3 "$(alone 3 -p 'A lighthouse' --temp 0 --stop ' with')"
has nth 4 '"finish_reason": "stop"'
has nth 5 '"finish_reason": "length"}], "usage": {"prompt_tokens": 3, "completion_tokens": 14, "total_tokens": 17}'
has nth 6 '{"id": 6, "text": "", "n_prompt": '
has nth 7 '{"id": 7, "n_context": '
has nth 8 '{"line": 9, "error": "this is no JSON: '

# Choices whose tokens grow together with the context's, and more than go through the layers at once.
many='"fel Tower stands", " Tower", "s"'
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do many="$many, \" tower $i of\""; done
printf '{"id": 1, "context": "The Eif", "choices": [%s]}\n' "$many" >"$tmp/many"
try "$model" --batch "$tmp/many"
cp "$tmp/out" "$tmp/many.out"
echo "$many" | sed 's/, "/\n"/g' | sed 's/.*/{"context": "The Eif", "continuation": &}/' >"$tmp/each"
try "$model" --batch "$tmp/each" --in-order
grep -o '"logprob": [-0-9.e]*' "$tmp/many.out" >"$tmp/want"
sed -n 's/.*\("logprob": [-0-9.e]*\).*/\1/p' "$tmp/out" >"$tmp/got"
has [ "$(wc -l <"$tmp/got")" -eq 21 ]
has cmp -s "$tmp/want" "$tmp/got"

# A long text first, and many short ones: their answers wait for it, and no more of them than have room.
{
    echo '{"id": 0, "prompt": "The king", "max_tokens": 60, "temperature": 0}'
    for i in $(seq 70); do echo "{\"id\": $i, \"prompt\": \"A\", \"max_tokens\": 0}"; done
} >"$tmp/waits"
try "$model" --batch "$tmp/waits" --in-order -np 2
has [ "$(cut -d, -f1 "$tmp/out" | tr -dc '0-9\n' | tr '\n' ' ')" = "$(seq -s' ' 0 70) " ]

# Texts that begin alike take over what one has computed; so many that their logits go in two parts; special tokens as text.
begin='The Eiffel Tower was built in the year when the king of the north rode out to the sea, and all who saw it'
for i in 1 2 3; do echo "{\"id\": $i, \"prompt\": \"$begin said ($i\", \"max_tokens\": $((3 * i)), \"temperature\": 0}"; done >"$tmp/alike"
for i in 1 2 3; do alone $i -p "$begin said ($i" --temp 0 -n $((3 * i)) && echo; done >"$tmp/want"
try "$model" --batch "$tmp/alike" --in-order -np 3
has as_alone
try "$model" --batch "$tmp/alike" --in-order -np 100
has as_alone
try "$model" --batch "$tmp/alike" --in-order -np 3 --special -o "$tmp/special"
has quiet
has grep -q '"special": true' "$tmp/special"
text_of "$tmp/special" | tail -n 3 | cmp -s - "$tmp/want"
count $? "the same with --special"

# A line that is longer than what is read at once, behind a short one.
{ head -n 1 "$tmp/alike" && printf '{"id": 2, "prompt": "A", "max_tokens": 0, "user": "%0200000d"}\n' 1; } >"$tmp/longer"
try "$model" --batch "$tmp/longer" --in-order
has grep -q '^{"id": 2, "text": "", "n_prompt": 2, ' "$tmp/out"

# A file of answers goes on where it was cut, at any byte, and has the bytes that it would have had.
{
    for i in 1 2 3 4 5; do echo "{\"id\": $i, \"prompt\": \"The $i\", \"max_tokens\": $((3 + i % 4))}"; done
    printf '%s\n' '{"custom_id": 6, "body": {"prompt": 5}}' '{"custom_id": 6, "body": {"prompt": "A cat", "max_tokens": 3}}' \
        '{"body": {"prompt": ["A cat", "A"], "max_tokens": 3}}' 'no JSON'
} >"$tmp/nine"
try "$model" --batch "$tmp/nine" --in-order -o "$tmp/whole"
has quiet
has test "$(wc -l <"$tmp/whole")" -eq 10
size=$(wc -c <"$tmp/whole")
at=0 same=0 n=0
while [ $at -lt "$size" ]; do
    head -c $at "$tmp/whole" >"$tmp/cut"
    try "$model" --batch "$tmp/nine" --in-order -o "$tmp/cut"
    [ "$code" -eq 0 ] && cmp -s "$tmp/whole" "$tmp/cut" && same=$((same + 1))
    n=$((n + 1)) at=$((at + 157))
done
has test $same -eq $n
has grep -q "run: note: answers in $tmp/cut: [1-9]; going on behind them" "$tmp/err"
try "$model" --batch "$tmp/nine" --in-order -o "$tmp/whole"
has cmp -s "$tmp/whole" "$tmp/cut"

# More answers than there is room for names at first; OpenAI's; a disk that is full, and then is not.
for i in $(seq 600); do echo "{\"id\": \"text $i\", \"prompt\": \"A\", \"max_tokens\": 0}"; done >"$tmp/names"
try "$model" --batch "$tmp/names" --in-order -o "$tmp/named"
head -n 560 "$tmp/named" >"$tmp/part"
sed -n 5,7p "$tmp/named" >>"$tmp/part" # thrice, which does no harm
try "$model" --batch "$tmp/names" --in-order -o "$tmp/part"
has grep -q ': 559; going on behind them$' "$tmp/err"
has [ "$(sort -u "$tmp/part" | wc -l)" -eq 601 ]
try "$model" --batch "$tmp/requests" --in-order --chat-template "$tmp/template" -o "$tmp/custom"
head -n 2 "$tmp/custom" >"$tmp/part"
try "$model" --batch "$tmp/requests" --in-order --chat-template "$tmp/template" -o "$tmp/part"
has cmp -s "$tmp/custom" "$tmp/part"
(ulimit -f 4 && exec "$run" "$model" --batch "$tmp/names" --in-order -o "$tmp/limited") >"$tmp/out" 2>"$tmp/err"
code=$? command='a disk that is full'
has [ "$code" -eq 1 ]
has one_line 'limited: cannot write: File too large'
has [ "$(tail -c 1 "$tmp/limited" | od -An -c | tr -d ' ')" = '\n' ]
try "$model" --batch "$tmp/names" --in-order -o "$tmp/limited"
has cmp -s "$tmp/named" "$tmp/limited"

# The file says which model it is of, by its name alone.
path=$(cd "$(dirname "$run")" && pwd)/$(basename "$run")
(cd weights && "$path" model.gguf --batch "$tmp/names" --in-order -o "$tmp/here") 2>"$tmp/err"
has cmp -s "$tmp/named" "$tmp/here"

cp -r tests/data/torch/opt "$tmp/opt"
printf '{"a": 0, "b": 1}' >"$tmp/opt/vocab.json"
echo '#version: 0.2' >"$tmp/opt/merges.txt"
echo '{"prompt": "ab", "max_tokens": 0}' >"$tmp/ab"
try "$tmp/opt/" --batch "$tmp/ab" -o "$tmp/of_folder"
has grep -q '^{"answers_of": "[^"]*/opt/", ' "$tmp/of_folder"

# An answer without an id of its own is known by its line, in OpenAI's format, too.
printf '%s\n' '{"body": {"prompt": "A", "max_tokens": 1}}' '{"custom_id": null}' '{"id": "a", "id": 7, "prompt": "B", "max_tokens": 0}' \
    'no JSON' >"$tmp/nameless"
try "$model" --batch "$tmp/nameless" --in-order -o "$tmp/once"
cp "$tmp/once" "$tmp/again"
try "$model" --batch "$tmp/nameless" --in-order -o "$tmp/again"
has cmp -s "$tmp/once" "$tmp/again"

# Killed at random moments: nothing is lost, nothing is there twice.
kills=12
case $CFLAGS in *-fsanitize=*) ATTN_LONG_TESTS= ;; esac
[ -n "$ATTN_LONG_TESTS" ] && kills=200
for i in $(seq 40); do
    echo "{\"id\": $i, \"prompt\": \"The $i\", \"max_tokens\": $((40 + i % 9)), \"temperature\": 1.5}"
    [ $((i % 5)) -ne 0 ] || echo "{\"custom_id\": $((i % 10)), \"body\": {\"prompt\": \"A\", \"stream\": true}}"
done >"$tmp/forty" # of which eight more are refused, seven of them since others have their ids
"$run" "$model" --batch "$tmp/forty" --in-order -o "$tmp/undisturbed" 2>/dev/null
"$run" "$model" --batch "$tmp/forty" -o "$tmp/any" 2>/dev/null
sort "$tmp/any" >"$tmp/any.sorted"
killed=0 same=0 n=0
while [ $n -lt $((kills / 6)) ]; do
    order=--in-order
    [ $((n % 2)) -eq 1 ] && order=
    rm -f "$tmp/killed"
    for try in 1 2 3 4 5 6; do
        # shellcheck disable=SC2086
        "$run" "$model" --batch "$tmp/forty" $order -o "$tmp/killed" 2>/dev/null &
        pid=$!
        sleep "0.$(awk -v seed="$n$try" 'BEGIN { srand(seed); printf "%03d", 10 + rand() * 150 }')"
        kill -KILL $pid 2>/dev/null && killed=$((killed + 1))
        wait $pid 2>/dev/null
    done
    # shellcheck disable=SC2086
    "$run" "$model" --batch "$tmp/forty" $order -o "$tmp/killed" 2>/dev/null
    n=$((n + 1))
    if [ -n "$order" ]; then
        cmp -s "$tmp/undisturbed" "$tmp/killed" && same=$((same + 1))
    else
        sort "$tmp/killed" | cmp -s - "$tmp/any.sorted" && same=$((same + 1))
    fi
done
command="$killed kills" code=$same
has test $same -eq $n
has test $killed -gt 0

# A client that writes a request and waits for its answer gets it, however many texts could be under way.
mkfifo "$tmp/in" "$tmp/back"
"$run" "$model" --batch - -np 8 <"$tmp/in" >"$tmp/back" 2>"$tmp/err" &
exec 3>"$tmp/in" 4<"$tmp/back"
talks=0
for i in 1 2 3; do
    echo "{\"id\": $i, \"prompt\": \"A cat\", \"max_tokens\": 2}" >&3
    read -r line <&4
    case $line in "{\"id\": $i, \"text\": "*) talks=$((talks + 1)) ;; esac
done
exec 3>&- 4<&-
wait
has test $talks -eq 3

# Whoever reads stdout may go away, as of text.
command='--batch into a closed pipe'
{
    sleep 0.2
    "$run" "$model" --batch "$tmp/nine" --in-order 2>"$tmp/err"
    echo $? >"$tmp/code"
} | :
code=$(cat "$tmp/code")
has quiet

# Whoever made the pipe may have made it one that does not wait: then the program does.
if command -v python3 >/dev/null; then
    for i in $(seq 900); do echo "{\"id\": \"$(printf '%0150d' "$i")\", \"prompt\": \"A\", \"max_tokens\": 0}"; done >"$tmp/wordy"
    try "$model" --batch "$tmp/wordy" --in-order
    cp "$tmp/out" "$tmp/want"
    python3 - "$run" "$model" --batch "$tmp/wordy" --in-order >"$tmp/out" 2>"$tmp/err" <<'END'
import os, subprocess, sys
out, end = os.pipe()
os.set_blocking(end, False)
program = subprocess.Popen(sys.argv[1:], stdout=end)
try:
    program.wait(5)  # it has more to say than the pipe holds
except subprocess.TimeoutExpired:
    pass
os.close(end)
sys.stdout.buffer.write(open(out, "rb").read())
sys.stdout.flush()
sys.exit(program.wait())
END
    code=$? command='a pipe that does not wait'
    has quiet
    has cmp -s "$tmp/want" "$tmp/out"
else
    skipped=$((skipped + 1))
fi

# Answers that are read as requests would never end.
: >"$tmp/own"
ln -s own "$tmp/link"
for out in own link; do
    (ulimit -f 100 && exec "$run" "$model" --batch - -o "$tmp/$out" <"$tmp/own" >"$tmp/out" 2>"$tmp/err")
    code=$? command="--batch - into $out, which stdin reads"
    has [ "$code" -eq 1 ]
    has one_line "$out: this is what stdin reads; choose another name"
    has [ ! -s "$tmp/own" ]
done
cp "$tmp/nine" "$tmp/own"
for from in - "$tmp/own"; do
    (ulimit -f 100 && exec "$run" "$model" --batch "$from" -np 1 <"$tmp/own" >>"$tmp/own" 2>"$tmp/err")
    code=$? command="--batch $from onto itself"
    has [ "$code" -eq 1 ]
    has one_line '/dev/stdout: this is .* choose another name'
    has cmp -s "$tmp/nine" "$tmp/own"
done

# Files: nothing is lost.
printf '{%% if %%}' >"$tmp/bad.template"
printf 'b:{{ messages[0].content }}' >"$tmp/other.template"
head -n 1 "$tmp/several" >"$tmp/begun"
has grep -q '"sampling": "[^"]*", "template_hash": "[0-9a-f]*"}$' "$tmp/begun"
"$run" "$model" -z weights/model.gguf --batch "$tmp/nothing" -o "$tmp/spelt" 2>/dev/null
has grep -q '"vocabulary_hash": "[0-9a-f]*"}$' "$tmp/spelt"
refuses_each "$model" <<'END'
1 was begun with another "vocabulary_hash", which its  | --batch "$tmp/nine" -o "$tmp/spelt"
1 -: this goes to a file; without -o answers go to stdout | --batch "$tmp/nine" -o -
1 was begun with another "template_hash"               | --batch "$tmp/nine" -o "$tmp/begun" | --batch "$tmp/nine" -o "$tmp/begun" --chat-template "$tmp/other.template"
1 was begun with another "seed"                        | --batch "$tmp/nine" -o "$tmp/whole" -s 3
1 was begun with another "sampling"                    | --batch "$tmp/nine" -o "$tmp/whole" --temp 0
1 was begun with another "n_ctx"                       | --batch "$tmp/nine" -o "$tmp/whole" -c 77
1 holds something else than answers; name another file | --batch "$tmp/nine" -o "$tmp/own"
1 this is the text that is read; choose another name   | --batch "$tmp/nine" -o "$tmp/nine"
1 this is a file of the model; choose another name     | --batch "$tmp/nine" -o weights/model.gguf
1 holds something else than answers; name another file | --batch "$tmp/nine" -o "$tmp/template"
1 cannot read: Is a directory                          | --batch "$tmp"
1 cannot read: No such file or directory               | --batch "$tmp/nowhere"
1 cannot write: No such file or directory              | --batch "$tmp/nine" -o "$tmp/nowhere/x"
1 cannot write: No space left on device                | --batch "$tmp/nine" -o /dev/full
1 bad.template: the chat template, line 1: an expression is missing | --batch "$tmp/nine" --chat-template "$tmp/bad.template"
1 absent: cannot open                                  | --batch "$tmp/nine" --chat-template "$tmp/absent"
2 -o, --parallel and --in-order are for --batch        | -p Hi --in-order | -p Hi -o "$tmp/x" | -p Hi --parallel 2
2 --parallel takes a whole number from 1 to 256        | --batch "$tmp/nine" --parallel 0
END
printf '{"answers_of": "model.gguf"}\nno answer\n' >"$tmp/foreign"
refuses 1 'was begun with another "model_hash"' "$model" --batch "$tmp/nine" -o "$tmp/foreign"
{ head -n 1 "$tmp/whole" && echo 'no answer'; } >"$tmp/foreign"
refuses 1 'holds a line that is no answer' "$model" --batch "$tmp/nine" -o "$tmp/foreign"
has grep -q '^no answer$' "$tmp/foreign"
for line in '{"line": 0, "error": "x"}' '{"line": "x"}' '{"id": [1]}'; do
    { head -n 1 "$tmp/whole" && echo "$line"; } >"$tmp/foreign"
    refuses 1 'holds a line that is no answer of a data set' "$model" --batch "$tmp/nine" -o "$tmp/foreign"
done
printf '%02000d' 1 >"$tmp/foreign" # a line that is longer than ours, and torn
refuses 1 'holds something else than answers; name another file' "$model" --batch "$tmp/nine" -o "$tmp/foreign"
refuses 1 'was begun with another "answers_of"' "$llama" --batch "$tmp/nine" -o "$tmp/whole"
has cmp -s "$tmp/whole" "$tmp/cut"
if command -v flock >/dev/null; then
    flock "$tmp/whole" "$run" "$model" --batch "$tmp/nine" --in-order -o "$tmp/whole" >"$tmp/out" 2>"$tmp/err"
    code=$? command='flock'
    has one_line 'another process writes to it'
fi
for words in '-p Hi' '-f -' -i --chat --json --info --tokens "--logits $tmp/x" '--steer x' '--stop a' --shift '--speculate off' -v; do
    # shellcheck disable=SC2086
    refuses 2 '--batch goes without a prompt' "$model" --batch "$tmp/nine" $words
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
