#include "batch/batch.h"

#include "batch/answer.h"
#include "batch/ledger.h"
#include "batch/likelihood.h"
#include "batch/request.h"
#include "batch/requests.h"
#include "cli/input.h"
#include "cli/print.h"
#include "cli/process.h"
#include "conversation.h"
#include "generate.h"
#include "sampling.h"
#include "snapshot.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { AHEAD = 16 /* times n_parallel: answers that may wait for the one before them */ };

/* A text under way, or an answer that waits for those before it. */
typedef struct Slot {
    Session *session;
    Generator *generator; /* NULL: nothing is under way */
    Request request;
    BatchAnswer answer;
    size_t number, left; /* of the request among those that are answered; tokens it may still get */
    bool failed;         /* within a callback */
} Slot;

typedef struct Batch {
    const BatchSetup *setup;
    Template *template;     /* NULL: there is none; why_no_template says why */
    uint64_t template_hash; /* where a file gives it */
    Error why_no_template;
    Requests *requests;
    Ledger *ledger;
    char model[256];          /* its name */
    float *logits;            /* [GENERATORS_TOGETHER][n_vocab] */
    Likelihoods *likelihoods; /* opened when a request asks for one */
    Slot *slots;              /* [n_parallel] */
    Generator **active;       /* [n_parallel] */
    size_t n_active, n_begun, n_written;
    TextBuffer *
        waiting; /* [AHEAD·n_parallel] a ring: lines of answer n_written, and those behind it; n = 0: it is not ready */
    double start_ms;
    size_t n_before; /* answers that a run before this one gave */
} Batch;

/* ---- Answers ---- */

static bool no_memory(Error *error) { return error_set(error, "not enough memory for the data set's texts"); }

static size_t n_waiting(const Batch *batch) { return AHEAD * batch->setup->n_parallel; }

/* Writes those answers that are next, as far as they are ready. */
static bool write_ready(Batch *batch, Error *error) {
    for (;; batch->n_written++) {
        TextBuffer *next = &batch->waiting[batch->n_written % n_waiting(batch)];
        if (next->n == 0) return true;
        if (!ledger_add(batch->ledger, next->data, next->n, error)) return false;
        free(next->data);
        *next = (TextBuffer){0};
    }
}

/* Gives an answer away, and frees it and the request. */
static bool give_answer(Batch *batch, BatchAnswer *answer, Request *request, size_t number, Error *error) {
    TextBuffer line = {0};
    bool ok = answer_print(answer, request, batch->setup->tokenizer, batch->model, &line) || no_memory(error);
    answer_free(answer);
    request_free(request);
    if (ok && batch->setup->in_order) {
        batch->waiting[number % n_waiting(batch)] = line;
        return write_ready(batch, error);
    }
    ok = ok && ledger_add(batch->ledger, line.data, line.n, error);
    free(line.data);
    batch->n_written += ok;
    return ok;
}

/* The text under way, of those that the request asks for, one after another. */
static Choice *choice_of(const Slot *slot) { return &slot->answer.choices[slot->answer.n_choices - 1]; }

static bool keep_piece(void *user, int32_t id, const char *text, size_t n) {
    Slot *slot = user;
    const Request *request = &slot->request;
    Choice *choice = choice_of(slot);
    if (id >= 0 &&
        !choice_add(choice, id, request->logprobs, request->n_top, generator_logits(slot->generator),
                    model_config(session_model(slot->session))->n_vocab))
        slot->failed = true;
    slot->failed |= !text_append(&choice->text, text, n);
    return !slot->failed;
}

static bool end_text(Batch *batch, Slot *slot, const char *why, Error *error) {
    slot->answer.why = why;
    generator_free(slot->generator);
    slot->generator = NULL;
    return give_answer(batch, &slot->answer, &slot->request, slot->number, error);
}

/* ---- Prompts ---- */

