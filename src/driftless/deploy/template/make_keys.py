"""Certificates for TLS and a key for each node: python make_keys.py --nodes 4 --host 127.0.0.1

    keys/ca.crt, keys/ca.key          signs the server's certificate; ca.crt goes to every machine, ca.key stays here
    keys/server.crt, keys/server.key  of the SuperLink, for the names and addresses given by --host
    keys/node-0, keys/node-0.pub ...  of each node: the private key goes to that node only, the public one is registered
    flower/config.toml                tells `flwr` where the SuperLink is, if FLWR_HOME is that folder

What exists is kept: run it again with a larger number to add nodes.
"""

import argparse
import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM
PKCS8, OPENSSH = serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.OpenSSH


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def write(path: Path, content: bytes) -> None:
    """Readable by its owner only; never over an existing file."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def write_key(path: Path, key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> None:
    write(path, key.private_bytes(PEM, form, serialization.NoEncryption()))


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def certificate(subject: str, key, issuer: str, signer, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )


def usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs_certificates, crl_sign=signs_certificates, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def make_authority(keys: Path, days: int) -> None:
    key = new_key()
    made = (
        certificate("federation", key, "federation", key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs_certificates=True), critical=True)
    )
    write_key(keys / "ca.key", key, PKCS8)
    write(keys / "ca.crt", made.sign(key, hashes.SHA384()).public_bytes(PEM))


def make_server(keys: Path, hosts: list[str], days: int) -> None:
    authority = serialization.load_pem_private_key((keys / "ca.key").read_bytes(), None)
    assert isinstance(authority, ec.EllipticCurvePrivateKey)
    key = new_key()
    made = (
        certificate(hosts[0], key, "federation", authority, days)
        .add_extension(x509.SubjectAlternativeName([host_name(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    write_key(keys / "server.key", key, PKCS8)
    write(keys / "server.crt", made.sign(authority, hashes.SHA384()).public_bytes(PEM))


def host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def make_node(keys: Path, number: int) -> None:
    key = new_key()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    write_key(keys / f"node-{number}", key, OPENSSH)
    write(keys / f"node-{number}.pub", public + b"\n")


def write_connection(folder: Path, address: str, authority: Path) -> None:
    folder.mkdir(exist_ok=True)
    lines = ["[superlink]", 'default = "federation"', "", "[superlink.federation]", f'address = "{address}"']
    lines += [f"root-certificates = '{authority.resolve()}'", ""]
    (folder / "config.toml").write_text("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--host", action="append", help="a name or address of the SuperLink; may be given repeatedly")
    parser.add_argument("--days", type=int, default=365, help="how long the certificates are valid")
    parser.add_argument("--port", type=int, default=8000, help="of the SuperLink")
    options = parser.parse_args()
    hosts = options.host or ["127.0.0.1", "localhost"]
    keys, flower = Path(__file__).with_name("keys"), Path(__file__).with_name("flower")
    keys.mkdir(mode=0o700, exist_ok=True)
    if not (keys / "ca.crt").exists():
        make_authority(keys, options.days)
    if not (keys / "server.crt").exists():
        make_server(keys, hosts, options.days)
    if not (flower / "config.toml").exists():
        write_connection(flower, f"{hosts[0]}:{options.port}", keys / "ca.crt")
    made = [number for number in range(options.nodes) if not (keys / f"node-{number}").exists()]
    for number in made:
        make_node(keys, number)
    print(f"{keys}: certificates of the server, keys of {options.nodes} nodes ({len(made)} new)")


if __name__ == "__main__":
    main()
