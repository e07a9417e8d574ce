//! `Accept`: any value is a decision.
#![no_main]

use libfuzzer_sys::fuzz_target;
use restap_gateway::restap::Delivery;

fuzz_target!(|input: (bool, Vec<&str>)| {
    let (streaming, lines) = input;
    let _ = Delivery::negotiate(lines.iter().copied(), streaming);
});
