"""tandem check oracle: passes on right values, and says which are wrong."""

import contextlib
import json
import pathlib
import shutil
import struct
import tempfile

import models
from tap import Suite, require, require_equal

suite = Suite("check")


@contextlib.contextmanager
def copy_of_oracle(program, name):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(program.oracles / name, pathlib.Path(folder, name), copy_function=shutil.copyfile)
        yield pathlib.Path(folder, name)


def change_tensor(folder, name, change):
    """`change` makes a tensor's (dtype, shape, bytes) another."""
    path = folder / "oracle.safetensors"
    tensors = models.read_tensors(path)
    tensors[name] = change(*tensors[name])
    models.write_tensors(path, tensors)


def first_times_1_1(kind):
    """A change of one element by 10 %."""
    def change(dtype, shape, data):
        size = struct.calcsize(kind)
        return dtype, shape, struct.pack(kind, struct.unpack(kind, data[:size])[0] * 1.1) + data[size:]
    return change


def verdicts(text):
    """{tensor: verdict} of the table."""
    lines = text.splitlines()
    require(lines[0].startswith("tensor ") and lines[0].endswith("verdict"), f"no header in\n{text}")
    found = {}
    for line in lines[1:-1]:
        for word in ("OUT OF TOLERANCE", "DIFFERENT", "ok"):
            if line.endswith(word):
                found[line[:30].strip()] = word
                break
    require_equal(len(found), len(lines) - 2, f"lines with a verdict in\n{text}")
    return found


def check(program, folder, expected, *arguments):
    """Runs the check; `expected` are the lines that must not be ok: {name: verdict}."""
    result = program.run("check", "oracle", folder, *arguments)
    require_equal(result.err, "", "standard error")
    found = verdicts(result.out)
    require_equal({name: word for name, word in found.items() if word != "ok"}, expected, "lines that are not ok")
    require_equal(result.code, 1 if expected else 0, "exit code")
    require_equal(result.out.splitlines()[-1], f"{len(found)} compared, {len(expected)} out of tolerance", "the last line")
    return found


@suite.test("a layer's oracle agrees")
def layer(program):
    found = check(program, program.oracles / "gdn_small", {})
    for name in ("f64.out", "f64.out_long_last8", "hf_f32.out", "f64.S.t0.heads", "hf_f32.conv_state"):
        require(name in found, f"{name} was not compared, only {sorted(found)}")


@suite.test("a layer's oracle agrees on the reference")
def layer_reference(program):
    check(program, program.oracles / "gdn_small", {}, "--place", "reference")


@suite.test("a model's oracle agrees")
def model(program):
    found = check(program, program.oracles / "tiny", {})
    for name in ("tokenizer cases", "heldout ids", "logits_at_positions", "hidden_at_positions", "nll", "mean_nll", "argmax", "layer0.S",
                 "layer7.k_last4", "greedy tokens", "greedy texts"):
        require(name in found, f"{name} was not compared, only {sorted(found)}")


@suite.test("a model's oracle agrees on the reference")
def model_reference(program):
    check(program, program.oracles / "tiny", {}, "--place", "reference")


@suite.test("a damaged value of a layer's oracle is found, and --json has it")
def damaged_layer(program):
    with copy_of_oracle(program, "gdn_small") as folder:
        change_tensor(folder, "f64.z.t4", first_times_1_1("<d"))
        path = folder / "report.json"
        found = check(program, folder, {"f64.z.t4": "OUT OF TOLERANCE"}, "--json", path)
        lines = json.loads(path.read_text())
    require_equal({line["name"]: line["ok"] for line in lines}, {name: word == "ok" for name, word in found.items()}, "the report")
    require_equal(sorted(lines[0]), ["arithmetic_version", "elements", "max_difference", "max_rel", "max_value", "name", "ok", "tolerance"], "keys")


@suite.test("damaged values of a model's oracle are found")
def damaged_model(program):
    with copy_of_oracle(program, "tiny") as folder:
        change_tensor(folder, "logits_at_positions", first_times_1_1("<f"))
        path = folder / "oracle.json"
        content = json.loads(path.read_text())
        content["mean_nll"] += 1e-4
        content["greedy"][0]["output_ids"][5] += 1
        content["tokenize"][0]["ids"].append(7)
        path.write_text(json.dumps(content))
        check(program, folder, {"logits_at_positions": "OUT OF TOLERANCE", "mean_nll": "OUT OF TOLERANCE", "greedy tokens": "DIFFERENT",
                                "tokenizer cases": "DIFFERENT"})


