"""tandem bench: what is compared has the same bits, and the numbers are there."""

import re
import signal

from endings import wait, wait_until_caught
from tap import Suite, require, require_equal

suite = Suite("bench")

HIDDEN, CHANNELS, VALUE_HEADS, HEAD = 1024, 6144, 16, 128
TOKENS, RUNS = 5, 3
SMALL = ("bench", "roundtrip", "--synthetic", "0.8B", "--tokens", TOKENS, "--runs", RUNS)


def add_place(*arguments, name):
    @suite.test(f"roundtrip gives the same bits both ways on {name}")
    def same(program):
        found = program.json(*SMALL, *arguments)
        # The warm-up counts.
        state = VALUE_HEADS * HEAD * HEAD + 3 * CHANNELS
        require_equal(found["outputs"], {"elements": (RUNS + 1) * TOKENS * HIDDEN, "different": 0}, "outputs")
        require_equal(found["state"], {"elements": (RUNS + 1) * state, "different": 0}, "states")
        require_equal((found["model"], found["layer_kind"], found["backend"], found["tokens"], found["runs"]),
                      ("synthetic 0.8B", "gdn", name, TOKENS, RUNS), "what was measured")
        require(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["date"]), f"date: {found['date']}")
        require(found["description"], "no description")
        times = found["milliseconds_per_token_layer"]
        for way in ("host_facing", "device_internal"):
            spread = times[way]
            require(0 < spread["min"] <= spread["median"] <= spread["max"], f"{way}: {spread}")
        difference = times["host_facing"]["median"] - times["device_internal"]["median"]
        require(abs(times["difference_of_medians"] - difference) < 1e-9, f"difference: {times}")


add_place(name="cpu")
add_place("--place", "reference", name="reference")


@suite.test("roundtrip's table says the same")
def table(program):
    text = program.succeed(*SMALL, "--isa", "scalar", "--threads", 1).out
    for words in ("synthetic 0.8B", "cpu (scalar, 1 thread)", f"{TOKENS} tokens, {RUNS} runs", f"host-facing: {TOKENS} round trips",
                  "device-internal: one round trip", "difference of the medians", " 0 of 20480 elements differ\n"):
        require(words in text, f"no {words!r} in\n{text}")


SLOT = 4 * (VALUE_HEADS * HEAD * HEAD + 3 * CHANNELS)
SEQUENCES, LAYERS = 2, 3  # of four layers, the last is attention
MOVING = ("bench", "migrate", "--to", "cpu", "--synthetic", "0.8B:layers=4", "--sequences", SEQUENCES, "--runs", RUNS)


