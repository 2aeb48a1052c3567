"""What the audio encoder of a speech-language model reads: its windows, as transformers' processor makes them.

config.json says how many features and positions the encoder has, the feature extractor's description how they are made,
and the processor's class how a long sound is cut, and which words lie around one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from math import prod
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from torch import nn

from edgec.bundle.audio_language import AudioLanguageInfo
from edgec.bundle.entry_points import Limits, SoundInfo
from edgec.bundle.limited_json import first_fault
from edgec.bundle.tokenizer_folder import PREPROCESSOR, PROCESSOR
from edgec.errors import InputError
from edgec.exporter.sources.encoders.encoder_decoder import sound_info
from edgec.exporter.sources.files.model_folder import read_json
from edgec.exporter.sources.files.plain_files import is_plain
from edgec.exporter.sources.multimodal.audio_language import EXTRACTOR, unknown_audio

_LENGTHS = ("max_source_positions", "max_position_embeddings")
# The options of processors for the placeholder and the words around it, and what mistral-common writes before it.
_PLACE, _MARKS = "audio_token", ("audio_bos_token", "audio_eos_token")
_BEGINS = "[BEGIN_AUDIO]"


@dataclass(frozen=True)
class AudioInput:
    """What the audio encoder of a speech-language model reads.

    Attributes:
        family: the config's ``model_type``.
        sound: how the features of one window are made.
        stride: frames of one position of the encoder.
        audio_token: the id that stands in a text for each row of a sound.
        windows: the most windows of one sound; None where its processor takes any length.
        whole: whether its processor fills a sound with silence to whole windows, and makes their features together.
        marks: the words before and after a sound, where the processor knows them.
        template: the chat template of the processor's class; empty where it has none.
        files: descriptions that were read.
    """

    family: str
    sound: SoundInfo
    stride: int
    audio_token: int
    windows: int | None = None
    whole: bool = False
    marks: tuple[str, str] = ("", "")
    template: str = ""
    files: tuple[Path, ...] = ()

    def info(
        self, limits: Limits, rows: int, before: Sequence[int] = (), after: Sequence[int] = ()
    ) -> AudioLanguageInfo:
        """What the manifest says.

        Args:
            limits: of the decoder.
            rows: of a whole window.
            before: the tokens before a sound for which a text names no place.
            after: those after it.

        Raises:
            InputError: E751, rows do not follow each other at equal distances.
        """
        merge = max(1, -(-self.sound.frames // self.stride) // rows)
        facts = {"stride": self.stride, "merge": merge, "rows": rows, "audio_token": self.audio_token}
        try:
            return AudioLanguageInfo(
                limits=limits,
                sound=self.sound,
                windows=self.windows,
                whole=self.whole,
                before=list(before),
                after=list(after),
                **facts,
            )
        except ValidationError as cause:
            raise unknown_audio(self.family, "its files", first_fault(cause)) from cause


def audio_of(config: Any, model: nn.Module, folder: Path) -> AudioInput:
    """What the audio encoder of a model reads.

    Args:
        config: of transformers.
        model: on any device.
        folder: where the descriptions of its processor may lie.

    Raises:
        InputError: E750, config and descriptions do not say so or contradict each other; E111, as for Whisper.
    """
    files = tuple(folder / name for name in (PROCESSOR, PREPROCESSOR) if is_plain(folder / name))
    described = {file.name: read_json(file) for file in files}
    processor = described.get(PROCESSOR, {})
    nested = processor.get("feature_extractor")
    extractor = nested if isinstance(nested, Mapping) else described.get(PREPROCESSOR, {})
    stride = _stride(model)
    sound = _window(config, extractor, stride, folder)
    token: Any = getattr(config, "audio_token_id", None)
    vocabulary = config.get_text_config().vocab_size
    if not isinstance(token, int) or not 0 <= token < vocabulary:
        raise _unstated(folder, f"audio_token_id is {token!r}, and there are {vocabulary} tokens")
    maker = _processor_class(config)
    windows, whole = _cut(maker, processor, sound)
    written = _marks(maker, processor), _template(maker)
    return AudioInput(config.model_type, sound, stride, token, windows, whole, *written, files)


def _stride(model: Any) -> int:
    """How many frames become one position: the strides of the encoder's convolutions."""
    encoder = model.get_encoder("audio")
    return prod(each.stride[0] for each in encoder.modules() if isinstance(each, nn.Conv1d))


