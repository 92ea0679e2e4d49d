"""tandem plan and what decides it: --place, --gpu-layers, --gpu-memory; on a machine with or without a device."""

import models
from program import EXIT_CODES, summary
from tap import Skipped, Suite, require, require_equal

suite = Suite("plan")

PROMPT = ("-p", "Emma was", "-n", 12)


def place_of(found, layer, part):
    """Backend and reason of a line."""
    lines = [line for line in found["lines"] if (line["layer"], line["part"]) == (layer, part)]
    require_equal(len(lines), 1, f"lines of {part} in layer {layer}")
    return lines[0]["backend"], lines[0]["reason"]


def has_device(program):
    return any(name.startswith("cuda:") for name in program.json("inspect", "--kernels")["kernels"])


@suite.test("says where each layer would run, why, and what that takes")
def text(program):
    text = program.succeed("plan", "--place", "cpu,cpu:3-4,cpu:head,cpu:0-1:mlp").out
    for words in ("placement: cpu,cpu:3-4,cpu:head,cpu:0-1:mlp\n", "asked for: cpu\n", "asked for: cpu:3-4\n", "asked for: cpu:head\n",
                  "asked for: cpu:0-1:mlp\n", "crossings: 0 a step, 0 bytes a token, 0 bytes an output row\n", "in place",
                  "1 sequence of 4096 tokens, its state on one backend (uniform)\n"):
        require(words in text, f"no {words!r} in\n{text}")
    require(not any(line.endswith(" ") for line in text.splitlines()), f"blanks at the end of a line in\n{text}")


@suite.test("--json has the numbers, which can be worked out by hand")
def numbers(program):
    found = program.json("plan", "--ctx", 100)
    require_equal((found["placement"], found["residency"], found["fits"], found["context_tokens"]), ("cpu", "uniform", True, 100), "facts")
    require_equal(found["crossings"], {"per_step": 0, "bytes_per_token": 0, "bytes_per_output": 0}, "crossings")
    require_equal(place_of(found, 3, "attention"), ("cpu", "asked for: cpu"), "layer 3")
    cpu, = found["backends"]
    weights = sum(line["weight_bytes"] for line in found["lines"])
    require_equal((cpu["backend"], cpu["weight_bytes"], cpu["in_place_bytes"]), ("cpu", 0, weights), "weights")
    # Six layers of two versions and the zero slot; two layers of four pages of 32 positions, keys and values, 2 heads of 64.
    state = (6 * 2 + 1) * (294912 + 32256) // 6 + 2 * 4 * 32 * 2 * 2 * 64 * 4
    require_equal(cpu["state_bytes"], state, "state")
    # Cos and sin of 100 positions and 8 pairs.
    require_equal(cpu["table_bytes"], 2 * 100 * 8 * 4, "tables")
    require_equal(cpu["total_bytes"], cpu["state_bytes"] + cpu["table_bytes"] + cpu["workspace_bytes"], "total")
    require(cpu["workspace_bytes"] > 0 and cpu["available_bytes"] > cpu["total_bytes"], f"workspace or available in {cpu}")


@suite.test("config.json alone is enough")
def without_weights(program):
    with models.config_alone(models.CONFIG_27B) as model:
        result = program.run("plan", model, "--json")
    require_equal(result.code, 0, f"exit code of\n{result}\n")
    require_equal(result.err, f"{model}: no weights there; counted as if in bf16\n", "standard error")
    found = result.json()
    require_equal(len(found["lines"]), 2 * 64 + 2, "lines")
    # Two bytes each, but for norms and other vectors.
    require(53.7e9 < found["backends"][0]["in_place_bytes"] < 53.9e9, f"weights of {found['backends']}")


@suite.test("what is not kept as it is in the files is counted as f32")
def widened(program):
    parameters = program.json("inspect")["parameters"]
    for dtype in ("F16", "F32"):
        with models.copy_of(program) as model:
            models.write_tensors(model.weights, {name: models.converted(tensor, dtype) for name, tensor in model.tensors().items()})
            require_equal(program.json("plan", model)["backends"][0]["in_place_bytes"], 4 * parameters, f"bytes of {dtype} weights")


