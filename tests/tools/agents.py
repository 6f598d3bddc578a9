"""The real agent CLIs as tests drive them: where `scripts/engines` puts each, and what makes it talk to a scripted model alone."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from tests.tools.scripted_model import Act, Call, Say, run, write

ROOT = Path(__file__).resolve().parents[2]
FINISHED = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
AGENTS = {
    "claude": ("claude", "claude", ""),
    "codex": ("codex", "codex", "scripted"),
    "gemini": ("gemini", "gemini", "gemini-2.5-pro"),
    "opencode": ("opencode", "opencode", "mock/scripted"),
    "aider": ("aider", "aider", "openai/scripted"),
    "mini": ("mini", "mini", "openai/scripted"),
    "acp:claude": ("claude-acp", "claude-agent-acp", ""),
    "acp:codex": ("codex-acp", "codex-acp", ""),
    "acp:gemini": ("gemini", "gemini", "gemini-2.5-pro"),
    "acp:opencode": ("opencode", "opencode", ""),
}
"""As `--engine` names it -> its folder below .cache, its program, and the model that is asked for. Copilot does not start
without an account."""


class Home(Protocol):
    """What is set up for an agent: a HOME, and the environment that it starts in."""

    home: Path
    env: dict[str, str]


@dataclass(frozen=True)
class Agent:
    """One of `AGENTS`, and the folder of its program."""

    name: str
    programs: Path

    @property
    def engine(self) -> str:
        """Which of our engines drives it."""
        return self.name.partition(":")[0]

    @property
    def family(self) -> str:
        """What it is, however it is driven."""
        return self.name.removeprefix("acp:")

    @property
    def model(self) -> str:
        """As the engine is given it."""
        return AGENTS[self.name][2]

    @property
    def spec(self) -> str:
        """As `--engine` has it."""
        return f"{self.name}:{self.model}" if self.model else self.name

    @property
    def bare(self) -> bool:
        """Whether it offers the model no tools."""
        return self.family == "aider"

    def settle(self, home: Home, url: str) -> None:
        """The environment and the files of a HOME with which it talks to the model at ``url`` and to nobody else."""
        env, own = home.env, home.home
        env["PATH"] = f"{self.programs}:{env['PATH']}"
        if self.family == "claude":
            env |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy"}
            env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
            if self.engine == "acp":  # over ACP it says nothing of its ten tries, which take minutes
                env["CLAUDE_CODE_MAX_RETRIES"] = "1"
        elif self.family == "codex":
            provider = f'name = "mock"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "OPENAI_API_KEY"\n'
            retries = "request_max_retries = 0\nstream_max_retries = 0\n"
            said = f'model = "scripted"\nmodel_provider = "mock"\n[model_providers.mock]\n{provider}{retries}'
            _file(own / ".codex" / "config.toml", said)
            env["OPENAI_API_KEY"] = "dummy"
        elif self.family == "gemini":
            if self.engine == "gemini":  # over ACP the client signs in
                chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
                _file(own / ".gemini" / "settings.json", json.dumps(chosen))
            env |= {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "dummy"}
        elif self.family == "opencode":
            options = {"baseURL": f"{url}/v1", "apiKey": "dummy"}
            mock = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": {}}}
            config = {"model": "mock/scripted", "provider": {"mock": mock}}
            _file(Path(env.get("XDG_CONFIG_HOME", own / ".config")) / "opencode" / "opencode.json", json.dumps(config))
            env["OPENCODE_DISABLE_MODELS_FETCH"] = "1"
        else:
            env |= {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": "dummy"}
            env |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "MSWEA_COST_TRACKING": "ignore_errors"}
        if self.family == "mini":
            env["ORCHCONVERGE_PERMISSIONS"] = "skip"

    def ended(self, *acts: Act) -> tuple[Act, ...]:
        """A script with its last words, as this CLI needs them."""
        return (*acts, run(f"{FINISHED} && echo 'all done'") if self.family == "mini" else Say("all done"))

    def works(self, report: str, *acts: Call, commit: Call) -> Sequence[Act]:
        """A whole turn: the acts, the report of it, the commit. Aider can do neither, and commits by itself."""
        if self.bare:
            return (*(act for act in acts if act.kind == "write"), Say("all done"))
        word = json.dumps({"summary": "all done", "residue": [], "verdict": None})
        return self.ended(*acts, write(report, word), commit)


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(name: str) -> Agent | str:
    """One of `AGENTS`; why there is none, in a line, if it is not installed."""
    folder, program, _ = AGENTS[name]
    base = ROOT / ".cache" / folder
    told = os.environ.get("ORCHCONVERGE_TEST_CLAUDE") if name == "claude" else None
    at = Path(told) if told else base / ("bin" if folder in ("aider", "mini") else "node_modules/.bin") / program
    if at.exists():
        return Agent(name, at.absolute().parent)
    log = base.with_name(f"{folder}.log")
    why = " ".join(log.read_text(errors="replace")[-500:].split()) if log.exists() else "it was not tried"
    return f"{name} is not installed: scripts/engines {folder} (last time: {why})"


def installed(name: str) -> Agent:
    """One of `AGENTS`. Without it the tests of it say why: they fail in CI and are skipped elsewhere."""
    agent = found(name)
    if isinstance(agent, Agent):
        return agent
    if os.environ.get("CI") == "true":
        pytest.fail(agent)
    pytest.skip(agent)
