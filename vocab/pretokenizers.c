#include "vocab/pretokenizers.h"

#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES                                                                                               \
    "\\s+(?!\\S)|\\s+" /* white space, without its last character if a word follows, which may begin with it */

/* Radford et al. 2019, encoder.py */
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" SPACES

/* tiktoken's cl100k_base and what came of it: numbers of that many digits, perhaps without contractions */
#define WORDS(numbers)                                                                                       \
    "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" SPACES
#define CL100K(numbers) CONTRACTIONS "|" WORDS(numbers)

/* tiktoken's o200k_base and what came of it: words begin with capitals, or are small all through */
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define CASED(upper, lower, end)                                                                             \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" end "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" end "|"
#define O200K(end, numbers)                                                                                  \
    CASED("[" UPPER "]", "[" LOWER "]", end) numbers "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|" SPACES
#define NOT_HAN(letters) "[" letters "&&[^\\p{Han}]]"

/* DeepSeek's */
#define CASED_LETTERS                                                                                                                                                                 \
    "[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ"                                                 \
    "-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK"      \
    "-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-" \
    "𐳲𑢠-𑣟𞤀-𞥃]"
#define CJK "[一-龥ࠀ-一가-퟿]+"
#define KANA "[一-龥぀-ゟ゠-ヿ]+"
#define PUNCTUATED(newlines)                                                                                      \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" newlines \
    "|" SPACES
#define SIGNS " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+"

#define BLOOM " ?[^(\\s|.,!?…。，、।۔،)]+"

/* Expressions are those of the models' own tokenizer.json. Names are those that llama.cpp's converter gives them. */
static const Pretokenizer pres[] = {
    {.names =
         "default gpt-2 phi-2 mpt olmo jais trillion exaone4 granite-docling gigachat a.x-4.0 mellum modern-bert",
     .patterns = {GPT2}},
    {.names = "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
     .patterns = {"\\p{N}", GPT2}},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
     .whole_words = true,
     .add_bos = true,
     .patterns = {CL100K("\\p{N}{1,3}")}},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", .patterns = {CL100K("\\p{N}{1,3}")}},
    {.names = "minicpm5", .whole_words = true, .patterns = {"\\p{N}{1,3}", CL100K("\\p{N}+")}},
    {.names = "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
     .patterns = {CL100K("\\p{N}")}},
    {.names = "ufakzeka", .patterns = {WORDS("\\p{N}")}},
    {.names = "laguna", .patterns = {"[^\\n]+|[\\n]+", CL100K("\\p{N}")}},
    {.names = "qwen35",
     .patterns = {CONTRACTIONS
                  "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|"
                  "\\s*[\\r\\n]+|" SPACES}},
    {.names = "seed-coder",
     .patterns =
         {CONTRACTIONS
          "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|" SPACES}},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .patterns =
         {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
          "\\s*[\\r\\n]|" SPACES}},
    {.names = "exaone-moe",
     .patterns = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|"
                               " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|" SPACES}},
    {.names = "tekken", .whole_words = true, .add_bos = true, .patterns = {O200K("", "\\p{N}")}},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2",
     .patterns = {O200K(CONTRACTIONS "?", "\\p{N}{1,3}")}},
    {.names = "tiny_aya cohere2moe",
     .patterns = {"\\d{1,3}(?=(?:\\d{3})*\\b)", O200K(CONTRACTIONS "?", "\\p{N}{1,3}")}},
    {.names = "youtu",
     .whole_words = true,
     .patterns = {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" KANA,
                  O200K(CONTRACTIONS "?", "\\p{N}")}},
    {.names = "kimi-k2",
     .patterns = {"[\\p{Han}]+|" CASED(
         NOT_HAN(UPPER), NOT_HAN(LOWER),
         CONTRACTIONS "?") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" SPACES}},
    {.names = "falcon", .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = "deepseek-llm",
     .patterns = {"[\\r\\n]", "\\s?" CASED_LETTERS "+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", CJK,
                  "\\p{N}+"}},
    {.names = "deepseek-coder", .patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}"}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     .patterns = {"\\p{N}{1,3}", KANA, PUNCTUATED(SIGNS)}},
    {.names = "spark2_5",
     .patterns = {"\\p{N}{1,3}", KANA, PUNCTUATED(" ?[\\p{P}\\p{S}]+|[\\r\\n]"), "\\p{N}"}},
    {.names = "bloom poro-chat gpt3-finnish", .patterns = {BLOOM}},
    {.names = "viking", .patterns = {BLOOM, "\\p{N}"}},
    {.names = "superbpe", .patterns = {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
    {.names = "chameleon",
     .add_bos = true,
     .patterns = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
                  "[\\p{P}!-/:-@\\[-`{-~]", GPT2}},
};

const Pretokenizer *pretokenizer_row(size_t i) { return i < sizeof pres / sizeof *pres ? &pres[i] : NULL; }

const Pretokenizer *pretokenizer_find(String name) {
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        for (const char *at = pres[i].names; *at;) {
            size_t n = strcspn(at, " ");
            if (n == name.n && memcmp(at, name.data, n) == 0) return &pres[i];
            at += n + (at[n] == ' ');
        }
    return NULL;
}
