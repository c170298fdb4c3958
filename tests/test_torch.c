/* pytorch_model.bin: what is read and used in place, and what is refused, and why; and files that nobody would write. */
#include "folder.h"
#include "hub/pickle.h"
#include "open.h"
#include "test.h"
#include "tests/torch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#define CONFIG(type, tied)                                                                                   \
    "{\"model_type\": \"" type "\", \"hidden_size\": 4, \"num_hidden_layers\": 1, \"num_attention_heads\": " \
    "2, \"intermediate_size\": 6, \"rms_norm_eps\": 1e-05, \"vocab_size\": 3, "                              \
    "\"max_position_embeddings\": 64, \"tie_word_embeddings\": " tied "}"

#define START "\x80\x02}("
#define STOP "u."

static Archive archive;
static Program program;
static unsigned char weights[256];

static void put_config(const char *text) { put_text("config.json", text); }

static void begin(void) {
    archive.n = archive.n_entries = program.n = 0;
    PROGRAM_PUT(&program, START);
}

/* The program, and storage "0" of n bytes. */
static void add_both(size_t n, size_t shift) {
    archive_add(&archive, "m/data.pkl", program.bytes, program.n, 0);
    archive_add(&archive, "m/data/0", weights, n, shift);
}

static void put_archive(bool zip64) {
    archive_end(&archive, zip64);
    scratch_put("pytorch_model.bin", archive.bytes, archive.n);
}

static void end(size_t n) {
    PROGRAM_PUT(&program, STOP);
    add_both(n, 0);
    put_archive(false);
}

static const Saved embedding = {"model.embed_tokens.weight", "Float", "0", 16, 0, 2, {3, 4}, {4, 1}},
                   norm = {"model.norm.weight", "Float", "0", 16, 12, 1, {4}, {1}};

/* Both of them, in one storage. */
static void put_good(bool zip64, size_t shift) {
    begin();
    program_tensor(&program, &embedding);
    program_tensor(&program, &norm);
    PROGRAM_PUT(&program, STOP);
    add_both(64, shift);
    put_archive(zip64);
}

/* Weights are used where they lie, unless their address does not fit their type. */
static void test_places(void) {
    put_config(CONFIG("llama", "true"));
    for (size_t shift = 0; shift < 5; shift++) {
        put_good(shift % 2 == 0, shift);
        Checkpoint *checkpoint = accept(shift ? scratch_folder : scratch_file("pytorch_model.bin"));
        if (!checkpoint) continue;
        const Tensor *wte = checkpoint_find(checkpoint, "token_embd.weight"),
                     *gain = checkpoint_find(checkpoint, "output_norm.weight");
        CHECK(wte && wte->n_dims == 2 && wte->dims[0] == 4 && wte->dims[1] == 3 && wte->dtype == DTYPE_F32 &&
                  wte->n_bytes == 48 && (uintptr_t)wte->data % 4 == 0 && memcmp(wte->data, weights, 48) == 0,
              "the embedding, shifted by %zu", shift);
        CHECK(gain && gain->n_dims == 1 && gain->dims[0] == 4 && memcmp(gain->data, weights + 48, 16) == 0,
              "the norm, shifted by %zu", shift);
        CHECK(checkpoint_turned_bytes(checkpoint) == (shift % 4 ? 64 : 0), "%" PRIu64 " bytes were copied",
              checkpoint_turned_bytes(checkpoint));
        CHECK(strcmp(checkpoint_format(checkpoint), "PyTorch") == 0, "%s", checkpoint_format(checkpoint));
        checkpoint_close(checkpoint);
    }
}

