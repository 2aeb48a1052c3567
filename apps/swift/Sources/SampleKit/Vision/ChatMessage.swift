/// One message of a conversation.
public struct ChatMessage: Sendable, Equatable {
    public enum Role: String, Sendable { case system, user, assistant, tool }

    public let role: Role
    public let content: String
    /// The name of the tool whose result it is.
    let tool: String
    /// An assistant's message with calls as the model wrote it, reasoning included.
    let written: String?
    /// What a user's message shows, in front of its text.
    public let images: [ModelImage]

    public init(_ role: Role, _ content: String) { self.init(role, content, tool: "") }

    /// The message with what a tool gave for a call.
    public init(result content: String, of call: ToolCall) { self.init(.tool, content, tool: call.name) }

    init(_ role: Role, _ content: String, tool: String = "", written: String? = nil, images: [ModelImage] = []) {
        self.role = role
        self.content = content
        self.tool = tool
        self.written = written
        self.images = images
    }
}

extension ChatMessage {
    /// What stands in a prompt for the images of the message.
    var placeholders: [String] { images.map { _ in VisionFacts.placeholder } }
}
