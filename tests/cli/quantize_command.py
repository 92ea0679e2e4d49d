"""tandem quantize and --gear: packed directories, what they say of themselves, and that they are the original in other gears."""

import json
import os
import pathlib
import signal
import tempfile

import models
from endings import catches, wait
from synth_command import folder_of, hidden, need_room, wait_until_written
from tap import Suite, require, require_equal

suite = Suite("quantize")

GEARS = "gdn=q4,mlp=q4q8,head=q4q8,layer.3=bf16"
PROMPT = ("-p", "Emma was", "-n", 12)
PATIENCE_S = 60


def text_of(program, *arguments):
    return program.succeed("run", *arguments, *PROMPT).out


@suite.test("a packed directory is the original with --gear: text, score and fingerprint")
def same_model(program):
    with tempfile.TemporaryDirectory() as folder:
        path, text = pathlib.Path(folder, "model"), pathlib.Path(folder, "text")
        text.write_text("Emma was not sorry to be able to speak of it.")
        found = program.json("quantize", program.model, path, "--gear", GEARS)
        require_equal((found["gear"], found["directory"], found["model"]), (GEARS, str(path), str(program.model)), "what was written")
        require_equal(text_of(program, path), text_of(program, program.model, "--gear", GEARS), "text")
        reports = []
        for number, arguments in enumerate(((path,), (program.model, "--gear", GEARS), (path, "--threads", 3, "--isa", "scalar"))):
            report = pathlib.Path(folder, f"{number}.json")
            program.succeed("score", *arguments, "--text", text, "--json", report)
            reports.append(json.loads(report.read_text())["nll"])
        require_equal(reports[1:], reports[:1] * 2, "negative log likelihood")


