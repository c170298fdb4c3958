/*
 * attn: a tiny GPT-style inference engine around the attention block. This header is all that a program needs.
 *
 * A first program:
 *
 *     #include <attn.h>
 *     #include <stdio.h>
 *
 *     static bool show(void *user, const char *text, size_t n) {
 *         (void)user;
 *         return fwrite(text, 1, n, stdout) == n;
 *     }
 *
 *     int main(void) {
 *         AttnError error;
 *         AttnModel *model = attn_model_open("model.bin", NULL, &error);
 *         AttnSession *session = attn_session_new(model, NULL, &error);
 *         AttnGenerateOptions options = {.text = show};
 *         bool ok = attn_generate(session, "The Eiffel", &options, NULL, &error);
 *         if (!ok) fprintf(stderr, "%s\n", error.message);
 *         attn_session_free(session);
 *         attn_model_close(model);
 *         return !ok;
 *     }
 *
 * Build it with: cc first.c $(pkg-config --cflags --libs attn)
 *
 * Objects. A model is a file, mapped read-only, with its vocabulary; nothing changes it. A session is one text under
 * way: its tokens, and the keys and values of all layers. Whoever gets an object from a function called …_open or …_new
 * gives it back to …_close or …_free, which accept NULL; a model last, after its sessions and samplers.
 *
 * Errors. What can fail returns NULL or false and writes one line for a person to *error, which may be NULL. A
 * function that is given NULL for an object returns NULL, 0 or false (a text: "", a token: -1) and leaves *error as it was: so a chain of calls is
 * checked once, at its end. After a call that failed, out of memory or otherwise, the objects that it was given are
 * good: the call can be made again, and attn_session_tokens says what a session holds. Nothing is printed, and nothing
 * exits. A file that is made shorter while it is open raises SIGBUS, as with any mapping.
 *
 * Options. A struct of options that is all zero is a good choice, and NULL stands for it. Options are copied; what their
 * `user` points to must live as long as the callbacks are called.
 *
 * Threads. Any number of threads may share a model. A session or a sampler belongs to one thread at a time. Each session
 * has a pool of threads of its own, which sleeps between calls. Logits are the same to the bit for every number of
 * threads. A child of fork() may go on with what its parent had open, on one thread. The process's locale changes nothing, nor
 * does the floating-point environment in which the library is called: it works in the default one, and so do callbacks. A call
 * takes up to 512 KiB of the stack of its thread, and the pool's threads are sent no signals.
 *
 * Callbacks are called on the thread that called the library. They return, without an exception or longjmp, and do not
 * use the session that is at work; the model they may ask.
 *
 * Names: [a][b] is an array of a rows of b numbers, row after row. n_layer, n_head, n_vocab … are those of
 * attn_model_shape. Positions, layers and heads count from 0.
 */
#ifndef ATTN_H
#define ATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ATTN_API __attribute__((visibility("default")))
#else
#define ATTN_API
#endif

/* The version of this header. Before 1.0.0 a new second number may change what is here; the third adds to it alone. */
#define ATTN_VERSION "0.5.0"

/* The version of the library that is linked. */
ATTN_API const char *attn_version(void);

/* One line for a person: what, where, what to do. */
typedef struct AttnError {
    char message[512];
} AttnError;

typedef struct AttnModel AttnModel;
typedef struct AttnSession AttnSession;
typedef struct AttnSampler AttnSampler;

typedef struct AttnModelOptions {
    const char *tokenizer; /* a file whose vocabulary is taken (GGUF, llama2.c's); NULL: the model's own */
} AttnModelOptions;

/* Opens a checkpoint (GGUF, a Hugging Face folder, llama2.c or llm.c), after checking every byte that is not a weight. */
ATTN_API AttnModel *attn_model_open(const char *path, const AttnModelOptions *options, AttnError *error);
ATTN_API void attn_model_close(AttnModel *model);

/*
 * Likewise a model that has no path: of n bytes in memory, at a multiple of 16, which live, and stay as they are, until
 * attn_model_close; and of a file that is open for reading, all of which is mapped: its descriptor may be closed afterwards.
 * `name` is what errors call it (NULL: "model"). Models of several files, folders and split GGUF, are found by a path alone.
 */
ATTN_API AttnModel *attn_model_open_memory(const void *bytes, size_t n, const char *name,
                                           const AttnModelOptions *options, AttnError *error);
