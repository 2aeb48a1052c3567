"""Train the example model: a five-million-parameter Llama on two public-domain books.

    python examples/train_example.py --text tinyshakespeare.txt war-and-peace.txt --out examples/tiny-llama --minutes 65

The learning rate follows the share of the budget that is used up, in steps or in minutes, whichever is further on:
a slow machine takes fewer steps and still finishes its schedule. A run that was stopped goes on with `--resume`.

With `--measure` it trains nothing: it measures the model in `--out` on the held-out text and shows samples.
Other scripts get the text that was never trained on from `held_out_text`.
"""

import argparse
import hashlib
import math
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn import functional
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

Ids = npt.NDArray[np.int64]

BOS, EOS = "<s>", "</s>"
USER, REPLY = "CITIZEN", "MENENIUS"
HELD_OUT_EVERY = 50
CHUNK_BYTES = 4096
SPEECH_CHARACTERS = 400
PROMPTS = ("Prince Andrew looked at", "KING RICHARD III:\n")
WORDS = r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\n+|[^\S\n]+"
SPEECH = re.compile(r"([A-Z][A-Za-z ]{1,30}):\n(.+)", re.DOTALL)
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ '" + REPLY + ":\\n' }}{% else %}{{ '" + USER + ":\\n' }}{% endif %}"
    "{{ message['content'] | trim }}{{ '\\n\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '" + REPLY + ":\\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Shape:
    """The model's widths, all multiples of 32, so that every group size of four-bit weights fits."""

    vocabulary: int = 2048
    hidden: int = 256
    layers: int = 8
    heads: int = 8
    kv_heads: int = 4
    intermediate: int = 512
    context: int = 512


@dataclass(frozen=True)
class Settings:
    """One training run: its texts, its budget and where the results go."""

    texts: tuple[Path, ...]
    out: Path
    checkpoint: Path
    steps: int = 6000
    minutes: float = 70.0
    seed: int = 0
    batch: int = 4
    length: int = 512
    learning_rate: float = 1.5e-3
    weight_decay: float = 0.1
    warm_up: float = 0.03
    dialogue_share: float = 0.15
    checkpoint_seconds: float = 600.0
    log_steps: int = 20
    threads: int = 2
    resume: bool = False
    measure_only: bool = False


@dataclass(frozen=True)
class Progress:
    """How far a run has come; kept in the checkpoint."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0


@dataclass(frozen=True)
class HeldOutLoss:
    """Loss on the held-out text, per token and per byte."""

    nats_per_token: float
    bits_per_byte: float
    tokens: int


@dataclass(frozen=True)
class Corpus:
    """Token ids to train on and to measure on."""

    stream: Ids
    line_starts: Ids
    dialogues: tuple[Ids, ...]
    held_out: tuple[Ids, ...]
    held_out_bytes: int


@dataclass(frozen=True)
class Session:
    """What the steps of one run share."""

    settings: Settings
    tokenizer: Tokenizer
    corpus: Corpus
    model: Any
    optimizer: torch.optim.Optimizer


# --- text ------------------------------------------------------------------------------------------------------------


def chunks(text: str) -> list[str]:
    """Cut a text into chunks of at least 4 KiB that end where a paragraph ends."""
    found: list[str] = []
    pending: list[str] = []
    size = 0
    for paragraph in text.strip().split("\n\n"):
        pending.append(paragraph)
        size += len(paragraph.encode()) + 2
        if size >= CHUNK_BYTES:
            found.append("\n\n".join(pending))
            pending, size = [], 0
    return [*found, "\n\n".join(pending)] if pending else found


def is_held_out(index: int) -> bool:
    """Tell whether the chunk with this index is kept back: every fiftieth is."""
    return index % HELD_OUT_EVERY == HELD_OUT_EVERY - 1


def split_text(text: str) -> tuple[list[str], list[str]]:
    """Split a text into the passages to train on and the passages held out.

    Neighbouring chunks are joined, so a training passage ends only where a held-out one begins.
    """
    train: list[list[str]] = [[]]
    held_out: list[str] = []
    for index, chunk in enumerate(chunks(text)):
        if is_held_out(index):
            held_out.append(chunk)
            train.append([])
        else:
            train[-1].append(chunk)
    return ["\n\n".join(run) for run in train if run], held_out


def held_out_passages(texts: Sequence[Path]) -> list[str]:
    """Return the passages of these texts that the example model never saw."""
    return [passage for path in texts for passage in split_text(path.read_text(encoding="utf-8"))[1]]


def held_out_text(texts: Sequence[Path]) -> str:
    """Return the held-out passages as one string."""
    return "\n\n".join(held_out_passages(texts))


def training_passages(texts: Sequence[Path]) -> list[str]:
    """Return the passages of these texts that are trained on."""
    return [passage for path in texts for passage in split_text(path.read_text(encoding="utf-8"))[0]]


def speech(paragraph: str) -> str | None:
    """Return what a character says, if the paragraph is a short speech of a play."""
    match = SPEECH.fullmatch(paragraph.strip())
    return match[2] if match and len(match[2]) <= SPEECH_CHARACTERS else None


def render_dialogue(speeches: Sequence[str]) -> str:
    """Write speeches in turn as the chat template does: the user's role first, then the one that replies."""
    roles = (USER, REPLY)
    return "".join(f"{roles[turn % 2]}:\n{said.strip()}\n\n" for turn, said in enumerate(speeches))


