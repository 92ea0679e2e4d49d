"""How runs end that do not come to their own end: Ctrl-C, readers that go away, full disks. And runs that only print help."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from program import EXIT_CODES, SUMMARY
from tap import Failure, Skipped, Suite, require, require_equal

suite = Suite("endings")

PATIENCE_S = 2
STARTING_S = 60
LONG_RUN = ("run", "-p", "x", "-n", 4000, "--ignore-eos")


def wait(process, patience, why):
    """(code, stdout, stderr) of a run that must end now."""
    start = time.monotonic()
    try:
        out, err = process.communicate(timeout=STARTING_S)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"still running {STARTING_S} s {why}") from error
    took = time.monotonic() - start
    require(took < patience, f"ended {took:.1f} s {why}, expected at most {patience} s")
    return process.returncode, out.decode(), err.decode()


def catches(process, number):
    """Whether the process has a handler of its own for the signal."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        mask = next(int(line.split()[1], 16) for line in status if line.startswith("SigCgt:"))
    return mask >> (number - 1) & 1 == 1


def wait_until_caught(process, number):
    if not os.path.exists(f"/proc/{process.pid}/status"):
        raise Skipped("no /proc here")
    end = time.monotonic() + STARTING_S
    while not catches(process, number):
        require(process.poll() is None, f"ended by itself with {process.returncode}")
        require(time.monotonic() < end, f"no handler for signal {number} after {STARTING_S} s")
        time.sleep(0.01)


def add_interrupted_run(number):
    @suite.test(f"{number.name} ends a run with the text so far and exit code 130")
    def interrupted(program):
        with program.started(*LONG_RUN) as process:
            begun = process.stdout.read(30)
            process.send_signal(number)
            code, rest, err = wait(process, PATIENCE_S, f"after {number.name}")
        require_equal(code, 130, f"exit code; standard error: {err!r}")
        closing = SUMMARY.fullmatch(err)
        require(closing is not None and closing["reason"] == "interrupted", f"the closing line: {err!r}")
        require(int(closing["new"]) < 4000, "it went on to its end")
        again = program.succeed("run", "-p", "x", "-n", closing["new"], "--ignore-eos")
        require_equal(begun.decode() + rest, again.out, "the text so far")


for signal_number in (signal.SIGINT, signal.SIGTERM):
    add_interrupted_run(signal_number)


def require_interrupted(process):
    wait_until_caught(process, signal.SIGINT)
    process.send_signal(signal.SIGINT)
    code, out, err = wait(process, PATIENCE_S, "after SIGINT")
    require_equal((code, out), (130, ""), f"exit code and standard output; standard error: {err!r}")
    require(err.startswith("tandem: interrupted: ") and err.count("\n") == 1, f"standard error: {err!r}")


@suite.test("SIGINT ends a score with one line, exit code 130 and no file")
def interrupted_score(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "score.json")
        text = program.oracles / "tiny" / "heldout.txt"
        with program.started("score", "--text", text, "--max-tokens", 4096, "--chunk", 1, "--place", "reference", "--json", path) as process:
            require_interrupted(process)
        require_equal(list(pathlib.Path(folder).iterdir()), [], "files")


@suite.test("SIGINT ends a save with one line, exit code 130 and no file")
def interrupted_save(program):
    with tempfile.TemporaryDirectory() as folder:
        ids = ",".join(["1"] * 4000)
        with program.started("state", "save", pathlib.Path(folder, "a.tds"), "--ids", ids, "--isa", "scalar", "--threads", 1) as process:
            require_interrupted(process)
        require_equal(list(pathlib.Path(folder).iterdir()), [], "files")


@suite.test("SIGINT ends a check")
def interrupted_check(program):
    with program.started("check", "oracle", program.oracles / "tiny", "--place", "reference") as process:
        process.stdout.read(30)
        process.send_signal(signal.SIGINT)
        code, _, err = wait(process, PATIENCE_S, "after SIGINT")
    require(code in (-signal.SIGINT, 130), f"ended with {code}")
    require("internal" not in err, f"standard error: {err!r}")


