"""`python -m benchmarks.gpu_check`: what a GPU makes of the predictor, written into docs/gpu.md.

Most machines that run the tests have no GPU, so nothing about GPUs is claimed beyond what this check saw: which compute
type is in effect for each that can be asked for, whether the manifest's probes then translate as recorded (p39), and
whether the device's memory returns to its baseline after models were loaded and unloaded in turn (p42). It refuses to
say anything without a device: it ends with the reason and the exit code of `nllb-predictor serve --device cuda`.
"""

import argparse
import datetime
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import ctranslate2

from benchmarks.report import ROOT, commit
from nllb_predictor.convert import manifest_json
from nllb_predictor.convert.manifest import MANIFEST_NAME, Options, Quantization
from nllb_predictor.convert.run import Request, Surroundings, convert
from nllb_predictor.engine import probe
from nllb_predictor.engine.domain import Search, Segment
from nllb_predictor.engine.hardware import NEAREST
from nllb_predictor.engine.model import TranslationEngine
from nllb_predictor.errors import DeviceMissing, PredictorError
from nllb_predictor.settings import ServeSettings
from nllb_predictor.text.tokenise import Tokenizer

TINY = ROOT / "tests" / "data" / "tiny-nllb"
PAGE = ROOT / "docs" / "gpu.md"
SEEN = "## What was seen\n"
"""Everything of the page from here on is written by this check."""

ENGINES = 20
BATCH = 64
MARGIN_MIB = 64
"""Memory beyond the baseline that is no leak: the CUDA allocator's and cuBLAS' own blocks come and go in such sizes."""


@dataclass(frozen=True)
class Computed:
    """One compute type that was asked for; `verdict` is empty where the probes translated as recorded."""

    asked: str
    effective: str
    verdict: str


@dataclass(frozen=True)
class RoundRobin:
    """MiB in use: before any model, after each had its first turn, and after each later turn."""

    before: int
    baseline: int
    after: tuple[int, ...]

    @property
    def back(self) -> bool:
        """Whether no unload left more than the margin behind. The baseline has what CUDA keeps for the process."""
        return all(used - self.baseline <= MARGIN_MIB for used in self.after)


@dataclass(frozen=True)
class Found:
    """Everything that one run saw. `device` is what the driver says of it, in one line."""

    device: str
    vocabulary: int
    computed: tuple[Computed, ...]
    memory: RoundRobin

    @property
    def good(self) -> bool:
        return self.memory.back and not any(each.verdict for each in self.computed)


def compute_types(folder: Path, device: str, types: Iterable[str] = tuple(NEAREST)) -> tuple[Computed, ...]:
    """Load a converted model with each compute type and translate its manifest's probes."""
    manifest = manifest_json.parse((folder / MANIFEST_NAME).read_bytes())
    tokenizer = Tokenizer.from_folder(folder)
    found = []
    for asked in types:
        effective = "none"
        try:
            engine = TranslationEngine.load(folder, ServeSettings(device=device, compute_type=asked))
            effective = engine.info.compute_type
            probe.check(engine, tokenizer, manifest)
            engine.close()
            verdict = ""
        except (PredictorError, RuntimeError) as error:
            verdict = str(error)
        found.append(Computed(asked, effective, verdict))
    return tuple(found)


def round_robin(folders: Sequence[Path], device: str, used: Callable[[], int]) -> RoundRobin:
    """Load, translate one big batch and unload, 20 times in turn over `folders`; `used` tells the device's MiB."""
    before = used()
    after = []
    for index in range(ENGINES):
        folder = folders[index % len(folders)]
        manifest = manifest_json.parse((folder / MANIFEST_NAME).read_bytes())
        tokenizer = Tokenizer.from_folder(folder)
        first = manifest.self_test.probes[0]
        segment = Segment(tuple(tokenizer.encode([first.text], first.source)[0]), first.target)
        engine = TranslationEngine.load(folder, ServeSettings(device=device))
        engine.translate([segment] * BATCH, Search(4, 256))
        engine.close()
        del engine
        after.append(used())
    # CUDA loads the code of an arithmetic when it is first used and keeps it: every model has its turn before counting.
    first_turns = len(folders)
    return RoundRobin(before, after[first_turns - 1], tuple(after[first_turns:]))


def _nvidia_smi(fields: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "--id=0"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def page(text: str, found: Found, when: str, version: str) -> str:
    """The page with what was seen in place of what stood there."""
    rows = [
        f"| `{each.asked}` | `{each.effective}` | {each.verdict or 'as recorded'} |"
        for each in found.computed
    ]
    memory = found.memory
    lines = [
        (
            f"{when}, commit {version}, CTranslate2 {ctranslate2.__version__}, {found.device}. Vocabulary of "
            f"{found.vocabulary} rows ({'a' if found.vocabulary % 4 == 0 else 'not a'} multiple of 4)."
        ),
        "",
        "| asked | in effect | probes |",
        "| --- | --- | --- |",
        *rows,
        "",
        (
            f"Memory: {memory.before} MiB before, {memory.baseline} MiB after the first turn of each model; after each "
            f"of {len(memory.after)} more turns at most {max(memory.after)} MiB: "
            f"{'back to the baseline' if memory.back else '**not back to the baseline**'} within {MARGIN_MIB} MiB."
        ),
    ]
    return text.partition(SEEN)[0] + SEEN + "\n".join(lines) + "\n"


def look(scratch: Path) -> Found:
    """Run both rows on the first CUDA device with the tiny model in two quantizations."""
    folders = []
    for quantization in (Quantization.INT8, Quantization.FLOAT16):
        folders.append(scratch / quantization.value)
        convert(Request(str(TINY), str(folders[-1]), Options(quantization)), Surroundings(scratch / "work"))
    device = _nvidia_smi("name,compute_cap,driver_version")
    rows = manifest_json.parse((folders[0] / MANIFEST_NAME).read_bytes()).tokenizer.rows
    computed = compute_types(folders[0], "cuda")
    memory = round_robin(folders, "cuda", lambda: int(_nvidia_smi("memory.used")))
    return Found(device, rows, computed, memory)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where everything was as it should be, 1 where not, 51 where there is no device."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(arguments)
    if ctranslate2.get_cuda_device_count() == 0:
        print(
            "gpu-check: no CUDA device was found; nothing was checked and nothing written.", file=sys.stderr
        )
        return DeviceMissing.exit_code
    with tempfile.TemporaryDirectory(prefix="gpu-check.") as scratch:
        found = look(Path(scratch))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    written = page(PAGE.read_text(encoding="utf-8"), found, today, commit())
    PAGE.write_text(written, encoding="utf-8")
    print(written.partition(SEEN)[2])
    return 0 if found.good else 1


if __name__ == "__main__":
    sys.exit(main())
