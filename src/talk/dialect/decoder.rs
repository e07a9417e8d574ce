//! `Decoder`: the bytes of an upstream's reply, cut anywhere, as events.

use std::sync::Arc;

use super::event_stream::EventStream;
use super::json::{self, NotJson};
use super::reply::Reply;
use super::sequence::Sequence;
use super::sniff::{Shape, Sniff};
use super::unpack::{SLICE, Unpack};
use super::utf8::Utf8;
use super::{Dialect, Event, Fault, Framing, Saved, UpstreamHead};
use crate::sse;

/// Bytes of one frame of a stream.
const FRAME_MAX: usize = 4 << 20;
/// Bytes that one read of a compressed body may become.
const UNPACKED_MAX: usize = 4 << 20;

/// Reads one reply.
#[derive(Debug)]
pub(crate) struct Decoder {
    unpack: Option<Unpack>,
    framer: Framer,
    reply: Reply,
    limit: usize,
}

#[derive(Debug)]
enum Framer {
    Sniff(Sniff),
    Events(sse::Decoder),
    Sequence(Sequence),
    Whole(Vec<u8>),
    Text(Utf8),
    Binary(EventStream),
}

impl Decoder {
    /// For the reply to a request that asked for a stream or did not. `limit` bounds the bytes of its text, and of a
    /// body that is read whole.
    pub(crate) fn new(
        dialect: Arc<Dialect>,
        streamed: bool,
        head: &UpstreamHead,
        limit: usize,
        saved: Saved,
    ) -> Result<Self, Fault> {
        let unpack = Unpack::new(&head.content_encoding).map_err(|_| unreadable())?;
        let asked = dialect.block(streamed).framing;
        let may_stream = match asked {
            Framing::Text => dialect.stream.as_ref().is_some_and(|stream| stream.framing == Framing::Sse),
            _ => dialect.streams(),
        };
        let framer = Framer::Sniff(Sniff::new(asked, may_stream, &head.content_type));
        Ok(Self { unpack, framer, reply: Reply::new(dialect, streamed, limit, saved), limit })
    }

    /// The reply as far as it was read.
    pub(crate) fn reply(&self) -> &Reply {
        &self.reply
    }

    /// Takes bytes, as far as the reply goes. What they bring is appended to `events`, also in front of a failure.
    pub(crate) fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), Fault> {
        let Some(unpack) = &mut self.unpack else {
            return read(&mut self.framer, &mut self.reply, self.limit, bytes, events);
        };
        let mut unpacked = 0;
        for slice in bytes.chunks(SLICE) {
            let plain = unpack.push(slice).map_err(|_| unreadable())?;
            unpacked += plain.len();
            if unpacked > UNPACKED_MAX {
                return Err(Fault::too_large(UNPACKED_MAX));
            }
            read(&mut self.framer, &mut self.reply, self.limit, &plain, events)?;
        }
        Ok(())
    }

    /// The upstream closed, cleanly or not.
    pub(crate) fn finish(&mut self, clean: bool, events: &mut Vec<Event>) -> Result<(), Fault> {
        let Self { framer, reply, limit, .. } = self;
        if let Framer::Sniff(sniff) = framer {
            let seen = sniff.take_seen();
            if seen.is_empty() && clean && !reply.block().eof_ok {
                return Err(empty());
            }
            *framer = Framer::for_framing(reply.block().framing, *limit);
            read(framer, reply, *limit, &seen, events)?;
        }
        let mut cut = false;
        match framer {
            Framer::Sniff(_) => {}
            Framer::Events(decoder) => {
                // A frame without its blank line counts, unless it is cut somewhere else.
                if let Some(frame) = decoder.finish().filter(|_| clean) {
                    match payload(reply, frame.name.as_deref(), frame.data.as_deref(), events) {
                        Err(Unread::NotJson) => cut = true,
                        read => read?,
                    }
                }
            }
            Framer::Sequence(sequence) => {
                if let Some(value) = sequence.finish() {
                    values(reply, None, &String::from_utf8_lossy(value), events).map_err(Fault::from)?;
                }
                cut = sequence.is_cut();
            }
            Framer::Whole(body) => {
                let read = whole(reply, body, events);
                return match read {
                    Err(Unread::NotJson) if !clean => Err(Fault::broken_off()),
                    Ok(()) if reply.pending().is_some() => Ok(()),
                    // A body that could be parsed is whole, however the connection ended.
                    Ok(()) => reply.finish(true, events),
                    Err(unread) => Err(unread.into()),
                };
            }
            Framer::Text(utf8) => {
                if let Some(rest) = utf8.rest() {
                    reply.plain(rest.encode_utf8(&mut [0; 4]), events)?;
                }
            }
            Framer::Binary(stream) => cut = stream.is_cut(),
        }
        reply.finish(clean && !cut, events)
    }

    /// The end is proven, and no more is waited for.
    pub(crate) fn settle(&mut self, events: &mut Vec<Event>) -> Result<(), Fault> {
        self.reply.finish(true, events)
    }
}

impl Framer {
    fn for_framing(framing: Framing, limit: usize) -> Self {
        match framing {
            Framing::Sse => Self::Events(sse::Decoder::new(FRAME_MAX)),
            Framing::JsonSeq => Self::Sequence(Sequence::new(FRAME_MAX)),
            Framing::Json => Self::Whole(Vec::with_capacity(limit.min(1024))),
            Framing::Text => Self::Text(Utf8::default()),
            Framing::AwsEventStream => Self::Binary(EventStream::new(FRAME_MAX)),
        }
    }
}

