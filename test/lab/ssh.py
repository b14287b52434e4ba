"""The files of ssh: one user key, one host key for all nodes, and a configuration of sshd for each node."""

import pathlib
import shutil
import subprocess

CLUSTER = pathlib.Path(__file__).resolve().parent / "cluster"

_SERVER = """Port 22
AddressFamily any
HostKey {ssh}/host_ed25519
AuthorizedKeysFile {ssh}/authorized_keys
PidFile /run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
PrintMotd no
AcceptEnv LANG LC_*
SetEnv {environment}
MaxStartups 200
MaxSessions 100
LogLevel VERBOSE
Subsystem sftp internal-sftp
"""

_CLIENT = """Host *
  User root
  IdentityFile {ssh}/id_ed25519
  IdentitiesOnly yes
  UserKnownHostsFile {ssh}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  PasswordAuthentication no
  ConnectTimeout 5
  LogLevel ERROR
"""


def write_files(lab):
    ssh = lab.directory / "ssh"
    ssh.mkdir()
    for name in ("host_ed25519", "id_ed25519"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", ssh / name], check=True)
    shutil.copy(ssh / "id_ed25519.pub", ssh / "authorized_keys")
    key = " ".join((ssh / "host_ed25519.pub").read_text().split()[:2])
    names = [name for node in lab.nodes.values() for name in (node.name, *node.addresses)]
    lab.write("ssh/known_hosts", f"{','.join(names)} {key}\n")
    client = _CLIENT.format(ssh=ssh)
    lab.write("ssh/config", client)
    # From the machine itself: a socket made in ctl's network is handed to ssh.
    proxy = f"Host {' '.join(lab.nodes)}\n  ProxyCommand {CLUSTER} _connect %h %p\n  ProxyUseFdpass yes\n"
    lab.write("ssh/config.outside", proxy + client)
    for name in lab.nodes:
        write_server_config(lab, name)


def write_server_config(lab, name):
    """Sessions get a home that all nodes of the lab share and nobody else, and find the node's own programs first."""
    home = lab.directory / "home"
    home.mkdir(exist_ok=True)
    environment = {"HOME": home, "PATH": f"{lab.path('nodes', name, 'bin')}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    if lab.options.slurm:
        environment["SLURM_CONF"] = lab.path("etc/slurm.conf")
    words = " ".join(f"{key}={value}" for key, value in environment.items())
    lab.write(f"nodes/{name}/sshd_config", _SERVER.format(ssh=lab.directory / "ssh", environment=words))
