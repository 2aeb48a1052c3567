package dev.edgec.sample

import ai.onnxruntime.OnnxJavaType
import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import java.nio.ByteBuffer
import java.nio.IntBuffer

/** A state of four dimensions, such as keys [1, heads, slots, width], in memory that ONNX Runtime reads in place. */
internal class StateSize(facts: TensorFacts) {
    private val bytesEach = when (facts.dtype) {
        "float32" -> 4
        "uint8" -> 1
        else -> throw RuntimeDiffers("the state ${facts.name} holds ${facts.dtype}")
    }

    val slots = facts.shape[2].toInt()
    private val heads = facts.shape[1].toInt()
    private val rowBytes = facts.shape[3].toInt() * bytesEach
    private val buffer = MemoryCheck.zeros(heads * slots * rowBytes)
    val value: OnnxTensor = OrtEnvironment.getEnvironment().let { environment ->
        if (bytesEach == 4) OnnxTensor.createTensor(environment, buffer.asFloatBuffer(), facts.shape)
        else OnnxTensor.createTensor(environment, buffer, facts.shape, OnnxJavaType.UINT8)
    }

    /** Keep the [rows] of [content], [1, heads, all, width]. */
    fun write(content: ByteBuffer, rows: Rows) {
        for (head in 0 until heads) {
            val from = content.duplicate()
            from.limit((head * rows.all + rows.count) * rowBytes)
            from.position(head * rows.all * rowBytes)
            buffer.position((head * slots + rows.start) * rowBytes)
            buffer.put(from)
        }
        buffer.rewind()
    }

    /** Put [content] in the place of the state, as recurrences leave it. */
    fun replace(content: ByteBuffer) {
        buffer.put(content.duplicate())
        buffer.rewind()
    }
}

/** Execute a method; `new_` rows and `next_` states go to their states, and outputs named `logits` are joined in order. */
internal fun ModelRuntime.step(
    method: MethodFacts,
    given: Map<String, LongArray>,
    states: Map<String, StateSize>,
    rows: Rows,
): FloatArray {
    val environment = OrtEnvironment.getEnvironment()
    val shapes = method.inputs.associate { it.name to it.shape }
    val call = given.mapValues { (name, numbers) ->
        val values = IntArray(numbers.size) { numbers[it].toInt() }
        OnnxTensor.createTensor(environment, IntBuffer.wrap(values), shapes[name] ?: longArrayOf(1))
    }
    var logits = FloatArray(0)
    try {
        execute(method.name, call + states.mapValues { it.value.value }) { name, tensor ->
            if (name.startsWith("new_")) states[name.removePrefix("new_")]?.write(tensor.getByteBuffer(), rows)
            if (name.startsWith("next_")) states[name.removePrefix("next_")]?.replace(tensor.getByteBuffer())
            if (name.startsWith("logits")) logits += floats(tensor)
        }
    } finally {
        call.values.forEach { it.close() }
    }
    return logits
}

private fun floats(tensor: OnnxTensor): FloatArray {
    val buffer = tensor.getFloatBuffer()
    return FloatArray(buffer.remaining()) { buffer.get(it) }
}
