"""The public way to use a bundle on this machine: ``edgec.load(bundle).generate("Once upon a time").text``."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack

from edgec.bundle.encoding import check_unicode, token_ids
from edgec.bundle.hub.located import bundle_folder
from edgec.bundle.signature import check_signature
from edgec.bundle.signing_keys import read_public_key
from edgec.errors import InputError
from edgec.quiet import quiet
from edgec.runtime_py.answers.generation_arguments import GenerationArguments
from edgec.runtime_py.answers.remembering import Remembering
from edgec.runtime_py.answers.request_options import GenerateOptions, RequestOptions
from edgec.runtime_py.answers.streams import Stream, Streaming
from edgec.runtime_py.audio_language.model import Audio
from edgec.runtime_py.audio_language.prompt import SoundPrompt
from edgec.runtime_py.audio_language.session import AudioLanguageSession
from edgec.runtime_py.chat import Conversation
from edgec.runtime_py.decoding.arguments import check_ids
from edgec.runtime_py.decoding.prompt_cache import PromptCache
from edgec.runtime_py.decoding.sampling import Sampler
from edgec.runtime_py.decoding.stepper import check_context
from edgec.runtime_py.encoder_decoder.model import Reading
from edgec.runtime_py.encoder_decoder.session import EncoderDecoderSession
from edgec.runtime_py.engines.choice import engine_for
from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.engines.trial import try_first
from edgec.runtime_py.functions.function import Function
from edgec.runtime_py.generation.generate import Generation, pieces, rule_of, stream_tokens
from edgec.runtime_py.media.image_file import ImageSource
from edgec.runtime_py.media.sound_file import SoundSource
from edgec.runtime_py.messages.message_format import NO_CHAT_OPTIONS, ChatOptions
from edgec.runtime_py.messages.reader import only_text
from edgec.runtime_py.scoring.embeddings import Embedding
from edgec.runtime_py.scoring.relevance import Reranking
from edgec.runtime_py.scoring.scores import Scoring
from edgec.runtime_py.sessions.placed_rows import taking
from edgec.runtime_py.sessions.prefix import open_prefix, recall_prefix, restore_prefix
from edgec.runtime_py.sessions.session import Session, opened
from edgec.runtime_py.sessions.snapshots import Snapshots
from edgec.runtime_py.sessions.turn import Turn
from edgec.runtime_py.speculation.choice import OFF, speculator_for
from edgec.runtime_py.speculation.speculator import Speculator
from edgec.runtime_py.vision_language.model import WithVision
from edgec.runtime_py.vision_language.processor import Prompt
from edgec.runtime_py.vision_language.session import VisionLanguageSession

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


@quiet()
def load(bundle: Path | str | Bundle, threads: int | None = None, *, public_key: Path | str | None = None) -> Model:
    """Open a bundle (every file's checksum is verified) and load its artifact.

    Args:
        bundle: the folder NAME.edgec, an address on the hub (``hub:OWNER/NAME``, ``hub:OWNER/NAME@REVISION``), or a
            Bundle opened before.
        threads: CPU threads of the runtime, process-wide; None leaves the choice to the runtime.
        public_key: of whoever signed the bundle, a PEM file; the signature is checked before anything else is read.

    Raises:
        InputError: E13x the bundle is not intact, E157 the runtime refuses the artifact, E168 or E169 as `try_first`;
            of an address what `edgec.bundle.hub.located.bundle_folder` raises; E601 to E605, the key or the signature
            is refused.
        ToolError: E301 without ExecuTorch; E600, a key is given and model-signing is not installed.
    """
    bundle = bundle_folder(bundle) if isinstance(bundle, Path | str) else bundle
    if public_key is not None:
        check_signature(bundle if isinstance(bundle, Path) else bundle.path, read_public_key(Path(public_key)))
    return Model(opened(bundle), threads)


def _loader(bundle: Bundle) -> Callable[[Bundle, int | None], Session | EncoderDecoderSession | Function]:
    """What loads a bundle of this kind."""
    if bundle.manifest.encoder_decoder is not None:
        return EncoderDecoderSession
    if bundle.manifest.vision_language is not None:
        return VisionLanguageSession
    if bundle.manifest.audio_language is not None:
        return AudioLanguageSession
    return Session if bundle.manifest.limits else Function


class Model(Embedding, Audio, Reading, Remembering, Reranking, Scoring, WithVision, Streaming):
    """A loaded bundle, ready to generate or to run.

    Attributes:
        bundle: the bundle that was loaded, with its manifest.
        load_ms: time to load the artifact (weights packed for this CPU), measured; imports are not part of it.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        self.bundle = bundle
        try_first(bundle, engine_for(bundle))
        before = perf_counter()
        self._loaded = _loader(bundle)(bundle, threads)
        self.load_ms = (perf_counter() - before) * 1e3
        self.prefix = open_prefix(bundle)
        self._speculators: dict[str, Speculator | None] = {}
        self._turn = Turn()

    def __repr__(self) -> str:
        manifest = self.bundle.manifest
        limits = f", context {manifest.writing_limits.context}" if manifest.writing_limits else ""
        size = f"{manifest.model.parameters / 1e6:,.1f} M parameters"
        return f"<edgec Model {manifest.name}: {size}, {manifest.recipe_name}, {manifest.target}{limits}>"

    def new_session(self) -> Model:
        """The same model with a second KV cache: another sequence over the same weights, adapter and tokenizer.

        Calls to one do not change the answers of the other; they may alternate between any two tokens. Where edgec's
        engine cannot be compiled, the weights are loaded once more.

        Raises:
            InputError: E155, the model is not a decoder.
        """
        other, before = copy(self), perf_counter()
        kind = type(self.session)
        other._loaded, other._speculators = kind(self.bundle, engine=self.session.engine), {}
        other.session.adapter = self.session.adapter
        other._turn = Turn()
        other.load_ms = (perf_counter() - before) * 1e3
        return other

    def run(self, **inputs: Any) -> dict[str, Array]:
        """Execute a non-decoder model; inputs and outputs are numpy arrays by name.

        An input that the manifest prepares (``prepared``) may be an image, or the path of an image or a sound.

        Raises:
            InputError: E155 for a decoder, E152 when names, shapes or dtypes are not those of the manifest; those of
                ``Function.run``.
        """
        if isinstance(self._loaded, Function):
            return self._loaded.run(**inputs)
        raise InputError("This model is a decoder.", str(self.bundle.path), fix="call .generate(...)", code="E155")

    @quiet()
    def encode(self, prompt: str, template: bool = False) -> list[int]:
        """Text to token ids, with the tokenizer's own leading tokens; as a user's first message when ``template``.

        Raises:
            InputError: E152 when the text is not valid Unicode, E154 when ``template`` is set and there is none.
        """
        return self._encoded(prompt, template)

    def _encoded(
        self, prompt: str, template: bool, enough: int | None = None, chat_options: ChatOptions = NO_CHAT_OPTIONS
    ) -> list[int]:
        if not template:
            return token_ids(self.tokenizer, prompt, enough=enough)
        check_unicode(prompt)
        return self.message_format.prompt(
            [*self.chat().messages, {"role": "user", "content": prompt}], chat_options, enough
        )

    @quiet()
    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        template: bool = False,
        stream: Callable[[str], None] | None = None,
        speculate: str | Path | Bundle = OFF,
        resume: bool = False,
        language: str | None = None,
        images: Sequence[ImageSource] = (),
        audio: Sequence[SoundSource] = (),
        **options: Unpack[GenerateOptions],
    ) -> Generation:
        """Continue a text, or write what follows it where the model reads it with an encoder (T5, BART, Marian, ...).

        Where a decoder's prompt begins like the bundle's prefix, that part is restored, not computed.

        Threads that call this on one session take turns, an answer each; `new_session` gives each its own session.

        Args:
            prompt: text, or token ids.
            template: wrap the text as a user's message in the chat template; the result's ``reasoning`` is then apart
                from its text, and ``thinking_budget`` may be given (docs/structured-output.md). ``edgec run`` wraps
                where there is a template, unless ``--raw``; here the text is taken as it is unless this is set.
            stream: called with each piece of new text.
            speculate: how to draft ahead, as for ``speculator``; the text is the same as without.
            resume: what the KV cache holds already, as after ``load_session``, is not computed again either.
            language: the token with which an encoder-decoder begins its text, such as ``fra_Latn`` of NLLB.
            images: files, arrays [H, W, 3] or images of Pillow, for a model with vision (docs/multimodal.md).
            audio: WAV files, or float samples [N] in -1..1 at the model's rate, for a model with audio.
            options: those of ``request``: max_new_tokens (256; None: to the end of the context), temperature (0:
                greedy), top_k, top_p, min_p, seed, stop, repetition_penalty, presence_penalty, frequency_penalty,
                logit_bias (by token id); and schema, json, regex or grammar, which
                hold the text to a structure: its value is the result's ``value``.

        Raises:
            InputError: E150 prompt too long, E151 empty, E152 foreign token ids or broken text, E154 no template,
                E155 not a decoder, E156 an option outside its range, E898 no such option, E194-E198 nothing to draft
                with, E610-E618 a structure that cannot be kept; E653-E658 images; E177, E178, E753 and E754 sounds.
        """
        asked = GenerationArguments(prompt, template, speculate, resume, language, images, audio, options)
        with Stream(self._pieces(asked)) as made:
            for piece in made:
                if stream is not None:
                    stream(piece)
        assert made.result is not None
        return made.result

    def _pieces(self, asked: GenerationArguments) -> Generator[str, None, Generation]:
        if self.bundle.manifest.encoder_decoder is not None:
            self._refuse_images(asked.images)
            self._refuse_audio(asked.audio)
            made = self._pieces_after(asked)
            return self._in_turn(lambda: made)
        given = self._given(asked)
        session, request = self.session, self.request(**asked.request_options)
        tokens = given.tokens if given else self._ids(asked.prompt, asked.template, asked.chat_options)
        check_context(len(tokens), session.limits.context)
        prompt_cache = self.prompt_cache(asked.resume, given)
        parser = self.message_format.parser(tokens, asked.chat_options) if asked.template else None
        written = partial(pieces, session, tokens, request, self.decode, prompt_cache=prompt_cache, parser=parser)
        return self._in_turn(lambda: written(speculate=self.speculator(asked.speculate)))

    def _given(self, asked: GenerationArguments) -> Prompt | SoundPrompt | None:
        """The prompt with its images or its sounds; None where it is text alone."""
        if asked.images:
            self._refuse_audio(asked.audio)
            return self.encode_images(asked.prompt, asked.images, template=asked.template)
        return self.encode_audio(asked.prompt, asked.audio, template=asked.template) if asked.audio else None

    def _in_turn(self, written: Callable[[], Generator[Any, None, Generation]]) -> Generator[str, None, Generation]:
        """A text that is begun once it is this text's turn, at the first piece that is asked for."""
        with self._turn:
            made = yield from only_text(written())
        return replace(made, load_ms=self.load_ms)

    def prompt_cache(self, resume: bool = True, given: Prompt | SoundPrompt | None = None) -> PromptCache:
        """The shipped prefix, and where a text is resumed all that the KV cache holds and snapshots of its states.

        A model with vision or audio takes the images or sounds of ``given``, or none, before anything is recalled.
        """
        if not resume:
            return taking(PromptCache(partial(restore_prefix, self.session, self.prefix)), self._loaded, given, resume)
        snapshots = Snapshots(self.session, self.bundle.manifest.states)
        recall = partial(recall_prefix, self.session, self.prefix, snapshots)
        return taking(PromptCache(recall, snapshots.keep), self._loaded, given, resume)

    def tokens(
        self, prompt: str | Sequence[int], *, template: bool = False, **options: Unpack[RequestOptions]
    ) -> Iterator[int]:
        """The tokens of ``generate`` one by one, each computed on request, so that several sessions can take turns.

        Takes the arguments of ``generate`` and ``request``, but does not look for stop strings; raises as ``generate``
        when the first token is requested.
        """
        with self._turn:
            yield from self._tokens(prompt, template, **options)

    def _tokens(self, prompt: str | Sequence[int], template: bool, **options: Unpack[RequestOptions]) -> Iterator[int]:
        session, request = self.session, self.request(**options)
        ids = self._ids(prompt, template)
        cached = self.prompt_cache(resume=False).recall(ids)
        rule = rule_of(request, len(ids), session.limits.context)
        for count, token in enumerate(stream_tokens(session, ids, Sampler(request.sampling, rule), cached), 1):
            yield token
            if token in request.eos or count == request.max_new_tokens or (rule is not None and rule.ended(count)):
                return

    def _ids(
        self, prompt: str | Sequence[int], template: bool, chat_options: ChatOptions = NO_CHAT_OPTIONS
    ) -> list[int]:
        if isinstance(prompt, str):
            return self._encoded(prompt, template, self.session.limits.context, chat_options)
        return check_ids(prompt)

    def speculator(self, choice: str | Path | Bundle = "auto") -> Speculator | None:
        """The object that drafts ahead, or None for ``off``; it is kept, since it learns what pays on this machine.

        Args:
            choice: ``auto`` (all that needs nothing else), ``off``, ``ngram`` (prompt look-up), ``heads`` (those in the
                artifact), or a bundle of a smaller model with the same vocabulary.

        Raises:
            InputError: E194 another vocabulary, E195 no heads, E198 no such choice; E13x, E155, E157.
        """
        key = str(getattr(choice, "path", choice))
        if key not in self._speculators:
            self._speculators[key] = speculator_for(self.session, choice)
        return self._speculators[key]

    def chat(self, system: str | None = None, speculate: str | Path | Bundle = OFF) -> Conversation:
        """Begin a conversation; it uses this model's KV cache: one speaks at a time, and the latest is fast.

        Args:
            system: the system message; None takes the one that the bundle ships, "" none.
            speculate: how to draft ahead, as for ``speculator``; answers are the same as without.

        Raises:
            InputError: E154, the tokenizer has no chat template.
        """
        session, own = self.session, self.system_prompt if system is None else system
        prompt_cache = self.prompt_cache()
        ahead = self.speculator(speculate)
        talk = partial(Conversation, message_format=self.message_format, ask=self.request, turn=self._turn)
        return talk(session, self.tokenizer, self.decode, self.eos, own, prompt_cache, ahead)