/* Masks of any type and shape are left out; a tied output is the embedding, whatever config.json says. */
static void test_ignored(void) {
    static const Saved mask = {"h.0.attn.bias", "Bool", "1", 4, 0, 4, {1, 1, 2, 2}, {4, 4, 2, 1}},
                       view = {"h.0.attn.masked_bias", "Double", "0", 8, 0, 2, {2, 2}, {0, 0}},
                       table = {"h.0.attn.rotary_emb.inv_freq", "BFloat16", "0", 32, 0, 0},
                       head = {"lm_head.weight", "Float", "0", 16, 0, 2, {3, 4}, {4, 1}},
                       tied = {"transformer.wte.weight", "Float", "0", 16, 0, 2, {3, 4}, {4, 1}};
    put_config(CONFIG("gptj", "false, \"rotary_dim\": 2"));
    begin();
    program_tensor(&program, &head);
    program_tensor(&program, &mask);
    program_tensor(&program, &view);
    program_tensor(&program, &table);
    program_tensor(&program, &tied);
    PROGRAM_PUT(&program, STOP);
    archive_add(&archive, "m/data/1", weights, 4, 0);
    add_both(64, 0);
    put_archive(false);
    Checkpoint *checkpoint = accept(scratch_folder);
    CHECK(checkpoint && checkpoint_n_tensors(checkpoint) == 1 &&
              checkpoint_find(checkpoint, "token_embd.weight"),
          "what is left");
    checkpoint_close(checkpoint);

    /* another one that shares its bytes is none that can be */
    put_config(CONFIG("gptj", "true, \"rotary_dim\": 2"));
    begin();
    program_tensor(&program, &tied);
    program_tensor(&program, &(Saved){"h.0.ln_1.weight", "Float", "0", 16, 8, 1, {4}, {1}});
    end(64);
    refuse("tensors 'token_embd.weight' and 'blk.0.attn_norm.weight' overlap");
}

/* The oldest files of OPT have no "model." before their names. */
static void test_old_names(void) {
    put_config("{\"model_type\": \"opt\", \"hidden_size\": 4, \"ffn_dim\": 6, \"num_hidden_layers\": 1, "
               "\"num_attention_heads\": 2}");
    begin();
    program_tensor(&program, &(Saved){"decoder.layers.0.fc1.bias", "Half", "0", 32, 0, 1, {6}, {1}});
    program_tensor(&program, &(Saved){"model.decoder.layers.0.fc2.bias", "Half", "0", 32, 8, 1, {4}, {1}});
    end(64);
    Checkpoint *checkpoint = accept(scratch_folder);
    const Tensor *up = checkpoint ? checkpoint_find(checkpoint, "blk.0.ffn_up.bias") : NULL;
    CHECK(up && up->dtype == DTYPE_F16 && up->dims[0] == 6 &&
              checkpoint_find(checkpoint, "blk.0.ffn_down.bias"),
          "fc1 and fc2");
    checkpoint_close(checkpoint);
}

#define TEN "kkkkkkkkkk"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static void test_tensors(void) {
    static const struct {
        Saved saved;
        const char *says;
    } cases[] = {
        {{"model.norm.weight", "Float", "0", 16, 13, 1, {4}, {1}}, "does not lie in its storage"},
        {{"model.norm.weight", "Float", "0", 16, -1, 1, {4}, {1}}, "does not lie in its storage"},
        {{"model.norm.weight", "Float", "0", 16, INT64_MAX, 1, {4}, {1}}, "does not lie in its storage"},
        {{"model.norm.weight", "Float", "0", 16, INT64_MAX / 4, 1, {4}, {1}}, "does not lie in its storage"},
        {{"model.norm.weight", "Float", "0", 16, 0, 1, {INT64_MAX / 2}, {1}}, "does not lie in its storage"},
        {{"model.norm.weight", "Float", "0", 16, 0, 2, {INT64_MAX, 5}, {5, 1}},
         "a shape that cannot be counted"},
        {{"model.norm.weight", "Float", "0", 16, 0, 1, {-4}, {1}}, "a shape that cannot be counted"},
        {{"model.norm.weight", "Float", "0", 16, 0, 2, {2, 2}, {INT64_MIN, 1}},
         "a shape that cannot be counted"},
        {{"model.norm.weight", "Float", "0", 16, 0, 5, {2, 1, 1, 1, 2}, {2, 2, 2, 2, 1}},
         "more than four dimensions"},
        {{"model.norm.weight", "Float", "0", 16, 0, 2, {2, 2}, {1, 2}}, "call .contiguous() on it"},
        {{"model.norm.weight", "Float", "0", 16, 0, 2, {2, 2}, {INT64_MAX, INT64_MAX}},
         "call .contiguous() on it"},
        {{"model.norm.weight", "Float", "0", 16, 0, 1, {4}, {0}}, "call .contiguous() on it"},
        {{"model.norm.weight", "Float", "0", 16, 0, 1, {0}, {1}}, "'model.norm.weight' has no weights"},
        {{"model.norm.weight", "Float", "0", 15, 0, 1, {4}, {1}}, "a storage of another size than it says"},
        {{"model.norm.weight", "Float", "0", INT64_MAX / 2 + 9, 0, 1, {4}, {1}}, "of another size"},
        {{"model.norm.weight", "Float", "0", -16, 0, 1, {4}, {1}}, "has no storage that is known"},
        {{"model.norm.weight", "Float", "1", 16, 0, 1, {4}, {1}}, "has its weights in no entry"},
        {{"model.norm.weight", "Float", HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED, 16, 0, 1, {4}, {1}},
         "has its weights in no entry"},
        {{"model.norm.weight", "Float", "0", 16, 0, 1, {INT64_MAX / 2 + 1}, {1}},
         "does not lie in its storage"},
        {{"model.norm.weight", "Half", "0", 32, INT64_MAX, 1, {4}, {1}}, "does not lie in its storage"},
        {{"model.norm.weight", "Double", "0", 8, 0, 1, {4}, {1}}, "has type F64, which is not read"},
        {{"model.norm.weight", "Long", "0", 8, 0, 1, {4}, {1}}, "has type I64, which is not read"},
        {{"model.norm.weight", "ComplexFloat", "0", 8, 0, 1, {4}, {1}},
         "asks for 'torch.ComplexFloatStorage'"},
        {{"model.nom.weight", "Float", "0", 16, 12, 1, {4}, {1}},
         "'model.nom.weight' is not known in a model"},
        {{"norm.weight", "Float", "0", 16, 12, 1, {4}, {1}}, "'output_norm.weight' occurs twice"},
        {{"model.norm.weight", "Float", "0", 16, 12, 1, {4}, {1}}, NULL},
    };
    put_config(CONFIG("llama", "true"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool is_twice = cases[i].says && strstr(cases[i].says, "twice");
        begin();
        if (is_twice) program_tensor(&program, &(Saved){"norm.weight", "Float", "0", 16, 0, 1, {4}, {1}});
        program_tensor(&program, &cases[i].saved);
        end(64);
        if (cases[i].says)
            refuse(cases[i].says);
        else
            checkpoint_close(accept(scratch_folder));
    }
}

