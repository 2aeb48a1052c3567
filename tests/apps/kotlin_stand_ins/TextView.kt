package android.widget
class TextView(context: android.content.Context) { var text: CharSequence = "" }
