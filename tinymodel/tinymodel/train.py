"""Trains the tiny model: one model, both directions.

Why it exists: see the package. Needs torch and transformers, so it runs in the training environment only.
What it refuses to do: watch the clock. Steps and seed are fixed; a stopped run goes on from its last saved state.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import distributed, nn
from torch.multiprocessing import spawn
from transformers import M2M100Config, M2M100ForConditionalGeneration

from tinymodel.checkpoint import config, write_checkpoint
from tinymodel.corpus import Pair, read_pairs
from tinymodel.normalise import punctuation_normaliser
from tinymodel.schedule import Example, batches, pace
from tinymodel.settings import Languages, Places, Recipe, Shape
from tinymodel.vocabulary import train_tokenizer, write_tokenizer

PAD, EOS = 1, 2


@dataclass(frozen=True, slots=True)
class Job:
    """What one training run is made of."""

    shape: Shape
    recipe: Recipe
    languages: Languages
    places: Places
    # Processes that share each batch, one core each. They wait for each other once a step; threads would wait at every
    # operation, which costs much more on a machine that has other work.
    workers: int = 2


def train(job: Job) -> None:
    """Train from the corpus in `job.places`, or go on, and write the checkpoint folder."""
    normalise = punctuation_normaliser()
    pairs = [
        Pair(p.book, p.chapter, p.verse, normalise(p.eng), normalise(p.spa))
        for p in read_pairs(job.places.pairs)
    ]
    tree = train_tokenizer([text for p in pairs for text in (p.eng, p.spa)], job.shape)
    write_tokenizer(job.places.checkpoint, tree, job.languages, job.shape.max_positions)
    tokenizer = Tokenizer.from_file(str(job.places.checkpoint / "tokenizer.json"))
    examples = _examples(pairs, tokenizer, job)
    print(
        f"{len(examples)} examples, {sum(len(e.target) for e in examples)} target pieces an epoch", flush=True
    )
    with TemporaryDirectory() as meeting:
        spawn(_work, (job, examples, f"file://{meeting}/workers"), nprocs=job.workers)
    model = new_model(job.shape, job.recipe)
    model.load_state_dict(torch.load(job.places.training_state, weights_only=True)["model"])
    write_checkpoint(job.places.checkpoint, job.shape, job.languages, tree, tensors_of(model))


def _work(rank: int, job: Job, examples: Sequence[Example], meeting: str) -> None:
    """One of the processes; all hold the same model and see different parts of each batch."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=job.workers)
    torch.manual_seed(job.recipe.seed)
    _run(new_model(job.shape, job.recipe), examples, job, rank)
    distributed.destroy_process_group()


def new_model(shape: Shape, recipe: Recipe) -> Any:
    """A fresh M2M100 model of the shape."""
    settings = config(shape, shape.tokens + shape.spare_rows, "serval-live/tiny-nllb")
    settings |= {"dropout": recipe.dropout, "attention_dropout": 0.0, "use_cache": False}
    for name in ("_name_or_path", "architectures", "max_length", "tokenizer_class", "torch_dtype"):
        settings.pop(name)
    model = M2M100ForConditionalGeneration(M2M100Config(**settings, attn_implementation="sdpa"))
    # Embeddings are multiplied by the root of the width, so that this makes inputs of unit size.
    nn.init.normal_(model.model.shared.weight, std=shape.width**-0.5)
    return model.train()


def tensors_of(model: Any) -> dict[str, Any]:
    """The weights as float32 arrays, the tied embedding once, as `model.shared.weight`."""
    copies = {"lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}
    return {
        name: tensor.detach().float().numpy()
        for name, tensor in model.state_dict().items()
        if name not in copies
    }


def _examples(pairs: Sequence[Pair], tokenizer: Tokenizer, job: Job) -> list[Example]:
    ids: dict[str, list[list[int]]] = {}
    for code, texts in (
        (job.languages.source, [p.eng for p in pairs]),
        (job.languages.target, [p.spa for p in pairs]),
    ):
        first = tokenizer.get_vocab()[code]
        ids[code] = [[first, *e.ids, EOS] for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    english, spanish = ids.values()
    examples = []
    for left, right in zip(english, spanish, strict=True):
        if max(len(left), len(right)) <= job.recipe.max_pieces:
            examples += [Example(left, right), Example(right, left)]
    return examples


def _tensor(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    length = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (length - len(row))] for row in rows])


