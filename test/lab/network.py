"""The switch, its cables, and what can be wrong with them."""

import ipaddress
import os
import subprocess

from . import delay
from .kernel import LabError, Process, forked, hold, wait_gone


def address(options, interface, number):
    """Of node `number` on eth<interface>."""
    return str(ipaddress.ip_address(f"fd88:0:0:{interface}::{number}")) if options.ipv6 else f"10.88.{interface}.{number}"


def black_hole(options):
    """An address that nobody has."""
    return address(options, 0, 254)


def in_net(pid, command, **run):
    return subprocess.run(["nsenter", "-t", str(pid), "--net", "--", *command], **run)


def ip_batch(pid, *lines):
    in_net(pid, ["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def make_switch(lab):
    lab.switch = hold("switch", lambda: None, ("net", "uts", "pid"))
    lab.save()
    for i in range(lab.options.interfaces):
        ip_batch(lab.switch.pid, f"link add br{i} type bridge forward_delay 0", f"link set br{i} up")


def plug(lab, node):
    """A cable from each interface of the node to its bridge at the switch."""
    for i, (interface, its_address) in enumerate(zip(node.interfaces, node.addresses)):
        port = node.port(interface)
        # The same hardware address after each boot: the peers' neighbour tables stay right.
        hardware = f"02:00:00:00:{i:02x}:{list(lab.nodes).index(node.name):02x}"
        ours = ["name", port, "netns", str(lab.switch.pid)]
        its = ["name", interface, "address", hardware, "netns", str(node.pid)]
        subprocess.run(["ip", "link", "add", *ours, "type", "veth", "peer", *its], check=True)
        ip_batch(lab.switch.pid, f"link set {port} master br{i}", f"link set {port} up")
        size = "64 dev {} nodad" if lab.options.ipv6 else "24 dev {}"  # nodad: usable at once
        ip_batch(node.pid, f"addr add {its_address}/{size.format(interface)}", f"link set {interface} up")
    if lab.options.docker0:
        ip_batch(node.pid, "link add docker0 type bridge", "addr add 172.17.0.1/16 dev docker0", "link set docker0 up")


def unplug(lab, node):
    """Takes away the cables of a dead node: its network lives on while orphaned TCP sockets still retransmit."""
    for interface in node.interfaces:
        in_net(lab.switch.pid, ["ip", "link", "del", node.port(interface)], stderr=subprocess.DEVNULL)


def set_cable(lab, node, up_or_down, interface=None):
    for each in [interface] if interface else node.interfaces:
        ip_batch(lab.switch.pid, f"link set {node.port(each)} {up_or_down}")


def _replace_table(node, table, text):
    """In the node's own firewall; an empty text only removes it."""
    rules = f"table inet {table} {{}}\ndelete table inet {table}\n{text}"
    done = in_net(node.pid, ["nft", "-f", "-"], input=rules, text=True, capture_output=True)
    if done.returncode:
        raise LabError(f"nft in {node.name}: {done.stderr.strip()}")


def partition(lab, groups):
    """Silence between the groups of names; nodes in none still reach all."""
    if len(groups) < 2:
        raise LabError("a partition needs at least two groups")
    family = "ip6" if lab.options.ipv6 else "ip"
    for group in groups:
        others = ", ".join(a for g in groups if g is not group for name in g for a in lab.node(name).addresses)
        chains = f"""table inet partition {{
 chain out {{ type filter hook output priority 0; {family} daddr {{ {others} }} drop; }}
 chain in {{ type filter hook input priority 0; {family} saddr {{ {others} }} drop; }}
}}
"""
        for name in group:
            _replace_table(lab.node(name), "partition", chains)


def unpartition(lab):
    for node in lab.nodes.values():
        if node.up:
            _replace_table(node, "partition", "")
            _replace_table(node, "loss", "")


def loss(node, percent):
    """Random, both ways."""
    rule = f"numgen random mod 10000 <= {round(percent * 100) - 1} drop"
    chains = f"""table inet loss {{
 chain out {{ type filter hook output priority 1; oifname != "lo" {rule}; }}
 chain in {{ type filter hook input priority 1; iifname != "lo" {rule}; }}
}}
"""
    _replace_table(node, "loss", chains if percent else "")


def firewall(node, ports):
    """New TCP connections from outside reach these ports only, in nft's words; an empty text lets all pass."""
    rule = f'iifname != "lo" tcp flags & (syn | ack) == syn tcp dport != {{ {ports} }} drop'
    chain = f"table inet firewall {{\n chain in {{ type filter hook input priority 2; {rule}; }}\n}}\n"
    _replace_table(node, "firewall", chain if ports else "")


def drop_ports(node, ports):
    """What comes to or leaves from these TCP ports of the node is dropped; none: all passes again."""
    these = ", ".join(map(str, ports))
    chains = f"""table inet drop_ports {{
 chain out {{ type filter hook output priority 3; tcp sport {{ {these} }} drop; }}
 chain in {{ type filter hook input priority 3; tcp dport {{ {these} }} drop; }}
}}
"""
    _replace_table(node, "drop_ports", chains if ports else "")


def reset_towards(node, address):
    """What the node sends to the address is dropped, and its own end of the connection is reset; None: all passes."""
    family = "ip6" if address and ":" in address else "ip"
    rule = f"{family} daddr {address} meta l4proto tcp reject with tcp reset"
    chain = f"table inet resets {{\n chain out {{ type filter hook output priority 4; {rule}; }}\n}}\n"
    _replace_table(node, "resets", chain if address else "")


def forget_idle(node, seconds):
    """A firewall that drops what belongs to no connection it knows, and forgets connections that are idle for so long.

    Those of sshd are left alone. 0 seconds: all passes again."""
    names = {"nf_conntrack_tcp_timeout_established": seconds, "nf_conntrack_tcp_loose": 0}
    unknown = "tcp sport != 22 tcp dport != 22 ct state != established tcp flags & (syn | ack) != syn"
    rule = f'iifname != "lo" {unknown} drop'
    out = rule.replace("iifname", "oifname")
    chains = f"""table inet forget {{
 chain in {{ type filter hook input priority 5; {rule}; }}
 chain out {{ type filter hook output priority 5; {out}; }}
}}
"""
    _replace_table(node, "forget", chains if seconds else "")
    if seconds:
        in_net(node.pid, ["sysctl", "-q", "-w", *(f"net.netfilter.{k}={v}" for k, v in names.items())], check=True)


def take_address(lab, thief, node, asker):
    """The thief has the node's address as well, and what `asker` sends there goes to the thief."""
    address = node.addresses[0]
    hardware = f"02:00:00:00:00:{list(lab.nodes).index(thief.name):02x}"
    ip_batch(thief.pid, f"addr add {address}/24 dev eth0")
    ip_batch(asker.pid, f"neigh replace {address} lladdr {hardware} dev eth0 nud permanent")


def return_address(thief, node, asker):
    ip_batch(thief.pid, f"addr del {node.addresses[0]}/24 dev eth0")
    ip_batch(asker.pid, f"neigh del {node.addresses[0]} dev eth0")


def rate(node, limit):
    """Of what the node sends on eth0, as tc writes it ("10mbit"); "0" is no limit."""
    qdisc = ["tc", "qdisc"], ["dev", "eth0", "root"]
    in_net(node.pid, [*qdisc[0], "del", *qdisc[1]], stderr=subprocess.DEVNULL)
    if limit != "0":
        bucket = ["tbf", "rate", limit, "burst", "64kb", "latency", "400ms"]
        in_net(node.pid, [*qdisc[0], "add", *qdisc[1], *bucket], check=True)


def set_delay(lab, node, milliseconds):
    """Holds each packet on its way into the node's eth0: a relay is put between its port and the bridge."""
    port, key = node.port("eth0"), f"delay.{node.name}"
    near, far = f"{port}d", f"{port}b"
    helper = lab.helpers.pop(key, None)
    if helper:
        helper.kill()
        wait_gone([helper])
        ip_batch(lab.switch.pid, f"link del {near}", f"link set {port} master br0")
    if milliseconds:
        ip_batch(
            lab.switch.pid,
            f"link set {port} nomaster",
            f"link add {near} type veth peer name {far}",
            f"link set {far} master br0",
            f"link set {far} up",
            f"link set {near} up",
        )
        lab.helpers[key] = _start_relay(lab, node, (near, port), milliseconds / 1000)
    lab.save()


def _start_relay(lab, node, ends, seconds):
    is_ready, ready = os.pipe()

    def relay():
        os.close(is_ready)
        os.setsid()
        log = os.open(lab.path("log", f"delay.{node.name}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for fd in (1, 2):
            os.dup2(log, fd)
        delay.relay(lab.switch.pid, *ends, seconds, lambda: os.write(ready, b"!"))

    child = forked(relay)
    os.close(ready)
    try:
        if not os.read(is_ready, 1):
            raise LabError(f"the delay of {node.name} did not start: see log/delay.{node.name}.log")
    finally:
        os.close(is_ready)
    return Process.of(child)
