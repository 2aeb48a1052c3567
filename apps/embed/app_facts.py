"""The facts about a bundle that an app needs, read once from its manifest and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from edgec.apps.embed.audio_facts import AudioFacts, audio_facts
from edgec.apps.embed.constrained_calls import HoldCalls
from edgec.apps.embed.encoder_facts import EncoderFacts, encoder_facts, text_files
from edgec.apps.embed.reply_facts import NO_REPLIES, ReplyFacts, reply_facts
from edgec.apps.embed.vision_facts import VisionFacts, decoder_limits, vision_facts
from edgec.bundle.canonical import REPORT
from edgec.bundle.delegates import OWN_DELEGATES, XNNPACK, named_delegates
from edgec.bundle.end_tokens import end_tokens
from edgec.bundle.entry_points import Limits
from edgec.bundle.folder import MANIFEST, SIGNATURE, Bundle
from edgec.bundle.generation_config import read_generation_config
from edgec.bundle.golden import read_golden
from edgec.bundle.limited_json import JsonKind
from edgec.bundle.manifest import FileInfo, Manifest
from edgec.bundle.prefix import prefix_text
from edgec.bundle.signing_keys import PublicKey
from edgec.bundle.tokenizer_folder import open_tokenizer
from edgec.bundle.tools import Tool
from edgec.devices.targets import Target, all_targets, load_target, with_layout
from edgec.errors import InputError

_KIND = JsonKind("A file of the bundle cannot be used.", "export the model again", "E463", max_bytes=512 << 20)
ASSET_PACK_BYTES = 150_000_000
"""A bundle above this many bytes is not a resource of the app but an asset pack that the system downloads."""


@dataclass(frozen=True)
class TextFacts:
    """How a decoder's texts begin and end.

    Attributes:
        stop_tokens: ids that end a text.
        repetition_penalty: from the generation config.
        system_prompt: the text whose KV state the bundle ships.
        system_prompt_form: whether the system prompt is a chat message or plain text.
        chat_template: the tokenizer can render conversations.
    """

    stop_tokens: tuple[int, ...]
    repetition_penalty: float
    system_prompt: str | None
    system_prompt_form: Literal["chat", "text"] | None
    chat_template: bool


@dataclass(frozen=True)
class AppFacts:
    """A bundle as an app sees it.

    Attributes:
        manifest: of the bundle.
        target: what it was exported for.
        files: the files that the app checks at load; the report is not shipped.
        texts: None for non-decoder models.
        needed_bytes: weights and states in memory, estimated from the manifest.
        delegates: which of edgec's and XNNPACK's backends a .pte names.
        key: the key by which other bundles than this one are loaded; None: no other is.
        encoder: how a sentence encoder reads texts; None for other models.
        audio: what a model reads that transcribes speech; None for other models.
        replies: the notations of a decoder's chat template.
        vision: how images are given to a decoder with vision; None for other models.
    """

    manifest: Manifest
    target: Target
    files: tuple[FileInfo, ...]
    texts: TextFacts | None
    needed_bytes: int
    delegates: frozenset[str] = frozenset()
    key: PublicKey | None = None
    encoder: EncoderFacts | None = None
    audio: AudioFacts | None = None
    replies: ReplyFacts = NO_REPLIES
    vision: VisionFacts | None = None

    @property
    def limits(self) -> Limits | None:
        """The limits of a decoder; None for other models."""
        return decoder_limits(self.manifest)

    @property
    def has_tokenizer(self) -> bool:
        """Whether the app turns texts into tokens or tokens into texts."""
        return self.texts is not None or self.encoder is not None or self.audio is not None

    @property
    def has_chat_template(self) -> bool:
        """Whether the app can render conversations."""
        return self.texts is not None and self.texts.chat_template

    @property
    def own_kernels(self) -> tuple[str, ...]:
        """The operators and backends of the artifact that only edgec's kernels have."""
        operators = (name for name in self.manifest.runtime.operators if name.startswith("edgec::"))
        return (*operators, *sorted(self.delegates & OWN_DELEGATES))

    @property
    def weight_copies(self) -> int:
        """How often the weights lie in memory: XNNPACK packs a second copy at load, the others do not."""
        return 2 if self.target.backend == "xnnpack" and (XNNPACK in self.delegates or not self.own_kernels) else 1

    @property
    def shipped_names(self) -> tuple[str, ...]:
        """The files of the bundle that the package holds; with a key all of them, as they were signed."""
        signed = [REPORT] * (REPORT in {file.path for file in self.manifest.files}) + [SIGNATURE] if self.key else []
        return (MANIFEST, *(file.path for file in self.files), *signed)

    @property
    def shipped_bytes(self) -> int:
        """The bytes that the app or its asset pack holds."""
        return sum(file.bytes for file in self.files)

    @property
    def vocabulary(self) -> int:
        """The vocabulary size: the model's, else the total width of the first method's logits."""
        outputs = (tensor for method in self.manifest.methods[:1] for tensor in method.outputs)
        logits = (tensor for tensor in outputs if tensor.name.startswith("logits"))
        return self.manifest.model.vocab_size or sum(int(tensor.shape[-1]) for tensor in logits)

    @property
    def in_asset_pack(self) -> bool:
        """Whether the bundle is too large to be a resource of the app."""
        return self.shipped_bytes > ASSET_PACK_BYTES

    @property
    def artifact_bytes(self) -> int:
        """The size of the artifact, which is a file or a folder."""
        artifact = self.manifest.artifact.rstrip("/")
        inside = (file for file in self.files if file.path == artifact or file.path.startswith(f"{artifact}/"))
        return sum(file.bytes for file in inside)


