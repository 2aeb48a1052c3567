
/// What `load` is doing; only at the first start of a bundle are its files hashed and its golden vectors replayed.
public enum LoadStep: Sendable, Equatable {
    /// Looking for the bundle, which the system may still have to download.
    case finding
    /// Hashing the bundle's files.
    case checking(bytes: Int, of: Int)
    /// Opening tokenizer and model.
    case loading
    /// Replaying the golden vectors.
    case comparing
}
