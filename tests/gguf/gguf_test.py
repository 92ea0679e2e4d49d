#!/usr/bin/env python3
"""Files that the Python package `gguf` writes, read by the program: the shipped model in every type, and every type's blocks.

usage: gguf_test.py PROGRAM DEQUANTISE
needs TANDEM_MODELS and TANDEM_TEST_DATA, and Python's gguf and numpy, or all is skipped
"""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import models  # noqa: E402
import program as programs  # noqa: E402
from tap import Skipped, Suite, require, require_equal, run  # noqa: E402

try:
    import gguf
    import numpy as np

    import to_gguf
except ImportError as error:
    gguf, why = None, f"Python has no {error.name} here (tools/lib/packages.sh says how to get it)"

suite = Suite("gguf")
PROMPT = ("-p", "It is a truth universally acknowledged, that", "-n", 16)


def kinds(*names):
    return [gguf.GGMLQuantizationType[name] for name in names]


def needs_packages(function):
    def test(program):
        if gguf is None:
            raise Skipped(why)
        with tempfile.TemporaryDirectory() as folder:
            function(program, pathlib.Path(folder))
    return test


def add(name):
    def decorate(function):
        suite.add(name, needs_packages(function))
        return function
    return decorate


def scored(program, model, folder, *arguments):
    """The negative log likelihood of every token of a text, to the last bit."""
    out = folder / "score.json"
    program.succeed("score", model, "--text", program.oracles / "tiny" / "heldout.txt", "--max-tokens", 100, "--json", out, *arguments)
    return json.loads(out.read_text())["nll"]


def written(program, folder, kind, **options):
    path = folder / f"{kind.name}.gguf"
    to_gguf.write(program.model, path, kind, **options)
    return path


def require_same_model(program, model, file, folder):
    require_equal(scored(program, file, folder), scored(program, model, folder), "likelihoods of all tokens")
    found, expected = (program.json("run", which, *PROMPT) for which in (file, model))
    for key in ("prompt_ids", "output_ids", "text", "stop_reason"):
        require_equal(found[key], expected[key], key)
    require_equal(found["model"]["fingerprint"], expected["model"]["fingerprint"], "fingerprint")


@add("a BF16 file is the directory's model in bits")
def bf16(program, folder):
    require_same_model(program, program.model, written(program, folder, *kinds("BF16")), folder)


@add("an F32 file is the F32 directory's model in bits")
def f32(program, folder):
    with models.copy_of(program) as model:
        models.write_tensors(model.weights, {name: models.converted(t, "F32") for name, t in model.tensors().items()})
        require_same_model(program, model, written(program, folder, *kinds("F32")), folder)


@add("a head that is a copy of the embedding is tied to it")
def own_head(program, folder):
    file = written(program, folder, *kinds("BF16"), own_head=True)
    require_equal(program.json("inspect", file)["tie_word_embeddings"], True, "tied")
    require_equal(program.output_ids(file, *PROMPT), program.output_ids(*PROMPT), "output ids")


