"""A small root file system of this machine's own programs: bash, some of coreutils and Python, with the libraries they
need. Nothing is fetched. It is what an image unpacks to."""

import os
import pathlib
import re
import shutil
import subprocess
import sysconfig

PROGRAMS = ("/bin/bash", "/bin/sh", "/bin/cat", "/bin/echo", "/bin/ls", "/bin/mkdir", "/bin/sleep", "/bin/true",
            "/usr/bin/env", "/usr/bin/id", "/usr/bin/python3")  # fmt: skip
DIRECTORIES = ("bin", "dev", "etc", "home", "lib64", "mnt", "opt", "proc", "root", "run", "sys", "tmp", "usr/bin",
               "usr/lib", "var/tmp")  # fmt: skip
# What a worker of the tests imports, and what Python needs to start.
UNWANTED = ("test", "idlelib", "tkinter", "turtledemo", "lib2to3", "distutils", "ensurepip", "pydoc_data", "__pycache__")


def libraries(program):
    """Absolute paths of what the program is linked with, the loader included."""
    said = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return re.findall(r"(/\S+)", said)


def copy(source, root):
    target = root / str(source).lstrip("/")
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(os.path.realpath(source), target)


def make(root):
    """Makes it at `root`, which must not exist."""
    root = pathlib.Path(root)
    for directory in DIRECTORIES:
        (root / directory).mkdir(parents=True)
    wanted = list(PROGRAMS)
    standard = pathlib.Path(sysconfig.get_path("stdlib", vars={"base": "/usr", "installed_base": "/usr"}))
    shutil.copytree(standard, root / str(standard).lstrip("/"), ignore=shutil.ignore_patterns(*UNWANTED, "*.a"))
    wanted += [str(path) for path in standard.glob("lib-dynload/*.so")]
    for program in wanted:
        copy(program, root)
        for library in libraries(program):
            copy(library, root)
    # Resolved by name at run time, so that ldd does not show them.
    for library in pathlib.Path("/lib/x86_64-linux-gnu").glob("libnss_*.so.2"):
        copy(library, root)
    (root / "usr/bin/python3.11").unlink(missing_ok=True)
    for name in ("passwd", "group", "hosts", "resolv.conf"):
        (root / "etc" / name).touch()
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/image").write_text("of the tests\n")
    return root
