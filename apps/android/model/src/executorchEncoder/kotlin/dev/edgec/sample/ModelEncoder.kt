package dev.edgec.sample

/** Calls the artifact's only method in ExecuTorch. */
internal class ModelEncoder(private val runtime: ModelRuntime) {
    private val method = ModelFacts.methods[0]

    /** The method's output for inputs [1, T] by name. */
    fun vector(given: Map<String, LongArray>): FloatArray {
        val inputs = method.inputs.map { facts ->
            val values = given.getValue(facts.name)
            ModelRuntime.integers(facts, values, 1, values.size.toLong())
        }
        return runtime.run(method, inputs)[0]
    }
}
