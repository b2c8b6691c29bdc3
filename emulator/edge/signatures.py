"""Signatures of bundles: who holds a key says that a manifest is theirs, and a manifest has the hash of every file.

Ed25519 (RFC 8032) by the package `cryptography`, the extra `[signing]`; keys are PEM files as OpenSSL writes them. What
is signed are the bytes of `manifest.json`; the 64 bytes of the signature lie beside it. So OpenSSL can check it too:

    openssl pkeyutl -verify -pubin -inkey signing.public -rawin -in manifest.json -sigfile manifest.sig
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from ..contracts import ConfigError
from ..regular_file import read_regular, reason, shown
from .manifest import BundleError

SECRET_FILE, PUBLIC_FILE = "signing.secret", "signing.public"
SIGNATURE_BYTES = 64
#: Of a key file; that of an Ed25519 key has 120.
_MOST_KEY_BYTES = 1 << 14


def make_signing_keys(folder: Path) -> list[Path]:
    """A key pair in a folder: `signing.secret`, which its owner alone can read, and `signing.public`.

    Raises:
        ConfigError: one of them exists, the folder cannot be written, or `cryptography` is not installed.
    """
    ed25519, serialization, _ = _library()
    secret = ed25519.Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    private = secret.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = secret.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    contents = {SECRET_FILE: (private, 0o600), PUBLIC_FILE: (public, 0o644)}
    if there := [name for name in contents if os.path.lexists(folder / name)]:
        raise ConfigError(f"{folder / there[0]} exists already and is not overwritten; choose another folder for keys")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, (content, mode) in contents.items():
            # the mode is given at creation, so that nobody can open the file before it has it
            with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
    except OSError as error:
        raise ConfigError(f"keys cannot be written to {folder} ({reason(error)}); choose another folder") from None
    return [folder / name for name in contents]


class SigningKey:
    """Secret key that signs bundles.

    Args:
        path: PEM file of an Ed25519 key without a password, such as `signing.secret`.

    Raises:
        ConfigError: it is none, others can read it, or `cryptography` is not installed.
    """

    def __init__(self, path: Path) -> None:
        ed25519, serialization, _ = _library()
        content = _key_file(path)
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise ConfigError(f"{shown(path)} can be read by others; chmod 600 it")
        try:
            self._key = serialization.load_pem_private_key(content, password=None)
        except Exception:  # noqa: BLE001 - the library has several classes for what is no key
            self._key = None
        if not isinstance(self._key, ed25519.Ed25519PrivateKey):
            raise ConfigError(f"{shown(path)} is no secret Ed25519 key; make one with: sheafedge keys --signing FOLDER")

    def sign(self, manifest: bytes) -> bytes:
        """Signature of the bytes of a manifest."""
        return bytes(self._key.sign(manifest))


class TrustedKey:
    """Public key whose owner's bundles are accepted, and no others.

    Args:
        path: PEM file of an Ed25519 key, such as `signing.public`.

    Attributes:
        name: first digits of the SHA-256 of the key, for messages.

    Raises:
        ConfigError: it is none, or `cryptography` is not installed.
    """

    def __init__(self, path: Path) -> None:
        ed25519, serialization, self._invalid = _library()
        try:
            self._key = serialization.load_pem_public_key(_key_file(path))
        except ConfigError:
            raise
        except Exception:  # noqa: BLE001 - as above
            self._key = None
        if not isinstance(self._key, ed25519.Ed25519PublicKey):
            raise ConfigError(f"{shown(path)} is no public Ed25519 key; give signing.public of whoever signs")
        self.name = hashlib.sha256(self._key.public_bytes_raw()).hexdigest()[:12]

    def check(self, manifest: bytes, signature: bytes | None) -> None:
        """Refuse a manifest that this key has not signed.

        Args:
            manifest: bytes of `manifest.json`.
            signature: content of `manifest.sig`; None: there is none.

        Raises:
            BundleError: as said.
        """
        if signature is None:
            raise BundleError(f"it is not signed, and only bundles signed by the trusted key {self.name} are accepted")
        try:
            self._key.verify(signature, manifest)
        except self._invalid:
            raise BundleError(
                f"its signature is not that of the trusted key {self.name}; get the bundle, or the key, from its maker"
            ) from None


def _library() -> tuple[Any, Any, Any]:
    """Modules for Ed25519 keys and for their files, and what a wrong signature raises.

    Raises:
        ConfigError: they are not installed.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ConfigError(
            "signatures need the package cryptography, which is not installed; install it, or the extra [signing]"
        ) from None
    return ed25519, serialization, InvalidSignature


def _key_file(path: Path) -> bytes:
    try:
        return read_regular(path, _MOST_KEY_BYTES)
    except OSError as error:
        raise ConfigError(f"key {shown(path)} cannot be read ({reason(error)})") from None
