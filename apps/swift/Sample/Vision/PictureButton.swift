import PhotosUI
import SampleKit
import SwiftUI

/// The system's picker of photos, which needs no permission: the app gets the bytes of what was chosen.
struct PictureButton: View {
    let chat: ChatModel
    @State private var picked: PhotosPickerItem?

    var body: some View {
        PhotosPicker(selection: $picked, matching: .images) { Text("Picture") }
            .disabled(chat.stage != .ready)
            .onChange(of: picked) { _, item in
                if let item { take(item) }
            }
    }

    private func take(_ item: PhotosPickerItem) {
        picked = nil
        Task {
            do {
                if let data = try await item.loadTransferable(type: Data.self) {
                    chat.attach(Pictures(images: chat.chosen.images + [ModelImage(data: data)]))
                }
            } catch {
                chat.cannotAttach(error)
            }
        }
    }
}
