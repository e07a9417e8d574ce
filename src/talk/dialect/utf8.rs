//! `Utf8`: bytes of text, cut anywhere, as characters.

/// Decodes text piece by piece. Bytes that are not UTF-8 become U+FFFD.
#[derive(Debug, Default)]
pub(crate) struct Utf8 {
    /// The begin of a character: three bytes at most.
    held: Vec<u8>,
}

impl Utf8 {
    /// The characters that are whole after these bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.held.len());
        let mut whole = 0;
        for chunk in self.held.utf8_chunks() {
            text.push_str(chunk.valid());
            whole += chunk.valid().len();
            let invalid = chunk.invalid();
            let at_end = whole + invalid.len() == self.held.len();
            if at_end && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none()) {
                break;
            }
            if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                whole += invalid.len();
            }
        }
        self.held.drain(..whole);
        text
    }

    /// What was held, once nothing more comes.
    pub(crate) fn rest(&mut self) -> Option<char> {
        (!std::mem::take(&mut self.held).is_empty()).then_some(char::REPLACEMENT_CHARACTER)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_does_not_depend_on_where_it_is_cut(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0xc0u8..0xf8, 0x80u8..0xc0], 0..60), size in 1usize..5) {
            let mut decoder = Utf8::default();
            let mut text: String = bytes.chunks(size).map(|chunk| decoder.push(chunk)).collect();
            text.extend(decoder.rest());
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
