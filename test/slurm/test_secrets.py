"""How agents of a Slurm job get the token: nobody else can, and nowhere is it to be seen."""

import pathlib
import re
import struct
import subprocess

from harness import ROOT
from multinode.harness import BEAT, HOME

UNAUTHORIZED = 18  # unmunge's exit code: EMUNGE_CRED_UNAUTHORIZED
ASK = (
    "import socket, sys\n"
    "s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)\n"
    "s.sendall(bytes.fromhex(sys.argv[3]))\n"
    "print(s.makefile('rb').read().hex())"
)


def sealed(lab, port):
    """What anybody who reaches the launcher on n1 is given: munge's envelope."""
    header = (ROOT / "muster/rendezvous/channel.h").read_text()
    protocol = int(re.search(r"kProtocolVersion = (\d+);", header).group(1))
    version = subprocess.check_output([lab.muster, "--version"]).split()[1]
    hello = b"\xd7muster?" + struct.pack("<HBB", protocol, 6, 0) + version.ljust(20, b"\0") + bytes(32)
    asked = lab.cluster.exec("n2", ["/usr/bin/python3", "-c", ASK, lab.cluster.address("n1"), port, hello.hex()])
    assert asked.end() == 0, asked.said()
    answer = bytes.fromhex(asked.out.strip())
    (size,) = struct.unpack_from("<I", answer, 64)
    assert len(answer) == 68 + size
    return answer[68:]


def token_in(lab, credential, **exec_options):
    """unmunge on n2; the token is the first half of what is in it."""
    path = lab.file("credential", credential.decode(), 0o644)
    out = lab.cluster.shared / "payload"
    opened = lab.cluster.exec("n2", ["unmunge", "-i", path, "-o", out, "-m", "/dev/null"], **exec_options)
    opened.end()
    return out.read_bytes()[:32] if out.exists() else None


def launcher_port(lab):
    """As the agents are told it."""
    words = " ".join(lab.cluster.processes("n1").values())
    return re.search(r"--fetch \S+:(\d+)", words).group(1)


def memory_has(pid, needle):
    """As a core dump of the process would."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            first, last = (int(x, 16) for x in line.split()[0].split("-"))
            if "r" not in line.split()[1] or line.rstrip().endswith(("[vvar]", "[vsyscall]")):
                continue
            try:
                memory.seek(first)
                if needle in memory.read(last - first):
                    return True
            except OSError:
                pass  # a page of a device
    return False


def test_the_token_is_nowhere_to_be_seen(slurm, beats, tmp_path):
    lab = slurm(2, gpus=0)
    with lab.cluster.capture(tmp_path / "wire.pcap") as wire:
        batch = lab.submit(f"{lab.muster} run --verbose {BEAT} {beats.directory}", "-N2")
        beats.wait_round(0, 2)
        credential = sealed(lab, launcher_port(lab))
        token = token_in(lab, credential)
        assert len(token) == 32
        for name in lab.cluster.names:
            for words in lab.cluster.processes(name).values():
                assert token.hex() not in words
            workers = lab.cluster.workers(name)
            assert workers
            for pid in workers:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                assert token not in environment and token.hex().encode() not in environment
                assert not memory_has(pid, token) and not memory_has(pid, token.hex().encode()), "in a worker's core dump"
        beats.tell("all", "exit 0")
        ended = batch.end()
    assert ended.code == 0, ended
    assert token.hex() not in ended.out + ended.err
    for needle in (token, token.hex().encode()):
        assert not wire.search(needle)
    assert wire.search(credential), "the capture saw what there was"


def test_another_user_cannot_open_the_envelope(slurm, beats):
    lab = slurm(2, gpus=0)
    batch = lab.submit(f"{lab.muster} run {BEAT} {beats.directory}", "-N2")
    beats.wait_round(0, 2)
    credential = sealed(lab, launcher_port(lab))
    path = lab.file("credential", credential.decode(), 0o644)
    opened = lab.cluster.exec("n2", ["setpriv", "--reuid=65534", "--clear-groups", "unmunge"], stdin=open(path))
    assert opened.end() == UNAUTHORIZED and "Unauthorized" in opened.err, opened.said()
    beats.tell("all", "exit 0")
    assert batch.end().code == 0


def test_a_step_needs_no_shared_home(slurm, beats):
    """srun muster run: the node that hosts hands the token out by munge."""
    lab = slurm(2, gpus=0)
    step = lab.start("srun", "-N2", lab.muster, "run", BEAT, beats.directory, env={"HOME": HOME})
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert step.end() == 0, step.said()
    for name in lab.cluster.names:
        assert not (lab.cluster.root(name) / HOME.lstrip("/") / ".config/muster/key").exists()


def test_a_step_without_munge_has_the_users_key(slurm, beats):
    lab = slurm(2, gpus=0, conf=["AuthInfo=cred_expire=5,socket=/run/munge/slurm.socket"])
    step = lab.start("srun", "-N2", lab.muster, "run", BEAT, beats.directory)
    beats.wait_round(0, 2)
    beats.tell("all", "exit 0")
    assert step.end() == 0, step.said()
    assert (lab.cluster.home / ".config/muster/key").exists()
