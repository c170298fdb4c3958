#!/usr/bin/env node
/*
 * Makes tests/data/tokenizer/json.cases: tiny tokenizer.json of our own making, one for each way in which real ones cut
 * text, and texts with the ids that Hugging Face's library gives them. It is npm's `tokenizers` (0.23.2: the library
 * itself, in Rust), which stands outside the repository:
 *
 *     (mkdir -p ~/tok && cd ~/tok && npm install tokenizers)
 *     NODE_PATH=~/tok/node_modules node scripts/expect/tokenizer_json.js tests/data/tokenizer/json.cases
 *
 * A line is "tokenizer JSON", or, of the tokenizer before it, "encode FLAGS TEXT : IDS" or "decode SPECIAL IDS : TEXT"
 * (scripts/expect/tokenizer_cases.py). A second argument says how many random texts each tokenizer gets (6).
 */
const fs = require("fs");
const {Tokenizer} = require("tokenizers");

const TEXT = `A small engine reads the words of a long text one by one, and it's the last word that we'd like to see.
The tower wasn't tall, but the river under it ran fast: 12 boats, 345 oars, 6789 stones. "Who's there?" they
asked; nobody answered. I'll row, you'll sing, he'd rest, we've time, they're late and I'm not.
    if (the_count > 100) { return the_count - 100; }    // the rest
Der Fährmann hörte das Läuten über dem Fluß. Où est la forêt ? Là-bas. ¿Dónde está el niño? Река течёт под мостом.
川は橋の下を流れる。河水在桥下流过。 강물이 다리 아래로 흐른다. The end of the text, the end of the words.\n`;

/* A generator of numbers that is the same everywhere. */
let state = 1n;
const random = (n) => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & (2n ** 64n - 1n);
    return Number((state >> 33n) % BigInt(n));
};
const pick = (list) => list[random(list.length)];

/* GPT-2's characters for bytes. */
const spelt = [...Array(256).keys()].map((b) => (b > 32 && b < 127) || (b > 160 && b != 173) ? b : -1);
for (let b = 0, next = 256; b < 256; b++)
    if (spelt[b] < 0) spelt[b] = next++;
const spell = (text) => [...Buffer.from(text)].map((b) => String.fromCodePoint(spelt[b])).join("");

/* Merges the pair that is most frequent, n times. */
function train(words, n) {
    const merges = [], vocab = new Set(words.flat());
    words = words.map((word) => [...word]);
    while (merges.length < n) {
        const counts = new Map();
        for (const word of words)
            for (let i = 1; i < word.length; i++) {
                const pair = word[i - 1] + " " + word[i];
                counts.set(pair, (counts.get(pair) || 0) + 1);
            }
        const best = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0];
        if (!best) break;
        const [left, right] = best[0].split(" ");
        merges.push([left, right]);
        vocab.add(left + right);
        for (const word of words)
            for (let i = 1; i < word.length; i++)
                if (word[i - 1] === left && word[i] === right) word.splice(i - 1, 2, left + right);
    }
    return {vocab: [...vocab], merges};
}

const added = (content, more) => ({id: -1, content, single_word: false, lstrip: false, rstrip: false,
                                       normalized: false, special: true, ...more});

/* BPE over bytes, or over characters with ▁ for spaces. */
function bpe(options) {
    const words = TEXT.split(/(?=\s)/).map((word) => [...(options.bytes ? spell(word) : word.replace(/ /g, "▁"))]);
    const {vocab, merges} = train(words, options.merges || 110);
    const names = [...(options.first || [])];
    if (options.bytes) for (const c of spelt) names.push(String.fromCodePoint(c));
    if (options.fallback)
        for (let b = 0; b < 256; b++) names.push(`<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`);
    for (const token of [...vocab, ...(options.more || [])]) if (!names.includes(token)) names.push(token);
    return {
        type: "BPE", dropout: null, unk_token: options.unknown || null, continuing_subword_prefix: null,
        end_of_word_suffix: null, fuse_unk: !!options.fuse, byte_fallback: !!options.fallback,
        ignore_merges: !!options.whole, vocab: Object.fromEntries(names.map((name, id) => [name, id])),
        merges: options.pairs ? merges : merges.map((pair) => pair.join(" ")),
    };
}

