import ExecuTorch
import Foundation
import Tokenizers
import os

/// A line for each thing to do: `load`, folder, `once` or `always`, bytes of free memory; or `get`, address, folder, digest.
@main struct Main {
    static func main() async {
        let scripted = ScriptedModel([])
        Module.answers.names = Set(ModelFacts.methods.map(\.name))
        Module.answers.metadata = { name in
            let inputs = ModelFacts.methods.first { $0.name == name }!.inputs.enumerated()
            let known = inputs.map { ($0, TensorMetadata(shape: $1.shape, dataType: .half)) }
            return MethodMetadata(name: name, inputs: Dictionary(uniqueKeysWithValues: known))
        }
        Module.answers.execute = { try scripted.execute($0, $1) }
        AutoTokenizer.loaded = ByteTokenizer()
        while let line = readLine() {
            let words = line.components(separatedBy: "\t")
            let said = await outcome { if words[0] == "load" { try await load(words) } else { try await get(words) } }
            FileHandle.standardOutput.write(Data("\(said.replacingOccurrences(of: "\n", with: " "))\n".utf8))
        }
    }

    private static func load(_ words: [String]) async throws {
        availableMemoryForTests = Int(words[3]) ?? 0
        let folder = URL(fileURLWithPath: words[1])
        _ = try await EdgecModel.load(LoadOptions(bundle: folder, hashAlways: words[2] == "always"))
    }

    private static func get(_ words: [String]) async throws {
        let options = DownloadOptions(attempts: 2, refetches: 1, timeout: 1.5, retryDelay: 0.002)
        let digest = words[3] == "own" ? ModelFacts.digest : words[3]
        let folder = URL(fileURLWithPath: words[2])
        try await BundleDownload(URL(string: words[1])!, to: folder, digest: digest, options: options).download()
    }

    /// Errors that are not for apps are named by themselves.
    private static func outcome(_ act: @Sendable () async throws -> Void) async -> String {
        do {
            try await act()
            return "done\t\t"
        } catch EdgecError.signatureRefused(let code, let why) {
            return "SignatureRefused\t\(code)\t\(why)"
        } catch EdgecError.bundleDoesNotFit(let parts) {
            return "BundleDoesNotFit\t\t\(parts.joined(separator: ", "))"
        } catch {
            let name = "\(error)".prefix { $0.isLetter }
            return "\(name.prefix(1).uppercased())\(name.dropFirst())\t\t\(error)"
        }
    }
}
