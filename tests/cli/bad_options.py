"""Arguments without a meaning, and limits that are not kept."""

import pathlib
import tempfile

import models
from tap import Suite, require, require_equal

suite = Suite("options")


def add(name, code, words, *arguments, hint=False):
    suite.add(f"{name} is refused", lambda program: program.refuse(code, words, *arguments, hint=hint))


def add_run(name, code, words, *arguments, hint=False):
    add(name, code, words, "run", "-p", "x", *arguments, hint=hint)


add("no command", "invalid_argument", ["subcommand is required"], hint=True)
add("an unknown command", "invalid_argument", ["'walk'", "run, score, inspect, plan, check, synth, quantize, state, fallback or bench"], "walk", hint=True)
add("an option instead of a command", "invalid_argument", ["'--warp'", "run, score, inspect, plan, check, synth, quantize, state, fallback or bench"], "--warp", hint=True)
add("an empty model", "invalid_argument", ["MODEL", "''"], "inspect", "", hint=True)
add("an empty --json file", "invalid_argument", ["--json", "''"], "score", "--text", "x", "--json", "", hint=True)
add("a path with control characters", "not_found", [r"'no\x0asuch\x1b[2Jmodel'"], "inspect", "no\nsuch\033[2Jmodel")
add("an unknown option", "invalid_argument", ["--warp"], "run", "-p", "x", "--warp", hint=True)
add("check without a kind", "invalid_argument", ["subcommand is required"], "check", hint=True)
add("check oracle without a folder", "invalid_argument", ["DIR is required"], "check", "oracle", hint=True)
add("a second model", "invalid_argument", ["second"], "inspect", "first", "second", hint=True)

# Prompts.
add("no prompt", "invalid_argument", ["--prompt", "--prompt-file", "--ids", "required"], "run", hint=True)
add_run("-p with --ids", "invalid_argument", ["--prompt", "--ids", "2 were given"], "--ids", "1", hint=True)
add_run("-p with --prompt-file", "invalid_argument", ["--prompt-file", "2 were given"], "--prompt-file", "x", hint=True)
add("an empty prompt", "invalid_argument", ["prompt is empty"], "run", "-p", "")
add("no ids", "invalid_argument", ["prompt is empty"], "run", "--ids", "")
add("an id above the vocabulary", "invalid_argument", ["2048", "0 to 2047"], "run", "--ids", "1,2048")
add("a negative id", "invalid_argument", ["-5", "0 to 2047"], "run", "--ids=-5")
add("an id that no int holds", "invalid_argument", ["--ids", "byte 2", "too large"], "run", "--ids", "1,3000000000")
add("an id that is a word", "invalid_argument", ["--ids", "token ids", "byte 2"], "run", "--ids", "1,two")
add("a prompt file that is missing", "not_found", ["no-such.txt"], "run", "--prompt-file", "no-such.txt")
add("a folder as prompt file", "invalid_argument", ["directory", "expected a file"], "run", "--prompt-file", "/")
add("a pipe as prompt file", "invalid_argument", ["/dev/null", "regular file"], "run", "--prompt-file", "/dev/null")

# Numbers. Twenty nines do not fit 64 bits: they must not become another number silently.
NINES = "9" * 20
for option, expected in (("-n", ">= 0"), ("--ctx", ">= 0"), ("--top-k", "whole number"), ("--repeat-last-n", "whole number"), ("--threads", "whole number"),
                         ("--seed", "0 to 18446744073709551615")):
    label = "--count" if option == "-n" else option
    for value in ("", "1.5", "1x", "0x10", NINES):
        add_run(f"{option} '{value}'", "invalid_argument", [label, expected, f"'{value}'"], option, value, hint=True)
for option in ("--temp", "--top-p", "--min-p", "--repeat-penalty", "--presence-penalty", "--frequency-penalty"):
    for value in ("", "warm", "1,5", "1e999"):
        add_run(f"{option} '{value}'", "invalid_argument", [option, "a number", f"'{value}'"], option, value, hint=True)
add_run("-n -1", "invalid_argument", ["--count", ">= 0", "'-1'"], "-n", -1, hint=True)
add_run("--seed -1", "invalid_argument", ["--seed", "'-1'"], "--seed", -1, hint=True)
add_run("--temp -0.5", "invalid_argument", ["temperature", ">= 0", "-0.5"], "--temp", -0.5)
add_run("--temp nan", "invalid_argument", ["temperature", "nan"], "--temp", "nan")
add_run("--temp inf", "invalid_argument", ["--temp", "inf"], "--temp", "inf", hint=True)
for value in ("0", "1.5", "-1", "nan"):
    add_run(f"--top-p {value}", "invalid_argument", ["top-p", "above 0 and up to 1", value], "--top-p", value)
for value in ("-0.1", "1.1", "nan"):
    add_run(f"--min-p {value}", "invalid_argument", ["min-p", "from 0 to 1", value], "--min-p", value)
for value in ("0", "-1", "nan", "1e7"):
    add_run(f"--repeat-penalty {value}", "invalid_argument", ["repeat-penalty", "1e-6 to 1e6"], "--repeat-penalty", value)
