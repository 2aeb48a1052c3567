"""Loaded models with vision: images in a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

from edgec.bundle.chat_template import Message, render_parts
from edgec.bundle.encoding import check_unicode
from edgec.bundle.image_preparation import IMAGE_FOLDER
from edgec.errors import InputError
from edgec.runtime_py.answers.tokenized import Tokenized
from edgec.runtime_py.decoding.stepper import check_context
from edgec.runtime_py.media.image_file import ImageSource, read_images
from edgec.runtime_py.messages.message_format import NO_CHAT_OPTIONS, ChatOptions
from edgec.runtime_py.vision_language.processor import Prompt, PromptProcessor
from edgec.runtime_py.vision_language.session import vision_language_info


class WithVision(Tokenized):
    """A model that may have vision."""

    @cached_property
    def _processor(self) -> PromptProcessor:
        return PromptProcessor(self.bundle.path / IMAGE_FOLDER, vision_language_info(self.bundle), self.tokenizer)

    def encode_images(
        self, prompt: str | Sequence[int], images: Sequence[ImageSource], *, template: bool = False
    ) -> Prompt:
        """A prompt with its images, as the model reads it; ``template``: as a user's message.

        Raises:
            InputError: E150, more images than the context holds; E152, the prompt is not text; E154 or E159, the chat
                template; E653 to E658, an image, the processor, or a model without vision.
        """
        vision_language_info(self.bundle)
        if not isinstance(prompt, str):
            what, fix = "A prompt with images is text.", "give a string: the processor makes its tokens"
            raise InputError(what, where="prompt", fix=fix, code="E152")
        check_unicode(prompt)
        rendered = partial(self._rendered, prompt, len(images)) if template else lambda: prompt
        return self._with_images(rendered, images, rendered=template)

    def encode_image_messages(
        self, messages: Sequence[Message], images: Sequence[ImageSource], chat_options: ChatOptions = NO_CHAT_OPTIONS
    ) -> Prompt:
        """A conversation with its images, up to where the assistant answers.

        Args:
            messages: each content a list of parts, ``{"type": "image"}`` where an image stands.
            images: in their order.
            chat_options: tools and the budget of reasoning.

        Raises:
            InputError: those of `encode_images` and of `MessageFormat.rendered`.
        """
        return self._with_images(partial(self.message_format.rendered, messages, chat_options), images, rendered=True)

    def _with_images(self, text: Callable[[], str], images: Sequence[ImageSource], *, rendered: bool) -> Prompt:
        info = vision_language_info(self.bundle)
        # Each image has a tile at least, and one more token follows: refused before any is opened.
        check_context(len(images) * info.rows + 1, info.limits.context)
        made = self._processor.prompt(text(), read_images(images), rendered=rendered)
        check_context(len(made.tokens) + 1, info.limits.context)
        return made

    def _refuse_images(self, images: Sequence[ImageSource]) -> None:
        """Refuse images for a model without vision."""
        if images:
            vision_language_info(self.bundle)

    def _rendered(self, prompt: str, images: int) -> str:
        parts = [*[{"type": "image"}] * images, {"type": "text", "text": prompt}]
        return render_parts(self.tokenizer, [{"role": "user", "content": parts}])
