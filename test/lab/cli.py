"""The command line of a lab: `cluster VERB …`. The lab lies in $CLUSTER_DIR, by default /tmp/muster-lab. Needs root.

A client command of Slurm may wait for ever (srun to a node that is unavailable): put `timeout` in front of it.
"""

import argparse
import os
import socket
import sys
import time

from . import capture, lifecycle, network, node, slurm
from .kernel import LabError, enter, wait_gone
from .state import Lab, Options


def directory():
    return os.path.abspath(os.environ.get("CLUSTER_DIR", "/tmp/muster-lab"))


def load():
    return Lab.load(directory())


def do_up(a):
    options = Options(
        slurm=not a.no_slurm,
        gpus=a.gpus,
        gpu_type=a.gpu_type,
        cpus=a.cpus,
        conf=a.conf,
        private=a.private + ["/tmp"] * a.private_tmp,
        share=a.share,
        ipv6=a.ipv6,
        interfaces=a.interfaces,
        docker0=a.docker0,
        debian_hosts=a.debian_hosts,
        no_dns=a.no_dns,
    )
    began = time.monotonic()
    lab = lifecycle.up(directory(), a.count, options)
    print(f"up: {len(lab.workers())} nodes + ctl in {time.monotonic() - began:.2f} s")


def do_down(a):
    began = time.monotonic()
    lifecycle.down(load(), a.keep)
    print(f"down in {time.monotonic() - began:.2f} s")


def do_status(a):
    lab = load()
    for each in lab.nodes.values():
        daemons = " ".join(f"{d}={p.pid if p.alive else 'dead'}" for d, p in each.daemons.items())
        print(f"{each.name:4} {' '.join(each.addresses)} {f'init={each.init.pid}' if each.up else 'OFF'} {daemons}")
    sys.stdout.flush()
    if lab.options.slurm and lab.nodes["ctl"].up:
        slurm.sinfo(lab, "-o", "%N %T %G %c %E")


def do_exec(a):
    lab = load()
    command = a.command[1:] if a.command[:1] == ["--"] else a.command
    if not command:
        raise LabError("exec NODE COMMAND…: no command")
    return node.run(lab, lab.node(a.node), command)


def do__connect(a):
    """ProxyCommand with ProxyUseFdpass: gives ssh a socket made in ctl's network."""
    lab = load()
    address = lab.nodes[a.host].addresses[0] if a.host in lab.nodes else a.host
    enter(lab.node("ctl").pid, ("net",))
    connection = socket.create_connection((address, a.port), 5)
    out = socket.socket(fileno=1)
    socket.send_fds(out, [b"\0"], [connection.fileno()])
    out.detach()


def do_ssh_config(a):
    print(load().path("ssh", "config.outside" if a.outside else "config"))


def do_env(a):
    lab = load()
    if lab.options.slurm:
        print(f"export SLURM_CONF={lab.path('etc/slurm.conf')}")


def do_pid(a):
    each = load().node(a.node)
    print(each.daemons[a.daemon].pid if a.daemon else each.pid)


def do_kill(a):
    each = load().node(a.node)
    process = each.daemons.get(a.daemon or node.slurm_daemon(a.node))
    if process is None or not process.kill():
        raise LabError(f"{a.daemon or node.slurm_daemon(a.node)} on {a.node} is not running")
    wait_gone([process])


def do_start(a):
    lab = load()
    node.start_daemon(lab, lab.node(a.node), a.daemon or node.slurm_daemon(a.node))


def do_poweroff(a):
    lab = load()
    node.power_off(lab, lab.node(a.node), quietly=not a.fin)


def do_boot(a):
    lab = load()
    lifecycle.boot(lab, lab.node(a.node))


def do_freeze(a):
    node.freeze(load().node(a.node))


def do_thaw(a):
    node.thaw(load().node(a.node))


def do_cut(a):
    lab = load()
    network.set_cable(lab, lab.node(a.node), "down", a.interface)


def do_heal(a):
    lab = load()
    network.set_cable(lab, lab.node(a.node), "up", a.interface)


def do_partition(a):
    network.partition(load(), [group.split(",") for group in a.groups])


def do_unpartition(a):
    network.unpartition(load())


def do_loss(a):
    network.loss(load().node(a.node), a.percent)


def do_delay(a):
    lab = load()
    network.set_delay(lab, lab.node(a.node), a.milliseconds)


def do_firewall(a):
    network.firewall(load().node(a.node), a.ports)


def do_rate(a):
    network.rate(load().node(a.node), a.rate)


def do_disk(a):
    node.small_disk(load().node(a.node), a.directory, a.size)


def do_replace(a):
    node.replace(load().node(a.node), os.path.abspath(a.path), os.path.abspath(a.source))


def do_capture(a):
    capture.record(load().switch.pid, a.file, lambda: print("capturing", flush=True))


