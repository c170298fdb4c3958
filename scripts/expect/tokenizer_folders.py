#!/usr/bin/env python3
"""Makes tests/data/tokenizer/folders: vocabularies as folders had them before tokenizer.json, and the ids they must give.

tokenizer.model is trained, and its ids are given, by Debian's python3-sentencepiece. vocab.json and merges.txt hold the
byte-level vocabulary of tokenizer_cases.py, whose ids come from its plain loop over Debian's python3-regex; the folder is
what OPT's is: a token in front of each text. Cases are lines as in tokenizer_cases.py. Run with /usr/bin/python3.
"""
import io
import json

import sentencepiece

import tokenizer_cases
from tokenizer_cases import DATA, ENDS, TRAINING_TEXT, ByteLevel, Cases, spell, texts

FOLDERS = DATA / "folders"


def valid(seed):
    """Texts that SentencePiece takes as they are: it replaces what is not UTF-8, and ends at a NUL."""
    for text in texts(seed):
        try:
            if b"\0" not in text:
                yield text, text.decode()
        except UnicodeDecodeError:
            pass


def sentence_piece(name, seed, more_texts=(), **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAINING_TEXT.splitlines()), model_writer=model, model_type="bpe",
        normalization_rule_name="identity", num_threads=1, minloglevel=2, **options)
    (FOLDERS / name).mkdir(parents=True, exist_ok=True)
    (FOLDERS / name / "tokenizer.model").write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    cases = Cases(f"folders/{name}")
    for text, words in [*valid(seed), *((text.encode(), text) for text in more_texts)]:
        ids = processor.encode(words)
        cases.encode(0, text, ids)
        if len(text) < 3:
            cases.encode(ENDS, text, [processor.bos_id()] + ids)
        if processor.unk_id() not in ids and not (options.get("user_defined_symbols") and words[:1] in " ▁"):
            cases.decode(False, ids, processor.decode(ids))
    cases.write()


def byte_level(name):
    bpe = ByteLevel("gpt-2", 150)
    vocab = {"<pad>": 0, "</s>": 1} | {spell(token): 2 + i for i, token in enumerate(bpe.tokens)}
    merges = "".join(f"{spell(a)} {spell(b)}\n" for a, b in bpe.ranks)
    special = {"bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"}
    files = {"vocab.json": json.dumps(vocab), "merges.txt": f"#version: 0.2\n{merges}",
             "special_tokens_map.json": json.dumps(special),
             "added_tokens.json": json.dumps({"<b>": len(vocab) + 1, "<a>": len(vocab)}),
             "tokenizer_config.json": json.dumps({"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True})}
    (FOLDERS / name).mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (FOLDERS / name / file).write_text(text)
    cases = Cases(f"folders/{name}")
    for text in texts(7):
        ids = [2 + i for i in bpe.encode(text)]
        cases.encode(0, text, ids)
        if len(text) < 3:
            cases.encode(ENDS, text, [1] + ids)
    a = [2 + i for i in bpe.encode(b"a")]
    cases.encode(ENDS, b"a<a></s>a<b>", [1, *a, len(vocab), *[2 + i for i in bpe.encode(b"</s>a")], len(vocab) + 1])
    cases.encode(tokenizer_cases.SPECIAL, b"a<a></s>a<pad>", [*a, len(vocab), 1, *a, 0])
    cases.decode(False, [1, *a, len(vocab), 0, *a], "a<a>a")
    cases.write()


def main():
    sentence_piece("fallback", 8, vocab_size=420, byte_fallback=True, character_coverage=0.98,
                   remove_extra_whitespaces=False, allow_whitespace_only_pieces=True)
    spaced = ["  two  spaces  ", "▁a▁ ▁b▁", "   ", "<sep>", " <sep> ", "the  <sep>  words <sep>", "the\n the \n", "a<sep>▁ ",
              "ゐゑ", "the ゐゑ the ゑthe", "ゐ<sep>ゐゐ"]
    sentence_piece("plain", 9, spaced, vocab_size=300, add_dummy_prefix=False,
                   user_defined_symbols=["<sep>", "\n", "ab"])
    byte_level("bytes")


if __name__ == "__main__":
    main()
