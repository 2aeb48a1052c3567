import Foundation

/// The measuring job, read from a JSON file that a transport puts into the app's Documents.
struct BenchJob: Decodable {
    /// Address of the device as edgec writes it, for example ios:UDID.
    let device: String
    let promptTokens: Int
    let newTokens: Int
    let warmups: Int
    let repetitions: Int
    let loads: Int
    let sustainedSeconds: Double
    let edgecVersion: String

    static func read(_ url: URL) throws -> BenchJob {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(BenchJob.self, from: Data(contentsOf: url))
    }
}
