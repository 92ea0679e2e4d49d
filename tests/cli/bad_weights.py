"""Damaged weights: what a broken download or a wrong conversion leaves."""

import json
import struct

import models
from tap import Suite, require

suite = Suite("weights")

NORM = "model.norm.weight"
QKV = "model.layers.1.linear_attn.in_proj_qkv.weight"


def add(name, code, words, damage):
    """`damage` changes a copy of the model."""
    def refused(program):
        with models.copy_of(program) as model:
            damage(model)
            program.refuse(code, words, "run", model, "-p", "x")
    suite.add(f"{name} is refused", refused)


def add_bytes(name, words, change):
    """`change` makes the file's bytes others; the whole header is checked, so inspect must refuse it, too."""
    def refused(program):
        with models.copy_of(program) as model:
            model.weights.write_bytes(change(model.weights.read_bytes()))
            for arguments in (("run", model, "-p", "x"), ("inspect", model)):
                program.refuse("corrupt", ["model.safetensors", *words], *arguments)
    suite.add(f"{name} is refused", refused)


def add_entry(name, words, change, tensor=QKV):
    """`change` changes the header's entry of one tensor."""
    def damage(model):
        header, data = model.header()
        change(header[tensor])
        models.write_raw(model.weights, header, data)
    add(name, "corrupt", ["model.safetensors", *words], damage)


def add_tensor(name, code, words, change, tensor=QKV):
    """`change` makes a tensor's (dtype, shape, bytes) another, in a file that is whole."""
    def damage(model):
        tensors = model.tensors()
        tensors[tensor] = change(*tensors[tensor])
        models.write_tensors(model.weights, tensors)
    add(name, code, [tensor.removeprefix("model."), *words], damage)


def with_length(length):
    return lambda content: struct.pack("<Q", length) + content[8:]


add_bytes("an empty file", ["empty"], lambda content: b"")
add_bytes("a file of 5 bytes", ["5 bytes", "at least 8"], lambda content: content[:5])
add_bytes("a truncated header", ["truncated"], lambda content: content[:1000])
add_bytes("truncated data", ["truncated", NORM], lambda content: content[:-1])
add_bytes("half of the data", ["truncated"], lambda content: content[:3000000])
add_bytes("more data than tensors", ["cover"], lambda content: content + b"\0")
add_bytes("a header length beyond the file", ["header of 90000000 bytes", "truncated"], with_length(90000000))
add_bytes("a header length of 2^64 - 1", ["18446744073709551615", "safetensors"], with_length(2**64 - 1))
add_bytes("a header length of 2^63", ["9223372036854775808", "safetensors"], with_length(2**63))
add_bytes("a header length of 0", ["JSON"], with_length(0))
add_bytes("a header that is cut short", ["JSON"], with_length(5000))
add_bytes("a header that is no JSON", ["JSON", "byte 1"], lambda content: content[:8] + b"x" + content[9:])
add_bytes("another kind of file", ["safetensors"], lambda content: b"PK\x03\x04\x14\x00\x08\x08" + content)

add("a header that is a list", "corrupt", ["header", "array"], lambda model: models.write_raw(model.weights, [1], b""))
add("a header that is nested deeply", "corrupt", ["nested"],
    lambda model: models.write_raw(model.weights, b"[" * 100000 + b"]" * 100000, b""))
add("a header without tensors", "not_found", ["embed_tokens.weight", "missing"], lambda model: models.write_raw(model.weights, {}, b""))


def move(by):
    def change(entry):
        entry["data_offsets"] = [offset + by for offset in entry["data_offsets"]]
    return change


add_entry("overlapping data", ["overlap"], move(-4))
add_entry("a hole in the data", ["hole"], move(4), tensor=NORM.replace("norm", "layers.7.self_attn.v_proj"))
add_entry("data out of the file", [QKV, "leave"], move(10**12))
add_entry("data at 2^63", [QKV, "63 bits"], move(2**63))
add_entry("data that end before they begin", [QKV, "end before they begin"], lambda e: e["data_offsets"].reverse())
add_entry("negative offsets", [QKV, "data_offsets"], lambda e: e.update(data_offsets=[-4, 172028]))
add_entry("one offset", [QKV, "data_offsets"], lambda e: e.update(data_offsets=[1]))
add_entry("a shape that the data do not have", [QKV, "[448, 193]"], lambda e: e.update(shape=[448, 193]))
add_entry("a shape that overflows", [QKV, "63 bits"], lambda e: e.update(shape=[2**62, 2**62]))
add_entry("a shape that wraps to the right size", [QKV], lambda e: e.update(shape=[2**32 + 448, 2**32, 192]))
add_entry("a negative shape", [QKV, "shape", "-448"], lambda e: e.update(shape=[-448, -192]))
add_entry("a fractional shape", [QKV, "shape", "448.5"], lambda e: e.update(shape=[448.5, 192]))
add_entry("no shape", [QKV, "shape is missing"], lambda e: e.pop("shape"))
add_entry("a type that is no word", [QKV, "dtype"], lambda e: e.update(dtype=16))

