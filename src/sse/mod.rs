//! Server-sent events on the wire: bytes cut anywhere become whole frames, and frames become bytes.

pub mod decode;
pub mod encode;

pub use decode::{Decoder, Frame, FrameTooLong};
pub use encode::{KEEP_ALIVE, frame};

#[cfg(test)]
mod tests;
