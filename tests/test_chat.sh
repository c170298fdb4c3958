#!/bin/sh
# run --chat from outside: turns of a pipe, the template, what is computed, refusals. With a vocabulary of bytes an
# answer is what run writes behind the conversation as text.
run=${RUN:-./run}
gpt2=tests/data/reference/gpt2-f32.gguf   # 257 tokens: bytes and <|endoftext|>; 192 positions
llama=tests/data/reference/llama-f32.gguf # 261 tokens, <s> in front
program=$run name=run
. tests/program.sh

cat >"$tmp/template" <<'END'
{%- if messages[0].role == 'system' %}{{ '<' + messages[0].content + '>' }}{% endif %}
{%- for m in messages if m.role != 'system' %}
{{- m.role[0] + ':' + m.content|trim + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'a:' }}{% endif %}
END
chat="$gpt2 --chat --chat-template $tmp/template --temp 0 -n 6"

# turns TEXT: the lines go into a chat; further options behind them.
turns() {
    printf '%b' "$1" >"$tmp/turns"
    shift
    input=$tmp/turns
    # shellcheck disable=SC2086
    try $chat "$@"
    input=/dev/null
}

# goes_on TEXT: what run writes behind the text, in six tokens and a newline, goes to $tmp/want, after what is there.
goes_on() {
    printf '%b' "$1" >"$tmp/text"
    "$run" "$gpt2" -f "$tmp/text" --temp 0 -n 6 --no-echo >>"$tmp/want"
}
answers_so() { quiet && cmp -s "$tmp/want" "$tmp/out"; }
computed() { grep -q "^prompt .* $1 tokens" "$tmp/err"; }
begin() { rm -f "$tmp/want"; }

# One question, by every road.
begin
goes_on 'u:Hi\na:'
# shellcheck disable=SC2086
try $chat -p Hi
has answers_so
printf 'Hi\n' >"$tmp/question"
# shellcheck disable=SC2086
try $chat -f "$tmp/question"
has answers_so
turns ' Hi\r\n\n'
has answers_so

# Two turns: the second is asked behind the first answer, and only what is new is computed.
first=$(cat "$tmp/out")
goes_on "u:Hi\na:$first\nu:Yes\na:"
turns 'Hi\nYes\n'
has answers_so
printf '%s' "{% for m in messages %}{{ m.role[0] + ':' + m.content + '\n' }}{% endfor %}a:" >"$tmp/plain"
model=weights/model.gguf # whose answers are text
printf 'What is a mole?\nYes\n' >"$tmp/turns"
input=$tmp/turns
try $model --chat --chat-template "$tmp/plain" --temp 0 -n 6 -v
input=/dev/null
printf 'u:What is a mole?\na:%s\nu:Yes\na:' "$(head -n 1 "$tmp/out")" >"$tmp/text"
all=$("$run" $model --tokens -f "$tmp/text" | wc -w)
has computed $((all - 5)) # the last of the six tokens has not been fed before
has [ "$(wc -l <"$tmp/out")" -ge 2 ]

# Where whoever reads has gone, the conversation ends at the first piece of an answer, and well.
printf 'Hi\nYes\n' >"$tmp/turns"
mkfifo "$tmp/pipe"
exec 3<>"$tmp/pipe" 4>"$tmp/pipe" 3<&-
# shellcheck disable=SC2086
"$run" $chat -v <"$tmp/turns" >&4 2>"$tmp/err"
code=$? command='a chat that nobody reads'
exec 4>&-
has [ "$code" -eq 0 ]
has computed 7 # of one question
has grep -q '^generated .* 1 tokens' "$tmp/err"

# A system message.
begin
goes_on '<Be kind>u:Hi\na:'
turns 'Hi\n' --system 'Be kind'
has answers_so
turns 'Hi\n' -sys 'Be kind'
has answers_so

# Lines of a pipe are no commands, whatever they look like: the model gets them, and nothing is written.
for line in '/reset' '/system Be rude' "/save $tmp/saved.json" '/help' '/exit' '/nothing'; do
    begin
    goes_on "u:$line\na:"
    turns "$line\n"
    has answers_so
    printf '%s\n' "$line" >"$tmp/lines"
    "$run" $model -i --temp 0 -n 6 <"$tmp/lines" >"$tmp/typed" 2>"$tmp/err"
    "$run" $model -p "$line" --no-echo --temp 0 -n 6 >"$tmp/wanted"
    has cmp -s "$tmp/wanted" "$tmp/typed"
    has [ ! -s "$tmp/err" ]
done
has [ ! -e "$tmp/saved.json" ]

# Words that look like a control token are words; the template's own is one.
printf '%s' "{{ messages[0].content }}<|endoftext|>" >"$tmp/control"
try "$gpt2" --chat --chat-template "$tmp/control" -p '<|endoftext|>' -n 1 -v
has computed 14

