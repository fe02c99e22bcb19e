"""A cluster over hosts made of network namespaces, started over ssh: losses as in one process, the transport that crosses
the link, a link that is cut.

usage: hosts_test.py NESTOR [CASE ...]     needs root, iproute2 and openssh-server; skips (exit 77) without
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from cluster_test import PROGRAM, TRAIN, Cluster, icon_runs
from nestor_cli import environment, gone, metrics, run_cases, same

SKIP = 77


def sh(*command, check=True):
    return subprocess.run([str(part) for part in command], check=check, capture_output=True, text=True)


class Hosts:
    """Namespaces h0, h1, ... on one bridge, each with an sshd; addresses 10.77.0.1, 10.77.0.2, ... Their steady clocks
    differ by days, as those of machines do."""

    def __init__(self, folder, count, own_disks=False):
        """`own_disks`: every host but the first has another, empty disk where `folder`/disk is."""
        self.own_disks = own_disks
        self.prefix = f"nst{os.getpid() % 10000}"
        self.switch = f"{self.prefix}sw"
        self.names = [f"{self.prefix}h{i}" for i in range(count)]
        self.daemons = []
        self.folder = folder

    def __enter__(self):
        sh("ip", "netns", "add", self.switch)
        sh("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", self.switch, "link", "set", "br0", "up")
        keys = self.folder / "ssh"
        keys.mkdir(mode=0o700)
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / "host")
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / "user")
        shutil.copy(keys / "user.pub", keys / "authorized")
        (keys / "config").write_text(f"IdentityFile {keys}/user\nUserKnownHostsFile /dev/null\nStrictHostKeyChecking no\n"
                                     "LogLevel ERROR\n")
        wrapper = self.folder / "bin" / "ssh"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {keys}/config "$@"\n')
        wrapper.chmod(0o755)
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        for i, name in enumerate(self.names):
            sh("ip", "netns", "add", name)
            sh("ip", "-n", name, "link", "set", "lo", "up")
            sh("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}", "netns", self.switch)
            sh("ip", "-n", self.switch, "link", "set", f"port{i}", "master", "br0", "up")
            sh("ip", "-n", name, "addr", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
            sh("ip", "-n", name, "link", "set", "eth0", "up")
            config = keys / f"sshd{i}"
            config.write_text(f"ListenAddress 10.77.0.{i + 1}\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/authorized\n"
                              f"PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nAcceptEnv *\n")
            apart = ["unshare", "--time", "--monotonic", str(i * 500_000), "--mount", "--propagation", "private", "--fork", "--kill-child"]
            if self.own_disks and i > 0:  # the shell becomes the daemon
                (self.folder / "disk").mkdir(exist_ok=True)
                apart += ["sh", "-c", f'mount -t tmpfs none {self.folder}/disk && exec "$@"', "sh"]
            self.daemons.append(subprocess.Popen(["ip", "netns", "exec", name, *apart, shutil.which("sshd"), "-D", "-f", config]))
        return self

    def on(self, host, *command):
        """Runs a command as that host sees its disk."""
        return sh("nsenter", "--mount", "--target", self.daemons[host].pid, *command)

    def cut(self, host, cut=True):
        sh("ip", "-n", self.switch, "link", "set", f"port{host}", "down" if cut else "up")

    def __exit__(self, *_):
        for daemon in self.daemons:
            daemon.kill()  # unshare ignores SIGTERM; its child goes with it
            daemon.wait()
        for name in [*self.names, self.switch]:
            sh("ip", "netns", "del", name, check=False)


class HostCluster(Cluster):
    """Commands run on the first host."""

    def __init__(self, folder, hosts, lanes):
        super().__init__(folder, 1)
        self.hosts = hosts
        rows = "".join(f"  - {{host: 10.77.0.{i + 1}, lanes: {n}, ssh: root@10.77.0.{i + 1}}}\n"
                       for i, n in enumerate(lanes))
        (folder / "lab.yaml").write_text(f"format: nestor.cluster/1\nname: lab\nhead: {{host: 10.77.0.1, port: 7700}}\n"
                                         f"hosts:\n{rows}launch: ssh\n")

    def environment(self):
        return {**super().environment(), "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "NESTOR_TRANSPORTS": "tcp,self",
                "NESTOR_NET_DEVICES": "eth0", "NESTOR_PORT_RANGE": "47000-47100"}

    def command(self, *arguments):
        return ["ip", "netns", "exec", self.hosts.names[0], PROGRAM, *map(str, arguments)]

    def run(self, *arguments, code=0, timeout=120):
        done = subprocess.run(self.command(*arguments), cwd=self.folder, capture_output=True, text=True, timeout=timeout,
                              env=self.environment())
        assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done

    def start(self, *arguments):
        return subprocess.Popen(self.command(*arguments), cwd=self.folder, env=self.environment(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def embedded(folder):
    subprocess.run([PROGRAM, "train", "config.yaml", "--set", "run.dir=embedded"], cwd=folder, env=environment(), check=True,
                   capture_output=True)


def losses(folder, lanes, stages):
    with Hosts(folder, len(lanes)) as hosts:
        cluster = HostCluster(folder, hosts, lanes)
        (folder / "config.yaml").write_text(TRAIN.replace("stages: 2", f"stages: {stages}"))
        embedded(folder)
        cluster.run("up", "lab.yaml")
        pids = cluster.pids()
        try:
            done = cluster.run("train", "config.yaml", "--cluster")
            travel = next(line for line in done.stderr.splitlines() if "tensors travel by" in line)
            assert "tcp/eth0" in travel, travel
            same(metrics(folder / "embedded"), metrics(folder / "run"))
            log = cluster.run("logs", "lane1").stdout  # of another host
            assert "[lane1] joined" in log and "[lane0]" not in log and "[agent1]" not in log, log
            timeline = json.loads((folder / "run" / "timeline.json").read_text())
            times = [row[when] for row in timeline["rows"] for when in ("start_ns", "end_ns")]
            assert {row["lane"] for row in timeline["rows"]} == set(range(len(lanes))), timeline
            assert -1e8 < min(times) and max(times) < 1e11, (min(times), max(times))
            # The link really carried the tensors, and no port is outside the range.
            sent = json.loads(sh("ip", "-n", hosts.names[1], "-s", "-j", "link", "show", "eth0").stdout)[0]["stats64"]["tx"]["bytes"]
            assert sent > 100_000, sent
            for name in hosts.names:
                listening = sh("ip", "netns", "exec", name, "ss", "-ltnH").stdout.split("\n")
                ports = {int(line.split()[3].rsplit(":", 1)[1]) for line in listening if line.strip()}
                assert all(port in (22, 7700) or 47000 <= port <= 47100 for port in ports), ports
            for dtype, within, arguments in icon_runs(folder, 10):
                cluster.run("train", *arguments, "--cluster", "--set", f"schedule.stages={stages}", "--set", f"run.dir={folder}/icons-{dtype}")
                same(metrics(folder / dtype), metrics(folder / f"icons-{dtype}"), within)
        finally:
            cluster.run("down")
        gone(pids)


def two_hosts(folder):
    losses(folder, [1, 1], 2)


def three_hosts(folder):
    losses(folder, [1, 1, 1], 3)


def cut_link(folder):
    with Hosts(folder, 2) as hosts:
        cluster = HostCluster(folder, hosts, [1, 1])
        (folder / "config.yaml").write_text(TRAIN.replace("steps: 8", "steps: 600").replace("checkpoint_every: 2", "checkpoint_every: 25"))
        embedded(folder)
        cluster.run("up", "lab.yaml")
        job = cluster.start("train", "config.yaml", "--cluster")
        try:
            cluster.train_to(60, job)
            hosts.cut(1)
            deadline = time.monotonic() + 30
            while not cluster.json("status")["faults"]:
                assert time.monotonic() < deadline, cluster.logs()
            faults = cluster.json("status")["faults"]
            assert any(fault["actor"] in ("lane1", "agent1") and "silent" in fault["cause"] for fault in faults), faults
            hosts.cut(1, False)
            out, err = job.communicate(timeout=180)
            assert job.returncode == 0, err + cluster.logs()
        finally:
            cluster.run("down")
        same(metrics(folder / "embedded"), metrics(folder / "run"))


def disks_of_their_own(folder):
    """Hosts that share no disk: checkpoints are whole on two hosts, faults and another cut are survived, losses equal."""
    with Hosts(folder, 3, own_disks=True) as hosts:
        cluster = HostCluster(folder, hosts, [1, 1, 1])
        (folder / "config.yaml").write_text(TRAIN.replace("steps: 8", "steps: 300").replace("checkpoint_every: 2", "checkpoint_every: 25")
                                            .replace("stages: 2", "stages: 3").replace("dir: run", "dir: disk/run"))
        embedded(folder)
        cluster.run("up", "lab.yaml")
        job = cluster.start("train", "config.yaml", "--cluster")
        try:
            cluster.train_to(60, job)
            os.kill(cluster.workers()[1]["pid"], signal.SIGKILL)
            _, err = job.communicate(timeout=180)
            assert job.returncode == 0, err + cluster.logs()
            assert "lane1 has a disk of its own" in err and "lane2 has" in err and "lane0 has" not in err, err
            same(metrics(folder / "embedded"), metrics(folder / "disk" / "run"))
            names = ["checkpoint.json", "lane-0.safetensors", "lane-1.safetensors", "lane-2.safetensors"]
            newest = folder / "disk" / "run" / "checkpoints" / "step-300"
            assert sorted(path.name for path in newest.iterdir()) == names
            sums = [hosts.on(host, "sh", "-c", f"cd {newest} && sha256sum *").stdout.split("\n") for host in range(3)]
            assert sums[0] == sums[1] and len(sums[0]) == 5, sums  # whole on two hosts
            assert [line for line in sums[2] if line] == [sums[0][3]], sums  # the third has its own part
            kept = hosts.on(2, "ls", newest.parent).stdout.split()
            assert len(kept) <= 4 and not any("partial" in name for name in kept), kept
            # Another cut: every lane reads what others wrote.
            cluster.run("train", "config.yaml", "--cluster", "--resume", "--set", "run.steps=310", "--set", "schedule.stages=2")
            assert [line["step"] for line in metrics(folder / "disk" / "run")] == list(range(1, 311))
        finally:
            cluster.run("down")


def main():
    for need in "ip", "sshd", "ssh", "ssh-keygen", "ss", "unshare", "nsenter":
        if shutil.which(need, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            print(f"SKIPPED: {need} is not installed (launch/install-packages hosts)")
            sys.exit(SKIP)
    if os.geteuid() != 0 or sh("ip", "netns", "add", "nestorprobe", check=False).returncode != 0:
        print("SKIPPED: network namespaces need root")
        sys.exit(SKIP)
    sh("ip", "netns", "del", "nestorprobe")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    run_cases([two_hosts, three_hosts, cut_link, disks_of_their_own])


main()
