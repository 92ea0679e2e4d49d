"""tandem synth and --synthetic: the same model with and without files, and nothing half written."""

import json
import os
import pathlib
import shutil
import signal
import tempfile
import time

import models
from endings import catches, wait
from tap import Skipped, Suite, require, require_equal

suite = Suite("synthetic")

LAYERS, VOCAB = 4, 96
SIZES = ("--layers", LAYERS, "--vocab", VOCAB)
SPEC = f"0.8B:layers={LAYERS},vocab={VOCAB}"
# One layer and little else, for what needs any model.
SMALL = ("--layers", 1, "--vocab", 16)
SMALL_SPEC = "0.8B:layers=1,vocab=16"
IDS = "5,0,13,7"
# Writing it takes seconds: enough to be stopped in the middle.
LARGE = ("0.8B", "model", "--dtype", "f32", "--layers", 24)
PATIENCE_S = 20
STARTING_S = 60


def output(program, *model):
    found = program.json("run", *model, "--ids", IDS, "-n", 6)
    return found["output_ids"], found["model"]


def nll(program, folder, *model):
    ids, report = pathlib.Path(folder, "ids.txt"), pathlib.Path(folder, "score.json")
    ids.write_text("1 2 3 14 15 0 7 7 7 7 8")
    program.succeed("score", *model, "--ids", ids, "--json", report)
    return json.loads(report.read_text())


@suite.test("a written model and --synthetic are the same, to the last bit of a score")
def same_model(program):
    with tempfile.TemporaryDirectory() as folder:
        for options, spec in (((*SIZES,), SPEC), ((*SMALL, "--dtype", "f32", "--seed", 7), f"{SMALL_SPEC},dtype=f32,seed=7")):
            path = pathlib.Path(folder, spec)
            text = program.succeed("synth", "0.8B", path, *options).out
            require(text.startswith(f"synthetic {spec} in {path}: ") and text.count("\n") == 1, f"standard output: {text!r}")
            written, made = nll(program, folder, path), nll(program, folder, "--synthetic", spec)
            require_equal(made["nll"], written["nll"], f"nll of {spec}")
            require_equal(made["model"], f"synthetic {spec}", "the model's name")
            (ids, model), (made_ids, made_model) = output(program, path), output(program, "--synthetic", spec)
            require_equal(made_ids, ids, "output ids")
            require_equal(made_model["fingerprint"], model["fingerprint"], "fingerprint")
            require_equal(made_model, {"name": f"synthetic {spec}", "fingerprint": model["fingerprint"],
                                       "parameters": model["parameters"]}, "the model")
            require_equal(model["name"], str(path), "the directory's name")
            facts, made_facts = program.json("inspect", path), program.json("inspect", "--synthetic", spec)
            require_equal({**made_facts, "model": str(path)}, facts, "what inspect says")


@suite.test("run prints ids as <id>")
def prints_ids(program):
    ids, _ = output(program, "--synthetic", SPEC)
    require_equal(program.succeed("run", "--synthetic", SPEC, "--ids", IDS, "-n", 6).out, "".join(f"<{i}>" for i in ids) + "\n", "text")


@suite.test("the placement cannot be seen in it")
def placement(program):
    expected, _ = output(program, "--synthetic", SPEC)
    require_equal(output(program, "--synthetic", SPEC, "--threads", 3, "--isa", "scalar")[0], expected, "output ids of the scalar variant")
    require_equal(output(program, "--synthetic", SMALL_SPEC, "--place", "reference")[0], output(program, "--synthetic", SMALL_SPEC)[0],
                  "output ids of the reference")


@suite.test("a seed gives another model")
def seeds(program):
    _, first = output(program, "--synthetic", SPEC)
    _, other = output(program, "--synthetic", f"{SPEC},seed=1")
    require(first["fingerprint"] != other["fingerprint"], "the seed has no effect")


@suite.test("inspect knows the published 27B without making it")
def large(program):
    found = program.json("inspect", "--synthetic", "27B")
    require_equal((found["model"], found["parameters"], found["layers"]), ("synthetic 27B", 26895998464, "gggA" * 16), "facts")
    # Two bytes each, and two more for A_log (48) and the gated norm (128) of 48 layers.
    require_equal(found["weight_bytes"], 2 * 26895998464 + 2 * 48 * (48 + 128), "weight bytes")
    text = program.succeed("inspect", "--synthetic", "27B").out
    require(text.startswith("model             synthetic 27B\narchitecture "), f"no name in\n{text}")


