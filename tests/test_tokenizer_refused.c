/* tokenizer.json files that are refused, each by a line that says what is not known, or wrong, in it. */
#include "tokenizer_json.h"

/* A tokenizer.json with parts put in: model's further members, then members of the whole. */
static const char frame[] =
    "{\"version\": \"1.0\", \"model\": {%s \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}, "
    "%s \"decoder\": {\"type\": \"Fuse\"}}";

#define BPE "\"type\": \"BPE\","

static void test_refusals(void) {
    static const struct {
        const char *model, *whole, *says;
    } wrong[] = {
        {"\"type\": \"WordPiece\",", "", "a model of a type that is not supported: 'WordPiece'"},
        {"\"type\": \"WordLevel\",", "", "a model of a type that is not supported: 'WordLevel'"},
        {"\"type\": null,", "", "a model of a type that is not supported: ''"},
        {BPE "\"dropout\": 0.1,", "", "an option of BPE that is not supported: 'dropout'"},
        {BPE "\"end_of_word_suffix\": \"</w>\",", "",
         "an option of BPE that is not supported: 'end_of_word_suffix'"},
        {BPE "\"continuing_subword_prefix\": \"##\",", "", "not supported: 'continuing_subword_prefix'"},
        {BPE "\"unk_token\": \"x\",", "", "not in the vocabulary: unk_token 'x'"},
        {BPE "\"fuse_unk\": 1,", "", "not true or false: 'fuse_unk'"},
        {BPE, "\"normalizer\": {\"type\": \"Precompiled\"},",
         "a normalizer of a type that is not known: 'Precompiled'"},
        {BPE, "\"normalizer\": {\"type\": \"BertNormalizer\"},", "not known: 'BertNormalizer'"},
        {BPE, "\"normalizer\": {\"type\": \"Sequence\"},", "not a list: 'normalizers'"},
        {BPE, "\"normalizer\": {\"type\": \"Strip\"},", "not true or false: 'strip_left'"},
        {BPE, "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"(a\"}, \"content\": \"\"},",
         "'(a'"},
        {BPE, "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {}, \"content\": \"\"},",
         "not a text: 'String'"},
        {BPE, "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},", "not known: 'BertPreTokenizer'"},
        {BPE, "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": 1},",
         "not a list: 'pretokenizers'"},
        {BPE, "\"pre_tokenizer\": {\"type\": \"Punctuation\", \"behavior\": \"x\"},",
         "a behavior that is not known: 'x'"},
        {BPE,
         "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"last\"},",
         "a prepend_scheme that is not known: 'last'"},
        {BPE, "\"pre_tokenizer\": {\"type\": \"ByteLevel\"},", "not true or false: 'add_prefix_space'"},
        {BPE, "\"post_processor\": {\"type\": \"x\"},", "a post_processor of a type that is not known: 'x'"},
        {BPE, "\"post_processor\": {\"type\": \"BertProcessing\"},", "without cls and sep: 'BertProcessing'"},
        {BPE, "\"post_processor\": {\"type\": \"Sequence\"},", "not a list: 'processors'"},
        {BPE, "\"post_processor\": {\"type\": \"Sequence\", \"processors\": {}},",
         "not a list: 'processors'"},
        {BPE,
         "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"a\"}}, "
         "{\"SpecialToken\": {\"id\": \"a\"}}, {\"Sequence\": {}}], \"special_tokens\": {\"a\": {\"ids\": [0]}}},",
         "more than one token put beside the text: 'post_processor'"},
        {BPE, "\"added_tokens\": {},", "not a list: 'added_tokens'"},
        {BPE, "\"added_tokens\": [{\"content\": \"x\"}],", "an added token without content or id: 'x'"},
        {BPE, "\"added_tokens\": [{\"content\": \"\", \"id\": 3}],", "an added token is empty: 'content'"},
        {BPE, "\"added_tokens\": [{\"content\": \"x\", \"id\": 4}],",
         "the id is not the next behind the vocabulary, of 'x'"},
        {BPE, "\"added_tokens\": [{\"content\": \"x\", \"id\": 99999999}],",
         "the id is far beyond all tokens, of 'x'"},
        {BPE, "\"added_tokens\": [{\"content\": \"x\", \"id\": 3}, {\"content\": \"x\", \"id\": 4}],",
         "two tokens have the same content"},
        {BPE, "\"decoder\": 1,", "an object that ends here has a key twice"},
        {BPE, "]", "tokenizer.json: line 1: "},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char json[2048];
        Error error = {{0}};
        int n = snprintf(json, sizeof json, frame, wrong[i].model, wrong[i].whole);
        Opened opened = open_json(json, (size_t)n, NULL, &error);
        CHECK(opened.checkpoint && !opened.tokenizer && strstr(error.message, wrong[i].says),
              "expected '%s', got '%s'", wrong[i].says, error.message);
        close_tokenizer(opened);
    }
}

