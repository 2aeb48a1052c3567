package org.pytorch.executorch

open class EValue {
    open fun toTensor(): Tensor = TODO()

    companion object {
        @JvmStatic fun from(tensor: Tensor): EValue = TODO()
    }
}

abstract class Tensor {
    open val dataAsFloatArray: FloatArray get() = TODO()

    companion object {
        @JvmStatic fun fromBlob(data: LongArray, shape: LongArray): Tensor = TODO()

        @JvmStatic fun fromBlob(data: IntArray, shape: LongArray): Tensor = TODO()

        @JvmStatic fun fromBlob(data: FloatArray, shape: LongArray): Tensor = TODO()
    }
}

open class Module {
    open fun execute(methodName: String, vararg inputs: EValue): Array<EValue> = TODO()

    open fun loadMethod(methodName: String): Int = TODO()

    open fun getMethods(): Array<String> = TODO()

    open fun destroy() {}

    companion object {
        const val LOAD_MODE_MMAP = 1

        @JvmStatic fun load(modelPath: String, loadMode: Int): Module = TODO()
    }
}
