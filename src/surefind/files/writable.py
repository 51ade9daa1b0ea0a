"""Where a document may be written: inside the tree of documents, and never where a sync, git, a shell or another tool
reads its configuration.

Some disks take different names for the same file: they ignore case, invisible characters, or blanks and dots at the
end, and give short names such as GIT~1. A name is compared in the one form that all of them have in common.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePosixPath

from surefind.disk.folders import FILE_NAME
from surefind.files.scan import FileRules, is_ignored

_WINDOWS_SHORT_NAME = re.compile(r"[^.]{1,8}~\d{1,6}(?:\..{0,3})?")
"""A short name that Windows makes of a long one."""


_TOOLS = frozenset(
    """
    makefile gnumakefile bsdmakefile cmakelists.txt meson.build meson_options.txt justfile rakefile sconstruct
    dockerfile containerfile compose.yml compose.yaml vagrantfile tiltfile kustomization.yaml chart.yaml skaffold.yaml
    jenkinsfile azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml cloudbuild.yaml cloudbuild.json buildspec.yml
    codeowners action.yml action.yaml renovate.json procfile runtime.txt vercel.json netlify.toml firebase.json app.json
    pyproject.toml setup.py setup.cfg conftest.py conf.py sitecustomize.py usercustomize.py pytest.ini tox.ini
    noxfile.py pipfile pipfile.lock poetry.lock uv.toml uv.lock environment.yml mkdocs.yml _config.yml book.toml
    package.json npm-shrinkwrap.json yarn.lock pnpm-workspace.yaml bower.json lerna.json nx.json turbo.json
    jsconfig.json deno.json composer.json composer.lock cargo.toml build.rs go.mod go.work gemfile gemfile.lock
    podfile pom.xml build.gradle settings.gradle build.xml global.json nuget.config build workspace flake.nix
    default.nix shell.nix agents.md claude.md gemini.md corpus.jsonl
    """.split()
)
"""Files that make, containers, CI, hosting, packaging or a coding agent read as configuration or instructions. Next to
a corpus.jsonl, a sync takes other files for the questions of a benchmark."""
_VARIANTS = re.compile(
    r"(?:requirements|constraints)(?:[-_.][\w.-]{1,80})?\.txt|(?:tsconfig|package)\.[\w.-]{1,80}\.json|"
    r"docker-compose(?:\.[\w.-]{1,80})?\.ya?ml|tsconfig\.json|(?:dockerfile|makefile)\.[\w.-]{1,80}"
)
"""Names of which tools read several, such as requirements-dev.txt."""


def is_configuration(path: str) -> bool:
    """Returns whether a tool reads a file with this name as its configuration, in whichever folder it is."""
    name = _folded(PurePosixPath(path).name)
    return name in _TOOLS or _VARIANTS.fullmatch(name) is not None


def is_document_path(path: str) -> bool:
    """Returns whether a file at this path of a tree is a document: inside the tree, where a sync would read it, and not
    the settings of a knowledge base."""
    plain = PurePosixPath(path)
    parts = [_folded(part) for part in plain.parts]
    if not parts or plain.is_absolute() or "\\" in path:
        return False
    if any(part in ("", FILE_NAME) or _WINDOWS_SHORT_NAME.fullmatch(part) for part in parts):
        return False
    return not is_ignored("/".join(parts), FileRules())


def _folded(part: str) -> str:
    """Returns a name as the most lenient disk compares it. What follows a colon names a part of a file on Windows."""
    plain = unicodedata.normalize("NFKC", part).casefold()
    shown = "".join(letter for letter in plain if unicodedata.category(letter) not in ("Cf", "Cc"))
    return shown.partition(":")[0].strip().rstrip(". ")
