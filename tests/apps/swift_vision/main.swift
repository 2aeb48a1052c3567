// Runs the generated package of a model that takes images over the real engine, and prints what came of it: NAME=VALUE lines.
import CoreGraphics
import CryptoKit
import Foundation
import ImageIO
@testable import KIT
import Tokenizers

struct Asked: Decodable {
    struct Picture: Decodable {
        let width, height: Int
        let rgb: Data
    }

    let bundle, mark, altered: String
    let accepted: [String]
    let words: Words
    let pictures: [Picture]
    /// What the system knows of files, by their paths; nil: nothing.
    let files: [String: FileForTests?]
}

extension EdgecModel {
    func begin(_ prompt: [Int]) async throws { try await session.begin(prompt, isolation: self) }

    func replay(_ folder: URL) async throws { try await GoldenReplay.checkOutputs(try GoldenVectors(folder), session) }
}

let most = 12
let question = "what is this"
let options = GenerationOptions(maxNewTokens: most)

func say(_ name: String, _ value: Any) {
    let text = "\(value)".replacingOccurrences(of: "\n", with: "\\n")
    print("\(name)=\(text)")
}

func refused(_ name: String, _ body: () async throws -> Any) async {
    do {
        say(name, try await body())
    } catch {
        say(name, error)
    }
}

func user(_ text: String, _ images: [ModelImage] = []) -> ChatMessage { ChatMessage(.user, text, images: images) }

func tokens(_ model: EdgecModel, _ prompt: [Int]) async throws -> [Int] {
    try await model.generate(tokens: prompt, options: options).reduce(into: []) { $0.append($1) }
}

func tokens(_ model: EdgecModel, _ talk: [ChatMessage]) async throws -> [Int] {
    let prompt = try await model.prompt(talk)
    return try await tokens(model, prompt)
}

func ask(_ model: EdgecModel, _ text: String, _ images: [ModelImage]) async throws -> String {
    try await model.generate(prompt: text, images: images, options: options).reduce(into: "") { $0 += $1 }
}

/// A prompt's tokens, and those that follow it.
func tell(_ model: EdgecModel, _ name: String, _ text: String, _ images: [ModelImage]) async throws {
    let prompt = try await model.prompt(text, images)
    say("\(name) prompt", prompt)
    say(name, try await tokens(model, prompt))
    say("\(name) text", try await ask(model, text, images))
}

/// Questions about one image after the other, in conversations and with places in the text.
func tellAnswers(_ model: EdgecModel, _ first: ModelImage, _ second: ModelImage, _ drawn: ModelImage, _ mark: String) async throws {
    try await tell(model, "first", question, [first])
    try await tell(model, "second", question, [second])
    try await tell(model, "again", question, [drawn])
    try await tell(model, "two", "what \(mark) is this \(mark) here", [first, second])
    await refused("text") { try await tokens(model, [8, 9, 10, 11, 12]) }
    try await tell(model, "back", question, [first])
    let asked = [user(question, [first])]
    say("chat prompt", try await model.prompt(asked))
    say("chat tokens", try await tokens(model, asked))
    let chat = try await model.generate(messages: asked, options: options).reduce(into: "") { $0 += $1 }
    let finish = await model.lastFinish
    say("chat", !chat.isEmpty && finish != nil)
    var text = ""
    for try await piece in model.reply(to: asked, options: options) {
        if case .text(let more) = piece { text += more }
    }
    let reply = await model.lastReply
    say("reply", reply?.text == text)
    try await tellTalk(model, asked, first, second)
}

/// A conversation that goes on after an image, and shows another: what the cache keeps changes nothing.
func tellTalk(_ model: EdgecModel, _ asked: [ChatMessage], _ first: ModelImage, _ second: ModelImage) async throws {
    let more = asked + [ChatMessage(.assistant, "a house"), user("with two doors")]
    let shown = more + [ChatMessage(.assistant, "and here"), user("is this", [second])]
    for (name, talk) in [("talk", more), ("shown", shown)] {
        let warm = try await tokens(model, talk)
        await model.reset()
        let cold = try await tokens(model, talk)
        say("\(name) same", warm == cold && warm.count == most)
        say("\(name) prompt", try await model.prompt(talk))
    }
    let other = [user(question, [second])] + more.dropFirst()
    let theirs = try await tokens(model, other)
    let ours = try await tokens(model, more)
    say("talk differs", theirs != ours)
}

/// What becomes of files.
func tellFiles(_ files: [String: FileForTests?]) async throws {
    for (path, known) in files {
        if let known { FilesForTests.known[try Data(contentsOf: URL(fileURLWithPath: path))] = known }
    }
    for path in files.keys.sorted() {
        let file = URL(fileURLWithPath: path), name = file.lastPathComponent
        let before = FilesForTests.decoded
        await refused("file \(name)") { hash(try ImageReader.pixels(ModelImage(file: file))) }
        say("decoded \(name)", FilesForTests.decoded - before)
        let data = try Data(contentsOf: file)
        await refused("data \(name)") { hash(try ImageReader.pixels(ModelImage(data: data))) }
        await refused("header \(name)") { try ImageHeader.check(data) }
    }
}