@suite.test("a model with one changed weight is found")
def damaged_weights(program):
    with models.copy_of(program) as changed:
        tensors = changed.tensors()
        dtype, shape, data = tensors["model.layers.6.linear_attn.A_log"]
        tensors["model.layers.6.linear_attn.A_log"] = (dtype, shape, struct.pack("<H", 0x3F80) + data[2:])  # 1.0 for one head
        models.write_tensors(changed.weights, tensors)
        result = program.run("check", "oracle", program.oracles / "tiny", "--model", changed)
    require_equal(result.code, 1, "exit code")
    found = verdicts(result.out)
    require_equal((found["layer6.S"], found["layer5.S"], found["layer0.S"]), ("OUT OF TOLERANCE", "ok", "ok"), "verdicts on states")


def add_refused(name, code, words, damage):
    """`damage` changes a copy of the layer's oracle and may return another folder to check."""
    def refused(program):
        with copy_of_oracle(program, "gdn_small") as folder:
            checked = damage(folder) or folder
            program.refuse(code, words, "check", "oracle", checked)
    suite.add(f"{name} is refused", refused)


add_refused("a folder that is missing", "not_found", ["no-such", "oracle.json"], lambda folder: folder / "no-such")
add_refused("a folder without values", "not_found", ["oracle.safetensors"], lambda folder: (folder / "oracle.safetensors").unlink())
add_refused("oracle.json that is no JSON", "corrupt", ["oracle.json", "JSON"], lambda folder: (folder / "oracle.json").write_text("{]") and None)
add_refused("a size that is no number", "invalid_argument", ["oracle.json", "kd", "integer"],
            lambda folder: models.Model(folder).change_json("oracle.json", kd="32"))
add_refused("heads that do not divide", "invalid_argument", ["oracle.json", "vh", "kh"],
            lambda folder: models.Model(folder).change_json("oracle.json", kh=4))
add_refused("another generator", "corrupt", ["oracle.json", "first4", "x"],
            lambda folder: models.Model(folder).change_json("oracle.json", first4={"x": [0.5]}))


@suite.test("--json into a missing folder is refused before the work")
def report_into_missing_folder(program):
    program.refuse("io", ["missing/report.json"], "check", "oracle", program.oracles / "gdn_small", "--json", "missing/report.json")


@suite.test("--place with rules is refused for a layer")
def layer_place(program):
    program.refuse("unsupported", ["'gpu'", "cpu, reference"], "check", "oracle", program.oracles / "gdn_small", "--place", "gpu")


HELDOUT = pathlib.PurePosixPath("tiny", "heldout.txt")


@suite.test("check gears compares every gear with f32, on a page and in JSON")
def gears(program):
    with tempfile.TemporaryDirectory() as folder:
        page, report = pathlib.Path(folder, "gears.html"), pathlib.Path(folder, "gears.json")
        result = program.run("check", "gears", "--text", program.oracles / HELDOUT, "--tokens", 40, "--gears", "f32;bf16;q4;q4q8;mlp=q4",
                             "--no-layers", "--json", report, "--html", page)
        require_equal(result.code, 0, str(result))
        found = json.loads(report.read_text())
        texts = {text["gears"]: text for text in found["texts"]}
        require_equal(list(texts), ["f32", "bf16", "q4", "q4q8", "mlp=q4"], "gears")
        require_equal(texts["f32"]["kl_max"], 0, "KL of f32 beside itself")
        require(texts["bf16"]["kl_max"] < 1e-9 < texts["q4"]["kl_max"] < 1, f"KL {texts}")
        require_equal(texts["q4"]["weight_bytes"], texts["q4q8"]["weight_bytes"], "both 4-bit gears store the same")
        for layer in found["layers"]:
            for error in layer["real"] + layer["uniform"]:
                if error["operator"] in ("beta", "g"):
                    require_equal((error["maxrel_first"], error["rmsrel_last"]), (0, 0), f"{error} of layer {layer['layer']}")
        require_equal(sorted({layer["layer"] for layer in found["layers"]}), [0, 1, 2, 4, 5, 6], "layers")
        require("not a grade of accuracy" in page.read_text(), "the page does not say what the gate is")
        require_equal(found["faults"], [], "faults")


@suite.test("check gears refuses what it cannot compare")
def gears_refused(program):
    text = program.oracles / HELDOUT
    program.refuse("invalid_argument", ["q5"], "check", "gears", "--text", text, "--gears", "q4;q5")
    program.refuse("unsupported", ["f64"], "check", "gears", "--text", text, "--tokens", 4, "--place", "reference")
    with tempfile.TemporaryDirectory() as folder:
        one = pathlib.Path(folder, "ids.txt")
        one.write_text("5")
        program.refuse("invalid_argument", ["at least 2"], "check", "gears", "--ids", one)
