#!/usr/bin/env python3
"""Words and NFC of all code points, against the Python package `tokenizers` where it is, against digests everywhere.

usage: unicode_test.py CUT_TEXTS          compare
       unicode_test.py CUT_TEXTS --write  compare with the package, then write unicode_digests.json
"""

import functools
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "cli"))

from tap import Skipped, Suite, require, require_equal, run  # noqa: E402

try:
    import tokenizers
    from tokenizers import normalizers, pre_tokenizers
except ImportError:
    tokenizers = None

DIGESTS = FOLDER / "unicode_digests.json"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
END, WORD = b"\xff", b"\xfe"

CASE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
PATTERNS = {
    "qwen35": CASE + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": CASE + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "gpt4": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "gpt4o": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
             r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "signs": r"\p{^L}\p{Sc}|\P{S}[\S]\d|\D\p{Zs}|[\p{P}\x41-\u00e9]+(?=\p{Cn})|.\p{Co}|\p{Cf}\p{Nl}?|k(?i:k)",
}
CONTEXTS = ("{}", "b{}9a", "a{}", " {}", "{} x", "'{}", "'{}e", "{}{}\n", "\n {}\r\n", "A{}k1{}")
# Pairs that compose in Unicode 16.0.0 and not in 9.0.0: they must stay pairs.
LATER_PAIRS = [(67026, 775), (67034, 775), (70530, 70601), (70532, 70587), (70539, 70594), (70544, 70601), (70594, 70584),
               (70594, 70594), (70594, 70601), (71989, 71984), (90398, 90398), (90398, 90399), (90398, 90400),
               (90398, 90409), (90401, 90399), (90401, 90400), (90402, 90399), (90409, 90399), (93539, 93543),
               (93543, 93543), (93545, 93543)]
# Each is one token of the vocabulary below, if it is one word of the normal form that the package knows.
JOINED = ("b\u1c89a", "a\u036c\u089b", "a\u089b\u036c", "\U00011935\U00011930", "\u01d5", "a\u0897b", "x\u0cf3y")


def tables(name):
    """The numbers of a table of core/text/unicode."""
    text = (FOLDER.parents[1] / "core" / "text" / "unicode" / name).read_text()
    return {array: [int(n, 0) for n in re.findall(r"0x[0-9a-f]+|\b[01]\b", body)]
            for array, body in re.findall(r"(\w+)\[\] = \{(.*?)\n\};", text, re.DOTALL)}


def marks():
    """All marks of Unicode 16.0.0 (general categories 5 to 7 of the table)."""
    runs = tables("categories.inc")["kCategoryRuns"]
    ends = [first >> 5 for first in runs[1:]] + [0x110000]
    return [c for first, end in zip(runs, ends) if first & 31 in (5, 6, 7) for c in range(first >> 5, end)]


def chunks(items, size):
    return (items[i:i + size] for i in range(0, len(items), size))


@functools.lru_cache(None)
def single_texts():
    """Every code point in every context, 500 code points a text."""
    return ["".join(context.replace("{}", chr(c)) for c in chunk) for context in CONTEXTS for chunk in chunks(CODE_POINTS, 500)]


def mark_texts():
    """A letter and every pair of marks."""
    all_marks = [chr(c) for c in marks()]
    for first in all_marks:
        yield "".join("a" + first + second for second in all_marks)


def composition_texts():
    """Every code point that begins or ends a composition with every such; Hangul; and what later versions compose."""
    steps = tables("normal_form.inc")["kDecompositions"]
    pairs = [step for step in zip(steps[1::4], steps[2::4]) if step[1]]
    seconds = sorted({second for _, second in pairs} | {second for _, second in LATER_PAIRS})
    hangul = [*range(0x10FC, 0x1200), *range(0xAC00, 0xAC40), *range(0xD788, 0xD7B0)]
    for first in sorted({first for first, _ in pairs + LATER_PAIRS} | set(seconds) | set(steps[0::4])):
        yield "".join(chr(first) + chr(second) + " " + chr(first) + "\u0334" + chr(second) + " " for second in seconds)
    for first in hangul:
        yield "".join(chr(first) + chr(second) + " " for second in hangul)