/* The output is left out where it is the embedding, as a whole; a part of it is refused. */
static void test_tied(void) {
    static const Saved outputs[] = {{"lm_head.weight", "Float", "0", 16, 0, 2, {3, 4}, {4, 1}},
                                    {"lm_head.weight", "Float", "0", 16, 0, 2, {2, 4}, {4, 1}},
                                    {"lm_head.weight", "Float", "0", 16, 4, 2, {3, 4}, {4, 1}}};
    put_config(CONFIG("llama", "false"));
    for (size_t i = 0; i < 3; i++) {
        begin();
        program_tensor(&program, &embedding);
        program_tensor(&program, &outputs[i]);
        end(64);
        if (i > 0) {
            refuse("tensors 'token_embd.weight' and 'output.weight' overlap");
            continue;
        }
        Checkpoint *checkpoint = accept(scratch_folder);
        CHECK(checkpoint && checkpoint_n_tensors(checkpoint) == 1, "the output is there");
        checkpoint_close(checkpoint);
    }
}

/* Programs that make no dictionary of tensors, and what is wrong with them. */
static void test_programs(void) {
#define CASE(bytes, says)                                                                                    \
    { bytes, sizeof(bytes) - 1, says }
    static const struct {
        const char *bytes;
        size_t n;
        const char *says;
    } cases[] = {
        CASE("\x80\x02}.", "holds no tensors"),
        CASE("\x80\x02}", "is cut"),
        CASE("", "is cut"),
        CASE("\x80", "is cut"),
        CASE("\x80\x06}.", "of a protocol that is not known"),
        CASE("\x95\x03\0\0\0\0\0\0\0}.", "is cut"),
        CASE("\x95\2\0\0\0\0\0\0\0}.", "holds no tensors"),
        CASE("}..", "goes on behind its end"),
        CASE("}}.", "makes something else than a dictionary"), /* the second */
        CASE("N}.", "goes on behind its end"),
        CASE(".", "takes a value where there is none"),
        CASE("(.", "takes a value where there is none"),
        CASE("].", "makes something else than a dictionary"),
        CASE("}]a.", "puts something into what cannot have it"),
        CASE("a.", "takes a value where there is none"),
        CASE("}e.", "has no mark where it needs one"),
        CASE("}](NNe0", "opcode 0x30"),
        CASE("cos\nsystem\n(X\x02\0\0\0idtR.",
             "asks for 'os.system', which no weights need (nothing was run)"),
        CASE("cposix\nsystem\n.", "asks for 'posix.system'"),
        CASE("\x8c\x02os\x8c\x06system\x93.", "asks for 'os.system'"),
        CASE("\x8c\x0b"
             "collections\x8c\x0bOrderedDict\x93)R.",
             "holds no tensors"),
        CASE("N\x8c\x06system\x93.", "asks for what has no name"),
        CASE("\x8c\x02osN\x93.", "asks for what has no name"),
        CASE("ctorch._util\n _rebuild_tensor_v2\n.", "asks for 'torch._util. _rebuild_tensor_v2'"),
        CASE("ctorch._utils\n_rebuild_tensor_v2", "is cut"),
        CASE("ctorch", "is cut"),
        CASE("ctorch._utils _rebuild_tensor_v2\n\n.", "asks for 'torch._utils _rebuild_tensor_v2.'"),
        CASE("i__builtin__\neval\n.", "opcode 0x69"),
        CASE("}(X\1\0\0\0aK\1u.", "'a' is no tensor"),
        CASE("}X\1\0\0\0a}s.", "'a' is no tensor; a state dict alone is read"),
        CASE("}K\1K\1s.", "has other keys than names"),
        CASE("}(K\1u.", "a key without its value"),
        CASE("}(K\1(K\2u.", "a key without its value"),
        CASE("K\1(K\1K\2u.", "puts something into what cannot have it"),
        CASE("}u.", "has no mark where it needs one"),
        CASE("}t.", "has no mark"),
        CASE("}K\1s.", "takes a value where there is none"),
        CASE("}(s.", "takes a value where there is none"),
        CASE("}Nb.", "holds no tensors"),
        CASE("NNb.", "puts something into what cannot have it"),
        CASE("h\0.", "takes from its memo what is not there"),
        CASE("}q\1.", "leaves places of its memo out"),
        CASE("}r\xff\xff\xff\xff.", "leaves places of its memo out"),
        CASE("}q\0j\1\0\0\0.", "takes from its memo what is not there"),
        CASE("q\0.", "takes a value where there is none"),
        CASE("(q\0.", "takes a value where there is none"),
        CASE("}X\xff\xff\xff\xff.", "is cut"),
        CASE("}\x8a\x09"
             "aaaaaaaaa.",
             "an integer of more than eight bytes"),
        CASE("}\x8a\x08"
             "aaaaaaa",
             "is cut"),
        CASE(")R.", "takes a value where there is none"),
        CASE("})R.", "calls what is no function"),
        CASE("ccollections\nOrderedDict\nNR.", "calls what is no function"),
        CASE("ccollections\nOrderedDict\n)\x85R.", "makes an OrderedDict of something"),
        CASE("}X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n)Rs.", "'a' is no tensor"),
        CASE("}X\1\0\0\0actorch._utils\n_rebuild_parameter\n)Rs.", "'a' is no tensor"),
        CASE("}X\1\0\0\0actorch._utils\n_rebuild_parameter\nNNN\x87Rs.", "'a' is no tensor"),
        CASE("}X\1\0\0\0actorch\nFloatStorage\n(NNNNNNtRs.", "'a' is no tensor"),
        CASE("}X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n(NNNNNNtRs.", "'a' has no storage that is known"),
        CASE("}X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n(NQNNNNNtRs.",
             "'a' has no storage that is known"),
        CASE("}X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n((NNNNNtQNNNNNtRs.",
             "'a' has no storage that is known"),
        CASE("}X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n"
             "X\1\0\0\0"
             "0NK\x10tQK\0K\1K\1NNtRs.",
             "'a' has no shape"),
        CASE(
            "}X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch._utils\n_rebuild_parameter\n"
            "X\1\0\0\0"
            "0NK\x10tQK\0K\1K\1NNtRs.",
            "'a' has no storage that is known"),
        CASE("}X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n"
             "X\1\0\0\0"
             "0NK\x10tQK\0K\1\x85)NNtRs.",
             "'a' has no shape"),
/* A storage: what stands for its type, its key, and how many weights it has. */
#define STORAGE(type, key, n, says)                                                                          \
    CASE("}X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storage" type key "N" n                   \
         "tQK\0K\1K\1NNtRs.",                                                                                \
         says)
#define FLOATS "ctorch\nFloatStorage\n"
        STORAGE("K\1",
                "\x8c\1"
                "0",
                "K\x10", "'a' has no storage that is known"),
        STORAGE(FLOATS, "K\0", "K\x10", "'a' has no storage that is known"),
        STORAGE(FLOATS,
                "\x8c\1"
                "0",
                "N", "'a' has no storage that is known"),
        STORAGE(FLOATS,
                "\x8c\1"
                "0",
                "\x8a\1\xf0", "'a' has no storage that is known"), /* -16 */
        STORAGE(FLOATS,
                "\x8c\1"
                "0",
                "\x8a\0", "'a' has a storage of another size"), /* 0 */
        STORAGE(FLOATS,
                "\x8c\1"
                "0",
                "\x8a\1\x10", "'a' has no shape"),
    };
    put_config(CONFIG("llama", "true"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        archive.n = archive.n_entries = program.n = 0;
        program_put(&program, cases[i].bytes, cases[i].n);
        add_both(64, 0);
        put_archive(false);
        refuse(cases[i].says);
    }
}

/* A number written over another one, behind the n-th of those marks; of the entry of storage 0 where there is one for each. */
static void test_archives(void) {
    static const struct {
        const char *mark;
        size_t nth, at, n;
        uint64_t value;
        const char *says;
    } cases[] = {
        {"PK\3\4", 1, 6, 2, 0, "a size here and another one there"},
        {"PK\3\4", 1, 6, 2, 0x80c, "does not have its own header"},
        {"PK\3\4", 1, 8, 2, 8, "does not have its own header"},
        {"PK\3\4", 1, 18, 4, 63, "a size here and another one there"},
        {"PK\3\4", 1, 22, 4, 63, "a size here and another one there"},
        {"PK\3\4", 1, 22, 4, UINT32_MAX, NULL},
        {"PK\3\4", 1, 18, 4, 64, NULL},
        {"PK\3\4", 1, 26, 2, 7, "does not have its own header"},
        {"PK\3\4", 1, 28, 2, 0xffff, "does not lie before the directory"},
        {"PK\3\4", 1, 0, 4, 0, "is not where the directory says"},
        {"PK\3\4", 1, 34, 1, 'X', "does not have its own header"},
        {"PK\1\2", 1, 0, 4, 0, "a directory that is damaged"},
        {"PK\1\2", 1, 8, 2, 0x809, "is compressed"},
        {"PK\1\2", 1, 10, 2, 8, "is compressed"},
        {"PK\1\2", 1, 20, 4, 63, "is compressed"},
        {"PK\1\2", 1, 24, 4, UINT32_MAX, "has a record that is damaged"},
        {"PK\1\2", 1, 24, 8, 0x800000008, "is compressed"},
        {"PK\1\2", 1, 28, 2, 0xffff, "a directory that is damaged"},
        {"PK\1\2", 1, 30, 2, 0xffff, "a directory that is damaged"},
        {"PK\1\2", 1, 30, 2, 1, "a directory that is damaged"},
        {"PK\1\2", 1, 32, 2, 1, "a directory that is damaged"},
        {"PK\1\2", 1, 34, 2, 1, "a record that is damaged"},
        {"PK\1\2", 1, 42, 4, 0, "does not have its own header"},
        {"PK\1\2", 1, 42, 4, 0xfffffffe, "is not where the directory says"},
        {"PK\1\2", 1, 42, 4, UINT32_MAX, "a record that is damaged"},
        {"PK\5\6", 0, 0, 4, 0, "has no end; is the file cut?"},
        {"PK\5\6", 0, 4, 2, 1, "has parts in other files"},
        {"PK\5\6", 0, 6, 2, 1, "has parts in other files"},
        {"PK\5\6", 0, 8, 2, 3, "has parts in other files"},
        {"PK\5\6", 0, 8, 4, 0x10001, "has more in its directory than it says"},
        {"PK\5\6", 0, 8, 4, 0x30003, "a directory that is too large, or too small"},
        {"PK\5\6", 0, 12, 4, 0, "has its directory in another place"},
        {"PK\5\6", 0, 12, 4, UINT32_MAX, "has its directory in another place"},
        {"PK\5\6", 0, 16, 4, 1, "has its directory in another place"},
        {"PK\5\6", 0, 20, 2, 1, "has no end"},
    };
    static const struct {
        const char *mark;
        size_t at, n;
        uint64_t value;
        const char *says;
    } wide[] = {
        {"PK\6\7", 8, 8, 0, "an end that is damaged"},
        {"PK\6\7", 8, 8, UINT64_MAX, "an end that is damaged"},
        {"PK\6\6", 0, 4, 0, "an end that is damaged"},
        {"PK\6\6", 4, 8, 45, "an end that is damaged"},
        {"PK\6\6", 16, 4, 1, "an end that is damaged"},
        {"PK\6\6", 32, 8, UINT64_MAX, "a directory that is too large, or too small"},
        {"PK\6\6", 32, 8, 1, "has more in its directory"},
        {"PK\6\6", 40, 8, UINT64_MAX, "has its directory in another place"},
        {"PK\6\6", 48, 8, 0, "has its directory in another place"},
        {"PK\6\6", 48, 8, UINT64_MAX, "has its directory in another place"},
        {"PK\5\6", 8, 4, 0x20002, NULL},
        {"PK\5\6", 8, 4, 0x10001, "says of its directory one thing and another"},
        {"PK\5\6", 12, 4, 1, "says of its directory one thing and another"},
        {"PK\1\2", 56, 2, 1, "a record that is damaged"}, /* of the pickle: its extra field's id and size */
        {"PK\1\2", 58, 2, 23, "a record that is damaged"},
        {"PK\1\2", 58, 2, 25, "a record that is damaged"},
        {"PK\1\2", 60, 8, UINT64_MAX, "is compressed"},
        {"PK\1\2", 76, 8, UINT64_MAX, "is not where the directory says"},
    };
    put_config(CONFIG("llama", "true"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_good(false, 0);
        unsigned char *at = archive.bytes;
        for (size_t k = 0; memcmp(at, cases[i].mark, 4) != 0 || k++ < cases[i].nth;) at++;
        memcpy(at + cases[i].at, &cases[i].value, cases[i].n);
        scratch_put("pytorch_model.bin", archive.bytes, archive.n);
        if (cases[i].says)
            refuse(cases[i].says);
        else
            checkpoint_close(accept(scratch_folder));
    }
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        put_good(true, 0);
        unsigned char *at = archive.bytes;
        while (memcmp(at, wide[i].mark, 4) != 0) at++;
        if (i == 13) at[56] = 7; /* an id that is another field's */
        if (i != 13) memcpy(at + wide[i].at, &wide[i].value, wide[i].n);
        scratch_put("pytorch_model.bin", archive.bytes, archive.n);
        if (wide[i].says)
            refuse(wide[i].says);
        else
            checkpoint_close(accept(scratch_folder));
    }
}

static void test_entries(void) {
    put_config(CONFIG("llama", "true"));
    put_good(false, 0);
    archive.n = archive.n_entries = 0;
    add_both(64, 0);
    archive_add(&archive, "m/data/0", weights, 64, 0);
    put_archive(false);
    refuse("the entry 'm/data/0' of its zip archive is there twice");
    archive.n = archive.n_entries = 0;
    add_both(64, 0);
    archive.entries[2] = archive.entries[1];
    archive.n_entries = 3; /* twice in the directory */
    put_archive(false);
    refuse("'m/data/0' of its zip archive overlaps another one");
    archive.n = archive.n_entries = 0;
    add_both(64, 0);
    archive.entries[0].n += 17; /* its sizes stand behind it */
    put_archive(false);
    refuse("overlaps another one");
    archive.n = archive.n_entries = 0;
    add_both(64, 0);
    archive.entries[1].n += 17;
    put_archive(false);
    refuse("does not lie before the directory");
    archive.n = archive.n_entries = 0;
    add_both(64, 0);
    archive_add(&archive, "m/byteorder", "big", 3, 0);
    put_archive(false);
    refuse("by a big-endian machine");
    archive.n = archive.n_entries = 0;
    add_both(64, 0);
    archive_add(&archive, "m/byteorder", "middle", 6, 0);
    put_archive(false);
    refuse("by a big-endian machine");
    archive.n = archive.n_entries = 0;
    archive_add(&archive, "data.pkl", program.bytes, program.n, 0); /* in no folder */
    archive_add(&archive, "data/0", weights, 64, 0);
    put_archive(false);
    checkpoint_close(accept(scratch_folder));
    archive.n = archive.n_entries = 0;
    add_both(64, 0);
    archive_add(&archive, "m/byteorder", "little", 6, 0);
    archive_add(&archive, "m/version", "3\n", 2, 0);
    put_archive(false);
    checkpoint_close(accept(scratch_folder));
    archive.n = archive.n_entries = 0;
    archive_add(&archive, "m/data/0", weights, 64, 0);
    put_archive(false);
    refuse("a zip archive, but none of torch.save: it has no data.pkl");
    archive.n = archive.n_entries = 0;
    put_archive(false);
    refuse("not a checkpoint");
    scratch_put("pytorch_model.bin", "PK\3\4PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0\0\0",
                26); /* its directory is empty */
    refuse("it has no data.pkl");
    put_good(true, 0); /* sizes that end beyond 2^64, in the record; the entry's own header leaves them out */
    unsigned char *at = archive.bytes;
    while (memcmp(at, "PK\1\2", 4) != 0) at++;
    memset(at + 60, 0xff, 16);
    scratch_put("pytorch_model.bin", archive.bytes, archive.n);
    refuse("does not lie before the directory");
    put_good(false, 0); /* too near to the end of the file for a header */
    for (at = archive.bytes; memcmp(at, "PK\1\2", 4) != 0;) at++;
    memcpy(at + 42, &(uint32_t){(uint32_t)archive.n - 9}, 4);
    scratch_put("pytorch_model.bin", archive.bytes, archive.n);
    refuse("is not where the directory says");
}

/* Other files that people have under that name. */
static void test_other_files(void) {
    static const struct {
        const char *bytes, *says;
    } cases[] = {
        {"\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", "as PyTorch wrote before version 1.6"},
        {"version https://git-lfs.github.com/spec/v1\n", "a Git-LFS pointer"},
        {"<html>", "an HTML page"},
        {"once", "not a checkpoint"},
        {"PK\3\4", "its zip archive has no end; is the file cut?"},
    };
    put_config(CONFIG("llama", "true"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_put("pytorch_model.bin", cases[i].bytes, strlen(cases[i].bytes));
        refuse(cases[i].says);
    }
    scratch_put("pytorch_model.bin.index.json", "{}", 2); /* is not looked at beside the whole */
    put_good(false, 0);
    checkpoint_close(accept(scratch_folder));
    unlink(scratch_file("pytorch_model.bin"));
    refuse("pytorch_model.bin.index.json has no \"weight_map\"");
    unlink(scratch_file("pytorch_model.bin.index.json"));
    put_good(false, 0);
    scratch_put("model.safetensors", "", 0); /* is read where it is */
    refuse("model.safetensors: the file is empty");
    unlink(scratch_file("model.safetensors"));
    unlink(scratch_file("config.json"));
    Checkpoint *checkpoint = checkpoint_open(scratch_file("pytorch_model.bin"), &error);
    CHECK(!checkpoint && strstr(error.message, "a PyTorch file without the config.json"), "%s",
          error.message);
    checkpoint_close(checkpoint);
}

/* Each opcode that writes to a pickle's memo, and each that reads it; a place that is written twice has the last. */
static void test_memo(void) {
    static const char bytes[] = "}(K\1K\x0bq\0"
                                "K\2M\x2c\1r\1\0\0\0"
                                "K\3K\x0d\x94"
                                "K\4h\1K\5j\2\0\0\0K\6h\0"
                                "K\7K\x11q\0K\x08h\0K\x09K\x13r\2\0\0\0K\x0aj\2\0\0\0u.";
    static const int64_t want[] = {11, 300, 13, 300, 13, 11, 17, 17, 19, 19};
    enum { N = sizeof want / sizeof *want };
    Pickle pickle;
    bool ok = pickle_read(&pickle, bytes, sizeof bytes - 1, NULL, 0, &error);
    CHECK(ok && pickle.members.n == 2 * N, "%zu members: %s", pickle.members.n / 2, error.message);
    for (size_t i = 0; i < N && 2 * i + 1 < pickle.members.n; i++) {
        PickleValue key = pickle.members.data[2 * i], value = pickle.members.data[2 * i + 1];
        CHECK(key.number == (int64_t)i + 1 && value.kind == PICKLE_INTEGER && value.number == want[i],
              "%d: %d, not %d", (int)key.number, (int)value.number, (int)want[i]);
    }
    pickle_free(&pickle);
}

/* Programs of one megabyte that would take memory, time or nesting without end. */
static void test_bombs(void) {
    enum { N = 1 << 20 };
#define REPEATED(bytes)                                                                                      \
    { bytes, sizeof(bytes) - 1 }
    static const struct {
        const char *bytes;
        size_t n;
    } repeated[] = {REPEATED("("),     REPEATED("}"),      REPEATED(")"),   REPEATED(")\x85"),
                    REPEATED("}\x94"), REPEATED("]"),      REPEATED("(t"),  REPEATED("X\0\0\0\0"),
                    REPEATED("h\0"),   REPEATED("(u"),     REPEATED("((t"), REPEATED("\x85"),
                    REPEATED("NNs"),   REPEATED("(NNNNu"), REPEATED("\x94")};
    static const char *const begins[] = {"}q", "}((((", "(}(((}"};
    char *bytes = malloc(N);
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++)
        for (size_t k = 0; k < sizeof begins / sizeof *begins; k++) {
            size_t n = strlen(begins[k]) + (k == 0); /* the memo's number */
            Pickle pickle;
            memcpy(bytes, begins[k], n);
            for (; n + repeated[i].n < N; n += repeated[i].n)
                memcpy(bytes + n, repeated[i].bytes, repeated[i].n);
            bytes[n++] = '.';
            bool ok = pickle_read(&pickle, bytes, n, NULL, 0, &error);
            CHECK(i != 0 || strstr(error.message, "has too many values that wait for others"), "%s",
                  error.message);
            CHECK(!ok || k == 0, "'%s' after '%s'", repeated[i].bytes, begins[k]);
            CHECK((pickle.items.room + pickle.members.room) * sizeof(PickleValue) <= 48 * (size_t)N,
                  "'%s' after '%s' takes %zu values", repeated[i].bytes, begins[k], pickle.items.room);
            pickle_free(&pickle);
        }
    free(bytes);
}

/* How often the folder opens while one byte of its weights is another one. */
static void test_damage(void) {
    static const unsigned char others[] = {0, 1, '.', 'R', 'h', 'u', 0x80, 0xff};
    size_t n_accepted = 0, n_tried = 0;
    put_config(CONFIG("llama", "true"));
    for (int zip64 = 0; zip64 < 2; zip64++) {
        put_good(zip64, 0);
        for (size_t i = archive.n - 1; i > 0; i--) {
            CHECK(truncate(scratch_file("pytorch_model.bin"), (off_t)i) == 0, "truncate");
            Checkpoint *checkpoint = checkpoint_open(scratch_folder, &error);
            CHECK(!checkpoint, "%zu bytes of %zu", i, archive.n);
            checkpoint_close(checkpoint);
        }
        scratch_put("pytorch_model.bin", archive.bytes, archive.n);
        int file = open(scratch_file("pytorch_model.bin"), O_WRONLY);
        for (size_t i = 0; i < archive.n; i++)
            for (size_t k = 0; k <= sizeof others; k++) {
                const void *byte = k < sizeof others ? &others[k] : archive.bytes + i;
                CHECK(pwrite(file, byte, 1, (off_t)i) == 1, "pwrite");
                if (k == sizeof others) continue;
                Checkpoint *checkpoint = checkpoint_open(scratch_folder, &error);
                n_accepted += checkpoint != NULL, n_tried++;
                checkpoint_close(checkpoint);
            }
        close(file);
    }
    CHECK(n_accepted > 8 * 64 && n_accepted < n_tried / 2, "%zu of %zu were accepted", n_accepted, n_tried);
}

int main(void) {
    alarm(600); /* a test that hangs is a failure */
    for (size_t i = 0; i < sizeof weights; i++) weights[i] = (unsigned char)i;
    scratch_begin();
    RUN(test_places);
    RUN(test_ignored);
    RUN(test_old_names);
    RUN(test_tensors);
    RUN(test_tied);
    RUN(test_programs);
    RUN(test_archives);
    RUN(test_entries);
    RUN(test_other_files);
    RUN(test_memo);
    RUN(test_bombs);
    RUN(test_damage);
    unlink(scratch_file("config.json"));
    unlink(scratch_file("pytorch_model.bin"));
    scratch_end();
    return test_end();
}