ATTN_API AttnModel *attn_model_open_descriptor(int descriptor, const char *name,
                                               const AttnModelOptions *options, AttnError *error);

typedef struct AttnShape {
    size_t n_layer, n_head, n_head_kv; /* query heads, and the key-value heads that they share evenly */
    size_t d_model, d_head, d_ff; /* numbers of the residual stream, of a head, of the MLP's hidden layer */
    size_t n_vocab;               /* tokens */
    size_t n_ctx;                 /* positions that the model was trained for */
} AttnShape;

/* All 0 for NULL. */
ATTN_API AttnShape attn_model_shape(const AttnModel *model);

/* "gpt2", "llama", "qwen3" … */
ATTN_API const char *attn_model_architecture(const AttnModel *model);

/*
 * A model's weights as they are multiplied: y = W x + b with W [outputs][inputs], row behind row. Heads, kv heads and
 * experts stand below each other. Names are TransformerLens's, whose matrices are these turned; nothing is folded in, or
 * centred. From ATTN_W_Z_GATE on names are those of transformers, or GGUF's, for TransformerLens has none.
 */
typedef enum AttnWeight {
    ATTN_W_E,        /* [n_vocab][d_model]  a row for each token, before it is scaled */
    ATTN_W_POS,      /* [n_ctx][d_model]  a row for each position, where positions are learned */
    ATTN_EMBED_LN_W, /* [1][d_model]  gain and bias of a norm of the embeddings */
    ATTN_EMBED_LN_B,
    ATTN_LN1_W, /* [1][d_model]  of the norm before attention */
    ATTN_LN1_B,
    ATTN_W_Q,      /* [n_head·d_head][d_model] */
    ATTN_B_Q,      /* [n_head][d_head] */
    ATTN_W_K,      /* [n_head_kv·d_head][d_model] */
    ATTN_B_K,      /* [n_head_kv][d_head] */
    ATTN_W_V,      /* [n_head_kv·d_head][d_model] */
    ATTN_B_V,      /* [n_head_kv][d_head] */
    ATTN_Q_NORM_W, /* [1 or n_head][d_head]  gain of the norm of queries, behind ATTN_Q and before RoPE … */
    ATTN_K_NORM_W, /* [1 or n_head_kv][d_head]  … and of keys */
    ATTN_W_O,      /* [d_model][n_head·d_head] */
    ATTN_B_O,      /* [1][d_model] */
    ATTN_LN1_POST_W, /* [1][d_model]  of a norm behind attention */
    ATTN_LN1_POST_B,
    ATTN_LN2_W, /* [1][d_model]  of the norm before the MLP, where it has its own */
    ATTN_LN2_B,
    ATTN_W_ROUTER, /* [n_expert][d_model]  in layers with experts, which have n_expert times the rows of these: */
    ATTN_B_ROUTER, /* [1][n_expert] */
    ATTN_W_GATE,   /* [d_ff][d_model]  what goes through the activation, where there is a gate */
    ATTN_B_GATE,   /* [1][d_ff] */
    ATTN_W_IN, /* [d_ff][d_model]  what goes through it without a gate, and is multiplied with it otherwise */
    ATTN_B_IN, /* [1][d_ff] */
    ATTN_W_OUT,      /* [d_model][d_ff] */
    ATTN_B_OUT,      /* [1][d_model] */
    ATTN_LN2_POST_W, /* [1][d_model]  of a norm behind the MLP */
    ATTN_LN2_POST_B,
    ATTN_LN_FINAL_W, /* [1][d_model]  of the norm before the unembedding */
    ATTN_LN_FINAL_B,
    ATTN_W_U, /* [n_vocab][d_model]  the embedding once more, where a file has but one */
    ATTN_B_U, /* [1][n_vocab] */

    ATTN_W_Z_GATE, /* [n_head·d_head][d_model]  "attn.W_gate": z is multiplied by the sigmoid of what this makes (Qwen3.5) */
    ATTN_B_Z_GATE,     /* [n_head][d_head] */
    ATTN_SINKS,        /* [1][n_head]  a score that takes part in each softmax, and has no value (gpt-oss) */
    ATTN_SHARED_GATE,  /* [d_shared][d_model]  of the expert that all tokens share: W_gate … */
    ATTN_SHARED_IN,    /* [d_shared][d_model]  … W_in … */
    ATTN_SHARED_OUT,   /* [d_model][d_shared]  … and W_out */
    ATTN_SHARED_SCALE, /* [1][d_model]  the sigmoid of what this makes scales that expert */
    ATTN_CONV_IN,      /* [3·d_model][d_model]  a short convolution's: what B, C and x are made by (LFM2) */
    ATTN_CONV_KERNEL,  /* [n_taps][d_model]  the token's own row last */
    ATTN_CONV_OUT,     /* [d_model][d_model] */
    ATTN_DELTA_QKV, /* [2·n_key_head·d_state + d_inner][d_model]  a gated delta net's (Qwen3.5): queries, keys, values */
    ATTN_DELTA_Z,       /* [d_inner][d_model]  the gate of what comes out */
    ATTN_DELTA_BETA,    /* [n_value_head][d_model]  how much is learned */
    ATTN_DELTA_ALPHA,   /* [n_value_head][d_model]  how much is kept: exp(A · softplus(this + dt_bias)) */
    ATTN_DELTA_A,       /* [1][n_value_head]  −exp(A_log) */
    ATTN_DELTA_DT_BIAS, /* [1][n_value_head] */
    ATTN_DELTA_KERNEL,  /* [n_taps][2·n_key_head·d_state + d_inner]  the token's own row last */
    ATTN_DELTA_NORM,    /* [1][d_state]  gain of the norm of what a value head gives */
    ATTN_DELTA_OUT,     /* [d_model][d_inner] */
    ATTN_ROPE_FREQS,    /* [1][d_rope/2]  RoPE's frequencies are divided by these (Llama 3.1) … */
    ATTN_ROPE_SHORT,    /* … or by these, in contexts no longer than those of training … */
    ATTN_ROPE_LONG      /* … and by these in longer ones (LongRoPE) */
} AttnWeight;

