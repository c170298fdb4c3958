#include "batch/answer.h"

#include "cli/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const end_names[] = {"limit", "end", "stop", "context", "interrupted"};

static void print_text_of(FILE *file, const TextBuffer *text) {
    print_json_string(file, text->n ? text->data : "", text->n);
}

/* "custom_id" or "id" as the request gives it; where it gives none, "line". */
static void print_id(FILE *file, const Request *request) {
    int64_t number = (int64_t)request->line;
    String text = json_string(request->id);
    fprintf(file, "\"%s\": ", !request->id ? "line" : request->is_openai ? "custom_id" : "id");
    json_integer(request->id, &number);
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

/* The likeliest of choices, and the one whose bytes are likeliest on average; the first of several. */
static void print_choices(FILE *file, const Answer *answer) {
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

static void print_short(FILE *file, const Answer *answer, const Request *request) {
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
        fputs(", \"text\": ", file);
        print_text_of(file, &answer->text);
        fprintf(file, ", \"n_prompt\": %zu, \"n_predicted\": %zu, \"end\": \"%s\"", answer->n_prompt,
                answer->n_predicted, end_names[answer->end]);
    }
    fputs("}\n", file);
}

static void print_openai(FILE *file, const Answer *answer, const Request *request, uint64_t number,
                         const char *model) {
    const bool chats = request->messages;
    fprintf(file, "{\"id\": \"batch_req_%016" PRIx64 "\", ", number);
    print_id(file, request);
    if (answer->why) {
        fputs(", \"response\": null, \"error\": {\"code\": \"invalid_request\", \"message\": ", file);
        print_json_string(file, answer->why, strlen(answer->why));
        fputs("}}\n", file);
        return;
    }
    fprintf(file,
            ", \"response\": {\"status_code\": 200, \"request_id\": \"%016" PRIx64
            "\", \"body\": {\"id\": \"%s-%016" PRIx64 "\", \"object\": \"%s\", \"created\": 0, \"model\": ",
            number, chats ? "chatcmpl" : "cmpl", number, chats ? "chat.completion" : "text_completion");
    print_json_string(file, model, strlen(model));
    fprintf(file, ", \"choices\": [{\"index\": 0, %s",
            chats ? "\"message\": {\"role\": \"assistant\", \"content\": " : "\"text\": ");
    print_text_of(file, &answer->text);
    fprintf(file, "%s, \"logprobs\": null, \"finish_reason\": \"%s\"}]", chats ? "}" : "",
            answer->end == END_LIMIT || answer->end == END_CONTEXT ? "length" : "stop");
    fprintf(file,
            ", \"usage\": {\"prompt_tokens\": %zu, \"completion_tokens\": %zu, \"total_tokens\": %zu}}}, "
            "\"error\": null}\n",
            answer->n_prompt, answer->n_predicted, answer->n_prompt + answer->n_predicted);
}

bool answer_print(const Answer *answer, const Request *request, const char *model, TextBuffer *line) {
    TextBuffer name = {0};
    char *bytes = NULL;
    size_t n = 0;
    bool ok = request_name(request, &name);
    FILE *file = ok ? open_memstream(&bytes, &n) : NULL;
    if (file && request->is_openai)
        print_openai(file, answer, request, request_hash((String){name.data, name.n}, 0), model);
    else if (file)
        print_short(file, answer, request);
    ok = file && !ferror(file);
    ok = file && fclose(file) == 0 && ok && n > 0; /* fclose may end well without memory for the line */
    ok = ok && text_append(line, bytes, n);
    free(bytes);
    free(name.data);
    return ok;
}
