"""Reads which files of the build context a target of a Dockerfile depends on. Pure.

So that a change of the operator does not give the predictor's image a new tag. Understands what the repository's
Dockerfile uses: FROM … AS …, COPY with and without --from, line continuations, comments. ADD is refused.
"""

from dataclasses import dataclass, field

from devcluster.errors import UsageError


@dataclass
class _Stage:
    base: str
    sources: list[str] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)


def copied_paths(text: str, target: str) -> list[str]:
    """Paths of the context that are copied into `target` or into any stage that it builds on, sorted.

    Raises UsageError for a target that the Dockerfile lacks.
    """
    stages = _stages(text)
    if target not in stages:
        raise UsageError(f"the Dockerfile has no target {target!r}; it has {', '.join(stages)}")
    found: set[str] = set()
    waiting, seen = [target], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in stages:  # an image from outside
            continue
        seen.add(name)
        found.update(stages[name].sources)
        waiting += [stages[name].base, *stages[name].stages]
    return sorted(found)


def _stages(text: str) -> dict[str, _Stage]:
    stages: dict[str, _Stage] = {}
    current = _Stage("")
    for words in _instructions(text):
        keyword, arguments = words[0].upper(), words[1:]
        if keyword == "FROM":
            names = [word for word in arguments if not word.startswith("--")]
            current = _Stage(names[0])
            stages[names[2] if len(names) == 3 else str(len(stages))] = current
        elif keyword == "COPY":
            options = [word for word in arguments if word.startswith("--")]
            paths = [word for word in arguments if not word.startswith("--")]
            origin = next(
                (word.removeprefix("--from=") for word in options if word.startswith("--from=")), None
            )
            if origin is None:
                current.sources += [path.strip("/").removeprefix("./") for path in paths[:-1]]
            else:
                current.stages.append(origin)
        elif keyword == "ADD":
            raise UsageError("the Dockerfile uses ADD; COPY says what an image depends on")
    return stages


def _instructions(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [words for line in joined.splitlines() if (words := line.split())]
