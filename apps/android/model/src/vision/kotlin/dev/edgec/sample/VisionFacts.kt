package dev.edgec.sample

private val facts = Facts.OF_MODEL.part("vision")

/** What images may be like. */
object ImageLimits {
    /** Pixels of an image at most; larger ones are refused before they are decoded. */
    val MOST_PIXELS = facts.count("mostPixels")
    /** How many times one side may have the pixels of the other. */
    val MOST_RATIO = facts.count("mostRatio")
    /** Tokens that each tile of an image takes of the context; an image has at least one tile. */
    val TILE_TOKENS = facts.count("tileTokens")
}

internal object VisionFacts {
    /** Stands in a text for an image. */
    val PLACEHOLDER = facts.text("placeholder")
    /** The id that stands for each row of an image. */
    val IMAGE_TOKEN = facts.count("imageToken")
    /** The tokenizer adds its own tokens to a prompt with images, except to a chat template's that begins with [BEGINS]. */
    val SPECIAL_TOKENS = facts.isTrue("specialTokens")
    val BEGINS = facts.text("begins")
    /** All of a prompt with images sees all of it, so that none of it can be continued from. */
    val WHOLE_PROMPT = facts.isTrue("wholePrompt")
    /** Numbers in the tile of the bundle's golden vector. */
    val GOLDEN_VALUES = facts.count("goldenValues")
}