static void check_refused(const char *part, const char *value, const char *says) {
    Error error = {{0}};
    Opened opened = open_with(part, value, &error);
    CHECK(opened.checkpoint && !opened.tokenizer && strstr(error.message, says), "%s %s: '%s', not '%s'",
          part, value, error.message, says);
    close_tokenizer(opened);
}

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A256 A64 A64 A64 A64

/* Each part must have these, and of this kind. */
static void test_refused_parts(void) {
    static const struct {
        const char *part, *value, *says;
    } wrong[] = {
        {"normalizer", "{'type': 'Prepend'}", "not a text: 'prepend'"},
        {"normalizer", "{'type': 'Prepend', 'prepend': 5}", "not a text: 'prepend'"},
        {"normalizer", "{'type': 'Prepend', 'prepend': '" A256 "a'}", "longer than 256 bytes: '" A64},
        {"normalizer", "{'type': 'Replace', 'pattern': {'String': 'a'}}", "not a text: 'content'"},
        {"normalizer", "{'type': 'Strip', 'strip_left': true}", "not true or false: 'strip_right'"},
        {"normalizer", "{'type': 'Sequence', 'normalizers': {}}", "not a list: 'normalizers'"},
        {"normalizer", "{'type': 'Sequence', 'normalizers': [{'type': 'X'}, {'type': 'NFC'}]}",
         "not known: 'X'"},
        {"pre_tokenizer", "{'type': 'Metaspace', 'replacement': ''}",
         "nothing in place of a space: 'replacement'"},
        {"pre_tokenizer", "{'type': 'ByteLevel', 'add_prefix_space': true, 'use_regex': 1}",
         "not true or false: 'use_regex'"},
        {"pre_tokenizer",
         "{'type': 'Sequence', 'pretokenizers': [{'type': 'ByteLevel', 'add_prefix_space': true}, "
         "{'type': 'ByteLevel', 'add_prefix_space': true}]}",
         "twice in the pre_tokenizer: 'ByteLevel'"},
        {"pre_tokenizer",
         "{'type': 'Sequence', 'pretokenizers': [{'type': 'ByteLevel', 'add_prefix_space': true}, "
         "{'type': 'Metaspace', 'replacement': '_'}]}",
         "behind ByteLevel, in the pre_tokenizer: 'Metaspace'"},
        {"pre_tokenizer", "{'type': 'Metaspace'}", "not a text: 'replacement'"},
        {"pre_tokenizer", "{'type': 'Metaspace', 'replacement': '_', 'add_prefix_space': 1}",
         "not true or false: 'add_prefix_space'"},
        {"pre_tokenizer", "{'type': 'Metaspace', 'replacement': '_', 'split': 1}",
         "not true or false: 'split'"},
        {"pre_tokenizer",
         "{'type': 'Metaspace', 'replacement': '_', 'add_prefix_space': false, 'prepend_scheme': 'first'}",
         "no add_prefix_space, but prepend_scheme 'first'"},
        {"pre_tokenizer", "{'type': 'Split'}", "not a text: 'String'"},
        {"pre_tokenizer", "{'type': 'Split', 'pattern': {'String': 'a'}}",
         "a behavior that is not known: ''"},
        {"pre_tokenizer", "{'type': 'Split', 'pattern': {'String': 'a'}, 'behavior': 'Removed'}",
         "not true or false: 'invert'"},
        {"pre_tokenizer", "{'type': 'Digits'}", "not true or false: 'individual_digits'"},
        {"pre_tokenizer", "{'type': 'Sequence'}", "not a list: 'pretokenizers'"},
        {"pre_tokenizer", "{'type': 'Sequence', 'pretokenizers': [{'type': 'X'}, {'type': 'Whitespace'}]}",
         "not known: 'X'"},
        {"post_processor", "{'type': 'TemplateProcessing'}", "not a list: 'single'"},
        {"post_processor", "{'type': 'TemplateProcessing', 'single': {}}", "not a list: 'single'"},
        {"post_processor", "{'type': 'TemplateProcessing', 'single': []}", "no text in the template"},
        {"post_processor", WITHOUT_NAME "}", "not one token, in the post_processor: 'a'"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': []}",
         "not one token, in the post_processor: 'a'"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'b': {'ids': [0]}}}", "not one token"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'a': {}}}", "not one token"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'a': {'ids': {}}}}", "not one token"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'a': {'ids': [0, 1]}}}", "not one token"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'a': {'ids': ['a']}}}",
         "an id that is no token"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'a': {'ids': [-1]}}}",
         "an id that is no token"},
        {"post_processor", WITHOUT_NAME ", 'special_tokens': {'a': {'ids': [3]}}}", "an id that is no token"},
        {"post_processor",
         "{'type': 'TemplateProcessing', 'single': [{'SpecialToken': {}}], 'special_tokens': {'a': {'ids': [0]}}}",
         "not one token, in the post_processor: ''"},
        {"post_processor",
         "{'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': 0}}], 'special_tokens': {'a': {'ids': [0]}}}",
         "not one token, in the post_processor: ''"},
        {"post_processor", "{'type': 'BertProcessing', 'cls': {}}", "without cls and sep: 'BertProcessing'"},
        {"post_processor", "{'type': 'BertProcessing', 'cls': ['a']}",
         "without cls and sep: 'BertProcessing'"},
        {"post_processor", "{'type': 'RobertaProcessing', 'cls': ['a', 0]}", "without cls and sep: 'Roberta"},
        {"post_processor", "{'type': 'RobertaProcessing', 'cls': ['a', 0], 'sep': {}}",
         "without cls and sep"},
        {"post_processor", "{'type': 'RobertaProcessing', 'cls': ['a', 0], 'sep': ['b']}",
         "without cls and sep"},
        {"post_processor", "{'type': 'BertProcessing', 'cls': ['a', 'a'], 'sep': ['b', 1]}",
         "an id that is no token"},
        {"post_processor", "{'type': 'BertProcessing', 'cls': ['a', 0], 'sep': ['b', 3]}",
         "an id that is no token"},
        {"post_processor", "{'type': 'Sequence', 'processors': [{'type': 'X'}, {'type': 'ByteLevel'}]}",
         "not known: 'X'"},
        {"decoder", "null", "missing: 'decoder'"},
        {"decoder", "{'type': 'Sequence'}", "a list is missing in the decoder: 'Sequence'"},
        {"decoder", "{'type': 'Sequence', 'decoders': {}}", "a list is missing in the decoder: 'Sequence'"},
        {"decoder", "{'type': 'Replace', 'content': ''}", "not a text: 'String'"},
        {"decoder", "{'type': 'Replace', 'pattern': {'String': 'a'}}", "not a text, in the decoder: ''"},
        {"decoder", "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 5}",
         "not a text, in the decoder"},
        {"decoder", "{'type': 'Metaspace'}", "not a text, in the decoder: ''"},
        {"decoder", "{'type': 'Metaspace', 'replacement': '_', 'add_prefix_space': 1}",
         "not true or false: 'add_prefix_space'"},
        {"decoder", "{'type': 'Strip', 'content': 'a'}", "without start and stop, in the decoder: 'Strip'"},
        {"decoder", "{'type': 'Strip', 'content': 'a', 'start': 1}", "without start and stop"},
        {"decoder", "{'type': 'Strip', 'content': 'a', 'start': -1, 'stop': 0}", "without start and stop"},
        {"decoder", "{'type': 'Strip', 'content': '', 'start': 1, 'stop': 0}", "not one character"},
        {"decoder", "{'type': 'Strip', 'content': 'ab', 'start': 1, 'stop': 0}", "not one character"},
        {"decoder", "{'type': 'Strip', 'content': '" A64 "', 'start': 1, 'stop': 0}", "not one character"},
        {"decoder",
         "{'type': 'Sequence', 'decoders': [{'type': 'Fuse'}, {'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 0}, "
         "{'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 0}]}",
         "twice, in the decoder: 'Strip'"},
        {"model", LETTERS "{}}", "missing in the model: 'merges'"},
        {"model", LETTERS "[], 'ignore_merges': 5}", "not true or false: 'ignore_merges'"},
        {"model", LETTERS "[], 'byte_fallback': 5}", "not true or false: 'byte_fallback'"},
        {"model", "{'type': 'BPE', 'vocab': 5, 'merges': []}", "missing in the model: 'vocab'"},
        {"model", "{'type': 'BPE', 'vocab': {'a': -1}, 'merges': []}", "a token without an id: 'a'"},
        {"model", UNIGRAM "[]}", "no tokens: 'vocab'"},
        {"model", UNIGRAM "[5]}", "not a list of texts and scores: 'vocab'"},
        {"model", UNIGRAM "[[5, 0]]}", "not a list of texts and scores: 'vocab'"},
        {"model", UNIGRAM "[['a', 'x']]}", "not a list of texts and scores: 'vocab'"},
        {"model", UNIGRAM "[['" A256 A256 "a', 0]]}", "a piece of more than 512 bytes: 'aaa"},
        {"model", UNIGRAM "[['a', 0]], 'unk_id': 'a'}", "not the id of a token: 'unk_id'"},
        {"model", UNIGRAM "[['a', 0]], 'unk_id': -1}", "not the id of a token: 'unk_id'"},
        {"model", UNIGRAM "[['a', 0]], 'byte_fallback': 5}", "not true or false: 'byte_fallback'"},
        {"added_tokens", "[{'id': 3}]", "an added token without content or id: ''"},
        {"added_tokens", "[{'id': 3, 'content': 5}]", "an added token without content or id: ''"},
        {"added_tokens", "[{'id': -1, 'content': 'x'}]", "an added token without content or id: 'x'"},
        {"added_tokens", "[{'id': 3, 'content': 'x', 'special': 5}]", "not true or false: 'special'"},
        {"added_tokens", "[{'id': 3, 'content': 'x', 'single_word': 5}]", "not true or false: 'single_word'"},
        {"added_tokens", "[{'id': 3, 'content': 'x', 'lstrip': 5}]", "not true or false: 'lstrip'"},
        {"added_tokens", "[{'id': 3, 'content': 'x', 'rstrip': 5}]", "not true or false: 'rstrip'"},
        {"added_tokens", "[{'id': 3, 'content': 'x', 'normalized': 5}]", "not true or false: 'normalized'"},
        {"added_tokens", "[{'id': 3, 'content': '" A256 "a'}]", "an added token longer than 256 bytes: 'aaa"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_refused(wrong[i].part, wrong[i].value, wrong[i].says);
}