def dialogues(passage: str) -> list[str]:
    """Find exchanges of two speeches, and for every third one also of four."""
    said = [speech(paragraph) for paragraph in passage.split("\n\n")]
    found: list[str] = []
    for start in range(len(said) - 1):
        for turns in (2, 4) if start % 3 == 0 else (2,):
            part = [one for one in said[start : start + turns] if one is not None]
            if len(part) == turns:
                found.append(render_dialogue(part))
    return found


# --- tokens ----------------------------------------------------------------------------------------------------------


def train_tokenizer(passages: Sequence[str], vocabulary: int) -> Tokenizer:
    """Train a byte-level BPE tokenizer, which can write any text in any language."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = [BOS, EOS]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(passages, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, token_id(tokenizer, BOS))]
    )
    return tokenizer


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """Return the id of a token that is in the vocabulary."""
    index = tokenizer.token_to_id(token)
    if index is None:
        raise ValueError(f"the tokenizer does not know {token!r}")
    return index


def as_ids(tokenizer: Tokenizer, text: str) -> Ids:
    """Return the token ids of a text, without special tokens."""
    return np.asarray(tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)


def as_document(tokenizer: Tokenizer, text: str) -> Ids:
    """Return the token ids of a text between the beginning and the end token."""
    return np.concatenate([as_ids(tokenizer, BOS), as_ids(tokenizer, text), as_ids(tokenizer, EOS)])


def line_starts(tokenizer: Tokenizer, stream: Ids) -> Ids:
    """Return the positions in the stream at which a line begins."""
    breaks = [index for token, index in tokenizer.get_vocab().items() if set(token) == {"Ċ"}]
    return np.flatnonzero(np.isin(stream, np.asarray(breaks))) + 1


def build_corpus(tokenizer: Tokenizer, texts: Sequence[Path], length: int) -> Corpus:
    """Turn the texts into token ids."""
    passages, held_out = training_passages(texts), held_out_passages(texts)
    stream = np.concatenate([as_document(tokenizer, passage) for passage in passages])
    stream = np.concatenate([stream, stream[:length]])
    starts = line_starts(tokenizer, stream)
    talks = [as_document(tokenizer, talk) for passage in passages for talk in dialogues(passage)]
    return Corpus(
        stream=stream,
        line_starts=np.concatenate([np.zeros(1, dtype=np.int64), starts[starts < len(stream) - length]]),
        dialogues=tuple(talks),
        held_out=tuple(as_ids(tokenizer, passage) for passage in held_out),
        held_out_bytes=sum(len(passage.encode()) for passage in held_out),
    )


def passage_row(corpus: Corpus, bos: int, length: int, rng: np.random.Generator) -> Ids:
    """Return one training row that begins at a random line of the books."""
    start = int(rng.choice(corpus.line_starts))
    return np.concatenate([np.asarray([bos]), corpus.stream[start : start + length]])


def dialogue_row(corpus: Corpus, length: int, rng: np.random.Generator) -> Ids:
    """Return one training row filled with random dialogues."""
    parts: list[Ids] = []
    while sum(map(len, parts)) <= length:
        parts.append(corpus.dialogues[int(rng.integers(len(corpus.dialogues)))])
    return np.concatenate(parts)[: length + 1]


def batch_at(session: Session, step: int) -> torch.Tensor:
    """Return the batch of a step, which depends on the seed and the step alone, so that resuming is exact."""
    settings, corpus = session.settings, session.corpus
    rng = np.random.default_rng([settings.seed, step])
    bos, share = token_id(session.tokenizer, BOS), settings.dialogue_share if corpus.dialogues else 0.0
    rows = [
        dialogue_row(corpus, settings.length, rng)
        if rng.random() < share
        else passage_row(corpus, bos, settings.length, rng)
        for _ in range(settings.batch)
    ]
    return torch.from_numpy(np.stack(rows))


# --- model -----------------------------------------------------------------------------------------------------------


def build_model(shape: Shape, tokenizer: Tokenizer) -> Any:
    """Build the model with random weights."""
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        intermediate_size=shape.intermediate,
        max_position_embeddings=shape.context,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=token_id(tokenizer, BOS),
        eos_token_id=token_id(tokenizer, EOS),
        use_cache=True,
    )
    return LlamaForCausalLM(config)


def build_optimizer(model: Any, settings: Settings) -> torch.optim.Optimizer:
    """Build AdamW, with weight decay on matrices only."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in parameters if one.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [one for one in parameters if one.dim() == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.95))


