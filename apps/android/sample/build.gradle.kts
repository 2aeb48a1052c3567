plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
    id("org.jetbrains.kotlin.plugin.compose")
}

val edgecCompileSdk: String by project
val edgecMinSdk: String by project
val edgecTargetSdk: String by project
val edgecUncompressed: String by project
val edgecUnpacked: String by project
val edgecPack: String by project
val edgecSampleSets: String by project
val edgecCompose: String by project
val edgecActivity: String by project

android {
    namespace = "dev.edgec.sample.sample"
    compileSdk = edgecCompileSdk.toInt()

    defaultConfig {
        applicationId = "dev.edgec.sample.sample"
        minSdk = edgecMinSdk.toInt()
        targetSdk = edgecTargetSdk.toInt()
        ndk { abiFilters += "arm64-v8a" }
    }

    sourceSets.getByName("main") {
        val sets = edgecSampleSets.split(",")
        kotlin.srcDirs(sets.map { "src/$it/kotlin" })
        manifest.srcFile("src/${sets.first()}/AndroidManifest.xml")
    }

    buildTypes {
        release {
            isMinifyEnabled = true
            proguardFiles(getDefaultProguardFile("proguard-android-optimize.txt"))
            signingConfig = signingConfigs.getByName("debug")
        }
    }

    buildFeatures { compose = true }

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
    implementation(platform("androidx.compose:compose-bom:$edgecCompose"))
    implementation("androidx.compose.material3:material3")
    implementation("androidx.activity:activity-compose:$edgecActivity")
}