/* 32 steps are the most, of whatever kind the next is. */
static void test_too_many_steps(void) {
    static const struct {
        const char *part, *list, *each, *last, *says;
        int n;
    } cases[] = {
#define NORMALIZER "normalizer", "normalizers", "{'type': 'NFC'}"
#define TOO_MANY "more steps than 32: 'normalizer'"
        {NORMALIZER, "{'type': 'NFC'}", TOO_MANY, 32},
        {NORMALIZER, "{'type': 'Prepend', 'prepend': 'a'}", TOO_MANY, 32},
        {NORMALIZER, "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'b'}", TOO_MANY, 32},
        {NORMALIZER, "{'type': 'Strip', 'strip_left': true, 'strip_right': true}", TOO_MANY, 32},
        {NORMALIZER, "{'type': 'StripAccents'}", TOO_MANY, 32},
        {NORMALIZER, "{'type': 'Nmt'}", TOO_MANY, 31}, /* which are two */
#undef TOO_MANY
#define CUTS "pre_tokenizer", "pretokenizers", "{'type': 'WhitespaceSplit'}"
#define TOO_MANY "more steps than 32: 'pre_tokenizer'"
        {CUTS, "{'type': 'Whitespace'}", TOO_MANY, 32},
        {CUTS, "{'type': 'Punctuation'}", TOO_MANY, 32},
        {CUTS, "{'type': 'Digits', 'individual_digits': true}", TOO_MANY, 32},
        {CUTS, "{'type': 'Split', 'pattern': {'String': 'a'}, 'behavior': 'Removed', 'invert': false}",
         TOO_MANY, 32},
        {CUTS, "{'type': 'Metaspace', 'replacement': '_'}", TOO_MANY, 30}, /* three */
        {CUTS, "{'type': 'Metaspace', 'replacement': '_'}", TOO_MANY, 31},
        {CUTS, "{'type': 'Metaspace', 'replacement': '_'}", TOO_MANY, 32},
        {CUTS, "{'type': 'ByteLevel', 'add_prefix_space': true}", TOO_MANY, 30}, /* three */
        {CUTS, "{'type': 'ByteLevel', 'add_prefix_space': true}", TOO_MANY, 31},
        {CUTS, "{'type': 'ByteLevel', 'add_prefix_space': true}", TOO_MANY, 32},
#undef TOO_MANY
#define DECODER_STEPS "decoder", "decoders", "{'type': 'ByteFallback'}"
#define TOO_MANY "more than 32 steps in the decoder: "
        {DECODER_STEPS, "{'type': 'ByteLevel'}", TOO_MANY "'ByteLevel'", 32},
        {DECODER_STEPS, "{'type': 'Metaspace', 'replacement': '_'}", TOO_MANY "'Metaspace'", 32},
        {DECODER_STEPS, "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'b'}",
         TOO_MANY "'Replace'", 32},
        {DECODER_STEPS, "{'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 0}", TOO_MANY "'Strip'", 32},
#undef TOO_MANY
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char value[2048];
        int n = snprintf(value, sizeof value, "{'type': 'Sequence', '%s': [", cases[i].list);
        for (int k = 0; k < cases[i].n; k++)
            n += snprintf(value + n, sizeof value - (size_t)n, "%s, ", cases[i].each);
        snprintf(value + n, sizeof value - (size_t)n, "%s]}", cases[i].last);
        check_refused(cases[i].part, value, cases[i].says);
    }
}