@suite.test("plan counts what the backends would make, and says when that is too much")
def planned(program):
    found = program.json("plan", "--synthetic", SPEC)
    cpu = found["backends"][0]
    # Vectors are in host memory already.
    inside = program.json("inspect", "--synthetic", SPEC)["weight_bytes"]
    require(0.99 * inside < cpu["weight_bytes"] < inside and 0 < cpu["in_place_bytes"] < 0.01 * inside, f"{inside} bytes, planned {cpu}")
    result = program.run("plan", "--synthetic", "27B:layers=1024,dtype=f32", "--json")
    require_equal(result.code, 7, "exit code of more than any machine has")
    require(result.err.startswith("tandem: out_of_memory: ") and result.err.count("\n") == 1, f"standard error: {result.err!r}")


@suite.test("a run of more than the machine has is refused before anything is made")
def too_large(program):
    program.refuse("out_of_memory", ["cpu"], "run", "--synthetic", "27B:layers=1024,dtype=f32", "--ids", 1)


@suite.test("the written files are what their names and the format say")
def files(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model")
        path.mkdir()  # an empty directory may be there
        program.succeed("synth", "0.8B", f"{path}/", *SMALL)
        require_equal(sorted(p.name for p in pathlib.Path(folder).iterdir()), ["model"], "beside the model")
        require_equal(sorted(p.name for p in path.iterdir()), ["config.json", "model.safetensors"], "files")
        header, data = models.read_safetensors(path / "model.safetensors")
        require_equal(header.pop("__metadata__"), {"format": "pt"}, "metadata")
        require_equal(max(entry["data_offsets"][1] for entry in header.values()), len(data), "bytes of data")
        require_equal({name: entry["dtype"] for name, entry in header.items() if entry["dtype"] != "BF16"},
                      {"model.layers.0.linear_attn.A_log": "F32", "model.layers.0.linear_attn.norm.weight": "F32"}, "types but BF16")
        config = json.loads((path / "config.json").read_text())
        require_equal((config["architectures"], config["model_type"], config["num_hidden_layers"], config["vocab_size"]),
                      (["Qwen3_5ForCausalLM"], "qwen3_5_text", 1, 16), "config")


@suite.test("Python's safetensors reads the file")
def read_by_python(program):
    try:
        import safetensors
    except ImportError as error:
        raise Skipped("Python has no safetensors here") from error
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model")
        program.succeed("synth", "0.8B", path, *SMALL)
        found = dict(safetensors.deserialize((path / "model.safetensors").read_bytes()))
        expected = models.read_tensors(path / "model.safetensors")
        require_equal(sorted(found), sorted(expected), "names")
        for name, (dtype, shape, data) in expected.items():
            require_equal((found[name]["dtype"], found[name]["shape"]), (dtype, shape), name)
            require(bytes(found[name]["data"]) == data, f"the data of {name} differ")


def hidden(folder):
    return pathlib.Path(folder, ".model.tandem-unfinished")


def wait_until_written(process, folder):
    """Until some of the weights are on the disk."""
    end = time.monotonic() + STARTING_S
    weights = hidden(folder) / "model.safetensors"
    while not (weights.exists() and weights.stat().st_size > 1 << 20):
        require(process.poll() is None, f"ended by itself with {process.returncode}")
        require(time.monotonic() < end, f"nothing was written in {STARTING_S} s")
        time.sleep(0.005)


def folder_of(process):
    """Where the run writes: program.started gives it a folder of its own."""
    return os.readlink(f"/proc/{process.pid}/cwd")


def need_room():
    if not os.path.exists("/proc/self/cwd"):
        raise Skipped("no /proc here")
    if shutil.disk_usage(tempfile.gettempdir()).free < 4 << 30:
        raise Skipped("not enough room for a model that is stopped in the middle")


def add_interrupted(number):
    @suite.test(f"{number.name} ends synth with one line, exit code 130 and nothing left")
    def interrupted(program):
        need_room()
        with program.started("synth", *LARGE) as process:
            folder = folder_of(process)
            wait_until_written(process, folder)
            require(catches(process, number), "no handler")
            process.send_signal(number)
            code, out, err = wait(process, PATIENCE_S, f"after {number.name}")
            left = os.listdir(folder)
        require_equal((code, out, left), (130, "", []), f"exit code, standard output, files; standard error: {err!r}")
        require(err.startswith("tandem: interrupted: ") and err.count("\n") == 1, f"standard error: {err!r}")


for signal_number in (signal.SIGINT, signal.SIGTERM):
    add_interrupted(signal_number)


@suite.test("a killed synth leaves no model, and the next one cleans up and succeeds")
def killed(program):
    need_room()
    with program.started("synth", *LARGE) as process:
        folder = folder_of(process)
        wait_until_written(process, folder)
        process.kill()
        process.wait()
        require_equal(os.listdir(folder), [hidden(folder).name], "files after the kill")
        program.succeed("synth", "0.8B", "model", *SMALL, folder=folder)
        require_equal(os.listdir(folder), ["model"], "files after the next run")
        require_equal(program.json("inspect", "model", folder=folder)["vocab_size"], 16, "vocabulary of the next run's model")


@suite.test("two at a time for one directory: the second is refused, the first is not hurt")
def at_once(program):
    need_room()
    with program.started("synth", *LARGE) as process:
        folder = folder_of(process)
        wait_until_written(process, folder)
        result = program.run("synth", "0.8B", "model", *SMALL, folder=folder)
        require_equal(result.code, 10, "exit code")
        require("being made by another process" in result.err, f"standard error: {result.err!r}")
        require((hidden(folder) / "model.safetensors").exists(), "the first one's file is gone")


@suite.test("a model that the disk has no room for is refused before anything is written")
def no_room(program):
    needed = 1024 * 390_000_000 * 4
    if shutil.disk_usage(tempfile.gettempdir()).free > needed:
        raise Skipped("this disk has room for everything")
    program.refuse("io", ["no room", "TiB", "left"], "synth", "27B", "model", "--layers", 1024, "--dtype", "f32")


@suite.test("a directory that is not empty, and places where none can be, are refused")
def places(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "full")
        path.mkdir()
        (path / "mine").write_text("content")
        program.refuse("invalid_argument", ["'" + str(path) + "'", "not empty"], "synth", "0.8B", path, *SMALL)
        program.refuse("invalid_argument", ["is a file"], "synth", "0.8B", path / "mine", *SMALL)
        program.refuse("not_found", ["no such directory", "missing"], "synth", "0.8B", f"{folder}/missing/model", *SMALL)
        require_equal((path / "mine").read_text(), "content", "the file that was there")
        require_equal(os.listdir(folder), ["full"], "files")


def add_refused(name, words, *arguments, code="invalid_argument", hint=False):
    suite.add(f"{name} is refused", lambda program: program.refuse(code, words, *arguments, hint=hint))


# synth's own options.
add_refused("synth without arguments", ["GEOMETRY", "required"], "synth", hint=True)
add_refused("synth without a directory", ["DIR", "required"], "synth", "0.8B", hint=True)
add_refused("synth into ''", ["DIR", "''"], "synth", "0.8B", "", hint=True)
add_refused("an unknown geometry", ["'28B'", "0.8B, 2B, 4B, 9B, 27B"], "synth", "28B", "model")
add_refused("--dtype f16", ["--dtype", "f16", "bf16", "f32"], "synth", "0.8B", "model", "--dtype", "f16", hint=True)
for option, limit in (("--layers", "1 to 1024"), ("--vocab", "1 to 4194304"), ("--seed", "0 to 18446744073709551615")):
    for value in ("", "-1", "1.5", "9" * 20):
        add_refused(f"synth {option} '{value}'", [option, limit, f"'{value}'"], "synth", "0.8B", "model", option, value, hint=True)
add_refused("synth --layers 0", ["--layers", "1 to 1024", "'0'"], "synth", "0.8B", "model", "--layers", 0, hint=True)
add_refused("synth --threads -1", ["threads"], "synth", "0.8B", "model", "--threads", -1, *SMALL)

# Specs.
for text, expected in (("", ["unknown geometry ''", "27B"]), ("28B", ["'28B'", "27B"]), ("27B:", ["KEY=VALUE", "layers, vocab, dtype, seed"]),
                       ("27B:depth=3", ["'depth=3'", "layers, vocab, dtype, seed"]), ("27B:layers", ["'layers'", "KEY=VALUE"]),
                       ("27B:layers=1,layers=1", ["layers is given twice"]), ("27B:layers=0", ["1 to 1024", "'0'"]),
                       ("27B:vocab=1e3", ["1 to 4194304", "'1e3'"]), ("27B:dtype=f16", ["bf16 or f32", "'f16'"]),
                       ("27B:seed=-1", ["seed", "'-1'"])):
    for command in (("run", "--ids", "1"), ("inspect",), ("score", "--ids", "/dev/null")):
        add_refused(f"{command[0]} --synthetic '{text}'", expected, *command, "--synthetic", text)

# What a synthetic model has not.
add_refused("a model and --synthetic", ["--synthetic", "MODEL"], "inspect", "DIR", "--synthetic", "27B", hint=True)
add_refused("text for a synthetic model", ["no tokenizer", "--ids"], "run", "-p", "x", "--synthetic", SMALL_SPEC)
add_refused("a text to score with a synthetic model", ["no tokenizer", "--ids"], "score", "--text", "x", "--synthetic", SMALL_SPEC)
add_refused("an id above a synthetic vocabulary", ["16", "0 to 15"], "run", "--ids", "16", "--synthetic", SMALL_SPEC)
