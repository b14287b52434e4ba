"""A whole lab: up and down."""

import os
import shutil

from . import network, node, slurm, ssh
from .kernel import LabError, wait_gone
from .state import Lab, Node

IDLE_S = 60


def up(directory, count, options):
    """`count` nodes and ctl, all daemons ready. Whatever goes wrong, `down` cleans up."""
    if os.geteuid() != 0:
        raise LabError("needs root")
    if os.path.exists(os.path.join(directory, "state.json")):
        raise LabError(f"already up ({directory}): cluster down first")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(os.path.join(directory, "log"))
    lab = Lab(directory, options)
    for number, name in [(1, "ctl"), *((10 + i, f"n{i}") for i in range(1, count + 1))]:
        lab.nodes[name] = Node(name, [network.address(options, i, number) for i in range(options.interfaces)])
    lab.save()
    ssh.write_files(lab)
    if options.slurm:
        slurm.write_files(lab)
    network.make_switch(lab)
    for each in lab.nodes.values():
        node.boot(lab, each)
    for each in lab.nodes.values():
        for daemon in node.daemons_of(lab, each.name):
            if daemon != "slurmd":
                node.start_daemon(lab, each, daemon)
    if options.slurm:
        ctl = lab.nodes["ctl"]
        node.wait_inside(ctl, "slurmctld", lambda: node.answers(ctl.addresses[0], 6817))
        for name in lab.workers():
            node.start_daemon(lab, lab.nodes[name], "slurmd")
    for each in lab.nodes.values():
        node.wait_ssh(each)
    if options.slurm:
        slurm.wait_idle(lab, IDLE_S)
    return lab


def down(lab, keep=False):
    """`keep`: leave the directory with the logs."""
    holders = [n.init for n in lab.nodes.values() if n.init] + list(lab.helpers.values())
    if lab.switch:
        holders.append(lab.switch)
    for process in holders:  # the PID 1 of a node takes all of the node with it
        process.kill()
    wait_gone(holders + [d for n in lab.nodes.values() for d in n.daemons.values()])
    if keep:
        os.rename(lab.path("state.json"), lab.path("state.json.down"))
    else:
        shutil.rmtree(lab.directory)


def boot(lab, off):
    """Brings a node back that was powered off."""
    if off.up:
        raise LabError(f"{off.name} is up")
    network.unplug(lab, off)
    node.boot(lab, off)
    for daemon in node.daemons_of(lab, off.name):
        node.start_daemon(lab, off, daemon)
    node.wait_ssh(off)
