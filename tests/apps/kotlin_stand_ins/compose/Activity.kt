package androidx.activity

/** A stand-in: what the sample's activity calls. */
abstract class ComponentActivity : android.app.Activity()
