"""What must not depend on the machine: the code path that the C library takes for this processor, and the number of threads.

GLIBC_TUNABLES makes glibc take the functions that it has for older processors; their last bits differ. Where it does not know them, the
runs are the same and must agree all the same. TANDEM_TEST_THETAS, numbers with commas between, takes other values of rope_theta; all
that models were published with: 10000,1000000,10000000,500000,11947."""

import hashlib
import json
import os
import pathlib
import tempfile

from models import copy_of
from tap import Suite, require_equal

suite = Suite("other machines")

TOKENS = 2900
THETAS = [float(theta) for theta in os.environ.get("TANDEM_TEST_THETAS", "11947,1000000").split(",")]
# The same features by the names of older and newer glibc.
PATHS = (None, "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4", "glibc.cpu.hwcaps=-AVX2_Usable,-FMA_Usable,-FMA4_Usable")
THREADS = (1, 8, 64)


def ids(count):
    """Token ids without a pattern that a model could learn; none of them ends a text."""
    return [(i * i * 31 + i * 7 + 5) % 2000 for i in range(count)]


def results(program, model, path, threads):
    """(digest of the snapshot after all tokens, the score's JSON) under this path of libm."""
    environment = {"GLIBC_TUNABLES": path}
    with tempfile.TemporaryDirectory() as folder:
        tokens, snapshot, score = (pathlib.Path(folder, name) for name in ("tokens", "a.tds", "score.json"))
        tokens.write_text(" ".join(map(str, ids(TOKENS))))
        program.succeed("state", "save", snapshot, model, "--ids", tokens.read_text().replace(" ", ","), "--threads", threads,
                        env=environment)
        program.succeed("score", model, "--ids", tokens, "--json", score, "--threads", threads, env=environment)
        found = json.loads(score.read_text())
        del found["model"]
        return hashlib.sha256(snapshot.read_bytes()).hexdigest(), found


@suite.test("neither the libm path nor the number of threads changes a bit of 2,900 tokens")
def libm(program):
    for theta in THETAS:
        with copy_of(program) as copy:
            model = copy.path
            config = json.loads((model / "config.json").read_text())
            config["rope_parameters"]["rope_theta"] = theta
            (model / "config.json").write_text(json.dumps(config))
            expected = results(program, model, PATHS[0], THREADS[0])
            require_equal(len(expected[1]["nll"]), TOKENS - 1, "number of nll")
            for path, threads in zip(PATHS[1:], THREADS[1:]):
                found = results(program, model, path, threads)
                what = f"rope_theta {theta}, {path}, {threads} threads"
                require_equal(found[1], expected[1], f"the score with {what}")
                require_equal(found[0], expected[0], f"the snapshot with {what}")