def _window(config: Any, extractor: Mapping[str, Any], stride: int, folder: Path) -> SoundInfo:
    """How the features of one window are made: as long as the extractor says, else as the encoder has positions."""
    audio, name = config.audio_config, extractor.get("feature_extractor_type") or EXTRACTOR
    positions = next((value for key in _LENGTHS if isinstance(value := getattr(audio, key, None), int)), 0)
    mels: Any = getattr(audio, "num_mel_bins", None)
    seconds = extractor.get("chunk_length")
    faults = {
        f"the sound is prepared by {name!r}, not {EXTRACTOR}": name != EXTRACTOR,
        "the feature extractor normalises the sound or adds noise": bool(
            extractor.get("do_normalize") or extractor.get("dither")
        ),
        f"num_mel_bins is {mels!r}": not isinstance(mels, int) or mels < 1,
        f"the encoder has {positions} positions": positions < 1,
        f"chunk_length is {seconds!r}": seconds is not None and (not isinstance(seconds, int) or seconds < 1),
    }
    for fault, wrong in faults.items():
        if wrong:
            raise _unstated(folder, fault)
    sound = sound_info(mels, positions * stride, extractor)
    frames = sound.frames if seconds is None else seconds * sound.sampling_rate // sound.hop
    if (
        frames < 1
        or frames > sound.frames
        or (frames != sound.frames and getattr(audio, _LENGTHS[0], None) == positions)
    ):
        raise _unstated(folder, f"a window has {frames} frames, and the encoder reads {sound.frames}")
    return sound.model_copy(update={"frames": frames})


def _processor_class(config: Any) -> Any:
    """Transformers' class of the processor; None where there is none."""
    import transformers
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

    return getattr(transformers, PROCESSOR_MAPPING_NAMES.get(config.model_type) or "", None)


def _option(maker: Any, described: Mapping[str, Any], name: str) -> Any:
    """An option of a processor: as it is described, else as its class has it; None where there is none."""
    taken = signature(maker.__init__).parameters if maker is not None else {}
    stated = taken[name].default if name in taken else None
    return described.get(name, None if stated is signature(_option).empty else stated)


def _cut(maker: Any, described: Mapping[str, Any], sound: SoundInfo) -> tuple[int | None, bool]:
    """The most windows that a processor makes of a sound, and whether it makes their features together."""
    options: Mapping[str, Any] = getattr(maker, "audio_kwargs", None) or {}
    if options.get("truncation") is False and options.get("pad_to_multiple_of"):
        return None, True
    seconds = _option(maker, described, "max_audio_len")
    if not isinstance(seconds, int):
        return 1, False
    return max(1, seconds * sound.sampling_rate // sound.window_samples), False


def _marks(maker: Any, described: Mapping[str, Any]) -> tuple[str, str]:
    """The words around a sound; a processor that has no placeholder of its own leaves them to mistral-common."""
    before, after = (str(_option(maker, described, name) or "") for name in _MARKS)
    own = maker is not None and _PLACE in signature(maker.__init__).parameters
    return (before, after) if own else (_BEGINS, "")


def _template(maker: Any) -> str:
    held = getattr(maker, "default_chat_template", None)
    return str(held.fget(None)) if isinstance(held, property) and held.fget else ""


def _unstated(folder: Path, why: str) -> InputError:
    return InputError(
        "The model's files do not say which sounds its encoder reads.",
        where=str(folder),
        why=why,
        fix="use config.json, processor_config.json and preprocessor_config.json of the same model, or export its text "
        "part alone with --task text-generation",
        code="E750",
    )
