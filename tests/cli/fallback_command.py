"""tandem fallback: safe policies leave no trace, the unsafe one does and is named so; JSON, page, bad input."""

import html.parser
import json
import os
import pathlib
import re
import shutil
import signal
import tempfile
import xml.etree.ElementTree

import models
import observed
from endings import STARTING_S, wait, wait_until_caught
from program import EXIT_CODES
from tap import Failure, Suite, require, require_equal

suite = Suite("fallback")

SAFE = ["migrate", "migrate_all", "replay"]
SMALL = ("fallback", "--tokens", 10, "--homes", "cpu,cpu:1")
MISSES = ("--miss", "2@5", "--miss", "7@9")
KEYS = ["arithmetic_version", "backends", "broken", "format", "homes", "layers", "misses", "model", "output_ids", "placement", "policies", "prompt_ids",
        "seed", "stand_in", "undisturbed_ms_per_token", "version"]
POLICY_KEYS = ["by_token", "event_bytes", "event_ms", "events", "kl", "layers_different", "logits", "marked_unsafe", "ms_per_token",
               "policy", "refusal", "refused_at", "safe", "tokens", "verdict", "where"]
SVG = "{http://www.w3.org/2000/svg}"


def found(program, *arguments):
    """The object of a successful run, and its policies by name."""
    result = program.succeed(*SMALL, *arguments, "--json", "-")
    require_equal(result.err, "", "standard error")
    whole = result.json()
    return whole, {policy["policy"]: policy for policy in whole["policies"]}


def require_no_trace(policy, tokens, fed):
    name = policy["policy"]
    require_equal(policy["verdict"], "same", f"{name}: verdict")
    require_equal(policy["tokens"], {"equal": tokens, "new": tokens, "in_state": fed}, f"{name}: tokens")
    require_equal((policy["logits"]["different"], policy["logits"]["max_rel"], policy["kl"]), (0, 0, {"max": 0, "mean": 0}),
                  f"{name}: logits")
    require_equal(policy["logits"]["elements"], fed * 2048, f"{name}: elements")
    require_equal((policy["layers_different"], policy["marked_unsafe"], policy["refused_at"]), (0, False, None), f"{name}: states")
    for curve in policy["by_token"].values():
        require_equal(curve, [0] * fed, f"{name}: a curve")


@suite.test("safe policies leave no trace, and the events say what was done")
def safe(program):
    whole, policies = found(program, *MISSES)
    require_equal(sorted(whole), KEYS, "keys")
    require_equal((whole["format"], whole["version"], whole["broken"]), ("tandem-fallback", 1, False), "format")
    require_equal(whole["misses"], [{"layer": 2, "token": 5}, {"layer": 7, "token": 9}], "misses")
    require_equal(list(policies), ["refuse", *SAFE, "unsafe_restart"], "policies")
    fed = len(whole["prompt_ids"]) + 10 - 1
    require_equal(len(whole["output_ids"]), 10, "new tokens")
    for name in SAFE:
        policy = policies[name]
        require_equal(sorted(policy), POLICY_KEYS, "keys of a policy")
        require_no_trace(policy, 10, fed)
        require_equal([(e["tokens"], e["layers"], e["decision"], e["error"]) for e in policy["events"]],
                      [(5, [2], name, None), (9, [7], name, None)], f"{name}: events")
        require_equal(policy["event_bytes"], sum(e["bytes"] for e in policy["events"]), f"{name}: bytes")
        require_equal(policy["event_bytes"] > 0, name != "replay", f"{name}: bytes that moved")
        require(policy["event_ms"] > 0 and policy["ms_per_token"]["before"] > 0 and policy["ms_per_token"]["after"] > 0,
                f"{name}: times")
    # The layer alone moves, or all of them; and the second time from there.
    require_equal([policies["migrate"]["where"][t] for t in (4, 5, 9)],
                  [[0] * 8, [0, 0, 1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 1]], "homes under migrate")
    require_equal([policies["migrate_all"]["where"][t] for t in (4, 5, 9)], [[0] * 8, [1] * 8, [0] * 8], "homes under migrate_all")


@suite.test("the continuation is the one that run gives")
def same_text(program):
    whole, _ = found(program, "-p", "Emma was", "--policy", "migrate", *MISSES)
    expected = program.json("run", "-p", "Emma was", "-n", 10, "--ignore-eos")
    require_equal((whole["prompt_ids"], whole["output_ids"]), (expected["prompt_ids"], expected["output_ids"]), "ids")


