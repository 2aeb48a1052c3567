"""Paragraphs of a Swift package's README, by what the bundle has."""

from __future__ import annotations

from typing import Final

BENCH_FOLDER: Final = " The bundle is a folder of this app: nothing is downloaded to measure."
ENGINE: Final = """
## Engine

The artifact needs edgec's kernels: `Sources/@@module@@Engine` holds them and edgec's engine as C++, over the runtime
of ExecuTorch's package (branch `@@branch@@`). Xcode compiles them with the package, which must be a local one (`-O3`
is an unsafe flag to SwiftPM). Should the compiler not find `executorch/runtime/...` (on a disk that tells capital
letters apart it may not), put a checkout of ExecuTorch at the same version at
`Sources/@@module@@Engine/headers/executorch`. edgec's tests compile such sources for arm64 Apple and run the package
on Linux; no one has linked them with ExecuTorch's frameworks yet.
"""
SENSES: Final = """
## @@sense@@

Core ML runs the functions @@functions@@. `Sources/@@target@@` @@does@@: C++ of
edgec's engine without its kernels or any library. Xcode compiles it with the package, which must be a local one (`-O3`
is an unsafe flag to SwiftPM).
"""
ADAPTERS: Final = """
`try await model.useAdapter(file)` adds a LoRA adapter that `edgec adapter` made for this bundle, from the
next answer on; nil takes it away.
"""
OWN_ADAPTERS: Final = """
## Adapters

The artifact has functions under the adapters {names}: `try await model.useAdapter(named: "{first}")` uses one from
the next answer on, over the same weights; nil uses none. `ModelFacts.adapters` has the names.
"""
ACCEPTED: Final = (
    "  a text whose ids swift-transformers gets wrong is named by its label and can be accepted with\n"
    "  `LoadOptions.acceptedTexts`"
)
TEXTS: Final = """## Texts

A text has at most {most:,} tokens (`EncoderLimits.mostTokens`). A longer one throws `EdgecError.textTooLong`, unless
`embed(text, truncate: true)` cuts it as the model's tokenizer does. What the model's authors put before a text
(`EncoderLimits.prompts`) is named with `promptName`; without a name it is `defaultPrompt`, if there is one. Mask,
pooling and length of the vector are the model's own, as in `edgec run --embed` with the same bundle.
"""
FOUNDATION: Final = """
## Foundation Models

From iOS 27 on, this model can answer in the place of the system's own (built with Xcode 27; older ones skip it):

```swift
import FoundationModels

let session = LanguageModelSession(model: FoundationModel(try await EdgecModel.load()))
let answer = try await session.respond(to: "Hello")
```

`FoundationModel(model, schema:)` also answers with `Generable` values, held to a schema of the bundle that describes
the same. A session's tools have to be those of this package, by their names; images are refused.
"""
ANSWERED: Final = "; after an answer `lastTimings` holds the time to its first token and tokens/s"
TRANSCRIBED: Final = """let heard = try await model.transcribe(samples, sampleRate: SpeechLimits.samplingRate)
print(heard.text, heard.timings.speed)
for try await segment in model.segments(file: url) {  // a WAV file, segment by segment
    print(segment.start, segment.text)
}"""
SPEECH: Final = """## Speech

The text is that of `edgec run --audio` with the same bundle, @@cut@@. A sound has one channel
of @@sampling_rate@@ samples a second in -1..1 and lasts at most four hours (`SpeechLimits`); nothing is resampled.
`TranscriptionOptions` has language, task, timestamps and the tokens of a window. @@languages@@
Cancelling the task, or leaving the loop, stops before the next token. A sound that cannot be used is
`EdgecError.soundRefused`, which says what is wrong; `languageUnknown` and `transcriptionRefused` are the others.

The app states in its Info.plist why it records (`NSMicrophoneUsageDescription`), and asks for it:

```swift
guard await AVAudioApplication.requestRecordPermission() else { return }
try AVAudioSession.sharedInstance().setCategory(.record, mode: .measurement)
```

`AVAudioEngine` then gives buffers at the microphone's own rate; `AVAudioConverter` to one channel of `Float` at
`SpeechLimits.samplingRate` makes of them what `transcribe` reads.
"""
SAMPLE: Final = """## Sample

`Sample/EdgecChat.xcodeproj` is a conversation on one screen: progress of the first start, timings with each answer,
unloading, memory warnings, heat, background. `ChatModel.swift` is the part to copy; its logic was run on Linux over a
scripted model, the screen was only compiled over stand-ins.

"""
PICTURES: Final = "A button chooses pictures for the next message; that was only compiled.\n\n"
TRANSCRIBE: Final = """## Sample

`Sample/EdgecTranscribe.xcodeproj` records, or takes a WAV file of the Files app, and shows each segment as it comes;
with the steps of the first start, unloading, memory warnings, heat, background. `TranscribeModel.swift` is the part to
copy. It was compiled over stand-ins for Apple's frameworks and never run.

"""
