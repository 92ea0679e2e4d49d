"""Forms in which the same model may come: element types, shards, names, tensors that are not needed."""

import json

import models
from tap import Suite, require, require_equal

suite = Suite("model")

ARGUMENTS = ("-p", "It is a truth universally acknowledged, that", "-n", 16)
MULTIMODAL = "model.language_model."


def require_same_text(program, model, why):
    require_equal(program.output_ids(model, *ARGUMENTS), program.output_ids(*ARGUMENTS), f"output ids {why}")


@suite.test("F32 tensors of the same values give the same text")
def f32(program):
    with models.copy_of(program) as model:
        models.write_tensors(model.weights, {name: models.converted(t, "F32") for name, t in model.tensors().items()})
        require_same_text(program, model, "of the F32 model")


@suite.test("an F16 model runs")
def f16(program):
    with models.copy_of(program) as model:
        models.write_tensors(model.weights, {name: models.converted(t, "F16") for name, t in model.tensors().items()})
        require_same_text(program, model, "of the F16 model, whose values are all but equal")


@suite.test("two shards with an index are the same as one file")
def shards(program):
    with models.copy_of(program) as model:
        tensors = list(model.tensors().items())
        model.write_shards([dict(tensors[::2]), dict(tensors[1::2])])
        require(not model.weights.exists(), "the single file is still there: this test shows nothing")
        require_same_text(program, model, "of the shards")
        expected = program.json("inspect")["weight_bytes"]
        require_equal(program.json("inspect", model)["weight_bytes"], expected, "weight bytes")


@suite.test("a multimodal model's names and further tensors are accepted")
def multimodal(program):
    with models.copy_of(program) as model:
        tensors = {name.replace("model.", MULTIMODAL, 1): t for name, t in model.tensors().items()}
        tensors["model.visual.patch_embed.proj.weight"] = ("F8_E4M3", [2, 3, 1, 2, 2], bytes(24))
        tensors["mtp.layers.0.mlp.down_proj.weight"] = ("BF16", [3, 5], bytes(30))
        tensors["mtp.step"] = ("I64", [], bytes(8))
        models.write_tensors(model.weights, tensors)
        require_same_text(program, model, "of the multimodal model")


@suite.test("sizes in text_config are accepted")
def nested_config(program):
    with models.copy_of(program) as model:
        path = model.path / "config.json"
        inner = json.loads(path.read_text())
        path.write_text(json.dumps({"model_type": "qwen3_5", "text_config": inner, "tie_word_embeddings": True}))
        require_same_text(program, model, "with text_config")


@suite.test("a head of its own is used, and asked for")
def own_head(program):
    with models.copy_of(program) as model:
        model.change_config(tie_word_embeddings=False)
        program.refuse("not_found", ["lm_head.weight"], "run", model, *ARGUMENTS)
        tensors = model.tensors()
        dtype, shape, data = tensors["model.embed_tokens.weight"]
        tensors["lm_head.weight"] = (dtype, shape, data)
        models.write_tensors(model.weights, tensors)
        require_same_text(program, model, "with an equal head")
        tensors["lm_head.weight"] = (dtype, shape, bytes(len(data)))
        models.write_tensors(model.weights, tensors)
        require_equal(program.output_ids(model, *ARGUMENTS), [0] * 16, "output ids of a head of zeros")


@suite.test("a head that differs from the embedding is used though config.json ties them, an equal one is tied")
def other_head(program):
    with models.copy_of(program) as model:
        tensors = model.tensors()
        dtype, shape, data = tensors["model.embed_tokens.weight"]
        tensors["lm_head.weight"] = (dtype, shape, data)
        models.write_tensors(model.weights, tensors)
        tied = program.json("run", model, *ARGUMENTS)
        require_equal(tied["model"]["parameters"], program.json("run", *ARGUMENTS)["model"]["parameters"], "parameters with an equal head")
        require_same_text(program, model, "with an equal head")
        # The rows of the vocabulary the other way round.
        row = shape[1] * 2
        turned = b"".join(data[at:at + row] for at in range(len(data) - row, -row, -row))
        tensors["lm_head.weight"] = (dtype, shape, turned)
        models.write_tensors(model.weights, tensors)
        require(program.json("inspect", model)["tie_word_embeddings"] is False, "inspect says that it is tied")
        result = program.succeed("run", model, "-p", "It", "-n", 1, "--json")
        first = program.output_ids("-p", "It", "-n", 1)[0]
        require_equal(result.json()["output_ids"], [shape[0] - 1 - first], "the first token by the turned head")
        require("lm_head.weight differs from the embedding: it is used" in result.err, f"no notice\n{result}")
        whole = program.succeed("run", model, *ARGUMENTS, "--json").json()["output_ids"]
        packed = model.path / "packed"
        program.succeed("quantize", model, packed, "--gear", "mlp=q4")
        first = program.output_ids("-p", "It", "-n", 1, "--gear", "mlp=q4")[0]
        require_equal(program.output_ids(packed, "-p", "It", "-n", 1), [shape[0] - 1 - first], "the first token of the quantised model")
        model.change_config(tie_word_embeddings=False)
        require_equal(program.output_ids(model, *ARGUMENTS), whole, "output ids as config.json says it now")


@suite.test("tensors may lie at odd addresses")
def unaligned(program):
    with models.copy_of(program) as model:
        header, data = model.header()
        text = json.dumps(header).encode()
        models.write_raw(model.weights, text + b" " * (1 - len(text) % 2), data)
        require_equal((len(models.read_safetensors(model.weights)[1]), model.weights.stat().st_size % 2), (len(data), 1), "an odd file")
        require_same_text(program, model, "with odd addresses")
