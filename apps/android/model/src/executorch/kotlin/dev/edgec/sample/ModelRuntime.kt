package dev.edgec.sample

import android.content.Context
import java.io.Closeable
import java.io.File
import org.pytorch.executorch.EValue
import org.pytorch.executorch.Module
import org.pytorch.executorch.Tensor

/** The artifact in ExecuTorch; made for the version that [ModelFacts] states. */
internal class ModelRuntime(artifact: File) : Closeable {
    private val module = Module.load(artifact.path, Module.LOAD_MODE_MMAP)
    private var closed = false

    init {
        val methods = module.getMethods().toSet()
        for (method in ModelFacts.methods) {
            if (method.name !in methods) throw RuntimeDiffers("there is no method ${method.name}")
            module.loadMethod(method.name)
        }
    }

    /** Execute a method; outputs are numbers in row order. */
    @Synchronized
    fun run(method: MethodFacts, inputs: List<EValue>): List<FloatArray> {
        if (closed) throw ModelClosed()
        val outputs = module.execute(method.name, *inputs.toTypedArray())
        return outputs.map { value -> value.toTensor().dataAsFloatArray }
    }

    /** This runtime adds no adapters. */
    fun useAdapter(file: File?, @Suppress("UNUSED_PARAMETER") base: String) {
        if (file != null) throw AdapterRefused("only edgec's engine adds adapters, and this artifact has another runtime")
    }

    /** Waits for a call that runs. */
    @Synchronized
    override fun close() {
        if (!closed) module.destroy()
        closed = true
    }

    companion object {
        fun open(context: Context, artifact: File) = ModelRuntime(artifact)

        fun integers(facts: TensorFacts, values: LongArray, vararg shape: Long): EValue {
            fits(facts, values.size, shape)
            return when (facts.dtype) {
                "int64" -> EValue.from(Tensor.fromBlob(values, shape))
                "int32" -> EValue.from(Tensor.fromBlob(IntArray(values.size) { values[it].toInt() }, shape))
                else -> throw InputDoesNotFit(facts.name, "values of ${facts.dtype} are not supported")
            }
        }

        fun floats(facts: TensorFacts, values: FloatArray, vararg shape: Long): EValue {
            fits(facts, values.size, shape)
            return EValue.from(Tensor.fromBlob(values, shape))
        }

        private fun fits(facts: TensorFacts, count: Int, shape: LongArray) {
            val wanted = shape.fold(1L) { product, size -> product * size }
            if (wanted != count.toLong()) {
                throw InputDoesNotFit(facts.name, "$count values for the shape ${shape.toList()}")
            }
        }
    }
}
