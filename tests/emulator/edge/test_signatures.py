"""A signed bundle is accepted by who trusts its key, and nothing else is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from doubles.bundles import tiny_bundle
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.edge import signatures
from sheafedge.emulator.edge.bundle import load_bundle, pack_bundle, write_bundle
from sheafedge.emulator.edge.bundle_files import MANIFEST_FILE, SIGNATURE_FILE, read_bundle
from sheafedge.emulator.edge.commands.device_commands import run_command
from sheafedge.emulator.edge.manifest import BundleError
from sheafedge.emulator.edge.serving.reloading import BundleReloader
from sheafedge.emulator.edge.signatures import PUBLIC_FILE, SECRET_FILE, SigningKey, TrustedKey, make_signing_keys

needs_library = pytest.importorskip("cryptography", reason="the extra [signing] is not installed")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_signing_keys(tmp_path / "keys")
    return tmp_path / "keys"


@pytest.fixture
def trusted(keys: Path) -> TrustedKey:
    return TrustedKey(keys / PUBLIC_FILE)


@pytest.fixture
def signed(keys: Path, tmp_path: Path) -> Path:
    manifest, content = read_bundle(tiny_bundle(tmp_path / "first"))
    write_bundle(tmp_path / "signed", manifest, content, SigningKey(keys / SECRET_FILE))
    return tmp_path / "signed"


def test_a_signed_bundle_is_accepted_as_folder_and_archive(signed: Path, trusted: TrustedKey) -> None:
    for path in (signed, pack_bundle(signed)):
        bundle = load_bundle(path, trial=None, trusted=trusted)
        assert len(bundle.content[SIGNATURE_FILE]) == 64


def test_a_signature_is_no_hindrance_to_who_trusts_no_key(signed: Path, tmp_path: Path) -> None:
    assert load_bundle(signed, trial=None).manifest == load_bundle(tmp_path / "first", trial=None).manifest


def other_signature(folder: Path) -> None:
    (folder / SIGNATURE_FILE).write_bytes(bytes(64))


def signature_of_another_bundle(folder: Path) -> None:
    manifest, content = read_bundle(tiny_bundle(folder.with_name("other"), gain=2.0))
    shutil.rmtree(folder)
    write_bundle(folder, manifest, content, SigningKey(folder.with_name("keys") / SECRET_FILE))
    taken = (folder / SIGNATURE_FILE).read_bytes()
    first = folder.with_name("first")
    shutil.rmtree(folder)
    shutil.copytree(first, folder)
    (folder / SIGNATURE_FILE).write_bytes(taken)


def another_key(folder: Path) -> None:
    make_signing_keys(folder.with_name("stranger"))
    manifest, content = read_bundle(folder.with_name("first"))
    shutil.rmtree(folder)
    write_bundle(folder, manifest, content, SigningKey(folder.with_name("stranger") / SECRET_FILE))


def changed_manifest(folder: Path) -> None:
    path = folder / MANIFEST_FILE
    path.write_bytes(path.read_bytes() + b" ")  # the same JSON, so that its digest still fits


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no signature": (lambda folder: (folder / SIGNATURE_FILE).unlink(), "it is not signed"),
    "zeros": (other_signature, "is not that of the trusted key"),
    "of another bundle": (signature_of_another_bundle, "is not that of the trusted key"),
    "by another key": (another_key, "is not that of the trusted key"),
    "a blank more": (changed_manifest, "is not that of the trusted key"),
    "too short": (lambda folder: (folder / SIGNATURE_FILE).write_bytes(b"short"), "is not that of the trusted key"),
    "too long": (lambda folder: (folder / SIGNATURE_FILE).write_bytes(bytes(65)), "manifest.sig has 65 bytes"),
    "another model": (lambda folder: (folder / "model.onnx").write_bytes(b"x"), "model.onnx has 1 bytes"),
}


@pytest.mark.parametrize(("change", "said"), WRONG.values(), ids=WRONG.keys())
def test_what_the_key_has_not_signed_is_refused_in_one_sentence(
    change: Callable[[Path], object], said: str, signed: Path, trusted: TrustedKey
) -> None:
    change(signed)
    with pytest.raises(BundleError, match=said) as refused:
        load_bundle(signed, trial=None, trusted=trusted)
    assert "\n" not in str(refused.value)
    archive = signed.with_name("again.zip")
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in signed.iterdir():
            zipped.write(file, file.name)
    with pytest.raises(BundleError, match=said):
        load_bundle(archive, trial=None, trusted=trusted)


def test_a_reloader_trusts_as_the_server_does(signed: Path, trusted: TrustedKey) -> None:
    reloader = BundleReloader(signed, watch_s=None, cuda=False, threads=1, trusted=trusted)
    try:
        another_key(signed)
        reloader.ask()
        while (loaded := reloader.loaded()) is None:
            pass
        assert isinstance(loaded, BundleError)
        assert "is not that of the trusted key" in str(loaded)
    finally:
        reloader.close()


def test_commands_take_the_key(signed: Path, keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trust = ["--trusted", str(keys / PUBLIC_FILE)]
    run_command(["verify", str(signed), *trust], "1.2.3")
    assert "is valid, signed by the trusted key" in capsys.readouterr().out
    for command in ("verify", "serve"):
        with pytest.raises(BundleError, match="it is not signed"):
            run_command([command, str(signed.with_name("first")), *trust], "1.2.3")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_checks_a_signature_too(signed: Path, keys: Path) -> None:
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(keys / PUBLIC_FILE), "-rawin"]
    files = ["-in", str(signed / MANIFEST_FILE), "-sigfile", str(signed / SIGNATURE_FILE)]
    found = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    if "rawin" in found.stderr.lower():
        pytest.skip("an openssl of before 3")
    assert "Verified Successfully" in found.stdout, found.stderr


def test_keys_are_never_overwritten_and_secrets_are_their_owners(keys: Path) -> None:
    assert (keys / SECRET_FILE).stat().st_mode & 0o077 == 0
    with pytest.raises(ConfigError, match="exists already and is not overwritten"):
        make_signing_keys(keys)
    (keys / SECRET_FILE).chmod(0o644)
    with pytest.raises(ConfigError, match="can be read by others; chmod 600 it"):
        SigningKey(keys / SECRET_FILE)


def test_files_that_are_no_keys_are_refused(keys: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no public Ed25519 key"):
        TrustedKey(keys / SECRET_FILE)
    public = tmp_path / "public"
    public.write_bytes((keys / PUBLIC_FILE).read_bytes())
    public.chmod(0o600)
    with pytest.raises(ConfigError, match="is no secret Ed25519 key"):
        SigningKey(public)
    public.write_bytes(os.urandom(100))
    for kind in (SigningKey, TrustedKey):
        with pytest.raises(ConfigError, match="Ed25519 key"):
            kind(public)
        with pytest.raises(ConfigError, match="cannot be read"):
            kind(tmp_path / "nowhere")


def test_without_the_library_one_sentence_says_what_is_missing(
    signed: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    for use in (lambda: TrustedKey(keys / PUBLIC_FILE), lambda: SigningKey(keys / SECRET_FILE)):
        with pytest.raises(ConfigError, match=r"need the package cryptography, which is not installed; .*\[signing\]"):
            use()
    load_bundle(signed, trial=None)  # who trusts no key needs none
    assert signatures.SIGNATURE_BYTES == 64