def do_search(a):
    found = capture.search(a.file, os.fsencode(a.text))
    for protocol, source, from_port, target, to_port in found:
        print(f"{'tcp' if protocol == 6 else 'udp'} {source} port {from_port} -> {target} port {to_port}")
    return 0 if found else 1


def _add_up(add):
    up = add("up", do_up, "nodes n1 … nN and ctl")
    up.add_argument("count", type=int, metavar="N")
    up.add_argument("--no-slurm", action="store_true", help="bare nodes with sshd; Slurm need not be installed")
    up.add_argument("--gpus", type=int, default=4, help="that Slurm believes in, a node")
    up.add_argument("--gpu-type", default="", metavar="NAME", help="of those (v100), for --gpus=v100:4")
    up.add_argument("--cpus", type=int, default=8, help="that Slurm believes in, a node")
    up.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="of slurm.conf")
    up.add_argument("--private-tmp", action="store_true", help="as --private /tmp")
    up.add_argument(
        "--private", action="append", default=[], metavar="DIR", type=os.path.abspath, help="an empty one of each node's own"
    )
    up.add_argument(
        "--share", action="append", default=[], metavar="DIR", type=os.path.abspath, help="below a private one: stays shared"
    )
    up.add_argument("--ipv6", action="store_true", help="no IPv4 but on the loopback")
    up.add_argument("--interfaces", type=int, default=1, metavar="K", help="eth0 … eth<K-1>, each a network of its own")
    up.add_argument("--docker0", action="store_true", help="one more interface with the same address on every node")
    up.add_argument("--debian-hosts", action="store_true", help="own name -> 127.0.1.1, as Debian's installer does")
    up.add_argument("--no-dns", action="store_true", help="no names but localhost, and a name server that never answers")


def parser():
    top = argparse.ArgumentParser(prog="cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def add(name, function, text, *words):
        verb = verbs.add_parser(name, help=text, description=text)
        verb.set_defaults(function=function)
        for word in words:
            verb.add_argument(word, nargs="?" if word in ("daemon", "interface") else None)
        return verb

    _add_up(add)
    add("down", do_down, "end everything, remove the directory").add_argument("--keep", action="store_true", help="the logs")
    add("status", do_status, "nodes, pids, sinfo")
    run = add("exec", do_exec, "run a command in a node; signals and exit code pass", "node")
    run.add_argument("command", nargs=argparse.REMAINDER)
    config = add("ssh-config", do_ssh_config, "path of a configuration for ssh -F")
    config.add_argument("--outside", action="store_true", help="one that works from the machine itself as well")
    add("env", do_env, "export lines for a shell")
    add("pid", do_pid, "of the node's PID 1, or of a daemon, as seen from the machine", "node", "daemon")
    add("kill", do_kill, "kill -9 of one daemon (slurmd, slurmctld by default)", "node", "daemon")
    add("start", do_start, "start it again", "node", "daemon")
    off = add("poweroff", do_poweroff, "the whole node dies at once, silently", "node")
    off.add_argument("--fin", action="store_true", help="peers see its connections closed")
    add("boot", do_boot, "bring a node back that was powered off", "node")
    add("freeze", do_freeze, "SIGSTOP to everything in the node", "node")
    add("thaw", do_thaw, "SIGCONT to everything in the node", "node")
    add("cut", do_cut, "pull the node's cables, or one", "node", "interface")
    add("heal", do_heal, "plug them in again", "node", "interface")
    groups = add("partition", do_partition, "drop silently between groups of nodes: A,B C,D; others still reach all")
    groups.add_argument("groups", nargs="+", metavar="A,B")
    add("unpartition", do_unpartition, "forget partition and loss")
    add("loss", do_loss, "random loss, both ways, in percent", "node").add_argument("percent", type=float)
    hold = add("delay", do_delay, "hold every packet on its way into the node's eth0", "node")
    hold.add_argument("milliseconds", type=float)
    add("firewall", do_firewall, 'new TCP connections reach these ports only ("22, 30000-30100"; "": all)', "node", "ports")
    add("rate", do_rate, 'limit of what the node sends on eth0 ("10mbit"; 0: none)', "node", "rate")
    add("disk", do_disk, 'a file system of its own on a directory of the node, of SIZE ("64k")', "node", "directory", "size")
    add("replace", do_replace, "make a path of the node another file or directory", "node", "path", "source")
    add("capture", do_capture, "write what goes over the switch to a pcap file, until SIGINT or SIGTERM", "file")
    add("search", do_search, "which connections of a pcap file carried a text", "file", "text")
    inner = add("_connect", do__connect, "for ssh-config --outside", "host")
    inner.add_argument("port", type=int)
    return top


def main(arguments):
    a = parser().parse_args(arguments)
    try:
        return a.function(a) or 0
    except (LabError, OSError) as e:
        sys.stderr.write(f"cluster: {e}\n")
        return 255
