"""Start real proxies and applications before a model server, each in the configurations that people have.

    with Chain(work) as chain:
        front = haproxy(chain, upstream, "option http-no-delay")

Each function takes the port of what is behind it and returns the part when that answers through it. The configuration
files beside this one are filled in: @PORT@, @UPSTREAM@, @WORK@ and the words of each.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.real.chain import ROOT, Chain, Part, free_port

HERE = Path(__file__).resolve().parent
REAL = ROOT / ".venv-real"
BINARIES = REAL / "bin"
MODELS = "/v1/models"
APACHE_MODULES = "/usr/lib/apache2/modules"


def debian(name: str) -> str:
    """The path of a program that Debian may have put where only root looks; FileNotFoundError where it is not."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if not found:
        raise FileNotFoundError(f"{name} is not installed: run tests/real/install.sh")
    return found


def fill(chain: Chain, file: str, port: int, upstream: int, **words: str) -> Path:
    """The configuration file with its words put in, in the folder of the chain under a name of its own."""
    text = (HERE / file).read_text()
    words |= {"PORT": str(port), "UPSTREAM": str(upstream), "WORK": str(chain.work), "MODULES": APACHE_MODULES}
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    path = chain.work / f"{port}-{file}"
    path.write_text(text)
    return path


def haproxy(chain: Chain, upstream: int, front: str = "", back: str = "") -> Part:
    """HAProxy, with further lines for its two sections."""
    port = free_port()
    path = fill(chain, "haproxy.conf", port, upstream, FRONT=front, BACK=back)
    return chain.start("haproxy", port, [debian("haproxy"), "-db", "-f", str(path)], MODELS)


def apache(chain: Chain, upstream: int, location: str = "", top: str = "") -> Part:
    """Apache httpd with mod_proxy."""
    port = free_port()
    path = fill(chain, "apache.conf", port, upstream, LOCATION=location, TOP=top)
    return chain.start("apache", port, [debian("apache2"), "-DFOREGROUND", "-f", str(path)], MODELS)


def varnish(chain: Chain, upstream: int, response: str = "") -> Part:
    """Varnish that passes everything; `response` = lines of vcl_backend_response."""
    port = free_port()
    path = fill(chain, "varnish.vcl", port, upstream, RESPONSE=response)
    own = ["-j", "none", "-n", str(chain.work / f"varnish-{port}"), "-s", "malloc,32m"]
    command = [debian("varnishd"), "-F", *own, "-a", f"127.0.0.1:{port}", "-T", "none", "-f", str(path)]
    return chain.start("varnish", port, command, MODELS)


def lighttpd(chain: Chain, upstream: int, more: str = "") -> Part:
    """lighttpd with mod_proxy."""
    port = free_port()
    path = fill(chain, "lighttpd.conf", port, upstream, MORE=more)
    return chain.start("lighttpd", port, [debian("lighttpd"), "-D", "-f", str(path)], MODELS)


def caddy(chain: Chain, upstream: int, proxy: str = "", site: str = "") -> Part:
    """Caddy."""
    port = free_port()
    path = fill(chain, "caddy.conf", port, upstream, PROXY=proxy, SITE=site)
    homes = {name: str(chain.work) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    command = [str(BINARIES / "caddy"), "run", "--adapter", "caddyfile", "--config", str(path)]
    return chain.start("caddy", port, command, MODELS, **homes)


def traefik(chain: Chain, upstream: int, middleware: str = "") -> Part:
    """Traefik, with at most one of the middlewares of its file."""
    port = free_port()
    routes = fill(chain, "traefik-routes.yaml", port, upstream, MIDDLEWARE=middleware)
    routes.rename(chain.work / "traefik-routes.yaml")
    path = fill(chain, "traefik.yaml", port, upstream)
    return chain.start("traefik", port, [str(BINARIES / "traefik"), f"--configFile={path}"], MODELS)


LUA_BODY = """- name: envoy.filters.http.lua
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
                      default_source_code:
                        inline_string: |
                          function envoy_on_response(handle)
                            handle:logInfo(handle:body():length())
                          end"""
COMPRESSOR = """- name: envoy.filters.http.compressor
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.compressor.v3.Compressor
                      response_direction_config:
                        common_config: {min_content_length: 1, content_type: [text/event-stream]}
                      compressor_library:
                        name: gzip
                        typed_config:
                          "@type": type.googleapis.com/envoy.extensions.compression.gzip.compressor.v3.Gzip"""


def envoy(chain: Chain, upstream: int, filters: str = "", timeout: str = "0s") -> Part:
    """Envoy with a filter before its router, and the timeout of its route."""
    port = free_port()
    path = fill(chain, "envoy.yaml", port, upstream, FILTERS=filters, TIMEOUT=timeout)
    command = [str(BINARIES / "envoy"), "-c", str(path), "--disable-hot-restart", "--concurrency", "1", "-l", "warning"]
    return chain.start("envoy", port, command, MODELS)


def express(chain: Chain, upstream: int, compress: bool) -> Part:
    """An Express app, with or without the compression middleware."""
    port = free_port()
    words = {"PORT": str(port), "UPSTREAM": str(upstream), "COMPRESS": "yes" if compress else "no"}
    modules = {"NODE_PATH": str(REAL / "node" / "node_modules")}
    return chain.start("express", port, [debian("node"), str(HERE / "compressing.cjs")], MODELS, **words, **modules)


def uvicorn(chain: Chain, upstream: int, app: str, **environment: str) -> Part:
    """An app of apps.py under uvicorn."""
    port = free_port()
    where = ["--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
    command = [str(BINARIES / "python"), "-m", "uvicorn", *where, f"tests.real.apps:{app}"]
    return chain.start(app, port, command, MODELS, APP_UPSTREAM=f"http://127.0.0.1:{upstream}/v1", **environment)


def gunicorn(chain: Chain, upstream: int, threads: int, **environment: str) -> Part:
    """The Flask app of apps.py under gunicorn; one thread is its sync worker."""
    port = free_port()
    worker = ["-k", "gthread", "--threads", str(threads)] if threads > 1 else ["-k", "sync"]
    command = [str(BINARIES / "python"), "-m", "gunicorn", *worker, "--bind", f"127.0.0.1:{port}"]
    where = f"http://127.0.0.1:{upstream}/v1"
    return chain.start("flask", port, [*command, "tests.real.apps:flask"], MODELS, APP_UPSTREAM=where, **environment)
