"""TLS settings of the client, why a handshake failed, and the certificate of a server that could not be trusted."""

import contextlib
import socket
import ssl
from functools import cache

import certifi

from llmdoctor.probe.certificate import Certificate, read_certificate
from llmdoctor.probe.lookup import Address

_NO_TLS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"}


@cache
def context_for(verify: bool, http2: bool, ca_file: str | None) -> ssl.SSLContext:
    """Trusts the system's authorities (those of a company among them), Mozilla's list, and `ca_file`. Made once for
    each choice, as it takes longer than many a handshake. Raises OSError where `ca_file` cannot be read."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    # Python 3.13 asks more of certificates than curl, browsers and SDKs do; we judge as those.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # Ours first: a server that follows the client's order would else never speak HTTP/2.
    context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
    return context


def certificate_of(plug: socket.socket) -> Certificate | None:
    """The certificate of the other side of a TLS socket."""
    return read_certificate(plug.getpeercert(binary_form=True)) if isinstance(plug, ssl.SSLSocket) else None


def peek(address: Address, host: str, timeout_s: float) -> Certificate | None:
    """The certificate that a server shows, trusted or not: one more handshake, after which nothing is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(OSError):
        plug = context.wrap_socket(socket.create_connection(address.target[:2], timeout_s), server_hostname=host)
        with plug:
            return certificate_of(plug)
    return None


def reason_of(error: ssl.SSLError) -> str:
    """Why there is no TLS session, as one plain phrase."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate is not trusted: {error.verify_message.rstrip('.')} (--insecure goes on without the check)"
        )
    if isinstance(error, ssl.SSLEOFError):
        return "the connection was closed within the TLS handshake"
    if error.reason in _NO_TLS:
        return "what answers on that port speaks no TLS (is it http:// there?)"
    return f"TLS failed: {(error.reason or 'no reason given').replace('_', ' ').lower()}"
