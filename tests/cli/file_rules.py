"""What the program does to files that are not for it to change: outputs onto inputs, onto each other, onto devices; temporary files of
others; paths and metadata that a terminal would act on."""

import json
import os
import pathlib
import stat
import subprocess
import tempfile

import models
from program import EXIT_CODES
from tap import Skipped, Suite, require, require_equal

suite = Suite("files")

PROMPT = ("-p", "x", "-n", 2)


def heldout(program):
    return program.oracles / "tiny" / "heldout.txt"


def require_refused(program, words, *arguments, code="invalid_argument"):
    return program.refuse(code, words, *arguments)


def add_onto_input(name, make_other):
    @suite.test(f"an output that is an input by {name} is refused, and the input stays")
    def onto_input(program):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder, "text")
            text.write_text("Emma was here, and so was he.")
            other = make_other(text)
            require_refused(program, ["--json", "--text", "which is read"], "score", "--text", text, "--json", other)
            require_refused(program, ["--ledger", "--text"], "score", "--text", text, "--ledger", other)
            require_refused(program, ["--trace", "--prompt-file"], "run", "--prompt-file", text, "-n", 1, "--trace", other)
            require_equal(text.read_text(), "Emma was here, and so was he.", "the text")


def linked(make):
    def other(text):
        made = text.parent / "other"
        make(text, made)
        return made
    return other


add_onto_input("its path", lambda text: text)
add_onto_input("another path", lambda text: f"{text.parent}/./../{text.parent.name}/text")
add_onto_input("a symbolic link", linked(lambda text, made: made.symlink_to(text)))
add_onto_input("a hard link", linked(lambda text, made: made.hardlink_to(text)))


@suite.test("an output that is a file of the model's directory is refused")
def onto_model(program):
    with models.copy_of(program) as model:
        before = {path.name: path.read_bytes() for path in model.path.iterdir()}
        for name in models.FILES:
            require_refused(program, ["--ledger", name, "MODEL"], "run", model, *PROMPT, "--ledger", model.path / name)
        require_refused(program, ["FILE", "MODEL"], "state", "save", model.weights, model, "-p", "xy")
        require_refused(program, ["default model"], "run", *PROMPT, "--ledger", program.model / "config.json")
        require_equal({path.name: path.read_bytes() for path in model.path.iterdir()}, before, "the model's files")


@suite.test("two outputs that are one file by links are refused")
def two_outputs(program):
    with tempfile.TemporaryDirectory() as folder:
        one, other = pathlib.Path(folder, "one"), pathlib.Path(folder, "other")
        one.write_text("old")
        other.hardlink_to(one)
        require_refused(program, ["--ledger", "--trace", "same file", "give two"], "run", *PROMPT, "--ledger", one, "--trace", other)
        require_refused(program, ["same file"], "score", "--text", heldout(program), "--max-tokens", 5, "--json", one, "--ledger", one)
        require_equal(one.read_text(), "old", "the file")


@suite.test("an output where standard output goes is refused")
def standard_output(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "out")
        with open(path, "wb") as out:
            result = program.run("score", "--text", heldout(program), "--max-tokens", 5, "--json", path, stdout=out)
        require(result.code == 2 and "standard output" in result.err, str(result))


@suite.test("an output onto a device goes into it, and the device stays")
def device(program):
    before = os.stat("/dev/null")
    for arguments in (("state", "save", "/dev/null", "-p", "xy"), ("run", *PROMPT, "--ledger", "/dev/null", "--trace", "/dev/null"),
                      ("score", "--text", heldout(program), "--max-tokens", 5, "--json", "/dev/null")):
        program.succeed(*arguments)
        after = os.stat("/dev/null")
        require(stat.S_ISCHR(after.st_mode) and after.st_ino == before.st_ino, f"/dev/null was replaced by {arguments}")
        require(not [name for name in os.listdir("/dev") if "tandem" in name], "a file in /dev")
    program.refuse("io", ["/dev/full", "No space left"], "score", "--text", heldout(program), "--max-tokens", 5, "--json", "/dev/full")
    result = program.succeed("score", "--text", heldout(program), "--max-tokens", 5, "--json", "/dev/stdout")
    require_equal(json.loads(result.out.splitlines()[0])["tokens"], 5, "tokens in what /dev/stdout got")


