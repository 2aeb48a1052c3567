package androidx.compose.runtime

import kotlin.reflect.KProperty
import kotlinx.coroutines.flow.StateFlow

/** A stand-in: without Compose's compiler an annotation changes nothing. */
@Target(AnnotationTarget.FUNCTION, AnnotationTarget.TYPE, AnnotationTarget.TYPE_PARAMETER, AnnotationTarget.PROPERTY_GETTER)
annotation class Composable

interface State<out T> { val value: T }

interface MutableState<T> : State<T> { override var value: T }

private class Held<T>(override var value: T) : MutableState<T>

fun <T> mutableStateOf(value: T): MutableState<T> = Held(value)

@Composable fun <T> remember(calculation: () -> T): T = calculation()

@Composable fun <T> StateFlow<T>.collectAsState(): State<T> = Held(value)

operator fun <T> State<T>.getValue(thisObj: Any?, property: KProperty<*>): T = value

operator fun <T> MutableState<T>.setValue(thisObj: Any?, property: KProperty<*>, value: T) {
    this.value = value
}
