package dev.edgec.sample

import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import java.nio.IntBuffer
import java.nio.LongBuffer

/** Calls the artifact's only method in ONNX Runtime. */
internal class ModelEncoder(private val runtime: ModelRuntime) {
    private val method = ModelFacts.methods[0]

    /** The method's output for inputs [1, T] by name. */
    fun vector(given: Map<String, LongArray>): FloatArray {
        val inputs = method.inputs.associate { it.name to tensor(it, given.getValue(it.name)) }
        var vector = FloatArray(0)
        try {
            runtime.execute(method.name, inputs) { name, output ->
                if (name == method.outputs[0].name) vector = floats(output)
            }
        } finally {
            inputs.values.forEach { it.close() }
        }
        return vector
    }

    private fun tensor(facts: TensorFacts, values: LongArray): OnnxTensor {
        val (environment, shape) = OrtEnvironment.getEnvironment() to longArrayOf(1, values.size.toLong())
        if (facts.dtype == "int64") return OnnxTensor.createTensor(environment, LongBuffer.wrap(values), shape)
        return OnnxTensor.createTensor(environment, IntBuffer.wrap(IntArray(values.size) { values[it].toInt() }), shape)
    }

    private fun floats(tensor: OnnxTensor): FloatArray {
        val buffer = tensor.getFloatBuffer()
        return FloatArray(buffer.remaining()) { buffer.get(it) }
    }
}
