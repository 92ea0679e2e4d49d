"""Damaged tokenizers."""

import json

import models
from tap import Suite, require, require_equal

suite = Suite("tokenizer")


def add(name, code, words, damage):
    """`damage` changes the object of tokenizer.json in place, or returns the text of another file."""
    def refused(program):
        with models.copy_of(program) as model:
            content = json.loads(model.tokenizer.read_text())
            text = damage(content)
            model.tokenizer.write_text(text if text is not None else json.dumps(content))
            program.refuse(code, ["tokenizer.json", *words], "run", model, "-p", "x")
            # Scores read the same file.
            program.refuse(code, ["tokenizer.json", *words], "score", model, "--text", model.path / "config.json")
    suite.add(f"{name} is refused", refused)


def change_model(**values):
    return lambda content: content["model"].update(values)


add("another algorithm", "unsupported", ["Unigram", "BPE"], change_model(type="Unigram"))
add("dropout", "unsupported", ["dropout"], change_model(dropout=0.1))
add("no JSON", "corrupt", ["JSON", "byte"], lambda content: "{\"model\": ")
add("an empty file", "corrupt", [], lambda content: "")
add("a list", "corrupt", [], lambda content: "[]")
add("a vocabulary that is no object", "corrupt", ["vocab"], change_model(vocab=[1, 2]))
add("an id that is no number", "corrupt", ["vocab"], lambda content: content["model"]["vocab"].update({"zz": "seven"}))
add("one id twice", "corrupt", ["one token for each id"], lambda content: content["model"]["vocab"].update({"zzzz": 5}))
add("a merge of unknown tokens", "corrupt", ["merge", "qqqqq"], lambda content: content["model"]["merges"].append("qqqqq rrrrr"))
add("deep nesting", "corrupt", ["nested"], lambda content: "[" * 100000 + "]" * 100000)


@suite.test("a tokenizer that is missing is asked for by text, not by ids")
def missing(program):
    with models.copy_of(program) as model:
        model.tokenizer.unlink()
        program.refuse("not_found", ["tokenizer.json"], "run", model, "-p", "x")
        program.refuse("not_found", ["tokenizer.json"], "score", model, "--text", model.path / "config.json")
        require_equal(len(program.output_ids(model, "--ids", "39,571", "-n", 3)), 3, "number of output ids")


@suite.test("with ids a damaged tokenizer is no error: ids are printed")
def damaged_with_ids(program):
    with models.copy_of(program) as model:
        whole = program.output_ids(model, "--ids", "39,571", "-n", 3)
        for content in ("{", "\0" * 1000):
            model.tokenizer.write_text(content)
            answer = program.succeed("run", model, "--ids", "39,571", "-n", 3, "--json")
            require_equal(answer.json()["output_ids"], whole, "output ids")
            answer = program.succeed("run", model, "--ids", "39,571", "-n", 3)
            require("printing ids, not text" in answer.err and "tokenizer.json" in answer.err, str(answer))
            require(all(str(number) in answer.out for number in whole), str(answer))
            program.refuse("corrupt", ["tokenizer.json"], "run", model, "-p", "x")


@suite.test("a tokenizer with more ids than the model has is refused at the first of them")
def larger_than_model(program):
    with models.copy_of(program) as model:
        content = json.loads(model.tokenizer.read_text())
        content["added_tokens"].append({"id": 5000, "content": "<|new|>", "single_word": False, "lstrip": False, "rstrip": False,
                                        "normalized": False, "special": True})
        model.tokenizer.write_text(json.dumps(content))
        program.refuse("invalid_argument", ["5000", "0 to 2047"], "run", model, "-p", "x<|new|>")
        require_equal(len(program.output_ids(model, "-p", "x", "-n", 3)), 3, "number of output ids")