/* "attn.W_Q", "ln_final.w" … "" behind the last. */
ATTN_API const char *attn_weight_name(AttnWeight weight);

typedef struct AttnMatrix {
    size_t n_rows, n_cols;
} AttnMatrix;

/*
 * Writes rows [first, first + n) of a weight to rows [n][n_cols], which may be NULL if n is 0; `layer` is 0 for a weight that
 * belongs to none. *shape, which may be NULL, is the whole weight's. What is quantised is unpacked anew at each call. Fails
 * where the layer has no such weight, or not so many rows.
 */
ATTN_API bool attn_weight(const AttnModel *model, AttnWeight weight, size_t layer, size_t first, size_t n,
                          float *rows, AttnMatrix *shape, AttnError *error);

/*
 * How many of a head's numbers, the first n, stand in another order than in training; 0 in most models. GGUF files of some
 * families have the two that RoPE turns together side by side, 0 and 1, 2 and 3 …, where they had been 0 and n/2, 1 and
 * n/2 + 1 … That is so in q, k, rot_q and rot_k, in the rows of W_Q and W_K, in b_Q and b_K, and in the gains of q's and k's norms.
 */
ATTN_API size_t attn_model_n_paired(const AttnModel *model);

/*
 * How many key heads a gated delta net's value heads take in turn; 0: they do not, or there is none. With n key heads, value
 * head h has the query and key of head h mod n, where in training the first n_value_head/n value heads have those of head 0, and
 * so on. That is GGUF's order of value heads, in all of ATTN_DELTA_… that has some; a folder's is that of training.
 */
ATTN_API size_t attn_model_n_striped(const AttnModel *model);

/* Flags of attn_tokenize. */
enum {
    ATTN_TOKENIZE_ENDS = 1,   /* with the tokens that begin and end a text, where the file asks for them */
    ATTN_TOKENIZE_SPECIAL = 2 /* control tokens such as <|endoftext|> are read in the text */
};

/*
 * The tokens of n bytes of text: the first `capacity` of them are written to tokens, and *n_tokens says how many there
 * are. With capacity 0 tokens may be NULL.
 */
ATTN_API bool attn_tokenize(const AttnModel *model, const char *text, size_t n, unsigned flags,
                            int32_t *tokens, size_t capacity, size_t *n_tokens, AttnError *error);

