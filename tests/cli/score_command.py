"""tandem score: perplexity, and what must not change it."""

import json
import math
import pathlib
import tempfile

from tap import Suite, require, require_equal

suite = Suite("score")


def scored(program, *arguments):
    """The object in the --json file, and what the program printed."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "score.json")
        result = program.succeed("score", *arguments, "--json", path)
        require_equal([p.name for p in pathlib.Path(folder).iterdir()], ["score.json"], "files")
        return json.loads(path.read_text()), result


def heldout(program):
    return program.oracles / "tiny" / "heldout.txt"


@suite.test("the held-out text has the oracle's perplexity")
def oracle(program):
    expected = json.loads((program.oracles / "tiny" / "oracle.json").read_text())
    found, result = scored(program, "--text", heldout(program), "--max-tokens", expected["n"])
    require_equal(sorted(found), ["arithmetic_version", "mean_nll", "model", "nll", "perplexity", "tokens"], "keys")
    require_equal((found["tokens"], len(found["nll"])), (expected["n"], expected["n"] - 1), "tokens and nll")
    require(abs(found["mean_nll"] - expected["mean_nll"]) < 1e-6, f"mean_nll {found['mean_nll']}, oracle {expected['mean_nll']}")
    require(math.isclose(found["mean_nll"], sum(found["nll"]) / len(found["nll"]), rel_tol=1e-12), "mean_nll is not the mean")
    require(math.isclose(found["perplexity"], math.exp(found["mean_nll"]), rel_tol=1e-12), "perplexity is not exp(mean_nll)")
    require_equal(result.out, f"tokens {expected['n']}  mean_nll {found['mean_nll']:.9f}  perplexity {found['perplexity']:.6f}\n",
                  "standard output")
    require_equal(result.err, "", "standard error")


@suite.test("--chunk does not change a digit")
def chunks(program):
    arguments = ("--text", heldout(program), "--max-tokens", 300)
    expected = scored(program, *arguments)[0]
    require_equal(len(expected["nll"]), 299, "number of nll")
    for chunk in (1, 3, 64, 1024):
        found = scored(program, *arguments, "--chunk", chunk)[0]
        require(found == expected, f"--chunk {chunk}: {found['mean_nll']!r} instead of {expected['mean_nll']!r}")


@suite.test("--ids with the text's ids scores the same, and --max-tokens takes the first")
def ids(program):
    text = "It is a truth universally acknowledged, that it is not"
    tokens = program.json("run", "-p", text, "-n", 0)["prompt_ids"]
    with tempfile.TemporaryDirectory() as folder:
        text_file, ids_file = pathlib.Path(folder, "a.txt"), pathlib.Path(folder, "a.ids")
        text_file.write_text(text)
        ids_file.write_text("\n".join(f"{t}," for t in tokens))
        by_text, by_ids = scored(program, "--text", text_file)[0], scored(program, "--ids", ids_file)[0]
        short = scored(program, "--ids", ids_file, "--max-tokens", 5)[0]
    require_equal(by_text["tokens"], len(tokens), "tokens")
    require_equal(by_ids, by_text, "score of the ids")
    require_equal((short["tokens"], short["nll"]), (5, by_text["nll"][:4]), "score of the first five")


@suite.test("the same digits with other threads and kernels")
def threads(program):
    arguments = ("--text", heldout(program), "--max-tokens", 100)
    expected = scored(program, *arguments)[0]
    for other in (("--threads", 1), ("--threads", 8), ("--isa", "scalar")):
        require_equal(scored(program, *arguments, *other)[0], expected, f"score with {other}")


@suite.test("the reference backend agrees")
def reference(program):
    arguments = ("--text", heldout(program), "--max-tokens", 60)
    cpu, reference_score = scored(program, *arguments)[0], scored(program, *arguments, "--place", "reference")[0]
    require(abs(cpu["mean_nll"] - reference_score["mean_nll"]) < 1e-5, f"{cpu['mean_nll']}, reference {reference_score['mean_nll']}")


@suite.test("a file that exists is replaced")
def replaced(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "score.json")
        path.write_text("x" * 100000)
        program.succeed("score", "--text", heldout(program), "--max-tokens", 5, "--json", path)
        require_equal(json.loads(path.read_text())["tokens"], 5, "tokens")


def add_refused(name, code, words, *arguments, ids_text=None, hint=False):
    def refused(program):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "input.ids")
            if ids_text is not None:
                path.write_bytes(ids_text)
            values = [str(a).format(file=path, folder=folder, heldout=heldout(program)) for a in arguments]
            program.refuse(code, words, "score", *values, hint=hint)
            require_equal([p.name for p in pathlib.Path(folder).iterdir()], ["input.ids"] * (ids_text is not None), "files")
    suite.add(f"{name} is refused", refused)


add_refused("no input", "invalid_argument", ["--text", "--ids"], hint=True)
add_refused("two inputs", "invalid_argument", ["--text", "--ids", "2 were given"], "--text", "{heldout}", "--ids", "{file}", hint=True)
add_refused("one token", "invalid_argument", ["at least two tokens", "1"], "--ids", "{file}", ids_text=b"17\n")
add_refused("no token", "invalid_argument", ["at least two tokens", "0"], "--ids", "{file}", ids_text=b"")
add_refused("an ids file with words", "invalid_argument", ["input.ids", "token ids", "byte 4"], "--ids", "{file}", ids_text=b"1, 2x")
add_refused("an ids file of other bytes", "invalid_argument", ["input.ids", "token ids", "byte 0"], "--ids", "{file}",
            ids_text=bytes([0, 255, 128]))
add_refused("an id that no int holds", "invalid_argument", ["input.ids", "byte 2", "too large"], "--ids", "{file}", ids_text=b"1 3000000000")
add_refused("an id outside the vocabulary", "invalid_argument", ["2048", "0 to 2047"], "--ids", "{file}", ids_text=b"1 2048 3")
add_refused("a negative id", "invalid_argument", ["-3", "0 to 2047"], "--ids", "{file}", ids_text=b"1 -3 3")
add_refused("an ids file that is missing", "not_found", ["input.ids"], "--ids", "{file}")
add_refused("a text that is missing", "not_found", ["input.ids"], "--text", "{file}")
add_refused("a text that is not UTF-8", "invalid_argument", ["UTF-8", "byte 4", "0xFF"], "--text", "{file}", ids_text=b"abc \xff\xfe")
add_refused("a folder as text", "invalid_argument", ["directory"], "--text", "{folder}")
add_refused("more tokens than the context", "invalid_argument", ["200", "100", "--max-tokens"], "--text", "{heldout}", "--max-tokens", 200,
            "--ctx", 100)
add_refused("more tokens than the model takes", "invalid_argument", ["4096", "--max-tokens"], "--text", "{heldout}")
add_refused("--max-tokens -1", "invalid_argument", ["--max-tokens", ">= 0", "'-1'"], "--text", "{heldout}", "--max-tokens", -1, hint=True)
add_refused("--chunk 0", "invalid_argument", ["--chunk", "1 to 65536", "'0'"], "--text", "{heldout}", "--chunk", 0, hint=True)
add_refused("--json into a missing folder", "io", ["missing/score.json", "No such file"], "--text", "{heldout}", "--max-tokens", 5,
            "--json", "{folder}/missing/score.json")


@suite.test("--json onto a folder is refused, and leaves nothing beside it")
def onto_folder(program):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "taken").mkdir()
        program.refuse("io", ["taken", "directory"], "score", "--text", heldout(program), "--max-tokens", 5, "--json", f"{folder}/taken")
        require_equal([p.name for p in pathlib.Path(folder).iterdir()], ["taken"], "files")