/* Encodes prompt i of the request, or its messages. */
static bool encode_prompt(const Batch *batch, const Request *request, size_t i, Tokens *tokens,
                          Error *error) {
    const BatchSetup *setup = batch->setup;
    if (request->messages) {
        if (!batch->template) return error_set(error, "%s", batch->why_no_template.message);
        return conversation_encode(batch->template, setup->tokenizer, request->messages, request->n_messages,
                                   request->variables, true, tokens, NULL, error);
    }
    const Json *prompt = &request->prompts[i];
    int64_t id = 0;
    if (prompt->kind == JSON_TEXT)
        return tokenizer_encode(setup->tokenizer, prompt->text, prompt->n,
                                ENCODE_ENDS | (setup->special ? ENCODE_SPECIAL : 0), tokens, error) &&
               prompt_or_bos(setup->tokenizer, tokens, error);
    for (size_t k = 0; k < prompt->n; k++) {
        request_whole(json_item(prompt, k), &id);
        if (!tokens_push(tokens, (int32_t)id, error)) return false;
    }
    return true;
}

/* Takes over what another text has computed of this one's beginning, if that is more than the slot itself has. */
static bool take_prefix(const Batch *batch, Slot *slot, const Tokens *tokens, Error *error) {
    size_t most = session_common(slot->session, tokens->ids, tokens->n) + SESSION_CHUNK / 16;
    const Slot *from = NULL;
    for (size_t i = 0; i < batch->setup->n_parallel; i++) {
        size_t n = session_common(batch->slots[i].session, tokens->ids, tokens->n);
        if (n > most) most = n, from = &batch->slots[i];
    }
    return !from || model_weights(batch->setup->model)->n_states > 0 ||
           snapshot_copy(slot->session, from->session, error);
}

/* The seed of text i of a prompt: the request's own, or made of that. */
static uint64_t seed_of(uint64_t seed, size_t i) {
    char name[32];
    int n = snprintf(name, sizeof name, "text %zu", i);
    return i == 0 ? seed : request_hash((String){name, (size_t)n}, seed);
}

/* Begins the request's next text. */
static bool begin_text(Batch *batch, Slot *slot, Error *error) {
    const BatchSetup *setup = batch->setup;
    const Request *request = &slot->request;
    BatchAnswer *answer = &slot->answer;
    GeneratorOptions options = {.sampling = request->sampling,
                                .stop = (const char *const *)request->stops,
                                .n_stop = request->n_stops,
                                .special =
                                    request->skip_special ? !request->skip_special->boolean : setup->special,
                                .speculate = SPECULATE_OFF}; /* a pass is full of texts as it is */
    Tokens tokens = {0};
    TextBuffer name = {0};
    const size_t i = answer->n_choices % request->n;
    bool ok = encode_prompt(batch, request, answer->n_choices / request->n, &tokens, error) &&
              (tokens.n > 0 ||
               error_set(error, "the prompt is empty, and the vocabulary has no token to begin with")) &&
              sampling_settle(&options.sampling, model_checkpoint(setup->model), NULL, error) &&
              (request_name(request, &name) || no_memory(error));
    if (ok)
        options.sampling.seed = seed_of(
            request->seed == -1 ? request_hash(text_string(&name), setup->seed) : (uint64_t)request->seed, i);
    if (slot->request.n_top > model_config(setup->model)->n_vocab)
        slot->request.n_top = model_config(setup->model)->n_vocab;
    if (!answer->choices) answer->choices = calloc(request->n * request->n_prompts, sizeof *answer->choices);
    ok = ok && (answer->choices || no_memory(error));
    slot->generator =
        ok ? generator_new(setup->model, setup->tokenizer, slot->session, &options, error) : NULL;
    ok = slot->generator && take_prefix(batch, slot, &tokens, error) &&
         generator_sync(slot->generator, tokens.ids, tokens.n, &(Feed){0}, error);
    answer->n_choices += ok;
    if (i == 0) answer->n_prompt += tokens.n;
    slot->left = request->n_predict < 0 ? SIZE_MAX : (size_t)request->n_predict;
    tokens_free(&tokens);
    free(name.data);
    return ok;
}

