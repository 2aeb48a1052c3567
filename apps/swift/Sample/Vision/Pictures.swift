import SampleKit

/// The pictures that a message shows.
struct Pictures {
    var images: [ModelImage] = []

    /// What the screen says of them.
    var note: String? { images.isEmpty ? nil : "pictures: \(images.count)" }

    func message(_ role: ChatMessage.Role, _ text: String) -> ChatMessage { ChatMessage(role, text, images: images) }

    func ask(
        _ model: EdgecModel, _ text: String, _ options: GenerationOptions
    ) -> AsyncThrowingStream<String, any Error> {
        model.generate(prompt: text, images: images, options: options)
    }
}
