#!/usr/bin/env python3
"""Tests of the program from outside. All files here with a `suite` belong to it.

usage: cli_test.py PROGRAM [WORD...]   (only tests whose name has one of the words)
needs TANDEM_MODELS and TANDEM_TEST_DATA, the folders of the shipped models and of the test data
"""

import sys

import bad_config
import bad_options
import bad_text
import bad_weights
import bench_command
import check_command
import endings
import fallback_command
import fault_options
import file_endings
import file_rules
import inspect_command
import model_forms
import observe_command
import plan_command
import program
import quantize_command
import run_command
import score_command
import state_command
import synth_command
import tap

MODULES = (run_command, model_forms, score_command, inspect_command, plan_command, check_command, synth_command, quantize_command, state_command,
           observe_command, fallback_command, bench_command, endings, fault_options, bad_options, bad_text, bad_config,
           bad_weights, file_rules, file_endings)


def main():
    words = sys.argv[2:]
    tests = [test for module in MODULES for test in module.suite.tests if not words or any(word in test[0] for word in words)]
    raise SystemExit(1 if tap.run(tests, program.Program(sys.argv[1])) else 0)


if __name__ == "__main__":
    main()