/* Answers a request for likelihoods, which is done at once. */
static void find_likelihoods(Batch *batch, Slot *slot, Error *why) {
    const BatchSetup *setup = batch->setup;
    BatchAnswer *answer = &slot->answer;
    if (!batch->likelihoods)
        batch->likelihoods = likelihoods_new(setup->model, setup->tokenizer, &setup->session, why);
    if (batch->likelihoods)
        likelihoods_of(batch->likelihoods, &slot->request, &answer->likelihoods, &answer->n_likelihoods,
                       &answer->n_prompt, why);
}

/* ---- Requests ---- */

/* Reads the next request that has no answer yet; *ends where there is none, or none is there yet and `waits` is false. */
static bool next_request(Batch *batch, Slot *slot, bool waits, bool *ends, Error *why, Error *error) {
    const BatchSetup *setup = batch->setup;
    for (;;) {
        TextBuffer name = {0};
        String line;
        size_t number;
        bool is_new = true;
        why->message[0] = '\0';
        if (!requests_next(batch->requests, waits, &line, &number, ends, error)) return false;
        if (*ends) return true;
        if (line.n > MAX_LINE_BYTES)
            error_set(why, "the line has more than %d bytes", MAX_LINE_BYTES),
                slot->request = (Request){.line = number};
        else
            request_read(&slot->request, line.data, line.n, number, &setup->sampling, setup->n_predict, why);
        bool ok = request_name(&slot->request, &name) || no_memory(error);
        ok = ok && ledger_note(batch->ledger, text_string(&name), &is_new, error);
        if (ok && !is_new) {
            error_set(why, "a line before this one has the same id");
            slot->request.id = NULL; /* the line's number tells them apart */
            name.n = 0;
            ok = request_name(&slot->request, &name) || no_memory(error);
        }
        bool answered = ok && ledger_has(batch->ledger, text_string(&name));
        free(name.data);
        if (ok && !answered) return true;
        request_free(&slot->request);
        if (!ok) return false;
    }
}

/* "12/400, 3 min left" where a terminal looks on and the number of requests is known. */
static void show_state(const Batch *batch) {
    char what[64] = "answers";
    size_t total = requests_n_lines(batch->requests), done = batch->n_before + batch->n_written;
    double minutes = (now_ms() - batch->start_ms) / 60000;
    if (batch->n_written > 0 && total > done)
        snprintf(what, sizeof what, "%.0f min left, answers",
                 ceil(minutes / (double)batch->n_written * (double)(total - done)));
    if (total > 0) show_progress(what, done < total ? done : total, total);
}

/* Begins texts in the slots that are free. */
static bool fill(Batch *batch, Error *error) {
    const BatchSetup *setup = batch->setup;
    bool ends = false;
    for (size_t i = 0; i < setup->n_parallel && !ends && !interrupted(); i++) {
        Slot *slot = &batch->slots[i];
        while (!slot->generator) {
            Error why;
            if (setup->in_order && batch->n_begun - batch->n_written >= n_waiting(batch)) return true;
            if (!next_request(batch, slot, batch->n_active == 0, &ends, &why, error)) return false;
            if (ends) break;
            slot->number = batch->n_begun++;
            const bool asks_likelihoods = slot->request.context;
            if (!why.message[0] && asks_likelihoods)
                find_likelihoods(batch, slot, &why);
            else if (!why.message[0])
                begin_text(batch, slot, &why);
            if (interrupted()) return true;
            if (why.message[0] || asks_likelihoods) {
                if (!end_text(batch, slot, why.message[0] ? why.message : NULL, error)) return false;
                show_state(batch);
                continue;
            }
            batch->n_active++;
        }
    }
    return true;
}

/* ---- Steps ---- */

/* Feeds what was sampled last, all texts' at once; where that fails, one by one: who fails is answered so. */
static bool settle(Batch *batch, Error *error) {
    size_t n = 0;
    Error why;
    for (size_t i = 0; i < batch->setup->n_parallel; i++)
        if (batch->slots[i].generator) batch->active[n++] = batch->slots[i].generator;
    if (generators_settle(batch->active, n, batch->logits, &why) || interrupted()) return true;
    for (size_t i = 0; i < batch->setup->n_parallel; i++) {
        Slot *slot = &batch->slots[i];
        if (!slot->generator || generator_settle(slot->generator, &why)) continue;
        if (interrupted()) return true;
        batch->n_active--;
        if (!end_text(batch, slot, why.message, error)) return false;
    }
    return true;
}