@suite.test("a reader that goes away ends a run")
def closed_pipe(program):
    with program.started(*LONG_RUN) as process:
        process.stdout.read(30)
        process.stdout.close()
        code = process.wait(timeout=STARTING_S)
        require(code in (-signal.SIGPIPE, 10), f"ended with {code}")


@suite.test("a reader that goes away is an error where SIGPIPE is ignored")
def ignored_sigpipe(program):
    # Python ignores SIGPIPE itself, and the program inherits that.
    with program.started(*LONG_RUN, restore_signals=False) as process:
        process.stdout.read(30)
        process.stdout.close()
        code = process.wait(timeout=STARTING_S)
        err = process.stderr.read().decode()
    require_equal((code, err), (10, "tandem: io: standard output: cannot write; is the disk full or the reader gone?\n"), "ending")


def add_full_disk(name, *arguments):
    @suite.test(f"a full disk under the output of {name}")
    def full(program):
        if not os.path.exists("/dev/full"):
            raise Skipped("no /dev/full here")
        values = [str(a).format(oracles=program.oracles) for a in arguments]
        with open("/dev/full", "wb") as disk:
            result = program.run(*values, stdout=disk)
        require_equal((result.code, result.err), (10, "tandem: io: standard output: cannot write; is the disk full or the reader gone?\n"),
                      "ending")


add_full_disk("run", "run", "-p", "x", "-n", 5)
add_full_disk("run --json", "run", "-p", "x", "-n", 5, "--json")
add_full_disk("score", "score", "--text", "{oracles}/tiny/heldout.txt", "--max-tokens", 5)
add_full_disk("inspect", "inspect")
add_full_disk("check oracle", "check", "oracle", "{oracles}/gdn_small")
add_full_disk("--help", "--help")
add_full_disk("run --help", "run", "--help")
add_full_disk("--version", "--version")


def add_help(*command):
    @suite.test(f"{' '.join(command)} --help explains with an example".strip())
    def helps(program):
        result = program.succeed(*command, "--help")
        require_equal(result.err, "", "standard error")
        lines = result.out.splitlines()
        example = " ".join(["tandem", *command])
        require(any("Example" in line for line in lines) and example in result.out, f"no example with {example!r} in\n{result.out}")
        require("Usage: tandem" in result.out and "--help" in result.out, f"no usage in\n{result.out}")


for words in ((), ("run",), ("score",), ("inspect",), ("check",), ("check", "oracle"), ("synth",), ("fallback",), ("bench",), ("bench", "roundtrip")):
    add_help(*words)


@suite.test("--help documents the exit codes")
def exit_codes(program):
    text = program.succeed("--help").out
    for code in (0, 1, 70, *EXIT_CODES.values()):
        require(re.search(rf"\b{code} [a-z]", text), f"exit code {code} is not in\n{text}")


@suite.test("--version is one line")
def version(program):
    words = program.succeed("--version").out.split(" ")
    require_equal((len(words), words[0], words[1].count("."), words[2:]), (4, "tandem", 2, ["(arithmetic", "2)\n"]), "name and versions")


@suite.test("whatever is for machines names the arithmetic version")
def arithmetic_version(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        program.succeed("run", "-p", "x", "-n", 1, "--ledger", path / "ledger", "--trace", path / "trace")
        (path / "ids").write_text("1,2,3")
        program.succeed("score", "--ids", path / "ids", "--json", path / "score")
        found = {name: json.loads((path / name).read_text().splitlines()[0]) for name in ("ledger", "score")}
        found["trace"] = json.loads((path / "trace").read_text())["otherData"]
        found["quantize"] = program.json("quantize", path / "packed", "--gear", "mlp=q4")
        found.update({command: program.json(command) for command in ("inspect", "plan")})
        found["run"] = program.json("run", "-p", "x", "-n", 1)
        found["fallback"] = program.succeed("fallback", "--json", "-").json()
    require_equal({name: output.get("arithmetic_version") for name, output in found.items()}, dict.fromkeys(found, 2), "versions")