/*
 * The *n bytes that a token stands for in running text, not NUL-terminated, borrowed from the model: part of a UTF-8
 * character, perhaps. A control token gives its name; an id that does not exist nothing.
 */
ATTN_API const char *attn_token_text(const AttnModel *model, int32_t token, size_t *n);

/* The tokens that begin and end a text; −1: there is none. */
ATTN_API int32_t attn_token_bos(const AttnModel *model);
ATTN_API int32_t attn_token_eos(const AttnModel *model);

/* Whether a token ends the text that a model writes. */
ATTN_API bool attn_token_is_end(const AttnModel *model, int32_t token);

/* Something that was said in a conversation. */
typedef struct AttnMessage {
    const char *role;     /* "system", "user", "assistant" …: the program's own word, since it steers */
    const char *content;  /* what was said: text to the last byte, whatever control tokens it may look like */
    const char *thoughts; /* of an answer that keeps them apart; or NULL */
} AttnMessage;

typedef struct AttnChatOptions {
    const char *source; /* of a chat template, in Jinja; NULL: the file's own */
    bool complete;      /* nobody answers: the tokens that begin an answer are left out */

    /*
     * Further variables of the template, a JSON object: {"enable_thinking": false}. Texts, numbers, true, false and null; none may be
     * called messages, add_generation_prompt, or end in _token. NULL: none.
     */
    const char *variables;
} AttnChatOptions;

/*
 * The tokens of n_messages ≥ 1 messages, all strings NUL-terminated, as the model's chat template lays them out, up to where
 * its answer begins; given as attn_tokenize gives them, and ready for attn_generate_from. Bytes that are no UTF-8 count as
 * U+FFFD. Fails, and says why, where the file has no template, where that is no Jinja or refuses the conversation, and where the
 * variables are no such object.
 */
ATTN_API bool attn_chat(const AttnModel *model, const AttnMessage *messages, size_t n_messages,
                        const AttnChatOptions *options, int32_t *tokens, size_t capacity, size_t *n_tokens,
                        AttnError *error);

/*
 * Where a vector can be seen, and changed, on its way: in the order of the forward pass, n tokens at a time. The names
 * are those of TransformerLens's hooks. A layer that keeps a state in attention's place has no q, k, v, rot_q, rot_k, scores,
 * pattern, z and result; one with experts no mlp_pre, mlp_pre_linear and mlp_post.
 */
typedef enum AttnSite {
    ATTN_EMBED,     /* [n][d_model]  the tokens' embeddings as they are added: scaled, normed; layer 0 */
    ATTN_POS_EMBED, /* [n][d_model]  what is added to them by position, where positions are learned; layer 0 */
    ATTN_RESID_PRE,   /* [n][d_model]  the residual stream entering the layer */
    ATTN_NORM1_SCALE, /* [n][1]      what the norm before attention divides by; to be looked at only */
    ATTN_Q,           /* [n][d_head]   a head's query, before RoPE */
    ATTN_K,           /* [n][d_head]   a kv head's key, before RoPE and before it is cached */
    ATTN_V,           /* [n][d_head]   a kv head's value, before it is cached */
    ATTN_ROT_Q,       /* [n][d_head]   a head's query behind RoPE, where the layer turns */
    ATTN_ROT_K,       /* [n][d_head]   a kv head's key behind RoPE, as it is cached */
    ATTN_SCORES,  /* [1][pos + 1]  q·k/√d_head of the query at `position` over its keys 0 … pos, as the
                        softmax takes them: capped, or biased by distance; −∞ beyond a window */
    ATTN_PATTERN, /* [1][pos + 1]  softmax of that row: the attention weights */
    ATTN_Z,       /* [n][d_head]   a head's weighted values, before its gate and the output projection */
    ATTN_RESULT, /* [n][d_model]  what a head's z becomes by the output projection, without its bias; costs as much
                        as attention's projection for each head that is wanted */
    ATTN_ATTN_OUT,  /* [n][d_model]  what attention, or a state in its place, adds to the residual stream */
    ATTN_RESID_MID, /* [n][d_model]  between attention and MLP (a layer with both side by side has none) */
    ATTN_NORM2_SCALE, /* [n][1]      what the norm before the MLP divides by, where it has its own; to be looked at only */
    ATTN_ROUTER,         /* [n][n_expert] the router's logits, in layers with experts */
    ATTN_EXPERT_WEIGHTS, /* [n][n_expert] by which the experts' outputs are added: 0 where one is not chosen */
    ATTN_MLP_PRE,        /* [n][d_ff]     what goes into the activation: the gate, where the MLP has one */
    ATTN_MLP_PRE_LINEAR, /* [n][d_ff]     what the activated gate is multiplied with */
    ATTN_MLP_POST,       /* [n][d_ff]     the hidden numbers, as the MLP's last matrix reads them */
    ATTN_MLP_OUT,        /* [n][d_model]  what the MLP, or the experts, add */
    ATTN_RESID_POST,     /* [n][d_model]  the residual stream leaving the layer */
    ATTN_FINAL_SCALE, /* [n][1]        what the final norm divides by, where logits were asked for; to be looked at only */
    ATTN_LOGITS /* [n][n_vocab]  of the positions whose logits were asked for */
} AttnSite;