@suite.test("migrate moves state between two CPU backends, says so, and changes no bit")
def migrate(program):
    found = program.json(*MOVING, "--threads", 2)
    require_equal((found["model"], found["layers"], found["bytes_per_sequence"], found["sequences"], found["runs"]),
                  ("synthetic 0.8B:layers=4", LAYERS, LAYERS * SLOT, SEQUENCES, RUNS), "what was measured")
    require_equal((found["from"]["backend"], found["to"]["backend"]), ("cpu", "second cpu"), "backends")
    require("no device" in found["link"], f"link: {found['link']}")
    require_equal(found["state"], {"elements": SEQUENCES * LAYERS * SLOT // 4, "different": 0}, "states")
    for way in ("there", "back"):
        for name in ("copy_milliseconds", "migration_milliseconds"):
            spread = found[way][name]
            require(0 < spread["min"] <= spread["median"] <= spread["max"], f"{way}, {name}: {spread}")
        share = found[way]["copy_milliseconds"]["median"] / found[way]["migration_milliseconds"]["median"]
        require(abs(found[way]["share_of_copy_rate"] - share) < 1e-9, f"{way}: {found[way]}")
    require(found["kept_versions"] > 1, "nothing to roll back to")
    for verb in ("step", "fork", "rollback"):
        require_equal((found[verb]["bytes_moved"], found[verb]["bytes_beyond_slots"]), (0, 0), verb)
        require(found[verb]["microseconds"]["min"] > 0, f"{verb}: {found[verb]}")


@suite.test("migrate's table says the same")
def migrate_table(program):
    text = program.succeed(*MOVING).out
    for words in (f"{LAYERS} recurrent layers: {LAYERS * SLOT / 1e6:.1f} MB", "two CPU backends", f"{SEQUENCES} sequences in turn, {RUNS} runs",
                  "share of the copy's rate", "0 bytes moved, 0 beyond slots", f" 0 of {SEQUENCES * LAYERS * SLOT // 4} elements differ\n"):
        require(words in text, f"no {words!r} in\n{text}")


@suite.test("SIGINT ends migrate with one line and exit code 130")
def migrate_interrupted(program):
    with program.started("bench", "migrate", "--to", "cpu", "--synthetic", "0.8B:layers=1", "--sequences", 1, "--runs", 10000) as process:
        wait_until_caught(process, signal.SIGINT)
        process.send_signal(signal.SIGINT)
        code, out, err = wait(process, 20, "after SIGINT")
    require_equal((code, out), (130, ""), f"exit code and standard output; standard error: {err!r}")
    require(err.startswith("tandem: interrupted: ") and err.count("\n") == 1, f"standard error: {err!r}")


@suite.test("migrate without a device is refused with the reason")
def migrate_without_device(program):
    program.refuse("unsupported", ["cuda"], "bench", "migrate", env={"CUDA_VISIBLE_DEVICES": ""})


@suite.test("SIGINT ends roundtrip with one line and exit code 130")
def interrupted(program):
    with program.started("bench", "roundtrip", "--synthetic", "0.8B", "--tokens", 1, "--runs", 10000, "--place", "reference") as process:
        wait_until_caught(process, signal.SIGINT)
        process.send_signal(signal.SIGINT)
        code, out, err = wait(process, 20, "after SIGINT")
    require_equal((code, out), (130, ""), f"exit code and standard output; standard error: {err!r}")
    require(err.startswith("tandem: interrupted: ") and err.count("\n") == 1, f"standard error: {err!r}")


def add_refused(name, code, words, *arguments, hint=False):
    suite.add(f"{name} is refused", lambda program: program.refuse(code, words, "bench", *arguments, hint=hint))


add_refused("bench alone", "invalid_argument", ["subcommand is required"], hint=True)
add_refused("an unknown bench", "invalid_argument", ["subcommand is required"], "nap", hint=True)
add_refused("a backend that is not here", "unsupported", ["'gpu9'", "cpu, reference"], "roundtrip", "--place", "gpu9")
add_refused("a rule instead of a backend", "unsupported", ["'cpu,cpu:3'"], "roundtrip", "--place", "cpu,cpu:3")
add_refused("another kind of layer", "invalid_argument", ["--layer-kind", "mlp", "gdn"], "roundtrip", "--layer-kind", "mlp", hint=True)
add_refused("a spec without meaning", "invalid_argument", ["'28B'", "27B"], "roundtrip", "--synthetic", "28B")
add_refused("a device that is not here", "unsupported", ["'gpu9'"], "migrate", "--to", "gpu9")
add_refused("another element type", "unsupported", ["reference", "f64", "f32"], "migrate", "--to", "reference")
add_refused("a spec without meaning for migrate", "invalid_argument", ["'28B'", "27B"], "migrate", "--synthetic", "28B")
for option, limit in (("--sequences", "1 to 256"), ("--runs", "1 to 10000")):
    for value in ("", "0", "1.5", "9" * 20):
        add_refused(f"migrate {option} '{value}'", "invalid_argument", [option, limit, f"'{value}'"], "migrate", option, value, hint=True)
for option, limit in (("--tokens", "1 to 65536"), ("--runs", "1 to 10000")):
    for value in ("", "0", "1.5", "9" * 20):
        add_refused(f"{option} '{value}'", "invalid_argument", [option, limit, f"'{value}'"], "roundtrip", option, value, hint=True)
