"""Says where it is, as one line of JSON; then does what its argument says."""
import json
import os
import sys

print(json.dumps({
    "image": open("/etc/image").read().strip() if os.path.exists("/etc/image") else None,
    "directory": os.getcwd(),
    "user": os.geteuid(),
    "python": sys.executable,
    "environment": dict(os.environ),
}), flush=True)  # fmt: skip
if len(sys.argv) > 1:
    exec(sys.argv[1])
