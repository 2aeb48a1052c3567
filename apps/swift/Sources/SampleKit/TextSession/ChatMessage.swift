/// One message of a conversation.
public struct ChatMessage: Sendable, Equatable {
    public enum Role: String, Sendable { case system, user, assistant, tool }

    public let role: Role
    public let content: String
    /// The name of the tool whose result it is.
    let tool: String
    /// An assistant's message with calls as the model wrote it, reasoning included.
    let written: String?

    public init(_ role: Role, _ content: String) { self.init(role, content, tool: "") }

    /// The message with what a tool gave for a call.
    public init(result content: String, of call: ToolCall) { self.init(.tool, content, tool: call.name) }

    init(_ role: Role, _ content: String, tool: String = "", written: String? = nil) {
        self.role = role
        self.content = content
        self.tool = tool
        self.written = written
    }
}

extension ChatMessage {
    /// What stands in a prompt for the images of the message: this model takes none.
    var placeholders: [String] { [] }
}
