/* Parts of a tokenizer.json one by one, words of a user between those of a template, and vocabularies that are odd. */
#include "tokenizer_json.h"

/* A text becomes these tokens, and they become a text again. */
static void test_parts(void) {
    static const struct {
        const char *part, *value, *text, *ids, *shown;
    } cases[] = {
        {"normalizer", "{'type': 'Strip', 'strip_left': true, 'strip_right': false}",
         "\t\xc2\x85\xc2\xa0\xe1\x9a\x80\xe2\x80\x83\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\x9f\xe3\x80\x80"
         "abb",
         "2 1", "abb"},
        {"normalizer", "{'type': 'Strip', 'strip_left': false, 'strip_right': true}", "aab \n\xe3\x80\x80",
         "0 2", "aab"},
        {"normalizer", "{'type': 'Strip', 'strip_left': true, 'strip_right': true}", " \t ", "", ""},
        {"normalizer", "{'type': 'Prepend', 'prepend': 'a'}", "b", "2", "ab"},
        {"normalizer", "{'type': 'Replace', 'pattern': {'String': ' '}, 'content': 'a'}", " b", "2", "ab"},
        {"pre_tokenizer", "{'type': 'Metaspace', 'replacement': 'a', 'add_prefix_space': false}", "b b",
         "1 2", "bab"},
        {"normalizer", "{'type': 'Prepend', 'prepend': 'a'}", "", "", ""},
        {"normalizer", "{'type': 'Replace', 'pattern': {'String': ''}, 'content': 'a'}", "b", "1", "b"},
        {"pre_tokenizer",
         "{'type': 'Split', 'pattern': {'String': ''}, 'behavior': 'Isolated', 'invert': false}", "ab", "2",
         "ab"},
        {"pre_tokenizer",
         "{'type': 'Split', 'pattern': {'String': 'a'}, 'behavior': 'Removed', 'invert': true}", "abba",
         "0 0", "aa"},
        {"decoder",
         "{'type': 'Sequence', 'decoders': [{'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 0}, {'type': 'Fuse'}]}",
         "aab", "0 2", "b"},
        {"decoder",
         "{'type': 'Sequence', 'decoders': [{'type': 'Strip', 'content': 'a', 'start': 2, 'stop': 0}, {'type': 'Fuse'}]}",
         "aab", "0 2", "b"},
        {"decoder",
         "{'type': 'Sequence', 'decoders': [{'type': 'Fuse'}, {'type': 'Strip', 'content': 'a', 'start': 3, 'stop': 0}]}",
         "aaaaab", "0 0 0 0 2", "aab"},
        {"decoder", "{'type': 'Metaspace', 'replacement': 'b', 'add_prefix_space': false}", "ba", "1 0",
         " a"},
        {"decoder", "{'type': 'Metaspace', 'replacement': 'b'}", "bab", "1 2", "a "},
        {"model", LETTERS "['#version: 0.2', ['a', 'b']], 'dropout': 0, 'end_of_word_suffix': ''}", "aab",
         "0 2", "aab"},
        {"model",
         "{'type': 'BPE', 'vocab': {'a': 0, '<0xC3>': 1, '<0xa9>': 2, '<0xA9>': 3, '<0xG0>': 4, '<0x0G>': 5, '<0x00)': 6}, "
         "'merges': [], 'byte_fallback': true}",
         "a\xc3\xa9", "0 1 3", "a<0xC3><0xA9>"},
        {"added_tokens", "[{'id': 3, 'content': 'xa', 'special': true}]", "axab", "0 3 1", "axab"},
        /* The first token takes both tabs, of which nothing is left for the other. */
        {"added_tokens",
         "[{'id': 3, 'content': '<b>', 'special': true, 'rstrip': true}, {'id': 4, 'content': '\\t', 'special': true, 'lstrip': true}]",
         "<b>\t\ta\t", "3 0 4", "<b>a\t"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {{0}};
        Tokens tokens = {0};
        Opened opened = open_with(cases[i].part, cases[i].value, &error);
        bool ok = opened.tokenizer && tokenizer_encode(opened.tokenizer, cases[i].text, strlen(cases[i].text),
                                                       ENCODE_SPECIAL, &tokens, &error);
        CHECK(ok && strcmp(ids_text(&tokens), cases[i].ids) == 0, "%s: '%s' %s", cases[i].value,
              ids_text(&tokens), error.message);
        TextBuffer shown = ok ? decode(opened.tokenizer, tokens, true) : (TextBuffer){0};
        CHECK(shown.n == strlen(cases[i].shown) &&
                  (!shown.n || memcmp(shown.data, cases[i].shown, shown.n) == 0),
              "%s: '%.*s'", cases[i].value, (int)shown.n, shown.data ? shown.data : "");
        free(shown.data);
        tokens_free(&tokens);
        close_tokenizer(opened);
    }
}

/* A character that nothing can write fails; the library would drop it, or fail as well. */
static void test_unknown_characters(void) {
    static const char *const jsons[] = {
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"decoder\": {\"type\": \"Fuse\"}}",
        ("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"decoder\": {\"type\": \"Fuse\"}, "
         "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}}"),
        "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", -1]]}, \"decoder\": {\"type\": \"Fuse\"}}"};
    for (size_t i = 0; i < sizeof jsons / sizeof *jsons; i++) {
        Error error = {{0}};
        Tokens tokens = {0};
        Opened opened = open_json(jsons[i], strlen(jsons[i]), NULL, &error);
        CHECK(opened.tokenizer, "%s", error.message);
        if (!opened.tokenizer) continue;
        CHECK(tokenizer_encode(opened.tokenizer, "aa", 2, 0, &tokens, &error) && tokens.n == 2, "%s",
              error.message);
        CHECK(!tokenizer_encode(opened.tokenizer, "ab", 2, 0, &tokens, &error) &&
                  strstr(error.message, "the vocabulary has no token for"),
              "'%s'", error.message);
        tokens_free(&tokens);
        close_tokenizer(opened);
    }
}