/* One token of each text. */
static bool step(Batch *batch, Error *error) {
    if (!settle(batch, error)) return false;
    for (size_t i = 0; i < batch->setup->n_parallel && !interrupted(); i++) {
        Slot *slot = &batch->slots[i];
        if (!slot->generator) continue;
        Error why = {{0}};
        TextEnd *end = &choice_of(slot)->end;
        if (slot->left > 0 && !generator_step(slot->generator, keep_piece, slot, end, error)) return false;
        if (*end == END_LIMIT && (slot->left == SIZE_MAX || (slot->left > 0 && --slot->left > 0))) continue;
        if (!generator_finish(slot->generator, keep_piece, slot, end, error)) return false;
        if (slot->failed) return no_memory(error);
        if (slot->answer.n_choices < slot->request.n * slot->request.n_prompts) {
            generator_free(slot->generator);
            if (begin_text(batch, slot, &why)) continue;
            if (interrupted()) return true;
        }
        batch->n_active--;
        if (!end_text(batch, slot, why.message[0] ? why.message : NULL, error)) return false;
    }
    return true;
}

static bool run_all(Batch *batch, Error *error) {
    batch->start_ms = now_ms();
    bool ok = true;
    while (ok && !interrupted()) {
        ok = fill(batch, error);
        if (!ok || batch->n_active == 0) break;
        ok = step(batch, error);
        show_state(batch);
    }
    if (ok && interrupted()) return error_set(error, "interrupted");
    return ok && requests_are_whole(batch->requests, error);
}

/* ---- Opening ---- */

static bool open_template(Batch *batch, Error *error) {
    const BatchSetup *setup = batch->setup;
    TextBuffer text = {0};
    if (setup->template_file && !read_text(setup->template_file, TEMPLATE_MAX_BYTES, &text, error))
        return free(text.data), false;
    String source = {text.data, text.n};
    batch->template_hash = request_hash(source, 0);
    batch->template = conversation_template(model_checkpoint(setup->model),
                                            setup->template_file ? &source : NULL, &batch->why_no_template);
    free(text.data);
    return batch->template || !setup->template_file ||
           error_set(error, "%s: %s", setup->template_file, batch->why_no_template.message);
}

/* Of all tokens' texts, where -z gives other ones than the model's. */
static uint64_t vocabulary_hash(const Tokenizer *tokenizer) {
    uint64_t hash = 0;
    for (size_t id = 0; id < tokenizer_n_vocab(tokenizer); id++)
        hash = request_hash(tokenizer_piece(tokenizer, (int32_t)id, true), hash);
    return hash;
}

/* The header: all that must be the same for two runs to give the same answers. */
static bool print_header(const Batch *batch, char **header, size_t *n, Error *error) {
    const BatchSetup *setup = batch->setup;
    const SamplerOptions *sampling = &setup->sampling;
    FILE *file = open_memstream(header, n);
    if (!file) return no_memory(error);
    fputs("{\"answers_of\": ", file);
    print_json_string(file, batch->model, strlen(batch->model));
    fprintf(file,
            ", \"model_hash\": \"%016" PRIx64 "\", \"kernels\": \"%s\", \"cache\": \"%s\", \"n_ctx\": %zu"
            ", \"n_predict\": %" PRId64 ", \"seed\": %" PRIu64 ", \"special\": %s, \"sampling\": \"",
            model_hash(setup->model), setup->session.compute.kernels->name,
            dtype_info(setup->session.kv_dtype)->name, session_n_ctx(batch->slots[0].session),
            setup->n_predict, setup->seed, setup->special ? "true" : "false");
    SamplerOptions settled = *sampling;
    bool ok = sampling_settle(&settled, model_checkpoint(setup->model), NULL, error);
    fprintf(file, "%.9g %zu %.9g %.9g %.9g %.9g %.9g %zu %" PRIx64 "\"", (double)settled.temperature,
            settled.top_k, (double)settled.top_p, (double)settled.min_p, (double)settled.repeat_penalty,
            (double)settled.presence_penalty, (double)settled.frequency_penalty, settled.penalty_window,
            settled.order);
    if (setup->template_file) fprintf(file, ", \"template_hash\": \"%016" PRIx64 "\"", batch->template_hash);
    if (setup->inputs->vocabulary)
        fprintf(file, ", \"vocabulary_hash\": \"%016" PRIx64 "\"", vocabulary_hash(setup->tokenizer));
    fputc('}', file);
    bool written = !ferror(file);
    written = fclose(file) == 0 && written && *n > 0; /* fclose may end well without memory for the text */
    return ok && (written || no_memory(error));
}