def program_answers(command, texts):
    asked = END.join(text.encode() for text in texts) + END
    return subprocess.run(command, input=asked, stdout=subprocess.PIPE, check=True).stdout


def compare(key, command, texts, package_answer):
    """Compares the answers to `texts` with the package's, one by one, if it is there, and with the digest."""
    texts = list(texts)
    answers = program_answers(command, texts)
    if tokenizers:
        parts = answers.split(END)[:-1]
        require_equal(len(parts), len(texts), "answers")
        different = sum(found != package_answer(text) for found, text in zip(parts, texts))
        require(different == 0, f"{key}: {different} of {len(texts)} texts differ from tokenizers {tokenizers.__version__}")
    digest = hashlib.sha256(answers).hexdigest()
    if "--write" in sys.argv:
        digests[key] = digest
    require_equal(digest, digests.get(key), f"digest of {key}")


def words_by(pattern):
    split = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated") if tokenizers else None
    return lambda text: b"".join(word.encode() + WORD for word, _ in split.pre_tokenize_str(text))


def normalize(text):
    return normalizers.NFC().normalize_str(text).encode()


def byte_characters():
    """GPT-2's alphabet: the character of each byte."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in prints]
    return {**{byte: chr(byte) for byte in prints}, **{byte: chr(0x100 + i) for i, byte in enumerate(others)}}


def joining_tokenizer():
    """A tokenizer.json whose merges join each of JOINED to one token, byte by byte."""
    alphabet = byte_characters()
    vocabulary = {alphabet[byte]: byte for byte in range(256)}
    merges = []
    for text in JOINED:
        letters = [alphabet[byte] for byte in text.encode()]
        for size in range(1, len(letters)):
            left, right = "".join(letters[:size]), letters[size]
            if left + right not in vocabulary:
                vocabulary[left + right] = len(vocabulary)
                merges.append(f"{left} {right}")
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": PATTERNS["qwen35"]}, "behavior": "Isolated", "invert": False}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary, "merges": merges}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "post_processor": None,
            "decoder": byte_level, "model": model}


suite = Suite("unicode")
digests = json.loads(DIGESTS.read_text())

for name, pattern in PATTERNS.items():
    suite.add(f"all code points in {len(CONTEXTS)} contexts are cut by {name}", lambda cut, name=name, pattern=pattern:
              compare(f"words {name}", [cut, "words", pattern], single_texts(), words_by(pattern)))


@suite.test("all code points are normalised")
def single_code_points(cut):
    compare("nfc of code points", [cut, "nfc"], single_texts(), normalize)


@suite.test("all pairs of marks are ordered and composed")
def pairs_of_marks(cut):
    compare("nfc of marks", [cut, "nfc"], mark_texts(), normalize)


@suite.test("all compositions, and what looks like one")
def compositions(cut):
    compare("nfc of compositions", [cut, "nfc"], composition_texts(), normalize)


@suite.test("ids where the vocabulary shows a cut")
def visible_cuts(cut):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "tokenizer.json")
        path.write_text(json.dumps(joining_tokenizer()))
        theirs = tokenizers.Tokenizer.from_file(str(path)) if tokenizers else None
        texts = [*JOINED, "u\u0308\u0304", "b\u1c89a9", " ".join(JOINED)]
        compare("ids", [cut, "ids", path], texts,
                lambda text: b"".join(b"%d" % number + WORD for number in theirs.encode(text).ids))


@suite.test("the digests are those of the package tokenizers")
def package(_):
    if not tokenizers:
        raise Skipped("Python has no tokenizers here (tools/lib/packages.sh says how to get it)")


if __name__ == "__main__":
    failed = run(suite.tests, sys.argv[1])
    if "--write" in sys.argv and tokenizers and not failed:
        DIGESTS.write_text(json.dumps(digests, indent=1) + "\n")
    sys.exit(failed > 0)