add_tensor("a transposed tensor", "mismatch", ["[192, 448]", "[448, 192]"], lambda t, s, d: (t, s[::-1], d))
add_tensor("a tensor of another size", "mismatch", ["[447, 192]", "[448, 192]"], lambda t, s, d: (t, [447, 192], d[:447 * 192 * 2]))
add_tensor("a tensor of another rank", "mismatch", ["[86016]", "[448, 192]"], lambda t, s, d: (t, [448 * 192], d))
add_tensor("a norm of another size", "mismatch", ["[191]", "[192]"], lambda t, s, d: (t, [191], d[2:]), tensor=NORM)
@suite.test("a shape that does not fit names the shard")
def shard(program):
    with models.copy_of(program) as model:
        tensors = model.tensors()
        dtype, shape, data = tensors[QKV]
        tensors[QKV] = (dtype, shape[::-1], data)
        items = list(tensors.items())
        model.write_shards([dict(items[:50]), dict(items[50:])])
        name = f"model-{1 if QKV in dict(items[:50]) else 2:05}-of-00002.safetensors"
        for arguments in (("run", model, "-p", "x"), ("inspect", model)):
            program.refuse("mismatch", [name, QKV, "[192, 448]", "[448, 192]"], *arguments)


add_tensor("I32 weights", "mismatch", ["i32", "f32, bf16 or f16"], lambda t, s, d: ("I32", s, d + d))
add_tensor("F64 weights", "mismatch", ["f64", "f32, bf16 or f16"], lambda t, s, d: ("F64", s, d * 4))
add_tensor("F8 weights", "unsupported", ["F8_E4M3", "convert"], lambda t, s, d: ("F8_E4M3", s, d[::2]))
add_tensor("weights of an unknown type", "unsupported", ["F2_X", "convert"], lambda t, s, d: ("F2_X", s, d))
add_tensor("weights of nine dimensions", "unsupported", ["9 dimensions"], lambda t, s, d: (t, [1] * 7 + s, d))


def add_missing(tensor):
    def damage(model):
        tensors = model.tensors()
        del tensors[tensor]
        models.write_tensors(model.weights, tensors)
    add(f"a file without {tensor}", "not_found", [tensor.removeprefix("model."), "missing"], damage)


for missing in (QKV, NORM, "model.embed_tokens.weight", "model.layers.7.self_attn.q_norm.weight"):
    add_missing(missing)


def split(model):
    tensors = list(model.tensors().items())
    model.write_shards([dict(tensors[:50]), dict(tensors[50:])])


def change_index(change):
    def damage(model):
        split(model)
        path = model.path / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        text = change(index)
        path.write_text(text if isinstance(text, str) else json.dumps(index))
    return damage


def without_second_shard(model):
    split(model)
    (model.path / "model-00002-of-00002.safetensors").unlink()


INDEX = "model.safetensors.index.json"
add("a missing shard", "not_found", ["model-00002-of-00002.safetensors", "download"], without_second_shard)
add("an index that is no JSON", "corrupt", [INDEX, "JSON"], change_index(lambda index: "{"))
add("an index without a map", "corrupt", [INDEX, "weight_map"], change_index(lambda index: "{}"))
add("an index that lies", "corrupt", [INDEX, QKV, "does not have it"],
    change_index(lambda index: index["weight_map"].update({QKV: "model-00002-of-00002.safetensors"})))
add("an index that leaves its folder", "corrupt", [INDEX, "../", "plain name"],
    change_index(lambda index: index["weight_map"].update({QKV: "../other.safetensors"})))
add("a directory without weights", "not_found", ["no weights", "model.safetensors"], lambda model: model.weights.unlink())


@suite.test("a weight that is not a number is found, not printed as text")
def not_a_number(program):
    with models.copy_of(program) as model:
        tensors = model.tensors()
        dtype, shape, data = tensors[NORM]
        tensors[NORM] = (dtype, shape, struct.pack("<H", 0x7FC0) + data[2:])
        models.write_tensors(model.weights, tensors)
        result = program.refuse("corrupt", ["not a number", "weights"], "run", model, "-p", "x")
        require("internal" not in result.err, f"{result}")
