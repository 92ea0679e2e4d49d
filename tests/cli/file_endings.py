"""Files and limits that change while a run goes on: it ends with one line, the right code and nothing left."""

import os
import pathlib
import resource
import signal
import struct
import tempfile
import time

import models
from endings import LONG_RUN, PATIENCE_S, STARTING_S, catches, wait, wait_until_caught
from program import EXIT_CODES
from tap import Suite, require, require_equal

suite = Suite("file endings")

LONG = LONG_RUN[1:]


def heldout(program):
    return program.oracles / "tiny" / "heldout.txt"


def require_line(err, code):
    require(err.startswith(f"tandem: {code}: ") and err.count("\n") == 1, f"standard error: {err!r}")


@suite.test("SIGHUP ends a run as SIGINT does")
def hangup(program):
    with program.started(*LONG_RUN) as process:
        process.stdout.read(30)
        process.send_signal(signal.SIGHUP)
        code, _, err = wait(process, PATIENCE_S, "after SIGHUP")
    require_equal(code, 130, f"exit code; standard error: {err!r}")


@suite.test("signals that are ignored stay ignored")
def ignored(program):
    def ignore():
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    with program.started(*LONG_RUN, preexec_fn=ignore) as process:
        process.stdout.read(30)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            require(not catches(process, number), f"a handler for {number.name}")
            process.send_signal(number)
        require(len(process.stdout.read(30)) > 0 and process.poll() is None, "it ended")


@suite.test("a second signal ends a run at once and leaves no file")
def second_signal(program):
    with tempfile.TemporaryDirectory() as folder:
        with program.started("state", "save", pathlib.Path(folder, "a.tds"), "--ids", ",".join(["1"] * 4000), "--place", "reference") as process:
            wait_until_caught(process, signal.SIGINT)
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
            code, _, _ = wait(process, PATIENCE_S, "after two signals")
        require(code in (130, -signal.SIGTERM, -signal.SIGINT), f"ended with {code}")
        require_equal(os.listdir(folder), [], "files")


@suite.test("a limit on the size of files is an error of the write, and leaves nothing")
def file_size(program):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    with tempfile.TemporaryDirectory() as folder:
        for arguments in (("state", "save", "{}/a", "-p", "xy"), ("run", "-p", "x", "-n", 3, "--ledger", "{}/a"),
                          ("score", "--text", heldout(program), "--max-tokens", 200, "--json", "{}/a"),
                          ("synth", "0.8B", "{}/a", "--layers", 1, "--vocab", 16)):
            result = program.run(*[str(a).replace("{}", folder) for a in arguments], preexec_fn=limit)
            require(result.code == EXIT_CODES["io"] and "File too large" in result.err, str(result))
            require_line(result.err.splitlines(keepends=True)[-1], "io")
            require_equal(os.listdir(folder), [], f"files after {arguments[0]}")


@suite.test("threads that cannot be made are an error")
def threads(program):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # a thread takes 8 MiB of addresses, and some

    with tempfile.TemporaryDirectory() as folder:
        result = program.run("run", "-p", "x", "-n", 2, "--threads", 4000, "--ledger", f"{folder}/a", preexec_fn=limit)
        require_equal(result.code, EXIT_CODES["out_of_memory"], f"exit code of\n{result}\n")
        require_line(result.err, "out_of_memory")
        require_equal(os.listdir(folder), [], "files")


def add_shrinking(name, arguments):
    @suite.test(f"weights that shrink end {name} with one line, exit code 6 and nothing left")
    def shrinks(program):
        with models.copy_of(program) as model, tempfile.TemporaryDirectory() as folder:
            values = [str(a).replace("{folder}", folder).replace("{text}", str(heldout(program))) for a in arguments]
            with program.started(values[0], model, *values[1:]) as process:
                wait_until_caught(process, signal.SIGINT)
                begun = time.monotonic()
                while not os.listdir(folder):
                    require(process.poll() is None, f"ended by itself with {process.returncode}")
                    require(time.monotonic() - begun < STARTING_S, "it does not begin")
                    time.sleep(0.01)
                os.truncate(model.weights, 4096)
                code, _, err = wait(process, STARTING_S, "after the weights shrank")
            require_equal(code, EXIT_CODES["corrupt"], f"exit code; standard error: {err!r}")
            require_line(err, "corrupt")
            require(str(model.weights) in err and "shorter" in err, f"standard error: {err!r}")
            require_equal(os.listdir(folder), [], "files")