/* Words of a user, between those of a template, are no special tokens: as they stand, or as a normaliser makes them. */
static void test_foreign_words(void) {
    static const char vocabulary[] =
        "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"<s>\": 1, \"<\": 2, \"s\": 3, "
        "\">\": 4}, \"merges\": []}, \"decoder\": {\"type\": \"Fuse\"}";
    static const struct {
        const char *normalizer, *normalized, *said, *ids;
    } cases[] = {
        {"null", "false", "a<s>", "1 0 2 3 4 1"},
        {"null", "true", "a<s>", "1 0 2 3 4 1"},
        {"{\"type\": \"Lowercase\"}", "false", "A<S>", "1 0 2 3 4 1"},
        {"{\"type\": \"Lowercase\"}", "true", "A<S>", "1 0 2 3 4 1"},
        {"{\"type\": \"NFC\"}", "true", "a<s>", "1 0 2 3 4 1"},
        {"{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": true}", "true", "a<s>", "1 0 2 3 4 1"},
        {"{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": true}", "false", "  ", "1 1"},
        {"{\"type\": \"Replace\", \"pattern\": {\"String\": \"-\"}, \"content\": \"s\"}", "true", "a<->",
         "1 0 2 3 4 1"},
        {"{\"type\": \"Replace\", \"pattern\": {\"String\": \"-\"}, \"content\": \"\"}", "true", "-a<-s>-",
         "1 0 2 3 4 1"},
    };
    for (size_t i = 0, k = 0; i < sizeof cases / sizeof *cases;
         i += k, k = !k) { /* each twice: special, not special */
        char json[1024];
        Error error = {{0}};
        Tokens tokens = {0};
        TextBuffer text = {0}, marks = {0};
        int n = snprintf(json, sizeof json,
                         "{%s, \"normalizer\": %s, \"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", "
                         "\"special\": %s, \"normalized\": %s}]}",
                         vocabulary, cases[i].normalizer, k ? "true" : "false", cases[i].normalized);
        Opened opened = open_json(json, (size_t)n, NULL, &error);
        size_t n_said = strlen(cases[i].said);
        bool ok = opened.tokenizer && text_append(&text, "<s>", 3) &&
                  text_append(&text, cases[i].said, n_said) && text_append(&text, "<s>", 3) &&
                  text_append_times(&marks, 0, 3) && text_append_times(&marks, 1, n_said) &&
                  text_append_times(&marks, 0, 3) &&
                  tokenizer_encode_marked(opened.tokenizer, (String){text.data, text.n}, marks.data, &tokens,
                                          &error);
        CHECK(ok && strcmp(ids_text(&tokens), cases[i].ids) == 0, "%zu: '%s' %s", i, ids_text(&tokens),
              error.message);
        tokens_free(&tokens);
        free(text.data);
        free(marks.data);
        close_tokenizer(opened);
    }
}

