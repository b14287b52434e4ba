"""A seed: scripts that somebody wrote by hand, and what becomes of them.

seed/   as they were written, the parts of a text put together
lab/    the smallest change that lets them run on the nodes of test/lab; the launcher is still the one they name
after/  the same job as a bare script with one line of muster
"""

import difflib
import pathlib
import re

HERE = pathlib.Path(__file__).parent
WORDS = [
    (re.compile(r"python3?[ \t\\\n]+-m torch\.distributed\.launch\b"), "muster launch"),
    (re.compile(r"\baccelerate launch\b"), "muster accelerate launch"),
    (re.compile(r"\btorchrun\b(?!\.sh)"), "muster run"),
]


class Seed:
    def __init__(self, name):
        self.directory = HERE / name

    def scripts(self, stage):
        """{name: text}"""
        return {path.name: path.read_text() for path in sorted((self.directory / stage).iterdir())}

    def diff(self):
        """From the seed to the copy for the lab."""
        before, after = self.scripts("seed"), self.scripts("lab")
        lines = []
        for name in sorted({*before, *after}):
            pair = [stage.get(name, "").splitlines(keepends=True) for stage in (before, after)]
            lines += difflib.unified_diff(*pair, f"seed/{name}", f"lab/{name}", n=0)
        return "".join(lines)

    def replaced(self):
        """The copy for the lab with only the launcher's name replaced."""
        return {name: replace_words(text) for name, text in self.scripts("lab").items()}


def replace_words(text):
    for pattern, words in WORDS:
        text = pattern.sub(words, text)
    return text