/* "resid_pre", "pattern" … */
ATTN_API const char *attn_site_name(AttnSite site);

/*
 * n_rows rows of n_cols numbers, `stride` apart; valid during the visit. In q, k, v, rot_q, rot_k and z all heads lie side by
 * side, head h at data + (h − head)·n_cols, and at the visit of any head all of them may be read and written: whoever looks
 * at all heads wants one.
 */
typedef struct AttnActivation {
    AttnSite site;
    size_t layer;    /* n_layer for ATTN_FINAL_SCALE and ATTN_LOGITS */
    size_t head;     /* q, rot_q, scores, pattern, z, result: head; k, v, rot_k: kv head; otherwise 0 */
    size_t position; /* of row 0 in the text; row i is position + i */
    size_t n_rows, n_cols, stride;
    float *data; /* what is written here is what the model goes on with */
} AttnActivation;

/*
 * All zero: nobody looks, and nothing is paid for it. To look changes nothing but this: a head whose scores or pattern
 * are seen is computed row by row, and its sums round differently in the last bits.
 */
typedef struct AttnProbe {
    void *user;
    /* Whether to visit; asked once for each site, layer, head and chunk of tokens. NULL: always. */
    bool (*wants)(void *user, AttnSite site, size_t layer, size_t head);
    void (*visit)(void *user, const AttnActivation *activation);
} AttnProbe;

/*
 * A `visit` for whoever wants whole arrays, above all of scores and patterns, which come row by row: `user`, that of the
 * probe, is an AttnCopies, and a visit of site and layer is copied, or handed on where its place has no data. Row i of
 * head h goes to data + h·head + (position + i)·row.
 */
typedef struct AttnCopy {
    float *data;      /* NULL: the visit is handed on */
    size_t head, row; /* floats from a head to the next, and from a position to the next */
} AttnCopy;

typedef struct AttnCopies {
    size_t n_layer;                                              /* the model's */
    const AttnCopy *places;                                      /* [ATTN_LOGITS + 1][n_layer + 1] */
    void (*visit)(void *user, const AttnActivation *activation); /* NULL: nobody sees the others */
    void *user;
} AttnCopies;

ATTN_API void attn_copy(void *copies, const AttnActivation *activation);

/* How keys and values are kept. */
typedef enum AttnCache {
    ATTN_CACHE_F16,
    ATTN_CACHE_F32, /* to compare numbers: nothing is rounded */
    ATTN_CACHE_Q8_0 /* in 8 bits, with a scale for each 32 of a head: long texts take half the memory of F16 */
} AttnCache;

typedef struct AttnSessionOptions {
    size_t n_ctx;       /* positions to make room for; 0: as many as the model was trained for */
    unsigned n_threads; /* 0: a thread for each core */
    AttnCache cache;
    bool fast; /* activations in 8 bits where that is faster: fit for text, not to compare runs */
    AttnProbe probe;

    /*
     * Asked before each layer: true ends the call at work, which fails with "interrupted". The session stays good: attn_feed
     * has then fed nothing, the others perhaps some chunks of 256 tokens. NULL: nobody asks.
     */
    bool (*stop)(void *user);
    void *stop_user;

    /*
     * A session of the same model, which outlives this one, or NULL. The two share its threads and its scratch, so that this one
     * costs no more memory than its cache; n_ctx, n_threads, cache and fast are as that one has them. They must not be fed at once, but may
     * be together: attn_feed_many.
     */
    const struct AttnSession *beside;
} AttnSessionOptions;

