//! `Sequence`: JSON values in a row, cut out of bytes that come in any pieces.

/// Cuts values apart: one a line, back to back, or the elements of one array. It reads each byte once and buffers one
/// value at most.
#[derive(Debug)]
pub(crate) struct Sequence {
    limit: usize,
    value: Vec<u8>,
    inside: Inside,
    /// Brackets that are open within the value.
    depth: usize,
    /// The values are the elements of an array that is not closed yet.
    in_array: bool,
    at_start: bool,
    /// The value was handed out.
    given: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// Between two values.
    Nothing,
    Brackets,
    String,
    Escape,
    /// A number, a literal, or nonsense.
    Scalar,
}

/// A value is larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValueTooLong;

impl Sequence {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            value: Vec::new(),
            inside: Inside::Nothing,
            depth: 0,
            in_array: false,
            at_start: true,
            given: false,
        }
    }

    /// Reads on in `input` up to the end of the next value; `None` once all of it is read.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Result<Option<&[u8]>, ValueTooLong> {
        self.forget_given();
        while let Some((byte, rest)) = input.split_first() {
            let ends = self.inside == Inside::Scalar && is_border(*byte);
            if !ends {
                *input = rest;
                self.take(*byte)?;
            }
            if ends || (self.inside == Inside::Nothing && !self.value.is_empty()) {
                return Ok(Some(self.give()));
            }
        }
        Ok(None)
    }

    /// The value that only the end of the input ends.
    pub(crate) fn finish(&mut self) -> Option<&[u8]> {
        self.forget_given();
        (self.inside == Inside::Scalar).then(|| self.give())
    }

    /// Whether the input may not end here.
    pub(crate) fn is_cut(&self) -> bool {
        self.in_array || !matches!(self.inside, Inside::Nothing | Inside::Scalar)
    }

    fn take(&mut self, byte: u8) -> Result<(), ValueTooLong> {
        self.inside = match (self.inside, byte) {
            (Inside::Nothing, _) => match self.begin(byte) {
                Inside::Nothing => return Ok(()),
                begun => begun,
            },
            (Inside::String, b'\\') => Inside::Escape,
            (Inside::String, b'"') if self.depth == 0 => Inside::Nothing,
            (Inside::String, b'"') => Inside::Brackets,
            (Inside::Escape, _) | (Inside::Brackets, b'"') => Inside::String,
            (Inside::Brackets, b'{' | b'[') => {
                self.depth += 1;
                Inside::Brackets
            }
            (Inside::Brackets, b'}' | b']') => {
                self.depth -= 1;
                if self.depth == 0 { Inside::Nothing } else { Inside::Brackets }
            }
            (inside, _) => inside,
        };
        self.value.push(byte);
        if self.value.len() > self.limit { Err(ValueTooLong) } else { Ok(()) }
    }

    /// What a byte between two values begins.
    fn begin(&mut self, byte: u8) -> Inside {
        let at_start = self.at_start;
        self.at_start &= byte.is_ascii_whitespace();
        match byte {
            _ if byte.is_ascii_whitespace() => Inside::Nothing,
            b'[' if at_start => {
                self.in_array = true;
                Inside::Nothing
            }
            b',' if self.in_array => Inside::Nothing,
            b']' if self.in_array => {
                self.in_array = false;
                Inside::Nothing
            }
            b'{' | b'[' => {
                self.depth = 1;
                Inside::Brackets
            }
            b'"' => Inside::String,
            _ => Inside::Scalar,
        }
    }

    fn give(&mut self) -> &[u8] {
        self.inside = Inside::Nothing;
        self.given = true;
        &self.value
    }

    fn forget_given(&mut self) {
        if std::mem::take(&mut self.given) {
            self.value.clear();
        }
    }
}

fn is_border(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | b'{' | b'[' | b']' | b'"')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The values of an input in pieces of this size, and whether it may not end where it does.
    fn values(input: &[u8], size: usize) -> (Vec<String>, bool) {
        let mut sequence = Sequence::new(1000);
        let mut values = Vec::new();
        for mut piece in input.chunks(size) {
            while let Some(value) = sequence.next(&mut piece).unwrap() {
                values.push(String::from_utf8_lossy(value).into_owned());
            }
        }
        values.extend(sequence.finish().map(|value| String::from_utf8_lossy(value).into_owned()));
        (values, sequence.is_cut())
    }

    #[test]
    fn lines_values_back_to_back_and_elements_of_an_array_are_values() {
        let expected = [r#"{"a":"}\""}"#, r#"[1,{"b":[]}]"#, r#""x\\""#, "12", "true"];
        for input in [
            "{\"a\":\"}\\\"\"}\r\n\n[1,{\"b\":[]}]\n\"x\\\\\"\n12\ntrue",
            "{\"a\":\"}\\\"\"}[1,{\"b\":[]}]\"x\\\\\"12 true\n",
            " [ {\"a\":\"}\\\"\"} ,\n[1,{\"b\":[]}],\"x\\\\\",12,true]",
        ] {
            assert_eq!(values(input.as_bytes(), 1000), (expected.map(str::to_owned).into(), false), "{input}");
        }
    }

    #[test]
    fn an_open_value_or_array_is_cut() {
        for input in ["{\"a\":", "[{\"a\":1},", "[", "\"abc", "{\"a\":\"\\"] {
            assert!(values(input.as_bytes(), 1000).1, "{input}");
        }
    }

    #[test]
    fn a_value_over_the_limit_is_refused() {
        let mut sequence = Sequence::new(10);
        assert_eq!(sequence.next(&mut &b"{\"a\":1}\n"[..]), Ok(Some(&b"{\"a\":1}"[..])));
        assert_eq!(sequence.next(&mut &b"{\"a\":12345}"[..]), Err(ValueTooLong));
    }

    proptest! {
        #[test]
        fn values_do_not_depend_on_where_the_input_is_cut(input in "[]\\[{}\",:a1\\\\ \n]{0,60}", size in 1usize..6) {
            prop_assert_eq!(values(input.as_bytes(), size), values(input.as_bytes(), 1000));
        }
    }
}
