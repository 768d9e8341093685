"""`ray_cluster.yaml` for real: a machine with an ssh server on which `ray up` starts a cluster and a search runs.

The machine is a set of namespaces on this one: its own network with port 22, its own processes (`ray stop` ends every
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

from tausearch.files import Storage
from tausearch.record import Record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc"]
MACHINE = """
set -eu
ip link set lo up
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /tmp/ray
mount -t tmpfs tmpfs /tmp/ray
for path in $NEEDED; do  # what this test runs from, where that lies in the home that is about to be hidden
  mkdir -p "$SCRATCH/home/${path#"$HOME"/}"
  mount --bind "$path" "$SCRATCH/home/${path#"$HOME"/}"
done
mount --rbind "$SCRATCH/home" ~
ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519
ssh-keygen -q -t ed25519 -N '' -f "$SCRATCH/host_key"
# The environment is the one that runs this test, but the code is the copy that `ray up` makes.
/usr/sbin/sshd -f /dev/null -h "$SCRATCH/host_key" -o UsePAM=no -o StrictModes=no \
  -o AuthorizedKeysFile=~/.ssh/id_ed25519.pub -o SetEnv="PYTHONPATH=$HOME/tausearch/platform:$HOME/tausearch"
processes() { ps -e -o pid=,args= | grep -v -e ' ps -e' -e 'grep -v' ; }
processes > "$SCRATCH/before"
ray get-auth-token --generate > /dev/null
ray up -y --no-config-cache "$SCRATCH/cluster.yaml"
ray exec "$SCRATCH/cluster.yaml" 'tausearch search digits finetune --trials 2 --name s --storage ~/runs --address auto'
ray down -y "$SCRATCH/cluster.yaml"
sleep 12  # ssh's master connection stays for 10 s
processes > "$SCRATCH/after"
"""


def require(condition: bool, reason: str) -> None:
    if not condition:
        pytest.skip(reason)


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Environment of a machine with an empty home in which `make setup` finds its work done."""
    missing = [p for p in ("/usr/sbin/sshd", "rsync", "ip", "make", "ps") if shutil.which(p) is None]
    require(not missing, f"not installed: {', '.join(missing)}; .ci/setup installs them where it may use apt")
    allowed = subprocess.run(
        [*NAMESPACES, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False
    )
    require(allowed.returncode == 0, f"a machine of its own needs namespaces, which are refused: {allowed.stderr}")
    home = tmp_path / "home"
    venv = home / "tausearch" / ".venv"
    for folder in (home / ".ssh", venv):
        folder.mkdir(parents=True)
    (home / ".bashrc").touch()
    (venv / "bin").symlink_to(Path(sys.executable).parent)
    (venv / ".installed").touch()  # the stamp that `make setup` leaves
    needed = {Path(path) for path in (sys.base_prefix, sys.prefix, ROOT) if Path(path).is_relative_to(Path.home())}
    outermost = [str(path) for path in needed if not any(parent in needed for parent in path.parents)]
    search_path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "SCRATCH": str(tmp_path), "NEEDED": " ".join(outermost), "PATH": search_path}


def test_a_search_on_a_cluster_that_the_launcher_started(machine: dict[str, str], tmp_path: Path) -> None:
    config = yaml.safe_load((ROOT / "ray_cluster.yaml").read_text())
    config["provider"] |= {"head_ip": "127.0.0.1", "worker_ips": []}
    config["auth"]["ssh_user"] = getpass.getuser()
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(config))
    done = subprocess.run(
        [*NAMESPACES, "bash", "-c", MACHINE],
        cwd=ROOT,
        env=machine,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    home = tmp_path / "home"
    assert "best file" in done.stdout, done.stdout
    trials = Record(Storage(home / "runs").run("s").record).trials()
    assert [(trial.status, trial.tasks_done) for trial in trials] == [("complete", 5)] * 2
    assert (home / "tausearch" / "constraints.txt").read_text() == (ROOT / "constraints.txt").read_text()
    assert not (home / "tausearch" / ".git").exists()
    before, after = ((tmp_path / name).read_text().splitlines() for name in ("before", "after"))
    assert [line for line in after if line not in before] == []
