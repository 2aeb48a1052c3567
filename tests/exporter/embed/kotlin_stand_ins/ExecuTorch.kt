package org.pytorch.executorch

/** A stand-in: it keeps a cache by position, and the likeliest next token follows from the last two positions. */
open class EValue(val tensor: Tensor) {
    open fun toTensor(): Tensor = tensor

    companion object {
        @JvmStatic fun from(tensor: Tensor): EValue = EValue(tensor)
    }
}

open class Tensor(val integers: LongArray, val dataAsFloatArray: FloatArray) {
    companion object {
        @JvmStatic fun fromBlob(data: LongArray, shape: LongArray): Tensor = Tensor(data, FloatArray(0))

        @JvmStatic fun fromBlob(data: IntArray, shape: LongArray): Tensor =
            Tensor(LongArray(data.size) { data[it].toLong() }, FloatArray(0))

        @JvmStatic fun fromBlob(data: FloatArray, shape: LongArray): Tensor = Tensor(LongArray(0), data)
    }
}

open class Module {
    private val cache = HashMap<Long, Long>()

    open fun execute(methodName: String, vararg inputs: EValue): Array<EValue> {
        val (tokens, positions, rows) = inputs.map { it.tensor.integers }
        calls += tokens.size
        for (index in tokens.indices) cache[positions[index]] = tokens[index]
        val position = positions[rows[0].toInt()]
        val next = (31 * cache.getValue(position) + 7 * position + (cache[position - 1] ?: 0)) % 96 + 32
        val logits = FloatArray(512) { if (it.toLong() == next) 5f else -0.001f * it }
        return arrayOf(EValue(Tensor(LongArray(0), logits)))
    }

    open fun loadMethod(methodName: String): Int = 0

    open fun getMethods(): Array<String> = arrayOf("forward")

    open fun destroy() {}

    companion object {
        const val LOAD_MODE_MMAP = 1
        val calls = mutableListOf<Int>()

        @JvmStatic fun load(modelPath: String, loadMode: Int): Module = Module()
    }
}
