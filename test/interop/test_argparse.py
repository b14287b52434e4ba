"""The argument parser beside argparse: thousands of generated command lines, given to torch 2.13's own parser and to ours."""

import json
import os
import pathlib
import random
import subprocess

import pytest

from harness import ROOT, clean_env

pytestmark = pytest.mark.interop

LINES = 8000
SEED = 20261115

VALUED = {  # option: values worth trying, good and bad
    "nnodes": ["1", "1:4", "2:1", "", "x"],
    "nproc-per-node": ["1", "2", "gpu", "-1", "auto"],
    "rdzv-backend": ["static", "c10d", "etcd"],
    "rdzv-endpoint": ["localhost:0", "[::1]:29500", "h"],
    "rdzv-id": ["a b", "7", "-", ""],
    "rdzv-conf": ["a=b,c=d", "a=", "timeout=3"],
    "max-restarts": ["0", "3", "-3", "+4", " 5 ", "1_000", "1__0", "0x10", "x", "", "٣", "3.0", "9" * 30],
    "monitor-interval": ["0.1", "1e-3", "inf", "-inf", "nan", "1_0.5", ".5", "5.", ".", "e5", "1e", "x", ""],
    "start-method": ["spawn", "fork", "forkserver", "thread", ""],
    "event-log-handler": ["null", "console", "x"],
    "role": ["default", "trainer", "--", "-x", "two words"],
    "log-dir": ["/tmp/x", "", "-5"],
    "local-ranks-filter": ["0", "0,1"],
    "duplicate-stdout-filters": ["a", "a,b", "a,,b", ",", ",,,", ""],
    "duplicate-stderr-filters": ["x,,", ",,x", "e=f"],
    "node-rank": ["0", "1", "-1", "-.5", "- 1"],
    "master-addr": ["127.0.0.1", "::1"],
    "master-port": ["29500", "0", "port", "-29500"],
    "local-addr": ["h", "127.0.0.1"],
    "logs-specs": ["default"],
    "numa-binding": ["node", "socket", "exclusive", "core-complex", "numa", ""],
    "signals-to-handle": ["SIGTERM", "SIGTERM,SIGUSR1"],
    "shutdown-timeout": ["30", "0", "-1", "x"],
    "redirects": ["0", "3", "0:1,1:2", "-3", "x"],
    "tee": ["0", "3", "1:3"],
}
TEXTS = set(VALUED) - {"duplicate-stdout-filters", "duplicate-stderr-filters"}
FLAGS = ["standalone", "module", "no-python", "run-path", "virtual-local-rank", "help", "use-env"]
NOT_FROM_ENVIRONMENT = {"logs-specs", "numa-binding", "help", "use-env"}
SHORT_VALUED = ["r", "t"]
SHORT_FLAGS = ["m", "h"]
SCRIPTS = ["a.py", "./dir/a.py", "-5", "-.5", "- x", "-", "", "two words", "--not an option", "--nnodes x", "ünïcode"]
ODD = ["--", "-", "", "-x", "--bogus", "--bogus=1", "--nproc", "--log", "--=x", "-=3", "-m=", "-m=t3", "-mt3", "-mr", "-tm",
       "-hm", "--standalone=1", "--tee=", "-t=", "--local-rank", "--nnodes 1", "-1e5", "-1", "--n", "--h", "-t 3", "-5x",
       "--master", "--master-", "--max_", "--r", "--rdzv-e=x:1", "--us", "--use-env=True", "---", "-\t"]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, probability):
        return self.random.random() < probability

    def spelling(self, name):
        pick = self.random.choice
        if name in ("redirects", "tee", "module", "help") and self.chance(0.4):
            return "-" + name[0]
        text = "--" + (name.replace("-", "_") if self.chance(0.4) else name)
        if self.chance(0.05):
            text = text.replace("-", "_", 3).replace("__", "--", 1)  # mixed spellings are no spelling
        if self.chance(0.3):
            text = text[: self.random.randint(3, len(text))]
        return pick([text] * 20 + [text.upper(), text + "x"])

    def option(self):
        pick = self.random.choice
        if self.chance(0.25):
            weights = [1 if f == "help" else 6 for f in FLAGS]
            flag = self.spelling(self.random.choices(FLAGS, weights)[0])
            return [flag + pick(["=", "=1", "t3"])] if self.chance(0.04) else [flag]
        if self.chance(0.06):
            bundle = "".join(pick(SHORT_FLAGS[:1]) for _ in range(self.random.randint(1, 2)))
            return [f"-{bundle}{pick(SHORT_VALUED)}{pick(['', '3', '=3', '0:1', 'm'])}"]
        name = pick(list(VALUED))
        spelling, value = self.spelling(name), pick(VALUED[name])
        if not spelling.startswith("--") and self.chance(0.5):
            return [spelling + value]
        if self.chance(0.5):
            return [f"{spelling}={value}"]
        return [spelling] if self.chance(0.04) else [spelling, value]

    def script_arguments(self):
        pick = self.random.choice
        words = []
        for _ in range(self.random.randint(0, 4)):
            words += pick([["x"], ["--lr", "0.1"], ["--"], ["-v"], ["--epochs=3"], self.option(), [pick(ODD)]])
        return words

    def environment(self):
        env = {}
        while self.chance(0.3):
            if self.chance(0.3):
                name = self.random.choice(FLAGS)
                env[f"PET_{name}"] = self.random.choice(["0", "1", "2", "-1", " 1 ", "1_0"] * 3 + ["", "x", "true"])
            else:
                name = self.random.choice(list(VALUED))
                env[f"PET_{name}"] = self.random.choice(VALUED[name])
        return {name.upper().replace("-", "_"): value for name, value in env.items()}

    def line(self):
        words = []
        while self.chance(0.7):
            words += self.option()
        if self.chance(0.08):
            words.insert(self.random.randint(0, len(words)), self.random.choice(ODD))
        if self.chance(0.15):
            words.append("--")
        if self.chance(0.95):
            words.append(self.random.choice(SCRIPTS[:2] * 8 + SCRIPTS))
            words += ["--"] if self.chance(0.1) else []
            words += self.script_arguments() if self.chance(0.6) else []
        return {"verb": "launch" if self.chance(0.2) else "torchrun", "args": words, "env": self.environment()}


