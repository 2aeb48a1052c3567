// Versions and the model's values are in gradle.properties.
pluginManagement {
    val edgecAndroidPlugin: String by settings
    val edgecKotlin: String by settings
    repositories {
        google()
        mavenCentral()
        gradlePluginPortal()
    }
    plugins {
        id("com.android.application") version edgecAndroidPlugin
        id("com.android.library") version edgecAndroidPlugin
        id("com.android.ai-pack") version edgecAndroidPlugin
        id("org.jetbrains.kotlin.android") version edgecKotlin
        id("org.jetbrains.kotlin.plugin.compose") version edgecKotlin
    }
}

dependencyResolutionManagement {
    repositories {
        google()
        mavenCentral()
    }
}

val edgecModules: String by settings

rootProject.name = "SampleKit"
edgecModules.split(",").forEach { include(":$it") }
