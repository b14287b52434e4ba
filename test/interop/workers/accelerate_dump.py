"""Writes down the environment and arguments it was given, ranked or not, and ends as it is told."""

import json
import os
import sys

name = os.environ.get("RANK", "plain")
with open(f"{os.environ['DUMP_DIR']}/{name}.part", "w") as f:
    json.dump({"environment": dict(os.environ), "arguments": sys.argv[1:]}, f)
os.rename(f.name, f"{os.environ['DUMP_DIR']}/{name}.json")
if len(sys.argv) > 1 and sys.argv[1] == "exit":
    sys.exit(int(sys.argv[2]))
