"""What a bundle says about its text: tokenizer, chat template, the tokens that end a text, and a request's defaults."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from edgec.bundle.encoding import decode_tokens
from edgec.bundle.end_tokens import end_tokens
from edgec.bundle.generation_config import GenerationConfig, read_generation_config
from edgec.bundle.tokenizer_folder import open_tokenizer, unusable_tokenizer
from edgec.quiet import quiet
from edgec.runtime_py.answers.request_options import RequestOptions, check_names
from edgec.runtime_py.decoding.arguments import stop_strings
from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.generation.generate import GenerationRequest
from edgec.runtime_py.messages.message_format import MessageFormat
from edgec.runtime_py.structured.refusals import unsuited
from edgec.runtime_py.structured.rule import Structure
from edgec.runtime_py.structured.shipped import constrained_structure, names_schema, shipped_structure
from edgec.runtime_py.structured.structures import Structures
from edgec.runtime_py.structured.vocabulary import Vocabulary, vocabulary_of
from edgec.runtime_py.structured.wanted import wanted, with_every_spelling

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


class Tokenized:
    """A loaded bundle's tokenizer and generation config, each read at its first use."""

    bundle: Bundle

    @cached_property
    @quiet()
    def tokenizer(self) -> Any:
        """The bundle's tokenizer: transformers', or of a decoder of text alone the same without transformers.

        Raises:
            InputError: E158, the bundle has none or it cannot be read.
        """
        if self.bundle.tokenizer_dir is None:
            raise unusable_tokenizer(self.bundle.path, "the model was exported without one")
        manifest = self.bundle.manifest
        senses = manifest.encoder_decoder or manifest.vision_language or manifest.audio_language
        return open_tokenizer(self.bundle.tokenizer_dir, plain=senses is None and manifest.limits is not None)

    @cached_property
    def generation_config(self) -> GenerationConfig:
        """The bundle's generation_config.json, as far as it is used; an empty one where there is none.

        Raises:
            InputError: E141, it cannot be used.
        """
        return read_generation_config(self.bundle.generation_config_path)

    @property
    def has_template(self) -> bool:
        """Whether the tokenizer has a chat template."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    @property
    def eos(self) -> frozenset[int]:
        """Token ids that end a text, an answer in a conversation too."""
        opened = None if self.bundle.tokenizer_dir is None else lambda: self.tokenizer
        return frozenset(end_tokens(self.generation_config, opened))

    def decode(self, tokens: Sequence[int]) -> str:
        """Token ids to text without special tokens; empty when the bundle has no tokenizer."""
        if self.bundle.tokenizer_dir is None:
            return ""
        return decode_tokens(self.tokenizer, tokens)

    def request(self, **options: Unpack[RequestOptions]) -> GenerationRequest:
        """Make a request of options; the repetition penalty defaults to the generation config's, as in transformers.

        ``max_new_tokens`` is 256 by default (None: to the end of the context), ``temperature`` 0: greedy. The penalties
        and biases are OpenAI's. The last four, of which one may be given, hold the text to a structure
        (docs/structured-output.md): ``schema``, a JSON Schema, a pydantic class, the path of a JSON file,
        or a name that the bundle ships; ``json``, any JSON object; ``regex``; ``grammar``, in Lark's notation or GBNF,
        or the path of a file with one.

        Raises:
            InputError: E156, an option outside its range; E898, there is none of a name; E610 to E617, a structure that
                texts cannot be held to; E714, the bundle has no schema of the name.
            ToolError: E619, llguidance is not installed.
        """
        check_names(options)
        own = self.generation_config.repetition_penalty or 1.0
        penalty = options.get("repetition_penalty")
        sampling = Sampling(
            temperature=options.get("temperature", 0.0),
            top_k=options.get("top_k", 0),
            top_p=options.get("top_p", 1.0),
            min_p=options.get("min_p", 0.0),
            repetition_penalty=own if penalty is None else penalty,
            seed=options.get("seed"),
            presence_penalty=options.get("presence_penalty", 0.0),
            frequency_penalty=options.get("frequency_penalty", 0.0),
            logit_bias=options.get("logit_bias") or {},
        )
        structure = self._structure(*(options.get(name) for name in ("schema", "regex", "grammar", "json")))
        most, stop = options.get("max_new_tokens", 256), options.get("stop", ())
        return GenerationRequest(most, sampling, stop_strings(stop), self.eos, structure)

    def _structure(self, schema: Any, regex: Any, grammar: Any, json: Any) -> Structure | None:
        shipped = names_schema(schema)
        alone = shipped and regex is None and grammar is None and not json
        asked = wanted(**shipped_structure(self.bundle, str(schema))) if alone else wanted(schema, regex, grammar, json)
        if asked is None:
            return None
        asked = with_every_spelling(asked) if shipped else asked
        if self.bundle.manifest.encoder_decoder is not None:
            raise unsuited(
                str(self.bundle.path), "it is an encoder-decoder, whose first tokens have rules of their own"
            )
        return self._structures.compiled(asked, constrained_structure(self.bundle, str(schema)) if shipped else None)

    @cached_property
    def _structures(self) -> Structures:
        return Structures(vocabulary_of(self.tokenizer, self.bundle.manifest.model.vocab_size, self.eos))

    @property
    def vocabulary(self) -> Vocabulary:
        """The bytes of each token.

        Raises:
            InputError: E617, the tokenizer's texts are not its tokens' bytes.
        """
        return self._structures.vocabulary

    @cached_property
    def message_format(self) -> MessageFormat:
        """How the chat template writes reasoning and calls of tools."""
        return MessageFormat(self.tokenizer, lambda: self._structures)
