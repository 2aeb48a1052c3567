plugins {
    id("com.android.library")
    id("org.jetbrains.kotlin.android")
}

val edgecCompileSdk: String by project
val edgecMinSdk: String by project
val edgecModelSets: String by project
val edgecUncompressed: String by project
val edgecRuntime: String by project
val edgecCoroutines: String by project
val edgecLibrary: String by project
val edgecNdk: String by project
val edgecCmake: String by project

android {
    namespace = "dev.edgec.sample"
    compileSdk = edgecCompileSdk.toInt()

    defaultConfig {
        minSdk = edgecMinSdk.toInt()
        ndk { abiFilters += "arm64-v8a" }
        consumerProguardFiles("consumer-rules.pro")
        if (edgecLibrary.isNotEmpty()) {
            externalNativeBuild {
                cmake {
                    targets += edgecLibrary
                    arguments += listOf("-DANDROID_STL=c++_static", "-DCMAKE_BUILD_TYPE=Release")
                    // -PexecutorchRoot=FOLDER: a checkout of ExecuTorch. -Ppython=FILE: a Python with torch for its build.
                    findProperty("executorchRoot")?.let { arguments += "-DEXECUTORCH_ROOT=$it" }
                    findProperty("python")?.let { arguments += "-DPYTHON_EXECUTABLE=$it" }
                }
            }
        }
    }

    // With -PengineArchive=FILE the app has the engine from there.
    if (edgecLibrary.isNotEmpty() && findProperty("engineArchive") == null) {
        ndkVersion = edgecNdk
        externalNativeBuild { cmake { path = file("src/main/cpp/CMakeLists.txt"); version = edgecCmake } }
    }

    sourceSets.getByName("main") {
        val sets = edgecModelSets.split(",")
        kotlin.srcDirs(sets.map { "src/$it/kotlin" })
        manifest.srcFile(sets.map { "src/$it/AndroidManifest.xml" }.last { file(it).exists() })
    }

    androidResources { noCompress += edgecUncompressed.split(",") }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }

    kotlinOptions { jvmTarget = "17" }
}

dependencies {
    edgecRuntime.split(",").filter { it.isNotEmpty() }.forEach { implementation(it) }
    api("org.jetbrains.kotlinx:kotlinx-coroutines-android:$edgecCoroutines")
}
