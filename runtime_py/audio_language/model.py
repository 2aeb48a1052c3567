"""Loaded models with audio: sounds in a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from edgec.bundle.chat_template import Message, render_parts
from edgec.bundle.encoding import check_unicode
from edgec.errors import InputError
from edgec.runtime_py.answers.tokenized import Tokenized
from edgec.runtime_py.audio_language.prompt import SoundPrompt, rows_of_sound, sound_prompt
from edgec.runtime_py.audio_language.session import audio_language_info
from edgec.runtime_py.decoding.stepper import check_context
from edgec.runtime_py.media.sound_file import SoundSource
from edgec.runtime_py.messages.message_format import NO_CHAT_OPTIONS, ChatOptions


class Audio(Tokenized):
    """A model that may have audio."""

    def encode_audio(
        self, prompt: str | Sequence[int], audio: Sequence[SoundSource], *, template: bool = False
    ) -> SoundPrompt:
        """A prompt with its sounds, as the model reads it; ``template``: as a user's message.

        Raises:
            InputError: E150, the sounds are longer than the context holds; E152, the prompt is not text; E154 or E159,
                the chat template; E177 or E178, a sound; E753, a model without audio; E754, a sound's length, or
                sounds and places that do not agree.
        """
        audio_language_info(self.bundle)
        if not isinstance(prompt, str):
            what, fix = "A prompt with sound is text.", "give a string: edgec makes its tokens"
            raise InputError(what, where="prompt", fix=fix, code="E152")
        check_unicode(prompt)
        rendered = partial(self._with_places, prompt, len(audio)) if template else lambda: prompt
        return self._with_sounds(rendered, audio, rendered=template)

    def encode_audio_messages(
        self, messages: Sequence[Message], audio: Sequence[SoundSource], chat_options: ChatOptions = NO_CHAT_OPTIONS
    ) -> SoundPrompt:
        """A conversation with its sounds, up to where the assistant answers.

        Args:
            messages: each content a list of parts, ``{"type": "audio"}`` where a sound stands.
            audio: in their order.
            chat_options: tools and the budget of reasoning.

        Raises:
            InputError: those of `encode_audio` and of `MessageFormat.rendered`.
        """
        return self._with_sounds(partial(self.message_format.rendered, messages, chat_options), audio, rendered=True)

    def _with_sounds(self, text: Callable[[], str], audio: Sequence[SoundSource], *, rendered: bool) -> SoundPrompt:
        info = audio_language_info(self.bundle)
        # By their lengths alone, and one more token follows: refused before any samples are read.
        check_context(sum(rows_of_sound(source, info) for source in audio) + 1, info.limits.context)
        made = sound_prompt(text(), audio, info, self.tokenizer, rendered=rendered)
        check_context(len(made.tokens) + 1, info.limits.context)
        return made

    def _refuse_audio(self, audio: Sequence[SoundSource]) -> None:
        """Refuse sounds for a model without audio."""
        if audio:
            audio_language_info(self.bundle)

    def _with_places(self, prompt: str, sounds: int) -> str:
        parts = [*[{"type": "audio"}] * sounds, {"type": "text", "text": prompt}]
        return render_parts(self.tokenizer, [{"role": "user", "content": parts}])
