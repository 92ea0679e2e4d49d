"""How tokens are chosen and where a text ends: filters, penalties, stop strings, a model's own settings; and escapes of prompts."""

import json

import models
from program import summary
from tap import Suite, require, require_equal

suite = Suite("sampling")

PROMPT = "Emma was"


@suite.test("a min-p of 1 and a top-k of 1 are greedy, a high temperature is not")
def filters(program):
    greedy = program.output_ids("-p", PROMPT, "-n", 16)
    hot = ("-p", PROMPT, "-n", 16, "--temp", 2)
    require(program.output_ids(*hot) != greedy, "a temperature of 2 changes nothing")
    for flags in (("--min-p", 1), ("--top-k", 1), ("--top-p", "1e-9")):
        require_equal(program.output_ids(*hot, *flags), greedy, f"ids with {flags}")


@suite.test("penalties keep a text from repeating itself")
def penalties(program):
    plain = program.output_ids("-p", PROMPT, "-n", 60, "--ignore-eos")
    for flags in (("--repeat-penalty", "1e6", "--repeat-last-n", -1), ("--presence-penalty", "1e6", "--repeat-last-n", 1000),
                  ("--frequency-penalty", "1e6", "--repeat-last-n", -1)):
        found = program.json("run", "-p", PROMPT, "-n", 60, "--ignore-eos", *flags)
        ids = found["prompt_ids"] + found["output_ids"]
        require_equal(len(set(ids)), len(ids), f"different ids with {flags}")
        none = program.output_ids("-p", PROMPT, "-n", 60, "--ignore-eos", *flags[:2], "--repeat-last-n", 0)
        require_equal(none, plain, f"ids with {flags[:2]} and an empty window")
    require(len(set(plain)) < len(plain), "the text does not repeat itself anyway")


@suite.test("a text ends before a stop string, also within and across tokens")
def stop_strings(program):
    whole = program.json("run", "-p", PROMPT, "-n", 40, "--ignore-eos")
    text = whole["text"]
    for begin, length in ((10, 1), (11, 7), (3, 2), (20, 12)):
        stop = text[begin:begin + length]
        expected = text[:text.index(stop)]
        found = program.json("run", "-p", PROMPT, "-n", 40, "--ignore-eos", "--stop", "never said", "--stop", stop)
        require_equal((found["text"], found["stop_reason"], found["stop_string"]), (expected, "stop_string", stop), f"stopped at {stop!r}")
        ids = found["output_ids"]
        require_equal(ids, whole["output_ids"][:len(ids)], "ids")
        require(len(ids) < 40, "it went on after the stop string")
        printed = program.succeed("run", "-p", PROMPT, "-n", 40, "--ignore-eos", "--stop", stop)
        require_equal(printed.out, expected + "\n", f"what is printed before {stop!r}")
        require_equal(summary(printed)["reason"], "stop_string", "reason in the closing line")
    held = program.json("run", "-p", PROMPT, "-n", 40, "--ignore-eos", "--stop", text[-3:] + "never said")
    require_equal((held["text"], held["stop_reason"]), (text, "length"), "a beginning of a stop string at the end")
    require("stop_string" not in held, "a stop string that was not found")


@suite.test("a stop string in the prompt does not count")
def stop_and_echo(program):
    result = program.succeed("run", "-p", PROMPT, "-n", 8, "--echo", "--stop", "Emma")
    require(result.out.startswith(PROMPT), f"the prompt is not echoed\n{result}")


@suite.test("stop strings that cannot be found are refused")
def bad_stops(program):
    program.refuse("invalid_argument", ["--stop", "''"], "run", "-p", "x", "--stop", "", hint=True)
    program.refuse("invalid_argument", ["stop string", "UTF-8", "byte 1"], "run", "-p", "x", "--stop",
                   b"a\xff".decode(errors="surrogateescape"))
    with models.copy_of(program) as model:
        model.tokenizer.unlink()
        program.refuse("invalid_argument", ["--stop", "tokenizer"], "run", model, "--ids", 1, "--stop", "x")


@suite.test("--model-defaults takes the model's settings, and what is given wins")
def model_defaults(program):
    with models.copy_of(program) as model:
        model.change_json("generation_config.json", do_sample=True, temperature=0.7, top_k=20, top_p=0.8, min_p=0.01, repetition_penalty=1.1)
        by_hand = ("--temp", "0.7", "--top-k", 20, "--top-p", "0.8", "--min-p", "0.01", "--repeat-penalty", "1.1", "--repeat-last-n", -1)
        base = ("run", model, "-p", PROMPT, "-n", 24)
        found = program.json(*base, "--model-defaults")
        require_equal(found["output_ids"], program.json(*base, *by_hand)["output_ids"], "ids")
        require_equal(found["model_defaults"], {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.01, "repetition_penalty": 1.1},
                      "what was taken")
        require("model_defaults" not in program.json(*base), "defaults that nobody asked for")
        cooler = program.json(*base, "--model-defaults", "--temp", "0", "--repeat-penalty", 1)
        require_equal(cooler["output_ids"], program.json(*base)["output_ids"], "ids with --temp 0")
        require_equal(sorted(cooler["model_defaults"]), ["min_p", "top_k", "top_p"], "what was taken beside --temp and --repeat-penalty")
        said = program.succeed(*base, "--model-defaults").err
        require("generation_config.json" in said and "temperature 0.7" in said and "top_k 20" in said, f"notice: {said}")
        model.change_json("generation_config.json", do_sample=None)
        require_equal(program.json(*base, "--model-defaults")["model_defaults"]["temperature"], 0, "temperature without do_sample")
        model.change_json("generation_config.json", top_p=7)
        program.refuse("invalid_argument", ["generation_config.json", "top-p", "7"], *base, "--model-defaults")
        model.change_json("generation_config.json", top_p="high")
        program.refuse("invalid_argument", ["generation_config.json", "top_p", "high"], *base, "--model-defaults")
        (model.path / "generation_config.json").unlink()
        program.refuse("not_found", ["generation_config.json"], *base, "--model-defaults")
    program.refuse("invalid_argument", ["--model-defaults", "model directory"], "run", "--synthetic", "0.8B:layers=4,vocab=512", "--ids", 1,
                   "--model-defaults")


@suite.test("--escape gives prompts what they stand for")
def escapes(program):
    def ids(*arguments):
        return program.json("run", *arguments, "-n", 0)["prompt_ids"]

    cases = {"a\\nb": "a\nb", "\\t\\\\n": "\t\\n", '\\"x\\"': '"x"', "\\x41\\xc3\\xa9": "Aé", "\\u00e9\\u4F60": "é你", "\\ud83d\\ude00": "😀",
             "plain é": "plain é"}
    for escaped, text in cases.items():
        require_equal(ids("--escape", "-p", escaped), ids("-p", text), f"ids of {json.dumps(escaped)}")
    for bad in ("\\q", "a\\", "\\x4", "\\xgg", "\\u12", "\\ud83d", "\\ude00", "\\ud83d\\u0041", "\\x-1", "\\u+123"):
        program.refuse("invalid_argument", ["--prompt", f"byte {bad.index(chr(92))}", "\\xHH"], "run", "-e", "-p", bad)
    program.refuse("invalid_argument", ["UTF-8"], "run", "-e", "-p", "\\xff")
    program.refuse("invalid_argument", ["--escape", "--prompt"], "run", "-e", "--ids", 1)