/*
 * Takes all memory that a text needs: the cache's and other memory for n_ctx tokens, touched only as far as it is filled,
 * at most 256 MiB of scratch, and less than 1 MiB for each thread. Fails where the model's shape needs more.
 */
ATTN_API AttnSession *attn_session_new(const AttnModel *model, const AttnSessionOptions *options,
                                       AttnError *error);
ATTN_API void attn_session_free(AttnSession *session);

/*
 * The memory that attn_session_new takes with these options, told to a few percent and 20 KB without taking it, in bytes: of address
 * space for the cache, of which memory is used as far as tokens have come, and of all else but the threads' stacks. SIZE_MAX
 * is more than there is. Fails where no memory would help: on the model's shape, or on n_ctx.
 */
typedef struct AttnMemory {
    size_t cache, rest;
} AttnMemory;
ATTN_API bool attn_session_memory(const AttnModel *model, const AttnSessionOptions *options,
                                  AttnMemory *memory, AttnError *error);

/* The tokens that the session holds, borrowed until its next call. *n is how many: the position of the next. */
ATTN_API const int32_t *attn_session_tokens(const AttnSession *session, size_t *n);
ATTN_API size_t attn_session_n_ctx(const AttnSession *session);

/*
 * Forgets all positions from `position` on; or all there are, if a layer keeps a state, which cannot go back:
 * attn_session_tokens tells. Who changes vectors by a probe, and then changes them otherwise, rewinds to the first that this
 * concerns: what a session holds it does not compute again.
 */
ATTN_API void attn_rewind(AttnSession *session, size_t position);

/*
 * A second session with the tokens, keys, values and states of the first, which are not computed again: so one beginning
 * is gone on with in two ways. The two share the memory of keys and values as far as neither changes them, where the system can
 * do that. NULL for options stands for those of the first, its probe and stop among them; other options must have the same
 * cache, and room for the tokens. Fails otherwise, and as attn_session_new does.
 */
ATTN_API AttnSession *attn_session_fork(AttnSession *session, const AttnSessionOptions *options,
                                        AttnError *error);

/*
 * Gives all that a session holds to `write`, piece by piece: attn_session_bytes of it, about as many as its part of the cache
 * has. What it held before, and was rewound, is not among them. Fails when `write` returns false, which may then have had
 * some. The session holds the same afterwards.
 */
ATTN_API size_t attn_session_bytes(const AttnSession *session);
ATTN_API bool attn_session_save(AttnSession *session, bool (*write)(void *user, const void *bytes, size_t n),
                                void *user, AttnError *error);

/*
 * Makes the session hold what was saved, whatever it held; nothing is computed. `read` fills exactly n bytes, or returns
 * false; what stands behind the last is not asked for. The session must be one of the same model, with the same cache and
 * room for the tokens; if it is not, or the first bytes are of no saved session, the call fails and the session holds what
 * it held. Where bytes are missing or damaged the call fails and it holds nothing. Whoever makes such bytes with bad intent
 * can make the model say anything, as by a text, and do no other harm.
 */
ATTN_API bool attn_session_restore(AttnSession *session, bool (*read)(void *user, void *bytes, size_t n),
                                   void *user, AttnError *error);

/*
 * Feeds n ≥ 1 tokens behind those that the session holds, and writes the logits of the last n_logits ≤ n of them to
 * logits [n_logits][n_vocab] (0: it may be NULL). Fails, with nothing fed, on n_logits > n, on a token that does not exist,
 * on a context that is too short, on logits that are not finite, and when the session is stopped. After the last two the
 * session holds nothing at all if a layer keeps a state.
 */
ATTN_API bool attn_feed(AttnSession *session, const int32_t *tokens, size_t n, float *logits, size_t n_logits,
                        AttnError *error);

/* A session's part of a call that several share: as the arguments of attn_feed. */
typedef struct AttnPart {
    AttnSession *session;
    const int32_t *tokens; /* [n], n ≥ 1 */
    size_t n;
    float *logits; /* [n_logits][n_vocab], n_logits ≤ n */
    size_t n_logits;
} AttnPart;