/* Unigram: the texts of a BPE with scores that fall with their rank. */
function unigram(fallback) {
    const {vocab} = train(TEXT.split(/(?=\s)/).map((word) => [...word.replace(/ /g, "▁")]), 110);
    const pieces = [["<pad>", 0], ["</s>", 0], ["<unk>", 0]];
    if (fallback)
        for (let b = 0; b < 256; b++) pieces.push([`<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`, 0]);
    for (const text of vocab) pieces.push([text, -2.5 - Math.round(Math.log(1 + pieces.length) * 1e4) / 1e4 / [...text].length]);
    return {type: "Unigram", unk_id: 2, vocab: pieces, byte_fallback: fallback};
}

/* A model of before its file said the type. */
const untagged = (model, ...without) => Object.fromEntries(Object.entries(model).filter(([key]) => !without.includes(key)));

/* A model whose vocabulary lacks a text: another stands for it. */
const without = (model, text) => ({...model, vocab: model.vocab.map((piece) => piece[0] === text ? ["no " + text, -99] : piece)});
const renamed = (model, text) => ({...model, vocab: Object.fromEntries(Object.entries(model.vocab).map(([key, id]) => [key === text ? "no " + key : key, id]))});

const byteLevel = (prefix, pattern) => ({type: "ByteLevel", add_prefix_space: prefix, trim_offsets: true, use_regex: pattern});
const split = (pattern, behavior = "Isolated", invert = false) => ({type: "Split", pattern, behavior, invert});
const sequence = (key, ...list) => ({type: "Sequence", [key]: list});
const pre = (...list) => sequence("pretokenizers", ...list);
const normal = (...list) => sequence("normalizers", ...list);
const replace = (pattern, content) => ({type: "Replace", pattern, content});
const metaspace = (prepend_scheme, split) => ({type: "Metaspace", replacement: "▁", prepend_scheme, split});
const template = (...names) => ({ /* null stands for the text; main() fills in the ids */
    type: "TemplateProcessing", pair: [],
    single: names.map((id) => id ? {SpecialToken: {id, type_id: 0}} : {Sequence: {id: "A", type_id: 0}}),
    special_tokens: Object.fromEntries(names.filter((id) => id).map((id) => [id, {id, ids: [], tokens: [id]}])),
});
const bytes = byteLevel(true, true);
const spaces = sequence("decoders", replace({String: "▁"}, " "), {type: "ByteFallback"}, {type: "Fuse"});
const spacesStripped = sequence("decoders", replace({String: "▁"}, " "), {type: "ByteFallback"}, {type: "Fuse"},
                                {type: "Strip", content: " ", start: 1, stop: 0});
const llama3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const three = [added("<unk>"), added("<s>"), added("</s>")];