add_run("--presence-penalty nan", "invalid_argument", ["presence-penalty", "nan"], "--presence-penalty", "nan")
add_run("--frequency-penalty -1e7", "invalid_argument", ["frequency-penalty", "-1e6 to 1e6"], "--frequency-penalty", "-1e7")
add_run("--repeat-last-n -2", "invalid_argument", ["repeat-last-n", "-1 (all tokens)", "-2"], "--repeat-last-n", -2)
add_run("--top-k -3", "invalid_argument", ["top-k", "-3"], "--top-k", -3)

# Threads, kernels, placement.
for value in (-1, 100000):
    add_run(f"--threads {value}", "invalid_argument", ["threads", "0 (all processors) to", str(value)], "--threads", value)
add_run("an unknown --isa", "unsupported", ["'neon'", "usable are", "scalar"], "--isa", "neon")
add_run("an unknown --place", "unsupported", ["'gpu'", "cpu, reference"], "--place", "gpu")
add_run("an unknown place in a rule", "unsupported", ["'gpu:3'", "'gpu'", "cpu, reference"], "--place", "cpu,gpu:3")
add_run("an empty --place", "unsupported", ["''", "cpu, reference"], "--place", "")
add_run("a rule that is missing", "unsupported", ["''", "cpu, reference"], "--place", "cpu,")
add_run("cpu and reference together", "unsupported", ["cpu", "f32", "reference", "f64"], "--place", "cpu,reference:3")
add_run("a layer that the model lacks", "invalid_argument", ["'cpu:8'", "layer 8", "0 to 7"], "--place", "cpu,cpu:8")
add_run("a range that leaves the model", "invalid_argument", ["'cpu:4-99'", "layer 99", "0 to 7"], "--place", "cpu,cpu:4-99")
add_run("layers without a place", "invalid_argument", ["no rule", "layer 0's gdn", "cpu,..."], "--place", "cpu:3")
add_run("layers with the head", "invalid_argument", ["'cpu:3:head'", "0-15:mlp"], "--place", "cpu,cpu:3:head")
for rule in ("cpu:", "cpu:3-1", "cpu:-1", "cpu:legs", "cpu:1-2-3", "cpu:mlp:3", "cpu:1-2:mlp:3", "cpu:4294967296"):
    add_run(f"the rule {rule}", "invalid_argument", [f"'{rule}'", "range of layers", "mlp"], "--place", f"cpu,{rule}")

for value in ("", "8G", "8GB", "lots", "1.5", "0", "-1", "-1GiB", "8 GiB", "0.0001KiB", "9999999999TiB", "nan", "infGiB"):
    add_run(f"--gpu-memory '{value}'", "invalid_argument", ["--gpu-memory", "8GiB", "500MiB", f"'{value}'"], "--gpu-memory", value,
            hint=True)
for value in ("", "-1", "1.5", "all", NINES):
    add_run(f"--gpu-layers '{value}'", "invalid_argument", ["--gpu-layers", ">= 0", f"'{value}'"], "--gpu-layers", value, hint=True)
for place in ("auto", "reference", "cpu,cpu:3"):
    add_run(f"--gpu-layers with --place {place}", "invalid_argument", ["--gpu-layers", f"--place {place}", "give one"],
            "--gpu-layers", 3, "--place", place)

# Context.
add_run("a context above the model's", "invalid_argument", ["4097", "1 to 4096", "max_position_embeddings"], "--ctx", 4097)
add_run("a negative context", "invalid_argument", ["--ctx", ">= 0", "'-1'"], "--ctx", -1, hint=True)
add("a prompt longer than the context", "invalid_argument", ["10 tokens", "room for 4", "larger context"], "run", "-p",
    "a b c d e f g h i", "--ctx", 4)


@suite.test("no memory for the context: says how much and what there is")
def no_memory(program):
    with models.copy_of(program) as model:
        model.change_config(max_position_embeddings=1 << 30)
        # 2048 bytes a token: 2 layers, keys and values, 2 heads of 64.
        result = program.refuse("out_of_memory", ["1000000000 tokens", "needs 1.9", "state 1.86 TiB", "cpu", "available", "too much",
                                                  "smaller context"],
                                "run", model, "-p", "x", "--ctx", 1000000000)
        require("GiB available" in result.err or "MiB available" in result.err, f"nothing about what there is\n{result}")


@suite.test("a prompt that is not UTF-8 is refused")
def not_utf8(program):
    program.refuse("invalid_argument", ["UTF-8", "byte 3", "0xFF"], "run", "-p", b"abc\xff".decode(errors="surrogateescape"))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "prompt.txt")
        path.write_bytes(b"Emma \xc3\x28 was")
        program.refuse("invalid_argument", ["UTF-8", "byte 5", "0xC3"], "run", "--prompt-file", path)


@suite.test("models that are none are refused")
def no_model(program):
    with tempfile.TemporaryDirectory() as folder:
        for command in (("run", "-p", "x"), ("score", "--text", program.oracles / "tiny" / "heldout.txt"), ("inspect",)):
            program.refuse("not_found", ["no such directory", "no-such-model"], command[0], f"{folder}/no-such-model", *command[1:])
            program.refuse("not_found", ["no such file", f"{folder}/config.json"], command[0], folder, *command[1:])
            program.refuse("invalid_argument", ["config.json", "is a file", "model directory"], command[0], program.model / "config.json",
                           *command[1:])
        require_equal(list(pathlib.Path(folder).iterdir()), [], "files")
