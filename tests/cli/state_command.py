"""tandem state: a sequence saved in the middle and continued elsewhere, and files that are not what they were."""

import contextlib
import ctypes
import pathlib
import struct
import tempfile

import models
from program import summary
from tap import Suite, require, require_equal

suite = Suite("state")

COUNT = 24
CUT = 10
SYNTHETIC = ("--synthetic", "0.8B:layers=4,vocab=512,dtype=f32")


def prompt_and_continuation(program, *sampling):
    """(ids of a prompt, ids of its uninterrupted continuation)."""
    found = program.json("run", "-p", "Emma was not a", "-n", COUNT, *sampling)
    return found["prompt_ids"], found["output_ids"]


def listed(ids):
    return ",".join(map(str, ids))


@contextlib.contextmanager
def saved(program, *arguments):
    """The path of a snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.tds")
        program.succeed("state", "save", path, *arguments)
        require_equal([p.name for p in pathlib.Path(folder).iterdir()], ["a.tds"], "what save left")
        yield path


@suite.test("a loaded sequence goes on as if it had never stopped")
def continued(program):
    for sampling in ((), ("--temp", "1.0", "--top-k", 50, "--top-p", "0.95", "--seed", 7),
                     ("--temp", "1.0", "--min-p", "0.02", "--repeat-penalty", "1.3", "--repeat-last-n", 12, "--presence-penalty", "0.1",
                      "--frequency-penalty", "0.2")):
        prompt, whole = prompt_and_continuation(program, *sampling)
        for cut in (0, 1, CUT):
            with saved(program, "--ids", listed(prompt + whole[:cut]), *sampling) as path:
                found = program.json("state", "load", path, "-n", COUNT - cut)
            require_equal(found["output_ids"], whole[cut:], f"ids from {cut} on with {sampling}")
            require_equal(found["prompt_ids"], (prompt + whole[:cut])[-1:], "the token that was to be fed next")


@suite.test("a prompt is the next turn of a loaded sequence")
def next_turn(program):
    sampling = ("--temp", "0.9", "--top-p", "0.9", "--repeat-penalty", "1.2", "--seed", 3)
    ids = program.json("run", "-p", "Emma was", "-n", 0)["prompt_ids"]
    turn = " not\nalone"
    added = program.json("run", "-p", turn, "-n", 0)["prompt_ids"]
    expected = program.output_ids("--ids", listed(ids + added), "-n", 12, *sampling)
    with saved(program, "-p", "Emma was", *sampling) as path:
        for prompt in (("-p", turn), ("-e", "-p", " not\\nalone"), ("--ids", listed(added))):
            found = program.json("state", "load", path, *prompt, "-n", 12)
            require_equal(found["output_ids"], expected, f"ids after {prompt}")
            require_equal(found["prompt_ids"], ids[-1:] + added, f"what was fed of {prompt}")
        program.refuse("invalid_argument", ["prompt is empty"], "state", "load", path, "-p", "")
        program.refuse("invalid_argument", ["--escape", "--prompt"], "state", "load", path, "-e")
        program.refuse("invalid_argument", ["2048", "0 to 2047"], "state", "load", path, "--ids", 2048)
        program.refuse("invalid_argument", ["at most 1", "--prompt", "--ids"], "state", "load", path, "--ids", 1, "-p", "x", hint=True)


@suite.test("load prints what run prints")
def same_text(program):
    arguments = ("-n", COUNT)
    run = program.succeed("run", "-p", "Emma was not a", *arguments)
    with saved(program, "-p", "Emma was not a") as path:
        load = program.succeed("state", "load", path, *arguments)
        echo = program.succeed("state", "load", path, *arguments, "--echo")
        empty = program.succeed("state", "load", path, "-n", 0)
    require_equal(load.out, run.out, "text")
    require_equal(echo.out, "Emma was not a" + run.out, "text with --echo")
    require_equal(empty.out, "\n", "text of no tokens")
    require_equal(summary(load)["new"], str(COUNT), "tokens of the closing line")
    require_equal(summary(load)["state"], summary(run)["state"], "state of the closing line")


@suite.test("the saved state can be of the first token alone, or longer than a page")
def lengths(program):
    ids = program.json("run", "-p", "Emma was", "-n", 80, "--ignore-eos")
    whole = ids["prompt_ids"] + ids["output_ids"]
    for length in (1, 2, 32, 33, 34, 70):
        expected = program.output_ids("--ids", listed(whole[:length]), "-n", 8, "--ignore-eos")
        with saved(program, "--ids", listed(whole[:length])) as path:
            found = program.json("state", "load", path, "-n", 8, "--ignore-eos")
        require_equal(found["output_ids"], expected, f"output ids after {length}")


@suite.test("other threads and variants read and write the same file")
def same_file(program):
    prompt, whole = prompt_and_continuation(program)
    usable = [name for name, there in program.variants().items() if there]
    files = set()
    for options in (("--threads", 1), ("--threads", 3), *(("--isa", name) for name in usable)):
        with saved(program, "--ids", listed(prompt + whole[:CUT]), *options) as path:
            files.add(path.read_bytes())
            for name in usable:
                found = program.json("state", "load", path, "-n", COUNT - CUT, "--isa", name)
                require_equal(found["output_ids"], whole[CUT:], f"ids saved with {options}, loaded with {name}")
    require_equal(len(files), 1, "different files")


@suite.test("f32 state is not loaded where f64 is computed, nor the other way round")
def element_types(program):
    with saved(program, "-p", "Emma was") as path:
        program.refuse("mismatch", ["a.tds", "holds f32 state", "compute in f64", "load it where they use f32"], "state", "load", path,
                       "--place", "reference")
    with saved(program, "-p", "Emma was", "--place", "reference") as path:
        require_equal(program.json("state", "info", path)["geometry"]["real"], "f64", "element type")
        expected = program.output_ids("-p", "Emma was", "-n", 8, "--place", "reference")
        found = program.json("state", "load", path, "-n", 8, "--place", "reference")
        require_equal(found["output_ids"], expected, "output ids on the reference")
        program.refuse("mismatch", ["holds f64 state", "compute in f32"], "state", "load", path)


@suite.test("another model's state is refused")
def other_model(program):
    with saved(program, "--ids", "1,2,3", *SYNTHETIC) as path:
        expected = program.output_ids("--ids", "1,2,3", "-n", 4, *SYNTHETIC)
        require_equal(program.json("state", "load", path, "-n", 4, *SYNTHETIC)["output_ids"], expected, "output ids")
        seed = (SYNTHETIC[0], SYNTHETIC[1] + ",seed=7")
        program.refuse("mismatch", ["a.tds", "model: expected"], "state", "load", path, *seed)
        program.refuse("mismatch", ["a.tds", "number of layers: expected 8, found 4"], "state", "load", path)


@suite.test("state of a model whose config differs is refused")
def other_config(program):
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}
    changes = ({"rope_parameters": {**rope, "rope_theta": 500.0}}, {"rope_parameters": {**rope, "partial_rotary_factor": 0.5}},
               {"rms_norm_eps": 0.5})
    with models.copy_of(program) as model, saved(program, "-p", "Emma was") as path:
        program.succeed("state", "load", path, model, "-n", 1)
        original = (model.path / "config.json").read_text()
        for change in changes:
            (model.path / "config.json").write_text(original)
            model.change_config(**change)
            program.refuse("mismatch", ["a.tds", "model: expected"], "state", "load", path, model)
        (model.path / "config.json").write_text(original)
        model.change_config(eos_token_id=7, max_position_embeddings=2048)
        program.succeed("state", "load", path, model, "-n", 1)
        program.refuse("mismatch", ["a.tds", "model: expected"], "state", "load", path, model, "--gear", "layer.7.mlp=f32")


class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def resealed(content):
    """Header and file with checksums that agree, by the library that the program uses."""
    function = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    function.argtypes, function.restype = (ctypes.c_char_p, ctypes.c_size_t), Hash

    def sealed(part):
        found = function(part, len(part))
        return part + struct.pack("<QQ", found.high, found.low)
    end = struct.unpack("<Q", content[16:24])[0]
    return sealed(sealed(content[:end - 16]) + content[end:-16])


@suite.test("state of another arithmetic version is shown and refused, and UNSAFE shows")
def other_arithmetic(program):
    with saved(program, "-p", "Emma was") as path:
        whole = path.read_bytes()
        require(resealed(whole) == whole, "the test does not seal as the program does")
        old = resealed(whole[:188] + struct.pack("<i", 1) + whole[192:])
        marked = resealed(whole[:36] + struct.pack("<I", 3) + whole[40:])
        copy = changed(path, lambda content: old)
        require_equal(program.json("state", "info", copy)["arithmetic_version"], 1, "arithmetic version")
        program.refuse("mismatch", ["b.tds", "arithmetic version 1", "version 2"], "state", "load", copy)
        difference = program.run("state", "diff", path, copy)
        require("arithmetic version: expected 2, found 1" in difference.out, str(difference))
        copy = changed(path, lambda content: marked)
        require_equal(program.json("state", "info", copy)["unsafe"], True, "the mark")
        require("UNSAFE" in program.succeed("state", "info", copy).out, "no mark in the text")
        require("one of them is UNSAFE" in program.run("state", "diff", path, copy).out, "no mark in the difference")


@suite.test("a context that is too small is refused")
def small_context(program):
    with saved(program, "--ids", listed(range(1, 21))) as path:
        program.refuse("invalid_argument", ["19 tokens", "limited to 10"], "state", "load", path, "--ctx", 10)
        program.refuse("invalid_argument", ["room for 0"], "state", "load", path, "--ctx", 19)
        require_equal(len(program.json("state", "load", path, "--ctx", 20, "-n", 9)["output_ids"]), 1, "tokens in a full context")


@suite.test("info shows what is in the file")
def info(program):
    with saved(program, "--ids", "39,571,4", "--temp", "0.5", "--seed", 9) as path:
        found = program.json("state", "info", path)
        text = program.succeed("state", "info", path).out
        size = path.stat().st_size
    fingerprint = program.json("run", "-p", "x", "-n", 1)["model"]["fingerprint"]
    require_equal((found["format_version"], found["arithmetic_version"], found["unsafe"]), (2, 2, False), "versions and mark")
    require_equal((found["tokens"], found["ids"], found["model"], found["bytes"]), (2, [39, 571, 4], fingerprint, size), "contents")
    require_equal(found["sampling"], {"temperature": 0.5, "top_k": 0, "top_p": 1.0, "seed": 9, "min_p": 0.0, "repeat_penalty": 1.0,
                                       "presence_penalty": 0.0, "frequency_penalty": 0.0, "repeat_last_n": 64}, "sampling")
    require_equal([layer["kind"] for layer in found["layers"]], ["recurrent", "recurrent", "recurrent", "kv"] * 2, "kinds")
    require_equal(found["geometry"]["kv"], {"kv_heads": 2, "head_dim": 64}, "keys")
    for word in (fingerprint, "39,571,4", "seed 9", "grouped", *(layer["checksum"] for layer in found["layers"])):
        require(word in text, f"the text lacks {word}\n{text}")


@suite.test("diff counts what differs, and where")
def diff(program):
    with saved(program, "--ids", "39,571,4") as a, saved(program, "--ids", "39,572,4") as b:
        same = program.succeed("state", "diff", a, a)
        require_equal(same.out, "0 of 8 layers differ\n", "a file and itself")
        require_equal(program.json("state", "diff", a, a)["same"], True, "a file and itself")
        result = program.run("state", "diff", a, b)
        found = program.run("state", "diff", a, b, "--json")
    require_equal((result.code, found.code), (1, 1), "exit codes")
    require(result.out.startswith("8 of 8 layers differ\n") and "ids differ from number 1 on" in result.out, str(result))
    found = found.json()
    require_equal((found["same"], found["first_id"], found["contract"]), (False, 1, None), "the differences")
    require_equal([layer["layer"] for layer in found["layers"]], list(range(8)), "layers that differ")
    keys = next(part for part in found["layers"][3]["parts"] if part["part"] == "keys")
    require(keys["max_difference"] > 0, f"keys: {keys}")
    require(0 < keys["different"] <= 128, f"keys of one of two positions in 2 heads of 64: {keys}")
    require_equal(sum(head["different"] for head in keys["heads"]), keys["different"], "sum over heads")


@suite.test("diff refuses what cannot be compared")
def incomparable(program):
    with saved(program, "-p", "x") as a, saved(program, "-p", "x", "--place", "reference") as b:
        program.refuse("mismatch", ["cannot be compared", "real: expected f32, found f64"], "state", "diff", a, b)


def changed(path, change):
    """A copy beside it, after a change of its bytes."""
    copy = path.with_name("b.tds")
    copy.write_bytes(change(path.read_bytes()))
    return copy


def flip(offset):
    return lambda content: content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1:]


@suite.test("verify finds every change, and so does every command that reads")
def verify(program):
    with saved(program, "--ids", "39,571,4") as path:
        result = program.succeed("state", "verify", path)
        require("2 tokens, 1 to be fed next, 8 layers" in result.out, str(result))
        layer = program.json("state", "info", path)["layers"][5]
        size = path.stat().st_size
        cases = [("corrupt", ["no snapshot", "TANDEMSS"], flip(0)),
                 ("unsupported", ["format version 1", "version 2"], lambda c: c[:8] + struct.pack("<i", 1) + c[12:]),
                 ("corrupt", ["truncated", f"{size - 1} bytes", f"{size}"], lambda c: c[:-1]),
                 ("corrupt", ["truncated", "10 bytes"], lambda c: c[:10]),
                 ("corrupt", ["empty"], lambda c: b""),
                 ("corrupt", ["grown", f"{size + 1} bytes"], lambda c: c + b"x"),
                 ("corrupt", ["header was changed"], flip(100)),
                 ("corrupt", ["layer 5 was changed"], flip(layer["offset"] + layer["bytes"] - 1)),
                 ("corrupt", ["outside of header and layers"], flip(size - 3))]
        for code, words, change in cases:
            copy = changed(path, change)
            for command in (("verify",), ("info",), ("load",), ("diff", path)):
                program.refuse(code, ["b.tds", *words], "state", *command, copy)


@suite.test("what save is told wrongly leaves no file")
def bad_saves(program):
    program.refuse("invalid_argument", ["prompt is empty"], "state", "save", "a.tds", "-p", "")
    program.refuse("invalid_argument", ["2048"], "state", "save", "a.tds", "--ids", "1,2048")
    program.refuse("invalid_argument", ["temperature"], "state", "save", "a.tds", "-p", "x", "--temp", "-1")
    program.refuse("invalid_argument", ["20 tokens", "room for 10"], "state", "save", "a.tds", "--ids", listed(range(20)), "--ctx", 10)
    program.refuse("io", ["no-such-folder/a.tds"], "state", "save", "no-such-folder/a.tds", "-p", "x")
    program.refuse("invalid_argument", ["--prompt", "required"], "state", "save", "a.tds", hint=True)
    program.refuse("invalid_argument", ["FILE"], "state", "load", hint=True)
    program.refuse("invalid_argument", ["subcommand is required"], "state", hint=True)
    program.refuse("not_found", ["no-such.tds"], "state", "load", "no-such.tds")
    program.refuse("invalid_argument", ["directory"], "state", "verify", "/")


@suite.test("a model without a tokenizer prints ids")
def without_tokenizer(program):
    with models.copy_of(program) as model, saved(program, "-p", "Emma was") as path:
        expected = program.output_ids("-p", "Emma was", "-n", 4)
        model.tokenizer.unlink()
        text = program.succeed("state", "load", path, model, "-n", 4).out
    require_equal(text, "".join(f"<{i}>" for i in expected) + "\n", "text")