@add("a quantised file is the model of its values in bits")
def quantised(program, folder):
    """The directory with the quantised values instead: dequantised by the Python package, in the checkpoint's order."""
    config = json.loads((program.model / "config.json").read_text())
    heads, dim = (config["linear_num_key_heads"], config["linear_num_value_heads"]), config["linear_value_head_dim"]
    back = (heads[1] // heads[0], heads[1])
    for kind in kinds("F16", "Q8_0", "Q4_0", "Q4_1"):
        file = written(program, folder, kind)
        with models.copy_of(program) as model:
            tensors = {}
            for name, values in to_gguf.read_model(program.model).items():
                name_in_file, converted = to_gguf.convert(name, values, config)
                if to_gguf.stored_type(name_in_file, converted, kind) == kind:
                    values = gguf.quants.dequantize(gguf.quants.quantize(converted, kind), kind)
                    values = untiled(name, values, config, back, dim)
                tensors[f"model.{name}"] = ("F32", list(values.shape), values.astype(np.float32).tobytes())
            models.write_tensors(model.weights, tensors)
            # In f32 also where the file's own type would be used as it is.
            found, expected = (scored(program, which, folder, "--gear", "f32") for which in (file, model))
            require_equal(found, expected, f"likelihoods of all tokens with {kind.name}")


def untiled(name, values, config, back, dim):
    """Tiled value heads grouped again: tiling with the other number of heads undoes it."""
    keys = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
    if name.endswith("in_proj_qkv.weight"):
        return np.concatenate([values[:keys], to_gguf.tiled(values[keys:], 0, back, dim)])
    if name.endswith("in_proj_z.weight"):
        return to_gguf.tiled(values, 0, back, dim)
    if name.endswith(("in_proj_a.weight", "in_proj_b.weight")):
        return to_gguf.tiled(values, 0, back, 1)
    return to_gguf.tiled(values, 1, back, dim) if name.endswith("out_proj.weight") else values


@add("the report says what became of every type")
def report(program, folder):
    q4_0, f16 = kinds("Q4_0", "F16")
    file = written(program, folder, q4_0, types={"token_embd.weight": f16})
    result = program.succeed("run", file, "--ids", "1,2,3", "-n", 1)
    # The small projections of Gated DeltaNet layers are never computed with in 4 bits.
    for words in ("1 tensor of type F16, 786432 bytes: dequantised to f32", "12 tensors of type Q4_0, 7776 bytes: dequantised to f32"):
        require(words in result.err, f"no {words!r} in\n{result}")
    forms = {entry["form"]: entry["tensors"] for entry in program.json("inspect", file)["gguf"]["tensors"] if entry["type"] == "Q4_0"}
    require_equal(forms, {"repacked to q4 without loss": 50, "dequantised to f32": 12}, "Q4_0")
    found = program.json("inspect", file)["gguf"]
    require_equal(found["notices"], [], "notices")
    require_equal(sorted({entry["type"] for entry in found["tensors"]}), ["F16", "F32", "Q4_0"], "types")
    require_equal(sum(entry["tensors"] for entry in found["tensors"]), 108, "tensors")
    require_equal(program.json("inspect")["gguf"], None, "of a directory")


@add("projections in Q4_0 are computed in 4 bits, other quantised ones on request")
def four_bits(program, folder):
    q4_0, q8_0 = kinds("Q4_0", "Q8_0")
    mean = lambda nll: sum(nll) / len(nll)
    file = written(program, folder, q4_0)
    as_stored, exact = scored(program, file, folder), scored(program, file, folder, "--gear", "f32")
    require_equal(as_stored, scored(program, file, folder, "--gear", "gdn=q4,attention=q4,mlp=q4"), "the gear of Q4_0")
    require(as_stored != exact and abs(mean(as_stored) - mean(exact)) < 1e-4, "the same weights, added up in another order")
    file = written(program, folder, q8_0)
    result = program.succeed("run", file, "--requantize", "q4", "--ids", "1,2,3", "-n", 1)
    require("50 tensors of type Q8_0" in result.err and "quantised to q4, with a loss" in result.err, f"not reported\n{result}")
    program.refuse("unsupported", ["GGUF"], "quantize", file, folder / "out", "--gear", "q4")


@add("layers for multi-token prediction are skipped with a notice")
def extra_layers(program, folder):
    file = written(program, folder, *kinds("BF16"), extra_layers=1,
                   extra={"blk.8.attn_norm.weight": np.zeros(192, np.float32), "blk.8.nextn.eh_proj.weight": np.zeros((4, 8), np.float32)})
    result = program.succeed("run", file, *PROMPT)
    require("2 tensors of 1 layers for multi-token prediction are not used" in result.err, f"no notice\n{result}")
    require_equal(result.out, program.succeed("run", *PROMPT).out, "text")


@add("plan, state and check take a file too")
def other_commands(program, folder):
    file = written(program, folder, *kinds("BF16"))
    plans = [program.json("plan", *which)["backends"] for which in ((), (file,))]
    for plan in plans:
        for backend in plan:
            backend.pop("available_bytes")
    require_equal(plans[1], plans[0], "the plan")
    program.succeed("state", "save", folder / "a.tds", file, "-p", "Emma was")
    require_equal(program.succeed("state", "load", folder / "a.tds", "-n", 8).out,
                  program.succeed("run", "-p", "Emma was", "-n", 8).out, "text of a state saved with the file, loaded with the directory")
    require("0 out of tolerance" in program.succeed("check", "oracle", program.oracles / "tiny", "--model", file).out, "the oracle")


@add("a damaged file is refused with one line")
def damaged(program, folder):
    content = written(program, folder, *kinds("BF16")).read_bytes()
    file = folder / "bad.gguf"
    for code, words, bad in (("corrupt", ["truncated"], content[:100000]), ("corrupt", ["truncated"], content[:1000]),
                             ("unsupported", ["version 9"], content[:4] + b"\x09" + content[5:]),
                             ("unsupported", ["qwen99", "qwen35"], content.replace(b"qwen35", b"qwen99"))):
        file.write_bytes(bad)
        for command in (("run", file, "-p", "x"), ("inspect", file), ("plan", file), ("score", file, "--text", program.model / "config.json")):
            program.refuse(code, ["bad.gguf", *words], *command)


def random_blocks(kind, blocks, generator):
    """Any bytes, but for scales that are no numbers or infinite: those are f16 with all bits of the exponent set."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    content = generator.integers(0, 256, (blocks, size), dtype=np.uint8)
    scales = {"Q4_0": [0], "Q4_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "F16": [0], "BF16": [0]}[kind.name]
    for at in scales:
        high = content[:, at + 1]
        content[:, at + 1] = np.where((high & 0x7c) == 0x7c, high & 0xbf, high)
    return content


@add("every type's blocks are dequantised to the Python package's bits")
def blocks(program, folder):
    generator = np.random.default_rng(1)
    for kind in kinds("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K"):
        rows, columns = 40, 2048
        size, bytes_of = gguf.GGML_QUANT_SIZES[kind]
        content = random_blocks(kind, rows * columns // size, generator).reshape(rows, columns // size * bytes_of)
        writer = gguf.GGUFWriter(folder / "blocks.gguf", "none")
        writer.add_tensor("values", content, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        expected = gguf.quants.dequantize(content, kind).astype(np.float32).view(np.uint32).ravel()
        for options in ([], ["--repack"]) if kind.name == "Q4_0" else ([],):
            done = subprocess.run([program.dequantise, folder / "blocks.gguf", *options], capture_output=True, check=True)
            found = np.frombuffer(done.stdout, np.uint32)
            what = f"elements and differing ones of {kind.name} {options}"
            require_equal((len(found), int(np.count_nonzero(found != expected))), (rows * columns, 0), what)


def main():
    program = programs.Program(sys.argv[1])
    program.dequantise = str(pathlib.Path(sys.argv[2]).resolve())
    raise SystemExit(1 if run(suite.tests, program) else 0)


if __name__ == "__main__":
    main()
