"""Short texts that are hard for tokenizers: scripts, joined characters, spaces, code, the tokenizer's own markers."""

from __future__ import annotations

TEXTS: tuple[tuple[str, str], ...] = (
    ("english", "The quick brown fox jumps over the lazy dog, doesn't it?"),
    ("contractions", "I'll say we've been here; they'd agree, it's 3 o'clock."),
    ("accents", "Élève naïve, façade, señor, Straße, Ångström, žluťoučký kůň"),
    ("combining accents", "e\u0301 is not \u00e9, n\u0303 is not \u00f1"),
    ("greek and cyrillic", "Καλημέρα κόσμε. Широкая электрификация южных губерний."),
    ("chinese", "今天天气很好，我们去公园散步吧。"),
    ("japanese", "吾輩は猫である。名前はまだ無い。カタカナも。"),
    ("korean", "안녕하세요, 반갑습니다. 오늘은 날씨가 좋네요."),
    ("arabic", "مرحبًا بالعالم، كيف حالك اليوم؟ ١٢٣"),
    ("hebrew", "שלום עולם, מה שלומך?"),
    ("hindi", "नमस्ते दुनिया, आप कैसे हैं?"),
    ("tamil and thai", "வணக்கம் உலகம். สวัสดีชาวโลก"),
    ("vietnamese", "Tiếng Việt có nhiều dấu thanh điệu."),
    ("emoji", "😀 👍🏽 👩‍👩‍👧‍👦 🇺🇳 ❤️"),
    ("code", "def f(x):\n    return {k: v**2 for k, v in x.items()}  # comment\n"),
    ("markup", '<a href="https://example.org/?q=1&r=%20">link</a> \\frac{1}{2} $x_1$'),
    ("numbers", "3.14159 1,000,000 2026-11-21 0x7f 1e-9 -42 ½ ²"),
    ("inner spaces", "two  spaces, three   spaces,\ttab,\u00a0no-break"),
    ("outer spaces", "  leading and trailing  "),
    ("newlines", "one\n\ntwo\r\nthree\n"),
    ("spaces only", "     "),
    ("markers as text", "<s> </s> <unk> <|endoftext|> <pad> [CLS] [MASK] ▁"),
    ("rare characters", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \u200b\ufeff \u202e ﷽ \U0001f9ff"),
    ("long word", "pneumonoultramicroscopicsilicovolcanoconiosis" * 2),
    ("repetition", "a" * 60),
)

CHAT: tuple[dict[str, str], ...] = (
    {"role": "user", "content": "What is the capital of France?"},
    {"role": "assistant", "content": "Paris."},
    {"role": "user", "content": "And of Italy? "},
)
