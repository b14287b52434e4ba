"""One node: its namespaces and files, its daemons, its death."""

import os
import pathlib
import signal
import socket
import uuid

from . import network, slurm
from .kernel import (
    MS_BIND,
    MS_MOVE,
    MS_PRIVATE,
    MS_REC,
    LabError,
    die_with_parent,
    enter,
    exit_code,
    forked,
    hold,
    inside,
    mount,
    processes_of,
    set_host_name,
    spawn,
    wait_gone,
    wait_until,
)

START_S = 20
_FOREIGN = ("SLURM_", "SLURMD_", "PMI_", "SBATCH_", "SRUN_", "NOTIFY_SOCKET")


def _munged(lab, name):
    files = ["--key-file", lab.path("munge.key"), "--seed-file", "/run/munge/seed", "--pid-file", "/run/munge/munged.pid"]
    log = lab.path("log", f"munged.{name}.log")
    return ["munged", "--foreground", *files, "--log-file", log, "--socket", slurm.munge_socket(lab)]


DAEMONS = {
    "munged": _munged,
    "sshd": lambda lab, name: ["/usr/sbin/sshd", "-D", "-f", lab.path("nodes", name, "sshd_config"), "-e"],
    "slurmctld": lambda lab, name: ["slurmctld", "-D", "-i", "-f", lab.path("etc/slurm.conf")],
    "slurmd": lambda lab, name: ["slurmd", "-D", "-N", name, "-f", lab.path("etc/slurm.conf")],
}


def slurm_daemon(name):
    return "slurmctld" if name == "ctl" else "slurmd"


def daemons_of(lab, name):
    """In the order in which they are started."""
    return ["munged", "sshd", slurm_daemon(name)] if lab.options.slurm else ["sshd"]


def environment(lab, name):
    """For programs in a node: ours, without what a scheduler around us has set; the node's own programs come first."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    if lab.options.slurm:
        env["SLURM_CONF"] = lab.path("etc/slurm.conf")
    env["HOSTNAME"] = name
    env["PATH"] = f"{lab.path('nodes', name, 'bin')}:{env.get('PATH', os.defpath)}"
    return env


def hosts(lab, name):
    """The node's /etc/hosts."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    if lab.options.debian_hosts:  # as Debian's installer writes it
        lines.append(f"127.0.1.1 {name}.lab {name}")
    if not lab.options.no_dns:
        others = [n for n in lab.nodes.values() if n.name != name or not lab.options.debian_hosts]
        lines += [f"{n.addresses[0]} {n.name}.lab {n.name}" for n in others]
    return "\n".join(lines) + "\n"


def write_files(lab, name):
    folder = f"nodes/{name}"
    server = f"nameserver {network.black_hole(lab.options)}\n" if lab.options.no_dns else "# nobody to ask\n"
    lab.write(f"{folder}/hosts", hosts(lab, name))
    lab.write(f"{folder}/hostname", name + "\n")
    lab.write(f"{folder}/resolv.conf", server)
    lab.write(f"{folder}/boot_id", f"{uuid.uuid4()}\n")
    if not os.path.exists(lab.path(folder, "machine-id")):
        lab.write(f"{folder}/machine-id", uuid.uuid4().hex + "\n")
    os.makedirs(lab.path(folder, "bin"), exist_ok=True)


def _own_directory(target, kept):
    """An empty one, but for directories below it that stay those of the machine."""
    for i, directory in enumerate(kept):
        os.makedirs(f"/run/keep/{i}")
        mount(directory, f"/run/keep/{i}", None, MS_BIND | MS_REC)
    mount("tmpfs", target, "tmpfs", 0, "mode=1777")
    for i, directory in enumerate(kept):
        os.makedirs(directory, exist_ok=True)
        mount(f"/run/keep/{i}", directory, None, MS_MOVE)
        os.rmdir(f"/run/keep/{i}")


