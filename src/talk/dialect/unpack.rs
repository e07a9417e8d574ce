//! `Unpack`: a body that comes compressed although the request asked for `identity`.

use std::io::Write;

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Bytes that are decompressed in one go. Deflate makes 1032 bytes of one at most, so this bounds what a read may
/// become to about 1 MiB.
pub(crate) const SLICE: usize = 1024;

/// A body's content coding (RFC 9110, section 8.4.1).
pub(crate) enum Unpack {
    Gzip(MultiGzDecoder<Vec<u8>>),
    /// By the standard with a zlib header.
    Zlib(ZlibDecoder<Vec<u8>>),
    /// In practice often without.
    Deflate(DeflateDecoder<Vec<u8>>),
    /// Not known before the first byte.
    ZlibOrDeflate,
}

/// The body's coding is unknown, or the body is not what its coding says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Unpack {
    /// For a `Content-Encoding`; `None` for `identity`.
    pub(crate) fn new(coding: &str) -> Result<Option<Self>, Unreadable> {
        match coding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Self::Gzip(MultiGzDecoder::new(Vec::new())))),
            "deflate" => Ok(Some(Self::ZlibOrDeflate)),
            _ => Err(Unreadable),
        }
    }

    /// What these bytes add; a caller gives [`SLICE`] at most.
    pub(crate) fn push(&mut self, slice: &[u8]) -> Result<Vec<u8>, Unreadable> {
        if let (Self::ZlibOrDeflate, Some(first)) = (&self, slice.first()) {
            // The method of a zlib header is 8, which no first block of raw deflate has.
            *self = match first & 0x0f {
                8 => Self::Zlib(ZlibDecoder::new(Vec::new())),
                _ => Self::Deflate(DeflateDecoder::new(Vec::new())),
            };
        }
        match self {
            Self::Gzip(gzip) => write(gzip, slice, MultiGzDecoder::get_mut),
            Self::Zlib(zlib) => write(zlib, slice, ZlibDecoder::get_mut),
            Self::Deflate(deflate) => write(deflate, slice, DeflateDecoder::get_mut),
            Self::ZlibOrDeflate => Ok(Vec::new()),
        }
    }
}

fn write<W: Write>(coder: &mut W, slice: &[u8], inner: impl Fn(&mut W) -> &mut Vec<u8>) -> Result<Vec<u8>, Unreadable> {
    coder.write_all(slice).and_then(|()| coder.flush()).map_err(|_| Unreadable)?;
    Ok(std::mem::take(inner(coder)))
}

impl std::fmt::Debug for Unpack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gzip(_) => "Gzip",
            Self::Zlib(_) => "Zlib",
            Self::Deflate(_) => "Deflate",
            Self::ZlibOrDeflate => "ZlibOrDeflate",
        })
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn unpacked(coding: &str, packed: &[u8], size: usize) -> Result<Vec<u8>, Unreadable> {
        let mut unpack = Unpack::new(coding)?.unwrap();
        let pieces: Result<Vec<_>, _> = packed.chunks(size).map(|slice| unpack.push(slice)).collect();
        Ok(pieces?.concat())
    }

    #[test]
    fn gzip_zlib_and_raw_deflate_are_read_however_they_are_cut() {
        let plain = "data: Hé 😀\n\n".repeat(50).into_bytes();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
        for half in plain.chunks(200) {
            for coder in [&mut gzip as &mut dyn Write, &mut zlib, &mut deflate] {
                coder.write_all(half).and_then(|()| coder.flush()).unwrap();
            }
        }
        for size in [1, 3, 1024] {
            assert_eq!(unpacked("gzip", &gzip.get_ref()[..], size).unwrap(), plain);
            assert_eq!(unpacked("X-GZip", &gzip.get_ref()[..], size).unwrap(), plain);
            assert_eq!(unpacked("deflate", &zlib.get_ref()[..], size).unwrap(), plain);
            assert_eq!(unpacked("deflate", &deflate.get_ref()[..], size).unwrap(), plain);
        }
    }

    #[test]
    fn other_codings_and_other_bytes_are_unreadable() {
        assert!(Unpack::new("identity").unwrap().is_none());
        assert!(matches!(Unpack::new("br"), Err(Unreadable)));
        assert!(matches!(Unpack::new("gzip, br"), Err(Unreadable)));
        assert_eq!(unpacked("gzip", b"data: {}\n\n and more of it", 1024), Err(Unreadable));
    }

    #[test]
    fn one_slice_becomes_a_megabyte_at_most() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        for _ in 0..50 {
            gzip.write_all(&vec![0; 1 << 20]).unwrap();
        }
        let bomb = gzip.finish().unwrap();
        let mut unpack = Unpack::new("gzip").unwrap().unwrap();
        for slice in bomb.chunks(SLICE) {
            assert!(unpack.push(slice).unwrap().len() <= 2 << 20);
        }
    }
}
