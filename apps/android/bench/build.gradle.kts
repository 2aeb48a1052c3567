import com.android.build.api.artifact.SingleArtifact
import dev.edgec.PageSizeCheck

plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
}

val edgecCompileSdk: String by project
val edgecMinSdk: String by project
val edgecTargetSdk: String by project
val edgecUncompressed: String by project
val edgecUnpacked: String by project
val edgecPack: String by project

android {
    namespace = "dev.edgec.sample.bench"
    compileSdk = edgecCompileSdk.toInt()

    defaultConfig {
        applicationId = "dev.edgec.sample.bench"
        minSdk = edgecMinSdk.toInt()
        targetSdk = edgecTargetSdk.toInt()
        ndk { abiFilters += "arm64-v8a" }
    }

    buildTypes {
        release {
            isMinifyEnabled = true
            proguardFiles(getDefaultProguardFile("proguard-android-optimize.txt"))
            signingConfig = signingConfigs.getByName("debug")
        }
    }

    androidResources { noCompress += edgecUncompressed.split(",") }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }

    kotlinOptions { jvmTarget = "17" }

    packaging { jniLibs { useLegacyPackaging = edgecUnpacked.toBoolean() } }

    if (edgecPack.toBoolean()) assetPacks += listOf(":model_pack")
}

dependencies {
    implementation(project(":model"))
    // What `edgec runner build --aar` wrote, instead of compiling the engine with the app.
    findProperty("engineArchive")?.let { implementation(files(it)) }
}

// checkDebugPageSizes, checkReleasePageSizes: check that the APK's libraries are aligned as Google Play requires.
androidComponents {
    onVariants { variant ->
        val folder = variant.artifacts.get(SingleArtifact.APK)
        tasks.register("check${variant.name.replaceFirstChar { it.uppercase() }}PageSizes") {
            inputs.dir(folder)
            doLast {
                val apks = folder.get().asFile.listFiles().orEmpty().filter { it.extension == "apk" }
                val problems = apks.flatMap { PageSizeCheck.problems(it) }
                if (problems.isNotEmpty()) {
                    throw GradleException(problems.joinToString("\n", "Not for pages of 16 KB:\n"))
                }
            }
        }
    }
}
