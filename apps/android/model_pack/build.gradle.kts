plugins { id("com.android.ai-pack") }

aiPack {
    packName = "model_pack"
    dynamicDelivery { deliveryType = "install-time" }
}
