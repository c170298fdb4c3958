/* Other data sets made of one: lines dropped, doubled, swapped, cut, and their members put in, taken out, given other values. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define ONE_OF(table) (table[random_below(COUNT(table))])

enum { ROOM = 1 << 13 };

static const char *const members[] = {"id",
                                      "custom_id",
                                      "method",
                                      "url",
                                      "body",
                                      "prompt",
                                      "messages",
                                      "context",
                                      "continuation",
                                      "choices",
                                      "temperature",
                                      "top_p",
                                      "min_p",
                                      "top_k",
                                      "repeat_penalty",
                                      "repetition_penalty",
                                      "max_tokens",
                                      "n_predict",
                                      "seed",
                                      "stop",
                                      "presence_penalty",
                                      "n",
                                      "repeat_last_n",
                                      "model",
                                      "logprobs",
                                      "top_logprobs",
                                      "frequency_penalty",
                                      "role",
                                      "content",
                                      "stream",
                                      "answers_of",
                                      "line",
                                      "tools",
                                      "max_completion_tokens",
                                      "skip_special_tokens",
                                      "response_format",
                                      "modalities",
                                      "tool_choice",
                                      "min_tokens",
                                      "tool_calls",
                                      "name",
                                      "chat_template_kwargs",
                                      "reasoning"};
static const char *const values[] = {"0",
                                     "1",
                                     "2",
                                     "2.0",
                                     "2e0",
                                     "20",
                                     "-1",
                                     "0.5",
                                     "1.5",
                                     "1e9",
                                     "1e308",
                                     "-0",
                                     "9007199254740993",
                                     "9223372036854775807",
                                     "null",
                                     "true",
                                     "false",
                                     "\"a\"",
                                     "\"ab\"",
                                     "\"\"",
                                     "\"\\u0000\"",
                                     "\"<s>\"",
                                     "\"1\"",
                                     "\"line 1\"",
                                     "\"\xe2\x80\xae\"",
                                     "[]",
                                     "{}",
                                     "[4,5]",
                                     "[4.0,5e0]",
                                     "[0]",
                                     "[99999]",
                                     "[-1]",
                                     "[\"a\",\"b\"]",
                                     "[\"a\",\"\"]",
                                     "[\"ab\",[4,5]]",
                                     "[[4],[5]]",
                                     "[[]]",
                                     "\"none\"",
                                     "{\"type\":\"text\"}",
                                     "[\"text\"]",
                                     "\"/v1/completions\"",
                                     "\"/v1/chat/completions\"",
                                     "[{\"role\":\"user\",\"content\":\"ab\"}]",
                                     "[{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]",
                                     "{\"prompt\":\"ab\",\"max_tokens\":2}"};
static const char *const lines[] = {"\n",
                                    " \t\r\n",
                                    "{\n",
                                    "[]\n",
                                    "{}\n",
                                    "\xff\n",
                                    "{\"prompt\":\"ab\"}\n",
                                    "{\"id\":1,\"prompt\":\"ab\"}\n",
                                    "{\"id\":1,\"text\":\"\"}\n",
                                    "{\"line\":1,\"error\":\"\"}\n",
                                    "{\"id\":\"c\",\"context\":\"a\",\"choices\":[\"b\",\"ab\",\"b\"]}\n"};

/* Puts a text in the place of bytes [at, end); what has no room stays away. */
static size_t replace(unsigned char *bytes, size_t n, size_t at, size_t end, const char *text,
                      size_t n_text) {
    unsigned char copy[ROOM];
    if (n_text > ROOM || n - (end - at) + n_text > ROOM) return n;
    memcpy(copy, text, n_text);
    memmove(bytes + at + n_text, bytes + end, n - end);
    memcpy(bytes + at, copy, n_text);
    return n - (end - at) + n_text;
}

/* Where a value ends that begins at `at`, as far as brackets and commas tell. */
static size_t end_of_value(const unsigned char *bytes, size_t n, size_t at) {
    int depth = 0;
    for (; at < n && bytes[at] != '\n'; at++) {
        if (strchr("[{", bytes[at])) depth++;
        if (strchr("]}", bytes[at]) && depth-- == 0) break;
        if (bytes[at] == ',' && depth == 0) break;
    }
    return at;
}

static size_t change_member(unsigned char *bytes, size_t n, size_t begin, size_t end) {
    char text[256];
    size_t at = begin + random_below(end - begin), choice = random_below(3);
    while (at < end && bytes[at] != "{:,"[choice]) at++;
    if (at == end) return n;
    at++;
    if (choice == 1) { /* another value */
        const char *value = ONE_OF(values);
        return replace(bytes, n, at, end_of_value(bytes, n, at), value, strlen(value));
    }
    if (choice == 2 && random_below(2)) return replace(bytes, n, at - 1, end_of_value(bytes, n, at), "", 0);
    int n_text = snprintf(text, sizeof text, "\"%s\":%s%s", ONE_OF(members), ONE_OF(values),
                          at < n && bytes[at] == '}' ? "" : ",");
    return replace(bytes, n, at, at, text, (size_t)n_text);
}

/* Of n > 0 bytes, which have ROOM. */
static size_t change_line(unsigned char *bytes, size_t n) {
    size_t begin = random_below(n), end;
    while (begin > 0 && bytes[begin - 1] != '\n') begin--;
    for (end = begin; end < n && bytes[end] != '\n';) end++;
    size_t behind = end < n ? end + 1 : n;
    const char *line = ONE_OF(lines);
    switch (random_below(12)) {
    case 0: return replace(bytes, n, begin, behind, "", 0);
    case 1: return replace(bytes, n, begin, begin, (const char *)bytes + begin, behind - begin);
    case 2: return replace(bytes, n, n, n, (const char *)bytes + begin, behind - begin);
    case 3: return replace(bytes, n, begin, begin, line, strlen(line));
    case 4: return n - random_below(n);
    case 5: return begin < end ? begin + mutate_json(bytes + begin, n - begin, ROOM - begin) : n;
    default: return begin < end ? change_member(bytes, n, begin, end) : n;
    }
}

size_t mutate_lines(unsigned char *bytes, size_t n, size_t room) {
    if (n > ROOM / 2 || room < ROOM || random_below(16) == 0) return LLVMFuzzerMutate(bytes, n, room);
    for (uint64_t i = 1 + random_below(3); i > 0 && n > 0 && n < ROOM; i--) n = change_line(bytes, n);
    return n;
}
