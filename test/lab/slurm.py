"""The files of Slurm, and whether its daemons are ready."""

import os
import pathlib
import re
import stat
import subprocess
from typing import NamedTuple

from .kernel import wait_until

MEMORY_MB = 64_000  # that Slurm believes in, a node


def configuration(lab):
    """The keys of slurm.conf; those of --conf replace ours, an empty value removes one."""
    conf = {
        "ClusterName": "lab",
        "SlurmctldHost": f"ctl({lab.nodes['ctl'].addresses[0]})",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "CredType": "cred/munge",
        "AuthInfo": "cred_expire=5",  # a requeued job waits until its old credential has expired: 120 s by default
        "SlurmctldPort": "6817",
        "SlurmdPort": "6818",
        "StateSaveLocation": lab.path("ctld"),
        "SlurmdSpoolDir": lab.path("spool", "%n"),
        "SlurmctldPidFile": "/run/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "SlurmctldLogFile": lab.path("log/slurmctld.log"),
        "SlurmdLogFile": lab.path("log/slurmd.%n.log"),
        "SlurmctldDebug": "info",
        "SlurmdDebug": "info",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "SwitchType": "switch/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "JobCompType": "jobcomp/filetxt",
        "JobCompLoc": lab.path("log/jobcomp.txt"),
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0",
        "PropagateResourceLimits": "NONE",
        "SlurmdParameters": "config_overrides",
        "ReturnToService": "2",
        "RebootProgram": "/bin/true",
        "SlurmctldTimeout": "10",
        "SlurmdTimeout": "10",
        "TCPTimeout": "2",
        "MessageTimeout": "10",
        "KillWait": "5",
        "UnkillableStepTimeout": "15",
        "InactiveLimit": "0",
        "Waittime": "0",
        "CompleteWait": "0",
        "MinJobAge": "600",
        "BatchStartTimeout": "10",
        "JobRequeue": "1",
        "OverTimeLimit": "0",
    }
    if lab.options.gpus:
        conf["GresTypes"] = "gpu"
    for setting in lab.options.conf:
        key, _, value = setting.partition("=")
        conf = {k: v for k, v in conf.items() if k.lower() != key.lower()}
        if value:
            conf[key] = value
    return conf


def munge_socket(lab):
    """munged's own, or one that AuthInfo names."""
    for word in configuration(lab).get("AuthInfo", "").split(","):
        if word.startswith("socket="):
            return word.partition("=")[2]
    return "/run/munge/munge.socket.2"


def write_files(lab):
    for folder in ("ctld", "dev", *(f"spool/{name}" for name in lab.workers())):
        os.makedirs(lab.path(folder))
    lab.write("munge.key", os.urandom(512).hex(), 0o600)
    cpus, gpus, kind = lab.options.cpus, lab.options.gpus, lab.options.gpu_type
    gres = f" Gres=gpu:{f'{kind}:' * bool(kind)}{gpus}" * bool(gpus)
    lines = [f"{key}={value}" for key, value in configuration(lab).items()]
    for name in lab.workers():
        lines.append(
            f"NodeName={name} NodeAddr={lab.nodes[name].addresses[0]} CPUs={cpus} Boards=1 SocketsPerBoard=1"
            f" CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory={MEMORY_MB}{gres} State=UNKNOWN"
        )
    nodes = ",".join(lab.workers())
    lines.append(f"PartitionName=main Nodes={nodes} Default=YES MaxTime=INFINITE DefaultTime=60 State=UP OverSubscribe=NO")
    lab.write("etc/slurm.conf", "\n".join(lines) + "\n")
    lab.write("etc/cgroup.conf", "CgroupAutomount=no\n")
    lab.write("etc/plugstack.conf", "")
    if gpus:
        for i in range(gpus):  # slurmd refuses plain files: more of /dev/null
            os.mknod(lab.path("dev", f"nvidia{i}"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        files = lab.path("dev", f"nvidia[0-{gpus - 1}]" if gpus > 1 else "nvidia0")
        lab.write("etc/gres.conf", f"AutoDetect=off\nNodeName={nodes} Name=gpu{f' Type={kind}' * bool(kind)} File={files}\n")


def sinfo(lab, *options, **run):
    """sinfo as seen on ctl."""
    into = ["nsenter", "-t", str(lab.node("ctl").pid), "--net", "--uts", "--mount", "--ipc", "--"]
    return subprocess.run([*into, "sinfo", "-N", *options], env={**os.environ, "SLURM_CONF": lab.path("etc/slurm.conf")}, text=True, **run)


def wait_idle(lab, seconds):
    def idle():
        lines = sinfo(lab, "-h", "-o", "%N %T", capture_output=True).stdout.splitlines()
        return sum(line.endswith(" idle") for line in lines) == len(lab.workers())

    wait_until("all nodes to be idle", idle, seconds)


class JobEnd(NamedTuple):
    state: str
    code: int  # as a shell gives it


def job_end(directory, number):
    """What became of a job of the lab in `directory`; None before its end. (sbatch --wait looks after 2 s, 6 s, 12 s …)"""
    log = pathlib.Path(directory, "log/jobcomp.txt")
    # A line says RESIZING where the job goes on with fewer nodes.
    line = rf"^JobId={number} .* JobState=(?!RESIZING)(\w+) .* ExitCode=(\d+):(\d+)\s"
    if not log.exists() or not (found := re.search(line, log.read_text(), re.M)):
        return None
    code, signal = int(found[2]), int(found[3])
    return JobEnd(found[1], 128 + signal if signal else code)
