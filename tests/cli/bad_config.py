"""Damaged config.json."""

import models
from tap import Suite, require_equal

suite = Suite("config")

ABSURD = (0, -1, -2**63, 2**40, 10**18, 2**63, 2**64, 192.5, 1e18, "192", True, [192])
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size", "max_position_embeddings", "linear_num_key_heads",
         "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim", "num_attention_heads",
         "num_key_value_heads", "head_dim")


def add(name, code, words, **values):
    def refused(program):
        with models.copy_of(program) as model:
            model.change_config(**values)
            program.refuse(code, ["config.json", *words], "run", model, "-p", "x")
            program.refuse(code, ["config.json", *words], "inspect", model)
    suite.add(f"{name} is refused", refused)


def add_absurd(key):
    def refused(program):
        with models.copy_of(program) as model:
            for value in ABSURD:
                model.change_config(**{key: value})
                program.refuse("invalid_argument", ["config.json", key, "expected an integer of"], "inspect", model)
    suite.add(f"{key} that is no size is refused", refused)


for size in SIZES:
    add_absurd(size)
    if size not in ("max_position_embeddings", "linear_conv_kernel_dim"):  # as in transformers
        add(f"a missing {size}", "invalid_argument", [size, "missing"], **{size: None})

add("an unknown architecture", "unsupported", ["model_type", "llama", "known are qwen3_5, qwen3_5_text"], model_type="llama")
add("no architecture", "invalid_argument", ["model_type", "missing"], model_type=None)
add("mixture of experts", "unsupported", ["qwen3_5_moe_text", "mixture-of-experts"], model_type="qwen3_5_moe_text")
add("experts", "unsupported", ["num_experts", "8"], num_experts=8)
add("another activation", "unsupported", ["hidden_act", "silu", "gelu"], hidden_act="gelu")
add("another gate", "unsupported", ["output_gate_type", "swish", "sigmoid"], output_gate_type="sigmoid")
add("an epsilon that is no number", "invalid_argument", ["rms_norm_eps", "NaN"], rms_norm_eps=float("nan"))
add("biases", "unsupported", ["attention_bias"], attention_bias=True)
add("a kind of layer", "unsupported", ["layer_types[2]", "sliding_attention"],
    layer_types=["linear_attention", "full_attention", "sliding_attention"] + ["linear_attention"] * 5)
add("another number of layer types", "corrupt", ["layer_types", "8", "3"], layer_types=["linear_attention"] * 3)
add("value heads that key heads do not divide", "invalid_argument",
    ["linear_num_value_heads", "multiple of linear_num_key_heads (4)", "found 6"], linear_num_key_heads=4)
add("query heads that key/value heads do not divide", "invalid_argument",
    ["num_attention_heads", "multiple of num_key_value_heads (3)", "found 4"], num_key_value_heads=3)
add("an epsilon of 0", "invalid_argument", ["rms_norm_eps"], rms_norm_eps=0)
add("an odd rotation", "invalid_argument", ["partial_rotary_factor", "even"],
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.05})
add("another rotation", "unsupported", ["rope_type", "yarn"], rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0})
add("no theta", "invalid_argument", ["rope_theta is missing"], rope_parameters={"rope_type": "default"}, rope_theta=None)
add("a scaling of rotation", "unsupported", ["rope_scaling", "linear"], rope_scaling={"type": "linear", "factor": 2.0})
add("a factor of rotation", "unsupported", ["rope_parameters", "factor"], rope_parameters={"rope_theta": 10000.0, "factor": 2.0})
add("a theta below 1", "invalid_argument", ["rope_theta"], rope_parameters={"rope_type": "default", "rope_theta": 0.5})
add("a rotation of words", "invalid_argument", ["rope_parameters", "an object"], rope_parameters="default")


def add_text(name, code, words, text):
    def refused(program):
        with models.copy_of(program) as model:
            (model.path / "config.json").write_bytes(text)
            program.refuse(code, ["config.json", *words], "run", model, "-p", "x")
            program.refuse(code, ["config.json", *words], "inspect", model)
    suite.add(f"{name} is refused", refused)


