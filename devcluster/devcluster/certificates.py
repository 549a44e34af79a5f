"""Certificates and kubeconfigs of a cluster that lives for hours. Nothing here is fit for production.

P-256 keys, because a cluster start makes a dozen of them and RSA would cost a second each.
"""

import base64
import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=3650)
"""Long, since a snapshot is started again months later with the certificates that are inside it."""

_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> None:
        """Writes NAME.crt and NAME.key, the key readable by the owner alone."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.crt").write_bytes(self.certificate)
        key = folder / f"{name}.key"
        key.touch(mode=0o600)
        key.write_bytes(self.key)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # SEC 1 ("EC PRIVATE KEY") for all, since the service account signer reads no other EC form.
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def service_account_key() -> bytes:
    """Private key, PEM, that signs and checks service account tokens."""
    return _pem(ec.generate_private_key(ec.SECP256R1()))


@dataclass(frozen=True)
class Authority:
    """A certificate authority held in memory, with what it can issue."""

    pair: Pair

    @classmethod
    def create(cls, name: str = "serval-live-devcluster") -> "Authority":
        """A new authority that signs itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(True, False, True, False, False, True, True, False, False)
        builder = (
            _builder(subject, subject, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        certificate = builder.sign(key, hashes.SHA256())
        return cls(Pair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key)))

    @classmethod
    def read(cls, folder: Path, name: str = "ca") -> "Authority":
        """The authority that `pair.write(folder, name)` has kept."""
        return cls(Pair((folder / f"{name}.crt").read_bytes(), (folder / f"{name}.key").read_bytes()))

    def client(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """A client certificate: Kubernetes reads the user from CN and the groups from O."""
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(subject, [], ExtendedKeyUsageOID.CLIENT_AUTH)

    def server(self, name: str, hosts: Sequence[str]) -> Pair:
        """A serving certificate for host names and IP addresses."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._issue(subject, hosts, ExtendedKeyUsageOID.SERVER_AUTH)

    def _issue(self, subject: x509.Name, hosts: Sequence[str], purpose: x509.ObjectIdentifier) -> Pair:
        authority = x509.load_pem_x509_certificate(self.pair.certificate)
        signer = serialization.load_pem_private_key(self.pair.key, password=None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, authority.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(signer, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def write_kubeconfig(path: Path, server: str, authority: Authority, client: Pair) -> Path:
    """Writes a self-contained kubeconfig (no paths inside), readable by the owner alone."""

    def encoded(data: bytes) -> str:
        return base64.b64encode(data).decode("ascii")

    name = "serval-live"
    user = {
        "client-certificate-data": encoded(client.certificate),
        "client-key-data": encoded(client.key),
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": encoded(authority.pair.certificate),
                },
            }
        ],
        "users": [{"name": name, "user": user}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path
