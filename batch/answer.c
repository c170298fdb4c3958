#include "batch/answer.h"

#include "base/text.h"
#include "base/utf8.h"
#include "cli/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* "custom_id" or "id" as the request gives it; where it gives none, "line". */
static void print_id(FILE *file, const Request *request) {
    int64_t number = (int64_t)request->line;
    String text = json_string(request->id);
    if (!request->id && request->is_openai)
        fputs("\"custom_id\": null, ", file); /* who reads it looks for it */
    fprintf(file, "\"%s\": ", !request->id ? "line" : request->is_openai ? "custom_id" : "id");
    request_whole(request->id, &number);
    if (request->id && request->id->kind == JSON_TEXT)
        print_json_string(file, text.data, text.n);
    else
        fprintf(file, "%" PRId64, number);
}

/* JSON has no infinity, and a model may have some. */
static void print_logprob(FILE *file, const char *before, double value) {
    fputs(before, file);
    if (isfinite(value))
        fprintf(file, "%.9g", value);
    else
        fputs("null", file);
}

static void print_likelihood(FILE *file, const Likelihood *likelihood) {
    print_logprob(file, "\"logprob\": ", likelihood->logprob);
    fprintf(file, ", \"is_greedy\": %s, \"tokens\": [", likelihood->is_greedy ? "true" : "false");
    for (size_t i = 0; i < likelihood->n; i++) fprintf(file, "%s%" PRId32, i ? ", " : "", likelihood->ids[i]);
    fputs("], \"logprobs\": [", file);
    for (size_t i = 0; i < likelihood->n; i++) print_logprob(file, i ? ", " : "", likelihood->logprobs[i]);
    fputs("]", file);
}

/* A token as text; bytes that are no UTF-8 as OpenAI writes them: "bytes:\xe2\x80". */
static void print_token(FILE *file, String token) {
    if (utf8_is_valid(token)) {
        print_json_string(file, token.data, token.n);
        return;
    }
    fputs("\"bytes:", file);
    for (size_t i = 0; i < token.n; i++) fprintf(file, "\\\\x%02x", (unsigned char)token.data[i]);
    putc('"', file);
}

/* A choice's tokens, as they are told; each has 1 + n_top items, of which the first came. */
typedef struct Told {
    FILE *file;
    const Tokenizer *tokenizer;
    const Choice *choice;
    size_t n_top;
} Told;

static const Foreseen *items_of(const Told *told, size_t i) {
    return told->choice->foreseen + i * (1 + told->n_top);
}

static String spelling(const Told *told, const Foreseen *item) {
    return tokenizer_piece(told->tokenizer, item->id, true);
}

/* A completion's likeliest tokens, and the one that came, as members of an object, none of which may stand there twice. */
static void print_top(const Told *told, const Foreseen *items) {
    const char *before = "{";
    for (size_t k = 1, i; k <= told->n_top + 1; k++) {
        const Foreseen *item = &items[k % (told->n_top + 1)];
        for (i = 1; i < k && string_compare(spelling(told, &items[i]), spelling(told, item)) != 0;) i++;
        if (i < k) continue;
        fputs(before, told->file);
        print_token(told->file, spelling(told, item));
        print_logprob(told->file, ": ", item->logprob);
        before = ", ";
    }
    putc('}', told->file);
}

/* A character's bytes at most, from byte `at` of token i on; those that follow may be of the tokens behind it. */
static size_t character_at(const Told *told, size_t i, size_t at, char bytes[4]) {
    size_t n = 0;
    for (; n < 4 && i < told->choice->n_predicted; i++, at = 0) {
        const String token = spelling(told, items_of(told, i));
        while (n < 4 && at < token.n) bytes[n++] = token.data[at++];
    }
    return n;
}

/* Characters of the text before each token, in whose middle a token may begin; a byte that belongs to none is one (U+FFFD). */
static void print_offsets(const Told *told) {
    char bytes[4];
    size_t at = 0, offset = 0;
    uint32_t c;
    for (size_t i = 0; i < told->choice->n_predicted; i++) {
        const size_t n = spelling(told, items_of(told, i)).n;
        fprintf(told->file, "%s%zu", i ? ", " : "", offset);
        for (; at < n; offset++) at += utf8_decode(bytes, character_at(told, i, at, bytes), &c);
        at -= n; /* bytes that the next token has of the last character */
    }
}