@suite.test("refuse is refused by name, at the token")
def refused(program):
    whole, policies = found(program, "--policy", "refuse", *MISSES)
    policy = policies["refuse"]
    require_equal((policy["verdict"], policy["refused_at"], policy["tokens"]["in_state"]), ("refused", 5, 5), "refusal")
    require("layer 2's gdn is not loaded on cpu" in policy["refusal"], f"refusal: {policy['refusal']}")
    require_equal((len(policy["where"]), policy["logits"]["different"], whole["broken"]), (5, 0, False), "before it")
    text = program.succeed(*SMALL, "--policy", "refuse", *MISSES).out
    require("refuse: refused at token 5: layer 2's gdn is not loaded on cpu" in text, f"no refusal in\n{text}")


@suite.test("unsafe_restart differs, and is named UNSAFE")
def unsafe(program):
    for miss in ("2@9", "3@9"):
        _, policies = found(program, "--policy", "unsafe_restart", "--miss", miss)
        policy = policies["unsafe_restart"]
        require_equal((policy["verdict"], policy["safe"], policy["marked_unsafe"]), ("UNSAFE", False, True), "verdict")
        curves = policy["by_token"]
        require(policy["logits"]["different"] > 0 and policy["logits"]["max_rel"] > 0 and policy["kl"]["max"] > 0, f"nothing differs: {policy}")
        require_equal([curves["different"][:9], curves["kl"][:9], curves["max_rel"][:9]], [[0] * 9] * 3, "before the miss")
        require(curves["different"][9] > 0 and curves["kl"][9] > 0, "nothing differs at the miss")
        require(policy["layers_different"] > 0, "no state differs")
        require_equal(policy["kl"]["max"], max(curves["kl"]), "max of KL")
        mean = sum(curves["kl"][9:]) / len(curves["kl"][9:])
        require(abs(policy["kl"]["mean"] - mean) <= 1e-12 * mean, f"mean of KL: {policy['kl']}, {mean}")
    text = program.succeed(*SMALL, "--policy", "unsafe_restart", "--miss", "2@9").out
    require("UNSAFE" in text, f"not named in\n{text}")


@suite.test("without misses nothing happens")
def no_effect(program):
    # Token 0 has no state that could be lost.
    _, policies = found(program, "--policy", "migrate,unsafe_restart", "--miss", "4@0")
    require_equal([policies[name]["logits"]["different"] for name in policies], [0, 0], "differences")
    text = program.succeed(*SMALL, "--policy", "unsafe_restart", "--miss", "4@0").out
    require("nothing differs this time" in text, f"not said in\n{text}")


@suite.test("random misses follow from the seed, and do not repeat")
def random_misses(program):
    def drawn(*arguments):
        whole, policies = found(program, "--policy", "migrate", *arguments)
        require_no_trace(policies["migrate"], 10, len(whole["prompt_ids"]) + 9)
        return [(m["token"], m["layer"]) for m in whole["misses"]]
    one = drawn("--miss", "random:40", "--seed", 1)
    require_equal((len(one), len(set(one)), one), (40, 40, sorted(one)), "misses")
    require(all(0 < token < 22 and 0 <= layer < 8 for token, layer in one), f"misses: {one}")
    require_equal(drawn("--miss", "random:40", "--seed", 1), one, "the same seed")
    require(drawn("--miss", "random:40", "--seed", 2) != one, "another seed gives the same")
    both = drawn("--miss", "random:2", "--miss", "5@3")
    require((3, 5) in both and len(both) == 3, f"misses: {both}")


