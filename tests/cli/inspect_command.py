"""tandem inspect: numbers that can be worked out by hand."""

import models
from tap import Suite, require, require_equal

suite = Suite("inspect")


def parameters(config):
    """Worked out from the layers' matrices, apart from the program."""
    c = config
    keys = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    values = c["linear_num_value_heads"] * c["linear_value_head_dim"]
    channels = 2 * keys + values
    heads = c["linear_num_value_heads"]
    hidden = c["hidden_size"]
    linear = (hidden * (channels + values + 2 * heads)      # q, k, v; gate z; a, b
              + channels * c["linear_conv_kernel_dim"]
              + 2 * heads + c["linear_value_head_dim"]      # A_log, dt_bias; norm
              + values * hidden)
    queries, pairs = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    attention = hidden * (2 * queries + 2 * pairs) + queries * hidden + 2 * c["head_dim"]
    both = 3 * hidden * c["intermediate_size"] + 2 * hidden
    layers = c["num_hidden_layers"]
    full = layers // 4
    embedding = c["vocab_size"] * hidden * (1 if c["tie_word_embeddings"] else 2)
    return embedding + (layers - full) * linear + full * attention + layers * both + hidden


@suite.test("the shipped model")
def shipped(program):
    text = program.succeed("inspect").out
    for line in ("parameters        3542728\n", "layers            gggAgggA\n", "weights           7085456 bytes (6.76 MiB)\n",
                 "recurrent 294912 bytes, convolution 32256 bytes, keys and values 8388608 bytes for 4096 tokens"):
        require(line in text, f"no {line!r} in\n{text}")
    found = program.json("inspect")
    require_equal((found["parameters"], found["weight_bytes"], found["layers"]), (3542728, 7085456, "gggAgggA"), "facts")
    require_equal(found["state"], {"recurrent_bytes": 294912, "conv_bytes": 32256, "kv_bytes": 8388608, "context_tokens": 4096}, "state")


@suite.test("the published 27B geometry, from config.json alone")
def large(program):
    with models.config_alone(models.CONFIG_27B) as model:
        text = program.succeed("inspect", model).out
        found = program.json("inspect", model)
    for words in ("recurrent 150994944 bytes, convolution 5898240 bytes", "weights           none in this directory",
                  "64 layers, 48 Gated DeltaNet (g) and 16 full attention (A)", "gggA" * 16):
        require(words in text, f"no {words!r} in\n{text}")
    require_equal(found["parameters"], parameters(models.CONFIG_27B), "parameters")
    require_equal((found["weight_bytes"], found["layers"], found["tie_word_embeddings"]), (0, "gggA" * 16, False), "facts")
    # 16 layers, keys and values, 4 heads of 256 elements, 4 bytes each, for 4096 tokens.
    require_equal(found["state"], {"recurrent_bytes": 150994944, "conv_bytes": 5898240, "kv_bytes": 16 * 2 * 4 * 256 * 4 * 4096,
                                   "context_tokens": 4096}, "state")


@suite.test("the state of keys and values grows with --ctx, the rest does not")
def context(program):
    with models.config_alone(models.CONFIG_27B) as model:
        small, large_context = (program.json("inspect", model, "--ctx", n)["state"] for n in (4096, 262144))
    require_equal(large_context["kv_bytes"], 64 * small["kv_bytes"], "kv_bytes")
    for key in ("recurrent_bytes", "conv_bytes"):
        require_equal(large_context[key], small[key], key)


@suite.test("--kernels lists variants and marks one of each operator")
def kernels(program):
    kernels_by_backend = program.json("inspect", "--kernels")["kernels"]
    require_equal(sorted(kernels_by_backend), ["cpu", "reference"], "backends")
    for operator, variants in kernels_by_backend["cpu"].items():
        require_equal(sum(kernel["chosen"] for kernel in variants), 1, f"chosen variants of {operator}")
        require(all(kernel["usable"] for kernel in variants if kernel["chosen"]), f"{operator}: the chosen one is not usable")
    text = program.succeed("inspect", "--kernels").out
    require("[" in text and "gdn_delta" in text, f"no variants in\n{text}")


@suite.test("a negative --ctx is refused")
def negative_context(program):
    program.refuse("invalid_argument", ["--ctx", ">= 0", "'-5'"], "inspect", "--ctx", -5, hint=True)