/* "logprobs" of a completion: arrays side by side. text_offset counts characters. */
static void print_arrays(const Told *told) {
    const size_t n = told->choice->n_predicted;
    fputs("{\"tokens\": [", told->file);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ", " : "", told->file);
        print_token(told->file, spelling(told, items_of(told, i)));
    }
    fputs("], \"token_logprobs\": [", told->file);
    for (size_t i = 0; i < n; i++) print_logprob(told->file, i ? ", " : "", items_of(told, i)->logprob);
    fputs("], \"top_logprobs\": ", told->file);
    fputs(told->n_top ? "[" : "null", told->file);
    for (size_t i = 0; i < n && told->n_top; i++) {
        fputs(i ? ", " : "", told->file);
        print_top(told, items_of(told, i));
    }
    fputs(told->n_top ? "], \"text_offset\": [" : ", \"text_offset\": [", told->file);
    print_offsets(told);
    fputs("]}", told->file);
}

static void print_item(const Told *told, const Foreseen *item) {
    String token = spelling(told, item);
    fputs("{\"token\": ", told->file);
    print_token(told->file, token);
    print_logprob(told->file, ", \"logprob\": ", item->logprob);
    fputs(", \"bytes\": [", told->file);
    for (size_t i = 0; i < token.n; i++)
        fprintf(told->file, "%s%d", i ? ", " : "", (unsigned char)token.data[i]);
    putc(']', told->file);
}

/* "logprobs" of a chat: an object a token. */
static void print_content(const Told *told) {
    fputs("{\"content\": [", told->file);
    for (size_t i = 0; i < told->choice->n_predicted; i++) {
        const Foreseen *items = items_of(told, i);
        fputs(i ? ", " : "", told->file);
        print_item(told, items);
        fputs(", \"top_logprobs\": [", told->file);
        for (size_t k = 1; k <= told->n_top; k++) {
            fputs(k > 1 ? ", " : "", told->file);
            print_item(told, &items[k]);
            putc('}', told->file);
        }
        fputs("]}", told->file);
    }
    fputs("]}", told->file);
}

static void print_logprobs(FILE *file, const Choice *choice, const Request *request,
                           const Tokenizer *tokenizer) {
    const Told told = {file, tokenizer, choice, request->n_top};
    if (!request->logprobs)
        fputs("null", file);
    else if (request->messages)
        print_content(&told);
    else
        print_arrays(&told);
}

/* The likeliest of choices, and the one whose bytes are likeliest on average; the first of several. */
static void print_choices(FILE *file, const BatchAnswer *answer) {
    const Likelihood *all = answer->likelihoods;
    size_t best = 0, by_byte = 0;
    for (size_t i = 0; i < answer->n_likelihoods; i++) {
        fputs(i ? ", {" : "\"choices\": [{", file);
        print_likelihood(file, &all[i]);
        putc('}', file);
        if (all[i].logprob > all[best].logprob) best = i;
        if (all[i].logprob * (double)all[by_byte].n_bytes > all[by_byte].logprob * (double)all[i].n_bytes)
            by_byte = i;
    }
    fprintf(file, "], \"best\": %zu, \"best_by_byte\": %zu", best, by_byte);
}

static void print_choice(FILE *file, const Choice *choice, const Request *request,
                         const Tokenizer *tokenizer) {
    fputs("\"text\": ", file);
    print_json_string(file, text_string(&choice->text).data, choice->text.n);
    if (!request->logprobs) return;
    fputs(", \"logprobs\": ", file);
    print_logprobs(file, choice, request, tokenizer);
}

static void print_end(FILE *file, const Choice *choice) {
    fprintf(file, "\"n_predicted\": %zu, \"end\": \"%s\"", choice->n_predicted, text_end_name(choice->end));
}

static void print_texts(FILE *file, const BatchAnswer *answer, const Request *request,
                        const Tokenizer *tokenizer) {
    fprintf(file, "\"n_prompt\": %zu, \"choices\": [", answer->n_prompt);
    for (size_t i = 0; i < answer->n_choices; i++) {
        fputs(i ? ", {" : "{", file);
        print_choice(file, &answer->choices[i], request, tokenizer);
        fputs(", ", file);
        print_end(file, &answer->choices[i]);
        putc('}', file);
    }
    putc(']', file);
}

