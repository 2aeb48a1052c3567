import Foundation

/// The parts that need no model, over cases whose results Python knows.
struct Pieces: Decodable {
    struct Stops: Decodable { let stops, pieces: [String] }
    /// Token n is the bytes of part n; the first ones are the prompt.
    struct Stream: Decodable {
        let parts: [[UInt8]]
        let prompt: Int
    }
    struct Choice: Decodable {
        let logits: [Float]
        let seen: [Int]
        let temperature, topP, minP, repetitionPenalty: Float
        let topK: Int
    }

    let stops: [Stops]
    let streams: [Stream]
    let choices: [Choice]

    func stopped() -> [[String?]] {
        stops.map { one in
            var filter = StopText(one.stops)
            var shown = ""
            for piece in one.pieces where filter.hit == nil { shown += filter.feed(piece) }
            if filter.hit == nil { shown += filter.flush() }
            return [shown, filter.hit]
        }
    }

    func streamed() -> [[String]] {
        streams.map { one in
            // As SentencePiece's decoders do, it drops leading spaces.
            var stream = TextStream(after: Array(0..<one.prompt)) { tokens in
                let text = String(decoding: tokens.flatMap { one.parts[$0] }, as: UTF8.self).unicodeScalars
                return String(String.UnicodeScalarView(text.drop { $0 == " " }))
            }
            return (one.prompt..<one.parts.count).map { stream.push($0) } + [stream.flush()]
        }
    }

    /// Greedily the token; otherwise all that may be drawn, and twice 20 draws of one seed.
    func chosen() -> [[[Int]]] {
        choices.map { one in
            let options = GenerationOptions(
                temperature: one.temperature, topK: one.topK, topP: one.topP, minP: one.minP,
                repetitionPenalty: one.repetitionPenalty, seed: 7)
            if one.temperature == 0 {
                var sampler = Sampler(options, after: one.seen)
                return [[sampler.next(one.logits)]]
            }
            return [Self.kept(one, options)] + (0..<2).map { _ in
                var sampler = Sampler(options, after: one.seen)
                return (0..<20).map { _ in sampler.next(one.logits) }
            }
        }
    }

    private static func kept(_ one: Choice, _ options: GenerationOptions) -> [Int] {
        var scores = one.logits
        for token in Set(one.seen) {
            let score = scores[token]
            scores[token] = score < 0 ? score * one.repetitionPenalty : score / one.repetitionPenalty
        }
        let best = scores.max()!
        return Sampler.candidates(scores.map { exp(Double($0 - best) / Double(one.temperature)) }, options).sorted()
    }
}