add_text("no JSON", "corrupt", ["JSON", "byte"], b"hidden_size = 192")
add_text("half a file", "corrupt", ["JSON"], b"{\"model_type\": \"qwen3_5_text\", \"hidden_")
add_text("an empty config", "corrupt", [], b"")
add_text("a list", "invalid_argument", ["object"], b"[1, 2]")
add_text("deep nesting", "corrupt", ["nested"], b"[" * 100000 + b"]" * 100000)
add_text("a number without end", "corrupt", ["JSON"], b"{\"model_type\": 1e99999}")
add_text("other bytes", "corrupt", ["JSON"], bytes(range(128, 256)))


@suite.test("an end-of-text token of another model is named and not used")
def end_of_text(program):
    expected = program.succeed("run", "-p", "Emma was", "-n", 8)
    with models.copy_of(program) as model:
        model.change_json("generation_config.json", eos_token_id=5000)
        result = program.succeed("run", model, "-p", "Emma was", "-n", 8)
        require_equal(result.out, expected.out, "text")
        require_equal([line for line in result.err.splitlines() if "eos_token_id" in line],
                      [f"{model}/generation_config.json: eos_token_id: expected an integer of 0 to 2047, found 5000: not used"], "notice")


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32\nsize 5241\n"


@suite.test("git-lfs pointers and adapters are named as what they are")
def not_the_file(program):
    for name in ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors"):
        with models.copy_of(program) as model:
            (model.path / name).write_bytes(POINTER)
            program.refuse("corrupt", [name, "a git-lfs pointer", "git lfs pull"], "run", model, "-p", "x")
    with models.copy_of(program) as model:
        gguf = model.path / "m.gguf"
        gguf.write_bytes(POINTER)
        program.refuse("corrupt", ["m.gguf", "a git-lfs pointer"], "run", gguf, "-p", "x")
        (model.path / "adapter_config.json").write_text("{}")
        for command in (("run", model, "-p", "x"), ("inspect", model), ("plan", model)):
            program.refuse("unsupported", ["adapter_config.json", "LoRA", "merge"], *command)


@suite.test("keys that transformers has defaults for may be missing, and NaN stand where nobody reads")
def left_out(program):
    expected = program.output_ids("-p", "Emma was", "-n", 8)
    with models.copy_of(program) as model:
        model.change_config(max_position_embeddings=None, linear_conv_kernel_dim=None, router_aux_loss_coef=float("nan"),
                            limits=[float("inf"), -float("inf")], output_gate_type="swish")
        require_equal(program.output_ids(model, "-p", "Emma was", "-n", 8), expected, "output ids")


@suite.test("sizes at their limits that the weights do not have are refused without asking for memory")
def large_but_allowed(program):
    with models.copy_of(program) as model:
        model.change_config(hidden_size=65536, intermediate_size=1048576, vocab_size=1 << 22)
        program.refuse("mismatch", ["embed_tokens.weight", "[2048, 192]", "[4194304, 65536]"], "run", model, "-p", "x")


@suite.test("the largest sizes that are allowed can be inspected")
def largest(program):
    largest_sizes = {"hidden_size": 1 << 16, "intermediate_size": 1 << 20, "num_hidden_layers": 1 << 10, "vocab_size": 1 << 22,
                     "linear_num_key_heads": 1 << 10, "linear_num_value_heads": 1 << 10, "linear_key_head_dim": 1 << 10,
                     "linear_value_head_dim": 1 << 10, "num_attention_heads": 1 << 10, "num_key_value_heads": 1 << 10,
                     "head_dim": 1 << 10, "max_position_embeddings": 1 << 30}
    with models.config_alone({**models.CONFIG_27B, **largest_sizes}) as model:
        found = program.json("inspect", model)
        # 768 recurrent layers of 1024 heads of 1024 x 1024 values.
        require_equal(found["state"]["recurrent_bytes"], 768 * 4 * 2**30, "recurrent bytes")
