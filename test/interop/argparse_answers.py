"""Answers command lines as torch's own parser does; run by test_argparse.py with the Python that has torch.

One JSON object a line in ({"verb", "args", "env"}), one out: {"exit": code, "error": text} or {"values": {…}}.
"""

import contextlib
import io
import json
import os
import sys
import traceback

import torch.distributed.launch as launch
import torch.distributed.run as run


def shown(value):
    if isinstance(value, bool) or value is None or isinstance(value, (str, list)):
        return value
    return str(value) if isinstance(value, int) else f"{value:.17g}"


def answer(request):
    for name in [name for name in os.environ if name.startswith("PET_")]:
        del os.environ[name]
    os.environ.update(request["env"])
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            parsed = (launch if request["verb"] == "launch" else run).parse_args(request["args"])
        except SystemExit as e:
            return {"exit": e.code, "error": errors.getvalue()}
        except Exception:
            return {"exit": 1, "error": traceback.format_exc()}
    return {"values": {name: shown(value) for name, value in vars(parsed).items()}}


sys.argv = ["torchrun"]
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
