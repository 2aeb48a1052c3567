package dev.edgec.sample

import org.pytorch.executorch.EValue
import org.pytorch.executorch.Tensor

/** Keys or values of a layer, [1, heads, slots, width], in memory that the runtime reads in place. */
internal class StateSize(facts: TensorFacts) {
    init {
        val fits = facts.dtype == "float32" && facts.shape.size == 4
        if (!fits) throw RuntimeDiffers("the state ${facts.name} is not float32 [1, heads, slots, width]")
    }

    val slots = facts.shape[2].toInt()
    private val heads = facts.shape[1].toInt()
    private val width = facts.shape[3].toInt()
    private val buffer = MemoryCheck.zeros(heads * slots * width * Float.SIZE_BYTES).asFloatBuffer()
    val value: EValue = EValue.from(Tensor.fromBlob(buffer, facts.shape))

    /** Keep the [rows] of [numbers], [1, heads, all, width]. */
    fun write(numbers: FloatArray, rows: Rows) {
        for (head in 0 until heads) {
            buffer.position((head * slots + rows.start) * width)
            buffer.put(numbers, head * rows.all * width, rows.count * width)
        }
        buffer.rewind()
    }
}

/** Execute a method; rows go to their states, the other outputs are parts of the logits, in order. */
internal fun ModelRuntime.step(
    method: MethodFacts,
    given: Map<String, LongArray>,
    states: Map<String, StateSize>,
    rows: Rows,
): FloatArray {
    val inputs = method.inputs.map { facts ->
        given[facts.name]?.let { ModelRuntime.integers(facts, it, *facts.shape) }
            ?: states[facts.name]?.value
            ?: throw RuntimeDiffers("${method.name} needs an input ${facts.name}")
    }
    var logits = FloatArray(0)
    for ((facts, numbers) in method.outputs.zip(run(method, inputs))) {
        val state = states[facts.name.removePrefix("new_")]
        if (state == null) logits += numbers else state.write(numbers, rows)
    }
    return logits
}