add_shrinking("run", ("run", *LONG, "--ledger", "{folder}/ledger"))
add_shrinking("score", ("score", "--text", "{text}", "--max-tokens", 4096, "--chunk", 1, "--ledger", "{folder}/ledger"))


def add_overwritten(name, *more):
    @suite.test(f"weights that are written to in a run are noticed{name}")
    def overwritten(program):
        with models.copy_of(program) as model, tempfile.TemporaryDirectory() as folder:
            times = os.stat(model.weights)
            with program.started("run", model, "-p", "x", "-n", 600, "--ignore-eos", "--ledger", f"{folder}/ledger", *more) as process:
                process.stdout.read(30)
                with open(model.weights, "r+b") as file:
                    file.seek(-2, os.SEEK_END)
                    last = file.read(1)
                    file.seek(-2, os.SEEK_END)
                    file.write(bytes([last[0] ^ 1]))
                os.utime(model.weights, ns=(times.st_atime_ns, times.st_mtime_ns))  # the time of a change remains
                _, err = process.communicate(timeout=STARTING_S)
            require_equal(process.returncode, EXIT_CODES["corrupt"], f"exit code; standard error: {err!r}")
            last = err.decode().splitlines()[-1]
            require("written to while it was in use" in last and str(model.weights) in last, f"standard error: {err!r}")
            require_equal(os.listdir(folder), [], "files")


add_overwritten("")
add_overwritten(" with --check-weights", "--check-weights")


@suite.test("weights that are replaced by rename, or get another link, in a run change nothing")
def replaced(program):
    with models.copy_of(program) as model, tempfile.TemporaryDirectory() as folder:
        with program.started("run", model, "-p", "x", "-n", 300, "--ignore-eos", "--check-weights") as process:
            begun = process.stdout.read(30)
            os.link(model.weights, pathlib.Path(model.path, "link"))
            new = pathlib.Path(model.path, "new")
            new.write_bytes(b"other")
            os.rename(new, model.weights)
            out, err = process.communicate(timeout=STARTING_S)
        require_equal(process.returncode, 0, f"exit code; standard error: {err!r}")
        require(len(begun + out) > 100 and folder, "no text")


@suite.test("NaN in the weights is found by run, score and state save alike")
def nan_weights(program):
    with models.copy_of(program) as model, tempfile.TemporaryDirectory() as folder:
        tensors = model.tensors()
        name = next(n for n in tensors if n.endswith("norm.weight") and "layers" not in n)
        dtype, shape, data = tensors[name]
        size = {"BF16": 2, "F32": 4}[dtype]
        nan = struct.pack("<f", float("nan"))[4 - size:]
        tensors[name] = (dtype, shape, nan + data[size:])
        models.write_tensors(model.weights, tensors)
        found = [program.refuse("corrupt", ["is not a number", "damaged"], *arguments).err
                 for arguments in (("run", model, "-p", "xy", "-n", 1), ("score", model, "--text", heldout(program), "--max-tokens", 9,
                                   "--json", f"{folder}/a"), ("state", "save", f"{folder}/a", model, "-p", "Emma was here"))]
        require_equal(len(set(found)), 1, f"messages {found}")
        require_equal(os.listdir(folder), [], "files")


@suite.test("a header of 600,000 tensors is read in seconds")
def many_tensors(program):
    with models.copy_of(program) as model:
        header, data = model.header()
        end = len(data)
        header.update({f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [end, end]} for i in range(600000)})
        models.write_raw(model.weights, header, data)
        begun = resource.getrusage(resource.RUSAGE_CHILDREN)
        program.succeed("inspect", model)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - begun.ru_utime - begun.ru_stime
        require(took < 60, f"took {took:.1f} s of a processor, with a sanitizer or without")
