"""Runs the program as its users do, and checks what every run must fulfil: it ends by itself, in time, with a documented exit code,
and when it refuses, it says so in one line on standard error, prints nothing and leaves no file."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile

from tap import Failure, require, require_equal

TIMEOUT_S = 600  # with AddressSanitizer the longest run takes 45 s of a processor, which other work may share
LONGEST_MESSAGE = 500
HINT = "Run with --help for more."

# tools/command.cpp; tests spell them by name only.
EXIT_CODES = {"invalid_argument": 2, "not_found": 3, "unsupported": 4, "mismatch": 5, "corrupt": 6, "out_of_memory": 7,
              "not_resident": 8, "device_lost": 9, "io": 10, "interrupted": 130}


@dataclasses.dataclass
class Result:
    command: list
    code: int
    out: str
    err: str

    def __str__(self):
        ended = f"signal {signal.Signals(-self.code).name}" if self.code < 0 else f"exit code {self.code}"
        return f"{' '.join(map(repr, self.command))}\n{ended}\nstdout: {self.out[:2000]!r}\nstderr: {self.err[:2000]!r}"

    def json(self):
        try:
            return json.loads(self.out)
        except ValueError as error:
            raise Failure(f"standard output is no JSON ({error})\n{self}") from error


class Program:
    """The program under test, run in an empty folder of its own."""

    def __init__(self, path):
        self.path = str(pathlib.Path(path).resolve())
        self.model = pathlib.Path(os.environ["TANDEM_MODELS"]).resolve() / "tiny"
        self.oracles = pathlib.Path(os.environ["TANDEM_TEST_DATA"]).resolve() / "oracle"

    def environment(self, changes):
        environment = {**os.environ, **changes}
        return {name: value for name, value in environment.items() if value is not None}

    def run(self, *arguments, env=None, folder=None, stdout=subprocess.PIPE, **options):
        """One run to its end. A hang, a death by signal and an internal error are failures whatever the test is about."""
        command = [self.path, *map(str, arguments)]
        with contextlib.ExitStack() as stack:
            folder = folder or stack.enter_context(tempfile.TemporaryDirectory())
            try:
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, cwd=folder,
                                      env=self.environment(env or {}), timeout=TIMEOUT_S, check=False, **options)
            except subprocess.TimeoutExpired as error:
                raise Failure(f"{command}\nstill running after {TIMEOUT_S} s") from error
        text = [(stream or b"").decode(errors="backslashreplace") for stream in (done.stdout, done.stderr)]
        result = Result(command[1:], done.returncode, *text)
        require(result.code >= 0, f"died\n{result}")
        require(result.code in (0, 1, *EXIT_CODES.values()), f"an exit code that is not documented, or an internal error\n{result}")
        return result

    def succeed(self, *arguments, **options):
        """A run that must do what it was asked."""
        result = self.run(*arguments, **options)
        require(result.code == 0, f"expected exit code 0\n{result}")
        return result

    def json(self, *arguments, **options):
        """The object that a successful run prints."""
        result = self.succeed(*arguments, "--json", **options)
        require(result.err == "", f"expected nothing on standard error\n{result}")
        return result.json()

    def output_ids(self, *arguments, **options):
        return self.json("run", *arguments, **options)["output_ids"]

    def refuse(self, code, words, *arguments, hint=False, **options):
        """A run that must fail with one line of this code that has these words, and without any other effect. With `hint`, the line
        about --help that belongs to the arguments themselves comes after it."""
        with tempfile.TemporaryDirectory() as folder:
            result = self.run(*arguments, folder=folder, **options)
            left = os.listdir(folder)
        require(result.code == EXIT_CODES[code], f"expected exit code {EXIT_CODES[code]} ({code})\n{result}")
        require(result.out == "", f"expected nothing on standard output\n{result}")
        lines = result.err.splitlines()
        if hint:
            require(lines[1:] == [HINT], f"expected one line and the hint\n{result}")
        else:
            require(len(lines) == 1, f"expected one line\n{result}")
        require(lines[0].startswith(f"tandem: {code}: "), f"expected a line that begins with 'tandem: {code}: '\n{result}")
        require(len(lines[0]) <= LONGEST_MESSAGE, f"a message of {len(lines[0])} characters\n{result}")
        missing = [word for word in words if word not in lines[0]]
        require(not missing, f"the message lacks {missing}\n{result}")
        require_equal(left, [], f"files that were left by\n{result}\n")
        return result

    @contextlib.contextmanager
    def started(self, *arguments, **options):
        """A run that is going on; it is killed if the test does not wait for its end."""
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen([self.path, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, cwd=folder, env=self.environment({}), bufsize=0, **options)
            try:
                yield process
            finally:
                process.kill()
                process.wait()
                for stream in (process.stdout, process.stderr):
                    if not stream.closed:
                        stream.close()

    def variants(self):
        """Of the CPU backend's kernels: {name: whether this machine has it}."""
        operators = self.json("inspect", "--kernels")["kernels"]["cpu"].values()
        return {kernel["variant"]: kernel["usable"] for kernels in operators for kernel in kernels}

    def greedy_oracle(self):
        """What transformers wrote: prompts with ids and texts."""
        return json.loads((self.oracles / "tiny" / "oracle.json").read_text())["greedy"]


SUMMARY = re.compile(r"(?P<prompt>\d+) \+ (?P<new>\d+) tokens \((?P<reason>\w+)\); prefill (?P<prefill>[\d.]+) tokens/s, "
                     r"decode (?P<decode>[\d.]+) tokens/s; placement (?P<placement>\S+); state (?P<state>\d+) bytes\n")


def summary(result):
    """The closing line of run."""
    match = SUMMARY.fullmatch(result.err)
    require(match is not None, f"standard error is not the closing line alone\n{result}")
    return match