@suite.test("the weights' files count when there are some")
def damaged_weights(program):
    with models.copy_of(program) as model:
        tensors = model.tensors()
        name = next(name for name in tensors if name.endswith("layers.2.mlp.up_proj.weight"))
        models.write_tensors(model.weights, {n: t for n, t in tensors.items() if n != name})
        program.refuse("not_found", ["layers.2.mlp.up_proj.weight", "missing"], "plan", model)
        dtype, shape, data = tensors[name]
        models.write_tensors(model.weights, {**tensors, name: (dtype, [shape[0] // 2, shape[1]], data[:len(data) // 2])})
        program.refuse("mismatch", ["layers.2.mlp.up_proj.weight", "configuration asks for"], "plan", model)


@suite.test("a plan that does not fit is printed, then refused")
def does_not_fit(program):
    with models.copy_of(program) as model:
        model.change_config(max_position_embeddings=1 << 30)
        for arguments in ((), ("--json",)):
            result = program.run("plan", model, "--ctx", 1000000000, *arguments)
            require_equal(result.code, EXIT_CODES["out_of_memory"], f"exit code of\n{result}\n")
            lines = result.err.splitlines()
            require(len(lines) == 1 and lines[0].startswith("tandem: out_of_memory: cpu: needs 1.9"), f"expected one line\n{result}")
            for words in ("available", "too much", "state 1.86 TiB"):
                require(words in lines[0], f"no {words!r} in\n{result}")
            if arguments:
                found = result.json()
                require(not found["fits"] and found["backends"][0]["missing_bytes"] > 1 << 40, f"what is missing\n{result}")
            else:
                require("does not fit: 1." in result.out, f"the table does not say so\n{result}")


@suite.test("auto without a device is the CPU, and says why")
def auto(program):
    if has_device(program):
        raise Skipped("there is a device")
    result = program.succeed("plan", "--place", "auto", "--json")
    line = "auto: everything runs on cpu: no device (cuda: "
    require(result.err.startswith(line) and result.err.count("\n") == 1, f"expected one line that begins with {line!r}\n{result}")
    found = result.json()
    require_equal(found["placement"], "cpu", "placement")
    require(place_of(found, 0, "gdn")[1].startswith("auto: no device (cuda: "), f"the reason in\n{result}")
    result = program.succeed("run", *PROMPT, "--place", "auto")
    require(result.err.startswith(line) and "placement cpu;" in result.err, f"the note and the closing line\n{result}")
    require_equal(result.out, program.succeed("run", *PROMPT).out, "text")


@suite.test("a device that is not there is refused in one line with the reason")
def no_device(program):
    if has_device(program):
        raise Skipped("there is a device")
    for place in ("cuda", "cuda:0", "cpu,cuda:gdn", "cpu,cuda:3-5", "cuda:0-3,cpu:4-7"):
        for command in (("run", "-p", "x"), ("plan",)):
            program.refuse("unsupported", ["no backend 'cuda' here (", "there are: cpu, reference"], *command, "--place", place)
    for count in (1, 8, 99):
        program.refuse("unsupported", [f"--gpu-layers {count}", "no device (cuda: "], "run", "-p", "x", "--gpu-layers", count)


@suite.test("--gpu-layers 0 is the CPU alone; --gpu-memory takes sizes")
def gpu_options(program):
    expected = program.succeed("run", *PROMPT).out
    for size in ("8GiB", "1.5GiB", "500MiB", "64KiB", "2TiB", "1000000"):
        result = program.succeed("run", *PROMPT, "--gpu-layers", 0, "--gpu-memory", size)
        require_equal((result.out, summary(result)["placement"]), (expected, "cpu"), f"text and placement with --gpu-memory {size}")
    program.succeed("plan", "--gpu-layers", 0)
    program.succeed("score", "--text", program.oracles / "tiny" / "heldout.txt", "--max-tokens", 10, "--gpu-layers", 0)
