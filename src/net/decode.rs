//! `Decoder`: a body without its `Content-Encoding`, part by part.

use std::io::Write;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::{HeaderMap, header};

use super::Error;

/// Bytes that are decoded at a time. Deflate grows by 1032 at most, so a part that is handed out has 1 MiB at most.
const INPUT_PART: usize = 1 << 10;

/// What removes the coding of a body.
pub(super) enum Decoder {
    /// Gzip, however many members.
    Gzip(Box<Gzip>),
    /// One that was not asked for.
    Unknown,
}

pub(super) struct Gzip {
    stream: MultiGzDecoder<Vec<u8>>,
    input: Bytes,
    begun: bool,
}

impl Decoder {
    /// The decoder for an answer, whose head then speaks of the decoded body. `None` if it is not encoded.
    pub(super) fn of(headers: &mut HeaderMap) -> Option<Self> {
        let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
        let coding = codings.next()?.as_bytes().trim_ascii().to_ascii_lowercase();
        match coding.as_slice() {
            _ if codings.next().is_some() => Some(Self::Unknown),
            b"" | b"identity" => None,
            b"gzip" | b"x-gzip" => {
                headers.remove(header::CONTENT_ENCODING);
                headers.remove(header::CONTENT_LENGTH);
                Some(Self::Gzip(Box::new(Gzip::new())))
            }
            _ => Some(Self::Unknown),
        }
    }

    /// Takes what came. It has to be decoded before more is taken.
    pub(super) fn feed(&mut self, bytes: Bytes) {
        if let Self::Gzip(gzip) = self {
            gzip.begun = true;
            gzip.input = bytes;
        }
    }

    /// What can be decoded of it, 1 MiB at most; `None` once all is.
    pub(super) fn decoded(&mut self) -> Result<Option<Bytes>, Error> {
        let Self::Gzip(gzip) = self else {
            return Err(Error::Protocol("its answer has an encoding that nobody asked for"));
        };
        while !gzip.input.is_empty() {
            let part = gzip.input.split_to(INPUT_PART.min(gzip.input.len()));
            // Flushed so that an event that is complete is handed out although its stream goes on.
            gzip.stream.write_all(&part).and_then(|()| gzip.stream.flush()).map_err(|_| broken())?;
            if let Some(decoded) = gzip.take() {
                return Ok(Some(decoded));
            }
        }
        Ok(None)
    }

    /// What is left at the end of the body, which must be the end of the coding too.
    pub(super) fn end(&mut self) -> Result<Option<Bytes>, Error> {
        match self {
            Self::Gzip(gzip) if gzip.begun => {
                gzip.stream.try_finish().map_err(|_| Error::Truncated)?;
                Ok(gzip.take())
            }
            _ => Ok(None),
        }
    }
}

impl Gzip {
    fn new() -> Self {
        Self { stream: MultiGzDecoder::new(Vec::new()), input: Bytes::new(), begun: false }
    }

    fn take(&mut self) -> Option<Bytes> {
        let decoded = std::mem::take(self.stream.get_mut());
        if decoded.is_empty() { None } else { Some(decoded.into()) }
    }
}

fn broken() -> Error {
    Error::Protocol("its gzip can't be read")
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn decoder() -> Decoder {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("GZip"));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("10"));
        let decoder = Decoder::of(&mut headers).unwrap();
        assert!(headers.is_empty());
        decoder
    }

    fn decode(encoded: &[u8], step: usize) -> Result<Vec<u8>, Error> {
        let mut decoder = decoder();
        let mut whole = Vec::new();
        for part in encoded.chunks(step) {
            decoder.feed(Bytes::copy_from_slice(part));
            while let Some(decoded) = decoder.decoded()? {
                assert!(decoded.len() <= 1032 * INPUT_PART + (64 << 10));
                whole.extend_from_slice(&decoded);
            }
        }
        whole.extend(decoder.end()?.into_iter().flatten());
        Ok(whole)
    }

    proptest! {
        #[test]
        fn what_was_encoded_comes_back_however_it_is_cut(
            text in prop::collection::vec(0_u8..4, 0..5000),
            step in 1_usize..3000,
        ) {
            prop_assert_eq!(decode(&gzip(&text), step), Ok(text));
        }

        #[test]
        fn hostile_bytes_are_an_error_or_text_and_never_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 1..2000),
            step in 1_usize..3000,
        ) {
            let _ = decode(&bytes, step);
            let _ = decode(&[&gzip(b"hello"), bytes.as_slice()].concat(), step);
        }
    }

    #[test]
    fn an_event_is_handed_out_as_soon_as_its_stream_was_flushed() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut decoder = decoder();
        for event in ["data: one\n\n", "data: two\n\n"] {
            encoder.write_all(event.as_bytes()).unwrap();
            encoder.flush().unwrap();
            decoder.feed(std::mem::take(encoder.get_mut()).into());
            assert_eq!(decoder.decoded(), Ok(Some(event.into())));
            assert_eq!(decoder.decoded(), Ok(None));
        }
    }

    #[test]
    fn several_members_are_one_body_and_a_cut_one_is_truncated() {
        let both = [gzip(b"hello "), gzip(b"world")].concat();
        assert_eq!(decode(&both, 7), Ok(b"hello world".to_vec()));
        for cut in 1..both.len() {
            let decoded = decode(&both[..cut], 7);
            let whole = cut == gzip(b"hello ").len();
            assert_eq!(decoded.is_ok(), whole, "cut at {cut}: {decoded:?}");
        }
    }

    #[test]
    fn a_bomb_goes_off_in_small_parts() {
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 128 << 10);
        assert_eq!(decode(&bomb, 64 << 10).map(|whole| whole.len()), Ok(64 << 20));
    }

    #[test]
    fn other_codings_are_refused_when_they_are_read_and_none_is_none() {
        for codings in [&["br"][..], &["gzip, gzip"], &["gzip", "gzip"], &["deflate"]] {
            let mut headers = HeaderMap::new();
            for coding in codings {
                headers.append(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
            }
            let mut decoder = Decoder::of(&mut headers).unwrap();
            decoder.feed(Bytes::from_static(b"x"));
            assert!(matches!(decoder.decoded(), Err(Error::Protocol(_))), "{codings:?}");
        }
        assert!(Decoder::of(&mut HeaderMap::new()).is_none());
    }
}
