"""A small root file system for containers: Python, a shell, a few tools, and the launcher."""

import os
import pathlib
import re
import shutil
import subprocess

PROGRAMS = ["/usr/bin/python3", "/bin/bash", "/bin/cat", "/bin/ls", "/bin/hostname", "/usr/bin/env"]
LEFT_OUT = shutil.ignore_patterns("__pycache__", "test", "tests", "idlelib", "ensurepip", "lib2to3", "tkinter", "pydoc_data")


def make_image(directory, muster):
    """As a directory. Files of this machine: nothing is downloaded."""
    root = pathlib.Path(directory)
    for folder in ("usr/bin", "usr/lib", "usr/lib64", "usr/local/bin", "etc", "tmp", "proc", "sys", "dev", "run", "root", "mnt", "home", "workspace/mnt"):
        (root / folder).mkdir(parents=True)
    for folder in ("bin", "lib", "lib64"):
        (root / folder).symlink_to(f"usr/{folder}")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
    (root / "etc/group").write_text("root:x:0:\n")
    for name in ("hosts", "resolv.conf"):  # what runtimes put the machine's own on
        (root / "etc" / name).touch()
    for program in PROGRAMS:
        _copy(program, root)
    (root / "bin/sh").symlink_to("bash")
    stdlib = pathlib.Path(os.__file__).parent if os.__file__.startswith("/usr/lib/") else pathlib.Path("/usr/lib/python3.11")
    shutil.copytree(stdlib, root / str(stdlib).lstrip("/"), symlinks=False, ignore=LEFT_OUT, ignore_dangling_symlinks=True)
    shutil.copy(muster, root / "usr/local/bin/muster")
    return root


def _copy(program, root):
    """With the libraries it needs, under the names it needs them by."""
    (root / "usr/bin" / os.path.basename(program)).write_bytes(pathlib.Path(program).read_bytes())
    (root / "usr/bin" / os.path.basename(program)).chmod(0o755)
    needed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(0x", needed):
        target = root / (library if library.startswith("/usr") else f"/usr{library}").lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
