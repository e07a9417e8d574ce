//! `HopCount`: how many intermediaries a request has come through, as `CDN-Loop` has it (RFC 8586).

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries the count.
pub const HEADER: HeaderName = HeaderName::from_static("cdn-loop");

/// Hops after which a request is taken to go round in circles.
pub const LIMIT: usize = 8;

/// What this gateway adds to the list.
const NAME: &str = "restap-gateway";

/// A request that has come through fewer than [`LIMIT`] intermediaries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HopCount {
    hops: Vec<Box<str>>,
}

/// Agents call each other in a circle: 508 `loop_detected`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the request has come through {LIMIT} gateways, so it most likely goes in a circle: see which agents call each other"
)]
pub struct LoopDetected;

impl HopCount {
    /// Counts every entry, whoever added it: a circle may lead through other intermediaries.
    pub fn read(headers: &HeaderMap) -> Result<Self, LoopDetected> {
        let values = headers.get_all(HEADER).iter().filter_map(|value| value.to_str().ok());
        let entries = values.flat_map(|value| value.split(',')).map(str::trim).filter(|entry| !entry.is_empty());
        let hops: Vec<_> = entries.take(LIMIT).map(Box::from).collect();
        if hops.len() < LIMIT { Ok(Self { hops }) } else { Err(LoopDetected) }
    }

    /// The header of a request that this one leads to: the list with this gateway added.
    pub fn next(&self) -> HeaderValue {
        let list = self.hops.iter().fold(String::new(), |list, hop| list + hop + ", ") + NAME;
        HeaderValue::try_from(list).unwrap_or(HeaderValue::from_static(NAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(hops: usize) -> HeaderMap {
        std::iter::repeat_n((HEADER, HeaderValue::from_static("some-cdn; v=1")), hops).collect()
    }

    #[test]
    fn every_gateway_adds_itself_behind_those_before_it() {
        assert_eq!(HopCount::default().next(), "restap-gateway");
        let mut headers = through(1);
        headers.append(HEADER, HeaderValue::from_static("a, b"));
        assert_eq!(HopCount::read(&headers).unwrap().next(), "some-cdn; v=1, a, b, restap-gateway");
    }

    #[test]
    fn the_eighth_hop_is_the_last() {
        assert!(HopCount::read(&through(LIMIT - 1)).is_ok());
        assert_eq!(HopCount::read(&through(LIMIT)), Err(LoopDetected));
        let in_one_line = HeaderMap::from_iter([(HEADER, HeaderValue::from_static("a,b,c,d,e,f,g,h"))]);
        assert_eq!(HopCount::read(&in_one_line), Err(LoopDetected));
    }

    #[test]
    fn a_circle_of_gateways_ends() {
        let mut headers = HeaderMap::new();
        let mut hops = 0;
        while let Ok(count) = HopCount::read(&headers) {
            headers.insert(HEADER, count.next());
            hops += 1;
        }
        assert_eq!(hops, LIMIT);
    }
}
