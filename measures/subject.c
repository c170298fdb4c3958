#include "measures/subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Compute subject_compute(const Subject *subject, Arena *arena, size_t n, size_t cols) {
    size_t n_packed = packed_floats(n, cols);
    return (Compute){subject->compute.kernels, subject->compute.threads, arena_floats(arena, 1, n_packed),
                     n_packed};
}

size_t subject_n_ctx(const Subject *subject) {
    return subject->n_ctx ? subject->n_ctx : model_config(subject->model)->n_ctx;
}

bool subject_check_length(const Subject *subject, Error *error) {
    size_t n = subject->tokens.n, limit = subject_n_ctx(subject);
    return n <= limit ||
           error_set(
               error,
               "the text has %zu tokens, more than the context of %zu; shorten it (score takes long texts)",
               n, limit);
}

size_t subject_room(const Subject *subject, size_t n_ctx, Error *error) {
    if (n_ctx == 0 && !subject_check_length(subject, error)) return 0;
    if (n_ctx == 0) n_ctx = subject->tokens.n;
    return subject_room_matters(subject) && n_ctx < subject_n_ctx(subject) ? subject_n_ctx(subject) : n_ctx;
}

bool subject_room_matters(const Subject *subject) {
    return model_weights(subject->model)->ropes[0].long_freq;
}

Session *subject_session(const Subject *subject, size_t n_ctx, const Probe *probe, Error *error) {
    SessionOptions session = {.n_ctx = subject_room(subject, n_ctx, error),
                              .whole_cache = true,
                              .kv_dtype = subject->kv_dtype,
                              .compute = subject->compute,
                              .probe = probe,
                              .stop = subject->stop,
                              .stop_user = subject->stop_user};
    return session.n_ctx ? session_new(subject->model, &session, error) : NULL;
}

bool subject_go_on(const Subject *subject, const char *what, size_t done, size_t total, Error *error) {
    bool stops = (subject->stop && subject->stop(subject->stop_user)) ||
                 (subject->progress && !subject->progress(subject->progress_user, what, done, total));
    return !stops || error_set(error, "interrupted");
}

bool subject_feed(const Subject *subject, Session *session, const int32_t *ids, size_t n, LogitsVisit *each,
                  void *user, Error *error) {
    size_t n_vocab = model_config(subject->model)->n_vocab, chunk = each ? LOGITS_CHUNK : SESSION_CHUNK;
    float *logits = each ? floats_new(n < chunk ? n : chunk, n_vocab) : NULL;
    bool ok = !each || logits || error_set(error, "not enough memory for the logits of %zu tokens", chunk);
    for (size_t done = 0, m; ok && done < n; done += m) {
        size_t position = session_position(session);
        m = n - done < chunk ? n - done : chunk;
        ok = subject_go_on(subject, n > chunk ? "tokens" : NULL, done, n, error) &&
             session_feed(session, ids + done, m, logits, each ? m : 0, error);
        for (size_t i = 0; ok && each && i < m; i++) each(user, position + i, logits + i * n_vocab);
    }
    if (n > chunk) subject_go_on(subject, "tokens", n, n, NULL);
    free(logits);
    return ok;
}

bool begins_word(const Subject *subject, size_t at) {
    String piece = tokenizer_piece(subject->tokenizer, subject->tokens.ids[at], true);
    return at == 0 || (at == 1 && subject->bos) || (piece.n > 0 && memchr(" \t\n\r", piece.data[0], 4));
}

bool join_tokens(const Subject *subject, Arena *arena, bool special, JoinedText *text, Error *error) {
    const Tokens *tokens = &subject->tokens;
    size_t n = 0;
    for (size_t i = 0; i < tokens->n; i++)
        n += tokenizer_piece(subject->tokenizer, tokens->ids[i], special).n;
    *text = (JoinedText){arena_new(arena, n + 1, 1), arena_new(arena, tokens->n + 1, sizeof *text->offsets)};
    if (!arena_ok(arena, error, "%zu words", tokens->n)) return false;
    for (size_t i = 0; i < tokens->n; i++) {
        String piece = tokenizer_piece(subject->tokenizer, tokens->ids[i], special);
        if (piece.n > 0) memcpy(text->bytes + text->offsets[i], piece.data, piece.n);
        text->offsets[i + 1] = text->offsets[i] + piece.n;
    }
    return true;
}

static bool is_of_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80);
}

static bool is_inside_word(const char *bytes, size_t at) {
    return at > 0 && is_of_word(bytes[at - 1]) && is_of_word(bytes[at]);
}

bool find_word(const JoinedText *text, size_t n_tokens, const char *wanted, WordPlace *place) {
    const char *bytes = text->bytes; /* a zero stands behind them */
    const size_t *offsets = text->offsets;
    size_t n = strlen(wanted);
    for (size_t i = n_tokens; n > 0 && i-- > 0 && offsets[i + 1] >= n;) {
        size_t end = offsets[i + 1], begin = end - n;
        bool is_token = begin == offsets[i] || (begin == offsets[i] + 1 && bytes[offsets[i]] == ' ');
        bool is_word = !is_inside_word(bytes, begin) && !is_inside_word(bytes, end);
        if ((!is_token && !is_word) || memcmp(bytes + begin, wanted, n) != 0) continue;
        *place = (WordPlace){i, i};
        while (offsets[place->first] > begin) place->first--;
        return true;
    }
    return false;
}

const char *head_name(char *buffer, size_t layer, size_t head) {
    snprintf(buffer, 32, "L%zuH%zu", layer, head);
    return buffer;
}