/*
 * Feeds several sessions of one model, all with or all without `fast`, each with a part of its own. The weights are read once for
 * all, so that eight tokens of eight texts cost little more than one; one session's threads do the work. Each token gets the bits
 * that attn_feed gives it, so nobody sees who else was there; a session with a probe goes alone. It is a little faster where the
 * logits of each part lie in memory right behind those of the part before. Fails like attn_feed, on a session that has two parts,
 * too; then all sessions are as they were, but where a layer keeps a state: what attn_feed says of that holds for all of them.
 */
ATTN_API bool attn_feed_many(const AttnPart *parts, size_t n_parts, AttnError *error);

/*
 * Makes the session hold exactly these n ≥ 1 tokens, whatever it held, and writes the logits of the last to logits
 * [n_vocab] (NULL: they are not wanted). What the two have in common at the beginning is not computed again, but for the
 * last token, which is always fed. Fails as attn_feed does; some of the tokens may then have been fed.
 */
ATTN_API bool attn_sync(AttnSession *session, const int32_t *tokens, size_t n, float *logits,
                        AttnError *error);

/*
 * As attn_sync, and writes what the model made of the last token to hidden [d_model]: the residual stream that leaves the last
 * layer, behind the final norm, from which the unembedding makes logits. As a vector for the whole text it sees all of it.
 * Fails, too, on numbers that are not finite.
 */
ATTN_API bool attn_hidden(AttnSession *session, const int32_t *tokens, size_t n, float *hidden,
                          AttnError *error);

/*
 * The logits [n][n_vocab] that n residual vectors [n][d_model] would give if they left the last layer: the logit lens
 * of nostalgebraist (2020). Nothing is fed, and no probe sees it.
 */
ATTN_API bool attn_unembed(const AttnSession *session, const float *resid, size_t n, float *logits);

/* A part of a number that is made of logits: weight · logit, or weight · ln p, of a token after a position. */
typedef struct AttnTerm {
    size_t position; /* 0 … n − 1: behind the token that stands there */
    int32_t token;
    bool logprob; /* ln softmax(logits) in place of the logit */
    double weight;
} AttnTerm;

/*
 * As in AttnProbe, nobody looks where `visit` is NULL. `gradient` has the rows and the stride of the activation, whose data may
 * be read, not written. The way back goes on with what is written to `gradient`. Layers come from the last to the first, and in a
 * layer its sites from the last to the first; each row of a pattern comes before its scores. Scales are not visited. The data of a
 * head's result is NULL, and what is written to its gradient is lost.
 */
typedef struct AttnGradientProbe {
    void *user;
    bool (*wants)(void *user, AttnSite site, size_t layer, size_t head);
    void (*visit)(void *user, const AttnActivation *activation, float *gradient);
} AttnGradientProbe;

/*
 * The gradient of a metric with respect to what passes each site that the probe wants. The metric is the sum of n_terms ≥ 1
 * terms, in any order: a logit difference has two, a text's loss one for each token. Makes the session hold exactly these
 * n ≥ 1 tokens, all of them fed anew and unseen by its own probe, and goes back. *value, which may be NULL, is the metric; with
 * probe NULL it is all that is computed. The cache should be ATTN_CACHE_F32: the way back makes keys and values again, and
 * rounds none. Takes memory for some (n_layer + 20)·n·d_model floats, or up to 192 MiB more where that spares work; the session
 * holds as much of it as is wanted next time. Fails as attn_feed does, and on a term whose position or
 * token does not exist; the session may then hold nothing.
 */
ATTN_API bool attn_gradient(AttnSession *session, const int32_t *tokens, size_t n, const AttnTerm *terms,
                            size_t n_terms, const AttnGradientProbe *probe, double *value, AttnError *error);

/*
 * Applied in this order if `order` is 0; its steps are 1 penalties, 2 top_k, 3 top_p, 4 min_p, 5 temperature. The numbers
 * drawn are those of llama2.c.
 */
typedef struct AttnSampling {
    float repeat_penalty;    /* logits of recent tokens: ÷ if positive, × if negative; 0 or 1: off */
    float presence_penalty;  /* subtracted once from the logit of a recent token */
    float frequency_penalty; /* subtracted for each time it occurred */
    size_t penalty_window;   /* tokens that are recent; 0: 64 */
    size_t top_k;            /* keep the k likeliest; 0: all */
    float top_p;             /* keep the fewest that hold more than this mass; 0 or 1: all */
    float min_p;             /* keep p ≥ min_p × the largest p; 0: all */
    float temperature;       /* logits are divided by it; 0: always the likeliest token */
    uint64_t seed;           /* the same seed draws the same tokens */
    uint64_t order;          /* steps, four bits each, the first lowest; 0: the usual */
} AttnSampling;

