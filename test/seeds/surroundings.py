"""What the seeds expect of their clusters: a conda, modules, a project directory."""

import pathlib
import shutil
import subprocess

CONDA = """\
# Stands in for conda: what its activate scripts and its shell function do, as far as a job can tell.
conda() {{
  [ "$1" = activate ] || {{ echo "conda: no $1 here" >&2; return 2; }}
  local prefix={prefix}/envs/$2
  [ -d "$prefix" ] || {{ echo "EnvironmentNameNotFound: Could not find conda environment: $2" >&2; return 1; }}
  export PATH="$prefix/bin:$PATH" CONDA_PREFIX="$prefix" CONDA_DEFAULT_ENV="$2" CONDA_SHLVL=1
}}
"""


def make_conda(prefix, python, *environments):
    """A prefix with environments that have this Python."""
    shutil.rmtree(prefix, ignore_errors=True)
    (prefix / "bin").mkdir(parents=True)
    function = prefix / "conda.sh"
    function.write_text(CONDA.format(prefix=prefix))
    # `source activate NAME`, and `source …/bin/activate` before `conda activate NAME`
    (prefix / "bin/activate").write_text(f'source {function}\n[ $# = 0 ] || conda activate "$1"\n')
    program = prefix / "bin/conda"
    program.write_text(f'#!/bin/sh\n[ "$*" = "shell.bash hook" ] && exec cat {function}\nexit 2\n')
    program.chmod(0o755)
    bin_dir = pathlib.Path(python.bin_dir)
    for name in environments:
        env = prefix / "envs" / name
        env.parent.mkdir(exist_ok=True)
        if (bin_dir.parent / "pyvenv.cfg").exists():
            env.symlink_to(bin_dir.parent)
        else:
            env.mkdir()
            (env / "bin").symlink_to(bin_dir)


def make_modules(directory, modules):
    """Module files; `modules` are their lines by name ("cuda/12.3.2")."""
    for name, lines in modules.items():
        path = pathlib.Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#%Module1.0\n" + "".join(f"{line}\n" for line in lines))


def module_variables(directory):
    """With these every bash has the command `module`, as on a cluster."""
    return {"MODULEPATH": str(directory), "BASH_ENV": "/usr/share/modules/init/bash", "MODULESHOME": "/usr/share/modules"}


def put(directory, files):
    """Scripts and programs by name; a path is linked to."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if isinstance(content, pathlib.Path):
            (directory / name).unlink(missing_ok=True)
            (directory / name).symlink_to(content)
        else:
            (directory / name).write_text(content)
            (directory / name).chmod(0o755)


def make_venv(directory):
    """A virtual environment of Debian's Python that has its packages."""
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages", directory], check=True)