static void test_refuses_models(void) {
    static const struct {
        const char *json, *says;
    } wrong[] = {
        {"{}", "missing: 'model'"},
        {"{\"model\": {\"type\": \"BPE\"}}", "missing in the model: 'vocab'"},
        /* no type: what the library takes it for, by the members that are there */
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"unk_token\": \"a\", \"continuing_subword_prefix\": \"##\", "
         "\"max_input_chars_per_word\": 100}}",
         "a model of a type that is not supported: 'WordPiece'"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"unk_token\": \"a\", \"continuing_subword_prefix\": \"##\"}}",
         "a model of a type that is not supported: 'WordLevel'"},
        {"{\"model\": {\"vocab\": {\"a\": 0}}}", "missing in the model: 'merges'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}}}", "missing in the model: 'merges'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": \"0\"}, \"merges\": []}}",
         "a token without an id: 'a'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}",
         "an id that another token has, of 'b'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}}", "no tokens: 'vocab'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": [[\"a\", 0]], \"merges\": []}}",
         "not an object: 'vocab'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [\"a b\"]}}",
         "makes a token that is not in"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"ab\": 1}, \"merges\": [\"a b\"]}}",
         "merges: 'b' is not in"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a\"]}}",
         "not two parts with a space between: 'a'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b c\"]}}",
         "not two parts with a space between"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]}}",
         "not two parts with a space between"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}", "missing: 'decoder'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": {\"a\": 0}}}", "not a list: 'vocab'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\"]]}}",
         "not a list of texts and scores: 'vocab'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0], [\"a\", 1]]}}",
         "two pieces are the same: 'vocab'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]], \"unk_id\": 1}}",
         "not the id of a token: 'unk_id'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]]}, \"decoder\": {\"type\": \"CTC\"}}",
         "a decoder of a type that is not known: 'CTC'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]]}, \"decoder\": {\"type\": \"Sequence\", \"decoders\": "
         "[{\"type\": \"Fuse\"}, {\"type\": \"ByteLevel\"}]}}",
         "behind Fuse, in the decoder: 'ByteLevel'"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]]}, \"decoder\": {\"type\": \"Strip\", \"content\": \" \", "
         "\"start\": 0, \"stop\": 1}}",
         "a stop other than 0 is not supported, in the decoder: 'Strip'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Error error = {{0}};
        Opened opened = open_json(wrong[i].json, strlen(wrong[i].json), NULL, &error);
        CHECK(opened.checkpoint && !opened.tokenizer && strstr(error.message, wrong[i].says),
              "expected '%s', got '%s'", wrong[i].says, error.message);
        close_tokenizer(opened);
    }
}