/*
 * How the model's file wants to be sampled from (general.sampling.* of GGUF, generation_config.json of a folder), and where it
 * says nothing, the usual: temperature 0.8, top_p 0.95. Set what is to be otherwise, and the seed, and hand it on. Fails where
 * a value of the file makes no sense.
 */
ATTN_API bool attn_sampling(const AttnModel *model, AttnSampling *sampling, AttnError *error);

/*
 * For whoever feeds tokens one by one; attn_generate has its own. Both fail on a value outside of its range
 * (temperature 0 to 1e9, top_p and min_p 0 to 1, repeat_penalty 0.01 to 100, the other penalties -1000 to 1000), and on a step that does
 * not exist.
 */
ATTN_API AttnSampler *attn_sampler_new(const AttnModel *model, const AttnSampling *sampling,
                                       AttnError *error);
ATTN_API void attn_sampler_free(AttnSampler *sampler);

/* The next token, from finite logits [n_vocab]; it counts as recent. −1 for NULL. */
ATTN_API int32_t attn_sample(AttnSampler *sampler, const float *logits);

/* Counts a token as recent that was not sampled: of the prompt, say. */
ATTN_API void attn_sampler_accept(AttnSampler *sampler, int32_t token);

/* Why a text ended. */
typedef enum AttnEnd {
    ATTN_END_LIMIT,   /* as many tokens as were asked for */
    ATTN_END_TOKEN,   /* the model ended it */
    ATTN_END_STOP,    /* a stop text came */
    ATTN_END_CONTEXT, /* the context is full */
    ATTN_END_CALLER   /* the callback returned false */
} AttnEnd;

/*
 * Whether tokens to come are guessed, from where the text's last tokens stood before, and checked in the pass of those before
 * them. It changes how soon tokens come, never which, nor their log-probabilities. Nothing is guessed where a layer keeps a
 * state, or a probe looks.
 */
typedef enum AttnSpeculate {
    ATTN_SPECULATE_AUTO, /* when that is expected to pay */
    ATTN_SPECULATE_ON,   /* whenever there is a guess */
    ATTN_SPECULATE_OFF
} AttnSpeculate;

typedef struct AttnGenerateOptions {
    AttnSampling sampling;
    size_t n_tokens;         /* to generate at most; 0: 256; SIZE_MAX: until something else ends the text */
    const char *const *stop; /* [n_stop] texts, none empty, before which the text ends */
    size_t n_stop;
    bool shift;   /* a full context drops its oldest half and goes on */
    bool special; /* control tokens are read in the prompt, and shown by name */

    /*
     * Called with n bytes of text, whole UTF-8 characters and no NUL behind, as they come; false ends the text, and nothing
     * is called any more.
     */
    bool (*text)(void *user, const char *text, size_t n);

    /*
     * Called with each token as it is sampled, before the text that it completes, if any; the one that ends the text among
     * them. logprob is in nats: ln softmax(logits) of it, before penalties, temperature and filters. False as above.
     */
    bool (*token)(void *user, int32_t token, double logprob);
    void *user; /* of both */

    AttnSpeculate speculate;
} AttnGenerateOptions;

/*
 * Writes on behind a prompt (NUL-terminated): the session comes to hold its tokens, computing only what it did not hold
 * before (attn_sync), and then those that are generated, but for the last, which nobody has asked what follows it. So a
 * chat hands over its whole text each time. The prompt is not given to `text`. An empty one is the token that begins a
 * text. *end, which may be NULL, says why the text ended.
 */
ATTN_API bool attn_generate(AttnSession *session, const char *prompt, const AttnGenerateOptions *options,
                            AttnEnd *end, AttnError *error);

/* Likewise behind n ≥ 1 tokens, which are fed as they are: of attn_tokenize, say, or of attn_chat. */
ATTN_API bool attn_generate_from(AttnSession *session, const int32_t *tokens, size_t n,
                                 const AttnGenerateOptions *options, AttnEnd *end, AttnError *error);

#ifdef __cplusplus
}
#endif

#endif
