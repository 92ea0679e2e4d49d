"""What guards a run (--mirror-every, --verify-transfers, --poison), and faults that are planned with --faults."""

from program import summary
from tap import Suite, require, require_equal

suite = Suite("faults")

RUN = ("run", "-p", "Emma was not a", "-n", 20)


@suite.test("guards change no text")
def guards(program):
    expected = program.output_ids(*RUN[1:])
    for options in (("--mirror-every", 1), ("--mirror-every", 7), ("--verify-transfers",), ("--poison",),
                    ("--mirror-every", 3, "--verify-transfers", "--poison")):
        require_equal(program.output_ids(*RUN[1:], *options), expected, f"ids with {options}")
    arguments = ("score", "--text", program.oracles / "tiny" / "heldout.txt", "--max-tokens", 100)
    require_equal(program.succeed(*arguments, "--mirror-every", 16, "--poison").out, program.succeed(*arguments).out, "score")


@suite.test("plan counts a mirror")
def counted(program):
    without, with_mirror = (program.json("plan", "--ctx", 100, *options)["backends"][0] for options in ((), ("--mirror-every", 8)))
    slot, page = (294912 + 32256) // 6, 32 * 2 * 2 * 64 * 4
    copies = 2 * (6 * slot + 2 * page) + 2 * 4 * page
    require_equal((without["mirror_bytes"], with_mirror["mirror_bytes"]), (0, copies), "bytes of a mirror")
    # A place to rebuild one: six layers of two versions, two of four pages.
    require_equal(with_mirror["state_bytes"] - without["state_bytes"], 6 * 2 * slot + 2 * 4 * page, "state")
    text = program.succeed("plan", "--ctx", 100, "--mirror-every", 8).out
    require("  mirror " in text, f"no mirror in\n{text}")


@suite.test("planned faults end a run with their names")
def faults(program):
    for fault, code, words in (("launch@3", "device_lost", ["cpu: ", "failed (injected: launch@3)"]),
                               ("cpu/fail@upload:token:2", "device_lost", ["injected: cpu/fail@upload:token:2"]),
                               ("alloc@5", "out_of_memory", ["injected: alloc@5"]),
                               ("miss@3:2", "not_resident", ["layer 3 is not loaded on cpu", "injected"]),
                               ("lost@token:1", "device_lost", ["cpu is lost", "nothing stands in"])):
        program.refuse(code, words, "score", "--text", program.oracles / "tiny" / "heldout.txt", "--max-tokens", 8, "--chunk", 1,
                       "--faults", fault)
    require_equal(program.output_ids(*RUN[1:], "--faults", "other/lost@1,delay@upload:1:ms=1"), program.output_ids(*RUN[1:]), "ids")


@suite.test("a fault that has no meaning is refused")
def bad_faults(program):
    program.refuse("invalid_argument", ["fault 'flop@1'", "launch, alloc, lost"], *RUN, "--faults", "flop@1")
    program.refuse("invalid_argument", ["fault ''"], *RUN, "--faults", "")
    program.refuse("invalid_argument", ["--mirror-every", "a whole number >= 0"], *RUN, "--mirror-every", -1, hint=True)
    for command in ("run", "score", "plan"):
        text = program.succeed(command, "--help").out
        require("--faults" not in text and "--mirror-every" in text, f"{command} --help\n{text}")


@suite.test("faults cannot come from the environment")
def environment(program):
    require_equal(summary(program.succeed(*RUN, env={"TANDEM_FAULTS": "launch@1"}))["new"], "20", "tokens")