#define GROW "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': '" A64 "'}"
#define SPREAD "{'type': 'Metaspace', 'replacement': '" A64 "', 'prepend_scheme': 'always', 'split': false}"
#define LETTERS_APART "{'type': 'Split', 'pattern': {'Regex': '.'}, 'behavior': 'Isolated', 'invert': false}"

/* Steps that each make much of little: some KB of a file, or a byte of a text, must not fill the memory. */
static void test_bombs(void) {
    static const struct {
        const char *part, *value;
    } grows[] = {
        {"normalizer", "{'type': 'Sequence', 'normalizers': [" GROW "," GROW "," GROW "," GROW "," GROW "]}"},
        {"pre_tokenizer",
         "{'type': 'Sequence', 'pretokenizers': [" SPREAD "," LETTERS_APART "," SPREAD "," LETTERS_APART
         "," SPREAD "," LETTERS_APART "," SPREAD "," LETTERS_APART "," SPREAD "]}"},
    };
    Error error = {{0}};
    for (size_t i = 0; i < sizeof grows / sizeof *grows; i++) {
        Opened opened = open_with(grows[i].part, grows[i].value, &error);
        Tokens tokens = {0};
        CHECK(opened.tokenizer, "%s", error.message);
        CHECK(opened.tokenizer && !tokenizer_encode(opened.tokenizer, "a b", 3, 0, &tokens, &error) &&
                  strstr(error.message, "what the tokenizer makes of them"),
              "%s: %s", grows[i].part, error.message);
        tokens_free(&tokens);
        close_tokenizer(opened);
    }
    check_refused("decoder", "{'type': 'Sequence', 'decoders': [" GROW "," GROW "," GROW "," GROW "]}",
                  "not enough memory for what is made of tokens by the 'decoder'");
    check_refused("decoder", "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': '" A256 "a'}",
                  "longer than 256 bytes, in the decoder: '" A64);
    check_refused("normalizer",
                  "{'type': 'Sequence', 'normalizers': [" GROW "," GROW "," GROW
                  "]}, 'added_tokens': [{'content': 'ab', 'id': 2, 'normalized': true, 'special': false}]",
                  "not enough memory for what the normalizer makes of an added token, 'ab'");
}

int main(void) {
    scratch_begin();
    RUN(test_refusals);
    RUN(test_refuses_models);
    RUN(test_refused_parts);
    RUN(test_too_many_steps);
    RUN(test_bombs);
    write_file("tokenizer.json", NULL, 0);
    write_file("tokenizer_config.json", NULL, 0);
    scratch_end();
    return test_end();
}
