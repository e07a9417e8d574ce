use proptest::prelude::*;

use super::{Decoder, FrameTooLong, KEEP_ALIVE, frame};

type Owned = (Option<String>, Option<String>);

/// Everything that a decoder gives for these chunks, the end's leniency among it.
fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
    let mut decoder = Decoder::new(1 << 20);
    let mut frames = Vec::new();
    let own = |frame: super::Frame<'_>| (frame.name.map(Into::into), frame.data.map(Into::into));
    for mut chunk in chunks {
        while let Some(frame) = decoder.next(&mut chunk).unwrap() {
            frames.push(own(frame));
        }
        assert!(chunk.is_empty());
    }
    frames.extend(decoder.finish().map(own));
    frames
}

fn data(stream: &str) -> Vec<String> {
    decode([stream.as_bytes()]).into_iter().filter_map(|(_, data)| data).collect()
}

#[test]
fn all_three_line_endings_end_a_line() {
    for stream in [
        "data: a\n\ndata: b\n\n",
        "data: a\r\rdata: b\r\r",
        "data: a\r\n\r\ndata: b\r\n\r\n",
        "data: a\n\r\ndata: b\r\n\n",
    ] {
        assert_eq!(data(stream), ["a", "b"], "{stream:?}");
    }
}

#[test]
fn a_carriage_return_and_a_line_feed_in_two_chunks_are_one_ending() {
    let chunks: [&[u8]; 4] = [b"data: a\r", b"\ndata: b\r\n\r", b"\ndata: c\r\n\r", b"\n"];
    assert_eq!(decode(chunks), [(None, Some("a\nb".into())), (None, Some("c".into()))]);
}

#[test]
fn a_blank_line_that_ends_with_a_carriage_return_gives_the_frame_at_once() {
    let mut decoder = Decoder::new(100);
    let mut input: &[u8] = b"data: a\r\r";
    assert!(decoder.next(&mut input).unwrap().is_some());
}

#[test]
fn fields_comments_and_the_optional_space_are_read_as_the_standard_says() {
    assert_eq!(data("data:a\ndata:  b\ndata\nid: 7\nretry: 1\n: note\nunknown: x\nnocolon\ndata : c\n\n"), ["a\n b\n"]);
    assert_eq!(data("data\n\ndata\ndata\n\ndata:"), ["", "\n", ""]);
    assert_eq!(
        decode([&b"event: a\nevent: b\ndata: x\n\nevent:\ndata: y\n\n"[..]]),
        [(Some("b".into()), Some("x".into())), (None, Some("y".into())),]
    );
    assert_eq!(decode([&b"\n\n: only\n\nid: 1\n\n"[..]]), []);
}

#[test]
fn only_a_leading_byte_order_mark_is_dropped() {
    assert_eq!(data("\u{feff}data: a\n\n\u{feff}data: b\n\ndata: \u{feff}c\n\n"), ["a", "\u{feff}c"]);
    assert_eq!(decode([&b"\xef"[..], b"\xbb", b"\xbfdata: a\n\n"]), [(None, Some("a".into()))]);
}

#[test]
fn a_name_without_data_is_a_frame() {
    assert_eq!(decode([&b"event: end\n\nevent: end"[..]]), [(Some("end".into()), None), (Some("end".into()), None)]);
}

#[test]
fn the_end_gives_what_it_cut_off_once() {
    let mut decoder = Decoder::new(100);
    let mut input: &[u8] = b"data: a\n\ndata: b";
    while decoder.next(&mut input).unwrap().is_some() {}
    assert_eq!(decoder.finish().unwrap().data.unwrap(), "b");
    assert_eq!(decoder.finish(), None);
}

#[test]
fn bytes_that_are_no_utf8_become_replacement_characters() {
    assert_eq!(decode([&b"data: a\xffb\xc3"[..], b"\xa9\n\n"]), [(None, Some("a\u{fffd}b\u{e9}".into()))]);
}

#[test]
fn a_frame_over_the_limit_is_an_error_however_it_is_made() {
    for stream in [
        "data: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n\n",
        &"data\n".repeat(50),
        &"x".repeat(50),
        &": x".repeat(20),
    ] {
        let mut decoder = Decoder::new(40);
        let mut input = stream.as_bytes();
        let result = loop {
            match decoder.next(&mut input) {
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        assert_eq!(result, Err(FrameTooLong(40)), "{stream:?}");
    }
    let mut decoder = Decoder::new(40);
    let many = "data: 0123456789\n\n".repeat(100);
    let mut input = many.as_bytes();
    let mut frames = 0;
    while decoder.next(&mut input).unwrap().is_some() {
        frames += 1;
    }
    assert_eq!(frames, 100, "the limit counts a frame, not the stream");
}

#[test]
fn frames_leave_with_line_feeds_only_and_one_line_of_data() {
    let mut out = Vec::new();
    frame(&mut out, "done", r#"{"event":"done"}"#);
    assert_eq!(out, b"event: done\ndata: {\"event\":\"done\"}\n\n");
    assert_eq!(KEEP_ALIVE, b": keep-alive\n");
}

/// Streams with everything that matters to a decoder, more often than chance would have it.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(b"data:".to_vec()),
        Just(b"event: ".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b":".to_vec()),
        Just("\u{feff}".as_bytes().to_vec()),
        Just("é😀".as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_where_the_stream_is_cut(stream in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let whole = decode([&stream[..]]);
        prop_assert_eq!(&decode(stream.chunks(1)), &whole);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        prop_assert_eq!(decode(cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]])), whole);
    }

    #[test]
    fn what_is_encoded_decodes_to_itself(frames in prop::collection::vec(("[a-z.]{1,12}", "[^\r]{0,40}"), 0..10), keep_alive in any::<bool>()) {
        let mut stream = Vec::new();
        for (name, data) in &frames {
            if keep_alive {
                stream.extend_from_slice(KEEP_ALIVE);
            }
            frame(&mut stream, name, data);
        }
        let expected: Vec<Owned> = frames.into_iter().map(|(name, data)| (Some(name), Some(data))).collect();
        prop_assert_eq!(decode([&stream[..]]), expected);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic_or_grow(stream in prop::collection::vec(any::<u8>(), 0..500), limit in 0usize..60) {
        let mut decoder = Decoder::new(limit);
        for mut chunk in stream.chunks(7) {
            while let Ok(Some(frame)) = decoder.next(&mut chunk) {
                prop_assert!(frame.data.map_or(0, |data| data.len()) <= limit * 3);
            }
        }
        decoder.finish();
    }
}
