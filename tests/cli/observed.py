"""Reads ledgers and traces, and checks what must hold in each of them whatever was run."""

import json
import pathlib

from tap import Failure, require, require_equal

HEADER = {"kind": "header", "format": "tandem-ledger", "version": 1}
LAYER_KEYS = ["crossed_bytes", "crossings", "kind", "layer", "parts", "position", "run_tokens", "sequence", "state", "step", "tokens"]
RESIDENCY_KEYS = ["begin_ms", "bytes", "decision", "error", "from", "kind", "layers", "ms", "sequence", "to", "tokens", "versions",
                  "what"]
PARTS = {"gdn": ["gdn", "mlp"], "attention": ["attention", "mlp"]}
NS = 1e-3  # of a microsecond


class Ledger:
    def __init__(self, path):
        try:
            self.lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
        except ValueError as error:
            raise Failure(f"a line of the ledger is no JSON: {error}") from error
        self.header, self.end = self.lines[0], self.lines[-1]
        self.layers = [line for line in self.lines if line["kind"] == "layer"]
        self.residency = [line for line in self.lines if line["kind"] == "residency"]
        self.notes = [line for line in self.lines if line["kind"] == "note"]
        self.check()

    def check(self):
        require_equal({key: self.header[key] for key in HEADER}, HEADER, "header")
        kinds = [line["kind"] for line in self.lines]
        require_equal((kinds.count("header"), kinds.count("end"), kinds[-1]), (1, 1, "end"), "first and last line")
        require(set(kinds) <= {"header", "layer", "residency", "note", "end"}, f"kinds: {set(kinds)}")
        for line in self.residency:
            require_equal(sorted(line), RESIDENCY_KEYS, "keys of a residency line")
        require_equal(self.end["residency_events"], len(self.residency), "residency events")
        require_equal(self.end["crossed_bytes"], sum(line["crossed_bytes"] for line in self.layers), "bytes that crossed")
        self.check_steps()
        for line in self.layers:
            self.check_layer(line)

    def steps(self):
        """{(step, sequence): its lines}"""
        found = {}
        for line in self.layers:
            found.setdefault((line["step"], line["sequence"]), []).append(line)
        return found

    def check_steps(self):
        numbers = sorted({line["step"] for line in self.layers})
        require_equal(numbers, list(range(self.end["steps"])), "numbers of steps")
        last = {}
        for (_, sequence), lines in self.steps().items():
            require_equal([line["layer"] for line in lines if line["layer"] is not None], list(range(len(self.header["layers"]))),
                          "layers of a step")
            outside = [line["parts"][0]["part"] for line in lines if line["layer"] is None]
            require(outside in (["embedding"], ["embedding", "head"]), f"parts outside of layers: {outside}")
            versions = {(line["state"]["read"], line["state"]["written"]) for line in lines if line["state"]}
            require_equal(len(versions), 1, "versions of a step")
            (read, written), = versions
            position = lines[0]["position"]
            # Nothing here rolls back: a step reads what the one before it wrote.
            require_equal((read, position), last.get(sequence, (0, 0)), f"what step {lines[0]['step']} of {sequence} reads, and where")
            require(written > read, f"version {written} was written over {read}")
            last[sequence] = (written, position + lines[0]["tokens"])

    def check_layer(self, line):
        require_equal(sorted(line), LAYER_KEYS, "keys of a layer line")
        require_equal(sum(c["bytes"] for c in line["crossings"]), line["crossed_bytes"], "bytes of a layer")
        require(0 < line["tokens"] <= line["run_tokens"], f"tokens: {line}")
        for part in line["parts"]:
            require(part["ms"] >= 0 and part["begin_ms"] >= 0 and part["backend"] in self.header["backends"], f"part: {part}")
        for crossing in line["crossings"]:
            require(crossing["from"] != crossing["to"] and crossing["bytes"] >= 0, f"crossing: {crossing}")
            require(crossing["receive_ms"] >= 0 and crossing["send_ms"] >= 0, f"crossing: {crossing}")
        if line["layer"] is None:
            require_equal(line["state"], None, "state of what is in no layer")
            return
        kind = self.header["layers"][line["layer"]]
        require_equal([part["part"] for part in line["parts"]], PARTS[kind], "parts of a layer")
        require_equal(line["parts"][0]["backend"], line["state"]["backend"], "where the state is, and where it ran")
        require_equal("checksum" in line["state"], self.header["checksums"] == "xxh3-128", "a checksum")


class Trace:
    def __init__(self, path):
        try:
            whole = json.loads(pathlib.Path(path).read_text())
        except ValueError as error:
            raise Failure(f"the trace is no JSON: {error}") from error
        self.events = whole["traceEvents"]
        self.other = whole["otherData"]
        self.names, self.threads = {}, {}
        for event in self.events:
            require(event["ph"] in "XMC" and isinstance(event["pid"], int), f"event: {event}")
            if event["name"] == "process_name":
                self.names[event["pid"]] = event["args"]["name"]
            if event["name"] == "thread_name":
                self.threads[event["pid"], event["tid"]] = event["args"]["name"]
        self.check()

    def tracks(self):
        """{(process, thread) by name: complete events}"""
        found = {}
        for event in self.events:
            if event["ph"] == "X":
                track = self.names[event["pid"]].split(" ")[0], self.threads[event["pid"], event["tid"]]
                found.setdefault(track, []).append(event)
        return found

    def check(self):
        require_equal(self.other["format"], "tandem-trace", "format")
        for track, events in self.tracks().items():
            last = 0
            for event in sorted(events, key=lambda e: (e["ts"], e["dur"])):
                require(event["dur"] >= 0, f"a negative duration: {event}")
                require(event["ts"] >= last - NS, f"{track}: overlaps the one before it: {event}")
                last = event["ts"] + event["dur"]
        self.check_nesting()
        self.check_counters()

    def check_nesting(self):
        """What a backend did lies within a step."""
        steps = self.tracks()["host", "steps"]
        for (process, thread), events in self.tracks().items():
            if process == "host":
                continue
            for event in events:
                begin, end = event["ts"], event["ts"] + event["dur"]
                require(any(s["ts"] - NS <= begin and end <= s["ts"] + s["dur"] + NS for s in steps),
                        f"{process}, {thread}: in no step: {event}")

    def check_counters(self):
        last = {}
        for event in self.events:
            if event["ph"] == "C":
                before = last.get(event["pid"], {"in": 0, "out": 0})
                require(all(event["args"][key] >= before[key] for key in before), f"a counter that went back: {event}")
                last[event["pid"]] = event["args"]
        self.bytes_in = sum(args["in"] for args in last.values())
        self.bytes_out = sum(args["out"] for args in last.values())
        sent = sum(e["args"]["bytes"] for (_, t), es in self.tracks().items() if t == "transfers" for e in es
                   if e["name"].startswith("send "))
        require_equal((self.bytes_in, self.bytes_out), (sent, sent), "counters of bytes")