func hash(_ image: Pixels) -> String {
    let digits = SHA256.hash(data: Data(image.rgb)).map { String(format: "%02x", $0) }
    return "\(image.width) \(image.height) \(digits.joined())"
}

func tellRefused(_ model: EdgecModel, _ seen: ModelImage, _ mark: String) async throws {
    await refused("no pixels") { try ModelImage(width: 0, height: 4, rgb: []) }
    await refused("few bytes") { try ModelImage(width: 4, height: 4, rgb: [UInt8](repeating: 0, count: 47)) }
    await refused("long") {
        let image = try ModelImage(width: 101, height: 1, rgb: [UInt8](repeating: 0, count: 303))
        return try await ask(model, question, [image])
    }
    let absent = ModelImage(file: URL(fileURLWithPath: "/absent.png"))
    await refused("absent") { try await ask(model, question, [absent]) }
    let many = [ModelImage](repeating: absent, count: ModelLimits.context)
    await refused("many") { try await ask(model, question, many) }
    await refused("misplaced") { try await ask(model, "\(mark) \(question)", [seen, seen]) }
    await refused("loose") { try await tokens(model, [8, VisionFacts.imageToken, 9]) }
    let odd = [user("a"), ChatMessage(.assistant, "b", images: [seen])]
    await refused("assistant") { try await tokens(model, odd) }
    await refused("odd reply") { try await model.reply(to: odd).reduce(into: 0) { count, _ in count += 1 } }
    let long = String(repeating: "is ", count: ModelLimits.context)
    await refused("longer") { try await ask(model, long, [seen]) }
    _ = try await ask(model, question, [seen])
    let finish = await model.lastFinish
    say("still", finish != nil)
}

/// An answer that is cancelled before its image is seen leaves nothing behind.
func tellCancelled(_ model: EdgecModel, _ first: ModelImage, _ second: ModelImage) async throws {
    let wanted = try await ask(model, question, [first])
    let prompt = try await model.prompt(question, [second])
    let task = Task {
        withUnsafeCurrentTask { $0?.cancel() }
        try await model.begin(prompt)
    }
    let result = await task.result
    var isCancelled = false
    if case .failure(let error) = result { isCancelled = error is CancellationError }
    let after = try await ask(model, question, [first])
    say("cancelled", isCancelled && after == wanted)
}

/// The sample's conversation: a picture goes with the next message, and the conversation goes on about it.
@MainActor func tellSample(_ model: EdgecModel, _ load: LoadOptions, _ picture: ModelImage) async {
    let chat = ChatModel(load, generation: options)
    func answered() async { while chat.stage == .answering { await Task.yield() } }
    func answer(_ talk: [ChatMessage]) async -> String {
        var said = ""
        do {
            for try await part in model.generate(messages: talk, options: options) { said += part }
        } catch { return "" }
        return said
    }
    await chat.load()
    chat.attach(picture)
    let chosen = chat.chosen.count
    for text in [question, "here"] {
        chat.send(text)
        await answered()
    }
    say("sample pictures", "\(chosen) \(chat.chosen.count)")
    say("sample note", "\(chat.lines[0].note ?? "none") \(chat.lines[2].note ?? "none")")
    let asked = [user(question, [picture])]
    let first = await answer(asked)
    say("sample same", chat.lines[1].text == first)
    let second = await answer(asked + [ChatMessage(.assistant, first), user("here")])
    say("sample goes on", chat.lines[3].text == second)
    chat.unload()
}

let words = CommandLine.arguments
let asked = try JSONDecoder().decode(Asked.self, from: Data(contentsOf: URL(fileURLWithPath: words[1])))
AutoTokenizer.loaded = WordTokenizer(asked.words)
let bundle = URL(fileURLWithPath: asked.bundle)
let load = LoadOptions(bundle: bundle, acceptedTexts: Set(asked.accepted))
let model = try await EdgecModel.load(load)
let images = try asked.pictures.map { try ModelImage(width: $0.width, height: $0.height, rgb: Array($0.rgb)) }
let picture = asked.pictures[1]
var pixels: [UInt8] = []
for place in 0..<(picture.width * picture.height) { pixels += [UInt8](picture.rgb[(3 * place)..<(3 * place + 3)]) + [255] }
let drawn = ModelImage(cgImage: CGImage(width: picture.width, height: picture.height, pixels: pixels))
say("limits", "\(ImageLimits.tileTokens) \(VisionFacts.wholePrompt) \(VisionFacts.placeholder)")
try await tellAnswers(model, images[0], images[1], drawn, asked.mark)
try await tellFiles(asked.files)
try await tellRefused(model, images[0], asked.mark)
try await tellCancelled(model, images[0], images[1])
await refused("golden") { try await model.replay(bundle) }
await refused("other golden") { try await model.replay(URL(fileURLWithPath: asked.altered)) }
await tellSample(model, load, images[0])