static void name_model(Batch *batch) {
    const char *path = checkpoint_path(model_checkpoint(batch->setup->model)), *slash = strrchr(path, '/');
    snprintf(batch->model, sizeof batch->model, "%s", slash && slash[1] ? slash + 1 : path);
}

static bool open_slots(Batch *batch, Error *error) {
    const BatchSetup *setup = batch->setup;
    const size_t n = setup->n_parallel;
    SessionOptions options = setup->session;
    size_t company = kernels_company(options.compute.kernels);
    options.whole_cache = true; /* prompts that begin alike go back to where they part */
    if (company < SESSION_CHUNK)
        options.n_chunk = company; /* a text's bits must not depend on what it shares */
    batch->slots = calloc(n, sizeof *batch->slots);
    batch->active = calloc(n, sizeof *batch->active);
    batch->waiting = calloc(n_waiting(batch), sizeof *batch->waiting);
    batch->logits =
        floats_new(n < GENERATORS_TOGETHER ? n : GENERATORS_TOGETHER, model_config(setup->model)->n_vocab);
    if (!batch->slots || !batch->active || !batch->waiting || !batch->logits) return no_memory(error);
    for (size_t i = 0; i < n; i++) {
        batch->slots[i].session = session_new(setup->model, &options, error);
        if (!batch->slots[i].session) return false;
        options.beside = batch->slots[0].session;
    }
    return true;
}

static bool open_files(Batch *batch, Error *error) {
    const BatchSetup *setup = batch->setup;
    char *header = NULL;
    size_t n = 0;
    batch->requests = requests_open(setup->requests, error);
    bool ok = batch->requests && print_header(batch, &header, &n, error);
    if (ok) batch->ledger = ledger_open(setup->answers, (String){header, n}, setup->inputs, error);
    if (batch->ledger) batch->n_before = ledger_n_answers(batch->ledger);
    if (batch->n_before > 0)
        fprintf(stderr, "%s: note: answers in %s: %zu; going on behind them\n", setup->program,
                setup->answers, batch->n_before);
    free(header);
    return batch->ledger;
}

static void close_batch(Batch *batch) {
    const size_t n = batch->setup->n_parallel;
    for (size_t i = n; batch->slots && i-- > 0;) {
        Slot *slot = &batch->slots[i];
        generator_free(slot->generator);
        session_free(slot->session);
        request_free(&slot->request);
        answer_free(&slot->answer);
    }
    for (size_t i = 0; batch->waiting && i < n_waiting(batch); i++) free(batch->waiting[i].data);
    free(batch->slots);
    free(batch->active);
    free(batch->waiting);
    free(batch->logits);
    requests_close(batch->requests);
    likelihoods_free(batch->likelihoods);
    template_free(batch->template);
}

bool batch_run(const BatchSetup *setup, Error *error) {
    Batch batch = {.setup = setup};
    name_model(&batch);
    bool ok = open_template(&batch, error) && open_slots(&batch, error) && open_files(&batch, error) &&
              (run_all(&batch, error) || ledger_is_unread(batch.ledger));
    Error late;
    if (!ledger_close(batch.ledger, ok ? error : &late)) ok = false;
    close_batch(&batch);
    return ok;
}
