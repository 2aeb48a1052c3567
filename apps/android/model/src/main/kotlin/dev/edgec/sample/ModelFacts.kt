package dev.edgec.sample

/** The facts in the bundle's manifest about the model and its files. */
object ModelFacts {
    private val facts = Facts.OF_MODEL.part("model")
    val NAME = facts.text("name")
    /** sha256 of the manifest; the manifest lists every other file with its own. */
    val DIGEST = facts.text("digest")
    val RECIPE = facts.text("recipe")
    val TARGET = facts.text("target")
    val MODEL = facts.text("model")
    val PARAMETERS = facts.whole("parameters")
    val FORMAT = facts.text("format")
    val ARTIFACT = facts.text("artifact")
    val ARTIFACT_BYTES = facts.whole("artifactBytes")
    val RUNTIME = facts.text("runtime")
    val RUNTIME_VERSION = facts.text("runtimeVersion")
    /** What the runtime came from. */
    val BUILT_AS = facts.text("builtAs")
    /** Bytes of weights and states once loaded; estimated from the manifest, the app itself not included. */
    val NEEDED_BYTES = facts.whole("neededBytes")
    /** Whether conversations can be rendered; if not, there is only `generate`. */
    val RENDERS_CHAT = facts.isTrue("rendersChat")
    /** How often the weights lie in memory. */
    internal val WEIGHT_COPIES = facts.count("weightCopies")
    /** The bundle's folder among the assets. */
    internal val ASSETS = facts.text("bundleFolder")
    /** The library with edgec's engine; empty where another runtime executes the artifact. */
    internal val LIBRARY = facts.text("library")
    /** Whether the model runs on Hexagon. */
    internal val IS_ACCELERATED = facts.isTrue("accelerated")
    internal val files = facts.parts("files").map { BundleFile(it.text("path"), it.whole("bytes"), it.text("sha256")) }
    internal val methods = facts.parts("methods").map { MethodFacts(it.text("name"), tensors(it, "inputs"), tensors(it, "outputs")) }

    private fun tensors(method: Facts, name: String) =
        method.parts(name).map { TensorFacts(it.text("name"), it.text("dtype"), *it.wholes("shape")) }
}

/** One input or output of a method; a negative dimension varies from call to call. */
internal class TensorFacts(val name: String, val dtype: String, vararg val shape: Long)

/** One entry point of the artifact. */
internal class MethodFacts(val name: String, val inputs: List<TensorFacts>, val outputs: List<TensorFacts>)
