"""Copies of the shipped model in temporary folders, to be damaged: safetensors, config.json, tokenizer.json."""

import array
import contextlib
import json
import pathlib
import shutil
import struct
import tempfile

LENGTH_BYTES = 8
FILES = ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors")

# Qwen3.5-27B as published.
CONFIG_27B = {
    "model_type": "qwen3_5_text", "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 64, "vocab_size": 248320,
    "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
    "full_attention_interval": 4, "max_position_embeddings": 262144, "rms_norm_eps": 1e-06, "tie_word_embeddings": False,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25}}


def read_safetensors(path):
    """(header, data): the JSON object and all bytes after it."""
    content = pathlib.Path(path).read_bytes()
    end = LENGTH_BYTES + struct.unpack("<Q", content[:LENGTH_BYTES])[0]
    return json.loads(content[LENGTH_BYTES:end]), content[end:]


def write_raw(path, header, data, length=None):
    """Any header, whether it is right or not: bytes, or an object. `length` is what the file claims of it."""
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)


def read_tensors(path):
    """{name: (dtype, shape, bytes)}"""
    header, data = read_safetensors(path)
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]) for name, entry in header.items()}


def write_tensors(path, tensors):
    header, position = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + len(data)]}
        position += len(data)
    write_raw(path, header, b"".join(data for _, _, data in tensors.values()))


def to_floats(bf16):
    """The values of BF16 bytes, exactly."""
    words = array.array("H", bf16)
    return array.array("f", array.array("I", [word << 16 for word in words]).tobytes())


def converted(tensor, dtype):
    """A BF16 tensor as F32 (the same values) or F16 (rounded)."""
    _, shape, data = tensor
    values = to_floats(data)
    return dtype, shape, struct.pack(f"<{len(values)}{ {'F32': 'f', 'F16': 'e'}[dtype] }", *values)


class Model:
    """A model directory that tests may change."""

    def __init__(self, path):
        self.path = path
        self.weights = path / "model.safetensors"
        self.tokenizer = path / "tokenizer.json"

    def __str__(self):
        return str(self.path)

    def change_config(self, **values):
        """Sets keys of config.json; None takes a key away."""
        self.change_json("config.json", **values)

    def change_json(self, name, **values):
        content = json.loads((self.path / name).read_text())
        content.update(values)
        (self.path / name).write_text(json.dumps({k: v for k, v in content.items() if v is not None}))

    def header(self):
        return read_safetensors(self.weights)

    def tensors(self):
        return read_tensors(self.weights)

    def write_shards(self, shards):
        """Instead of one file: [{name: tensor}], one file each, and their index."""
        self.weights.unlink()
        places = {}
        for number, tensors in enumerate(shards, 1):
            name = f"model-{number:05}-of-{len(shards):05}.safetensors"
            write_tensors(self.path / name, tensors)
            places.update(dict.fromkeys(tensors, name))
        index = {"metadata": {"total_size": 0}, "weight_map": places}
        (self.path / "model.safetensors.index.json").write_text(json.dumps(index))


@contextlib.contextmanager
def copy_of(program):
    """A copy of the shipped model."""
    with tempfile.TemporaryDirectory() as folder:
        for name in FILES:
            shutil.copyfile(program.model / name, pathlib.Path(folder, name))
        yield Model(pathlib.Path(folder))


@contextlib.contextmanager
def config_alone(config):
    """A model directory without weights."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))
        yield Model(pathlib.Path(folder))
