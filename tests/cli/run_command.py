"""tandem run: what it prints, and what must not change the text."""

import pathlib
import tempfile

import models
from program import summary
from tap import Skipped, Suite, require, require_equal

suite = Suite("run")

PROMPT = "Emma was"
COUNT = 24
# Types of the JSON object's values, by key.
SHAPE = {"arithmetic_version": int, "prompt_ids": [int], "output_ids": [int], "text": str, "stop_reason": str, "placement": str, "state_bytes": int,
         "residency_events": [], "unsafe": bool,
         "timings": {"prefill_tokens": int, "prefill_seconds": float, "prefill_tokens_per_second": float, "decode_tokens": int,
                     "decode_seconds": float, "decode_tokens_per_second": float},
         "model": {"name": str, "directory": str, "fingerprint": str, "parameters": int}}


def shape_of(value):
    if isinstance(value, dict):
        return {key: shape_of(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted({type(inner) for inner in value}, key=str)
    return type(value)


def continuation(program, *arguments, **options):
    """The text, without the line break that ends it."""
    result = program.succeed("run", *arguments, **options)
    require(result.out.endswith("\n"), f"the output does not end with a line break\n{result}")
    return result.out[:-1]


@suite.test("text to standard output, one closing line to standard error")
def text_and_summary(program):
    result = program.succeed("run", "-p", PROMPT, "-n", 10)
    closing = summary(result)
    expected = program.json("run", "-p", PROMPT, "-n", 10)
    require_equal(result.out, expected["text"] + "\n", "standard output")
    require_equal((closing["prompt"], closing["new"], closing["reason"], closing["placement"]), ("2", "10", "length", "cpu"),
                  "the closing line's tokens, reason, placement")
    require(float(closing["prefill"]) > 0 and float(closing["decode"]) > 0, f"a rate is 0\n{result}")
    require_equal(int(closing["state"]), expected["state_bytes"], "the closing line's state bytes")


@suite.test("--json has the documented keys and types")
def json_object(program):
    found = program.json("run", "-p", PROMPT, "-n", 10)
    require_equal(shape_of(found), SHAPE, "keys and types")
    timings = found["timings"]
    require_equal((len(found["output_ids"]), timings["prefill_tokens"], timings["decode_tokens"]), (10, 2, 9), "numbers of tokens")
    require_equal(found["model"]["parameters"], 3542728, "parameters")
    require(len(found["model"]["fingerprint"]) == 32, f"fingerprint: {found['model']}")
    require_equal(pathlib.Path(found["model"]["directory"]).resolve(), program.model, "the default model")
    # 6 recurrent layers of 6 x 64 x 32, and 3 x 448 of convolution; one page of keys and values in each of 2 layers.
    require(found["state_bytes"] > 6 * 4 * (6 * 64 * 32 + 3 * 448), f"state bytes: {found['state_bytes']}")


@suite.test("greedy text equals the oracle's")
def greedy_oracle(program):
    cases = program.greedy_oracle()
    require(len(cases) >= 2, "the oracle has no greedy texts")
    for case in cases:
        found = program.json("run", "-p", case["prompt"], "-n", len(case["output_ids"]))
        require_equal(found["prompt_ids"], case["prompt_ids"], "prompt ids")
        require_equal(found["output_ids"], case["output_ids"], f"ids after {case['prompt']!r}")
        require_equal(found["text"], case["text"], f"text after {case['prompt']!r}")


@suite.test("the model can be named")
def named_model(program):
    require_equal(program.output_ids(program.model, "-p", PROMPT, "-n", 8), program.output_ids("-p", PROMPT, "-n", 8), "output ids")


@suite.test("-n 0 takes the prompt and prints nothing")
def no_tokens(program):
    result = program.succeed("run", "-p", PROMPT, "-n", 0)
    require_equal(result.out, "\n", "standard output")
    require_equal((summary(result)["new"], summary(result)["reason"]), ("0", "length"), "the closing line")


@suite.test("--ids, --prompt and --prompt-file are the same prompt")
def same_prompt(program):
    expected = program.json("run", "-p", PROMPT, "-n", 8)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "prompt.txt")
        path.write_text(PROMPT)
        by_file = program.json("run", "--prompt-file", path, "-n", 8)
    by_ids = program.json("run", "--ids", ",".join(map(str, expected["prompt_ids"])), "-n", 8)
    by_blanks = program.json("run", "--ids", " ".join(map(str, expected["prompt_ids"])), "-n", 8)
    for name, found in (("--prompt-file", by_file), ("--ids", by_ids), ("--ids with blanks", by_blanks)):
        require_equal((found["prompt_ids"], found["output_ids"]), (expected["prompt_ids"], expected["output_ids"]), name)


@suite.test("--ids before the model's directory does not take it for an id")
def ids_before_model(program):
    require_equal(program.json("run", "--ids", "39,571", program.model, "-n", 2)["prompt_ids"], [39, 571], "prompt ids")


@suite.test("--echo prints the prompt first")
def echo(program):
    prompt = "Zoë was 你好"
    plain = continuation(program, "-p", prompt, "-n", 8)
    require_equal(continuation(program, "-p", prompt, "-n", 8, "--echo"), prompt + plain, "text with --echo")


@suite.test("a model without a tokenizer prints ids")
def without_tokenizer(program):
    expected = program.json("run", "-p", PROMPT, "-n", 4)
    with models.copy_of(program) as model:
        model.tokenizer.unlink()
        text = continuation(program, model, "--ids", ",".join(map(str, expected["prompt_ids"])), "-n", 4)
    require_equal(text, "".join(f"<{i}>" for i in expected["output_ids"]), "text")


@suite.test("a seed gives one text, and another seed another")
def seeds(program):
    def sampled(seed, temperature="1.0"):
        return program.output_ids("-p", PROMPT, "-n", COUNT, "--temp", temperature, "--seed", seed)
    texts = {seed: sampled(seed) for seed in (1, 2, 18446744073709551615)}
    require_equal(sampled(1), texts[1], "seed 1 again")
    require(len({tuple(ids) for ids in texts.values()}) == 3, f"seeds give the same text: {texts}")
    require(sampled(1, "0.2") != texts[1], "the temperature has no effect")


@suite.test("--top-k 1 and a tiny --top-p are greedy")
def greedy_limits(program):
    greedy = program.output_ids("-p", PROMPT, "-n", COUNT)
    for limit in (("--top-k", 1), ("--top-p", "1e-9")):
        found = program.output_ids("-p", PROMPT, "-n", COUNT, "--temp", "1.0", "--seed", 3, *limit)
        require_equal(found, greedy, f"output ids with {limit}")
    free = program.output_ids("-p", PROMPT, "-n", COUNT, "--temp", "1.0", "--seed", 3)
    require(free != greedy, "the same without limits: this test shows nothing")


@suite.test("the number of threads does not change the text")
def threads(program):
    arguments = ("-p", PROMPT, "-n", COUNT, "--temp", "1.0")
    expected = program.output_ids(*arguments)
    for count in (1, 2, 8):
        require_equal(program.output_ids(*arguments, "--threads", count), expected, f"output ids of {count} threads")


def add_variant(variant):
    @suite.test(f"--isa {variant} gives the same text")
    def same(program):
        usable = program.variants().get(variant)
        arguments = ("-p", PROMPT, "-n", COUNT, "--temp", "1.0")
        if not usable:
            program.refuse("unsupported", [f"'{variant}'", "scalar"], "run", *arguments, "--isa", variant)
            raise Skipped(f"no {variant} here")
        # Unforced it is the best one; the forced ones are compared through it.
        expected = program.output_ids(*arguments, env={"TANDEM_CPU_ISA": None})
        require_equal(program.output_ids(*arguments, "--isa", variant), expected, "output ids")
        require_equal(program.output_ids(*arguments, env={"TANDEM_CPU_ISA": variant}), expected, "output ids by TANDEM_CPU_ISA")
        chosen = program.json("inspect", "--kernels", env={"TANDEM_CPU_ISA": variant})["kernels"]["cpu"]["linear"]
        require_equal([k["variant"] for k in chosen if k["chosen"]], [variant], "what TANDEM_CPU_ISA chose")


for name in ("scalar", "baseline", "avx2", "avx512"):
    add_variant(name)


@suite.test("TANDEM_CPU_ISA is checked, and --isa wins")
def variant_by_environment(program):
    program.refuse("unsupported", ["'sse9'", "usable are", "scalar"], "run", "-p", "x", env={"TANDEM_CPU_ISA": "sse9"})
    program.succeed("run", "-p", "x", "-n", 1, "--isa", "scalar", env={"TANDEM_CPU_ISA": "sse9"})


@suite.test("--place reference runs")
def reference(program):
    found = program.json("run", "-p", PROMPT, "-n", 8, "--place", "reference")
    require_equal((found["placement"], len(found["output_ids"])), ("reference", 8), "placement and tokens")
    require_equal(found["output_ids"], program.output_ids("-p", PROMPT, "-n", 8), "output ids, which the oracle separates widely")


@suite.test("a full context ends the text with reason context")
def full_context(program):
    found = program.json("run", "-p", PROMPT, "--ctx", 10, "-n", 50)
    require_equal(found["stop_reason"], "context", "stop reason")
    # All positions filled, and the token that the last of them predicts.
    require_equal(len(found["output_ids"]), 10 - len(found["prompt_ids"]) + 1, "number of output ids")
    require_equal(found["output_ids"], program.output_ids("-p", PROMPT, "-n", 9), "output ids")
    require_equal(summary(program.succeed("run", "-p", PROMPT, "--ctx", 10, "-n", 50))["reason"], "context", "the closing line")


@suite.test("an end-of-text token ends the text, unless --ignore-eos")
def end_of_text(program):
    greedy = program.output_ids("-p", PROMPT, "-n", 12)
    stop = next(i for i, token in enumerate(greedy) if i > 2 and token not in greedy[:i])
    with models.copy_of(program) as model:
        model.change_json("generation_config.json", eos_token_id=[greedy[stop]])
        found = program.json("run", model, "-p", PROMPT, "-n", 12)
        require_equal((found["stop_reason"], found["output_ids"]), ("end_of_text", greedy[:stop]), "with an end")
        require_equal(program.output_ids(model, "-p", PROMPT, "-n", 12, "--ignore-eos"), greedy, "output ids with --ignore-eos")
