package dev.edgec.sample

import java.text.Normalizer.Form

/** The steps of a tokenizer.json, as `edgec embed` wrote them down. */
internal class TokenizerSteps(private val facts: Facts) : TokenizerPlan {
    private val classes = CharacterClasses(listOf(facts.text("classes")))

    override val normalizers: List<Normalizer> = facts.parts("normalizers").map(::normalizer)

    override val splitters: List<Splitter> = facts.parts("splitters").map(::splitter)

    override val decoders: List<Decoder> = facts.parts("decoders").map(::decoder)

    override val before: List<Int> = facts.counts("before")

    override val after: List<Int> = facts.counts("after")

    override fun model(file: TokenizerFile): TokenModel {
        val model = facts.part("model")
        return when (model.text("kind")) {
            "BPE" -> BytePairModel(file, pairOptions(model))
            "Unigram" -> UnigramModel(file, model.countOrNull("unknown"), model.isTrue("byteFallback"))
            "WordPiece" -> WordPieceModel(file, model.text("unknown"), model.text("prefix"), model.count("longest"))
            "WordLevel" -> WordLevelModel(file, model.text("unknown"))
            else -> model.fail("kind", "model that this app knows")
        }
    }

    private fun pairOptions(model: Facts) = BytePairOptions(
        unknown = model.textOrNull("unknown"),
        prefix = model.text("prefix"),
        suffix = model.text("suffix"),
        fuseUnknown = model.isTrue("fuseUnknown"),
        byteFallback = model.isTrue("byteFallback"),
        ignoreMerges = model.isTrue("ignoreMerges"),
    )

    private fun normalizer(step: Facts): Normalizer = when (step.text("kind")) {
        "BytesAsCharacters" -> BytesAsCharacters()
        "CharacterMap" -> CharacterMap(listOf(step.text("table")))
        "Prepend" -> Prepend(step.text("beginning"))
        "ReplacePattern" -> ReplacePattern(pattern(step), step.text("new"))
        "ReplaceText" -> ReplaceText(step.text("old"), step.text("new"))
        "SpacesAround" -> SpacesAround(pattern(step))
        "StripSpaces" -> StripSpaces(Sides(step.isTrue("left"), step.isTrue("right")))
        "UnicodeForm" -> UnicodeForm(Form.valueOf(step.text("form")))
        else -> step.fail("kind", "normalizer that this app knows")
    }

    private fun splitter(step: Facts): Splitter = when (step.text("kind")) {
        "LeadingSpace" -> LeadingSpace()
        "Metaspace" -> Metaspace(step.text("space"), Metaspace.Prepended.valueOf(step.text("prepended")), step.isTrue("splits"))
        "OnEachPart" -> OnEachPart(normalizer(step.part("step")))
        "Split" -> Split(pattern(step), Matches.valueOf(step.text("matches")), step.isTrue("inverted"))
        else -> step.fail("kind", "splitter that this app knows")
    }

    private fun decoder(step: Facts): Decoder = when (step.text("kind")) {
        "ByteFallback" -> ByteFallback()
        "CharactersAsBytes" -> CharactersAsBytes()
        "Fuse" -> Fuse()
        "InEachToken" -> InEachToken(normalizer(step.part("step")))
        "MetaspaceAsSpace" -> MetaspaceAsSpace(step.text("space").single(), step.isTrue("dropsFirst"))
        "StripCharacter" -> StripCharacter(step.text("character").single(), step.count("start"), step.count("end"))
        "WordEnds" -> WordEnds(step.text("suffix"))
        "WordPieces" -> WordPieces(step.text("prefix"), step.isTrue("cleanup"))
        else -> step.fail("kind", "decoder that this app knows")
    }

    private fun pattern(step: Facts) = TextPattern(classes, step.text("pattern"))

    companion object {
        /** Those of this package's model. */
        val OF_MODEL by lazy { TokenizerSteps(Facts.OF_MODEL.part("tokenizer")) }
    }
}
