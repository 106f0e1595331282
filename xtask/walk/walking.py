"""Steps of the walk: each states what it expects, is run by itself, and counts as passed, failed or not simulated.

The same steps run on the simulated driver and on a real one. What the simulator lacks is marked at its step, with the
reason and with what the step fails by; a marked step that fails by anything else, or that passes on it all the same,
has failed, so that no mark hides a mistake or outlives its reason.
"""

import os
import subprocess
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
SIMULATED = os.environ.get("CUHOLD_WALK_DRIVER") == "sim"
OUTCOMES = ("passed", "failed", "not simulated", "skipped")

_steps = []


class Lack:
    """Why a step can't pass on the simulated driver, and a part of the failure that shows it."""

    def __init__(self, reason, shown_by):
        self.reason, self.shown_by = reason, shown_by


class Skip(Exception):
    """The machine lacks what the step needs: a second device, a feature."""


def step(text, lack=None):
    """Enrols a step: what it expects, in words, and what the simulated driver lacks for it, if anything."""

    def enrol(function):
        package = function.__module__.split(".")[0]
        _steps.append((package, text, function, lack))
        return function

    return enrol


def run(package):
    """Runs the steps of a package, prints a line for each and the counts, and says whether none failed."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for of, text, function, lack in _steps:
        if of != package:
            continue
        outcome, why = _outcome(function, lack if SIMULATED else None)
        counts[outcome] += 1
        print(f"{package}: {outcome:<13} {text}" + (f" ({why})" if why else ""), flush=True)
    parts = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    print(f"walk {package}: {sum(counts.values())} steps: {parts}", flush=True)
    return counts["failed"] == 0 and counts["passed"] > 0


def _outcome(function, lack):
    try:
        function()
    except Skip as why:
        return "skipped", str(why)
    except Exception as why:  # whatever a package raises is the step's outcome
        if lack is not None and lack.shown_by in str(why):
            return "not simulated", lack.reason
        traceback.print_exc(file=sys.stdout)
        return "failed", f"{type(why).__name__}: {why}"
    if lack is not None:
        return "failed", f"is simulated, though marked: {lack.reason}"
    return "passed", ""


def expect(found, wanted, what="answer"):
    """The one comparison of all steps: it names both sides."""
    if found != wanted:
        raise AssertionError(f"{what}: found {found!r}, expected {wanted!r}")


def raises(kind, call, containing=""):
    """The call has to raise this kind of exception, with this text in it."""
    try:
        call()
    except kind as why:
        if containing not in str(why):
            raise AssertionError(f"raised {why!r}, expected {containing!r} in it") from why
        return
    raise AssertionError(f"raised nothing, expected {kind.__name__} with {containing!r}")


def child(text, *arguments, files=()):
    """Runs a few lines of Python in a process of their own, which inherits these open files."""
    lines = f"import sys; sys.path.insert(0, {HERE!r})\n{text}"
    command = [sys.executable, "-c", lines, *arguments]
    ended = subprocess.run(command, timeout=60, capture_output=True, text=True, pass_fds=files)
    if ended.returncode != 0:
        said = (ended.stdout + ended.stderr)[-2000:]
        raise AssertionError(f"the child process ended with {ended.returncode}: {said}")