@pytest.fixture(scope="module")
def probe(muster):
    path = pathlib.Path(os.environ.get("MUSTER_PARSE_PROBE") or pathlib.Path(muster).with_name("parse_probe"))
    assert path.exists(), f"{path} is not there: run make first"
    return str(path)


def answers(command, requests):
    text = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=170, env=clean_env(), check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def normal(answer):
    """What must agree: the exit code, or all values."""
    if "values" not in answer:
        return ("exit", answer["exit"])
    values = dict(answer["values"])
    # `--role=--` gives an empty list in Python 3.11, where every other value is the text: its slip, not a rule.
    values.update({name: "--" for name, value in values.items() if value == [] and name.replace("_", "-") in TEXTS})
    return ("values", values)


def difference(case):
    """A command line and only what differs, so that it can be read."""
    request, theirs, ours = case
    if "values" in theirs and "values" in ours:
        names = [n for n in theirs["values"] if theirs["values"][n] != ours["values"].get(n)]
        theirs, ours = ({n: a["values"].get(n) for n in names} for a in (theirs, ours))
    return f"{json.dumps(request)}\n  argparse: {json.dumps(theirs)[-500:]}\n  ours: {json.dumps(ours)[-500:]}"


def last_sentence(text):
    return text.rstrip("\n").split("torchrun: error: ")[-1]


def test_same_as_argparse(probe, torch_new):
    generator = Generator(SEED)
    requests = [generator.line() for _ in range(LINES)]
    requests = [r for r in requests if "٣" not in " ".join([*r["args"], *r["env"].values()])]
    theirs = answers([torch_new, str(ROOT / "test/interop/argparse_answers.py")], requests)
    ours = answers([probe], requests)
    assert len(theirs) == len(ours) == len(requests)
    kinds = [normal(answer)[0] if "values" in answer else answer["exit"] for answer in theirs]
    assert {"values", 0, 1, 2} == set(kinds), "the generator no longer reaches every outcome"
    assert kinds.count("values") > LINES / 4
    wrong = [(r, t, o) for r, t, o in zip(requests, theirs, ours) if normal(t) != normal(o)]
    assert not wrong, f"{len(wrong)} of {len(requests)} differ, e.g.\n" + "\n".join(map(difference, wrong[:5]))
    # The sentence is argparse's too.
    wrong = [
        (r["args"], last_sentence(t["error"]), o["error"])
        for r, t, o in zip(requests, theirs, ours)
        if t.get("exit") == 2 and last_sentence(t["error"]) != o["error"]
    ]
    assert not wrong, f"{len(wrong)} messages differ, e.g. {json.dumps(wrong[:5], indent=1)}"