def app_facts(
    bundle: Bundle,
    system: str,
    key: PublicKey | None = None,
    tools: Sequence[Tool] = (),
    hold: HoldCalls | None = None,
) -> AppFacts:
    """Read the facts that an app needs.

    Args:
        bundle: opened, so that its files match the manifest.
        system: of the app, ``ios`` or ``android``.
        key: by which other bundles are loaded; this one's signature was checked with it.
        tools: what a decoder may call.
        hold: compiles what edgec's engine holds calls to; None: calls are held to nothing.

    Raises:
        InputError: E460 the bundle was made for another system, E462 a model of texts without a tokenizer, E138
            unreadable golden vectors, E463 a generation config or tokenizer that is not JSON, E741 a sentence encoder's
            tokenizer that the app cannot follow, E755 a model of speech whose text the app cannot write, E158 a
            tokenizer that cannot be read, E760 or E761 tools that its chat template does not take, or not in a way that
            an app can follow, E770 or E780 images that the app cannot prepare, and what ``hold`` raises.
    """
    manifest = bundle.manifest
    target = _target(manifest, system)
    texts = _texts(bundle) if decoder_limits(manifest) is not None else None
    shipped = tuple(file for file in manifest.files if file.path not in (REPORT, MANIFEST))
    delegates = named_delegates(bundle.artifact_path) if manifest.format == "pte" else frozenset()
    encoder, audio, vision = encoder_facts(bundle), audio_facts(bundle), vision_facts(bundle)
    image = vision.placeholder if vision else ""
    replies = reply_facts(bundle.tokenizer_dir, tools, image) if texts and bundle.tokenizer_dir else NO_REPLIES
    facts = AppFacts(manifest, target, shipped, texts, 0, delegates, key, encoder, audio, replies, vision)
    weights_and_states = facts.weight_copies * facts.artifact_bytes + sum(state.bytes for state in manifest.states)
    if tools and hold is not None and facts.own_kernels:
        replies = replace(replies, held=hold(bundle, tools))
    return replace(facts, needed_bytes=weights_and_states, replies=replies)


def _in_its_format(target: Target, form: str) -> Target:
    """The target in the bundle's format, since a target's name without a format means its unit's first format."""
    same = (each for each in all_targets() if (each.phone, each.unit, each.format) == (target.phone, target.unit, form))
    return target if target.format == form else next(same, target)


def _target(manifest: Manifest, system: str) -> Target:
    target = with_layout(_in_its_format(load_target(manifest.target), str(manifest.format)), manifest.layout)
    if target.os != system:
        raise InputError(
            f"the bundle was not made for {system}",
            where=manifest.name,
            why=f"its target {manifest.target} is {target.phone_name}, {target.os}",
            fix=f"export it for a target of {system}: edgec export MODEL --target {_EXAMPLE.get(system, system)}",
            code="E460",
        )
    return target


_EXAMPLE = {"ios": "iphone", "android": "android-cpu"}


def _texts(bundle: Bundle) -> TextFacts:
    tokenizer, golden = text_files(bundle)
    config = read_generation_config(bundle.generation_config_path, _KIND)
    prefix = bundle.manifest.prefix
    return TextFacts(
        stop_tokens=end_tokens(config, partial(open_tokenizer, tokenizer)),
        repetition_penalty=config.repetition_penalty or 1.0,
        system_prompt=prefix_text(bundle),
        system_prompt_form=prefix.form if prefix else None,
        chat_template=read_golden(golden).chat is not None,
    )