@suite.test("an output onto a pipe goes into it, and the pipe stays")
def fifo(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "pipe")
        os.mkfifo(path)
        with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
            program.succeed("score", "--text", heldout(program), "--max-tokens", 5, "--json", path)
            require_equal(json.loads(reader.communicate(timeout=60)[0])["tokens"], 5, "tokens")
        require(stat.S_ISFIFO(os.stat(path).st_mode), "the pipe was replaced")
        require_equal(os.listdir(folder), ["pipe"], "files")


@suite.test("outputs that cannot be are refused before the work")
def before_the_work(program):
    with tempfile.TemporaryDirectory() as folder:
        # A model that is not there would be found by the work.
        late = ("score", f"{folder}/no-such-model", "--text", heldout(program), "--json")
        pathlib.Path(folder, "taken").mkdir()
        program.refuse("io", ["taken", "directory"], *late, f"{folder}/taken")
        program.refuse("io", ["missing/score.json", "No such file"], *late, f"{folder}/missing/score.json")
        program.refuse("io", ["taken", "directory"], "state", "save", f"{folder}/taken", f"{folder}/no-such-model", "-p", "x")
        program.refuse("io", ["/proc/", "score"], *late, "/proc/score")
        require_equal(os.listdir(folder), ["taken"], "files")


@suite.test("a folder without permission is found before the work")
def permission(program):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        other = {"user": 65534} if os.geteuid() == 0 else {}  # root may write everywhere
        try:
            program.refuse("io", ["Permission denied", f"{folder}/a"], "score", "no-such-model", "--text", heldout(program), "--json",
                           f"{folder}/a", **other)
        except PermissionError as error:
            raise Skipped("another user may not run the program here") from error


@suite.test("temporary files of others stay")
def temporary_files(program):
    with tempfile.TemporaryDirectory() as folder:
        names = [".tandem-user-notes.tmp", ".tandem-1-0.tmp", ".tandem-12-0123456789abcdef-0123456789abcdef.tmp"]
        for name in names:
            pathlib.Path(folder, name).write_text("mine")
        program.succeed("score", "--text", heldout(program), "--max-tokens", 5, "--json", f"{folder}/score.json")
        require_equal(sorted(os.listdir(folder)), sorted([*names, "score.json"]), "files")