def spent(settings: Settings, progress: Progress) -> float:
    """Return the share of the budget that is used up, between 0 and 1."""
    return min(1.0, max(progress.step / settings.steps, progress.seconds / (60 * settings.minutes)))


def learning_rate(settings: Settings, share: float) -> float:
    """Return the learning rate at a share of the budget: linear warm-up, then a cosine to a fiftieth."""
    if share < settings.warm_up:
        return settings.learning_rate * (share + 1e-3) / (settings.warm_up + 1e-3)
    angle = math.pi * (share - settings.warm_up) / (1 - settings.warm_up)
    return settings.learning_rate * (0.02 + 0.98 * 0.5 * (1 + math.cos(angle)))


def loss_of(model: Any, rows: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of predicting each next token; negative ids in the rows are not predicted."""
    logits = model(input_ids=rows[:, :-1].clamp(min=0), use_cache=False).logits
    return functional.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten(), ignore_index=-100)


def held_out_rows(corpus: Corpus, bos: int, length: int) -> Iterator[torch.Tensor]:
    """Yield batches of held-out windows: each has its own beginning token and shares no context with the others."""
    rows: list[Ids] = []
    for ids in corpus.held_out:
        for start in range(0, len(ids), length):
            row = np.full(length + 1, -100, dtype=np.int64)
            part = ids[start : start + length]
            row[0], row[1 : len(part) + 1] = bos, part
            rows.append(row)
    for start in range(0, len(rows), 8):
        yield torch.from_numpy(np.stack(rows[start : start + 8]))


@torch.no_grad()
def held_out_loss(model: Any, corpus: Corpus, bos: int, length: int) -> HeldOutLoss:
    """Measure the model on the held-out text."""
    model.eval()
    total, tokens = 0.0, 0
    for rows in held_out_rows(corpus, bos, length):
        count = int((rows[:, 1:] >= 0).sum())
        total, tokens = total + float(loss_of(model, rows)) * count, tokens + count
    model.train()
    bits = total / math.log(2) / max(1, corpus.held_out_bytes)
    return HeldOutLoss(nats_per_token=total / max(1, tokens), bits_per_byte=bits, tokens=tokens)


# --- files -----------------------------------------------------------------------------------------------------------


def write_aside(path: Path, content: Any) -> None:
    """Write a checkpoint so that it appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    with aside.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def save_checkpoint(session: Session, progress: Progress) -> None:
    """Save all that a later run needs to go on."""
    content = {
        "progress": asdict(progress),
        "tokenizer": session.tokenizer.to_str(),
        "model": session.model.state_dict(),
        "optimizer": session.optimizer.state_dict(),
    }
    write_aside(session.settings.checkpoint, content)


def load_checkpoint(settings: Settings) -> dict[str, Any] | None:
    """Return the checkpoint to go on from, if there is one and the run may use it."""
    if not (settings.resume and settings.checkpoint.exists()):
        return None
    content: dict[str, Any] = torch.load(settings.checkpoint, weights_only=True)
    return content


def wrap_tokenizer(tokenizer: Tokenizer, context: int) -> Any:
    """Give the tokenizer its special tokens and its chat template."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def half_precision(model: Any) -> Any:
    """Return a copy of the model in bfloat16."""
    copy = LlamaForCausalLM(model.config)
    copy.load_state_dict(model.state_dict())
    return copy.to(torch.bfloat16)


def export_model(session: Session, out: Path) -> None:
    """Write the model folder; each file appears whole."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer, config = session.tokenizer, session.model.config
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        half_precision(session.model).save_pretrained(folder)
        wrapped = wrap_tokenizer(tokenizer, config.max_position_embeddings)
        wrapped.save_pretrained(folder, save_jinja_files=False)
        ends = {"bos_token_id": token_id(tokenizer, BOS), "eos_token_id": token_id(tokenizer, EOS)}
        GenerationConfig(**ends).save_pretrained(folder)
        for file in sorted(Path(folder).iterdir()):
            file.chmod(0o644)
            file.replace(out / file.name)


# --- training --------------------------------------------------------------------------------------------------------


def start(settings: Settings, shape: Shape) -> tuple[Session, Progress]:
    """Prepare a run, from its checkpoint where there is one."""
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    saved = load_checkpoint(settings)
    passages = training_passages(settings.texts)
    tokenizer = Tokenizer.from_str(saved["tokenizer"]) if saved else train_tokenizer(passages, shape.vocabulary)
    model = build_model(shape, tokenizer)
    optimizer = build_optimizer(model, settings)
    if saved:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    corpus = build_corpus(tokenizer, settings.texts, settings.length)
    progress = Progress(**saved["progress"]) if saved else Progress()
    return Session(settings, tokenizer, corpus, model, optimizer), progress


def take_step(session: Session, progress: Progress) -> float:
    """Take one step of the optimizer and return the loss before it."""
    rate = learning_rate(session.settings, spent(session.settings, progress))
    for group in session.optimizer.param_groups:
        group["lr"] = rate
    loss = loss_of(session.model, batch_at(session, progress.step))
    session.optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(session.model.parameters(), 1.0)
    session.optimizer.step()
    return loss.item()


def report(session: Session, progress: Progress, loss: float) -> None:
    """Print one line of progress."""
    share = max(spent(session.settings, progress), 1e-6)
    left = progress.seconds * (1 - share) / share / 60
    print(
        f"step {progress.step}  {100 * share:.1f} %  loss {loss:.4f}  "
        f"{progress.tokens / progress.seconds:.0f} tokens/s  {left:.1f} min left",
        flush=True,
    )


def measure(session: Session) -> HeldOutLoss:
    """Measure the model of a run on the held-out text and print the result."""
    bos = token_id(session.tokenizer, BOS)
    result = held_out_loss(session.model, session.corpus, bos, session.settings.length)
    print(f"held-out {result.nats_per_token:.4f} nats/token  {result.bits_per_byte:.4f} bits/byte", flush=True)
    return result


def keep(session: Session, progress: Progress) -> None:
    """Measure, save a checkpoint and write the model folder as it is now."""
    measure(session)
    save_checkpoint(session, progress)
    export_model(session, session.settings.out)


def run(session: Session, progress: Progress) -> Progress:
    """Train until the budget is spent."""
    settings, last_kept = session.settings, progress.seconds
    began = time.monotonic() - progress.seconds
    session.model.train()
    while spent(settings, progress) < 1:
        loss = take_step(session, progress)
        tokens = progress.tokens + settings.batch * settings.length
        progress = Progress(step=progress.step + 1, seconds=time.monotonic() - began, tokens=tokens)
        if progress.step % settings.log_steps == 0:
            report(session, progress, loss)
        if progress.seconds - last_kept >= settings.checkpoint_seconds:
            keep(session, progress)
            last_kept = progress.seconds
    return progress


def train(settings: Settings, shape: Shape | None = None) -> tuple[Progress, HeldOutLoss]:
    """Train the example model and write its folder."""
    session, progress = start(settings, shape or Shape())
    count = sum(parameter.numel() for parameter in session.model.parameters())
    print(f"{count:,} parameters, {len(session.corpus.stream):,} tokens of text", flush=True)
    progress = run(session, progress)
    save_checkpoint(session, progress)
    export_model(session, settings.out)
    return progress, measure(session)


# --- looking at the result -------------------------------------------------------------------------------------------


def continuation(model: Any, tokenizer: Any, prompt: str, sampled: bool) -> str:
    """Let the model go on from a prompt, greedily or with temperature 0.8 and top-p 0.8."""
    ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=not prompt.startswith(BOS))])
    choice = {"do_sample": True, "temperature": 0.8, "top_p": 0.8} if sampled else {"do_sample": False}
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=120, **choice)
    return str(tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True))


