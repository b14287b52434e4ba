"""What a lab is made of, and how it is remembered between commands: state.json in the lab's directory."""

import dataclasses
import json
import os
import pathlib
from dataclasses import dataclass, field

from .kernel import LabError, Process


@dataclass
class Options:
    """How the nodes were asked for; `cluster up --help` explains them."""

    slurm: bool = True
    gpus: int = 4
    gpu_type: str = ""
    cpus: int = 8
    conf: list[str] = field(default_factory=list)
    private: list[str] = field(default_factory=list)
    share: list[str] = field(default_factory=list)
    ipv6: bool = False
    interfaces: int = 1
    docker0: bool = False
    debian_hosts: bool = False
    no_dns: bool = False


@dataclass
class Node:
    name: str
    addresses: list[str]  # of eth0, eth1, …
    init: Process = None
    daemons: dict[str, Process] = field(default_factory=dict)

    @property
    def pid(self):
        """Of its PID 1, as seen from outside."""
        if not self.up:
            raise LabError(f"node {self.name} is powered off")
        return self.init.pid

    @property
    def up(self):
        return self.init is not None and self.init.alive

    @property
    def interfaces(self):
        return [f"eth{i}" for i in range(len(self.addresses))]

    def port(self, interface):
        """What the other end of an interface's cable is called at the switch."""
        if interface not in self.interfaces:
            raise LabError(f"{self.name} has no {interface} (it has {' '.join(self.interfaces)})")
        return f"{self.name}.{interface[3:]}"


class Lab:
    """The state of one lab. `nodes` are by name; `helpers` are processes outside all nodes."""

    def __init__(self, directory, options):
        self.directory = pathlib.Path(directory)
        self.options = options
        self.nodes = {}
        self.switch = None
        self.helpers = {}

    def path(self, *parts):
        return str(self.directory.joinpath(*parts))

    def write(self, name, text, mode=0o644):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def node(self, name):
        if name not in self.nodes:
            raise LabError(f"no node {name!r} (have: {' '.join(self.nodes)})")
        return self.nodes[name]

    def workers(self):
        """The names of all nodes but ctl."""
        return [name for name in self.nodes if name != "ctl"]

    def save(self):
        state = {
            "options": dataclasses.asdict(self.options),
            "nodes": [[n.name, n.addresses, n.init, n.daemons] for n in self.nodes.values()],
            "switch": self.switch,
            "helpers": self.helpers,
        }
        self.write("state.json.new", json.dumps(state, indent=1))
        os.rename(self.path("state.json.new"), self.path("state.json"))

    @staticmethod
    def load(directory):
        try:
            state = json.loads(pathlib.Path(directory, "state.json").read_text())
        except FileNotFoundError:
            raise LabError(f"no cluster is up (no {directory}/state.json)") from None
        lab = Lab(directory, Options(**state["options"]))
        lab.switch = state["switch"] and Process(*state["switch"])
        lab.helpers = {name: Process(*p) for name, p in state["helpers"].items()}
        for name, addresses, init, daemons in state["nodes"]:
            daemons = {daemon: Process(*p) for daemon, p in daemons.items()}
            lab.nodes[name] = Node(name, addresses, init and Process(*init), daemons)
        return lab
