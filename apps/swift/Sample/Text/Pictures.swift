import SampleKit

/// What a message shows: this model takes no pictures.
struct Pictures {
    /// What the screen says of them.
    var note: String? { nil }

    func message(_ role: ChatMessage.Role, _ text: String) -> ChatMessage { ChatMessage(role, text) }

    func ask(
        _ model: EdgecModel, _ text: String, _ options: GenerationOptions
    ) -> AsyncThrowingStream<String, any Error> {
        model.generate(prompt: text, options: options)
    }
}
