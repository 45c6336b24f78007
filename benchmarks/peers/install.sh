#!/bin/sh
# Makes benchmarks/.envs/<peer>: one environment for each peer, with its newest version.
#
#   sh benchmarks/peers/install.sh            a peer that is there already is left alone
#   sh benchmarks/peers/install.sh --renew    look for newer versions
#
# A peer that cannot be installed is reported and left out; the benchmarks then show it as "not installed".
# torch is pinned to the version of driftless, and FedLab and fluke are installed without their dependencies plus those
# that are needed: they ask for torchvision, which would pull another torch.

PYTHON=${PYTHON:-python3}
TORCH='torch==2.13.0'
HERE=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
RENEW=${1:-}
FAILED=''

# install PEER "requirements with their dependencies" ["requirements without"]
install() {
    peer=$1 with=$2 without=${3:-}
    environment=$HERE/.envs/$peer
    wanted="$TORCH numpy $with | $without"
    if [ "$RENEW" != --renew ] && [ "$(cat "$environment/.installed" 2>/dev/null)" = "$wanted" ]; then
        echo "$peer: already installed"
        return
    fi
    echo "$peer: installing"
    rm -f "$environment/.installed"
    if [ ! -x "$environment/bin/python" ]; then
        "$PYTHON" -m venv "$environment" || { FAILED="$FAILED $peer"; return; }
    fi
    pip="$environment/bin/python -m pip install --quiet --disable-pip-version-check --upgrade"
    # Unquoted on purpose: several words each.
    if { [ -z "$without" ] || $pip --no-deps $without; } && $pip $TORCH numpy $with; then
        echo "$wanted" > "$environment/.installed"
    else
        FAILED="$FAILED $peer"
    fi
}

mkdir -p "$HERE/.envs"
install flower 'flwr[simulation]'
install pfl 'pfl[pytorch]'
install fedlab 'pandas munch pynvml scikit-learn tqdm pillow' 'fedlab'
install fluke 'cerberus diskcache hydra-core omegaconf matplotlib pandas psutil pyyaml requests rich scikit-learn seaborn tensorboard torchmetrics typer pillow' 'fluke-fl'

[ -z "$FAILED" ] || echo "Could not be installed, and will be left out:$FAILED"
exit 0
