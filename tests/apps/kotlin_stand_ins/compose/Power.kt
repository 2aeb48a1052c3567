@file:Suppress("UNUSED_PARAMETER")

package android.os

import java.util.concurrent.Executor

open class PowerManager {
    fun interface OnThermalStatusChangedListener { fun onThermalStatusChanged(status: Int) }

    fun addThermalStatusListener(executor: Executor, listener: OnThermalStatusChangedListener) {}

    fun removeThermalStatusListener(listener: OnThermalStatusChangedListener) {}
}