@suite.test("the table and --json of quantize add up to what is in the files")
def sums(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model")
        found = program.json("quantize", path, "--gear", GEARS)
        tensors = models.read_tensors(path / "model.safetensors")
        require_equal(found["bytes_after"], sum(len(data) for _, _, data in tensors.values()), "bytes after")
        require_equal(sum(group["bytes_after"] for group in found["groups"]), found["bytes_after"], "bytes of the groups")
        require_equal(sum(group["tensors"] for group in found["groups"]), len(tensors), "tensors")
        packed = {name: tensor for name, tensor in tensors.items() if name.endswith(".q4")}
        require_equal(len(packed), 6 * 3 + 7 * 3 + 1, "tensors in 4 bits")
        for name, (dtype, shape, data) in packed.items():
            require_equal((dtype, shape), ("U8", [len(data)]), name)
        for group in found["groups"]:
            error, in_4_bits = group["relative_rms_error"], group["gear"].startswith("q4")
            require((error is not None) == in_4_bits and (not in_4_bits or 0.02 < error < 0.15), f"the error of {group}")
        header, _ = models.read_safetensors(path / "model.safetensors")
        require_equal(header["__metadata__"], {"format": "pt", "quant_method": "tandem-raw-q4", "quant_version": "1"}, "metadata")
        config = json.loads((path / "config.json").read_text())
        require_equal(config.pop("quantization_config"), {"quant_method": "tandem-raw-q4", "version": 1, "gear": GEARS}, "announcement")
        require_equal(config, json.loads((program.model / "config.json").read_text()), "the rest of config.json")
        require_equal((path / "tokenizer.json").read_bytes(), (program.model / "tokenizer.json").read_bytes(), "tokenizer")
        table = program.succeed("quantize", program.model, pathlib.Path(folder, "other"), "--gear", "q4q8").out
        require(table.splitlines()[0].split() == ["group", "gear", "tensors", "before", "after", "rel_rms_error"], f"table\n{table}")


@suite.test("a synthetic model in 4 bits is the same with and without files")
def synthetic(program):
    spec = "0.8B:layers=4,vocab=96"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model")
        program.succeed("quantize", path, "--synthetic", spec, "--gear", "q4q8")
        runs = [program.json("run", *model, "--ids", "5,0,13", "-n", 4) for model in ((path,), ("--synthetic", spec, "--gear", "q4q8"))]
        require_equal(runs[0]["output_ids"], runs[1]["output_ids"], "output ids")
        require_equal(runs[0]["model"]["fingerprint"], runs[1]["model"]["fingerprint"], "fingerprint")
        other = program.json("run", "--synthetic", spec, "--gear", "q4", "--ids", "5,0,13", "-n", 4)
        require(other["model"]["fingerprint"] != runs[0]["model"]["fingerprint"], "q4 and q4q8 have one fingerprint")


@suite.test("inspect and plan know the gears")
def told(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model")
        program.succeed("quantize", program.model, path, "--gear", "mlp=q4")
        for arguments in ((path,), (program.model, "--gear", "mlp=q4")):
            rows = program.json("inspect", *arguments)["gears"]
            mlp = [row for row in rows if row["group"] == "mlp"]
            require_equal(mlp, [{"group": "mlp", "gear": "q4", "tensors": 24, "bytes": 24 * 384 * 192 * 18 // 32}], "mlp")
            lines = program.json("plan", *arguments)["lines"]
            planned = sum(line["weight_bytes"] for line in lines if line["part"] == "mlp")
            require_equal(planned, mlp[0]["bytes"] + 8 * 192 * 4, "planned bytes of the mlps and their norms")
        exchanged = program.json("inspect", path, "--gear", "q4q8")["gears"]
        require("q4q8" in {row["gear"] for row in exchanged if row["group"] == "mlp"}, f"gears {exchanged}")


@suite.test("an interrupted quantize leaves nothing")
def interrupted(program):
    need_room()
    with program.started("quantize", "model", "--synthetic", "0.8B:dtype=f32,layers=24", "--gear", "mlp=f32") as process:
        folder = folder_of(process)
        wait_until_written(process, folder)
        require(catches(process, signal.SIGINT), "no handler")
        process.send_signal(signal.SIGINT)
        code, out, err = wait(process, PATIENCE_S, "after SIGINT")
        left = os.listdir(folder)
    require_equal((code, out, left), (130, "", []), f"exit code, standard output, files; standard error: {err!r}")
    require(err.startswith("tandem: interrupted: ") and err.count("\n") == 1, f"standard error: {err!r}")
    require(not hidden(folder).exists(), "the hidden directory is there")


def add_refused(name, code, words, *arguments, **options):
    suite.add(f"{name} is refused", lambda program: program.refuse(code, words, *arguments, **options))


add_refused("a gear without meaning", "invalid_argument", ["gear 'mlp=q5'", "q4q8"], "run", "--gear", "q4,mlp=q5", "-p", "x")
add_refused("a gear of the embedding", "invalid_argument", ["gear 'embedding=q4'"], "inspect", "--gear", "embedding=q4")
add_refused("a gear of a layer that is not there", "invalid_argument", ["gear 'layer.8=q4'", "8 layers"], "plan", "--gear", "layer.8=q4")
add_refused("quantize without --gear", "invalid_argument", ["--gear"], "quantize", "out", hint=True)
add_refused("quantize without a directory", "invalid_argument", ["OUT"], "quantize", "--gear", "q4", hint=True)
add_refused("a model and --synthetic", "invalid_argument", ["--synthetic", "MODEL"], "quantize", "a", "b", "--synthetic", "0.8B", "--gear", "q4")


@suite.test("what is no multiple of 32 columns is refused by name")
def columns(program):
    config = {**models.CONFIG_27B, "intermediate_size": 17400}
    with models.config_alone(config) as model:
        program.refuse("mismatch", ["layers.0.mlp.down_proj.weight", "17400", "multiple of 32"], "inspect", model, "--gear", "mlp=q4")


@suite.test("4 bits asked for as something else are refused, and so is quantising them again")
def no_way_back(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model")
        program.succeed("quantize", program.model, path, "--gear", "q4")
        for arguments in (("run", path, "--gear", "bf16", "-p", "x"), ("plan", path, "--gear", "f32"), ("inspect", path, "--gear", "attention=bf16")):
            program.refuse("mismatch", ["stored in 4 bits", "q4 or q4q8"], *arguments)
        program.refuse("invalid_argument", ["in 4 bits already"], "quantize", path, "again", "--gear", "q4")
        program.refuse("invalid_argument", ["not empty"], "quantize", program.model, path, "--gear", "q4")
