plugins {
    id("com.android.library")
    id("org.jetbrains.kotlin.android")
}

val edgecCompileSdk: String by project
val edgecMinSdk: String by project
val edgecSerialization: String by project

android {
    namespace = "dev.edgec.sample.json"
    compileSdk = edgecCompileSdk.toInt()
    defaultConfig { minSdk = edgecMinSdk.toInt() }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }

    kotlinOptions { jvmTarget = "17" }
}

dependencies {
    api(project(":model"))
    api("org.jetbrains.kotlinx:kotlinx-serialization-json:$edgecSerialization")
}