/* Whose bytes a text has decides what they may become: '0' the template's, '1' another's. */
static void test_marks(void) {
    static const char words
        [] =
            "{'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 1, '<': 2, 's': 3, '>': 4, 't': 5, ' ': 6, '[': 7}, 'merges': []}, "
            "'decoder': {'type': 'Fuse'}, 'added_tokens': [{'id': 8, 'content': '<s>', 'special': true, 'single_word': true}, "
            "{'id': 9, 'content': 'bb', 'single_word': true}, {'id': 10, 'content': '<t> '}, {'id': 11, 'content': '[ab'}, "
            "{'id': 12, 'content': 'é'}, {'id': 13, 'content': 't<', 'normalized': false}]}",
   whole[] =
        "{'model': {'type': 'BPE', 'vocab': {'<': 0, 'x': 1, '>': 2, '<x>': 3}, 'merges': [], 'ignore_merges': true}, "
        "'decoder': {'type': 'ByteLevel'}, 'added_tokens': [{'id': 3, 'content': '<x>'}], "
        "'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': false, 'use_regex': false}}",
   unigram[] = "{'model': {'type': 'Unigram', 'unk_id': 0, 'vocab': [['<unk>', 0], ['a', -1], ['<s>', -2]]}, "
               "'decoder': {'type': 'Fuse'}, 'added_tokens': [{'id': 2, 'content': '<s>'}]}";
    static const struct {
        const char *json, *text, *marks, *ids;
    } cases[] = {
        {words, "a<s>a<s>", "00000000", "0 2 3 4 0 2 3 4"}, /* beside letters that count */
        {words, "a<s>a<s>", "10001000", "0 8 0 8"},
        {words, "<s>a", "0000", "2 3 4 0"},
        {words, "<s>a", "0001", "8 0"},
        {words, "abb bb", "111111", "0 1 1 6 9"},
        {words, "abb", "011", "0 1 1"},
        {words, "<t> <t> ", "00001111", "10 2 5 4 6"}, /* markup */
        {words, "[ab", "111", "11"},                   /* none */
        {words, "[ab", "101", "11"},
        {words, "éé", "0011", "12 12"},
        {words, "t<s>", "1011", "13 3 4"}, /* within it begins what is not wholly the template's */
        {whole, "<x><x>", "000111", "3 0 1 2"},
        {unigram, "a<s>", "0000", "1 2"},
        {unigram, "a<s>", "0111", "1 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char marks[16];
        Error error = {{0}};
        Tokens tokens = {0};
        size_t n = strlen(cases[i].text);
        for (size_t k = 0; k < n; k++) marks[k] = cases[i].marks[k] == '1';
        Opened opened = open_quoted(cases[i].json, NULL, &error);
        bool ok = opened.tokenizer && tokenizer_encode_marked(opened.tokenizer, (String){cases[i].text, n},
                                                              marks, &tokens, &error);
        CHECK(ok && strcmp(ids_text(&tokens), cases[i].ids) == 0, "%s %s: '%s' %s", cases[i].text,
              cases[i].marks, ids_text(&tokens), error.message);
        tokens_free(&tokens);
        close_tokenizer(opened);
    }
}

/* tokenizer_config.json has the last word on BOS and EOS. */
static void test_ends(void) {
    static const char json[] =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"<s>\": 1, \"</s>\": 2}, \"merges\": []}, "
        "\"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", \"special\": true}, "
        "{\"id\": 2, \"content\": \"</s>\", \"special\": true}], \"decoder\": {\"type\": \"Fuse\"}, "
        "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, "
        "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [1]}}}}";
#define DECODER "\"added_tokens_decoder\": {\"1\": {\"content\": \"<s>\"}, \"2\": {\"content\": \"</s>\"}}"
    static const struct {
        const char *config, *ids;
    } cases[] = {
        {NULL, "1 0"},
        {"{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"," DECODER "}", "1 0"},
        {"{\"bos_token\": \"<s>\", \"add_bos_token\": false, \"eos_token\": \"</s>\"," DECODER "}", "0"},
        {"{\"bos_token\": \"<s>\", \"add_eos_token\": true, \"eos_token\": \"</s>\"," DECODER "}", "1 0 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {{0}};
        Tokens tokens = {0};
        Opened opened = open_json(json, sizeof json - 1, cases[i].config, &error);
        bool ok =
            opened.tokenizer && tokenizer_encode(opened.tokenizer, "a", 1, ENCODE_ENDS, &tokens, &error);
        CHECK(ok && strcmp(ids_text(&tokens), cases[i].ids) == 0, "%zu: '%s' %s", i, ids_text(&tokens),
              error.message);
        tokens_free(&tokens);
        close_tokenizer(opened);
    }
}

/* Vocabularies that are odd and hold together: empty and missing tokens, merges that specials take part in. */
static void test_odd_vocabularies(void) {
    static const struct {
        const char *json, *config, *text, *ids; /* ids: or, behind a '!', what is said */
    } cases[] = {
        {"{'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'ab': 2, '': 3}, 'merges': ['a b']}" FUSE, NULL,
         "ab", "2"},
        {"{'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 2}, 'merges': [], 'unk_token': 'b'}" FUSE, NULL,
         "ax", "0 2"},
        {"{'model': {'type': 'BPE', 'vocab': {'a': 0}, 'merges': [], 'unk_token': ''}" FUSE, NULL, "a",
         "!not in the vocabulary: unk_token ''"},
        {"{'model': " LETTERS "['a b']}, 'added_tokens': null" FUSE, NULL, "ab", "2"},
        /* Of a merge that is there twice, the last counts. */
        {"{'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'c': 2, 'ab': 3, 'bc': 4}, 'merges': ['a b', 'b c', 'a b']}" FUSE,
         NULL, "abc", "0 4"},
        /* A space that no token writes goes by bytes, one that is made behind ▁ is its own token, one of bytes is spelt. */
        {"{'model': {'type': 'BPE', 'byte_fallback': true, 'vocab': {'a': 0, '<0xE2>': 1, '<0x96>': 2, '<0x81>': 3}, 'merges': []}, "
         "'normalizer': {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}" FUSE,
         NULL, "a a", "0 1 2 3 0"},
        {"{'model': {'type': 'BPE', 'vocab': {'a': 0, '▁': 1, ' ': 2}, 'merges': []}, 'normalizer': {'type': 'Sequence', "
         "'normalizers': [{'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}, "
         "{'type': 'Replace', 'pattern': {'String': 'x'}, 'content': ' '}]}" FUSE,
         NULL, " xa", "1 2 0"},
        {"{'model': {'type': 'BPE', 'vocab': {'a': 0, 'â': 1, 'ĸ': 2, 'ģ': 3}, 'merges': []}, "
         "'normalizer': {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}, "
         "'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': false}" FUSE,
         NULL, "a a", "0 1 2 3 0"},
        {"{'model': " LETTERS "['#version: 0.2', 'a b']}" FUSE, NULL, "ab", "2"},
        {"{'model': " LETTERS
         "['a b']}, 'normalizer': {'type': 'Strip', 'strip_left': true, 'strip_right': true}, "
         "'added_tokens': [{'id': 3, 'content': ' ', 'normalized': true}]" FUSE,
         NULL, "ab ", "2"},
        {"{'model': " LETTERS "[['a', 'b', 'a', 'b', 'a', 'b', 'a', 'b']]}" FUSE, NULL, "ab",
         "!not two parts"},
        {"{'model': " LETTERS "['a b']}, 'added_tokens': [{'id': 2, 'content': 'ab', 'special': true}]" FUSE,
         NULL, "ab", "0 1"},
        {"{'model': " LETTERS "['a b']}, 'added_tokens': [{'id': 0, 'content': 'a', 'special': true}]" FUSE,
         NULL, "bb", "1 1"},
        {"{'model': " LETTERS "['a b']}, 'added_tokens': [{'id': 1, 'content': 'b', 'special': true}]" FUSE,
         NULL, "aa", "0 0"},
        {"{'model': " LETTERS "['a b']}, 'added_tokens': [{'id': 2, 'content': 'ab', 'special': false}]" FUSE,
         NULL, "ab", "2"},
        {"{'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 2}, 'merges': []}, 'added_tokens': [{'id': 2, 'content': 'x'}]" FUSE,
         NULL, "a", "!an id that another token has, of 'x'"},
        {"{'model': " UNIGRAM "[['', 0], ['a', -1], ['b', -2]], 'unk_id': null}" FUSE, NULL, "ab", "1 2"},
        {"{'model': " LETTERS
         "['a b'], 'byte_fallback': true}, 'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': "
         "false}" FUSE,
         NULL, "ab", "2"},
        {"{'model': {'type': 'BPE', 'byte_fallback': true, 'vocab': {'a': 0, '<0xC3>': 1, '<0xA9>': 2, '<0xc4>': 3, '<0xG0>': 4, "
         "'<0x0G>': 5, '<0xC4': 6, '<0xC4.': 7, '<1xC4>': 8, '?': 9}, 'merges': [], 'unk_token': '?'}" FUSE,
         NULL, "a\xc3\xa9\xc4\x84", "0 1 2 9"},
        {"{'model': " LETTERS "['a b']}, 'post_processor': " WITHOUT_NAME
         ", 'special_tokens': {'a': {'ids': [0]}}}" FUSE,
         "{\"bos_token\": \"b\", \"added_tokens_decoder\": {\"1\": {\"content\": \"b\"}}}", "b",
         "!it puts another token beside the text than BOS or EOS: 'post_processor'"},
        {"{'model': " LETTERS
         "['a b']}, 'post_processor': {'type': 'TemplateProcessing', 'single': [{'Sequence': {}}, "
         "{'SpecialToken': {'id': 'a'}}], 'special_tokens': {'a': {'ids': [0]}}}" FUSE,
         "{\"eos_token\": \"b\", \"added_tokens_decoder\": {\"1\": {\"content\": \"b\"}}}", "b",
         "!it puts another token beside the text than BOS or EOS: 'post_processor'"},
        {"{'model': " LETTERS "['a b']}, 'normalizer': {'type': 'Prepend', 'prepend': 'a'}" FUSE, NULL, "b",
         "2"},
        {"{'model': " LETTERS
         "['a b']}, 'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'Strip', 'strip_left': true, "
         "'strip_right': true}, {'type': 'Strip', 'strip_left': true, 'strip_right': false}, {'type': 'Prepend', 'prepend': 'a'}]}" FUSE,
         NULL, "  b ", "2"},
        {"{'model': " LETTERS
         "['a b']}, 'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'Strip', 'strip_left': true, "
         "'strip_right': true}, {'type': 'Prepend', 'prepend': 'a'}]}" FUSE,
         NULL, "   ", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {{0}};
        Tokens tokens = {0};
        Opened opened = open_quoted(cases[i].json, cases[i].config, &error);
        const char *ids = cases[i].ids;
        if (*ids == '!') {
            CHECK(opened.checkpoint && !opened.tokenizer && strstr(error.message, ids + 1), "%s: '%s'",
                  cases[i].json, error.message);
        } else {
            bool ok = opened.tokenizer && tokenizer_encode(opened.tokenizer, cases[i].text,
                                                           strlen(cases[i].text), 0, &tokens, &error);
            CHECK(ok && strcmp(ids_text(&tokens), ids) == 0, "%s: '%s' %s", cases[i].json, ids_text(&tokens),
                  error.message);
        }
        tokens_free(&tokens);
        close_tokenizer(opened);
    }
}

int main(void) {
    scratch_begin();
    RUN(test_parts);
    RUN(test_unknown_characters);
    RUN(test_foreign_words);
    RUN(test_marks);
    RUN(test_ends);
    RUN(test_odd_vocabularies);
    write_file("tokenizer.json", NULL, 0);
    write_file("tokenizer_config.json", NULL, 0);
    scratch_end();
    return test_end();
}
