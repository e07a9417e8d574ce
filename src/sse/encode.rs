//! Frames → bytes, in the one form that every client reads: LF only, a name, one line of data, a blank line.

/// A comment that keeps a connection alive between two frames.
///
/// There is no blank line after it: clients that split on blank lines alone would take it for an empty frame.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n";

/// Appends a frame. JSON stays one `data:` line; other text is cut at its line feeds, as the standard wants it.
///
/// `name` holds no line ending.
pub fn frame(out: &mut Vec<u8>, name: &str, data: &str) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    for line in data.split('\n') {
        out.extend_from_slice(b"\ndata: ");
        out.extend_from_slice(line.as_bytes());
    }
    out.extend_from_slice(b"\n\n");
}