@suite.test("the default is an experiment of its own, and says what stands in for a device")
def default(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.json")
        result = program.succeed("fallback", "--json", path)
        whole = json.loads(path.read_text())
    require_equal((len(whole["misses"]), len(whole["policies"]), len(whole["output_ids"])), (3, 5, 64), "misses, policies, tokens")
    if whole["homes"] == ["cpu", "cpu:1"]:
        require("cpu:1 is a second CPU backend that stands in for a device" in result.out, f"not said in\n{result}")
        require("cuda" in whole["stand_in"], f"no reason: {whole['stand_in']}")
    else:
        require_equal((whole["homes"], whole["stand_in"]), (["cpu", "cuda:0"], None), "homes")
    for policy in whole["policies"]:
        if policy["policy"] in SAFE:
            require_no_trace(policy, 64, len(whole["prompt_ids"]) + 63)
    for words in ("policies that must leave no trace: 0 elements of logits and states differ", "UNSAFE", "refused at token",
                  whole["model"]["fingerprint"]):
        require(words in result.out, f"no {words!r} in\n{result}")


@suite.test("a synthetic model has a prompt of its own")
def synthetic(program):
    whole, policies = found(program, "--synthetic", "0.8B:layers=4,vocab=512", "--policy", "migrate,replay", "--miss", "3@10")
    require_equal(whole["prompt_ids"], list(range(1, 9)), "prompt")
    require_equal([p["verdict"] for p in policies.values()], ["same", "same"], "verdicts")


@suite.test("a split placement moves between its backends")
def split(program):
    whole, policies = found(program, "--place", "cpu,cpu:1:4-7", *MISSES)
    for name in SAFE:
        require_no_trace(policies[name], 10, len(whole["prompt_ids"]) + 9)
    require_equal(policies["migrate"]["where"][0], [0, 0, 0, 0, 1, 1, 1, 1], "homes at the beginning")
    require_equal(policies["migrate"]["where"][-1], [0, 0, 1, 0, 1, 1, 1, 0], "homes at the end")


@suite.test("the ledger tells the runs apart")
def ledger(program):
    with tempfile.TemporaryDirectory() as folder:
        path, trace = pathlib.Path(folder, "a.jsonl"), pathlib.Path(folder, "a.json")
        program.succeed(*SMALL, "--policy", "migrate,replay", *MISSES, "--ledger", path, "--trace", trace)
        file = observed.Ledger(path)
        observed.Trace(trace)
    require_equal([note["text"] for note in file.notes], ["undisturbed", "migrate, the undisturbed tokens", "migrate, its own tokens",
                                                          "replay, the undisturbed tokens", "replay, its own tokens"], "notes")
    require(len({note["sequence"] for note in file.notes}) == 5, f"sequences: {file.notes}")


class Tags(html.parser.HTMLParser):
    """What a browser sees: the tags with their attributes, and whether they are closed as they were opened."""

    def __init__(self):
        super().__init__()
        self.open, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        require_equal(self.open.pop() if self.open else None, tag, "the tag that is closed")


def page_of(program, *arguments):
    """The page as text and as a tree."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.html")
        program.succeed(*arguments, "--html", path)
        text = path.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    tags.close()
    require_equal(tags.open, [], "tags that stay open")
    require(not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags.tags}, "something that a page without files has not")
    require(not any(set(attributes) & {"src", "href", "onclick", "onload"} for _, attributes in tags.tags), "a reference")
    require_equal(set(re.findall(r"\w+://[^\"' ]+", text)), {"http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"}, "addresses")
    require("@import" not in text and "url(" not in text, "style from elsewhere")
    require("prefers-color-scheme: dark" in text, "no dark style")
    try:
        return text, xml.etree.ElementTree.fromstring(text)
    except xml.etree.ElementTree.ParseError as error:
        raise Failure(f"the page is no XML: {error}") from error


def texts(tree, tag):
    return ["".join(node.itertext()) for node in tree.iter() if node.tag.rsplit("}", 1)[-1] == tag]


@suite.test("--html: a page that needs no other file, with charts and their numbers")
def page(program):
    text, tree = page_of(program, *SMALL, *MISSES)
    charts = list(tree.iter(f"{SVG}svg"))
    require_equal(len(charts), 2 + 5, "charts: two of divergence, a timeline for each policy")
    for chart in charts:
        width, height = (float(n) for n in chart.get("viewBox").split()[2:])
        for node in chart.iter():
            for key, most in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y", height), ("y1", height), ("y2", height),
                              ("cy", height)):
                require(0 <= float(node.get(key, 0)) <= most, f"outside of the chart: {node.attrib}")
        require("token of the sequence" in texts(chart, "text"), "no axis")
        marks = [node for node in chart.iter(f"{SVG}line") if node.get("class") == "mark"]
        require_equal(len(marks), 2, "marks of misses")
    for chart in charts[:2]:
        require("0 (same bits)" in texts(chart, "text"), "no line of zero")
        require_equal(len(list(chart.iter(f"{SVG}polyline"))), 5, "lines")
        dots = list(chart.iter(f"{SVG}circle"))
        require(dots and all("unsafe_restart, token" in "".join(dot.itertext()) for dot in dots), "dots of what does not differ")
    require_equal([th for th in texts(tree, "th")][:2], ["policy", "result"], "table")
    cells = texts(tree, "td")
    for words in ("migrate_all", "UNSAFE", "refused at token 5", "10 of 10"):
        require(words in cells, f"no {words!r} in the table")
    titles = texts(tree, "title")
    require("2 gdn, tokens 0 to 4: cpu" in titles and any(t.startswith("2 gdn, tokens 5 to ") and t.endswith(": cpu:1") for t in titles),
            "no tooltip where layer 2 ran")
    require("layer 7 is missed before token 9" in titles, "no tooltip of a miss")


@suite.test("--html: names and texts are escaped")
def escaped(program):
    with tempfile.TemporaryDirectory() as folder, models.copy_of(program) as model:
        name = "a<b>&\"c'</title>\x01"
        path = pathlib.Path(folder, name.replace("/", ":"))
        shutil.copytree(model.path, path)
        prompt = "<script>alert('&')</script>"
        text, tree = page_of(program, "fallback", path, "-p", prompt, "--tokens", 3, "--homes", "cpu,cpu:1", "--policy", "migrate",
                             "--miss", "1@2")
    require(prompt not in text, "a prompt as it is")
    require_equal(texts(tree, "b")[0], prompt, "the prompt")
    require(any(path.name.replace("\x01", "\\x01") in dd for dd in texts(tree, "dd")), "the model's name")


@suite.test("two outputs to one file are refused")
def one_file(program):
    for one, other in (("--json", "--html"), ("--html", "--ledger"), ("--json", "--trace")):
        program.refuse("invalid_argument", [one, other, "same file 'a'", "give two"], *SMALL, one, "./a", other, "a")


@suite.test("--json and --html write whole files, or leave what was there")
def files(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.json")
        path.write_text("old")
        program.run(*SMALL, "--miss", "99@3", "--json", path, folder=folder)
        require_equal((path.read_text(), os.listdir(folder)), ("old", ["a.json"]), "after a refusal")
        result = program.succeed(*SMALL, "--json", path)
        require("policy" in result.out and json.loads(path.read_text())["format"] == "tandem-fallback", "table and file")
    for option in ("--json", "--html"):
        program.refuse("io", ["no-such-folder/a"], *SMALL, option, "no-such-folder/a")


@suite.test("SIGINT ends it with one line, exit code 130 and no file")
def interrupted(program):
    with tempfile.TemporaryDirectory() as folder:
        outputs = [word for option in ("--json", "--html", "--ledger", "--trace") for word in (option, pathlib.Path(folder, option[2:]))]
        with program.started("fallback", "--tokens", 4000, "--ctx", 4096, *outputs) as process:
            wait_until_caught(process, signal.SIGINT)
            process.send_signal(signal.SIGINT)
            code, out, err = wait(process, STARTING_S, "after SIGINT")
        require_equal((code, out, os.listdir(folder)), (130, "", []), f"ending; standard error: {err!r}")
        require(err.startswith("tandem: interrupted: ") and err.count("\n") == 1, f"standard error: {err!r}")


def add_refused(name, code, words, *arguments, hint=False):
    suite.add(f"{name} is refused", lambda program: program.refuse(code, words, *SMALL, *arguments, hint=hint))


add_refused("a layer that is not there", "invalid_argument", ["99@3", "no layer 99", "0 to 7"], "--miss", "99@3")
add_refused("a token that is never fed", "invalid_argument", ["3@999", "token 999", "tokens 0 to "], "--miss", "3@999")
add_refused("a miss that is given twice", "invalid_argument", ["3@4", "twice"], "--miss", "3@4", "--miss", "3@4")
add_refused("too many random misses", "invalid_argument", ["random:1000", "at most"], "--miss", "random:1000")
for miss in ("x", "3", "@", "3@", "@3", "-1@3", "3@-1", "3@4@5", "a@b", "3 @4", "random", "random:", "random:0", "random:-1", "random:x",
             "9" * 20 + "@3"):
    add_refused(f"--miss '{miss}'", "invalid_argument", ["--miss", "LAYER@TOKEN", "random:N", f"'{miss}'"], f"--miss={miss}", hint=True)
for policy in ("", "all,migrate", "migrate,", "migrate,migrate", "walk", "Migrate"):
    add_refused(f"--policy '{policy}'", "invalid_argument", ["--policy", "unsafe_restart", f"'{policy}'"], "--policy", policy, hint=True)
for tokens in ("", "0", "-1", "1.5", "1000001"):
    suite.add(f"--tokens '{tokens}' is refused",
              lambda program, n=tokens: program.refuse("invalid_argument", ["--tokens", "1 to 1000000", f"'{n}'"], "fallback", "--tokens", n,
                                                       hint=True))
add_refused("--seed -1", "invalid_argument", ["--seed", "'-1'"], "--seed", -1, hint=True)
add_refused("an empty prompt", "invalid_argument", ["prompt is empty"], "-p", "")
add_refused("two prompts", "invalid_argument", ["--prompt", "--ids"], "-p", "x", "--ids", "1", hint=True)
add_refused("a context that is too small", "invalid_argument", ["tokens to feed", "room for 4", "--tokens"], "--ctx", 4, "--miss", "1@2")
add_refused("text without tokens", "invalid_argument", ["--ids"], "--synthetic", "0.8B:layers=4,vocab=512", "-p", "x")
add_refused("an empty --html", "invalid_argument", ["--html", "''"], "--html", "", hint=True)


def add_homes_refused(homes, code, words):
    suite.add(f"--homes '{homes}' is refused",
              lambda program: program.refuse(code, words, "fallback", "--tokens", 4, "--miss", "1@2", "--homes", homes))


add_homes_refused("cpu", "invalid_argument", ["two backends", "--homes"])
add_homes_refused("cpu,cpu", "invalid_argument", ["two backends", "--homes"])
add_homes_refused("cpu,gpu", "unsupported", ["'gpu'", "cpu, reference"])
add_homes_refused("cpu,", "unsupported", ["''", "cpu, reference"])
add_homes_refused("cpu,reference", "unsupported", ["f32", "f64"])


# The same options of run.
RUN = ("run", "-p", "Emma was", "-n", 12)


@suite.test("run --miss: the same text under safe policies, another one under the unsafe one")
def run_with_misses(program):
    expected = program.json(*RUN)
    require_equal(expected["residency_events"], [], "events without misses")
    for policy in SAFE:
        result = program.succeed(*RUN, "--homes", "cpu,cpu:1", "--policy", policy, "--miss", "2@0", "--miss", "1@6")
        require_equal(result.out, expected["text"] + "\n", f"text under {policy}")
        lines = result.err.splitlines()
        require_equal((len(lines), lines[1].split(":")[0], f"{policy}: " in lines[1]), (3, "miss", True), f"lines of\n{result}")
        require("layer 1 at token 6, " in lines[1] and "layer 2 at token 0, cpu -> cpu:1" in lines[0], f"the events\n{result}")
        found_now = program.json(*RUN, "--homes", "cpu,cpu:1", "--policy", policy, "--miss", "1@6")
        require_equal([(e["what"], e["layers"], e["tokens"], e["decision"]) for e in found_now["residency_events"]],
                      [("miss", [1], 6, policy)], "events")
    misses = [word for layer in (0, 2, 3) for word in ("--miss", f"{layer}@4")]
    wrong = program.json(*RUN, "--homes", "cpu,cpu:1", "--policy", "unsafe_restart", *misses)
    require(wrong["output_ids"] != expected["output_ids"], "an unsafe restart does not show")


@suite.test("run --miss: a long prompt goes through in chunks, and a miss comes before the one that has its token")
def run_with_chunks(program):
    ids = ",".join(str(3 + i % 50) for i in range(150))
    expected = program.output_ids("--ids", ids, "-n", 4)
    result = program.json("run", "--ids", ids, "-n", 4, "--homes", "cpu,cpu:1", "--policy", "migrate", "--miss", "2@100")
    require_equal((result["output_ids"], result["residency_events"][0]["tokens"]), (expected, 64), "ids and position")


@suite.test("run: policies and misses need homes, misses need a policy")
def run_refused(program):
    program.refuse("invalid_argument", ["--policy migrate", "--homes"], *RUN, "--policy", "migrate")
    program.refuse("invalid_argument", ["two backends", "--homes"], *RUN, "--miss", "1@4")
    program.refuse("invalid_argument", ["--policy", "'all'", "refuse, migrate"], *RUN, "--policy", "all", hint=True)
    program.refuse("invalid_argument", ["--miss", "'random:3'", "LAYER@TOKEN"], *RUN, "--miss", "random:3", hint=True)
    result = program.run(*RUN, "--homes", "cpu,cpu:1", "--miss", "1@6")
    require_equal(result.code, EXIT_CODES["not_resident"], f"exit code of\n{result}\n")
    require("layer 1's gdn is not loaded on cpu" in result.err, f"the refusal\n{result}")