def _set_up(lab, name):
    """In the new namespaces."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    set_host_name(name)
    mount("proc", "/proc", "proc")
    resolv = os.path.realpath("/etc/resolv.conf")
    mount("tmpfs", "/run", "tmpfs", 0, "mode=755")
    for folder in ("/run/sshd", "/run/lock", "/run/munge", "/run/cgroup"):
        os.makedirs(folder, mode=0o755)
    cgroups = os.path.isdir("/sys/fs/cgroup")  # /sys shows this network, the cgroups stay the machine's
    if cgroups:
        mount("/sys/fs/cgroup", "/run/cgroup", None, MS_BIND | MS_REC)
    mount("sysfs", "/sys", "sysfs")
    if cgroups:
        mount("/run/cgroup", "/sys/fs/cgroup", None, MS_MOVE)
    mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777")
    for private in lab.options.private:
        kept = [d for d in [str(lab.directory), *lab.options.share] if pathlib.Path(private) in pathlib.Path(d).parents]
        _own_directory(private, kept)
    if resolv.startswith("/run/"):
        os.makedirs(os.path.dirname(resolv), exist_ok=True)
        pathlib.Path(resolv).touch()
    places = {
        lab.path("nodes", name, "hosts"): "/etc/hosts",
        lab.path("nodes", name, "resolv.conf"): resolv,
        lab.path("nodes", name, "hostname"): "/etc/hostname",
        lab.path("nodes", name, "machine-id"): "/etc/machine-id",
        lab.path("nodes", name, "boot_id"): "/proc/sys/kernel/random/boot_id",
        lab.path("ssh/config"): "/etc/ssh/ssh_config",
    }
    for source, target in places.items():
        if os.path.exists(target):
            mount(source, target, None, MS_BIND)
    network.ip_batch(os.getpid(), "link set lo up")


def boot(lab, node):
    """Without its daemons."""
    write_files(lab, node.name)
    node.init = hold(node.name, lambda: _set_up(lab, node.name))
    node.daemons = {}
    lab.save()
    network.plug(lab, node)


def start_daemon(lab, node, daemon):
    if daemon in node.daemons and node.daemons[daemon].alive:
        raise LabError(f"{daemon} on {node.name} is running")
    if daemon.startswith("slurm"):
        wait_inside(node, "munged", lambda: os.path.exists(slurm.munge_socket(lab)))
    log = lab.path("log", f"{daemon}.{node.name}.out")
    argv = DAEMONS[daemon](lab, node.name)
    node.daemons[daemon] = spawn(node.pid, argv, environment(lab, node.name), log)
    lab.save()


def wait_inside(node, what, is_so):
    wait_until(f"{what} on {node.name}", lambda: inside(node.pid, lambda: not is_so()) == 0, START_S)


def answers(address, port):
    try:
        socket.create_connection((address, port), 1).close()
        return True
    except OSError:
        return False


def wait_ssh(node):
    wait_inside(node, "sshd", lambda: answers("127.0.0.1", 22))


def power_off(lab, node, quietly=True):
    """All of it dies at once. Quietly: nobody hears of it, as with a mains plug; else peers see connections closed."""
    processes = [node.init, *node.daemons.values()]
    node.pid  # says so when it is off already
    if quietly:
        network.set_cable(lab, node, "down")
    network.set_delay(lab, node, 0)
    node.init.kill()
    wait_gone(processes)


def signal_all(node, number):
    """To every process of the node but its PID 1, at one moment."""

    def send():
        try:
            os.kill(-1, number)
        except ProcessLookupError:
            pass  # there is nobody else

    if inside(node.pid, send, ("pid",)):
        raise LabError(f"could not signal {node.name}")


def freeze(node):
    """Returns when everything stands still; D: a parent in vfork(), whose child is stopped."""
    signal_all(node, signal.SIGSTOP)

    def still():
        return all(state in "TtDZX" for pid, state in processes_of(node.pid).items() if pid != node.pid)

    wait_until(f"{node.name} to stand still", still, START_S)


def thaw(node):
    signal_all(node, signal.SIGCONT)


def small_disk(node, directory, size):
    """An own file system on a directory of the node, of `size` bytes ("64k"): soon full."""

    def make():
        os.makedirs(directory, exist_ok=True)
        mount("tmpfs", directory, "tmpfs", 0, f"size={size},mode=1777")

    if inside(node.pid, make, ("mnt",)):
        raise LabError(f"could not mount {directory} on {node.name}")


def replace(node, path, source):
    """What a path is on this node alone: another file or directory."""
    if inside(node.pid, lambda: mount(source, path, None, MS_BIND), ("mnt",)):
        raise LabError(f"could not replace {path} on {node.name}")


def run(lab, node, argv):
    """A command in the node, with our stdio and signals; returns its exit code. It dies with this process."""
    env, directory = environment(lab, node.name), os.getcwd()
    enter(node.pid)

    def become_it():
        die_with_parent()
        try:
            os.chdir(directory)
        except OSError:
            os.chdir("/")
        try:
            os.execvpe(argv[0], argv, env)
        except OSError as e:
            os.write(2, f"cluster exec: {argv[0]}: {e.strerror}\n".encode())
            return 127

    child = forked(become_it)
    passed_on = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT]
    from_terminal = [signal.SIGINT, signal.SIGQUIT]  # a terminal sends them to the child as well
    for number in passed_on + from_terminal:
        signal.signal(number, lambda number, frame: os.kill(child, number))
    if os.isatty(0):
        for number in from_terminal:
            signal.signal(number, signal.SIG_IGN)
    return exit_code(os.waitpid(child, 0)[1])
