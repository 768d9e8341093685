"""`ray_cluster.yaml` for real: machines with ssh servers on which `ray up` starts a cluster and a search runs.

A machine is a set of namespaces on this one: its own network with port 22, its own processes (`ray stop` ends every
Ray process it can see), its own home and /tmp/ray. Only addresses and user of the file are changed.
"""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tausearch.runs import Record, Storage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[2]
NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc"]
# A machine: its network, its home (what this test runs from stays in it), an ssh server on port 22. The environment is
# the one that runs this test, but the code is the copy that `ray up` makes.
MACHINE = """
set -eu
ip link set lo up
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /tmp/ray
mount -t tmpfs tmpfs /tmp/ray
for path in $NEEDED; do
  mkdir -p "$SCRATCH/$NAME/${path#"$HOME"/}"
  mount --bind "$path" "$SCRATCH/$NAME/${path#"$HOME"/}"
done
mount --rbind "$SCRATCH/$NAME" ~
/usr/sbin/sshd -f /dev/null -h "$SCRATCH/host_key" -o UsePAM=no -o StrictModes=no \
  -o AuthorizedKeysFile="$SCRATCH/key.pub" -o SetEnv="PYTHONPATH=$HOME/tausearch/platform:$HOME/tausearch"
"""
# A `sleep` that is about to exit has no arguments any more and is listed as `[sleep]`.
PROCESSES = (
    r"processes() { ps -e -o pid=,args= | grep -v -e ' ps -e' -e 'grep -v' -e 'sleep 1$' -e '\[sleep\]' ; }" + "\n"
)
# The machine that `ray up` is called on, a head and a worker, in a network of their own.
MACHINES = f"""
set -eu
{PROCESSES}
export RAY_UP_enable_autoscaler_v2=0 MACHINE='{MACHINE}'
ip link add bridge type bridge
ip address add 10.9.0.1/24 dev bridge
ip link set bridge up
machine() {{  # name, address
  {" ".join(NAMESPACES)} bash -c 'while true; do sleep 1; done' &
  until pid=$(pgrep -P $!); do sleep 0.1; done
  ip link add "$1" type veth peer name eth0 netns "$pid"
  ip link set "$1" master bridge up
  NAME=$1 ADDRESS=$2 nsenter --target "$pid" --net --mount --pid bash -euc 'ip address add "$ADDRESS/24" dev eth0
    ip link set eth0 up; ip route add default via 10.9.0.1; eval "$MACHINE"'
}}
machine head 10.9.0.2
machine worker 10.9.0.3
NAME=home; eval "$MACHINE"
sleep 1
processes > "$SCRATCH/before"
ray get-auth-token --generate > /dev/null
ray up -y --no-config-cache "$SCRATCH/cluster.yaml"
ray exec "$SCRATCH/cluster.yaml" "python $SCRATCH/wait.py"
ray exec "$SCRATCH/cluster.yaml" \
  "tausearch search 'digits?task=0,1&task=2,3' finetune --epochs 1 --trials 2 --cpus-per-trial $(nproc) \
  --name s --storage $SCRATCH/runs --address auto"
ray down -y "$SCRATCH/cluster.yaml"
ssh -q -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null 10.9.0.3 tausearch/.venv/bin/ray stop
sleep 12
processes > "$SCRATCH/after"
"""
WAIT = """
import time, ray
ray.init("auto")
deadline = time.monotonic() + 400
while sum(node["Alive"] for node in ray.nodes()) < 2:
    assert time.monotonic() < deadline, "the worker did not join"
    time.sleep(1)
"""


def require(condition: bool, reason: str) -> None:
    if not condition:
        pytest.skip(reason)


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Environment of machines with empty homes in which `make setup` finds its work done."""
    programs = ("/usr/sbin/sshd", "rsync", "ip", "make", "ps", "unshare", "ssh-keygen")
    missing = [program for program in programs if shutil.which(program) is None]
    require(not missing, f"not installed: {', '.join(missing)}; .ci/setup installs what it may with apt")
    loopback = [*NAMESPACES, "ip", "link", "set", "lo", "up"]
    allowed = subprocess.run(loopback, capture_output=True, text=True, check=False)
    require(allowed.returncode == 0, f"a machine of its own needs namespaces, which are refused: {allowed.stderr}")
    for file in ("key", "host_key"):
        make_key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / file)]
        subprocess.run(make_key, check=True)
    for name in ("home", "head", "worker"):
        home = tmp_path / name
        venv = home / "tausearch" / ".venv"
        for folder in (home / ".ssh", venv):
            folder.mkdir(parents=True)
        shutil.copy(tmp_path / "key", home / ".ssh" / "id_ed25519")
        (home / ".bashrc").touch()
        for part in ("bin", "lib", "pyvenv.cfg"):
            (venv / part).symlink_to(Path(sys.prefix) / part)
        (venv / ".installed").touch()  # the stamp that `make setup` leaves
    needed = {Path(path) for path in (sys.base_prefix, sys.prefix, ROOT) if Path(path).is_relative_to(Path.home())}
    outermost = [str(path) for path in needed if not any(parent in needed for parent in path.parents)]
    search_path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    places = {"SCRATCH": str(tmp_path), "NEEDED": " ".join(outermost), "NAME": "home", "PATH": search_path}
    return {**os.environ, **places}


def run(script: str, machine: dict[str, str], tmp_path: Path, head_ip: str, worker_ips: list[str]) -> str:
    """Run a script on machines of their own, with the launcher file in it; returns what it printed."""
    config = yaml.safe_load((ROOT / "ray_cluster.yaml").read_text())
    config["provider"] |= {"head_ip": head_ip, "worker_ips": worker_ips}
    config["auth"]["ssh_user"] = getpass.getuser()
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "wait.py").write_text(WAIT)
    with open(tmp_path / "out.txt", "w+") as out:
        command = [*NAMESPACES, "--kill-child", "bash", "-c", script]
        done = subprocess.run(
            command, cwd=ROOT, env=machine, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=1400, check=False
        )
        out.seek(0)
        printed = out.read()
    assert done.returncode == 0, printed
    before, after = ((tmp_path / name).read_text().splitlines() for name in ("before", "after"))
    assert [line for line in after if line not in before] == []
    return printed


def test_a_search_on_a_head_and_a_worker_that_the_launcher_started(machine: dict[str, str], tmp_path: Path) -> None:
    """Each trial takes all CPUs of a machine, so that the worker has one of the two."""
    assert "best file" in run(MACHINES, machine, tmp_path, "10.9.0.2", ["10.9.0.3"])
    trials = Record(Storage(tmp_path / "runs").run("s").record).trials()
    assert [(trial.status, trial.tasks_done) for trial in trials] == [("complete", 2)] * 2
    for name in ("head", "worker"):
        copied = tmp_path / name / "tausearch"
        assert (copied / "constraints.txt").read_text() == (ROOT / "constraints.txt").read_text()
        assert not (copied / ".git").exists()