static void print_short(FILE *file, const BatchAnswer *answer, const Request *request,
                        const Tokenizer *tokenizer) {
    putc('{', file);
    print_id(file, request);
    if (answer->why) {
        fputs(", \"error\": ", file);
        print_json_string(file, answer->why, strlen(answer->why));
    } else if (answer->likelihoods) {
        fprintf(file, ", \"n_context\": %zu, ", answer->n_prompt);
        if (request->choices)
            print_choices(file, answer);
        else
            print_likelihood(file, answer->likelihoods);
    } else {
        fputs(", ", file);
        if (request->n * request->n_prompts > 1) {
            print_texts(file, answer, request, tokenizer);
        } else {
            print_choice(file, answer->choices, request, tokenizer);
            fprintf(file, ", \"n_prompt\": %zu, ", answer->n_prompt);
            print_end(file, answer->choices);
        }
    }
    fputs("}\n", file);
}

static void print_openai_choice(FILE *file, const BatchAnswer *answer, size_t i, const Request *request,
                                const Tokenizer *tokenizer) {
    const Choice *choice = &answer->choices[i];
    const bool chats = request->messages;
    fprintf(file, "%s{\"index\": %zu, %s", i ? ", " : "", i,
            chats ? "\"message\": {\"role\": \"assistant\", \"content\": " : "\"text\": ");
    print_json_string(file, text_string(&choice->text).data, choice->text.n);
    fprintf(file, "%s, \"logprobs\": ", chats ? ", \"refusal\": null}" : "");
    print_logprobs(file, choice, request, tokenizer);
    fprintf(file, ", \"finish_reason\": \"%s\"}",
            choice->end == END_LIMIT || choice->end == END_CONTEXT ? "length" : "stop");
}

static void print_openai(FILE *file, const BatchAnswer *answer, const Request *request, uint64_t number,
                         const Tokenizer *tokenizer, const char *model) {
    const bool chats = request->messages;
    size_t n_predicted = 0;
    fprintf(file, "{\"id\": \"batch_req_%016" PRIx64 "\", ", number);
    print_id(file, request);
    fprintf(file, ", \"response\": {\"status_code\": %d, \"request_id\": \"%016" PRIx64 "\", \"body\": {",
            answer->why ? 400 : 200, number);
    if (answer->why) {
        fputs("\"error\": {\"message\": ", file);
        print_json_string(file, answer->why, strlen(answer->why));
        fputs(", \"type\": \"invalid_request_error\", \"param\": null, \"code\": null}}}, "
              "\"error\": {\"code\": \"invalid_request\", \"message\": ",
              file);
        print_json_string(file, answer->why, strlen(answer->why));
        fputs("}}\n", file);
        return;
    }
    fprintf(file, "\"id\": \"%s-%016" PRIx64 "\", \"object\": \"%s\", \"created\": 0, \"model\": ",
            chats ? "chatcmpl" : "cmpl", number, chats ? "chat.completion" : "text_completion");
    print_json_string(file, model, strlen(model));
    fputs(", \"choices\": [", file);
    for (size_t i = 0; i < answer->n_choices; i++) {
        print_openai_choice(file, answer, i, request, tokenizer);
        n_predicted += answer->choices[i].n_predicted;
    }
    fprintf(file,
            "], \"usage\": {\"prompt_tokens\": %zu, \"completion_tokens\": %zu, \"total_tokens\": %zu}}}, "
            "\"error\": null}\n",
            answer->n_prompt, n_predicted, answer->n_prompt + n_predicted);
}

void answer_free(BatchAnswer *answer) {
    for (size_t i = 0; i < answer->n_choices; i++) choice_free(&answer->choices[i]);
    free(answer->choices);
    *answer = (BatchAnswer){0};
}

bool answer_print(const BatchAnswer *answer, const Request *request, const Tokenizer *tokenizer,
                  const char *model, TextBuffer *line) {
    TextBuffer name = {0};
    char *bytes = NULL;
    size_t n = 0;
    bool ok = request_name(request, &name);
    FILE *file = ok ? open_memstream(&bytes, &n) : NULL;
    if (file && request->is_openai)
        print_openai(file, answer, request, request_hash(text_string(&name), 0), tokenizer, model);
    else if (file)
        print_short(file, answer, request, tokenizer);
    ok = file && !ferror(file);
    ok = file && fclose(file) == 0 && ok && n > 0; /* fclose may end well without memory for the line */
    ok = ok && text_append(line, bytes, n);
    free(bytes);
    free(name.data);
    return ok;
}