def show_samples(model: Any, tokenizer: Any) -> None:
    """Print continuations of fixed prompts."""
    chat = [{"role": "user", "content": "What news from the city? Are the people at peace?"}]
    prompts = [tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True), *PROMPTS]
    for prompt in prompts:
        for sampled in (False, True):
            how = "temperature 0.8, top-p 0.8" if sampled else "greedy"
            print(f"--- {how}\n{prompt}|{continuation(model, tokenizer, prompt, sampled)}\n")


def measure_folder(settings: Settings) -> HeldOutLoss:
    """Measure the exported model, in float32 arithmetic, and show what it writes."""
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    model = LlamaForCausalLM.from_pretrained(settings.out, dtype=torch.float32)
    tokenizer = Tokenizer.from_file(str(settings.out / "tokenizer.json"))
    corpus = build_corpus(tokenizer, settings.texts, settings.length)
    result = held_out_loss(model, corpus, token_id(tokenizer, BOS), settings.length)
    show_samples(model.eval(), PreTrainedTokenizerFast.from_pretrained(settings.out))
    return result


# --- command line ----------------------------------------------------------------------------------------------------


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Read the settings from the command line."""
    parser = argparse.ArgumentParser(description="Train the example model of edgec.")
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="texts to train on, UTF-8")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--checkpoint", type=Path, help="checkpoint file [OUT.checkpoint.pt]")
    parser.add_argument("--steps", type=int, default=Settings.steps, help="at most this many steps")
    parser.add_argument("--minutes", type=float, default=Settings.minutes, help="at most this many minutes")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--batch", type=int, default=Settings.batch, help="sequences per step")
    parser.add_argument("--threads", type=int, default=Settings.threads, help="processor threads")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--measure", action="store_true", help="train nothing, measure the model in OUT")
    given = parser.parse_args(arguments)
    checkpoint = given.checkpoint or given.out.with_name(given.out.name + ".checkpoint.pt")
    base = Settings(texts=tuple(given.text), out=given.out, checkpoint=checkpoint)
    base = replace(base, threads=given.threads, resume=given.resume, measure_only=given.measure)
    return replace(base, steps=given.steps, minutes=given.minutes, seed=given.seed, batch=given.batch)


def main() -> None:
    """Train as the command line says."""
    settings = parse()
    for path in settings.texts:
        print(f"{path.name}  sha256 {fingerprint(path)}", flush=True)
    if settings.measure_only:
        print(measure_folder(settings))
        return
    progress, loss = train(settings)
    print(f"done: {progress.step} steps, {progress.tokens:,} tokens, {progress.seconds / 60:.1f} minutes; {loss}")


if __name__ == "__main__":
    main()
