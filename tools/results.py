"""What the checks of one phase found, kept in build/results/<phase>.json, and the summary of several phases."""

import json
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/results"
EXPECTED_SKIPS = ROOT / "test/expected-skips.txt"


class Results:
    def __init__(self, phase):
        self.phase = phase
        self.passed = 0
        self.failed = []  # [name, why in one line]
        self.skipped = []  # [name, reason]

    def save(self):
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{self.phase}.json").write_text(json.dumps(vars(self), indent=1) + "\n")

    @staticmethod
    def load(phase):
        path = FOLDER / f"{phase}.json"
        if not path.exists():
            return None
        results = Results(phase)
        vars(results).update(json.loads(path.read_text()))
        return results

    @staticmethod
    def forget(phase):
        (FOLDER / f"{phase}.json").unlink(missing_ok=True)


def unexpected(skipped):
    """The skips whose reason no line of the list of expected ones matches."""
    lines = (line.strip() for line in EXPECTED_SKIPS.read_text().splitlines())
    patterns = [re.compile(line) for line in lines if line and not line.startswith("#")]
    return [[name, reason] for name, reason in skipped if not any(p.search(reason) for p in patterns)]


def print_summary(all_results):
    """Prints what failed and what was skipped, and why, then the totals. Returns the exit code.

    With CI set, a skip that is not expected there fails the run.
    """
    passed = sum(r.passed for r in all_results)
    failed = [[f"{r.phase}: {name}", why] for r in all_results for name, why in r.failed]
    skipped = [[f"{r.phase}: {name}", why] for r in all_results for name, why in r.skipped]
    surprises = unexpected(skipped)
    for name, reason in failed:
        print(f"FAILED   {name}: {reason}")
    for name, reason in skipped:
        note = "  (not expected: see test/expected-skips.txt)" if [name, reason] in surprises else ""
        print(f"skipped  {name}: {reason}{note}")
    if os.environ.get("CI") and surprises:
        print(f"FAILED   {len(surprises)} skipped that may not be skipped in CI")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped", flush=True)
    return 1 if failed or (os.environ.get("CI") and surprises) else 0