fn read(
    framer: &mut Framer,
    reply: &mut Reply,
    limit: usize,
    mut bytes: &[u8],
    events: &mut Vec<Event>,
) -> Result<(), Fault> {
    if let Framer::Sniff(sniff) = framer {
        let Some(shape) = sniff.push(&mut bytes) else {
            return Ok(());
        };
        let seen = sniff.take_seen();
        let asked = reply.block().framing;
        let framing = match shape {
            Shape::Page => {
                return Err(Fault::upstream("the service behind this agent sent a web page in place of a reply"));
            }
            Shape::Asked => asked,
            Shape::AskedAsEvents => Framing::Sse,
            Shape::Events => {
                reply.read_as(true);
                Framing::Sse
            }
            Shape::Sequence => {
                reply.read_as(true);
                Framing::JsonSeq
            }
            Shape::Whole => {
                reply.read_as(false);
                Framing::Json
            }
        };
        *framer = Framer::for_framing(framing, limit);
        read(framer, reply, limit, &seen, events)?;
    }
    match framer {
        Framer::Sniff(_) => Ok(()),
        Framer::Events(decoder) => {
            while !reply.is_stopped()
                && let Some(frame) = decoder.next(&mut bytes).map_err(|_| frame_too_long())?
            {
                payload(reply, frame.name.as_deref(), frame.data.as_deref(), events)?;
            }
            Ok(())
        }
        Framer::Sequence(sequence) => {
            while !reply.is_stopped()
                && let Some(value) = sequence.next(&mut bytes).map_err(|_| frame_too_long())?
            {
                values(reply, None, &String::from_utf8_lossy(value), events)?;
            }
            Ok(())
        }
        Framer::Binary(stream) => {
            while !reply.is_stopped()
                && let Some(frame) = stream
                    .next(&mut bytes)
                    .map_err(|_| Fault::upstream("the service behind this agent sent a broken binary frame"))?
            {
                payload(reply, Some(&frame.name), Some(&String::from_utf8_lossy(&frame.payload)), events)?;
            }
            Ok(())
        }
        Framer::Whole(body) => {
            if body.len() + bytes.len() > limit {
                return Err(Fault::too_large(limit));
            }
            body.extend_from_slice(bytes);
            Ok(())
        }
        Framer::Text(utf8) => {
            let text = utf8.push(bytes);
            reply.plain(&text, events)?;
            if !text.is_empty() {
                frame_done(events);
            }
            Ok(())
        }
    }
}

/// Why a frame could not be read.
enum Unread {
    /// Its data is no JSON; at the end of the stream it may be cut.
    NotJson,
    Fault(Fault),
}

impl From<Fault> for Unread {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Unread> for Fault {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::NotJson => Self::upstream("the service behind this agent sent data that is not valid JSON"),
            Unread::Fault(fault) => fault,
        }
    }
}

/// A frame of a stream: nothing, a comment in disguise, the sentinel, or JSON.
fn payload(reply: &mut Reply, name: Option<&str>, data: Option<&str>, events: &mut Vec<Event>) -> Result<(), Unread> {
    let data = data.unwrap_or_default().trim();
    if data.is_empty() || data.starts_with(':') {
        if reply.frame_without_data(name, events)? {
            frame_done(events);
        }
        return Ok(());
    }
    if reply.block().sentinel.as_deref().is_some_and(|sentinel| data.starts_with(sentinel)) {
        reply.sentinel();
        return Ok(());
    }
    values(reply, name, data, events)
}

/// The JSON values of a frame, of which each is one event.
fn values(reply: &mut Reply, name: Option<&str>, data: &str, events: &mut Vec<Event>) -> Result<(), Unread> {
    let read = json::read(data, |values, marked| {
        for value in values {
            if reply.is_stopped() {
                break;
            }
            reply.frame(name, value, marked, events)?;
            frame_done(events);
        }
        Ok(())
    });
    match read {
        Ok(read) => read.map_err(Unread::Fault),
        Err(NotJson) => Err(reply.named_error(name, data).map_or(Unread::NotJson, Unread::Fault)),
    }
}

/// A body that holds all of a reply.
fn whole(reply: &mut Reply, body: &[u8], events: &mut Vec<Event>) -> Result<(), Unread> {
    one_value(reply, String::from_utf8_lossy(body).trim(), events)?;
    if reply.pending().is_some() {
        return Ok(());
    }
    if !reply.is_complete() && !reply.block().eof_ok {
        return Err(Unread::Fault(Fault::upstream(
            "the answer of the service behind this agent has no reply where its dialect looks for one",
        )));
    }
    frame_done(events);
    Ok(())
}

fn one_value(reply: &mut Reply, text: &str, events: &mut Vec<Event>) -> Result<(), Unread> {
    let read = json::read(text, |values, marked| {
        let [value] = values else {
            return Err(Unread::NotJson);
        };
        // JSON that was encoded twice.
        if let Some(inner) = value.as_str().filter(|text| text.starts_with(['{', '['])) {
            match one_value(reply, inner, events) {
                Err(Unread::NotJson) => {}
                read => return read,
            }
        }
        Ok(reply.frame(None, value, marked, events)?)
    });
    read.unwrap_or(Err(Unread::NotJson))
}

fn frame_done(events: &mut Vec<Event>) {
    if events.last() != Some(&Event::Frame) {
        events.push(Event::Frame);
    }
}

fn empty() -> Fault {
    Fault::upstream("the service behind this agent sent an empty reply")
}

fn frame_too_long() -> Fault {
    Fault::upstream(format!("a frame of the service behind this agent is larger than {FRAME_MAX} bytes"))
}

fn unreadable() -> Fault {
    Fault::upstream("the service behind this agent sent a compressed reply that can't be read")
}
