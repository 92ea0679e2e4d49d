"""--ledger and --trace of run and score: what they say, and that saying it changes nothing."""

import os
import pathlib
import signal
import tempfile

import observed
from endings import STARTING_S, wait
from tap import Suite, require, require_equal

suite = Suite("observe")

PROMPT = ("-p", "Emma was", "-n", 12)
HOMES = ("--homes", "cpu,cpu:1", "--place", "cpu,cpu:1:4-7")


def watched(program, *arguments, checksums=False):
    """(ledger, trace, result) of a run that writes both."""
    with tempfile.TemporaryDirectory() as folder:
        ledger, trace = pathlib.Path(folder, "a.jsonl"), pathlib.Path(folder, "a.json")
        more = ("--ledger-checksums",) if checksums else ()
        result = program.succeed(*arguments, "--ledger", ledger, "--trace", trace, *more)
        require_equal(sorted(os.listdir(folder)), ["a.json", "a.jsonl"], "files")
        return observed.Ledger(ledger), observed.Trace(trace), result


@suite.test("run: every step, layer and token once, on one backend")
def one_backend(program):
    ledger, trace, result = watched(program, "run", *PROMPT)
    require_equal(result.out, program.succeed("run", *PROMPT).out, "text")
    require_equal((ledger.header["backends"], ledger.header["homes"], ledger.header["placement"], ledger.header["checksums"]),
                  (["cpu"], [], "cpu", None), "header")
    require_equal(ledger.header["layers"], ["gdn", "gdn", "gdn", "attention"] * 2, "layers")
    require_equal(len(ledger.header["model"]["fingerprint"]), 32, "fingerprint")
    # The prompt, then 11 tokens that are fed back.
    require_equal([lines[0]["tokens"] for lines in ledger.steps().values()], [2] + [1] * 11, "tokens of the steps")
    require_equal(ledger.end["crossed_bytes"], 0, "bytes")
    layers = trace.tracks()["cpu", "layers"]
    require_equal([e["name"] for e in layers[:4]], ["embedding", "0 gdn", "0 mlp", "1 gdn"], "names")
    require_equal(len(layers), 12 * (2 * 8 + 2), "parts in the trace")
    require_equal(len(trace.tracks()["host", "steps"]), 12, "steps in the trace")


@suite.test("run: two backends, what crosses, and misses")
def two_backends(program):
    arguments = ("run", *PROMPT, *HOMES, "--miss", "1@4", "--miss", "6@7", "--policy", "migrate")
    ledger, trace, result = watched(program, *arguments)
    require_equal(result.out, program.succeed("run", *PROMPT).out, "text")
    require_equal((ledger.header["backends"], ledger.header["homes"]), (["cpu", "cpu:1"],) * 2, "backends")
    require(ledger.end["crossed_bytes"] > 0, "nothing crossed")
    require_equal(trace.bytes_in, ledger.end["crossed_bytes"], "bytes in ledger and trace")
    where = {(line["position"], line["layer"]): line["state"]["backend"] for line in ledger.layers if line["layer"] is not None}
    require_equal([where[t, 1] for t in (3, 4, 12)], ["cpu", "cpu:1", "cpu:1"], "layer 1")
    require_equal([where[t, 6] for t in (6, 7, 12)], ["cpu:1", "cpu", "cpu"], "layer 6")
    require_equal([(e["what"], e["layers"], e["tokens"], e["from"], e["to"], e["decision"], e["error"]) for e in ledger.residency],
                  [("miss", [1], 4, "cpu", "cpu:1", "migrate", None), ("miss", [6], 7, "cpu:1", "cpu", "migrate", None)], "events")
    require(all(e["bytes"] > 0 and e["ms"] > 0 and e["versions"] for e in ledger.residency), f"events: {ledger.residency}")
    require_equal(len(trace.tracks()["host", "residency"]), 2, "events in the trace")


@suite.test("run: a replay's own steps are there, too")
def replayed(program):
    ledger, _, _ = watched(program, "run", *PROMPT, "--homes", "cpu,cpu:1", "--miss", "2@5", "--policy", "replay")
    sequences = {line["sequence"] for line in ledger.layers}
    require_equal(len(sequences), 2, "sequences")
    require_equal(ledger.residency[0]["decision"], "replay", "decision")


@suite.test("--ledger-checksums: the same sums wherever the layers ran, another one for every step")
def checksums(program):
    def sums(*arguments):
        ledger, _, _ = watched(program, "run", *PROMPT, *arguments, checksums=True)
        return {(line["position"], line["layer"]): line["state"]["checksum"] for line in ledger.layers if line["layer"] is not None}
    expected = sums()
    require_equal((len(expected), len(set(expected.values()))), (12 * 8, 12 * 8), "sums")
    require_equal(sums(*HOMES, "--miss", "3@6", "--policy", "migrate_all"), expected, "sums elsewhere")
    require(sums("--homes", "cpu,cpu:1", "--miss", "2@6", "--policy", "unsafe_restart") != expected, "an unsafe restart does not show")


@suite.test("score: chunks are steps, and the numbers are the same")
def score(program):
    arguments = ("score", "--text", program.oracles / "tiny" / "heldout.txt", "--max-tokens", 50, "--chunk", 20)
    ledger, trace, result = watched(program, *arguments)
    require_equal(result.out, program.succeed(*arguments).out, "score")
    require_equal([lines[0]["tokens"] for lines in ledger.steps().values()], [20, 20, 9], "tokens of the steps")
    require_equal(len(trace.tracks()["host", "steps"]), 3, "steps in the trace")


@suite.test("an interrupted run leaves the old ledger, and no trace")
def interrupted(program):
    with tempfile.TemporaryDirectory() as folder:
        ledger, trace = pathlib.Path(folder, "a.jsonl"), pathlib.Path(folder, "a.json")
        ledger.write_text("old\n")
        with program.started("run", "-p", "x", "-n", 4000, "--ignore-eos", "--ledger", ledger, "--trace", trace) as process:
            process.stdout.read(30)
            process.send_signal(signal.SIGINT)
            code, _, err = wait(process, STARTING_S, "after SIGINT")
        require_equal((code, ledger.read_text(), os.listdir(folder)), (130, "old\n", ["a.jsonl"]), f"ending; standard error: {err!r}")


@suite.test("a run that is refused leaves the old ledger")
def refused(program):
    with tempfile.TemporaryDirectory() as folder:
        ledger = pathlib.Path(folder, "a.jsonl")
        ledger.write_text("old\n")
        program.run("run", *PROMPT, "--homes", "cpu,cpu:1", "--miss", "2@6", "--ledger", ledger)
        require_equal((ledger.read_text(), os.listdir(folder)), ("old\n", ["a.jsonl"]), "files")


@suite.test("files that cannot be are refused before anything runs")
def bad_files(program):
    for option in ("--ledger", "--trace"):
        program.refuse("invalid_argument", [option, "expected a path, got ''"], "run", *PROMPT, option, "", hint=True)
        program.refuse("io", ["no-such-folder/a"], "run", *PROMPT, option, "no-such-folder/a")
    program.refuse("invalid_argument", ["--ledger-checksums", "--ledger"], "run", *PROMPT, "--ledger-checksums", hint=True)
    program.refuse("invalid_argument", ["same file", "give two"], "run", *PROMPT, "--ledger", "a", "--trace", "./a")