/* The parts of each tokenizer; one that is left out is null. */
const kinds = {
    "GPT-2": {added_tokens: [added("<|endoftext|>")], pre_tokenizer: byteLevel(false, true), decoder: bytes,
              model: bpe({bytes: true})},
    "Llama 3": {added_tokens: [added("<|begin|>"), added("<|end|>"), added("<|end|>x")],
                pre_tokenizer: pre(split({Regex: llama3}), byteLevel(false, false)), decoder: bytes,
                post_processor: sequence("processors", bytes, template("<|begin|>", null)),
                model: bpe({bytes: true, whole: true, pairs: true, more: ["Ġunreachable", "ĠĠĠĠ"]})},
    "GPT-4": {added_tokens: [added("<|end|>")], decoder: bytes, model: bpe({bytes: true}),
              pre_tokenizer: pre(split({Regex: llama3}, "Removed", true), byteLevel(false, false))},
    "Qwen": {added_tokens: [added("<|im_end|>"), added("<tool>", {special: false}), added("é", {special: false, normalized: true})],
             normalizer: {type: "NFC"}, pre_tokenizer: pre(split({Regex: llama3}), byteLevel(false, false)),
             decoder: bytes, model: bpe({bytes: true, pairs: true})},
    "RoBERTa": {added_tokens: [added("<s>"), added("</s>"), added("<mask>", {lstrip: true})],
                pre_tokenizer: byteLevel(true, true), decoder: bytes,
                post_processor: {type: "RobertaProcessing", sep: ["</s>", 2], cls: ["<s>", 0], trim_offsets: true, add_prefix_space: true},
                model: bpe({bytes: true, first: ["<s>", "<pad>", "</s>", "<unk>"], unknown: "<unk>"})},
    "GPT-NeoX": {added_tokens: [added("<|endoftext|>"), added("  ", {special: false, normalized: true}),
                                added("    ", {special: false, normalized: true}), added("ffi", {special: false, normalized: true})],
                 normalizer: {type: "NFKC"}, pre_tokenizer: byteLevel(false, true), decoder: bytes, model: bpe({bytes: true})},
    "Falcon": {added_tokens: [added("<|end|>")], decoder: bytes, model: bpe({bytes: true, first: []}),
               pre_tokenizer: pre({type: "Punctuation", behavior: "Contiguous"}, byteLevel(false, true),
                                  {type: "Digits", individual_digits: false}, split({Regex: "[0-9][0-9][0-9]"}))},
    "StarCoder": {added_tokens: [added("<fim>")], decoder: bytes, model: bpe({bytes: true}),
                  pre_tokenizer: pre({type: "Digits", individual_digits: true}, byteLevel(false, true))},
    "BLOOM": {added_tokens: [added("<s>")], decoder: bytes, model: bpe({bytes: true}),
              pre_tokenizer: pre(split({Regex: " ?[^(\\s|[.,!?…。，、।۔،])]+"}), byteLevel(false, false))},
    "DeepSeek": {added_tokens: [added("<｜end｜>"), added("<|EOT|>", {normalized: true})], decoder: bytes, model: bpe({bytes: true}),
                 normalizer: normal(),
                 pre_tokenizer: pre(split({Regex: "\\p{N}{1,3}"}), split({Regex: "[一-龥぀-ゟ゠-ヿ]+"}),
                                    split({Regex: "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}),
                                    byteLevel(false, false))},
    "Llama 2": {added_tokens: three, normalizer: normal({type: "Prepend", prepend: "▁"}, replace({String: " "}, "▁")),
                decoder: spacesStripped, post_processor: template("<s>", null),
                model: bpe({first: ["<unk>", "<s>", "</s>"], unknown: "<unk>", fuse: true, fallback: true, more: ["▁▁"]})},
    "Gemma": {added_tokens: [...three, added("\n\n", {special: false}), added("▁▁", {special: false}), added("<b>", {special: false})],
              normalizer: replace({String: " "}, "▁"), pre_tokenizer: split({String: " "}, "MergedWithPrevious"),
              decoder: spaces, post_processor: template("<s>", null, "</s>"),
              model: bpe({first: ["<unk>", "<s>", "</s>"], unknown: "<unk>", fuse: true, fallback: true, pairs: true})},
    "Metaspace": {added_tokens: [...three, added("<end>", {rstrip: true})], pre_tokenizer: metaspace("first", false), decoder: spacesStripped,
                  model: bpe({first: ["<unk>", "<s>", "</s>"], unknown: "<unk>", fuse: true})},
    "unknown characters": {added_tokens: three, normalizer: normal({type: "Strip", strip_left: true, strip_right: false}, {type: "Lowercase"}, {type: "NFD"}, {type: "StripAccents"}),
                           pre_tokenizer: {type: "Whitespace"}, decoder: {type: "Fuse"},
                           model: bpe({first: ["<unk>", "<s>", "</s>"], unknown: "<unk>", merges: 60})},
    "T5": {added_tokens: [added("<pad>"), added("</s>"), added("<unk>"), added("<extra>", {lstrip: true, rstrip: true})],
           normalizer: normal({type: "Nmt"}, {type: "NFKC"}, replace({Regex: " {2,}"}, " ")), pre_tokenizer: metaspace("always", true),
           decoder: metaspace("always", true), post_processor: template(null, "</s>"), model: unigram(false)},
    "Unigram of bytes": {added_tokens: [added("</s>"), added("<unk>")], normalizer: {type: "NFKD"}, pre_tokenizer: metaspace("never", false),
                         decoder: sequence("decoders", {type: "ByteFallback"}, metaspace("never", false)), model: unigram(true)},
    "words": {added_tokens: [...three, added("row", {single_word: true, special: false}), added("the", {single_word: true, lstrip: true, special: false, normalized: true}),
                             added("<a>", {lstrip: true}), added("<b>", {rstrip: true}), added("\t", {rstrip: true}), added("<a>b", {lstrip: true, rstrip: true})],
              normalizer: {type: "Strip", strip_left: true, strip_right: true},
              pre_tokenizer: pre({type: "WhitespaceSplit"}, {type: "Punctuation", behavior: "MergedWithPrevious"}, split({Regex: "\\d"}, "MergedWithNext"), split({String: "e"}, "Contiguous")),
              decoder: {type: "Fuse"}, model: bpe({first: ["<unk>", "<s>", "</s>"], unknown: "<unk>", fuse: true, merges: 80, whole: true})},
    "ties": {added_tokens: [added("<unk>")], decoder: {type: "Fuse"},
             model: {type: "Unigram", unk_id: 0, byte_fallback: false,
                     vocab: [["<unk>", 0], ["a", -1], ["aa", -2], ["aaa", -3], ["t", -9], ["1'", -5], [". ", -0.5], ["'S", -9], ["t1", -0.5], ["S", -9], ["St", -9]]}},
    "GPT-2 of 2020": {added_tokens: [added("<|endoftext|>", {normalized: true})], decoder: {type: "ByteLevel", add_prefix_space: true, trim_offsets: true},
                      pre_tokenizer: {type: "ByteLevel", add_prefix_space: false, trim_offsets: true},
                      post_processor: {type: "ByteLevel", add_prefix_space: true, trim_offsets: false},
                      model: untagged(bpe({bytes: true}), "type", "fuse_unk", "byte_fallback", "ignore_merges")},
    "Unigram of 2020": {added_tokens: three.slice(0, 1), pre_tokenizer: metaspace("always", true), decoder: metaspace("always", true),
                        model: untagged(unigram(false), "type", "byte_fallback")},
    "empty matches": {added_tokens: [added("<unk>")], normalizer: normal(replace({Regex: "1*"}, "a"), replace({Regex: "\\b\\z"}, "St")),
                      pre_tokenizer: pre(split({Regex: "'*"}, "MergedWithNext"), split({Regex: "a*"}, "Contiguous"), split({Regex: "t*"}, "MergedWithPrevious", true)),
                      decoder: {type: "Fuse"}, model: bpe({first: ["<unk>"], unknown: "<unk>", merges: 20}),
                      texts: ["11", "1t", "'1'", "tta", "é11é", "1a''a1", "S'", "t t. "]},
    "a word alone": {added_tokens: [added("<unk>"), added("row", {single_word: true})],
                     normalizer: normal({type: "Strip", strip_left: true, strip_right: true}, replace({String: " "}, "_")),
                     pre_tokenizer: {type: "Metaspace", replacement: "▁", add_prefix_space: false, prepend_scheme: "never", split: false},
                     decoder: {type: "Fuse"}, model: bpe({first: ["<unk>"], unknown: "<unk>", merges: 20}),
                     texts: ["row\u200c row", "Ⓐrow row🄰 rowⓩ row⓪ 🅰row🅿"]},
    "pieces that are unknown": {added_tokens: [added("</s>")], pre_tokenizer: metaspace("never", false), decoder: metaspace("never", false), model: without(unigram(true), "<0x9F>"),
                                texts: ["<unk>", "a<unk>b", "<unk>é", "é<unk><unk>", "😀", "é😀<unk>"]},
    "bytes that are unknown": {added_tokens: [added("<unk>")], pre_tokenizer: byteLevel(false, true), decoder: bytes,
                               model: renamed(bpe({bytes: true, first: ["<unk>"], unknown: "<unk>", merges: 20}), "ð"), texts: ["😀", "a😀😀", "é"]},
};

const corners = [..."aSt1'. \n\r\tſK", "'s", "'LL", "'re", "  ", "    ", "\r\n", "▁", "Ġ", "<0x0A>", "é", "e\u0301", "\u0301", "川", "１", "²", "½", "\u00a0",
                 "\u2028", "😀", "👩‍👧", "\u200b", "\ufeff", "\ufffd", "\0", "\x1c", "İ", "ß", "Σ", "ﬁ", "①", "㍿", "각", "\u1100\u1161\u11a8", "\u11a8", "क्षि", "\u0344", "が", "ﾊﾟ",
                 "Ａ", "ⅷ", "\u212b", "\"", "_", "-", "--", "...", "<", ">", "[", "]", "0x", "123456", "12", "the", " the", "row", "arow", "the_", "▁▁", "\n\n", "ffi", "ﬃ"];

function randomText(names) {
    const words = TEXT.split(/(?<=\s)/);
    let text = "";
    for (let n = 1 + random(12), kind = random(4); n > 0; n--)
        text += kind === 0 ? pick(words) : kind === 1 ? pick(corners) : random(4) ? pick([pick(words), pick(corners)]) : pick(names);
    return text;
}

const hex = (text) => Buffer.from(text).toString("hex");

async function main(file, n) {
    const lines = [];
    for (const [name, {texts: own = [], ...parts}] of Object.entries(kinds)) {
        const {vocab} = parts.model, known = Array.isArray(vocab) ? vocab.map((piece) => piece[0]) : Object.keys(vocab);
        let next = known.length; /* the library gives ids so, whatever stands there */
        for (const token of parts.added_tokens)
            token.id = known.includes(token.content) ? known.indexOf(token.content) : next++;
        for (const part of (parts.post_processor || {}).processors || [parts.post_processor || {}])
            for (const token of Object.values(part.special_tokens || {}))
                token.ids = [parts.added_tokens.find((other) => other.content === token.id).id];
        const json = JSON.stringify({version: "1.0", truncation: null, padding: null, normalizer: null, pre_tokenizer: null, post_processor: null, ...parts});
        const tokenizer = Tokenizer.fromString(json), names = parts.added_tokens.map((token) => token.content);
        lines.push(`# ${name}`, `tokenizer ${json}`);
        const texts = ["", " ", "  ", "a", " a", TEXT, names.join(" the "), names.join(""), names.map((name) => `\t ${name}\n `).join("a"), "t1'St1S'a aaaa aaStt1.  't1 t1'a", corners.join("")];
        while (texts.length < 11 + n) texts.push(randomText(names));
        texts.push(...own);
        for (const [i, text] of texts.entries()) {
            const ends = i % 2, ids = (await tokenizer.encode(text, null, {addSpecialTokens: !!ends})).getIds();
            lines.push(`encode ${ends + 2} ${hex(text)} : ${ids.join(" ")}`);
            const special = i % 2; /* decoded texts are UTF-8: otherwise the library writes other U+FFFD */
            if (i % 5 < 2) lines.push(`decode ${special} ${ids.join(" ")} : ${hex(await tokenizer.decode(ids, !special))}`);
        }
    }
    fs.writeFileSync(file, lines.join("\n") + "\n");
}

main(process.argv[2], Number(process.argv[3] || 6));