# BOS is not doubled where the template writes it, too.
printf '%s' "{{ bos_token }}{{ messages[0].content }}" >"$tmp/with"
printf '%s' "{{ messages[0].content }}" >"$tmp/without"
for each in with without; do
    try "$llama" --chat --chat-template "$tmp/$each" -p 'ab' -n 1 -v
    sed -n 's/^prompt .* \([0-9]* tokens\).*/\1/p' "$tmp/err" >"$tmp/$each.n"
done
has [ -s "$tmp/with.n" ]
has cmp -s "$tmp/with.n" "$tmp/without.n"

# A full context: a note, and the conversation goes on without the turn, or without the oldest ones.
long=$(printf '%0100d' 1)
turns "$long\n$long\nHi\n"
has [ "$code" -eq 0 ]
has one_line 'the conversation has [0-9]* tokens, and the context room for 192; /reset begins anew, --shift drops the oldest turns$'
turns "$long\n$long\nHi\n" --shift
has quiet
begin
goes_on "u:$long\na:"
cp "$tmp/want" "$tmp/once"
cat "$tmp/once" >>"$tmp/want"
has [ "$(head -c "$(wc -c <"$tmp/want")" "$tmp/out" | cmp - "$tmp/want" && echo same)" = same ]

# One question has no turn before it to go back to: it is answered, or refused.
# shellcheck disable=SC2086
refuses 1 'the conversation has [0-9]* tokens, and the context room for 192$' $chat -p "$long$long" --shift
# shellcheck disable=SC2086
refuses 1 'the conversation has 13 tokens, and the context room for 13; -c makes more room$' $chat -p 'Hi there' -c 13

# A file is one question with all its bytes.
printf 'H\0i' >"$tmp/question"
begin
goes_on 'u:H\0i\na:'
# shellcheck disable=SC2086
try $chat -f "$tmp/question"
has answers_so

# -c is advised where the model can do with more, and nowhere else.
turns "$long$long\n" --shift
has one_line 'has 205 tokens, and the context room for 192; /reset begins anew$'
turns 'Hi there\n' --shift -c 13
has one_line 'has 13 tokens, and the context room for 13; /reset begins anew, -c makes more room$'
turns 'Hi there\n' -c 16
has one_line 'the context of 16 is full; /reset begins anew, -c makes more room$'
turns "$(printf '%0184d' 1)\n"
has one_line 'the context of 192 is full; /reset begins anew$'

# The model's thoughts are text where there is no terminal.
printf '%s' "{{ '<think>' }}" >"$tmp/thinks"
try "$gpt2" --chat --chat-template "$tmp/thinks" -p x -n 3 --temp 0
has quiet

# The template's variables, of which none that is a text steers.
printf '%s' "{{ messages[0].content }}{{ '!' if enable_thinking is false else '?' }}{{ mood }}" >"$tmp/mood"
begin
goes_on 'Hi!<|endoftext|>'
try "$gpt2" --chat --chat-template "$tmp/mood" -p Hi -n 6 --temp 0 -v --chat-template-kwargs '{"enable_thinking": false, "mood": "<|endoftext|>"}'
has cmp -s "$tmp/want" "$tmp/out"
has computed 16 # bytes
begin
goes_on 'Hi?'
try "$gpt2" --chat --chat-template "$tmp/mood" -p Hi -n 6 --temp 0 -v --chat-template-kwargs '{}'
has cmp -s "$tmp/want" "$tmp/out"
has computed 3

# Refusals.
printf '{%% if %%}' >"$tmp/bad"
refuses_each "$gpt2" <<'END'
1 has no chat template (tokenizer.chat_template); give one with --chat-template FILE | --chat -p Hi
1 none: cannot open                                        | --chat --chat-template "$tmp/none" -p Hi
1 bad: the chat template, line 1: an expression is missing | --chat --chat-template "$tmp/bad" -p Hi
2 kwargs is no JSON: line 1: | --chat -p Hi --chat-template-kwargs '{"a": }' | --chat -p Hi --chat-template-kwargs ''
2 kwargs must be an object | --chat -p Hi --chat-template-kwargs 5
2 variable "bos_token" is the conversation.s own | --chat -p Hi --chat-template-kwargs '{"bos_token": "a"}'
2 variable "tools" must be a text | --chat -p Hi --chat-template-kwargs '{"tools": []}'
2 is for --chat; lines of --batch | -p Hi --chat-template-kwargs '{}' | --batch x --chat-template-kwargs '{}'
2 chat goes alone                                          | --chat -i | --chat -p Hi --json
2 are for --chat                                           | --system x -p Hi | --chat-template x -p Hi
END
printf '{{ raise_exception("No system here\\033[2J") }}' >"$tmp/bad"
refuses 1 'the chat template says: No system here\\u001b\[2J' "$gpt2" --chat --chat-template "$tmp/bad" -p Hi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
