//! The functions that flate2 asks of zlib-ng, answered by zlib.
pub use libz_sys::*;