@suite.test("what a killed run left is removed by the next one")
def leftovers(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.tds")
        done = subprocess.run([program.path, "state", "save", path, "-p", "xy", "--faults", "kill@rename"], capture_output=True, check=False)
        require(done.returncode < 0 and len(os.listdir(folder)) == 1, f"expected a killed run and its file: {done}, {os.listdir(folder)}")
        program.succeed("state", "save", path, "-p", "xy")
        require_equal(os.listdir(folder), ["a.tds"], "files")


@suite.test("a directory of somebody else where synth would write is in the way, and stays")
def others_directory(program):
    with tempfile.TemporaryDirectory() as folder:
        mine = pathlib.Path(folder, ".model.tandem-unfinished")
        mine.mkdir()
        (mine / "notes").write_text("mine")
        program.refuse("io", ["in the way", "tandem-unfinished"], "synth", "0.8B", f"{folder}/model", "--layers", 4, "--vocab", 16)
        require_equal((mine / "notes").read_text(), "mine", "the file")


def require_plain(text, where):
    active = [c for c in text if (ord(c) < 0x20 and c != "\n") or 0x7F <= ord(c) <= 0x9F]
    require(not active, f"{where} has {active!r} in {text!r}")


def strange_model(program, folder, name):
    path = os.path.join(os.fsencode(folder), name)
    os.mkdir(path)
    for file in models.FILES:
        with open(os.path.join(path, os.fsencode(file)), "wb") as copy:
            copy.write((program.model / file).read_bytes())
    return path


@suite.test("a path that is no UTF-8 is printed escaped")
def strange_bytes(program):
    with tempfile.TemporaryDirectory() as folder:
        path = os.fsdecode(strange_model(program, folder, b"a\xff\xc3b"))
        shown = f"{folder}/a\\xff\\xc3b"
        for command in (("run", path, *PROMPT, "--json"), ("inspect", path, "--json"), ("plan", path, "--json")):
            json.loads(program.succeed(*command).out)
        require_equal(json.loads(program.succeed("run", path, *PROMPT, "--json").out)["model"]["directory"], shown, "directory")
        score = pathlib.Path(folder, "score.json")
        program.succeed("score", path, "--text", heldout(program), "--max-tokens", 5, "--json", score, "--ledger", f"{folder}/ledger")
        require_equal(json.loads(score.read_text())["model"], shown, "model of a score")
        missing = subprocess.run([program.path, "run", os.fsdecode(b"/no/\xfe"), *map(str, PROMPT)], capture_output=True, check=False)
        require(missing.returncode == 3 and b"\\xfe" in missing.stderr and b"\xfe" not in missing.stderr, repr(missing.stderr))


@suite.test("control characters of paths never reach a terminal")
def controls(program):
    name = "a\x1b[31mb\x07\x9bc\x7f\u202ed"
    for command in ("run", "score", "inspect", "plan"):
        more = {"run": PROMPT, "score": ("--text", heldout(program))}.get(command, ())
        result = program.refuse("not_found", ["\\x1b[31m", "\\x07", "\\u009b", "\\x7f", "\\u202e"], command, f"/no/{name}", *more)
        require_plain(result.err, "standard error")
    with tempfile.TemporaryDirectory() as folder:
        path = os.fsdecode(strange_model(program, folder, os.fsencode(name)))
        for command in (("run", path, *PROMPT, "--json"), ("state", "save", f"{folder}/{name}.tds", "-p", "xy")):
            require_plain(program.succeed(*command).out, command[0])


def with_descriptors(program, shell, *arguments):
    """A run under /bin/sh that has changed its descriptors."""
    return subprocess.run(["/bin/sh", "-c", f'exec "$@" {shell}', "sh", program.path, *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=300, check=False)


@suite.test("standard error that is full or closed changes nothing")
def no_standard_error(program):
    with tempfile.TemporaryDirectory() as folder:
        expected = program.succeed("run", "-p", "Emma", "-n", 5).out.encode()
        for number, shell in enumerate(("2>/dev/full", "2>&-")):
            ledger = pathlib.Path(folder, f"ledger{number}")
            done = with_descriptors(program, shell, "run", "-p", "Emma", "-n", 5, "--ledger", ledger)
            require_equal((done.returncode, done.stdout), (0, expected), f"run with {shell}")
            require_equal(json.loads(ledger.read_text().splitlines()[-1])["kind"], "end", "the last line of the ledger")


@suite.test("descriptors that are closed get no other file's content")
def closed_descriptors(program):
    with tempfile.TemporaryDirectory() as folder:
        ledger = pathlib.Path(folder, "ledger")
        done = with_descriptors(program, "<&- >&- 2>&-", "run", "-p", "Emma", "-n", 5, "--ledger", ledger)
        require_equal((done.returncode, os.listdir(folder)), (EXIT_CODES["io"], []), "ending and files without standard output")
        done = with_descriptors(program, "<&- 2>&-", "run", "-p", "Emma", "-n", 5, "--ledger", ledger)
        require_equal(done.returncode, 0, "exit code")
        for line in ledger.read_text().splitlines():
            json.loads(line)


@suite.test("a sequence that went on without a state is UNSAFE in the closing line and in JSON")
def unsafe(program):
    arguments = ("run", "-p", "Emma", "-n", 4, "--ignore-eos", "--homes", "cpu,cpu:1", "--miss", "3@3")
    wrong = program.succeed(*arguments, "--policy", "unsafe_restart")
    require("UNSAFE" in wrong.err.splitlines()[-1], f"closing line: {wrong.err!r}")
    require_equal(program.succeed(*arguments, "--policy", "unsafe_restart", "--json").json()["unsafe"], True, "unsafe")
    right = program.succeed(*arguments, "--policy", "migrate")
    require("UNSAFE" not in right.err, f"closing line: {right.err!r}")
    require_equal(program.succeed(*arguments, "--policy", "migrate", "--json").json()["unsafe"], False, "unsafe")
