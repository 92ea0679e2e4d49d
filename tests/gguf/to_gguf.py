"""The shipped model as a GGUF file, with what the converter of llama.cpp does to the architecture qwen35: value heads from grouped to
tiled order, +1 on norms, -exp on A_log; vectors and the convolution in F32, matrices in a type that the caller chooses. Needs the
packages gguf and numpy."""

import json
import pathlib
import struct

import gguf
import numpy as np

ARCHITECTURE = "qwen35"
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5

ENDS = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
LAYER = {
    "input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight", "mlp.down_proj.weight": "ffn_down.weight",
    "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight", "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight", "self_attn.k_norm.weight": "attn_k_norm.weight",
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight", "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_a.weight": "ssm_alpha.weight", "linear_attn.in_proj_b.weight": "ssm_beta.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight", "linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.norm.weight": "ssm_norm.weight", "linear_attn.out_proj.weight": "ssm_out.weight"}


def read_model(path):
    """{name without "model.": float32 array} of a directory with BF16 or F32 tensors."""
    content = pathlib.Path(path, "model.safetensors").read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    tensors = {}
    for name, entry in json.loads(content[8:end]).items():
        if name == "__metadata__":
            continue
        data = content[end:][slice(*entry["data_offsets"])]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(data, np.float32)
        tensors[name.removeprefix("model.")] = values.reshape(entry["shape"])
    return tensors


def tiled(values, axis, heads, size):
    """Value heads along an axis from [key head][r] to [r][key head]. `heads` is (key heads, value heads)."""
    keys, all_heads = heads
    shape = list(values.shape)
    split = shape[:axis] + [keys, all_heads // keys, size] + shape[axis + 1:]
    return np.ascontiguousarray(np.swapaxes(values.reshape(split), axis, axis + 1)).reshape(shape)


def convert(name, values, config):
    """One tensor as the converter writes it: (name in the file, values)."""
    layer, _, rest = name.removeprefix("layers.").partition(".")
    in_layer = name.startswith("layers.")
    heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    size = config["linear_value_head_dim"]
    keys = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
    if rest in ("linear_attn.in_proj_qkv.weight", "linear_attn.conv1d.weight"):
        values = values.reshape(values.shape[0], -1)
        values = np.concatenate([values[:keys], tiled(values[keys:], 0, heads, size)])
    elif rest == "linear_attn.in_proj_z.weight":
        values = tiled(values, 0, heads, size)
    elif rest in ("linear_attn.in_proj_a.weight", "linear_attn.in_proj_b.weight", "linear_attn.dt_bias", "linear_attn.A_log"):
        values = tiled(values, 0, heads, 1)
    elif rest == "linear_attn.out_proj.weight":
        values = tiled(values, 1, heads, size)
    if rest == "linear_attn.A_log":
        values = -np.exp(values)
    elif name.endswith("norm.weight") and rest != "linear_attn.norm.weight":
        values = values + np.float32(1)
    return (f"blk.{layer}.{LAYER[rest]}" if in_layer else ENDS[name]), values


def add_config(writer, config, extra_layers):
    c = config
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"] + extra_layers)
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_key_length(c["head_dim"])
    writer.add_value_length(c["head_dim"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_rope_freq_base(c["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(int(c["head_dim"] * c["rope_parameters"]["partial_rotary_factor"]))
    writer.add_rope_dimension_sections(c["rope_parameters"]["mrope_section"] + [0])
    writer.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(c["linear_key_head_dim"])
    writer.add_ssm_group_count(c["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(c["linear_num_value_heads"])
    writer.add_ssm_inner_size(c["linear_num_value_heads"] * c["linear_value_head_dim"])
    writer.add_uint32(f"{ARCHITECTURE}.full_attention_interval", 4)
    if extra_layers:
        writer.add_uint32(f"{ARCHITECTURE}.nextn_predict_layers", extra_layers)


def add_tokenizer(writer, tokenizer, config):
    tokens = [f"[PAD{id}]" for id in range(config["vocab_size"])]
    types = [UNUSED] * len(tokens)
    for token, id in tokenizer["model"]["vocab"].items():
        tokens[id], types[id] = token, NORMAL
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]] = added["content"]
        types[added["id"]] = CONTROL if added["special"] else USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen35")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(config["eos_token_id"])


def stored_type(name, values, matrix_type):
    """Vectors and the convolution stay in F32, and so does what the type's blocks do not divide."""
    kept = values.ndim == 1 or name.endswith("ssm_conv1d.weight")
    block = gguf.GGML_QUANT_SIZES[matrix_type][0]
    return gguf.GGMLQuantizationType.F32 if kept or values.shape[-1] % block else matrix_type


def write(model, path, matrix_type, *, types=None, extra=None, extra_layers=0, own_head=False):
    """Writes the model directory as `path`. `types` names another type for some tensors of the file, `extra` further tensors."""
    config = json.loads(pathlib.Path(model, "config.json").read_text())
    tokenizer = json.loads(pathlib.Path(model, "tokenizer.json").read_text())
    writer = gguf.GGUFWriter(path, ARCHITECTURE)
    add_config(writer, config, extra_layers)
    add_tokenizer(writer, tokenizer, config)
    tensors = dict(convert(name, values, config) for name, values in read_model(model).items())
    if own_head:
        tensors["output.weight"] = tensors["token_embd.weight"]
    for name, values in {**tensors, **(extra or {})}.items():
        kind = (types or {}).get(name, stored_type(name, values, matrix_type))
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {name: stored_type(name, values, matrix_type) for name, values in tensors.items()}