def _loss(model: Any, batch: Sequence[Example], smoothing: float) -> torch.Tensor:
    source = _tensor([e.source for e in batch])
    target = _tensor([e.target for e in batch])
    decoder_input = torch.cat([torch.full((len(batch), 1), EOS), target[:, :-1]], dim=1)
    hidden = model.model(
        input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=decoder_input
    ).last_hidden_state
    kept = target != PAD
    return nn.functional.cross_entropy(model.lm_head(hidden[kept]), target[kept], label_smoothing=smoothing)


def _optimisers(model: Any, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embedding, norms and biases."""
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and ".layers." in name]
    rest = [p for name, p in model.named_parameters() if p.dim() != 2 or ".layers." not in name]
    return [
        torch.optim.Muon(
            matrices,
            lr=recipe.matrix_rate,
            weight_decay=recipe.weight_decay,
            momentum=0.95,
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(
            rest, lr=recipe.peak_rate, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        ),
    ]


def _run(model: Any, examples: Sequence[Example], job: Job, rank: int) -> None:
    recipe, state = job.recipe, job.places.training_state
    optimisers = _optimisers(model, recipe)
    done = _restore(state, model, optimisers, recipe)
    if done and rank == 0:
        print(f"going on from step {done}", flush=True)
    stream = batches(examples, recipe)
    for _ in range(done):
        next(stream)
    progress = Progress(done, recipe.steps)
    for step in range(done, recipe.steps):
        loss = _loss(model, next(stream)[rank :: job.workers], recipe.label_smoothing)
        loss.backward()
        _average_gradients(model, job.workers)
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
        for optimiser, peak in zip(optimisers, (recipe.matrix_rate, recipe.peak_rate), strict=True):
            optimiser.param_groups[0]["lr"] = peak * pace(step, recipe)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        if rank == 0:
            progress.step(step + 1, loss.item())
            if (step + 1) % recipe.save_every == 0 or step + 1 == recipe.steps:
                _save(state, model, optimisers, recipe, step + 1)


def _average_gradients(model: Any, workers: int) -> None:
    gradients = [p.grad for p in model.parameters()]
    flat = torch.cat([g.flatten() for g in gradients])
    distributed.all_reduce(flat)
    for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient) / workers)


class Progress:
    """Prints the smoothed loss and the time left, every 20 steps."""

    def __init__(self, done: int, steps: int) -> None:
        self._first, self._steps = done, steps
        self._began = time.monotonic()
        self._loss: float | None = None

    def step(self, done: int, loss: float) -> None:
        """Note a finished step."""
        self._loss = loss if self._loss is None else 0.95 * self._loss + 0.05 * loss
        if done % 20 == 0:
            pace = (time.monotonic() - self._began) / (done - self._first)
            spent = f"loss {self._loss:.3f}, {time.process_time() / 60:.1f} CPU minutes a worker"
            print(
                f"step {done}/{self._steps}: {spent}, about {pace * (self._steps - done) / 60:.0f} min left",
                flush=True,
            )


def _save(path: Path, model: Any, optimisers: Sequence[Any], recipe: Recipe, done: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    states = [optimiser.state_dict() for optimiser in optimisers]
    torch.save(
        {"recipe": repr(recipe), "done": done, "model": model.state_dict(), "optimisers": states}, fresh
    )
    fresh.replace(path)


def _restore(path: Path, model: Any, optimisers: Sequence[Any], recipe: Recipe) -> int:
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    if state["recipe"] != repr(recipe):
        return 0
    model.load_state_dict(state["model"])
    for optimiser, saved in zip(optimisers, state["optimisers"], strict=True):
        optimiser.load_state_dict(saved)
    return int(state["done"])
