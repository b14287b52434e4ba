#!/bin/sh
# As much of conda as its contract with shells: `conda shell.bash hook` prints functions, of which `conda activate` asks
# `conda shell.posix activate NAME|PREFIX` what to change. Environments are the folders of $CONDA_STAND_IN_ENVS.
set -eu

hook() {
  cat <<EOF
export CONDA_EXE='$0'
export _CE_CONDA=''
__conda_exe() (
    "\$CONDA_EXE" "\$@"
)
__conda_activate() {
    local ask_conda
    ask_conda="\$(PS1="\${PS1:-}" __conda_exe shell.posix "\$@")" || \\return
    \\eval "\$ask_conda"
    \\hash -r
}
conda() {
    \\local cmd="\${1-__missing__}"
    case "\$cmd" in
        activate|deactivate) __conda_activate "\$@" ;;
        *) __conda_exe "\$@" ;;
    esac
}
if [ -z "\${CONDA_SHLVL+x}" ]; then
    \\export CONDA_SHLVL=0
fi
EOF
}

activate() {
  case $1 in
    */*) prefix=$1 kind=EnvironmentLocationNotFound what="Not a conda environment: $1" ;;
    *) prefix=$CONDA_STAND_IN_ENVS/$1 kind=EnvironmentNameNotFound what="Could not find conda environment: $1" ;;
  esac
  if [ ! -d "$prefix/conda-meta" ]; then
    printf '\n%s: %s\n\n' "$kind" "$what" >&2
    exit 1
  fi
  cat <<EOF
PS1='($1) '
export PATH='$prefix/bin:$PATH'
export CONDA_PREFIX='$prefix'
export CONDA_SHLVL='$((${CONDA_SHLVL:-0} + 1))'
export CONDA_DEFAULT_ENV='$1'
export CONDA_PROMPT_MODIFIER='($1) '
EOF
  for script in "$prefix"/etc/conda/activate.d/*.sh; do
    [ ! -e "$script" ] || printf '. "%s"\n' "$script"
  done
}

case "$1 ${2-}" in
  "shell.bash hook") hook ;;
  "shell.posix activate") activate "$3" ;;
  "list --prefix") printf '# packages in environment at %s:\nnumpy=1.26.4=py311\n' "$3" ;;
  *) echo "CommandNotFoundError: $*" >&2; exit 2 ;;
esac
